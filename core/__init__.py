"""What every folder may import: names, durations, errors."""
