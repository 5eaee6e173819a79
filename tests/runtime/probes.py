"""Actions for tests: they remember what happened in a world that no crash takes away."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.actions.contract import Action, ActionCall, ActionParameter
from launchbay.errors import ActionFailed

MEETING_S = 2.0


@dataclass(frozen=True)
class Effect:
    """One time that an action with an effect did its work."""

    path: str
    attempt: int
    key: str
    parameters: Mapping[str, Any]


@dataclass
class World:
    """What the actions did and may wait for."""

    effects: list[Effect] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    present: dict[str, int] = field(default_factory=dict)
    raises: Callable[[], Any] = lambda: None
    returns: Any = None

    def paths(self) -> list[str]:
        return [effect.path for effect in self.effects]

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def actions(self) -> list[Action]:
        return [DoEffect(self), Compute(), Meet(self), Pass(self), Odd(self), Ask(self)]


@dataclass(frozen=True)
class _Probe:
    world: World
    aliases: tuple[str, ...] = ()
    pure: bool = False
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DoEffect(_Probe):
    """Does something that counts; fails in its first `fail` attempts, after `hold` turns of the event loop."""

    name: str = "effect"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        context, given = call.context, call.parameters
        self.world.effects.append(Effect(context.step_path, context.attempt, context.idempotency_key, dict(given)))
        for _ in range(int(given.get("hold", 0))):
            await asyncio.sleep(0)
        await asyncio.sleep(float(given.get("seconds", 0)))
        if context.attempt <= int(given.get("fail", 0)):
            raise ActionFailed(f"attempt {context.attempt} did not work.", retryable=given.get("retryable", True))
        return {"value": given.get("value"), "attempt": context.attempt}


@dataclass(frozen=True)
class Compute:
    """Gives its parameter back; pure."""

    name: str = "compute"
    aliases: tuple[str, ...] = ()
    pure: bool = True
    parameters: Mapping[str, ActionParameter] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        if call.parameters.get("fail"):
            raise ActionFailed("this cannot be computed.", retryable=False)
        return {"value": call.parameters.get("value")}


@dataclass(frozen=True)
class Meet(_Probe):
    """Waits until `count` steps are here at the same time; only steps that really run in parallel get through."""

    name: str = "meet"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        world, place = self.world, str(call.parameters.get("place", ""))
        world.present[place] = world.present.get(place, 0) + 1
        if world.present[place] >= int(call.parameters["count"]):
            world.gate(place).set()
        try:
            async with asyncio.timeout(MEETING_S):
                await world.gate(place).wait()
        except TimeoutError:
            raise ActionFailed(f"only {world.present[place]} came.", retryable=False) from None
        return {}


@dataclass(frozen=True)
class Pass(_Probe):
    """Notes its begin and end, and waits for a gate in between if it is given one."""

    name: str = "pass"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        path = call.context.step_path.rpartition("/")[2]
        self.world.events.append(f"{path} begins")
        if "opens" in call.parameters:
            self.world.gate(call.parameters["opens"]).set()
        if "gate" in call.parameters:
            await self.world.gate(call.parameters["gate"]).wait()
        self.world.events.append(f"{path} ends")
        return {}


@dataclass(frozen=True)
class Odd(_Probe):
    """Does what no action should: raises or returns what the world says."""

    name: str = "odd"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        self.world.events.append(f"odd {call.context.attempt}")
        result = self.world.raises()
        if asyncio.iscoroutine(result):
            await result
        returned: Mapping[str, Any] = self.world.returns
        return returned


@dataclass(frozen=True)
class Ask(_Probe):
    """Sends a command although it has an effect of its own, which the contract forbids."""

    name: str = "ask"

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        return await call.context.call_command("iface", "cmd", {}, None)
