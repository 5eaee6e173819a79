"""Names under which steps keep documents, such as the state of OpenTofu."""

import re

from launchbay import limits

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
DOCUMENT_NAMES = f"1 to {limits.DOCUMENT_NAME_CHARS} letters, digits, '_', '.' and '-'"


def is_document_name(name: str) -> bool:
    """Return whether a stored document can have this name."""
    return _NAME.fullmatch(name) is not None and len(name) <= limits.DOCUMENT_NAME_CHARS
