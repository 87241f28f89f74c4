"""`tenantcron man`: writes the manual pages."""

import argparse
from pathlib import Path

from tenantcron.core.errors import UsageError

_EXAMPLES = """\
examples:
  tenantcron man ~/.local/share/man/man1    then: man tenantcron-execution
  tenantcron man /usr/local/share/man/man1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the folder."""
    parser.description = "Write the manual pages of tenantcron and its commands into a folder."
    parser.epilog = _EXAMPLES
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder to write them into")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the pages."""
    from tenantcron.cli.manual_pages import pages  # noqa: PLC0415 -- it imports all commands

    folder: Path = arguments.folder
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages():
            (folder / name).write_text(text, encoding="utf-8")
            count += 1
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}") from error
    print(f"{count} pages are in {folder}")
    return 0
