"""A call of the API as data: what to send, and what the answer is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

T = TypeVar("T")

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is known of an operation: the row of the server's endpoint table that the generated code was made from."""

    id: str
    method: str
    path: str  # with parameters in braces
    media_type: str = ""  # of the request's body; empty without a body
    answer: str = JSON  # media type of the answer
    keyed: bool = False  # takes Idempotency-Key
    repeatable: bool = False  # does no harm when it is done twice
    public: bool = False  # needs no credentials
    about: Mapping[str, str] = field(default_factory=dict)  # argument → what it is

    @property
    def may_be_repeated(self) -> bool:
        """Tell whether sending it twice is as good as once; with a key it always is."""
        return self.method != "POST" or self.repeatable


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call. `returns` is the type of the answer: a type for msgspec, `str` for a text, NoneType for none."""

    returns: type[T]
    path: Sequence[str] = ()  # values of the path's parameters, in order
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    idempotency_key: str | None = None
    row: Row | None = None

    def with_returns(self, kind: Any) -> "Call[Any]":
        """Return the call with its answer read as another type, such as `Any` for plain data."""
        return replace(self, returns=kind)

    @property
    def known(self) -> Row:
        """The row of the operation."""
        assert self.row is not None, "calls are made by operations"
        return self.row

    def target(self) -> str:
        """Return path and query."""
        parts = self.known.path.split("{")
        filled = parts[0]
        for value, part in zip(self.path, parts[1:], strict=True):
            filled += quote(_segment(value), safe="") + part.partition("}")[2]
        query = [(name, _text(value)) for name, value in self.query.items() if value is not None]
        return f"{filled}?{urlencode(query)}" if query else filled

    def content(self) -> bytes:
        """Return the bytes of the body."""
        media_type = self.known.media_type
        if media_type == JSON:
            return msgspec.json.encode(self.body)
        if media_type == "application/x-www-form-urlencoded":
            return urlencode(self.body).encode()
        return b"" if self.body is None else str(self.body).encode()


def given(fields: Mapping[str, Any], nullable: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a body without those that were left out; null counts only for the `nullable` ones."""
    return {
        name: value
        for name, value in fields.items()
        if value is not msgspec.UNSET and (value is not None or name in nullable)
    }


def _segment(value: str) -> str:
    if not isinstance(value, str) or not value or value in {".", ".."}:
        raise ValueError(f"{value!r} cannot be a part of a path: it must be a text, and not empty")
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)
