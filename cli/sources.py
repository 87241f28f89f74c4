"""Arguments of `plan` and `apply-manifest`, for a database or a server."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from tenantcron.manifests.files import ManifestFile, Policies, find_files, read_files

SERVER = "use this server, with the token in TENANTCRON_TOKEN"
CONTEXT = "use this context, see `tenantcron context`"
WIDE = "show tables in full, even if lines get too long"


def configure_sources(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declare the manifests, the rules, the server and the output format."""
    paths = "+" if required else "*"
    parser.add_argument("paths", nargs=paths, type=Path, metavar="PATH", help="files or folders")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="use this tenantcron.toml")
    parser.add_argument(
        "--tenant", metavar="ID", help="set the tenant of a manifest that does not name one"
    )
    parser.add_argument(
        "--max-deletes",
        type=_max_deletes,
        metavar="N",
        help="delete at most N schedules per tenant (half, at least 5)",
    )
    parser.add_argument(
        "--create-tenants", action="store_true", help="create tenants that do not exist"
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help=SERVER,
    )
    parser.add_argument("--context", metavar="NAME", help=CONTEXT)
    parser.add_argument(
        "--format",
        choices=["text", "json", "yaml"],
        default="text",
        help="set the output format (text)",
    )
    parser.add_argument("--wide", action="store_true", help=WIDE)


def manifest_paths(arguments: argparse.Namespace) -> list[Path]:
    """Find the manifests."""
    return find_files(arguments.paths)


def read_manifests(
    arguments: argparse.Namespace, paths: Iterable[Path], policies: Policies
) -> Iterator[ManifestFile]:
    """Read the manifests one by one."""
    return read_files(paths, policies, arguments.tenant)


def _max_deletes(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return int(text)
