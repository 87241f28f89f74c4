"""Who acts: actors, their context, what is written down about a change, and what proves one."""
