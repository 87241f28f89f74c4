"""Compares desired with live schedules and applies changes, one transaction per tenant."""
