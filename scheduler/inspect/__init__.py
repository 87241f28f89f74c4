"""Inspection: the status of schedules, `why`, health and audit."""
