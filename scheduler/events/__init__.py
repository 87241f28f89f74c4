"""Events on their way to webhooks."""
