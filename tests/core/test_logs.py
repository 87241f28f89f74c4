"""The output of logs."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from tenantcron.core.logs import configure_logs
from tenantcron.core.settings import LogFormat, LogLevel, Settings
from tenantcron.core.standard_logging import forget_standard_logging

JSON = Settings(folder=Path(), log_format=LogFormat.JSON)


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restore the configuration of logs."""
    yield
    structlog.reset_defaults()
    forget_standard_logging()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_begin_with_time_level_and_event() -> None:
    stream = io.StringIO()
    configure_logs(JSON, stream)

    structlog.get_logger().info("execution_started", tenant="acme")

    (line,) = lines(stream)
    assert list(line) == ["timestamp", "level", "event", "tenant"]
    assert (line["level"], line["event"], line["tenant"]) == ("info", "execution_started", "acme")
    assert datetime.fromisoformat(str(line["timestamp"])).tzinfo == UTC


def test_fields_of_the_context_and_of_more_processors_are_in_every_event() -> None:
    def add_actor(
        _logger: object, _method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        return {**event, "actor": "ada"}

    stream = io.StringIO()
    configure_logs(JSON, stream, add_actor)
    with bound_contextvars(saga="reconcile"):
        structlog.get_logger().info("execution_started")

    (line,) = lines(stream)
    assert (line["actor"], line["saga"]) == ("ada", "reconcile")


def test_ids_and_times_are_written_as_text() -> None:
    stream = io.StringIO()
    configure_logs(JSON, stream)

    structlog.get_logger().info("x", id=UUID(int=1), at=datetime(2026, 1, 1, tzinfo=UTC))

    (line,) = lines(stream)
    assert line["id"] == "00000000-0000-0000-0000-000000000001"
    assert line["at"] == "2026-01-01 00:00:00+00:00"


@pytest.mark.parametrize("format_", list(LogFormat))
def test_an_exception_is_written_with_its_traceback_and_no_local_variables(
    format_: LogFormat,
) -> None:
    stream = io.StringIO()
    configure_logs(Settings(folder=Path(), log_format=format_), stream)
    password = "hunter" + "2"
    try:
        int(password[:6])
    except ValueError:
        structlog.get_logger().exception("loop_failed")

    assert "ValueError: invalid literal" in stream.getvalue()
    assert "Traceback" in stream.getvalue()
    assert password not in stream.getvalue()


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (LogLevel.DEBUG, ["debug", "info", "warning", "error"]),
        (LogLevel.INFO, ["info", "warning", "error"]),
        (LogLevel.WARNING, ["warning", "error"]),
        (LogLevel.ERROR, ["error"]),
    ],
)
def test_events_below_the_level_are_not_written(level: LogLevel, expected: list[str]) -> None:
    stream = io.StringIO()
    configure_logs(Settings(folder=Path(), log_format=LogFormat.JSON, log_level=level), stream)
    log = structlog.get_logger()
    for name in LogLevel:
        getattr(log, name.value)("event")

    assert [line["level"] for line in lines(stream)] == expected


def test_a_terminal_gets_readable_lines_and_other_streams_get_json() -> None:
    default = Settings(folder=Path())
    terminal, file = Terminal(), io.StringIO()
    configure_logs(default, terminal)
    structlog.get_logger().info("to_people")
    configure_logs(default, file)
    structlog.get_logger().info("to_a_file")

    assert "to_people" in terminal.getvalue()
    assert "{" not in terminal.getvalue()
    assert lines(file)[0]["event"] == "to_a_file"


def test_the_console_format_has_colours_on_a_terminal_only() -> None:
    console = Settings(folder=Path(), log_format=LogFormat.CONSOLE)
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        configure_logs(console, stream)
        structlog.get_logger().info("event", tenant="acme")

    assert "\x1b" not in file.getvalue()
    assert "tenant=acme" in file.getvalue()
    assert "\x1b" in terminal.getvalue()


def test_readable_lines_begin_with_the_subject_and_repeat_no_value() -> None:
    stream = io.StringIO()
    configure_logs(Settings(folder=Path(), log_format=LogFormat.CONSOLE), stream)
    execution = "2d1e6b73-a129-572f-b3b4-c8b26a1a78eb"
    fields: dict[str, object] = {"schedule": "nightly", "tenant": "acme", "execution": execution}
    log = structlog.get_logger().bind(attempt=1, correlation_id=execution, **fields)
    log.info("same", saga="nightly")
    log.bind(correlation_id="another").info("other", saga="reconcile")

    same, other = (line.partition("]")[2].split() for line in stream.getvalue().splitlines())
    subject = ["tenant=acme", "schedule=nightly", "execution=2d1e6b73", "attempt=1"]
    assert same == ["same", *subject]
    assert other == ["other", *subject, "correlation_id=another", "saga=reconcile"]


def test_validate_does_not_load_structlog() -> None:
    script = (
        "import sys\n"
        "from tenantcron.cli.main import main\n"
        "sys.exit(main(['validate', 'examples/manifests/acme.yaml']) or 'structlog' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root, capture_output=True)


def test_records_of_the_standard_library_become_events() -> None:
    stream = io.StringIO()
    configure_logs(JSON, stream)

    with bound_contextvars(saga="reconcile"):
        logging.getLogger("billing").info("read %d meters", 3)
        logging.getLogger("billing").debug("too much detail")
        logging.getLogger("psycopg").warning("query not terminated after cancellation")

    assert [
        (line["level"], line["event"], line["logger"], line["saga"]) for line in lines(stream)
    ] == [
        ("info", "read 3 meters", "billing", "reconcile"),
        ("warning", "query not terminated after cancellation", "psycopg", "reconcile"),
    ]
