"""What `plan` and `apply-manifest` share: their options, the manifests, and how they report."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tenantcron.answers.outcomes import answer
from tenantcron.answers.shapes import OutcomesAnswer
from tenantcron.cli.formats.outcomes_markdown import markdown
from tenantcron.cli.formats.outcomes_text import show
from tenantcron.cli.tables import output
from tenantcron.manifests.files import ManifestFile, Policies, find_files, read_files
from tenantcron.reconciler.fleet import Progress as Step
from tenantcron.reconciler.outcome import Outcome, Status
from tenantcron.reconciler.plan import Rules
from tenantcron.store.engine import Database
from tenantcron.store.times import database_time

_NO_RULES = Rules()


def configure_sources(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declare the options that say what is to be applied, and how it is reported."""
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
    parser.add_argument("--format", choices=["text", "json"], default="text")


def manifests(arguments: argparse.Namespace) -> list[ManifestFile]:
    """Read the manifests."""
    files = find_files(arguments.paths)
    return list(read_files(files, Policies(arguments.policy), arguments.tenant))


def _max_deletes(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def rules(arguments: argparse.Namespace, reviewed: Rules = _NO_RULES) -> Rules:
    """Return what the apply may do: what was reviewed with a plan, and what the options add."""
    given = arguments.max_deletes
    return Rules(
        create_tenants=arguments.create_tenants or reviewed.create_tenants,
        max_deletes=reviewed.max_deletes if given is None else given,
    )


@contextmanager
def progress(title: str, total: int) -> Iterator[Step]:
    """Show a bar on a terminal while many tenants are worked on."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


@dataclass(frozen=True, slots=True)
class Report:
    """Tells what became of the tenants, on the terminal, to programs, and to the pipeline."""

    title: str
    output: str

    async def tell(self, database: Database, outcomes: Sequence[Outcome]) -> None:
        """Report; the next executions count from the database's time."""
        async with database.transaction() as connection:
            now = await database_time(connection)
        self.show(answer(outcomes, now))

    def show(self, told: OutcomesAnswer) -> None:
        """Report an answer."""
        if self.output == "json":
            print(json.dumps(told, indent=2))
        else:
            show(told, output())
        self._tell_pipeline(told)

    def _tell_pipeline(self, told: OutcomesAnswer) -> None:
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if not page:
            return
        try:
            with Path(page).open("a", encoding="utf-8") as stream:
                stream.write(markdown(self.title, told))
        except OSError as error:
            # What was to be done is done; a page that cannot be written must not fail the pipeline.
            print(f"warning: {page}: {error.strerror}", file=sys.stderr)


def any_failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether any tenant was refused."""
    return any(one.status is Status.FAILED for one in outcomes)
