"""Numbers in arguments of the command line."""

import argparse
from collections.abc import Callable

DEFAULT = "default"


def number(lowest: int, highest: int) -> Callable[[str], int]:
    """Return a parser for integers in a range."""

    def read(text: str) -> int:
        if not _is_between(lowest, text, highest):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {lowest} to {highest}")
        return int(text)

    return read


def limit(lowest: int, highest: int) -> Callable[[str], int | None]:
    """Return a parser for limits; `default` becomes None."""

    def read(text: str) -> int | None:
        if text == DEFAULT:
            return None
        if not _is_between(lowest, text, highest):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from {lowest} to {highest}, or {DEFAULT}"
            )
        return int(text)

    return read


def _is_between(lowest: int, text: str, highest: int) -> bool:
    # Longer numbers are out of range and slow to parse.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(highest))
    return is_number and lowest <= int(text) <= highest
