"""Hostile documents of up to 1 MiB need at most two seconds of CPU and 200 MB of memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZE = 1_048_576
SECONDS = 2
MEGABYTES = 200


def fill(unit: str, head: str = "", tail: str = "") -> bytes:
    """Repeat the unit up to the maximum size of a document."""
    room = SIZE - len(head.encode()) - len(tail.encode())
    return (head + unit * (room // len(unit.encode())) + tail).encode()


def laughs() -> bytes:
    """Nest aliases so that they would expand to 8^12 values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 12)]
    return "\n".join(lines).encode()


def merges() -> bytes:
    """Merge lists of mappings that merge lists of mappings."""
    keys = ", ".join(f"k{n}: x" for n in range(50))
    lines = [f"a0: &a0 {{{keys}}}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 8)}]}}" for n in range(1, 300)]
    return "\n".join(lines).encode()


def numbered(line: str, count: int) -> bytes:
    """Repeat a line with a number in it."""
    return "".join(line.format(n) for n in range(count)).encode()


YAML = {
    "brackets": fill("["), "braces": fill("{a: "), "dashes": fill("- "), "anchors": fill("&a "),
    "aliases": fill("*a "), "questions": fill("? "), "plain words": fill("abc "),
    "plain lines": fill("abc\n"), "one word": fill("a"), "a long key": fill("a", tail=": b"),
    "anchored items": fill("- &a\n"), "named anchors": numbered("- &a{} x\n", 75_000),
    "laughs": laughs(), "merges": merges(), "duplicates": fill("a: 1\n"),
    "short keys": numbered("a{}: \n", 110_000), "escapes": fill("\\x41", '"', '"'),
    "bad escape": fill("\\x41", '"', '\\q"'), "open string": fill("a\n", '"'),
    "deep indentation": b"\n".join(b" " * n + b"a:" for n in range(1_440)),
    "deep items": b"\n".join(b" " * n + b"-" for n in range(1_440)),
    "%TAG": numbered("%TAG !a{}! x\n", 55_000) + b"---\na: 1", "%": fill("%\n"),
    "late %TAG": b"a: 1\n...\n" + numbered("%TAG !a{}! x\n", 55_000), "documents": fill("---\n"),
    "comments": fill("# x\n"), "line breaks": fill("\n"), "returns": fill("\r"),
    "spaces": fill(" "),
    "NULs": fill("\0"), "NELs": fill("\x85"), "emoji": fill("😀"), "tags": fill("! "),
    "one tag": fill("!"), "escaped tag": fill("%41", "!"), "one anchor": fill("a", "&"),
    "flow list": fill("a,", "[", "]"), "flow mapping": fill("a: b, ", "{", "}"),
    "flow pairs": fill("a: b, ", "[", "]"), "open flow": fill("a\n", "{"), "colons": fill(": "),
    "flow times": fill("{at: 02:00},\n", "[", "]"), "literal": fill(" x\n", "a: |\n"),
    "blank literal": fill("\n", "a: |\n"), "folded": fill(" x\n\n", "a: >\n"),
    "broken literal": fill(" x\n", "a: |\n", "\n}"), "digits": fill("1", "a: "),
    "fraction": fill("1", "a: 0."), "sixties": fill("1:", "a: ", "1"), "hex": fill("f", "a: 0x"),
    "broken at the end": numbered("k{}: {{at: 1}}\n", 9_000) + b"}", "alias keys":
    b"&a a: 1\n" + b"*a : 1\n" * 100_000, "long duplicates": fill("a" * 1_000 + ": b\n"),
    "for the lenient parser": b"a: 1\n" * 9_000 + b"}", "tag for it": b"!" * 49_000 + b" }",
    "string for it": b'"' + b"a\n" * 24_000, "values for it": b"[" + b"a," * 19_000 + b"}",
}  # fmt: skip
JSON = {
    "brackets": fill("["), "braces": fill('{"a":'), "numbers": fill("1,", "[", "1]"),
    "keys": b"{" + numbered('"a{}":1,', 80_000) + b"}", "duplicates": fill('"a":1,', "{", "}"),
    "string": fill("a", '"', '"'), "escapes": fill("\\u0041", '"', '"'), "open": fill('\\"', '"'),
    "digits": fill("1"), "fraction": fill("1", "0."), "exponent": fill("1", "1e"),
    "spaces": fill(" "), "quotes": fill('"'), "word": fill("x"), "line breaks": fill("\n"),
}  # fmt: skip

# Imports once, and then forks a child with limits for each document.
PARENT = """
import json, os, resource, sys, time
from pathlib import Path
from tenantcron.manifests.document import load
load(b"a: {b: c:d}", syntax="yaml"), load(b"a: b: c", syntax="yaml"), load(b"{}", syntax="json")

def child(path, syntax, megabytes, seconds):
    content = Path(path).read_bytes()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    began = time.process_time()
    limit = int(began) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    loaded = load(content, syntax=syntax)
    print(json.dumps([time.process_time() - began, len(loaded.problems)]), flush=True)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        child(*json.loads(line))
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status:
        print(json.dumps(f"it ended with {status}"), flush=True)
"""


class Loader:
    """A process that loads each document in a child process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def load(self, path: Path, syntax: str) -> float:
        """Load a document within the limits; return how many seconds of CPU it took."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([str(path), syntax, MEGABYTES, SECONDS]), file=self._process.stdin)
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert isinstance(answer, list), answer
        return float(answer[0])

    def close(self) -> None:
        """Stop the process."""
        self._process.communicate()


@pytest.fixture(scope="module")
def loader() -> Iterator[Loader]:
    """One process for all documents."""
    loader = Loader()
    yield loader
    loader.close()


def measured(loader: Loader, content: bytes, syntax: str, folder: Path) -> float:
    """Load in a separate process with limits; return its seconds of CPU."""
    path = folder / "hostile"
    path.write_bytes(content)
    return loader.load(path, syntax)


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are set as Linux has them")
@pytest.mark.parametrize("name", YAML)
def test_hostile_yaml_stays_within_time_and_memory(
    name: str, loader: Loader, tmp_path: Path
) -> None:
    assert len(YAML[name]) <= SIZE
    assert measured(loader, YAML[name], "yaml", tmp_path) < SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are set as Linux has them")
@pytest.mark.parametrize("name", JSON)
def test_hostile_json_stays_within_time_and_memory(
    name: str, loader: Loader, tmp_path: Path
) -> None:
    assert len(JSON[name]) <= SIZE
    assert measured(loader, JSON[name], "json", tmp_path) < SECONDS
