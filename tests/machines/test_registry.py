"""Which provider works for an instance, and what packages bring."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from launchbay import plugins
from launchbay.errors import ActionFailed, CannotStart
from launchbay.machines.contract import ENTRY_POINT_GROUP, MachineProvider
from launchbay.machines.dry_run import DryRun
from launchbay.machines.registry import Providers
from tests.support.machines import Lab

SOURCES: list[tuple[str, MachineProvider]] = [("launchbay", DryRun()), ("lab-package", Lab())]


def test_the_setting_chooses_and_a_policy_chooses_otherwise() -> None:
    providers = Providers(SOURCES, "lab")
    assert providers.chosen_for({}) is SOURCES[1][1]
    assert providers.chosen_for({"machines.provider": "dry-run"}) is SOURCES[0][1]
    assert providers.chosen_for({"machines.provider": "none"}) is None
    assert Providers(SOURCES).chosen_for({}) is None


def test_an_unknown_provider_of_a_policy_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        ActionFailed, match=r"Unknown machine provider 'moon'\. This installation has dry-run, lab, none"
    ):
        Providers(SOURCES).chosen_for({"machines.provider": "moon"})


def test_an_unknown_provider_of_the_setting_ends_the_start() -> None:
    with pytest.raises(CannotStart, match="LAUNCHBAY_MACHINES is 'moon'"):
        Providers(SOURCES, "moon")


@pytest.mark.parametrize("name", ["dry-run", "none"])
def test_two_providers_of_one_name_end_the_start(name: str) -> None:
    with pytest.raises(CannotStart, match=f"both provide the machine provider name '{name}'"):
        Providers([("launchbay", DryRun()), ("other", Lab(name=name))])


@dataclass
class Halved:
    """Lacks most of the contract."""

    name: str = "halved"

    async def provision(self) -> None: ...


def test_packages_bring_providers_and_broken_ones_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("lab", "tests.support.machines:Lab", ENTRY_POINT_GROUP),
        EntryPoint("halved", "tests.machines.test_registry:Halved", ENTRY_POINT_GROUP),
        EntryPoint("gone", "tests.machines.nowhere:X", ENTRY_POINT_GROUP),
    ]

    def found(group: str) -> list[Any]:
        return points if group == ENTRY_POINT_GROUP else []

    monkeypatch.setattr(plugins, "entry_points", found)
    providers = Providers.load("lab")
    assert providers.chosen_for({}) is not None
    assert len(providers.problems) == 2
    assert any(
        "'halved'" in problem and "'adopt' is not an async function" in problem for problem in providers.problems
    )
    assert any("'gone'" in problem for problem in providers.problems)
