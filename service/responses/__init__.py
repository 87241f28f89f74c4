"""Responses as JSON, for the API and the command line; the keys are stable."""
