"""Prometheus' own tool, which checks metrics and runs the tests of alert rules."""

import os
import shutil

import pytest


def promtool() -> str:
    """Return the command; without it the test is skipped, but never where PROMTOOL names one."""
    named = os.environ.get("PROMTOOL")
    found = shutil.which(named or "promtool")
    if named and found is None:
        pytest.fail(f"there is no {named}: install Debian's package prometheus")
    if found is None:
        pytest.skip("promtool is not installed: Debian has it in the package prometheus")
    return found
