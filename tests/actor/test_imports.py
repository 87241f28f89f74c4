"""The modules of actors do not load a database library."""

import subprocess
import sys

import pytest

LIGHT = ("model", "context", "attribution", "origin", "logs")
# The modules for a service that executions call. Only the last one loads a web framework.
RECEIVING = ("key_sets", "verification", "introspection", "signatures", "receiving")
DATABASE = ("sqlalchemy", "psycopg", "alembic")


@pytest.mark.parametrize("module", LIGHT)
def test_a_module_loads_no_database_library(module: str) -> None:
    code = (
        f"import sys, tenantcron.actor.{module}\n"
        "sys.exit(str([name for name in ('sqlalchemy', 'psycopg') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("module", RECEIVING)
def test_a_receiver_loads_no_database_library_and_no_scheduler(module: str) -> None:
    code = (
        f"import sys, tenantcron.actor.{module}\n"
        "ours = {name.split('.')[1] for name in sys.modules if name.startswith('tenantcron.')}\n"
        f"print(sorted(ours), [name for name in {DATABASE} if name in sys.modules],"
        " 'starlette' in sys.modules, 'fastapi' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    framework = module == "receiving"
    assert done.stdout.strip() == f"['actor', 'core'] [] {framework} False"


def test_a_scheduler_that_mints_no_token_loads_no_cryptography() -> None:
    code = (
        "import sys, tenantcron.cli.run\n"
        "print([name for name in ('jwt', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]"
