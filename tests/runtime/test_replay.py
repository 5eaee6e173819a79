"""After a crash at any moment a job ends as if there had been none, and nothing that was recorded happens twice."""

import asyncio
import os
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launchbay.manifest.configuration import Configured, configure
from launchbay.model.instance import InstanceStatus
from launchbay.planning.plans import plan_launch, plan_reconfigure, plan_run, plan_trigger
from tests.support.clock import run_without_waiting
from tests.support.runtime import (
    BY_CALL,
    BY_NAME,
    FAILING,
    MACRO,
    QUICK_RUN,
    SLOW,
    WORK,
    Case,
    Instance,
    applications,
    chain,
    check_records,
    cut_everywhere,
    instance,
    pair,
    reader,
)
from tests.support.runtime import launch as launching

# Of each random test; the long run has 4,000.
EXAMPLES = int(os.environ.get("LAUNCHBAY_EXAMPLES") or settings().max_examples)
LAUNCH = plan_launch({}, InstanceStatus.REQUESTED)
WAITING = "{action: waitPeers, parameters: {interfaces: {in: 1}}}"

LAUNCHES = {
    "macros": lambda: instance(MACRO),
    "chain": lambda: chain(a=launching(WORK, "a"), b=launching(WORK, "b"), c=launching(WORK, "c")),
    "required signals": lambda: reader("{action: effect}", required="[in]", a=SLOW, b=QUICK_RUN),
    "waiting for peers": lambda: reader(WAITING, a=SLOW),
    "peers that fail": lambda: reader(WAITING, a=FAILING),
    "retries": lambda: instance("""
        launch:
          steps:
            - a: {action: effect, parameters: {fail: 2, retryCount: 2}, output: {x: attempt}}
            - b: {action: effect, precedingPhases: [a], parameters: {value: "{$.x}", fail: 9, retryCount: 1}}
            - c: {action: effect, precedingPhases: [b]}
          return: {x: {value: "{$.x}"}}
    """),
    "ignored failures": lambda: instance("""
        launch:
          steps:
            - a: {action: effect, parameters: {fail: 9, ignoreFail: true}, output: {x: value}}
            - b: {action: .bad, phase: two, precedingPhases: [a], parameters: {ignoreFail: true}, output: {y: z}}
            - c: {action: effect, precedingPhases: [two], parameters: {value: ["{$.x}", "{$.y}", "{$.b~inner}"]}}
          return: {x: {value: ["{$.x}", "{$.y}", "{$.b~inner}"]}}
        .bad:
          steps:
            - one: {action: effect, parameters: {value: 1}, output: {inner: value}}
            - two: {action: effect, precedingPhases: [one], parameters: {fail: 9}}
    """),
    "pure failures": lambda: instance("""
        launch:
          steps:
            - a: {action: compute, parameters: {fail: true, ignoreFail: true}}
            - b: {action: effect, precedingPhases: [a]}
            - c: {action: compute, precedingPhases: [b], parameters: {fail: true}}
            - d: {action: effect, precedingPhases: [c]}
    """),
    "a sibling of a failure": lambda: instance("""
        launch:
          steps:
            - bad: {action: effect, parameters: {fail: 1, seconds: 0.06}}
            - first: {action: effect}
            - begun: {action: effect, precedingPhases: [first], parameters: {seconds: 0.12}}
            - never: {action: effect, precedingPhases: [begun]}
    """),
    "a failure that takes long to repeat": lambda: instance("""
        launch:
          steps:
            - bad: {action: .deep}
            - slow: {action: effect, parameters: {seconds: 0.05}}
            - never: {action: effect, precedingPhases: [slow]}
        .deep: {steps: [{inner: {action: .bad}}]}
        .bad:
          steps:
            - a: {action: effect}
            - b: {action: effect, precedingPhases: [a], parameters: {fail: 1}}
    """),
    "a component that fails while others run": lambda: instance("""
        application:
          components:
            bad:
              type: workflow.Instance
              interfaces: {o: {x: publish-signal(int)}}
              configuration:
                configuration.workflows:
                  launch:
                    steps:
                      - a: {action: effect}
                      - b: {action: compute, precedingPhases: [a]}
                      - c: {action: effect, precedingPhases: [b], parameters: {fail: 1}}
            slow:
              type: workflow.Instance
              interfaces: {o: {y: publish-signal(int)}}
              configuration:
                configuration.workflows:
                  launch: {steps: [{s: {action: effect, parameters: {seconds: 0.05}}}], return: {y: {value: 1}}}
            longer:
              type: workflow.Instance
              configuration:
                configuration.workflows:
                  launch:
                    steps:
                      - one: {action: effect, parameters: {seconds: 0.1}}
                      - two: {action: effect, precedingPhases: [one]}
            never:
              type: workflow.Instance
              required: [i]
              interfaces: {i: {y: consume-signal(int)}}
              configuration: {configuration.workflows: {launch: {steps: [{s: {action: effect}}]}}}
          bindings: [[never, slow]]
    """),
    "conditions": lambda: instance("""
        launch:
          steps:
            - a: {action: effect, parameters: {value: 1}, output: {x: value}}
            - yes: {action: effect, when: $.x == 1, precedingPhases: [a], output: {y: attempt}}
            - no: {action: effect, when: $.x > 1, precedingPhases: [a], output: {z: attempt}}
            - called: {action: .macro, when: $.y == 1, precedingPhases: [yes, no]}
            - uncalled: {action: .macro, when: $.z == 1, precedingPhases: [called]}
            - last: {action: effect, precedingPhases: [uncalled], parameters: {value: "{$= [$.y, $.z]}"}}
          return: {v: {value: "{$.y}{$.z}"}}
        .macro: {steps: [{one: {action: effect}}]}
    """),
    "loops": lambda: instance("""
        launch:
          steps:
            - list:
                action: effect
                each: [a, b, c]
                parallel: 2
                parameters: {value: "{$.each.index + 1}{$.each.value}"}
                output: {x: value}
            - map:
                action: .macro
                each: "{$.hosts}"
                precedingPhases: [list]
                parameters: {value: "{$.each.key}-{$.each.value}"}
                output: {y: value}
            - last: {action: effect, precedingPhases: [map], parameters: {value: "{$= [$.x, $.y]}"}, output: {v: value}}
          parameters: [hosts: {default: {one: 1, two: 2}}]
          return: {v: {value: "{$.v}"}}
        .macro:
          steps: [{in: {action: effect, parameters: {value: "{$.value}"}, output: {value: value}}}]
          return: {value: {value: "{$.value}"}}
    """),
    "a loop that fails": lambda: instance("""
        launch:
          steps:
            - list: {action: .macro, each: [1, 2, 3], parameters: {value: "{$.each.value}"}}
            - never: {action: effect, precedingPhases: [list]}
          onFailure: [{clean: {action: effect, parameters: {value: "{$.error.message}"}}}]
          finally: [{close: {action: effect}}]
        .macro:
          steps:
            - one: {action: effect}
            - two: {action: effect, precedingPhases: [one], parameters: {fail: "{$= $.value == 2 ? 1 : 0}"}}
    """),
    "polling": lambda: instance("""
        launch:
          steps:
            - poll: {action: effect, until: $.x == 3, delay: 0, output: {x: attempt}}
            - call: {action: .macro, until: $.output.v == 1, delay: 0, precedingPhases: [poll]}
            - last: {action: effect, precedingPhases: [call], parameters: {value: "{$.x}"}}
          return: {x: {value: "{$.x}"}}
        .macro:
          steps: [{one: {action: effect, parameters: {value: 1}, output: {v: value}}}]
          return: {v: {value: "{$.v}"}}
    """),
    "steps after the end": lambda: instance("""
        launch:
          steps: [{a: {action: effect, output: {x: attempt}}}]
          onFailure: [{never: {action: effect}}]
          finally:
            - one: {action: effect, parameters: {value: "{$.x}"}}
            - two: {action: effect, precedingPhases: [one], parameters: {fail: 9}}
    """),
    "a step and a workflow out of time": lambda: instance("""
        launch:
          steps:
            - quick: {action: effect}
            - late:
                action: pass
                precedingPhases: [quick]
                timeout: 20 ms
                parameters: {gate: never, ignoreFail: true}
            - called: {action: .slow, precedingPhases: [late], parameters: {ignoreFail: true}}
            - last: {action: effect, precedingPhases: [called]}
        .slow:
          timeout: 300 ms
          steps:
            - first: {action: effect}
            - never: {action: pass, precedingPhases: [first], parameters: {gate: never}}
          onFailure: [{clean: {action: effect}}]
    """),
    "parallel steps with one variable": lambda: instance("""
        launch:
          steps:
            - slow: {action: effect, parameters: {value: slow, seconds: 0.02}, output: {x: value}}
            - quick: {action: effect, parameters: {value: quick}, output: {x: value}}
            - use: {action: effect, precedingPhases: [slow, quick], parameters: {value: "{$.x}"}, output: {y: value}}
          return: {y: {value: "{$.y}"}}
    """),
    "a circle of phases": lambda: instance("""
        launch:
          steps:
            - a: {action: effect}
            - b: {action: effect, precedingPhases: [c]}
            - c: {action: effect, precedingPhases: [b]}
    """),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_cut_anywhere_ends_as_if_it_was_not(name: str) -> None:
    assert run_without_waiting(cut_everywhere(Case(LAUNCHES[name], LAUNCH))) > 0


def launched(live: Instance) -> Instance:
    """The instance with its components' state after a launch, without running one."""
    live.state = "{}"
    return live


CALLS = {
    "by pin": lambda: pair(BY_NAME, "one"),
    "by action": lambda: pair(BY_CALL, "one"),
    "to several": lambda: pair(BY_NAME, "one", "two", "three"),
    "that fails": lambda: pair(BY_NAME, "one", fail=1),
    "that is tried again": lambda: pair("{action: db.grow, parameters: {retryCount: 2}}", "one", fail=9),
    "to nobody": lambda: pair(BY_NAME),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_command_cut_anywhere_ends_as_if_it_was_not(name: str) -> None:
    plan = plan_run(CALLS[name]().manifest, "act.go", {"n": "1"}, InstanceStatus.RUNNING)
    assert await cut_everywhere(Case(CALLS[name], plan)) > 0


PUBLISHED = """
    application:
      components:
        a:
          type: workflow.Instance
          interfaces: {b: {set: "send-command(=> )"}}
          configuration:
            configuration.workflows:
              launch:
                steps:
                  - call: {action: CALL}
                  - later: {action: effect, precedingPhases: [call]}
                  - last: {action: effect, precedingPhases: [later]}
              .half:
                steps:
                  - set: {action: b.set}
                  - bad: {action: effect, precedingPhases: [set], parameters: {fail: 9}}
        b:
          type: workflow.Instance
          interfaces: {b: {set: "receive-command(=> )"}, out: {x: publish-signal(int)}}
          configuration:
            configuration.workflows: {set: {steps: [{s: {action: effect}}], return: {x: {value: 5}}}}
      bindings: [[a, b]]
"""


@pytest.mark.parametrize(
    "call",
    [
        "b.set",
        "commandCall, parameters: {service: b, command: set}",
        ".half, parameters: {ignoreFail: true}",
        ".half, parameters: {ignoreFail: true, retryCount: 1}",
    ],
)
async def test_what_a_finished_command_published_is_published_again(call: str) -> None:
    case = Case(lambda: instance(PUBLISHED.replace("CALL", call)), LAUNCH)
    expected, _ = await case.undisturbed()
    assert expected.components["b"]["signals"] == {"out": {"x": 5}}
    assert await cut_everywhere(case) > 0


TIMED_OUT = """
    application:
      components:
        a:
          type: workflow.Instance
          interfaces: {b: {slow: "send-command(=> )"}}
          configuration:
            configuration.workflows:
              launch:
                steps:
                  - call: {action: b.slow, parameters: {commandCallTimeout: 0.03, ignoreFail: true}}
                  - later: {action: effect, precedingPhases: [call]}
                  - last: {action: effect, precedingPhases: [later]}
        b:
          type: workflow.Instance
          interfaces: {b: {slow: "receive-command(=> )"}, out: {x: publish-signal(int)}}
          configuration:
            configuration.workflows:
              set: {steps: [], return: {x: {value: 6}}}
              slow:
                steps:
                  - quick: {action: effect}
                  - mark: {action: set, precedingPhases: [quick]}
                  - slow: {action: effect, precedingPhases: [mark], parameters: {seconds: 5}}
                  - never: {action: effect, precedingPhases: [slow]}
      bindings: [[a, b]]
"""


def test_a_command_that_timed_out_is_over_and_its_steps_do_not_start_again() -> None:
    async def cut() -> None:
        case = Case(lambda: instance(TIMED_OUT), LAUNCH)
        expected, whole = await case.undisturbed()
        assert expected.error is None
        assert expected.components["b"]["signals"] == {"out": {"x": 6}}
        inner = "a#launch/call>b#b.slow/slow"
        assert whole.world.paths().count(inner) == 1
        assert await cut_everywhere(case) > 0
        for number in range(whole.disk.writes):
            _, live, crashes = await case.cut_at(number)
            for disk, effects in crashes:
                if disk.steps.get("a#launch/call") and disk.steps["a#launch/call"].status == "Failed":
                    assert inner not in [effect.path for effect in live.world.effects[effects:]]

    run_without_waiting(cut())


async def test_the_log_tells_nothing_twice_of_steps_that_were_done() -> None:
    case = Case(
        lambda: instance("""
            launch:
              steps:
                - a: {action: effect, parameters: {value: "{$.nothing}"}}
                - b: {action: effect, precedingPhases: [a], parameters: {fail: 9, ignoreFail: true}}
                - c: {action: registerLogPath, precedingPhases: [b]}
                - d: {action: effect, precedingPhases: [c]}
        """),
        LAUNCH,
    )
    _, whole = await case.undisturbed()
    live = case.make()
    _, live, _ = await case.cut_at(whole.disk.writes - 1)
    told = [line for line in live.disk.lines if line[0] != "workflow#launch/c"]
    assert len(told) == len(set(told)) == 3


async def _cut(case: Case, shares: list[float]) -> None:
    expected, whole = await case.undisturbed()
    assert expected.error is None
    wanted = {(effect.path, effect.attempt) for effect in whole.world.effects}
    writes = [int(share * whole.disk.writes) for share in shares]
    found, live, crashes = await case.cut_at(*writes)
    assert found == expected
    check_records(live, crashes)
    assert {(effect.path, effect.attempt) for effect in live.world.effects} == wanted


async def _launched(text: str) -> str:
    """Launch an application and return the state of its instance."""
    live = instance(text)
    assert await live.launch() is None
    return live.state


ANY = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
SHARES = st.lists(st.floats(0, 0.999), min_size=1, max_size=3)


@ANY
@given(applications(), SHARES)
def test_any_application_cut_anywhere_ends_as_if_it_was_not(text: str, shares: list[float]) -> None:
    asyncio.run(_cut(Case(lambda: instance(text), LAUNCH), shares))


@ANY
@given(applications(), applications(want=1), SHARES)
def test_any_reconfiguration_cut_anywhere_ends_as_if_it_was_not(one: str, other: str, shares: list[float]) -> None:
    async def run() -> None:
        state, manifest = await _launched(one), instance(one).manifest
        before = Configured(manifest, configure(manifest, {}))
        plan = plan_reconfigure(InstanceStatus.RUNNING)
        await _cut(Case(lambda: replace(instance(other), state=state, before=before), plan), shares)

    asyncio.run(run())


@ANY
@given(applications(), SHARES)
def test_any_triggered_workflow_cut_anywhere_ends_as_if_it_was_not(text: str, shares: list[float]) -> None:
    async def run() -> None:
        state, manifest = await _launched(text), instance(text).manifest
        plan = plan_trigger(manifest, manifest.order[-1], "again", InstanceStatus.RUNNING)
        await _cut(Case(lambda: replace(instance(text), state=state), plan), shares)

    asyncio.run(run())


async def test_random_writes_are_really_reached() -> None:
    chance = random.Random(7)
    case = Case(LAUNCHES["macros"], LAUNCH)
    _, whole = await case.undisturbed()
    reached = [len((await case.cut_at(chance.randrange(whole.disk.writes)))[2]) for _ in range(10)]
    assert reached == [1] * 10
