"""Tenants: the registry, and the life of each from creation to deprovisioning."""
