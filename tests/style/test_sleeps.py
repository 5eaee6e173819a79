"""No test waits for a time where it could wait for the thing: who sleeps is in this list, with its reason.

`tests/support/eventually.py` waits for what can only be looked at. That something does not happen is shown by a later
thing, which comes after it would have happened. `sleep(0)` gives way to other tasks, which is no wait.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CALLS = {"time.sleep", "asyncio.sleep", "anyio.sleep", "sleep"}

# A stand-in for something slow: who asks it waits, or goes away meanwhile.
SLOW = {
    "actions/stand_ins/helm.py": "a release that takes its time",
    "actions/test_opentofu.py": "a store of states",
    "actions/test_restcall.py": "a server that says nothing",
    "api/jobs/test_jobs.py": "a server that a step asks",
    "api/test_quotas.py": "a request that computes for long; and a second after which requests count no more",
    "egress/test_http.py": "servers that drip or say nothing",
    "egress/test_outgoing_proxy.py": "a resolver that says nothing",
    "engine/test_dispatch.py": "a blocked loop, a server that says nothing, and a job that could wrongly begin",
    "features/webhooks/test_webhooks.py": "a receiver that says nothing",
    "manifest_tests/test_virtual_time.py": "work on a clock that leaps",
    "runtime/test_approved_steps.py": "a step that goes on for longer than the test",
    "store/test_database.py": "a transaction that goes on for longer than the test",
    "support/defects.py": "a defect that takes its time",
    "support/failpoints.py": "a process that waits for its death",
    "support/machines.py": "machines that take their time",
    "support/network.py": "connections that are cut or slow",
    "support/routes.py": "handlers that take their time",
    "support/runtime.py": "an action that takes its time",
    "test_concurrency.py": "a task that goes on for longer than the test",
    "web/test_turns.py": "requests on a clock that leaps",
}
# Load goes on for a while, or people pause between what they do.
LOAD = {
    "abuse/test_flood.py": "a flood that others feel only after a moment",
    "api/test_events.py": "notifications that come again and again",
    "concurrency/test_linearizability.py": "clients that pause",
    "support/family_load.py": "clients that pause",
    "support/load.py": "clients that pause",
    "support/rule_load.py": "clients that pause, and ask again after an error",
}
# Nothing tells of the moment: a kill at any time, an outage of some length, samples of something that changes.
MOMENTS = {
    "api/test_instance_detail.py": "samples of a percentage",
    "api/test_waits.py": "samples of what is held",
    "app/test_key_copies.py": "looks at a file of which only the first is told",
    "cli/test_outcomes.py": "cancels all that begins, until nothing is under way",
    "features/change_sets/test_directory_change_sets.py": "samples of connections",
    "support/truth/population.py": "how long nothing may change",
    "durability/test_clocks.py": "phases of a wrong clock",
    "durability/test_database_faults.py": "kills at any time, and time until the first answer, to the hundredth",
    "durability/test_failover.py": "an outage of some length",
    "durability/test_nats_faults.py": "kills at any time",
    "durability/test_plan_kills.py": "kills amid an answer",
    "durability/test_program_kills.py": "some looks at a state",
    "durability/test_remote_commands.py": "kills at any time",
    "durability/test_slow_disk.py": "phases of a slow disk",
    "durability/test_upgrade.py": "phases of an upgrade",
    "engine/test_cancellation.py": "cancels at any time",
    "engine/test_engine.py": "an outage of some length",
    "engine/test_jetstream.py": "what workers do at their start, after their first beat",
    "engine/test_parking.py": "the time after which a job would be parked",
    "engine/test_worker.py": "how long a duty is attended",
    "features/history/test_history.py": "a millisecond between two times",
    "machines/containers/test_kills.py": "lets each command go that begins meanwhile",
    "machines/containers/test_runs.py": "a command that ends while nobody looks",
    "machines/test_jump_hosts.py": "cancels amid a connection",
    "support/campaigns.py": "kills at any time",
    "support/eventually.py": "the wait for what can only be looked at",
    "support/later_kills.py": "rounds of work until a process dies",
    "support/operations.py": "what a campaign does while kills come at any time",
    "support/responsiveness.py": "samples of a loop",
    "support/servers.py": "kills amid an answer, and the end of a process that is no child",
    "support/shell.py": "the end of processes that are no children",
    "support/stored_plans.py": "an older version, which tells less",
    "support/verdict.py": "how long nothing may become less",
    "web/test_protocol.py": "the gap between two packets",
    "web/test_server.py": "the gap between two packets",
}


def sleeps() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call that lets time pass, with its module."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if "sleep(" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS and _lasts(node):
                    yield str(path.relative_to(TESTS)), node


def polls() -> Iterator[str]:
    """Yield the place of each loop that only looks again and again."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if "sleep(" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.While) and any(map(_sleeps, node.body)) and all(map(_looks, node.body)):
                    yield f"{path.relative_to(TESTS)}:{node.lineno}"


def _lasts(call: ast.Call) -> bool:
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)


def _sleeps(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    call = value.value if isinstance(value, ast.Await) else value
    return isinstance(call, ast.Call) and ast.unparse(call.func) in CALLS and _lasts(call)


def _looks(statement: ast.stmt) -> bool:
    """Tell whether a statement changes nothing: it sleeps, asserts, reads into a name, or leaves the loop."""
    if isinstance(statement, ast.If):
        return all(isinstance(each, ast.Return | ast.Break) for each in statement.body)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        within = list(ast.walk(statement.value))
        is_read = any(isinstance(each, ast.Call) for each in within)
        return is_read and statement.targets[0].id not in {each.id for each in within if isinstance(each, ast.Name)}
    return _sleeps(statement) or isinstance(statement, ast.Assert)


def test_who_sleeps_is_in_the_list() -> None:
    known = SLOW | LOAD | MOMENTS
    assert [f"{module}:{call.lineno}: {ast.unparse(call)}" for module, call in sleeps() if module not in known] == []


def test_who_is_in_the_list_sleeps() -> None:
    assert (SLOW | LOAD | MOMENTS).keys() - {module for module, _ in sleeps()} == set()


def test_each_loop_that_only_looks_uses_the_one_helper() -> None:
    assert list(polls()) == []
