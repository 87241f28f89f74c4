"""`tenantcron schema`: prints the JSON Schema, for completion and checks in editors."""

import argparse
import sys

from tenantcron.manifests.language.schemas import schema_text

_EXAMPLES = """\
examples:
  tenantcron schema > manifest.schema.json
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the schema."""
    sys.stdout.write(schema_text(arguments.name))
    return 0
