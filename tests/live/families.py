"""Parents and children for tests of live instances."""

from typing import Any

from tests.api.running import Api, accepted, fresh_name

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
