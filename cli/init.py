"""`tenantcron init`: writes a small project that validates and runs."""

import argparse
import shlex
from importlib.resources import files
from pathlib import Path

from tenantcron.core.errors import UsageError
from tenantcron.core.words import visible

_EXAMPLES = """\
examples:
  tenantcron init            write the files into the working directory
  tenantcron init shop       write them into the folder shop
"""

# Each file, its template in `starter/`, and its purpose.
_FILES = (
    ("tenantcron.toml", "tenantcron.toml", "the policy that manifests must follow"),
    ("manifests/acme.yaml", "acme.yaml", "the schedules of the tenant acme"),
    ("handlers.py", "handlers.py", "the code that they run"),
    (".pre-commit-config.yaml", "pre-commit-config.yaml", "checks manifests before a commit"),
    ("README.md", "README.md", "the next commands"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = (
        "Write a small project: a manifest, its handlers, a policy and a hook for pre-commit. "
        "Existing files are never overwritten."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="write the files here (working directory)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write all files, or none if one of them exists."""
    folder: Path = arguments.folder
    texts = {name: _text(template) for name, template, _ in _FILES}
    _refuse_existing(folder, texts)
    try:
        for name, text in texts.items():
            _write(folder / name, text)
    except OSError as error:
        raise UsageError(
            f"{visible(str(error.filename))} cannot be written ({error.strerror}): "
            "choose a folder in which you may create files"
        ) from error
    _show_next_steps(folder)
    return 0


def _text(template: str) -> str:
    return (files("tenantcron.cli") / "starter" / template).read_text(encoding="utf-8")


def _refuse_existing(folder: Path, names: dict[str, str]) -> None:
    existing = [name for name in names if (folder / name).exists()]
    if existing:
        raise UsageError(
            f"nothing was written, because {visible(str(folder.resolve()))} already has "
            f"{', '.join(existing)}: choose an empty folder with `tenantcron init FOLDER`"
        )


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as new:
        new.write(text)


def _show_next_steps(folder: Path) -> None:
    is_here = folder.resolve() == Path.cwd()
    width = max(len(name) for name, _, _ in _FILES)
    place = "this folder" if is_here else visible(str(folder))
    print(f"A new project is in {place}:")
    for name, _, purpose in _FILES:
        print(f"  {name:<{width}}  {purpose}")
    print("\nNext:")
    if not is_here:
        print(f"  cd {shlex.quote(str(folder))}")
    print("  tenantcron dev                                     start it, with a dashboard")
    print("  tenantcron schedule trigger acme/say_hello --wait  run it in a second terminal")
