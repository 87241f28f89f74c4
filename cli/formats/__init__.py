"""Output formats: text, GitHub annotations, job summaries and SARIF."""
