"""What every folder may import: names, durations, settings, errors, and what may be called."""
