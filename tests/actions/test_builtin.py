"""The actions that only pass on what the runtime knows: signals, peers, commands, the instance, the logging family."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.actions.builtin import (
    LOGGING_ACTIONS,
    CommandCall,
    GetEnvironmentProperties,
    GetInstanceContext,
    GetSignals,
    NoOp,
    Serialize,
    Wait,
    WaitPeers,
)
from launchbay.actions.contract import idempotency_key
from launchbay.errors import ActionFailed
from tests.support.contexts import START, RecordingContext, Signals, SteppedClock, run

pytestmark = pytest.mark.anyio
ONE = {"db": {"host": "h"}}
MANY = {"db": {"p1": {"host": "h"}, "p2": {"host": "i"}}}


@pytest.mark.parametrize(
    ("multi", "result"),
    [(None, ONE), (False, ONE), ("false", ONE), (True, MANY), ("true", MANY), (" True ", MANY)],
)
async def test_get_signals_gives_the_view_that_multi_asks_for(multi: Any, result: Any) -> None:
    assert await run(GetSignals(), RecordingContext(signals=Signals(ONE, MANY)), multi=multi) == {"result": result}


@pytest.mark.parametrize("multi", ["yes", 1, [], {}])
async def test_get_signals_refuses_a_multi_that_is_no_boolean(multi: Any) -> None:
    with pytest.raises(ActionFailed, match="'multi' is wrong: expected true or false"):
        await run(GetSignals(), multi=multi)


async def test_get_environment_properties_gives_the_signals_of_one_peer_each() -> None:
    assert await run(GetEnvironmentProperties(), RecordingContext(signals=Signals(ONE, MANY))) == {"result": ONE}


async def test_wait_peers_waits_for_counts_that_may_be_texts() -> None:
    context = RecordingContext()

    assert await run(WaitPeers(), context, interfaces={"compute": "3", "db": 1}, timeout="20 minute") == {}

    assert context.awaited == [({"compute": 3, "db": 1}, 1200)]


async def test_wait_peers_without_a_timeout_leaves_it_to_the_runtime() -> None:
    context = RecordingContext()

    await run(WaitPeers(), context, interfaces={"db": 1})

    assert context.awaited == [({"db": 1}, None)]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "'interfaces' is missing"),
        ({"interfaces": ["db"]}, "'interfaces' is wrong"),
        ({"interfaces": {"db": "many"}}, r"'interfaces\.db' is wrong: expected a whole number from 0"),
        ({"interfaces": {"db": -1}}, r"'interfaces\.db'"),
        ({"interfaces": {"db": True}}, r"'interfaces\.db'"),
        ({"interfaces": {"db": 1.5}}, r"'interfaces\.db'"),
        ({"interfaces": {"db": None}}, r"'interfaces\.db'"),
        ({"interfaces": {"db": 1}, "timeout": "soon"}, "'timeout' is wrong"),
    ],
)
async def test_wait_peers_names_the_parameter_that_is_wrong(parameters: dict[str, Any], named: str) -> None:
    context = RecordingContext()

    with pytest.raises(ActionFailed, match=named) as failed:
        await run(WaitPeers(), context, **parameters)

    assert not failed.value.retryable
    assert context.awaited == []


@pytest.mark.parametrize("name", ["serviceCall", "commandCall"])
async def test_a_command_is_called_with_its_arguments_and_its_results_come_back(name: str) -> None:
    context = RecordingContext(results={"progress": 7})

    outputs = await run(
        CommandCall(name), context, service="git", command="clone", arguments={"branch": "main"}, timeout=300
    )

    assert outputs == {"result": {"progress": 7}}
    assert context.commands == [("git", "clone", {"branch": "main"}, 300)]


async def test_a_command_needs_neither_arguments_nor_timeout() -> None:
    context = RecordingContext()

    await run(CommandCall("serviceCall"), context, service="git", command="clone", arguments=None)

    assert context.commands == [("git", "clone", {}, None)]


async def test_the_failure_of_a_command_fails_the_step() -> None:
    context = RecordingContext(results=ActionFailed("The command clone failed."))

    with pytest.raises(ActionFailed, match="clone failed"):
        await run(CommandCall("serviceCall"), context, service="git", command="clone")


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"command": "c"}, "'service' is missing"),
        ({"service": "", "command": "c"}, "'service' is wrong"),
        ({"service": ["git"], "command": "c"}, "'service' is wrong"),
        ({"service": "git"}, "'command' is missing"),
        ({"service": "git", "command": "c", "arguments": ["x"]}, "'arguments' is wrong"),
        ({"service": "git", "command": "c", "arguments": {1: "x"}}, "'arguments' is wrong"),
        ({"service": "git", "command": "c", "timeout": -1}, "'timeout' is wrong"),
    ],
)
async def test_a_command_call_names_the_parameter_that_is_wrong(parameters: dict[str, Any], named: str) -> None:
    context = RecordingContext()

    with pytest.raises(ActionFailed, match=named):
        await run(CommandCall("serviceCall"), context, **parameters)

    assert context.commands == []


async def test_the_instance_context_has_the_instances_id() -> None:
    assert await run(GetInstanceContext(), RecordingContext(instance_id="x")) == {"instanceId": "x"}


@pytest.mark.parametrize("action", LOGGING_ACTIONS, ids=lambda action: action.name)
async def test_the_logging_family_does_nothing_and_says_so(action: NoOp) -> None:
    context = RecordingContext()

    assert await run(action, context, path="/var/log/x") == {}

    assert context.lines == [("info", f"The action '{action.name}' has no effect here.")]


async def test_the_idempotency_key_differs_by_job_and_step_and_by_nothing_else() -> None:
    keys = {idempotency_key(job, step) for job in ("a", "ab") for step in ("b", "bb", "a/b")}

    assert len(keys) == 6
    assert idempotency_key("a", "b") == idempotency_key("a", "b")
    assert all(len(key) == 64 for key in keys)


TEXTS = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
DATA = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
)
YAML_TEXTS = st.text("ab: -#'\"\n{}[]&*!|>%@`0123noyes", max_size=20)
YAML_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | YAML_TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(YAML_TEXTS, inner),
)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"))


async def serialized(value: Any, wanted: Any = "JSON") -> str:
    outputs = await run(Serialize(), input=value, format=wanted)
    assert list(outputs) == ["serialized"]
    return str(outputs["serialized"])


@pytest.mark.slow
@given(DATA)
async def test_json_reads_back_as_the_same_data(value: Any) -> None:
    assert json.loads(await serialized(value, "JSON")) == value


async def test_json_keeps_order_and_letters_and_is_the_default() -> None:
    assert await run(Serialize(), input={"b": "ü", "a": [1, None]}) == {"serialized": '{"b":"ü","a":[1,null]}'}


@pytest.mark.slow
@given(YAML_DATA)
async def test_yaml_reads_back_as_the_same_data(value: Any) -> None:
    assert yaml.safe_load(await serialized(value, "YAML")) == value


async def test_yaml_is_in_block_style_without_anchors_and_keeps_order() -> None:
    shared = ["x" * 200, "no"]

    text = await serialized({"string": "http://h", "array": shared, "again": shared}, "yaml")

    assert text == f"string: http://h\narray:\n- {'x' * 200}\n- 'no'\nagain:\n- {'x' * 200}\n- 'no'\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a", "b", "c"], "a,b,c"),
        ([["n1=http://n1:2380", "n2=http://n2:2380"]], "n1=http://n1:2380,n2=http://n2:2380"),
        ([["only"]], "only"),
        (["only"], "only"),
        ([["a", 1], ["b", 2]], "a,1\nb,2"),
        (["x", ["b", 2]], "x\nb,2"),
        (["a,b", 'say "hi"', "two\nlines", ""], '"a,b","say ""hi""","two\nlines",'),
        ([1, 2.5, True, None, {"k": [1]}], '1,2.5,true,,"{""k"":[1]}"'),
        ([{"a": 1, "b": 2}, {"b": 3, "c": "x"}], "a,b,c\n1,2,\n,3,x"),
        ({"a": 1, "b": "x"}, "a,b\n1,x"),
        ("text", "text"),
        (7, "7"),
        ([], ""),
        ([[]], ""),
        (None, '""'),
    ],
)
async def test_csv_is_one_row_for_a_list_and_rows_for_lists(value: Any, text: str) -> None:
    assert await serialized(value, "CSV") == text


