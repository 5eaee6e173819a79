"""Random small applications whose outcome does not depend on timing: what they read is ordered by phases."""

import json
from typing import Any

from hypothesis import strategies as st

Step = dict[str, Any]


def _ordered_before(preceding: list[list[int]], number: int) -> set[int]:
    found: set[int] = set()
    for earlier in preceding[number]:
        found |= {earlier} | _ordered_before(preceding, earlier)
    return found


@st.composite
def applications(draw: st.DrawFn, want: int = 0) -> str:
    """Components that launch one after the other or side by side, with steps of all kinds, none failing for good.

    Each has a configuration pin with this value, whose trigger runs what its launch runs.
    """
    count = draw(st.integers(1, 3))
    components = {f"c{n}": draw(_component(n, want)) for n in range(count)}
    bindings = [[f"c{n}", f"c{n - 1}"] for n in range(1, count)]
    return json.dumps({"application": {"components": components, "bindings": bindings}})


@st.composite
def _component(draw: st.DrawFn, place: int, want: int) -> dict[str, Any]:
    interfaces: dict[str, Any] = {
        "own": {"want": "configuration(int)"},
        f"out{place}": {f"s{place}": "publish-signal(object)", f"k{place}": "publish-signal(object)"},
        f"do{place}": {f"grow{place}": "receive-command(object x => object got)"},
    }
    waits = False
    if place:
        waits = draw(st.booleans())
        interfaces["in"] = {f"s{place - 1}": "consume-signal(object)"}
        interfaces["send"] = {f"grow{place - 1}": "send-command(object x => object got)"}
    preceding = draw(_orders())
    kinds = ["effect", "effect", "retried", "ignored", "compute", "macro", "deep"]
    steps: dict[str, Step] = {}
    may_send = place > 0
    for number in range(len(preceding)):
        kind = draw(st.sampled_from([*kinds, "send"] if may_send else kinds))
        may_send = may_send and kind != "send"
        seen = [f"{{$.v{earlier}}}" for earlier in sorted(_ordered_before(preceding, number))]
        value = [f"c{place}t{number}", "{$.want}", *seen, *(["{$.signals.in}"] if place else [])]
        steps[f"t{number}"] = _step(kind, value, place, draw(st.integers(0, 4)))
        steps[f"t{number}"]["precedingPhases"] = [f"t{each}" for each in preceding[number]]
        steps[f"t{number}"].setdefault("output", {})[f"v{number}"] = "got" if kind == "send" else "value"
        if draw(st.booleans()):
            steps[f"t{number}"]["output"]["shared"] = "got" if kind == "send" else "value"
    if place:
        _read_first(steps, waits=waits)
    every = [f"{{$.v{number}}}" for number in range(len(preceding))]
    launch = {"steps": steps, "return": {f"s{place}": {"value": [*every, "{$.shared}"]}}}
    return {
        "type": "workflow.Instance",
        "required": ["in"] if place and not waits else [],
        "interfaces": interfaces,
        "configuration": {
            "own.want": want,
            "configuration.triggers": {"own.want": "again"},
            "configuration.workflows": {"launch": launch, "again": launch, **_called(place)},
        },
    }


@st.composite
def _orders(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 4))
    return [sorted(draw(st.sets(st.integers(0, number - 1)))) if number else [] for number in range(count)]


def _step(kind: str, value: list[Any], place: int, hold: int) -> Step:
    given: dict[str, Any] = {"value": value}
    match kind:
        case "effect":
            return {"action": "effect", "parameters": {**given, "hold": hold}}
        case "retried":
            return {"action": "effect", "parameters": {**given, "fail": 1, "retryCount": 2}}
        case "ignored":
            return {"action": "effect", "parameters": {**given, "fail": 9, "ignoreFail": True, "hold": hold}}
        case "compute":
            return {"action": "compute", "parameters": given}
        case "macro":
            return {"action": ".macro", "parameters": {**given, "retryCount": 1}}
        case "deep":
            return {"action": ".deep", "parameters": given}
        case _:
            return {"action": f"send.grow{place - 1}", "parameters": {"x": value}}


def _read_first(steps: dict[str, Step], *, waits: bool) -> None:
    for step in steps.values():
        step["precedingPhases"] = [*step["precedingPhases"], "read"]
    steps["read"] = {"action": "getSignals", "output": {"signals": "result"}}
    if waits:
        steps["wait"] = {"action": "waitPeers", "parameters": {"interfaces": {"in": 1}}}
        steps["read"]["precedingPhases"] = ["wait"]


def _called(place: int) -> dict[str, Any]:
    effect = {"action": "effect", "parameters": {"value": "{$.value}"}, "output": {"value": "value"}}
    nested = {"action": ".macro", "parameters": {"value": "{$.value}"}, "output": {"value": "value"}}
    grown = {"action": "effect", "parameters": {"value": "{$.x}"}, "output": {"y": "value"}}
    return {
        "destroy": {"steps": {"end": {"action": "effect"}}},
        ".macro": {"steps": {"in": effect}, "return": {"value": {"value": ["{$.value}"]}}},
        ".deep": {"steps": {"call": nested, "beside": effect}, "return": {"value": {"value": ["{$.call~value}"]}}},
        f"grow{place}": {
            "steps": {"g": grown},
            "return": {"got": {"value": "{$.y}"}, f"k{place}": {"value": "{$.y}"}},
        },
    }
