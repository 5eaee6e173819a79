"""Which actions there are: the built-in ones, and those of installed packages (`launchbay.actions` entry points)."""

import inspect
import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from launchbay.actions.ansible import Ansible
from launchbay.actions.approval import Approval
from launchbay.actions.chef import Chef
from launchbay.actions.commands import CommandCall
from launchbay.actions.container_run import ContainerRun
from launchbay.actions.contract import ENTRY_POINT_GROUP, Action, ActionParameter
from launchbay.actions.execrun import ExecRun
from launchbay.actions.instance_context import GetInstanceContext
from launchbay.actions.logging_family import LOGGING_ACTIONS
from launchbay.actions.notify import Notify
from launchbay.actions.peers import WaitPeers
from launchbay.actions.provision import Provision
from launchbay.actions.release import Release
from launchbay.actions.restcall import RestCall
from launchbay.actions.serialize import Serialize
from launchbay.actions.signals import GetEnvironmentProperties, GetSignals
from launchbay.actions.wait import Wait
from launchbay.errors import CannotStart

_log = logging.getLogger(__name__)

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
    GetInstanceContext(),
    *LOGGING_ACTIONS,
    Provision("provisionVms"),
    Provision("provisionAmazonVm"),
    ExecRun(),
    Chef("chefsolo"),
    Chef("chefrun"),
    Release("destroyVms", needs_choice=True),
    Release("compute.shrink-all"),
    Release("undeployEnv", parameters={}),
)
_BUILT_IN_PACKAGE = "launchbay"


class Registry:
    """The actions by every name that a manifest may call them. Made once, at start, and never changed."""

    def __init__(self, sources: Iterable[tuple[str, Action]], problems: tuple[str, ...] = ()) -> None:
        self._actions: dict[str, Action] = {}
        self.problems = problems  # what could not be loaded, one sentence each
        packages: dict[str, str] = {}
        for package, action in sources:
            for name in (action.name, *action.aliases):
                if name in packages:
                    raise CannotStart(
                        f"Two actions have the name '{name}': one of the package {packages[name]}, one of {package}.",
                        "Remove one of the packages, or give its action another name.",
                        code="ActionNameTaken",
                    )
                packages[name] = package
                self._actions[name] = action

    @classmethod
    def load(cls) -> "Registry":
        """Find all actions. A package that cannot be loaded is left out, logged and listed in `problems`.

        Raises `CannotStart` when two actions have one name: no order of loading may decide what a manifest does.
        """
        sources: list[tuple[str, Action]] = [(_BUILT_IN_PACKAGE, action) for action in BUILT_IN]
        problems: list[str] = []
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (_package(point), point.name)):
            try:
                sources.append((_package(point), _loaded(point)))
            except Exception as error:  # noqa: BLE001 - a package of somebody else may raise anything; the server starts without it
                problem = (
                    f"The action '{point.name}' of the package {_package(point)} ({point.value}) is left out:"
                    f" {type(error).__name__}: {error}"
                )
                _log.error(problem)
                problems.append(problem)
        return cls(sources, tuple(problems))

    def find(self, name: str) -> Action | None:
        """Return the action that a manifest calls so, by its name or another spelling."""
        return self._actions.get(name)

    def names(self) -> tuple[str, ...]:
        """Return every name and spelling, sorted."""
        return tuple(sorted(self._actions))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _loaded(point: EntryPoint) -> Action:
    found = point.load()
    action = found() if isinstance(found, type) else found
    _check(action)
    accepted: Action = action
    return accepted


def _check(action: Any) -> None:
    """Raise `TypeError` with a sentence where the object does not keep the contract."""
    name = getattr(action, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError("its 'name' is not a text")
    aliases = getattr(action, "aliases", None)
    if not isinstance(aliases, tuple) or not all(isinstance(alias, str) and alias for alias in aliases):
        raise TypeError("its 'aliases' is not a tuple of texts")
    if not isinstance(getattr(action, "pure", None), bool):
        raise TypeError("its 'pure' is neither True nor False")
    for attribute, kind in (("parameters", ActionParameter), ("outputs", str)):
        entries = getattr(action, attribute, None)
        if not isinstance(entries, Mapping) or not all(isinstance(entry, kind) for entry in entries.values()):
            raise TypeError(f"its '{attribute}' is not a map from names to {kind.__name__}")
    if not inspect.iscoroutinefunction(getattr(action, "run", None)):
        raise TypeError("its 'run' is not an async function")
