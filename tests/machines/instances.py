"""Instances on machines of a test: dry-run ones, or those of a lab."""

from typing import Any

from launchbay.machines.dry_run import Answer, Answers, DryRun
from launchbay.machines.registry import Providers
from launchbay.model.environment import EnvironmentView
from tests.machines.lab import Lab
from tests.runtime.running import Instance, instance

PACKAGE = "tests"


def dry(text: str, *answers: Answer, policies: dict[str, Any] | None = None, **more: Any) -> Instance:
    """An instance on dry-run machines whose addresses begin with 192.0.2.1."""
    provider = DryRun(Answers(tuple(answers)), network_offset=lambda _: 0)
    view = EnvironmentView(policies=policies or {})
    return instance(text, machines=Providers([(PACKAGE, provider)], provider.name), environment=view, **more)


def answer(action: str = "*", give: dict[str, Any] | None = None, **conditions: str) -> Answer:
    return Answer({"action": action, **conditions}, give or {})


def on_lab(text: str, lab: Lab, **more: Any) -> Instance:
    return instance(text, machines=Providers([(PACKAGE, lab)], lab.name), **more)


def workflow(*steps: str, returns: str = "{}", more: str = "") -> str:
    """A workflow manifest whose steps run one after the other; each is `name: {action: …}` without phases."""
    lines = [f"    - {step}" for step in steps]
    names = [step.partition(":")[0] for step in steps]
    for number in range(1, len(lines)):
        lines[number] = lines[number].replace("{action:", f"{{precedingPhases: [{names[number - 1]}], action:", 1)
    body = "\n".join(lines) if lines else "    []"
    return f"launch:\n  steps:\n{body}\n  return: {returns}\n{more}"


def roles(live: Instance) -> dict[str, list[str]]:
    """The addresses of the machines in the instance's state by role."""
    found: dict[str, list[str]] = {}
    for component in live.components.values():
        for machine in component["machines"]:
            found.setdefault(machine["role"], []).append(machine["publicIp"])
    return found
