"""Hostile documents of up to 1 MiB: two seconds of CPU and 200 MB of memory are enough."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SIZE = 1_048_576
SECONDS = 2
MEGABYTES = 200


def fill(unit: str, head: str = "", tail: str = "") -> bytes:
    """Repeat the unit until the document has the largest size that is read."""
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
    "blanks": fill(" "),
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
    "for the patient parser": b"a: 1\n" * 9_000 + b"}", "tag for it": b"!" * 49_000 + b" }",
    "string for it": b'"' + b"a\n" * 24_000, "values for it": b"[" + b"a," * 19_000 + b"}",
}  # fmt: skip
JSON = {
    "brackets": fill("["), "braces": fill('{"a":'), "numbers": fill("1,", "[", "1]"),
    "keys": b"{" + numbered('"a{}":1,', 80_000) + b"}", "duplicates": fill('"a":1,', "{", "}"),
    "string": fill("a", '"', '"'), "escapes": fill("\\u0041", '"', '"'), "open": fill('\\"', '"'),
    "digits": fill("1"), "fraction": fill("1", "0."), "exponent": fill("1", "1e"),
    "blanks": fill(" "), "quotes": fill('"'), "word": fill("x"), "line breaks": fill("\n"),
}  # fmt: skip

CHILD = """
import json, resource, sys, time
from pathlib import Path
from tenantcron.manifests.document import load
load(b"a: {b: c:d}", syntax="yaml"), load(b"a: b: c", syntax="yaml"), load(b"{}", syntax="json")
content, syntax, megabytes, seconds = Path(sys.argv[1]).read_bytes(), *sys.argv[2:]
pages = int(Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + int(megabytes) * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (room, room))
began = time.process_time()
limit = int(began) + int(seconds) + 1
resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
loaded = load(content, syntax=syntax)
print(json.dumps([time.process_time() - began, len(loaded.problems)]))
"""


def measured(content: bytes, syntax: str, folder: Path) -> tuple[float, int]:
    """Load in a process with limits of its own; return CPU seconds and the number of problems."""
    path = folder / "hostile"
    path.write_bytes(content)
    command = [sys.executable, "-c", CHILD, str(path), syntax, str(MEGABYTES), str(SECONDS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-500:]
    seconds, problems = json.loads(ran.stdout)
    return seconds, problems


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are set as Linux has them")
@pytest.mark.parametrize("name", YAML)
def test_hostile_yaml_stays_within_time_and_memory(name: str, tmp_path: Path) -> None:
    assert len(YAML[name]) <= SIZE
    assert measured(YAML[name], "yaml", tmp_path)[0] < SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are set as Linux has them")
@pytest.mark.parametrize("name", JSON)
def test_hostile_json_stays_within_time_and_memory(name: str, tmp_path: Path) -> None:
    assert len(JSON[name]) <= SIZE
    assert measured(JSON[name], "json", tmp_path)[0] < SECONDS
