"""The warning about a login with more privileges than a process needs."""

from pathlib import Path

from structlog.testing import capture_logs

from tenantcron.cli.login_rights import warn_of_excess_rights
from tenantcron.core.settings import Settings
from tenantcron.store.connection.engine import Database


async def test_the_embedded_server_is_not_warned_about(
    database: Database, database_url: str
) -> None:
    """The only login of the embedded server is a superuser, like that of the tests."""
    with capture_logs() as logs:
        await warn_of_excess_rights(database, Settings(folder=Path()), "tenantcron_run")
        assert logs == []
        own = Settings(database_url=database_url, folder=Path())
        await warn_of_excess_rights(database, own, "tenantcron_run")

    (line,) = logs
    assert (line["event"], line["rights"]) == ("login_has_excess_rights", ["superuser"])
    assert "tenantcron_run" in line["hint"]
