"""What installed packages bring: objects behind a contract, found through their entry points.

Each kind (actions, machine providers, service types, component types) has a registry of its own, with its contract and
what is built in. What they have in common is here: a package that cannot be loaded is left out and the server starts
without it, and no order of loading may decide which of two objects with one name counts.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from launchbay.errors import CannotStart

BUILT_IN = "launchbay"  # the package that is this program

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Packaged(Generic[T]):
    """What packages brought, each with its package, and a sentence for each that could not be loaded."""

    sources: tuple[tuple[str, T], ...]
    problems: tuple[str, ...]


def packaged(group: str, noun: str, check: Callable[[Any], T]) -> Packaged[T]:
    """Load what stands in a group of entry points, by package and name. Classes are called for their objects.

    `check` returns the object, or raises TypeError with a sentence where it does not keep the contract.
    """
    sources: list[tuple[str, T]] = []
    problems: list[str] = []
    for point in sorted(entry_points(group=group), key=lambda point: (_package(point), point.name)):
        try:
            found = point.load()
            sources.append((_package(point), check(found() if isinstance(found, type) else found)))
        except Exception as error:  # noqa: BLE001 - a package of somebody else may raise anything; the server starts without it
            problem = (
                f"The {noun} '{point.name}' of the package {_package(point)} ({point.value}) is left out:"
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
    """Return the objects by every name that each has. `taken` are names that nobody else may have, with whose they are.

    Raises CannotStart, with the code, when two have one name.
    """
    found: dict[str, T] = {}
    packages = dict(taken or {})
    for package, each in sources:
        for name in names(each):
            if name in packages:
                raise CannotStart(
                    f"Two {noun}s have the {key} '{name}': one of the package {packages[name]}, one of {package}.",
                    f"Remove one of the packages, or give its {noun} another {key}.",
                    code=code,
                )
            packages[name] = package
            found[name] = each
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
