"""How `plan` and `apply-manifest` report: on the terminal, to programs, and to the pipeline."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tenantcron.answers.shapes import OutcomesAnswer
from tenantcron.cli.formats.outcomes_markdown import markdown
from tenantcron.cli.formats.outcomes_text import show
from tenantcron.cli.tables import output


@dataclass(frozen=True, slots=True)
class Report:
    """Tells what became of the tenants."""

    title: str
    output: str

    def tell(self, told: OutcomesAnswer) -> None:
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


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal while many tenants are worked on."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


def any_failed(told: OutcomesAnswer) -> bool:
    """Whether any tenant was refused."""
    return told["summary"]["failed"] > 0


def any_planned(told: OutcomesAnswer) -> bool:
    """Whether there is anything to change."""
    return any(one["status"] == "planned" for one in told["tenants"])
