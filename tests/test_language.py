"""The prose of the areas in `CLEAN` is plain engineering English.

`WORDS` has the words and phrases that do not belong there, each with its replacement. They are
looked for in comments, docstrings, other strings and the names of functions and classes of Python
files, and in the full text of all other files. `NAMES` may not be names of variables: a variable is
named after what it holds.

To add an area, rewrite it and add its files to `CLEAN`. `python tests/test_language.py PATH...`
prints the findings of any files or folders.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent

# Files whose prose is clean, as patterns of `Path.glob`.
CLEAN: Final = (
    *("actor/**/*", "core/**/*", "store/**/*", "targets/**/*", "tests/core/*"),
    *("tests/actor/*", "tests/bare/*", "tests/postgres/*", "tests/store/*", "tests/targets/*"),
    *("cron/**/*", "tests/cron/*", "faults/**/*", "tests/faults/*"),
    *("bench/**/*", "tests/test_bench.py"),
    "examples/**/*",
    *("docs/site/templates/*", "docs/site/static/*", "docs/words.txt", "tests/docs/*"),
    *("tests/support/*", "tests/test_docs.py"),
    *("README.md", "CHANGELOG.md", "docs/**/*.md", "docs/**/*.py", "deploy/**/*", "tests/deploy/*"),
    *("tests/test_d*.py", "tests/test_p*.py", "tests/test_wheels.py"),
    *("manifests/**/*", "tests/manifests/*", "schedules/**/*", "tests/schedules/*"),
    *("Makefile", "SECURITY.md", "CONTRIBUTING.md", ".github/**/*"),
    *("tests/test_locks.py", "tests/test_supply_chain.py", "tests/test_workflows.py"),
    *("provider/**/*", "tests/provider/*", "tenants/**/*", "tests/tenants/*"),
    *("cli/**/*", "api/**/*", "service/**/*", "reconciler/**/*"),
    *("tests/cli/*", "tests/api/*", "tests/web/*", "tests/reconciler/*", "tests/test_names.py"),
    *("web/*.py", "web/templates/*", "web/static/live.js", "web/static/style.css"),
    *("scheduler/**/*", "package/*.py"),
    *("tests/scheduler/**/*", "tests/interleavings/*", "tests/upgrades/*"),
    # Not the versions: a migration that has landed never changes.
    *("migrations/*.py", "tests/migrations/*"),
)

# A word or phrase as a regular expression, and its replacement.
WORDS: Final = {
    r"nobody": "name the subject: no user, no replica, nothing",
    r"somebody|anybody|everybody": "name the subject: a user, another session, every replica",
    r"someone|anyone|everyone": "name the subject: a user, any client, every replica",
    r"whoever|whomever": "name the subject: the caller, the process that",
    r"anew": "again, new",
    r"mend(s|ed|ing)?|set right": "fix",
    r"reckon(s|ed|ing)?": "compute, calculate, treat as",
    r"tells?|told|telling": "report, show, return, print; is notified, receives",
    r"gets? to know": "receives, is notified",
    r"(hold|holds|held|holding)( [\w`]+){1,7} against": "compare A with B",
    r"on record": "recorded",
    r"the whole": "the cluster, the system; the entire X, all of X",
    r"(is|are|be|bring|brings|brought) in(to)? line": "in sync, sync",
    r"set aside": "quarantined",
    r"left out|passed over|passes over": "skipped, omitted",
    r"taken up|takes? up": "picked up",
    r"settles?|settled|settling": "mark as synced; finish; normalise",
    r"go(es)? on|went on": "continue",
    r"(give|gives|given|giving|gave|hand|hands|handed) back": "release, return",
    r"owes?|owed": "is due, due occurrences",
    r"by hand": "manually",
    r"(a|the|some) hands?": "a manual change, a user",
    r"what (waits|runs)": "pending executions, running executions",
    r"(stand|stands|stood|standing) for": "cover, represent, mean",
    r"(stand|stands|stood) still": "stall, hang",
    r"in the name of|in whose name": "as, on behalf of",
    r"dear|dearly": "expensive",
    r"of (its|their|our|your) own(?! [a-z`]{4,})": "its own X, a separate X",
    r"kept apart|keeps? apart": "isolate, separate",
    r"doubled": "duplicated; doubles",
    r"one likes|they like|it likes": "any, any number of",
    r"blanks": "spaces",
    r"clocks? on the wall": "local (wall-clock) time",
    r"late by": "delayed by",
    r"without a word": "silently, without an error",
    r"(see|sees|saw|seen) to (it|that)": "ensure",
    r"all the same": "still, anyway",
    r"heard of": "has sent a heartbeat",
    r"in the midst": "during, in the middle of",
    r"now and then": "periodically, occasionally",
    r"proven? nobody|proves? nothing": "is not authenticated",
    r", for (it|they|that|there|what|we|nothing)": ("because, since (or start a new sentence)"),
}

# Names of variables that do not say what they hold.
NAMES: Final = {
    "one": "name it after its element: `for schedule in schedules`",
    "whole": "name what it is: `document`, `text`",
    "told": "name what it is: `message`, `reported`",
    "said": "name what it is: `output`, `message`",
    "written": "name what it is: `text`, `rows`",
    "reckon": "`compute`",
    "mend": "`fix`",
}

# Findings that are right as they are, by file and text (both patterns), with the reason.
EXCEPTIONS: Final = {
    ("deploy/alerts.test.yml", "doubled"): "a code of the audit",
    ("docs/runbook.md", "doubled"): "a code of the audit",
    ("examples/platform/my_platform.py", "settle"): "a method of the provider protocol",
    ("provider/*.py", "settle"): "a method of the provider protocol",
    ("tests/provider/*.py", "settle"): "as above",
    ("scheduler/inspect/audit_*.py", "doubled"): "a code of the audit",
    ("tests/scheduler/test_audit.py", "doubled"): "as above",
}

# Anything but space between two phrases, so that no phrase is found across code.
_CODE: Final = "\0"
_PROSE: Final = frozenset(
    number
    for number, kind in tokenize.tok_name.items()
    if kind in {"COMMENT", "STRING", "FSTRING_MIDDLE"}
)
_NOT_TEXT: Final = frozenset({".png", ".pyc"})


class Finding(NamedTuple):
    """A word or a name that does not belong in a file, and its replacement."""

    path: str
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        """Return it as `file:line`, for people and editors."""
        return f"{self.path}:{self.line}: `{self.found}`: write: {self.instead}"


def _spaced(words: str) -> str:
    # A phrase may go over the end of a line, and there over the mark of a comment.
    return words.replace(" ", r"\s+(?:#\s+)?")


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{_spaced(words)})(?![\w-])", re.IGNORECASE)


_PATTERNS: Final = [(_pattern(words), instead) for words, instead in WORDS.items()]
# All of them, for lower-case text. Without a look-behind, `re` skips to their first letters.
_ANY: Final = re.compile(f"(?:{'|'.join(map(_spaced, WORDS))})(?![\\w-])")


def _may_have_findings(text: str) -> bool:
    """Whether a word is in a text. The separate patterns take forty times as long."""
    lowered, start = text.lower(), 0
    while match := _ANY.search(lowered, start):
        start = match.start() + 1
        if start == 1 or not re.match(r"[\w-]", lowered[start - 2]):
            return True
    return False


def in_text(path: str, text: str) -> list[Finding]:
    """Find the words of `WORDS` in a text."""
    if not _may_have_findings(text):
        return []
    found = [
        Finding(path, text.count("\n", 0, match.start()) + 1, _on_one_line(match[0]), instead)
        for pattern, instead in _PATTERNS
        for match in pattern.finditer(text)
    ]
    return sorted(found)


def _on_one_line(found: str) -> str:
    return " ".join(found.replace("#", " ").split())


def in_python(path: str, source: str) -> list[Finding]:
    """Find the words of `WORDS` in comments, strings and names, and variables of `NAMES`."""
    tree = ast.parse(source)
    return sorted([*in_text(path, prose_of(source)), *_names(path, tree), *_variables(path, tree)])


def prose_of(source: str) -> str:
    """Return the comments and strings of Python source where they are, and nothing else."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    shown = list(re.sub(r"\S", _CODE, source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _PROSE:
            first = starts[token.start[0] - 1] + token.start[1]
            last = starts[token.end[0] - 1] + token.end[1]
            shown[first:last] = re.sub(r"['\"]", " ", source[first:last])
    return "".join(shown)


