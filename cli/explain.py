"""`tenantcron explain`: explains a diagnostic code, why it exists and how to fix it."""

import argparse
import json

from tenantcron.cli.formats.wrapping import wrapped
from tenantcron.core.errors import UsageError
from tenantcron.core.suggest import close_match
from tenantcron.manifests.language.rules import RULES, Rule
from tenantcron.reconciler.refusals import REFUSALS
from tenantcron.service.responses.problem_types import PROBLEMS

_EXAMPLES = """\
examples:
  tenantcron explain TC301
  tenantcron explain interval-below-floor
  tenantcron explain                         list all codes
"""

_MARGIN = " " * len("Why   ")
# Errors of manifests, refusals of an apply, problems of the API.
_ALL = RULES | REFUSALS | {code: kind.rule for code, kind in PROBLEMS.items()}
_LONGEST_NAME = max(len(rule.name) for rule in _ALL.values())


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Explain a diagnostic code; without a code, list all codes."
    parser.epilog = _EXAMPLES
    parser.add_argument("code", nargs="?", metavar="CODE", help="code or name, such as TC301")
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="set the output format (text)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain a rule, or list all rules."""
    rules = [_find(arguments.code)] if arguments.code else list(_ALL.values())
    if arguments.format == "json":
        print(json.dumps([_as_json(rule) for rule in rules], indent=2))
    elif arguments.code:
        print(_as_text(rules[0]))
    else:
        for rule in rules:
            name = f"{rule.code}  {rule.name:<{_LONGEST_NAME}}  "
            print("\n".join(wrapped(rule.what, first=name, rest=" " * 8)))
    return 0


def _find(word: str) -> Rule:
    by_name = {rule.name: rule for rule in _ALL.values()}
    rule = _ALL.get(word.upper()) or by_name.get(word.lower())
    if rule is None:
        meant = close_match(word.lower(), by_name)
        hint = f"did you mean {meant}?" if meant else "`tenantcron explain` lists all codes"
        raise UsageError(f"there is no code {word}; {hint}")
    return rule


def _as_text(rule: Rule) -> str:
    lines = [
        f"{rule.code} {rule.name} ({rule.severity})",
        "",
        *wrapped(rule.what),
        "",
        *wrapped(rule.why, first="Why   ", rest=_MARGIN),
        *wrapped(rule.fix, first="Fix   ", rest=_MARGIN),
    ]
    return "\n".join(lines)


def _as_json(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "what": rule.what,
        "why": rule.why,
        "fix": rule.fix,
    }
