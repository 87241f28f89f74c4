"""What `plan` and `apply-manifest` are called with, whether they ask a database or a server."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from tenantcron.manifests.files import ManifestFile, Policies, find_files, read_files


def configure_sources(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declare the options that say what is to be applied, where, and how it is reported."""
    paths = "+" if required else "*"
    parser.add_argument("paths", nargs=paths, type=Path, metavar="PATH", help="files or folders")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="use this tenantcron.toml")
    parser.add_argument("--tenant", metavar="ID", help="whose manifest it is, if it does not say")
    parser.add_argument(
        "--max-deletes",
        type=_max_deletes,
        metavar="N",
        help="delete at most N schedules of a tenant (default: half of them, at least 5)",
    )
    parser.add_argument(
        "--create-tenants", action="store_true", help="create tenants that do not exist"
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="ask this server, with the token in TENANTCRON_TOKEN, instead of a database",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text")


def manifest_paths(arguments: argparse.Namespace) -> list[Path]:
    """Find the manifests."""
    return find_files(arguments.paths)


def read_manifests(arguments: argparse.Namespace, paths: Iterable[Path]) -> Iterator[ManifestFile]:
    """Read the manifests, one after the other."""
    return read_files(paths, Policies(arguments.policy), arguments.tenant)


def _max_deletes(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)
