"""The actions that only pass on what the runtime knows: signals, peers, commands, the instance, the logging family."""

from typing import Any

import pytest

from launchbay.actions.builtin import (
    LOGGING_ACTIONS,
    CommandCall,
    GetEnvironmentProperties,
    GetInstanceContext,
    GetSignals,
    NoOp,
    WaitPeers,
)
from launchbay.actions.contract import idempotency_key
from launchbay.errors import ActionFailed
from tests.actions.contexts import RecordingContext, Signals, run

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

    assert context.lines == [("info", f"The action '{action.name}' is accepted and does nothing here.")]


async def test_the_idempotency_key_differs_by_job_and_step_and_by_nothing_else() -> None:
    keys = {idempotency_key(job, step) for job in ("a", "ab") for step in ("b", "bb", "a/b")}

    assert len(keys) == 6
    assert idempotency_key("a", "b") == idempotency_key("a", "b")
    assert all(len(key) == 64 for key in keys)
