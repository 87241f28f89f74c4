"""Tenants: the registry, and their life cycle from creation to deprovisioning."""
