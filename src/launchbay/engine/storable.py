"""Texts as PostgreSQL can keep them. Actions are foreign code, and their messages may hold anything."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CUT = " … (cut)"


def storable(text: str, longest: int) -> str:
    """Return the text without what PostgreSQL refuses (NUL, lone surrogates), cut to so many characters."""
    if len(text) > longest:
        text = text[: longest - len(_CUT)] + _CUT
    text = text.replace("\x00", _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = "".join(_REPLACEMENT if 0xD800 <= ord(each) <= 0xDFFF else each for each in text)
    return text
