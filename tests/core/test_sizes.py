"""Parsing and formatting of memory sizes."""

import pytest

from tenantcron.core.sizes import SizeError, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size", "shown"),
    [
        ("512MiB", 512 * 1024**2, "512 MiB"),
        ("2GiB", 2 * 1024**3, "2 GiB"),
        ("1536MiB", 1536 * 1024**2, "1536 MiB"),
        ("2048KiB", 2 * 1024**2, "2 MiB"),
        ("1000B", 1000, "1000 B"),
    ],
)
def test_a_size_is_parsed_and_formatted(text: str, size: int, shown: str) -> None:
    assert parse_size(text) == size
    assert format_size(size) == shown


@pytest.mark.parametrize("text", ["", "512", "512MB", "512 MiB", "-1MiB", "1.5GiB", "1GiB\n"])
def test_an_invalid_size_is_rejected(text: str) -> None:
    with pytest.raises(SizeError, match="is not a size such as 512MiB"):
        parse_size(text)
