"""Names that people give, and ids that stand in bodies."""

from collections.abc import Iterator
from contextlib import contextmanager

from launchbay import limits
from launchbay.errors import BadRequest, NotFound


def checked_name(name: str) -> str:
    """Return a name without the white space around it. Raises BadRequest when it is empty or too long."""
    name = name.strip()
    if not name or len(name) > limits.NAME_CHARS:
        raise BadRequest(
            f"A name has 1 to {limits.NAME_CHARS} characters; this one has {len(name)}.", code="InvalidName"
        )
    return name


@contextmanager
def named_in_body(field: str) -> Iterator[None]:
    """Raise BadRequest where a look-up finds nothing: 404 is for the object in the path alone ("Wire" 6)."""
    try:
        yield
    except NotFound as error:
        raise BadRequest(f"{field}: {error.sentences[0]}", *error.sentences[1:], code="UnknownId") from error
