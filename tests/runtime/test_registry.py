"""Component types of packages: found, checked, known to the compiler, and run like the built-in ones."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from launchbay import plugins
from launchbay.errors import CannotStart
from launchbay.manifest.graph import ComponentType as Definition
from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_launch
from launchbay.runtime.components.builtin import BUILTIN, running
from launchbay.runtime.components.registry import ENTRY_POINT_GROUP, ComponentTypes
from launchbay.runtime.components.workflow_instance import Constants
from tests.support.runtime import Case, instance

EXAMPLE = Path(__file__).parents[2] / "examples" / "launchbay-example-component"


class Named(Constants):
    """Constants under another name."""

    definition = Definition("example.Named", settings=("configuration.values",))


class Composite(Constants):
    definition = Definition("example.Composite", is_composite=True)


class Half:
    definition = Definition("example.Half")

    async def launch(self, *_: Any) -> None: ...


def install(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    points = [EntryPoint(f"type{n}", value, ENTRY_POINT_GROUP) for n, value in enumerate(values)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == ENTRY_POINT_GROUP else [])


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ComponentTypes:
    """The types with the example's, found as its package declares it."""
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    text = (EXAMPLE / "pyproject.toml").read_text().split(f'"{ENTRY_POINT_GROUP}"]')[1]
    install(monkeypatch, *re.findall(r'^\w+ = "([\w.:]+)"$', text, re.MULTILINE))
    return ComponentTypes.load()


def test_every_type_that_the_compiler_knows_runs() -> None:
    types = ComponentTypes()
    assert set(running(types)) == set(BUILTIN)
    assert set(types.definitions) - {"composite.Scaler"} == set(running(types)) - {"composite.Scaler"}


async def test_a_package_brings_both_sides_of_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "tests.runtime.test_registry:Named")
    types = ComponentTypes.load()
    assert types.problems == ()
    manifest = """
        application:
          interfaces: {out: {x: bind(c#o.x)}}
          components:
            c:
              type: example.Named
              interfaces: {o: {x: publish-signal(int)}}
              configuration: {configuration.values: {o.x: 7}}
    """
    live = instance(manifest, component_types=types)
    assert await live.launch() is None
    assert live.results == {"out.x": 7}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("tests.runtime.test_registry:Half", "its 'command' must be an async function"),
        ("tests.runtime.test_registry:Composite", "composite; only Launchbay provides composites"),
        ("tests.runtime.test_registry:Constants", "its 'definition' must be a"),
        ("tests.runtime.nowhere:X", "ModuleNotFoundError"),
    ],
)
def test_what_does_not_keep_the_contract_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    install(monkeypatch, value)
    types = ComponentTypes.load()
    assert set(running(types)) == set(BUILTIN)
    [told] = types.problems
    assert "Can't load component type 'type0' of package" in told
    assert problem in told


def test_two_types_of_one_name_end_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, *["tests.runtime.test_registry:Named"] * 2)
    with pytest.raises(CannotStart, match=r"both provide the component type name 'example\.Named'"):
        ComponentTypes.load()


PORT = """
    application:
      interfaces: {web: {port: bind(port#port.number), another: bind(port#port.change)}}
      components: {port: {type: example.Port, configuration: {range.from: 20000, range.to: 20999}}}
"""


def test_the_manifest_of_the_examples_readme_is_the_tested_one(example: ComponentTypes) -> None:
    block = (EXAMPLE / "README.md").read_text().split("```yaml\n")[1].split("```")[0]
    shown, tested = (instance(text, component_types=example).manifest for text in (block, PORT))
    assert shown.components.keys() == tested.components.keys()
    assert shown.configuration_pins == tested.configuration_pins
    assert shown.results == tested.results


async def test_the_example_picks_a_port_and_another_one(example: ComponentTypes) -> None:
    live = instance(PORT, component_types=example)
    assert await live.launch() is None
    first = live.results["web.port"]
    assert 20_000 <= first <= 20_999
    seen = {first}
    while len(seen) == 1:
        assert await live.command("web.another") is None
        seen.add(live.results["web.port"])


async def test_the_example_says_what_is_wrong_with_its_range(example: ComponentTypes) -> None:
    live = instance(PORT.replace("20999", "10"), component_types=example)
    assert "The range from 20000 to 10 is empty" in (await live.launch() or "")


PORT_AND_MORE = """
    application:
      interfaces: {web: {port: bind(port#port.number)}}
      bindings: [[user, port]]
      components:
        port: {type: example.Port}
        user:
          type: workflow.Instance
          required: [port]
          interfaces: {port: {number: consume-signal(int)}}
          configuration:
            configuration.workflows:
              launch: {steps: [{a: {action: effect}}, {b: {action: effect, precedingPhases: [a]}}]}
"""


async def test_the_examples_choice_stays_after_a_crash(example: ComponentTypes) -> None:
    case = Case(lambda: instance(PORT_AND_MORE, component_types=example), plan_launch({}, InstanceStatus.REQUESTED))
    _, whole = await case.undisturbed()
    kept = 0
    for number in range(whole.disk.writes):
        found, live, [(disk, _)] = await case.cut_at(number)
        assert found.error is None
        recorded = disk.steps.get("port#launch/pick")
        if recorded is not None and recorded.outputs is not None:
            kept += 1
            assert recorded.outputs == {"number": live.results["web.port"]}
    assert kept >= 3
