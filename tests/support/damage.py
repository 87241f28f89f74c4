"""Documents that were damaged at random, and whether places that are named lie inside of them."""

from hypothesis import strategies as st

from tenantcron.manifests.diagnostics import Span


def lines_of(content: bytes) -> list[str]:
    """Split as editors do, and show each bad byte as a character."""
    text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def is_inside(span: Span, lines: list[str]) -> bool:
    """Whether both ends are places in the text, in the right order."""
    ends = ((span.line, span.column), (span.end_line, span.end_column))
    # A line may end with both characters of its line break.
    return ends[0] <= ends[1] and all(
        1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 2 for line, column in ends
    )


@st.composite
def mutations(draw: st.DrawFn, original: bytes) -> bytes:
    """Flip, delete, double or move stretches of a good document."""
    content = bytearray(original)
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(["flip", "delete", "double", "splice", "insert"]))
        piece = bytes(content[start:end])
        if kind == "flip" and piece:
            content[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "delete":
            del content[start:end]
        elif kind == "double":
            content[start:start] = piece
        elif kind == "splice":
            target = draw(st.integers(0, len(content)))
            content[target:target] = piece
        elif kind == "insert":
            content[start:start] = draw(st.sampled_from(NASTY))
    return bytes(content)


NASTY = (
    b"\x00", b"\t", b"\\", b'"', b"'", b"&a ", b"*a", b"*nightly", b"!x ", b"!%ED%A0%80 ", b"!<",
    b"<<: ", b"\n---\n", b"\n...\n", b"%", b"\\ud800", b"\\UFFFFFFFF", b"\xc2\x85", b"\xe2\x80\xa8",
    b"\xef\xbb\xbf", b"\xff", b"\r", b"? ", b": ", b"- ", b"[", b"]", b"{", b"}", b"#", b"|", b">9",
    b"\xef\xa3\xbf", b"&a:b ", b"*a:b ", b"1e999", b".inf", b"0" * 30, b"9" * 30, b"~: ", b"\\x0",
)  # fmt: skip
