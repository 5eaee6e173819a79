"""Which machine providers there are: the built-in ones, and those of installed packages (`launchbay.machines`).

Most of the built-in ones are made when the first machine is asked for: what they import is heavy, and a server without
machines shall not pay for it.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from launchbay.errors import CannotStart
from launchbay.machines.answers import Answers
from launchbay.machines.contract import ENTRY_POINT_GROUP, MachineProvider
from launchbay.machines.dry_run import DryRun

_log = logging.getLogger(__name__)

NONE = "none"
POLICY = "machines.provider"
_BUILT_IN_PACKAGE = "launchbay"
_ASYNC = ("provision", "adopt", "release", "strays", "run", "stop", "converge", "put_file", "get_file")


Late = Mapping[str, Callable[[], MachineProvider]]
"""Providers by name, each with what makes it when it is first asked for."""


class UnknownProvider(Exception):
    """A policy, or a machine that was made, names a provider that this installation does not have."""


class Providers:
    """The providers by their names, and which one works where no policy says so. Made once, at start."""

    def __init__(
        self,
        sources: Iterable[tuple[str, MachineProvider]],
        chosen: str = NONE,
        problems: tuple[str, ...] = (),
        late: Late | None = None,
    ) -> None:
        self._providers: dict[str, MachineProvider] = {}
        self._late: Late = late or {}
        self.problems = problems  # what could not be loaded, one sentence each
        packages: dict[str, str] = dict.fromkeys((NONE, *self._late), _BUILT_IN_PACKAGE)
        for package, provider in sources:
            if provider.name in packages:
                raise CannotStart(
                    f"Two machine providers have the name '{provider.name}': one of the package "
                    f"{packages[provider.name]}, one of {package}.",
                    "Remove one of the packages, or give its provider another name.",
                    code="MachineProviderTaken",
                )
            packages[provider.name] = package
            self._providers[provider.name] = provider
        if chosen not in packages:
            raise CannotStart(
                f"LAUNCHBAY_MACHINES is {chosen!r}; this installation has the machine providers {self._known()}.",
                "Choose one of them, or install the package that brings it.",
                code="UnknownMachineProvider",
            )
        self._chosen = chosen

    @classmethod
    def load(cls, chosen: str = NONE, answers: Answers | None = None, late: Late | None = None) -> "Providers":
        """Find all providers. A package that cannot be loaded is left out, logged and listed in `problems`.

        Raises CannotStart when two providers have one name, and when there is none with the chosen name.
        """
        sources: list[tuple[str, MachineProvider]] = [(_BUILT_IN_PACKAGE, DryRun(answers))]
        problems: list[str] = []
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (_package(point), point.name)):
            try:
                sources.append((_package(point), _loaded(point)))
            except Exception as error:  # noqa: BLE001 - a package of somebody else may raise anything; the server starts without it
                problem = (
                    f"The machine provider '{point.name}' of the package {_package(point)} ({point.value}) is left out:"
                    f" {type(error).__name__}: {error}"
                )
                _log.error(problem)
                problems.append(problem)
        return cls(sources, chosen, tuple(problems), late)

    def name_for(self, policies: Mapping[str, Any]) -> str:
        """Return the name of the provider for instances of an environment with these policies."""
        return str(policies.get(POLICY, self._chosen))

    def chosen_for(self, policies: Mapping[str, Any]) -> MachineProvider | None:
        """Return the provider for instances of an environment with these policies, None for no machines at all.

        Raises UnknownProvider.
        """
        name = self.name_for(policies)
        return None if name == NONE else self.named(name)

    def named(self, name: str) -> MachineProvider:
        """Return the provider that made a machine. Raises UnknownProvider."""
        found = self._providers.get(name)
        if found is None and name in self._late:
            found = self._providers[name] = self._late[name]()
        if found is None:
            raise UnknownProvider(
                f"There is no machine provider {name!r} here; this installation has {self._known()}. "
                f"Install the package that brings it, or change the environment's policy {POLICY}."
            )
        return found

    def _known(self) -> str:
        return ", ".join(sorted({NONE, *self._providers, *self._late}))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _loaded(point: EntryPoint) -> MachineProvider:
    found = point.load()
    provider = found() if isinstance(found, type) else found
    _check(provider)
    accepted: MachineProvider = provider
    return accepted


def _check(provider: Any) -> None:
    """Raise TypeError with a sentence where the object does not keep the contract."""
    name = getattr(provider, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError("its 'name' is not a text")
    for attribute in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(provider, attribute, None)):
            raise TypeError(f"its '{attribute}' is not an async function")
    if not callable(getattr(provider, "stand_in", None)):
        raise TypeError("its 'stand_in' is not a function")
