"""`tenantcron completion`: prints the completion script of a shell."""

import argparse
import sys
from importlib.resources import files

SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
examples:
  tenantcron completion bash > ~/.local/share/bash-completion/completions/tenantcron
  tenantcron completion zsh > ~/.zfunc/_tenantcron    a folder of $fpath, before compinit
  tenantcron completion fish > ~/.config/fish/completions/tenantcron.fish
  source <(tenantcron completion bash)                in this shell only
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.description = (
        "Print a script that completes commands, options, tenants and schedules.\n"
        "Names come from the cluster, or from the manifests in the folder."
    )
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=SHELLS, help="shell to complete in")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    script = files("tenantcron.cli.shells") / f"tenantcron.{arguments.shell}"
    sys.stdout.write(script.read_text(encoding="utf-8"))
    return 0
