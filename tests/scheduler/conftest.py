"""Shared fixtures of the scheduler's tests."""

from support.scheduling_fixtures import real, scheduling

__all__ = ["real", "scheduling"]
