"""Knowing who acts costs no database library."""

import subprocess
import sys

import pytest

LIGHT = ("model", "context", "attribution", "origin", "logs")


@pytest.mark.parametrize("module", LIGHT)
def test_a_module_loads_no_database_library(module: str) -> None:
    code = (
        f"import sys, tenantcron.actor.{module}\n"
        "sys.exit(str([name for name in ('sqlalchemy', 'psycopg') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"
