"""Contexts for providers, with a log that a test can read."""

from dataclasses import replace
from typing import Any

from launchbay.machines.contract import ProviderContext
from launchbay.model.machine import Machine


class Log(list[str]):
    """The lines of a step's log."""

    def __call__(self, level: str, text: str) -> None:
        self.append(text)


def context(log: Log | None = None, **more: Any) -> ProviderContext:
    found = ProviderContext(
        organization_id="5f0000000000000000000002",
        environment_id="5f0000000000000000000003",
        instance_id="5f0000000000000000000001",
        component="web",
        action="execrun",
        step="deploy",
        path="web#launch/deploy",
        tag="t",
        log=Log() if log is None else log,
    )
    return replace(found, **more)


MACHINE = Machine(
    id="m",
    role="web",
    provider="dry-run",
    number=1,
    public_ip="192.0.2.7",
    private_ip="198.51.100.7",
    host_name="web-1.dry-run.example",
)
