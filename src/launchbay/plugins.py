"""Plug-ins of installed packages: objects that implement a contract, found through entry points.

Each kind (actions, machine providers, service types, component types) has its own registry, with its contract and its
built-in objects. All share two rules: the server starts without a package that fails to load, and two objects with one
name are an error, since the order of loading must not decide between them.
"""

import functools
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, Generic, TypeVar

from launchbay.errors import CannotStart

BUILT_IN = "launchbay"  # the package of this program

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Packaged(Generic[T]):
    """Objects with their packages, and a message for each that failed to load."""

    sources: tuple[tuple[str, T], ...]
    problems: tuple[str, ...]


def entry_points(group: str) -> EntryPoints:
    """Return what the installed packages offer as plug-ins of a kind."""
    return _entry_points(group, tuple(sys.path))


@functools.cache
def _entry_points(group: str, _path: tuple[str, ...]) -> EntryPoints:
    # A look reads the metadata of all packages: 10 ms and more.
    return metadata.entry_points(group=group)


def packaged(group: str, noun: str, check: Callable[[Any], T]) -> Packaged[T]:
    """Load a group of entry points, ordered by package and name. A class is instantiated.

    `check` returns the object, or raises TypeError with a message if it doesn't implement the contract.
    """
    sources: list[tuple[str, T]] = []
    problems: list[str] = []
    for point in sorted(entry_points(group=group), key=lambda point: (_package(point), point.name)):
        try:
            found = point.load()
            sources.append((_package(point), check(found() if isinstance(found, type) else found)))
        except Exception as error:  # noqa: BLE001 - another author's package may raise anything; the server starts without it
            problem = (
                f"Can't load {noun} '{point.name}' of package {_package(point)} ({point.value}):"
                f" {type(error).__name__}: {error}"
            )
            # Not structlog: the CLI loads plug-ins too, and its standard output is data.
            _log.error("plugin.skipped: %s", problem)
            problems.append(problem)
    return Packaged(tuple(sources), tuple(problems))


def by_name(
    sources: Iterable[tuple[str, T]],
    names: Callable[[T], Iterable[str]],
    *,
    noun: str,
    key: str = "name",
    code: str,
    taken: Mapping[str, str] | None = None,
) -> dict[str, T]:
    """Return the objects by each of their names. `taken` maps reserved names to their packages.

    Raises CannotStart, with the code, if two objects have the same name.
    """
    found: dict[str, T] = {}
    packages = dict(taken or {})
    for package, each in sources:
        for name in names(each):
            if name in packages:
                raise CannotStart(
                    f"Packages {packages[name]} and {package} both provide the {noun} {key} '{name}'.",
                    f"Remove one of the packages, or change the {key} of its {noun}.",
                    code=code,
                )
            packages[name] = package
            found[name] = each
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
