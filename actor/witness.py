"""The witness that a token was verified. Only verifiers of tokens may import it.

Constructing an authenticated actor requires it. It has its own module so that a test can check the
importers.
"""

from typing import Final, final


@final
class Witness:
    """The type of the only witness; other instances are rejected."""

    __slots__ = ()


WITNESS: Final = Witness()
