"""Parents and children for tests of live instances."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.support.service import Api, accepted, fresh_name

# `hold` takes as long as it is told to; `spoil` sets what the next `destroy` and `resize` wait for.
CHILD = """
application:
  configuration: {input.wanted: 1, input.delay: "0", input.end: "0"}
  interfaces:
    input: {wanted: bind(worker#input.wanted), delay: bind(worker#input.delay), end: bind(worker#input.end)}
    result: {size: bind(worker#result.size)}
    actions: {hold: bind(worker#actions.hold), grow: bind(worker#actions.grow)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {wanted: configuration(int), delay: configuration(string), end: configuration(string)}
        result: {size: publish-signal(int)}
        actions: {hold: receive-command(string seconds => int size), grow: receive-command(int by => int size)}
      configuration:
        configuration.triggers: {input.wanted: resize, input.delay: resize}
        configuration.propagateStatus: [resize]
        configuration.workflows:
          launch: &resize
            steps: [{pause: {action: wait, parameters: {delay: "{$.delay}"}}}]
            return: {size: {value: "{$.wanted}"}}
          resize: *resize
          hold:
            steps: [{pause: {action: wait, parameters: {delay: "{$.seconds}"}}}]
            return: {size: {value: 99}}
          grow: {steps: [], return: {size: {value: "{$.by}"}}}
          destroy: {steps: [{pause: {action: wait, parameters: {delay: "{$.end}"}}}]}
"""
PINS = """
        input: {wanted: configuration(int), delay: configuration(string), end: configuration(string)}
        result: {size: publish-signal(int)}
        actions: {hold: receive-command(string seconds => int size), grow: receive-command(int by => int size)}
"""
SUBMODULE = """
    NAME:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:PINS"""


def submodule(name: str, locator: str) -> str:
    """A component that stands for a child with the manifest CHILD."""
    return SUBMODULE.replace("NAME", name).replace("LOCATOR", locator).replace("PINS", PINS.rstrip())


def parent(children: dict[str, str], more: str = "", interfaces: str = "", bindings: str = "[]") -> str:
    """A manifest with these children, component → application, whose pins show as `<component>.wanted` and so on."""
    pins = {"wanted": "input", "delay": "input", "end": "input", "size": "result", "hold": "actions", "grow": "actions"}
    shown = "".join(
        f"    {name}: {{{', '.join(f'{pin}: bind({name}#{interface}.{pin})' for pin, interface in pins.items())}}}\n"
        for name in children
    )
    components = "".join(submodule(name, locator) for name, locator in children.items())
    return (
        "application:\n  interfaces:\n"
        + shown
        + interfaces
        + f"  bindings: {bindings}\n  components:"
        + components
        + more
    )


async def child_application(api: Api, manifest: str = CHILD) -> str:
    """Make an application for children and return its name."""
    name = fresh_name("child")
    await api.application(manifest, name)
    return name


def links(document: Any) -> dict[str, str]:
    """Return the instances behind components."""
    return {part["name"]: part["instanceId"] for part in document["components"] if "instanceId" in part}


async def reconfigured(api: Api, instance: str, **body: Any) -> Any:
    """Reconfigure and wait for the end."""
    assert accepted(await api.put(f"instances/{instance}/configuration", body)) == {}
    return await api.settled(instance)


Path = tuple[str, ...]
Shape = tuple[int, ...]  # of the top application: one number for each child, how many children that one has
CHILD_NAMES, LEAF_NAMES = ("a", "b"), ("x", "y")
WORKER = """
    worker:
      type: workflow.Instance
      interfaces:
        own:
          want: configuration(int)
          size: publish-signal(int)
          grow: receive-command(int by)
          crash: receive-command(string word)
          slip: receive-command(string word)
      configuration:
        configuration.triggers: {own.want: resize}
        configuration.propagateStatus: [crash]
        configuration.workflows:
          launch: &resize
            steps: [{pause: {action: wait, parameters: {delay: 0}}}]
            return: {size: {value: "{$.want}"}}
          resize: *resize
          grow: {steps: [{pause: {action: wait, parameters: {delay: 0}}}], return: {size: {value: "{$.by}"}}}
          crash: &crash {steps: [{pause: {action: wait, parameters: {delay: "{$.word}"}}}]}
          slip: *crash
          destroy: {steps: [{pause: {action: wait, parameters: {delay: 0}}}]}
"""
EAR = """
    ear:
      type: workflow.Instance
      required: [own]
      interfaces: {own: {size: consume-signal(int)}, out: {heard: publish-signal(int)}}
      configuration:
        configuration.triggers: {own.size: hear}
        configuration.workflows:
          launch: &hear
            steps:
              - look: {action: getSignals, output: {seen: result}}
              - pause: {action: wait, precedingPhases: [look], parameters: {delay: 0}}
            return: {heard: {value: "{$.seen.own.size}"}}
          hear: *hear
"""
TREE_PINS = {
    "want": "configuration(int)",
    "size": "publish-signal(int)",
    "grow": "receive-command(int by)",
    "crash": "receive-command(string word)",
    "slip": "receive-command(string word)",
}


@dataclass
class Node:
    """What the model knows of one instance."""

    application: str
    children: "dict[str, Node]" = field(default_factory=dict)
    want: int = 0
    size: int = 0
    status: str = "Running"
    is_shared: bool = False
    id: str = ""

    def walk(self, path: Path = ()) -> "Iterator[tuple[Path, Node]]":
        """Yield every instance with its path, this one first."""
        yield path, self
        for name, child in self.children.items():
            yield from child.walk((*path, name))

    def values(self) -> dict[str, int]:
        """Return the return values of the instance."""
        values = {f"{interface(path)}.size": node.size for path, node in self.walk()}
        if self.children:
            values["ears.heard"] = next(iter(self.children.values())).size
        return values

    def components(self) -> list[str]:
        """Return the names of the instance's components."""
        return sorted([*self.children, "worker", *(["ear"] if self.children else [])])


def interface(path: Path) -> str:
    """Return the name of the interface that leads to the instance at a path."""
    return "_".join(path) or "own"


def manifest(children: dict[str, tuple[str, list[Path]]]) -> str:
    """Return a manifest with these children: name → application, and the paths below it, its own `()` first."""
    paths: list[Path] = [(), *((name, *below) for name, (_, inner) in children.items() for below in inner)]
    interfaces = "".join(
        f"    {interface(path)}: {{{', '.join(f'{pin}: bind({_target(path)}.{pin})' for pin in TREE_PINS)}}}\n"
        for path in paths
    )
    if children:
        interfaces += "    ears: {heard: bind(ear#out.heard)}\n"
    defaults = ", ".join(f"{interface(path)}.want: 0" for path in paths)
    bindings = f"  bindings: [[ear, {next(iter(children))}]]\n" if children else ""
    components = "".join(_submodule(name, locator, inner) for name, (locator, inner) in children.items())
    return (
        f"application:\n  configuration: {{{defaults}}}\n  interfaces:\n{interfaces}{bindings}"
        f"  components:{WORKER}{components}{EAR if children else ''}"
    )


def paths_below(leaves: int) -> list[Path]:
    """Return the paths in a child with so many leaves."""
    return [(), *((name,) for name in LEAF_NAMES[:leaves])]


def overlaps(jobs: list[tuple[str, str, float, float]]) -> list[str]:
    """Return a sentence for each two jobs of one instance that ran at the same time; (instance, id, begin, end)."""
    return [
        f"{later[1]} of {later[0]} began before the end of {earlier[1]}"
        for earlier, later in pairwise(sorted(jobs, key=lambda job: (job[0], job[2])))
        if earlier[0] == later[0] and later[2] < earlier[3]
    ]


def launch_changes(root: Node) -> dict[str, str]:
    """Return what the preview of a launch shows."""
    return dict.fromkeys(component_paths(root), "starts")


def component_paths(root: Node, path: Path = ()) -> list[str]:
    """Return the paths of all components at all levels, those of shared instances left out."""
    return [
        ".".join((*below, name)) for below, node in root.walk(path) if not node.is_shared for name in node.components()
    ]


def _target(path: Path) -> str:
    return "worker#own" if not path else f"{path[0]}#{interface(path[1:])}"


def _submodule(name: str, locator: str, paths: list[Path]) -> str:
    pins = ", ".join(f"{pin}: {kind!r}" for pin, kind in TREE_PINS.items())
    interfaces = "".join(f"        {interface(path)}: {{{pins}}}\n" for path in paths)
    return (
        f"\n    {name}:\n      type: reference.Submodule\n"
        f"      configuration: {{__locator.application-id: {locator}}}\n      interfaces:\n{interfaces}"
    )


def document_of(node: Node) -> dict[str, Any]:
    """Return what the API shows of an instance, as far as the model knows it."""
    return {"status": node.status, "returnValues": node.values(), "components": node.components()}
