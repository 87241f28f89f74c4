"""Database URLs."""

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.store.connection.database_urls import target_of


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_are_accepted(scheme: str) -> None:
    target = target_of(f"{scheme}://app:p%2Fw@db.example:6432/scheduler?sslmode=require")

    assert str(target) == "app@db.example:6432/scheduler"
    assert target.parameters["password"] == "p/w"  # noqa: S105 -- made up
    assert target.parameters["sslmode"] == "require"


def test_the_url_overrides_the_defaults() -> None:
    plain = target_of("postgresql://db/x").parameters
    changed = target_of("postgresql://db/x?connect_timeout=3&application_name=deploy").parameters

    assert (plain["connect_timeout"], plain["application_name"]) == ("5", "tenantcron")
    assert (changed["connect_timeout"], changed["application_name"]) == ("3", "deploy")


@pytest.mark.parametrize(
    "url", ["postgresql://db/x", "postgresql://db1,db2/x", "postgresql:///x?hostaddr=10.0.0.1"]
)
def test_a_tcp_connection_detects_a_silent_server_within_20_seconds(url: str) -> None:
    found = target_of(url).parameters

    probes = int(found["keepalives_interval"]) * int(found["keepalives_count"])
    assert int(found["keepalives_idle"]) + probes < 20
    assert int(found["tcp_user_timeout"]) < 20_000


def test_keepalives_of_the_url_take_precedence() -> None:
    found = target_of("postgresql://db/x?keepalives_idle=60&tcp_user_timeout=0").parameters

    assert (found["keepalives_idle"], found["tcp_user_timeout"]) == ("60", "0")


@pytest.mark.parametrize("url", ["postgresql:///x", "postgresql:///x?host=%2Frun%2Fpostgresql"])
def test_a_connection_over_a_socket_has_no_keepalives(url: str) -> None:
    assert "keepalives_idle" not in target_of(url).parameters


def test_several_hosts_are_parsed_with_their_ports() -> None:
    url = "postgresql://app:p%2Cw@a:5432,b:5433/x?target_session_attrs=read-write"
    target = target_of(url)

    assert target.parameters["host"] == "a,b"
    assert target.parameters["port"] == "5432,5433"
    assert target.parameters["target_session_attrs"] == "read-write"
    assert str(target) == "app@a:5432,b:5433/x"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://app:hunter2@db/x",
        "postgresql+psycopg://app:hunter2@db/x",
        "postgresql://app:hunter2%zz@db/x",
        "postgresql://app:hunter2/more@db/x",
        "postgresql://app:22/hunter2@db",
        "postgresql://app:hunter2@db:70000/x",
        "postgresql://app:hunter2@db/x?hunter2=1",
        "postgresql://app:hunter2@db/x?connect_timeout=soon",
        "postgresql://app:hunter2@db/x?tcp_user_timeout=soon",
        "hunter2",
    ],
)
def test_an_invalid_url_is_a_usage_error_that_does_not_show_the_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        target_of(url)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_repr_shows_no_parameters() -> None:
    assert "hunter2" not in repr(target_of("postgresql://app:hunter2@db/x"))