@given(st.lists(st.lists(CELLS, min_size=1), min_size=1))
async def test_csv_reads_back_as_the_same_rows(rows: list[list[str]]) -> None:
    text = await serialized(rows, "csv")

    assert list(csv.reader(io.StringIO(text, newline=""))) == rows


@pytest.mark.parametrize("wanted", ["XML", [], {"a": 1}, 3])
async def test_an_unknown_format_fails_with_the_known_ones(wanted: Any) -> None:
    with pytest.raises(ActionFailed, match="'format' is wrong: expected JSON, YAML or CSV") as failed:
        await serialized(1, wanted)

    assert not failed.value.retryable


async def test_a_missing_input_is_named() -> None:
    with pytest.raises(ActionFailed, match="'input' is missing"):
        await run(Serialize(), format="JSON")


@pytest.mark.parametrize("wanted", ["JSON", "CSV"])
async def test_what_has_no_form_in_json_fails(wanted: str) -> None:
    with pytest.raises(ActionFailed, match="Can't write the parameter 'input' as"):
        await serialized([float("nan"), object()], wanted)


@pytest.mark.parametrize("wanted", ["JSON", "YAML", "CSV"])
async def test_a_text_beyond_the_bound_fails_instead_of_being_kept(wanted: str) -> None:
    with pytest.raises(ActionFailed, match=str(limits.EXPRESSION_TEXT_CHARS)):
        await serialized("x" * (limits.EXPRESSION_TEXT_CHARS + 1), wanted)


