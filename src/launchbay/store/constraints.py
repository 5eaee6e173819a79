"""What a violated constraint means, said where the statement runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from launchbay.errors import BadRequest, Conflict


@contextmanager
def refuse_duplicate(sentence: str, code: str) -> Iterator[None]:
    """Raise BadRequest with the sentence when the block violates a unique constraint. The transaction is over then."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        raise BadRequest(sentence, code=code) from error


@contextmanager
def refuse_vanished(sentence: str) -> Iterator[None]:
    """Raise Conflict with the sentence when what the block refers to was deleted meanwhile; the transaction is over."""
    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise Conflict(sentence) from error