def _names(path: str, tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).replace("_", " ")
            for found in in_text(path, words):
                yield found._replace(line=node.lineno, found=node.name)


def _variables(path: str, tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name.lstrip("_") in NAMES:
            yield Finding(path, node.lineno, name, NAMES[name.lstrip("_")])


def all_findings(path: Path) -> list[Finding]:
    """Find the words and names that do not belong in a file, exceptions included."""
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8", errors="replace")
    return in_python(name, text) if path.suffix == ".py" else in_text(name, text)


def findings(path: Path) -> list[Finding]:
    """Find the words and names that do not belong in a file, `EXCEPTIONS` excluded."""
    return [finding for finding in all_findings(path) if not _is_exception(finding)]


def _is_exception(finding: Finding) -> bool:
    return any(
        fnmatch(finding.path, path) and fnmatch(finding.found.lower(), text)
        for path, text in EXCEPTIONS
    )


def files(*patterns: str) -> list[Path]:
    """Return the files of the repository that match a pattern."""
    paths = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(
        path for path in paths if path.suffix not in _NOT_TEXT and "__pycache__" not in path.parts
    )


def test_clean_areas_stay_clean() -> None:
    found = [str(finding) for path in files(*CLEAN) for finding in findings(path)]
    assert not found, "\n".join(found)


def test_every_pattern_of_a_clean_area_matches_a_file() -> None:
    assert [pattern for pattern in CLEAN if not files(pattern)] == []


def test_a_finding_has_its_line_and_its_replacement() -> None:
    source = "# Changed by\n# hand.\nx = (\n    'it is on '\n    'record'\n)\n"
    assert [str(finding) for finding in in_python("a.py", source)] == [
        "a.py:1: `by hand`: write: manually",
        "a.py:4: `on record`: write: recorded",
    ]


def test_names_count_as_prose() -> None:
    source = "def test_nobody_waits():\n    for one in ():\n        pass\n\nclass Mended: ...\n"
    found = in_python("a.py", source)
    assert [(finding.line, finding.found) for finding in found] == [
        (1, "test_nobody_waits"),
        (2, "one"),
        (5, "Mended"),
    ]


def test_code_is_not_prose() -> None:
    source = "x = rows.one()\ny = {'by': 'hand'}\nfor schedule in whole.set_aside: ...\n"
    assert in_python("a.py", source) == []


def test_every_exception_is_still_needed() -> None:
    unused = [
        (pattern, text)
        for pattern, text in EXCEPTIONS
        if not any(
            fnmatch(finding.found.lower(), text)
            for path in files(pattern)
            for finding in all_findings(path)
        )
    ]
    assert unused == []


def main() -> None:
    """Print the findings of files and folders, and their number."""
    patterns = [pattern for path in sys.argv[1:] for pattern in (path, f"{path}/**/*")]
    found = [finding for path in files(*patterns) for finding in findings(path)]
    for finding in found:
        print(finding)
    print(len(found))


if __name__ == "__main__":
    main()