@pytest.mark.parametrize(("delay", "seconds"), [(60, 60), ("2 minutes", 120), (0, 0), ("0.5", 0.5), ("3 hours", 10800)])
async def test_the_whole_delay_passes(delay: Any, seconds: float) -> None:
    context = RecordingContext()

    assert await run(Wait(), context, delay=delay) == {}

    assert context.clock.passed_s == pytest.approx(seconds)


async def test_after_a_crash_only_the_rest_is_waited() -> None:
    context = RecordingContext(clock=SteppedClock(passed_s=45), attempt=1)

    await run(Wait(), context, delay=60)

    assert sum(context.naps) == pytest.approx(15)
    assert context.percents[0] == 75


async def test_nothing_is_waited_when_the_delay_passed_during_the_crash() -> None:
    context = RecordingContext(clock=SteppedClock(passed_s=61))

    await run(Wait(), context, delay=60)

    assert context.naps == []


async def test_a_wall_clock_that_was_set_back_never_makes_the_wait_longer() -> None:
    context = RecordingContext(started_at=START + timedelta(days=1))

    await run(Wait(), context, delay=60)

    assert sum(context.naps) == pytest.approx(60)


@given(delay=st.floats(0.001, 600_000), passed=st.floats(0, 700_000))
async def test_percent_rises_below_a_hundred_and_is_reported_seldom(delay: float, passed: float) -> None:
    context = RecordingContext(clock=SteppedClock(passed_s=passed))

    await run(Wait(), context, delay=delay)

    assert context.percents == sorted(context.percents)
    assert all(0 <= percent <= 99 for percent in context.percents)
    assert len(context.percents) <= 22
    assert sum(context.naps) == pytest.approx(max(delay - passed, 0), abs=2e-3)


@pytest.mark.parametrize("delay", [None, "soon", -1, [], "8 days", True])
async def test_a_wrong_delay_fails_the_step_at_once_and_names_the_parameter(delay: Any) -> None:
    context = RecordingContext()

    with pytest.raises(ActionFailed, match="'delay'") as failed:
        await run(Wait(), context, delay=delay)

    assert not failed.value.retryable
    assert context.naps == []
