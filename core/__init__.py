"""Basics that every folder may import: names, durations, settings, errors and egress rules."""
