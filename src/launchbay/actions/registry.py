"""The actions: the built-in ones, and those of installed packages (`launchbay.actions` entry points)."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from launchbay.actions.ansible import Ansible
from launchbay.actions.approval import Approval
from launchbay.actions.builtin import (
    LOGGING_ACTIONS,
    CommandCall,
    GetEnvironmentProperties,
    GetInstanceContext,
    GetSignals,
    Serialize,
    Wait,
    WaitPeers,
)
from launchbay.actions.contract import ENTRY_POINT_GROUP, Action, ActionParameter
from launchbay.actions.execution import Chef, ContainerRun, ExecRun
from launchbay.actions.helm import Helm
from launchbay.actions.kubernetes import KubernetesApply
from launchbay.actions.notify import Notify
from launchbay.actions.opentofu import OpenTofu
from launchbay.actions.provision import Provision, Release, ReleaseAll
from launchbay.actions.restcall import RestCall
from launchbay.plugins import BUILT_IN as BUILT_IN_PACKAGE
from launchbay.plugins import by_name, packaged

BUILT_IN: tuple[Action, ...] = (
    GetSignals(),
    GetEnvironmentProperties(),
    CommandCall("serviceCall"),
    CommandCall("commandCall"),
    Serialize(),
    RestCall(),
    Wait(),
    WaitPeers(),
    Approval(),
    Notify(),
    Ansible(),
    ContainerRun(),
    OpenTofu(),
    KubernetesApply(),
    Helm(),
    GetInstanceContext(),
    *LOGGING_ACTIONS,
    Provision("provisionVms"),
    Provision("provisionAmazonVm"),
    Provision("provisionVmsWithLogging"),
    Provision("compute.grow"),
    ExecRun(),
    Chef("chefsolo"),
    Chef("chefrun"),
    Release("destroyVms", needs_choice=True),
    Release("compute.shrink"),
    Release("compute.shrink-all"),
    ReleaseAll("undeployEnv"),
)


class Registry:
    """The actions by name and alias. Created once, at start, and never changed."""

    def __init__(self, sources: Iterable[tuple[str, Action]], problems: tuple[str, ...] = ()) -> None:
        self.problems = problems  # one message for each package that failed to load
        self._actions = by_name(
            sources, lambda action: (action.name, *action.aliases), noun="action", code="ActionNameTaken"
        )

    @classmethod
    def load(cls) -> "Registry":
        """Find all actions. Skips, logs and lists in `problems` the packages that fail to load.

        Raises `CannotStart` if two actions have the same name: the meaning of a manifest must not depend on the order.
        """
        found = packaged(ENTRY_POINT_GROUP, "action", _checked)
        return cls([*((BUILT_IN_PACKAGE, action) for action in BUILT_IN), *found.sources], found.problems)

    def find(self, name: str) -> Action | None:
        return self._actions.get(name)

    @property
    def by_name(self) -> Mapping[str, Action]:
        """The actions by name and alias, for the checks of manifests."""
        return self._actions

    def names(self) -> tuple[str, ...]:
        """Return all names and aliases, sorted."""
        return tuple(sorted(self._actions))


def _checked(action: Any) -> Action:
    """Return the object. Raises `TypeError` if it violates the contract."""
    name = getattr(action, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError("its 'name' is not a non-empty string")
    aliases = getattr(action, "aliases", None)
    if not isinstance(aliases, tuple) or not all(isinstance(alias, str) and alias for alias in aliases):
        raise TypeError("its 'aliases' is not a tuple of strings")
    if not isinstance(getattr(action, "pure", None), bool):
        raise TypeError("its 'pure' is not a boolean")
    for attribute, kind in (("parameters", ActionParameter), ("outputs", str)):
        entries = getattr(action, attribute, None)
        if not isinstance(entries, Mapping) or not all(isinstance(entry, kind) for entry in entries.values()):
            raise TypeError(f"its '{attribute}' is not a map from names to {kind.__name__}")
    if not inspect.iscoroutinefunction(getattr(action, "run", None)):
        raise TypeError("its 'run' is not an async function")
    if hasattr(action, "plan") and not inspect.iscoroutinefunction(action.plan):
        raise TypeError("its 'plan' is not an async function")
    accepted: Action = action
    return accepted
