"""`tenantcron serve`: serves the REST API and the dashboard, in any number of processes."""

import argparse
import asyncio
import sys

from tenantcron.actor.logs import add_actor
from tenantcron.cli.clusters.choice import database_only
from tenantcron.cli.database import loop_factory, migrated_database
from tenantcron.cli.environment import current_settings
from tenantcron.cli.login_rights import warn_of_excess_rights
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import add_database
from tenantcron.cli.server_identity import warn_of_unverified_server
from tenantcron.core.errors import UsageError
from tenantcron.core.logs import configure_logs
from tenantcron.core.memory import collect_rarely
from tenantcron.store.connection.read_replica import watched_replica

try:
    from tenantcron.api.serving import Address, open_service, serve
    from tenantcron.web.app import create_app
except ModuleNotFoundError as error:
    if error.name not in ("fastapi", "jinja2", "uvicorn", "httpx", "jwt"):
        raise
    raise UsageError("the API is not installed: pip install 'tenantcron[api]'") from error

_EXAMPLES = """\
examples:
  tenantcron serve                                  serve http://127.0.0.1:8080 with tokens
  tenantcron serve --host 0.0.0.0 --port 80         serve behind a proxy that terminates TLS
  tenantcron serve --anonymous                      try it out: no tokens, this machine only
  tenantcron token create ci --role deployer        create a token; it is shown once
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Serve the REST API for authenticated callers and the dashboard on the same address. The "
        "policy is read from the working directory."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument("--host", default="127.0.0.1", help="listen on this address (127.0.0.1)")
    parser.add_argument(
        "--port", type=number(0, 65_535), default=8080, help="listen on this port (8080)"
    )
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="serve callers without a token; loopback addresses only",
    )
    add_database(parser)
    parser.set_defaults(run=database_only(run))


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    address = Address(arguments.host, arguments.port, arguments.anonymous)
    configure_logs(current_settings(), sys.stderr, add_actor)
    collect_rarely()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(address))
    return 0


async def _serve(address: Address) -> None:
    found = current_settings()
    warn_of_unverified_server(found)
    async with migrated_database(found.api_timeout) as database:
        await warn_of_excess_rights(database, found, "tenantcron_operate")
        url = found.read_database_url
        async with watched_replica(url, database, found.api_timeout) as replica:
            service = await open_service(
                database, found, anonymous=address.anonymous, read_replica=replica
            )
            await serve(create_app(service), service, address)
