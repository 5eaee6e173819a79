"""Operations: one declaration that is a method of the synchronous client and a method of the asynchronous one.

A generated method such as `Operations.create_application` has a signature and no code: `@operation` makes it a
descriptor that turns arguments into a call. On a `Client` it gives a function that returns the answer, on an
`AsyncClient` one that returns an awaitable of it; type checkers follow both. On the class itself it is the operation,
with `.row` and `.call(…)`.
"""

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_args, overload

from msgspec import UNSET

from launchbay.client.core import Call, Core, OperationSpec, Steps
from launchbay.client.drivers import AsyncDriver, SyncDriver
from launchbay.client.streams import Event, list_steps, watch_steps

P = ParamSpec("P")
T = TypeVar("T")
Whole = TypeVar("Whole")
Each = TypeVar("Each")

_ARGUMENT = re.compile(r"^`(\w+)`: (.+?)(?=\n`|\Z)", re.MULTILINE | re.DOTALL)


class _Declared(Generic[P, T]):
    """A method that makes calls, with what is known of them.

    Its positional arguments fill the path; one more is the whole body. The others are fields of the body, or of the
    query: those that the row names, and all where there is no body. `self` of the method means nothing.
    """

    def __init__(self, row: OperationSpec, function: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.row = row
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self.function = function

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Return the call as data, for `Client.send`. None leaves a field out, unless its default is UNSET."""
        given = self._signature.bind(self, *args, **kwargs).arguments
        positional, fields = [], {}
        for argument in self.arguments:
            value = given.get(argument.name, argument.default)
            if argument.kind is not argument.KEYWORD_ONLY:
                positional.append(value)
            elif value is not UNSET and (value is not None or argument.default is UNSET):
                fields[self._wire_name(argument.name)] = value
        key = fields.pop("idempotencyKey" if self.row.is_camel else "idempotency_key", None)
        tag = fields.pop("ifMatch" if self.row.is_camel else "if_match", None)
        count = self.row.path.count("{")
        path, whole = positional[:count], positional[count:]
        returns = self.returns
        if not self.row.media_type:
            return Call(returns, path, query=fields, idempotency_key=key, if_match=tag, spec=self.row)
        query = {name: fields.pop(name) for name in self.row.query if name in fields}
        body = (whole[0] or {}) if whole else fields
        return Call(returns, path, query=query, body=body, idempotency_key=key, if_match=tag, spec=self.row)

    def _wire_name(self, name: str) -> str:
        """Return what the API calls an argument, such as `objectId` for `object_id` and `object` for `object_`."""
        if not self.row.is_camel:
            return name
        first, *others = name.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def arguments(self) -> list[inspect.Parameter]:
        """What it takes, with annotations as types."""
        return list(self._signature.parameters.values())[1:]

    @property
    def returns(self) -> Any:
        """The type of its answer."""
        (returns,) = get_args(self._signature.return_annotation)
        return returns

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function, eval_str=True)

    @property
    def argument_docs(self) -> Mapping[str, str]:
        """Argument → what its docstring says of it."""
        found = _ARGUMENT.findall(inspect.cleandoc(self.__doc__ or ""))
        return {name: " ".join(text.split()) for name, text in found}

    def _method(self, caller: Any, function: Callable[P, Any]) -> Callable[P, Any]:
        """Return a function with name, signature and docstring of the operation."""
        return functools.wraps(self.function.__get__(caller))(function)


class Operation(_Declared[P, T]):
    """An operation with one answer."""

    @overload
    def __get__(self, caller: None, owner: type) -> "Operation[P, T]": ...
    @overload
    def __get__(self, caller: SyncDriver, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, caller: AsyncDriver, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        if caller is None:
            return self
        return self._method(
            caller, lambda *args, **kwargs: caller.perform(caller.core.answer(self.call(*args, **kwargs)))
        )


class BoundList(Generic[P, Whole, Each]):
    """A list of a client: called, the whole list or, with `limit`, a page."""

    def __init__(self, caller: Any, listing: "ListOperation[P, Any]") -> None:
        self._caller = caller
        self._listing = listing
        self.__doc__ = listing.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Whole:
        """Return the list with all its pages, or with `limit` one page."""
        found: Whole = self._caller.perform(self._caller.core.answer(self._listing.call(*args, **kwargs)))
        return found

    def each(self, *args: P.args, **kwargs: P.kwargs) -> Each:
        """Iterate over all items: as they arrive in one long answer, or with `limit` in pages of so many."""
        found: Each = self._caller.iterate(list_steps(self._caller.core, self._listing.call(*args, **kwargs)))
        return found


class ListOperation(_Declared[P, list[T]], Generic[P, T]):
    """An operation that answers a list."""

    @overload
    def __get__(self, caller: None, owner: type) -> "ListOperation[P, T]": ...
    @overload
    def __get__(self, caller: SyncDriver, owner: type) -> BoundList[P, list[T], Iterator[T]]: ...
    @overload
    def __get__(
        self, caller: AsyncDriver, owner: type
    ) -> BoundList[P, Coroutine[Any, Any, list[T]], AsyncIterator[T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        return self if caller is None else BoundList(caller, self)


class EventOperation(_Declared[P, Event]):
    """An operation that answers a stream of events."""

    @overload
    def __get__(self, caller: None, owner: type) -> "EventOperation[P]": ...
    @overload
    def __get__(self, caller: SyncDriver, owner: type) -> Callable[P, Iterator[Event]]: ...
    @overload
    def __get__(self, caller: AsyncDriver, owner: type) -> Callable[P, AsyncIterator[Event]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        if caller is None:
            return self
        return self._method(
            caller, lambda *args, **kwargs: caller.iterate(watch_steps(caller.core, self.call(*args, **kwargs)))
        )


class Routine(Generic[P, T]):
    """Steps of several calls, as a method of both clients."""

    def __init__(self, function: Callable[Concatenate[Core, P], Steps[T]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, caller: None, owner: type) -> "Routine[P, T]": ...
    @overload
    def __get__(self, caller: SyncDriver, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, caller: AsyncDriver, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        if caller is None:
            return self
        return lambda *args, **kwargs: caller.perform(self.function(caller.core, *args, **kwargs))


def operation(spec: OperationSpec) -> Callable[[Callable[Concatenate[Any, P], Call[T]]], Operation[P, T]]:
    return lambda function: Operation(spec, function)


def list_operation(
    spec: OperationSpec,
) -> Callable[[Callable[Concatenate[Any, P], Call[list[T]]]], ListOperation[P, T]]:
    return lambda function: ListOperation(spec, function)


def event_operation(spec: OperationSpec) -> Callable[[Callable[Concatenate[Any, P], Call[Event]]], EventOperation[P]]:
    return lambda function: EventOperation(spec, function)
