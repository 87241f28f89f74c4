"""Prometheus' promtool, which checks metrics and tests alert rules."""

import os
import shutil

import pytest


def promtool() -> str:
    """Return the command; skip the test without it, or fail if PROMTOOL is set."""
    named = os.environ.get("PROMTOOL")
    found = shutil.which(named or "promtool")
    if named and found is None:
        pytest.fail(f"there is no {named}: install Debian's package prometheus")
    if found is None:
        pytest.skip("promtool is not installed: Debian has it in the package prometheus")
    return found
