"""Operations: one declaration that is a method of the synchronous client and a method of the asynchronous one.

A generated function such as `operations/applications.py:create_application` tells how its arguments become a call, and
`@operation` makes it a descriptor. On a `Client` it gives a function that returns the answer, on an `AsyncClient` one
that returns an awaitable of it; type checkers follow both. On the class itself it is the operation, with `.row` and
`.call(…)`.
"""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from launchbay.client.call import Call, Row
from launchbay.client.core import Core
from launchbay.client.effects import Steps, Stream
from launchbay.client.events import Event, watched
from launchbay.client.lists import items

P = ParamSpec("P")
T = TypeVar("T")


class SyncCaller(Protocol):
    """What does the steps of a call at once."""

    core: Core

    def run(self, steps: Steps[T], /) -> T:
        """Do the steps and return what they return."""
        ...

    def iterate(self, stream: Stream[T], /) -> Iterator[T]:
        """Do the steps and yield what they emit."""
        ...


class AsyncCaller(Protocol):
    """What does the steps of a call in an event loop."""

    core: Core

    def run_async(self, steps: Steps[T], /) -> Coroutine[Any, Any, T]:
        """Do the steps and return what they return."""
        ...

    def iterate_async(self, stream: Stream[T], /) -> AsyncIterator[T]:
        """Do the steps and yield what they emit."""
        ...


def _run(caller: Any, steps: Steps[Any]) -> Any:
    return caller.run(steps) if hasattr(caller, "run") else caller.run_async(steps)


def _iterate(caller: Any, stream: Stream[Any]) -> Any:
    return caller.iterate(stream) if hasattr(caller, "iterate") else caller.iterate_async(stream)


class _Described(Generic[P, T]):
    """A function that makes calls, with its row."""

    def __init__(self, row: Row, function: Callable[P, Call[T]]) -> None:
        self.row = row
        self.function = function
        self.__doc__ = function.__doc__

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Return the call as data, for `Client.send`."""
        return replace(self.function(*args, **kwargs), row=self.row)


class Operation(_Described[P, T]):
    """An operation with one answer."""

    @overload
    def __get__(self, caller: None, owner: type) -> "Operation[P, T]": ...
    @overload
    def __get__(self, caller: SyncCaller, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, caller: AsyncCaller, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        """Return a method of the client, or the operation itself."""
        if caller is None:
            return self
        return functools.wraps(self.function)(
            lambda *args, **kwargs: _run(caller, caller.core.answer(self.call(*args, **kwargs)))
        )


class _BoundList(Generic[P, T]):
    def __init__(self, caller: Any, listing: "ListOperation[P, T]") -> None:
        self._caller = caller
        self._listing = listing
        self.__doc__ = listing.function.__doc__

    def _whole(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return _run(self._caller, self._caller.core.answer(self._listing.call(*args, **kwargs)))

    def _each(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return _iterate(self._caller, items(self._caller.core, self._listing.call(*args, **kwargs)))


class BoundList(_BoundList[P, T]):
    """A list of the synchronous client: called, the whole list or the page that was asked for."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        """Return the list, or a page of it with `limit`."""
        found: list[T] = self._whole(*args, **kwargs)
        return found

    def each(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """Iterate over all items: as they arrive in one long answer, or with `limit` in pages of so many."""
        found: Iterator[T] = self._each(*args, **kwargs)
        return found


class AsyncBoundList(_BoundList[P, T]):
    """A list of the asynchronous client."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, list[T]]:
        """Return the list, or a page of it with `limit`."""
        found: Coroutine[Any, Any, list[T]] = self._whole(*args, **kwargs)
        return found

    def each(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """Iterate over all items: as they arrive in one long answer, or with `limit` in pages of so many."""
        found: AsyncIterator[T] = self._each(*args, **kwargs)
        return found


class ListOperation(_Described[P, list[T]], Generic[P, T]):
    """An operation that answers a list."""

    @overload
    def __get__(self, caller: None, owner: type) -> "ListOperation[P, T]": ...
    @overload
    def __get__(self, caller: SyncCaller, owner: type) -> BoundList[P, T]: ...
    @overload
    def __get__(self, caller: AsyncCaller, owner: type) -> AsyncBoundList[P, T]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        """Return a method of the client, or the operation itself."""
        if caller is None:
            return self
        return BoundList(caller, self) if hasattr(caller, "run") else AsyncBoundList(caller, self)


class EventOperation(_Described[P, Event]):
    """An operation that answers a stream of events."""

    @overload
    def __get__(self, caller: None, owner: type) -> "EventOperation[P]": ...
    @overload
    def __get__(self, caller: SyncCaller, owner: type) -> Callable[P, Iterator[Event]]: ...
    @overload
    def __get__(self, caller: AsyncCaller, owner: type) -> Callable[P, AsyncIterator[Event]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        """Return a method of the client, or the operation itself."""
        if caller is None:
            return self
        return functools.wraps(self.function)(
            lambda *args, **kwargs: _iterate(caller, watched(caller.core, self.call(*args, **kwargs)))
        )


class Routine(Generic[P, T]):
    """Steps of several calls, as a method of both clients."""

    def __init__(self, function: Callable[Concatenate[Core, P], Steps[T]]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, caller: None, owner: type) -> "Routine[P, T]": ...
    @overload
    def __get__(self, caller: SyncCaller, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, caller: AsyncCaller, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, caller: Any, owner: type) -> Any:
        """Return a method of the client, or the routine itself."""
        if caller is None:
            return self
        return functools.partial(self._bound, caller)

    def _bound(self, caller: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return _run(caller, self.function(caller.core, *args, **kwargs))


def operation(row: Row) -> Callable[[Callable[P, Call[T]]], Operation[P, T]]:
    """Make an operation of a function that makes its calls."""

    def made(function: Callable[P, Call[T]]) -> Operation[P, T]:
        return Operation(row, function)

    return made


def list_operation(row: Row) -> Callable[[Callable[P, Call[list[T]]]], ListOperation[P, T]]:
    """Make an operation of a function that makes its calls, which answer lists."""

    def made(function: Callable[P, Call[list[T]]]) -> ListOperation[P, T]:
        return ListOperation(row, function)

    return made


def event_operation(row: Row) -> Callable[[Callable[P, Call[Event]]], EventOperation[P]]:
    """Make an operation of a function that makes its calls, which answer events."""

    def made(function: Callable[P, Call[Event]]) -> EventOperation[P]:
        return EventOperation(row, function)

    return made
