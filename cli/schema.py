"""`tenantcron schema`: prints the JSON Schema, for completion and checks in editors."""

import argparse
import sys
from pathlib import Path

_EXAMPLES = """\
examples:
  tenantcron schema > manifest.schema.json
  tenantcron schema --policy tenantcron.toml > manifest.schema.json
  # yaml-language-server: $schema=manifest.schema.json    as the first line of a manifest
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Print the JSON Schema of manifests or of the [policy] table."
    parser.epilog = _EXAMPLES
    words = "schema to print (manifest)"
    parser.add_argument(
        "name", nargs="?", choices=["manifest", "policy"], default="manifest", help=words
    )
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="offer the presets of this tenantcron.toml"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    from tenantcron.manifests.editor_schema import editor_schema  # noqa: PLC0415 -- only needed here
    from tenantcron.manifests.policy import load_policy  # noqa: PLC0415 -- as above

    presets = load_policy(arguments.policy).presets if arguments.policy else ()
    sys.stdout.write(editor_schema(arguments.name, presets))
    return 0
