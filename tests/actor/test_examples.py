"""The examples print what their page shows, and the page shows their source."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "actor.md").read_text(encoding="utf-8")


def blocks(mark: str) -> list[tuple[str, str]]:
    """Return the files that marked blocks of the page refer to, and the text of the blocks."""
    block = rf"<!-- {mark}: (\S+) -->\n+```\w+\n(.*?)^```$"
    return re.findall(block, PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("file", "printed"), blocks("printed by"))
def test_an_example_prints_what_the_page_says(database_url: str, file: str, printed: str) -> None:
    command = [sys.executable, str(ROOT / file), database_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (printed, "")


def test_a_client_of_the_trigger_can_neither_forge_nor_avoid_the_history(database_url: str) -> None:
    schema = (ROOT / "examples" / "audit" / "schema.sql").read_text(encoding="utf-8")
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE SCHEMA audit_example")
        connection.execute("SET search_path TO audit_example")
        connection.execute(schema.encode())
        connection.execute("CREATE ROLE client_of_the_trigger")
        # What the role of a tenant's handlers gets.
        connection.execute("GRANT USAGE ON SCHEMA audit_example TO client_of_the_trigger")
        connection.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA audit_example"
            " TO client_of_the_trigger"
        )
        connection.execute("SET ROLE client_of_the_trigger")
        connection.execute("INSERT INTO invoice (customer, amount) VALUES ('Acme', 120)")
        for forged in ("INSERT INTO {} DEFAULT VALUES", "UPDATE {} SET id = 0", "DELETE FROM {}"):
            with pytest.raises(InsufficientPrivilege), connection.transaction():
                connection.execute(forged.format("audit_example_history.invoice").encode())
        connection.execute("RESET ROLE")
        found = connection.execute("SELECT operation FROM audit_example_history.invoice")
        assert found.fetchall() == [("insert",)]
        # Roles belong to the server, which other tests use, too.
        connection.rollback()


@pytest.mark.parametrize(("file", "shown"), blocks("from"))
def test_the_page_shows_the_text_of_an_example(file: str, shown: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert any(indent(shown, " " * depth) in text for depth in (0, 4, 8))


def test_the_page_shows_the_mixin_and_the_trigger() -> None:
    assert {file for file, _ in blocks("printed by")} == {
        "examples/audit/with_mixin.py",
        "examples/audit/with_trigger.py",
    }
    assert "examples/audit/schema.sql" in {file for file, _ in blocks("from")}
