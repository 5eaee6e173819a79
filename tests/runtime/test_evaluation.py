"""Where expressions are evaluated: at once, or in a process with bounds (runtime/evaluation.py)."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.expressions import compile_condition, compile_template
from launchbay.manifest.paths import Scope
from launchbay.runtime.contract import VariableBudget
from launchbay.runtime.evaluation import Evaluations
from launchbay.runtime.evaluation_worker import frames_of, value_of
from tests.support.cases import each_holds
from tests.support.eventually import eventually
from tests.support.responsiveness import Watchdog
from tests.support.runtime import instance

SLICE_MS = 20.0  # that the event loop may be held
_ATTEMPTS = 3
LONG = "x" * 300_000
SLOW = f"match($.t, '{'(x?)' * 20}y')"  # some seconds of charge, without the time limit
VARIABLES: dict[str, Any] = {
    "t": LONG,
    "short": LONG[:2_499],
    "control": "\x01" * 600_000,
    "numbers": list(range(20_000)),
    "maps": [{"a": {"b": n}} for n in range(5_000)],
}


@asynccontextmanager
async def evaluations(memory_mib: int = 64) -> AsyncIterator[Evaluations]:
    found = Evaluations(memory_mib * limits.MIB)
    try:
        yield found
    finally:
        await found.close()


async def value(found: Evaluations, text: str, tenant: str = "org", **variables: Any) -> Any:
    scope = Scope({**VARIABLES, **variables}, {"step": {"inner": 5}}, 1_700_000_000)
    return (await found.evaluate(compile_condition(text), scope, tenant))[0]


def workers() -> list[int]:
    """Return the processes that evaluate for this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"evaluation_worker" in command:
            found.append(int(path.parent.name))
    return found


async def started() -> list[int]:
    return await eventually(workers)


