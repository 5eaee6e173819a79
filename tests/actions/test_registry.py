import re
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from launchbay.actions.contract import ENTRY_POINT_GROUP, Action
from launchbay.actions.registry import BUILT_IN, Registry
from launchbay.errors import CannotStart
from tests.support.contexts import RecordingContext, run
from tests.support.network import answer, loopback_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "launchbay-example-action"

WORKING = """
class Echo:
    name = "echo"
    aliases = ("say",)
    pure = True
    parameters = {}
    outputs = {"said": "What was said."}

    async def run(self, call):
        return {"said": dict(call.parameters)}
"""


# What follows `action:` in the public manifests and is no action: their own workflows, and attributes of recipes.
class Packages:
    """Makes packages with actions visible, as an installer would: a module and its metadata on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, package: str, source: str, entry: str) -> None:
        module = package.replace("-", "_")
        (self.folder / f"{module}.py").write_text(source)
        metadata = self.folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{entry}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Packages(tmp_path)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def found(registry: Registry, name: str) -> Action:
    action = registry.find(name)
    assert action is not None
    return action


@pytest.mark.parametrize(
    "name",
    [
        *(
            "getSignals",
            "getEnvironmentProperties",
            "serviceCall",
            "commandCall",
            "serialize",
            "restcall",
            "wait",
            "waitPeers",
        ),
        *(
            "getInstanceContext",
            "registerLogPath",
            "unregisterLogPath",
            "collectLogs",
            "logging",
            "execrun",
            "chefsolo",
        ),
        *("chefrun", "provisionVms", "provisionAmazonVm", "undeployEnv", "destroyVms", "compute.shrink-all"),
    ],
)
def test_every_action_of_the_language_is_known(name: str) -> None:
    registry = Registry.load()

    assert found(registry, name).name == name
    assert name in registry.names()


def test_an_unknown_name_finds_nothing() -> None:
    assert Registry.load().find("noSuchAction") is None


def test_names_are_sorted_and_hold_other_spellings() -> None:
    names = Registry(("p", action) for action in BUILT_IN).names()

    assert list(names) == sorted(names)


@pytest.mark.parametrize("action", BUILT_IN, ids=lambda action: action.name)
def test_every_built_in_action_documents_itself(action: Action) -> None:
    assert all(parameter.description.endswith(".") or parameter.description for parameter in action.parameters.values())
    assert all(action.outputs.values())


@pytest.mark.anyio
async def test_an_action_of_an_installed_package_is_found_by_all_its_names(packages: Packages) -> None:
    packages.install("echo-pack", WORKING, "echo = echo_pack:Echo")

    registry = Registry.load()

    assert registry.problems == ()
    assert await run(found(registry, "say"), text="hi") == {"said": {"text": "hi"}}
    assert found(registry, "echo") is registry.find("say")


def test_an_entry_point_may_name_a_ready_object(packages: Packages) -> None:
    packages.install("echo-pack", WORKING + "\nECHO = Echo()\n", "echo = echo_pack:ECHO")

    assert Registry.load().find("echo") is not None


@pytest.mark.parametrize("name", ["restcall", "execrun"])
def test_two_actions_of_one_name_stop_the_start_and_name_both_packages(packages: Packages, name: str) -> None:
    packages.install("other-pack", WORKING.replace('"say"', f'"{name}"'), "echo = other_pack:Echo")

    with pytest.raises(CannotStart, match=f"launchbay and other-pack .*'{name}'"):
        Registry.load()


def test_two_packages_with_one_name_stop_the_start_and_are_both_named(packages: Packages) -> None:
    packages.install("first-pack", WORKING, "echo = first_pack:Echo")
    packages.install("second-pack", WORKING, "echo = second_pack:Echo")

    with pytest.raises(CannotStart, match=r"first-pack and second-pack .*'echo'"):
        Registry.load()


@pytest.mark.parametrize(
    ("source", "entry", "reason"),
    [
        ("import nothing_of_this_name", "x = broken_pack:Echo", "nothing_of_this_name"),
        ("raise RuntimeError('boom')", "x = broken_pack:Echo", "boom"),
        ("syntax error", "x = broken_pack:Echo", "SyntaxError"),
        (WORKING, "x = broken_pack:Missing", "Missing"),
        (WORKING, "x = no_module_here:Echo", "no_module_here"),
        (WORKING.replace('name = "echo"', "name = 7"), "x = broken_pack:Echo", "'name' is not a non-empty string"),
        (WORKING.replace('("say",)', '"say"'), "x = broken_pack:Echo", "'aliases' is not a tuple"),
        (WORKING.replace("pure = True", "pure = 1"), "x = broken_pack:Echo", "'pure' is not a boolean"),
        (WORKING.replace("parameters = {}", "parameters = {'a': 'b'}"), "x = broken_pack:Echo", "'parameters' is"),
        (WORKING.replace('{"said": "What was said."}', "[]"), "x = broken_pack:Echo", "'outputs' is not a map"),
        (WORKING.replace("async def", "def"), "x = broken_pack:Echo", "'run' is not an async function"),
        (WORKING.replace("name =", "def __init__(self, a): pass\n    name ="), "x = broken_pack:Echo", "argument"),
    ],
)  # fmt: skip
def test_a_broken_package_is_reported_and_left_out(packages: Packages, source: str, entry: str, reason: str) -> None:
    packages.install("broken-pack", source, entry)
    packages.install("good-pack", WORKING, "echo = good_pack:Echo")

    registry = Registry.load()

    (problem,) = registry.problems
    assert "broken-pack" in problem
    assert reason in problem
    assert registry.find("echo") is not None
    assert registry.find("wait") is not None


@pytest.mark.anyio
async def test_the_example_package_is_found_through_its_own_entry_point(
    packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    declared = re.findall(
        r'^(\w+) = "([\w.:]+)"$',
        (EXAMPLE / "pyproject.toml").read_text().split(f'"{ENTRY_POINT_GROUP}"]')[1],
        re.MULTILINE,
    )
    packages.install("launchbay-example", "", "\n".join(f"{name} = {value}" for name, value in declared))
    registry = Registry.load()

    assert [point.dist.name for point in entry_points(group=ENTRY_POINT_GROUP) if point.dist] == ["launchbay-example"]
    async with loopback_server() as server:
        server.routes["/ready"] = answer(204)
        outputs = await run(found(registry, "waitForUrl"), RecordingContext(), url=server.url("/ready"), timeout="5 s")
    assert outputs == {"status": 204, "attempts": 1}


def test_the_readme_of_the_example_is_a_manifest_that_can_be_read() -> None:
    block = (EXAMPLE / "README.md").read_text().split("```yaml\n")[1].split("```")[0]

    assert yaml.safe_load(block)["launch"]["steps"][0]["until-up"]["action"] == "waitForUrl"
