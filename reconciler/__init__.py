"""Desired against live: diff, plan, guards, and apply in one transaction per tenant."""
