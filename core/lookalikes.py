"""Characters outside ASCII in names and keywords, which often look like the letters meant."""

# Cyrillic and Greek letters, and dashes, with the ASCII characters that they look like.
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u043a\u043c\u0442"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0405\u0406\u0408"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039f\u03a4"
    "\u2010\u2011\u2012\u2013\u2014\u2212",
    "aeopcyxijsdhkmtABEKMHOPCTXSIJaikvopuABEHIKMOT------",
)
_LOOKED_AT = 256


def to_ascii(text: str) -> str | None:
    """Return the text in the ASCII letters that it looks like, None if there are none for it."""
    if text.isascii():
        return text
    import unicodedata  # noqa: PLC0415 -- only mistakes need it

    decomposed = unicodedata.normalize("NFKD", text[:_LOOKED_AT].translate(_LOOKALIKES))
    ascii_text = "".join(char for char in decomposed if not unicodedata.combining(char))
    return ascii_text if ascii_text.isascii() else None


def name_of(character: str) -> str:
    """Return the Unicode name and number of a character."""
    import unicodedata  # noqa: PLC0415 -- only mistakes need it

    name = unicodedata.name(character, "")
    return f"{name}, U+{ord(character):04X}" if name else f"U+{ord(character):04X}"


def describe_foreign(text: str) -> str | None:
    """Describe the first character outside ASCII, None if there is none."""
    for position, character in enumerate(text[:_LOOKED_AT], start=1):
        if not character.isascii():
            kind = "letter" if character.isalpha() else "character"
            return f"the {_ordinal(position)} {kind} is {name_of(character)}"
    return None


def _ordinal(number: int) -> str:
    is_teen = 10 < number % 100 < 20
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
