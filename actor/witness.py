"""The witness that a token was verified. Only the verifier of tokens may import it.

It is what turns a claim into an authenticated actor, so it has a module of its own: whoever wants
it has to import it by name, and a test refuses every importer that is not expected.
"""

from typing import Final, final


@final
class Witness:
    """The type of the one witness; a second instance proves nothing."""

    __slots__ = ()


WITNESS: Final = Witness()
