"""The machine providers: the built-in ones, and those of installed packages (`launchbay.machines`).

Most built-in ones are created when the first machine is requested, because their imports are slow.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launchbay.errors import ActionFailed, CannotStart
from launchbay.machines.contract import ENTRY_POINT_GROUP, MachineProvider
from launchbay.machines.dry_run import Answers, DryRun
from launchbay.plugins import BUILT_IN, by_name, packaged

NONE = "none"
POLICY = "machines.provider"
_ASYNC = ("provision", "adopt", "release", "orphans", "run", "stop", "converge", "put_file", "get_file")

LazyProvider = Mapping[str, Callable[[], MachineProvider]]
"""The factories of providers, by name; each is called at the provider's first use."""


class Providers:
    """The providers by name, and the one for environments without a policy. Created once, at start."""

    def __init__(
        self,
        sources: Iterable[tuple[str, MachineProvider]],
        chosen: str = NONE,
        problems: tuple[str, ...] = (),
        late: LazyProvider | None = None,
    ) -> None:
        self._late: LazyProvider = late or {}
        self.problems = problems  # one message for each package that failed to load
        built_in = dict.fromkeys((NONE, *self._late), BUILT_IN)
        self._providers = by_name(
            sources,
            lambda provider: (provider.name,),
            noun="machine provider",
            code="MachineProviderTaken",
            taken=built_in,
        )
        if chosen not in {*built_in, *self._providers}:
            raise CannotStart(
                f"LAUNCHBAY_MACHINES is {chosen!r}, but this installation has the machine providers {self._known()}.",
                "Choose one of them, or install the package that provides it.",
                code="UnknownMachineProvider",
            )
        self._chosen = chosen

    @classmethod
    def load(cls, chosen: str = NONE, answers: Answers | None = None, late: LazyProvider | None = None) -> "Providers":
        """Find all providers. Skips, logs and lists in `problems` the packages that fail to load.

        Raises CannotStart if two providers have the same name, or none has the chosen name.
        """
        found = packaged(ENTRY_POINT_GROUP, "machine provider", _checked)
        sources = [(BUILT_IN, DryRun(answers)), *found.sources]
        return cls(sources, chosen, found.problems, late)

    def name_for(self, policies: Mapping[str, Any]) -> str:
        return str(policies.get(POLICY, self._chosen))

    def chosen_for(self, policies: Mapping[str, Any]) -> MachineProvider | None:
        """Return the provider for an environment with these policies, or None if it has no machines.

        Raises ActionFailed if this installation doesn't have it.
        """
        name = self.name_for(policies)
        return None if name == NONE else self.named(name)

    def named(self, name: str) -> MachineProvider:
        """Return a provider by name. Raises ActionFailed if this installation doesn't have it."""
        found = self._providers.get(name)
        if found is None and name in self._late:
            found = self._providers[name] = self._late[name]()
        if found is None:
            raise ActionFailed(
                f"Unknown machine provider {name!r}. This installation has {self._known()}. "
                f"Install the package that provides it, or change the environment's policy {POLICY}.",
                retryable=False,
            )
        return found

    def _known(self) -> str:
        return ", ".join(sorted({NONE, *self._providers, *self._late}))


def _checked(provider: Any) -> MachineProvider:
    """Return the object. Raises TypeError if it violates the contract."""
    name = getattr(provider, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError("its 'name' is not a non-empty string")
    for attribute in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(provider, attribute, None)):
            raise TypeError(f"its '{attribute}' is not an async function")
    if not callable(getattr(provider, "simulate", None)):
        raise TypeError("its 'simulate' is not a function")
    accepted: MachineProvider = provider
    return accepted
