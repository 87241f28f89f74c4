"""Write the page of all diagnostics: `python docs/make_diagnostics.py > docs/diagnostics.md`."""

from collections.abc import Iterator
from pathlib import Path

from tenantcron.manifests.language.rules import RULES, Rule

MISTAKES = Path(__file__).parents[1] / "examples" / "mistakes"

_INTRODUCTION = """\
# Diagnostics

All diagnostics of `tenantcron validate`. `tenantcron explain TC301` shows one of them on the
command line. A code never changes its meaning; a retired code is not reused.

Errors make `validate` fail; warnings do so only with `--strict`.
"""
_FAMILIES = {
    "TC0": "The document",
    "TC1": "Structure",
    "TC2": "Timetables",
    "TC3": "Guardrails",
    "TC4": "Targets",
    "TC5": "Across files",
}
# Examples that are too large for a file.
_DESCRIBED_EXAMPLES = {
    "TC002": "a file of more than 1 MiB, or a list of 20,001 numbers",
    "TC303": "a report of 300 KiB pasted into `payload:`",
    "TC308": "20 schedules that share a named schedule with a payload of 250 KiB",
}


def render() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield "| code | name | severity | meaning |"
    yield "|---|---|---|---|"
    for rule in RULES.values():
        yield f"| [{rule.code}](#{_anchor(rule)}) | {rule.name} | {rule.severity} | {rule.what} |"
    for prefix, title in _FAMILIES.items():
        yield f"\n## {title}"
        for rule in RULES.values():
            if rule.code.startswith(prefix):
                yield from _section(rule)
    yield ""


def _section(rule: Rule) -> Iterator[str]:
    yield f"\n### {rule.code} {rule.name}\n"
    yield f"{rule.what} ({rule.severity.capitalize()})\n"
    yield f"- **Why:** {rule.why}"
    yield f"- **Fix:** {rule.fix}"
    if rule.code in _DESCRIBED_EXAMPLES:
        yield f"- **Example:** {_DESCRIBED_EXAMPLES[rule.code]}."
    for file in _examples(rule):
        link = file.relative_to(MISTAKES.parent).as_posix()
        yield f"- **Example:** [{link}](../examples/{link})\n"
        yield f"```{file.suffix.removeprefix('.')}\n{_shown(file)}\n```"


def _examples(rule: Rule) -> list[Path]:
    place = next(MISTAKES.glob(f"{rule.code}-*"), MISTAKES / "none")
    return sorted(place.iterdir()) if place.is_dir() else [place] if place.is_file() else []


def _shown(file: Path) -> str:
    """Return the text of a file without its line for editors."""
    text = file.read_bytes().decode("utf-8", errors="replace")
    return "\n".join(line for line in text.splitlines() if "yaml-language-server" not in line)


def _anchor(rule: Rule) -> str:
    return f"{rule.code}-{rule.name}".lower()


if __name__ == "__main__":
    print(render(), end="")
