"""`tenantcron serve`: the REST API and the dashboard, in as many processes as one likes."""

import argparse
import asyncio
import sys

from tenantcron.actor.logs import add_actor
from tenantcron.cli.database import loop_factory, migrated_database
from tenantcron.cli.login_rights import warn_of_excess_rights
from tenantcron.cli.numbers import number
from tenantcron.cli.operating import settings
from tenantcron.cli.server_identity import warn_of_unverified_server
from tenantcron.core.errors import UsageError
from tenantcron.core.logs import configure_logs
from tenantcron.core.memory import collect_rarely

try:
    from tenantcron.api.serving import Address, open_service, serve
    from tenantcron.web.app import create_app
except ModuleNotFoundError as error:
    if error.name not in ("fastapi", "jinja2", "uvicorn", "httpx", "jwt"):
        raise
    raise UsageError("the API is not installed: pip install 'tenantcron[api]'") from error

_EXAMPLES = """\
examples:
  tenantcron serve                                  on http://127.0.0.1:8080, with tokens
  tenantcron serve --host 0.0.0.0 --port 80         behind a proxy that speaks TLS
  tenantcron serve --anonymous                      for everybody on this machine, to try it out
  tenantcron token create ci --role deployer        a token, shown once
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Serve the REST API, the operations of the command line for callers who prove who they "
        "are, and the dashboard at the same address. The policy is the one of the working folder."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1, this machine only")
    parser.add_argument("--port", type=number(0, 65_535), default=8080, help="default: 8080")
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="serve callers without a token, too; on a loopback address only",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    address = Address(arguments.host, arguments.port, arguments.anonymous)
    configure_logs(settings(), sys.stderr, add_actor)
    collect_rarely()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(address))
    return 0


async def _serve(address: Address) -> None:
    found = settings()
    warn_of_unverified_server(found)
    async with migrated_database(found.api_timeout) as database:
        await warn_of_excess_rights(database, found, "tenantcron_operate")
        service = await open_service(database, found, anonymous=address.anonymous)
        await serve(create_app(service), service, address)
