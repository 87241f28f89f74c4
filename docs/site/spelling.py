"""Print the misspelt words of Markdown files: `spelling.py WORDS FILE...`.

It runs in the environment of the documentation site, with a real dictionary of English (Hunspell's,
in a wheel). That dictionary is American, so the British endings `-ise` and `-our` are looked up in
their American form. WORDS has other British spellings and the words of the trade, one on each line.
A lower-case entry also covers the capitalised word. Code, links, comments and names are not
checked: names have a digit, a capital inside (`PgBouncer`), or a character such as `/` or `.`
between letters (`grants.sql`).
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from spylls.hunspell import Dictionary

_NOT_PROSE = re.compile(
    r"^[ ]*```.*?^[ ]*```$|(?P<ticks>`+).*?(?P=ticks)|<!--.*?-->|(?<=\])\([^)]*\)|\w+://\S+"
    r"|&\w+;|\w+[./_]\w\S*|\w*\d\w*|\w*[a-z][A-Z]\w*",
    re.MULTILINE | re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


def prose(text: str) -> str:
    """Return a page in which everything but prose is blank, with the same lines."""
    return _NOT_PROSE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def misspelt(file: Path, known: set[str], dictionary: Dictionary) -> Iterator[str]:
    """Yield the place of each word that is in neither dictionary."""
    lines = prose(file.read_text(encoding="utf-8")).splitlines()
    for number, line in enumerate(lines, start=1):
        for word in _WORD.findall(line):
            base = re.sub(r"['\u2019]s$", "", word)
            is_known = base in known or base.lower() in known or len(base) == 1
            if not is_known and not any(map(dictionary.lookup, (base, american(base)))):
                yield f"{file}:{number}: {word}"


def american(word: str) -> str:
    """Return the American form of a British ending: recognised, behaviours."""
    form = re.sub(r"(?<=..)is(?=(e[drs]?|ers|ing|ations?)$)", "iz", word)
    return re.sub(r"our(?=(s|ed|ing|able)?$)", "or", form)


def main(words: Path, *files: Path) -> int:
    """Print all findings, and return 1 if there are any."""
    dictionary = Dictionary.from_files("en_US")
    known = set(words.read_text(encoding="utf-8").split())
    found = [finding for file in files for finding in misspelt(file, known, dictionary)]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
