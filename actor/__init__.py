"""Who acts: actors, their context, and what is written down about a change."""