async def ended(pid: int) -> None:
    async with asyncio.timeout(30):
        with suppress(FileNotFoundError):
            await eventually(lambda: "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2])


async def test_what_is_cheap_starts_no_process() -> None:
    async with evaluations() as found:
        assert await value(found, "length($.numbers) + 1") == 20_001
        assert workers() == []


async def test_both_places_give_the_same() -> None:
    tree = {
        "whole": "{$.maps}",
        "text": "of {$.step~inner} and ${named.so} {$= length(join($.numbers)) }",
        "all": "{$..b}",
        "static": [1, None, True, "a {{b}}", 1.5],
        "nothing": "{$.missing}",
    }
    scope = Scope({**VARIABLES, "named.so": "this"}, {"step": {"inner": 5}}, 1_700_000_000)
    template = compile_template(tree)
    async with evaluations() as found:
        assert await found.evaluate(template, scope, "org") == template.evaluate(scope)
        assert len(workers()) == 1
        condition = compile_condition("sum($.numbers) + length(yaml($.maps)) + now()")
        assert await found.evaluate(condition, scope, "org") == condition.evaluate(scope)


async def test_a_process_that_is_killed_fails_the_evaluation_with_its_expression_and_is_replaced() -> None:
    async with evaluations() as found:
        task = asyncio.create_task(value(found, f"true && length({SLOW}) > 1"))
        (worker,) = await started()
        os.kill(worker, signal.SIGSTOP)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(ExpressionError, match=r"true && length\(match.*ended unexpectedly"):
            await task
        assert len(await value(found, "yaml($.maps)")) > 10_000
        assert worker not in workers()


async def test_memory_is_bounded_by_the_system_where_the_charge_is_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.limits.EXPRESSION_INLINE_NS", 1)
    async with evaluations(16) as found:
        with pytest.raises(ExpressionError, match="MiB"):
            await value(found, "length([$.t, $.t])", t=[{"k": n} for n in range(200_000)])
        assert await value(found, "length($.numbers)") == 20_000


async def test_a_cancelled_evaluation_ends_its_process() -> None:
    async with evaluations() as found:
        task = asyncio.create_task(value(found, SLOW))
        (worker,) = await started()
        os.kill(worker, signal.SIGSTOP)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ended(worker)


async def test_an_idle_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launchbay.limits.EXPRESSION_WORKER_IDLE_S", 0.01)
    async with evaluations() as found:
        await value(found, "yaml($.maps)")
        for worker in workers():
            await ended(worker)


_SERVER = f"""
import asyncio
from launchbay.manifest.expressions import compile_condition
from launchbay.manifest.paths import Scope
from launchbay.runtime.contract import VariableBudget
from launchbay.runtime.evaluation import Evaluations

async def main():
    found = Evaluations()
    asyncio.create_task(found.evaluate(compile_condition({SLOW!r}), Scope({{"t": "x" * 300_000}}), "org"))
    while not (found._idle or found._places._value < 2):
        await asyncio.sleep(0.01)
    import subprocess, os
    while not (worker := subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "evaluation_worker"],
               capture_output=True, text=True).stdout.split()):
        await asyncio.sleep(0.05)
    print(worker[0], flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_the_process_dies_with_a_server_that_is_killed() -> None:
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", _SERVER, stdout=PIPE)
    assert server.stdout is not None
    worker = int(await server.stdout.readline())
    server.kill()
    await server.wait()
    await ended(worker)


async def test_an_organization_with_many_evaluations_leaves_a_process_to_others() -> None:
    async with evaluations() as found:
        order: list[str] = []

        async def one(tenant: str) -> None:
            await value(found, "length(yaml($.maps))", tenant)
            order.append(tenant)

        await asyncio.gather(*(one("many") for _ in range(6)), one("one"))
        assert order.index("one") <= 2
        assert len(workers()) <= limits.EXPRESSION_WORKERS


# What an author can write that is as large as it may be; each once held up the event loop for seconds, or is a sibling.
HEAVY = (
    f"length({SLOW}) > 1",
    "length(match($.t, '" + "(" * 90 + "x" + ")" * 90 + "')) > 1",
    "length(yaml([$.t, $.t])) > 1",
    "length(json($.control)) > 1",
    "length(join($.numbers)) > 1",
    "length($..b) > 1",
    "length($.maps + $.maps) > 1",
    "$.maps == $.maps",
    "matches($.t, '(x{1,1000})b')",
    "length(parseYaml(yaml($.maps))) > 1",
    "length(parseJson(json($.maps))) > 1",
    "length(split(join($.numbers))) > 1",
    "length(sort($.numbers)) > 1",
    "length(replace($.t, 'x', 'yy')) > 1",
    "length(upper($.control)) > 1",
    " && ".join([f"length(split($.short, '{'x' * 1_200}yx')) > 0"] * 60),
    f"$.t + 'yx' in $.t + '{'x' * 1_990}'",
)


async def test_no_evaluation_holds_the_event_loop() -> None:
    async with evaluations() as found:

        async def holds_nothing(text: str) -> None:
            slices = []
            for _ in range(_ATTEMPTS):
                async with Watchdog() as watchdog:
                    try:
                        await value(found, text)
                    except ExpressionError as refused:
                        assert text[:40] in str(refused)  # noqa: PT017 - either outcome is one
                slices.append(watchdog.blocked_ms)
                if slices[-1] < SLICE_MS:
                    break
            assert min(slices) < SLICE_MS

        await each_holds(holds_nothing, ((text,) for text in HEAVY))


async def test_many_expressions_that_see_all_variables_do_not_hold_the_event_loop() -> None:
    template = compile_template(["{$..b}"] * 16_000)
    scope = Scope({f"v{number}": number for number in range(4_000)})
    async with evaluations() as found:
        slices = []
        for _ in range(_ATTEMPTS):
            async with Watchdog() as watchdog:
                with pytest.raises(ExpressionError, match="read more than 500000 values"):
                    await found.evaluate(template, scope, "org")
            slices.append(watchdog.blocked_ms)
            if slices[-1] < SLICE_MS:
                break
        assert min(slices) < SLICE_MS


async def test_many_evaluations_of_one_turn_share_its_time() -> None:
    async with evaluations() as found:
        slices = []
        for _ in range(_ATTEMPTS):
            async with Watchdog() as watchdog:
                await asyncio.gather(*(value(found, "length(join(range(2000)))") for _ in range(100)))
            slices.append(watchdog.blocked_ms)
            if slices[-1] < SLICE_MS:
                break
        assert min(slices) < SLICE_MS


SURFACES = {
    "when": "- s: {action: pass, when: '%s'}",
    "each": "- s: {action: pass, each: '{$= %s ? range(20) : [] }', parallel: 20, when: '%s'}",
    "until": "- s: {action: pass, until: '%s || true', delay: 0.01}",
    "parameters": "- s: {action: pass, parameters: {x: '{$= %s }'}}",
    "timeout": "- s: {action: pass, timeout: '{$= %s ? 60 : 50 }'}",
    "return": "- s: {action: pass}\n  return: {r: {value: '{$= %s }'}}",
}


@pytest.mark.parametrize("surface", SURFACES)
async def test_no_place_of_an_expression_holds_the_event_loop(surface: str) -> None:
    text = "length(yaml(range(5000))) > 1"
    slices = []
    for _ in range(_ATTEMPTS):
        async with evaluations() as found:
            live = instance(f"launch:\n  steps:\n  {SURFACES[surface].replace('%s', text)}\n")
            live.surroundings = replace(live.surroundings, evaluator=found)
            async with Watchdog() as watchdog:
                assert await live.launch() is None
            slices.append(watchdog.blocked_ms)
            if slices[-1] < SLICE_MS:
                break
    assert min(slices) < SLICE_MS


async def test_a_refused_evaluation_fails_the_step_and_names_the_expression() -> None:
    async with evaluations() as found:
        live = instance("""
            launch:
              steps:
                - s: {action: pass, when: "matches(text(range(100000)), '(x{1,1000})b')"}
        """)
        live.surroundings = replace(live.surroundings, evaluator=found)
        error = await live.launch()
        assert error is not None
        assert "step 's' failed: matches(text(range(100000)), " in error
        assert "Use less data or simpler patterns." in error


def returning(count: int, expression: str) -> str:
    """Return a manifest whose launch returns values, which are signals as well."""
    names = [f"r{number}" for number in range(count)]
    values = "".join(f"\n    {name}: {{value: '{{$= {expression}}}'}}" for name in names)
    return f"launch:\n  steps:\n  - s: {{action: pass}}\n  return:{values}\n"


async def test_return_values_are_bounded_together_and_the_error_names_the_one_beyond() -> None:
    async with evaluations() as found:
        live = instance(returning(50, "range(30000)"))
        live.surroundings = replace(live.surroundings, evaluator=found)
        error = await live.launch()
        assert error is not None
        assert "with 'r2', the return values exceed 4 MiB" in error


@pytest.mark.parametrize("expression", ["range(30000)", "$.maps"])
async def test_return_values_at_their_bound_do_not_hold_the_event_loop(expression: str) -> None:
    maps = [{"a": number} for number in range(16_000)]
    slices = []
    for _ in range(_ATTEMPTS):
        async with evaluations() as found:
            live = instance(returning(1, expression), parameters={"maps": maps})
            live.surroundings = replace(live.surroundings, evaluator=found)
            async with Watchdog() as watchdog:
                assert await live.launch() is None
            slices.append(watchdog.blocked_ms)
            if slices[-1] < SLICE_MS:
                break
    assert min(slices) < SLICE_MS


async def test_arguments_of_a_call_are_bounded() -> None:
    live = instance(
        "launch: {steps: [{s: {action: .inner, parameters: {x: '{$= range(70000)}'}}}]}\n"
        ".inner: {parameters: [x], steps: [{t: {action: pass}}]}\n"
    )
    error = await live.launch()
    assert error is not None
    assert "The arguments of '.inner' exceed 4 MiB" in error


async def test_outputs_of_a_loop_are_bounded_together() -> None:
    live = instance("""
        launch:
          steps:
            - s: {action: .inner, each: "{$= range(9)}", output: {kept: r}}
        .inner: {steps: [{t: {action: pass}}], return: {r: {value: "{$= range(40000)}"}}}
    """)
    error = await live.launch()
    assert error is not None
    assert "item 6: with its outputs, those of the loop exceed 16 MiB" in error


async def test_what_a_loop_does_not_name_is_not_kept() -> None:
    live = instance("""
        launch:
          steps:
            - s: {action: .inner, each: "{$= range(9)}", output: {kept: small}}
        .inner:
          steps: [{t: {action: pass}}]
          return: {r: {value: "{$= range(40000)}"}, small: {value: 1}}
    """)
    assert await live.launch() is None


async def test_the_variables_of_running_workflows_are_bounded() -> None:
    live = instance(
        """
        launch:
          steps:
            - one/one: {action: .inner, output: {a: r}}
            - again/again: {action: .inner, precedingPhases: [one], output: {a: r}}
            - two/two: {action: .inner, precedingPhases: [again], output: {b: r}}
            - three/three: {action: .inner, precedingPhases: [two], output: {c: r}}
        .inner: {steps: [{t: {action: pass}}], return: {r: {value: "{$= range(30000)}"}}}
        """,
        variables=VariableBudget(4 * limits.MIB),
    )
    error = await live.launch()
    assert error is not None
    assert "with the outputs of step 'three/three', the variables of all running workflows exceed 4 MiB" in error


async def test_items_of_a_loop_give_their_variables_back() -> None:
    budget = VariableBudget(4 * limits.MIB)
    live = instance(
        """
        launch:
          steps:
            - s: {action: .outer, each: "{$= range(9)}"}
        .outer: {steps: [{o: {action: .inner, output: {kept: r}}}]}
        .inner: {steps: [{t: {action: pass}}], return: {r: {value: "{$= range(30000)}"}}}
    """,
        variables=budget,
    )
    assert await live.launch() is None
    budget.take(4 * limits.MIB)  # nothing is left


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(_JSON)
def test_frames_give_back_any_value(data: Any) -> None:
    assert value_of(frames_of(data, limits.MIB)) == data


def test_long_strings_and_lists_are_sent_in_short_frames() -> None:
    data = {"long" * 20_000: ["ä" * 200_000, list(range(10_000)), {str(n): [n] for n in range(5_000)}]}
    frames = list(frames_of(data, 16 * limits.MIB))
    assert value_of(frames) == data
    assert max(map(len, frames)) < 200_000


def test_variables_beyond_the_memory_are_refused() -> None:
    with pytest.raises(ExpressionError, match="more than 1 MiB"):
        list(frames_of(["x" * 1_000] * 2_000, limits.MIB))
