"""Timetables: what a cron expression means, and when it fires in a time zone."""
