"""What a violated constraint means, said where the statement runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from launchbay.errors import BadRequest


@contextmanager
def refuse_duplicate(sentence: str, code: str) -> Iterator[None]:
    """Raise BadRequest with the sentence when the block violates a unique constraint. The transaction is over then."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        raise BadRequest(sentence, code=code) from error
