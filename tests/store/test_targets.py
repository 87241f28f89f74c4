"""Database URLs."""

import pytest

from tenantcron.core.errors import UsageError
from tenantcron.store.targets import target_of


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_are_read(scheme: str) -> None:
    target = target_of(f"{scheme}://app:p%2Fw@db.example:6432/scheduler?sslmode=require")

    assert str(target) == "app@db.example:6432/scheduler"
    assert target.parameters["password"] == "p/w"  # noqa: S105 -- made up
    assert target.parameters["sslmode"] == "require"


def test_the_url_may_say_otherwise_than_the_defaults() -> None:
    plain = target_of("postgresql://db/x").parameters
    told = target_of("postgresql://db/x?connect_timeout=3&application_name=deploy").parameters

    assert (plain["connect_timeout"], plain["application_name"]) == ("10", "tenantcron")
    assert (told["connect_timeout"], told["application_name"]) == ("3", "deploy")


def test_several_hosts_are_read() -> None:
    assert target_of("postgresql://a:5432,b:5433/x").parameters["host"] == "a,b"


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
        "hunter2",
    ],
)
def test_a_bad_url_is_wrong_use_and_shows_nothing_of_the_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        target_of(url)

    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_repr_shows_no_parameters() -> None:
    assert "hunter2" not in repr(target_of("postgresql://app:hunter2@db/x"))
