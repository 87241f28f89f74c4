"""Timetables: the meaning of cron expressions, and when they fire in a time zone."""
