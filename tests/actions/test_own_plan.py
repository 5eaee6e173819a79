"""The parameter `plan` of `execrun`, `chefsolo` and `restcall`: what it answers is shown, bounded, masked, and held."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from launchbay import limits
from launchbay.actions.contract import Action, ActionCall
from launchbay.actions.execution import Chef, ExecRun
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.actions.restcall import RestCall
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.machine import ChefRun, CommandResult, Machine, RemoteCommand
from tests.support.contexts import MACHINE, RecordingContext
from tests.support.network import answer, loopback_server

EXEC, CHEF, REST = ExecRun(), Chef("chefsolo"), RestCall()
JSON = ("Content-Type", "application/json")


@dataclass
class Reached:
    """One machine, or none, which answers each command as the test says."""

    answers: dict[str, CommandResult]
    machines: list[Machine]
    asked: list[RemoteCommand] = field(default_factory=list)
    converged: int = 0

    def targets(self, roles: Sequence[str] | None) -> Sequence[Machine]:
        return self.machines

    async def run(self, machine: Machine, command: RemoteCommand) -> CommandResult:
        self.asked.append(command)
        return self.answers[command.line]

    async def converge(self, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        self.converged += 1
        return {}


@dataclass
class OnMachines(RecordingContext):
    reached: Any = None

    @property
    def machines(self) -> Any:
        return self.reached


def here(*machines: Machine, **answers: str | CommandResult) -> OnMachines:
    results = {
        line: each if isinstance(each, CommandResult) else CommandResult(each, "", 0) for line, each in answers.items()
    }
    return OnMachines(reached=Reached(results, list(machines)))


async def plan(action: Action, context: RecordingContext, **parameters: Any) -> ActionPlan:
    return await plan_action(action, ActionCall(parameters, context), "web#launch/run")


async def apply(action: Action, context: RecordingContext, approved: ActionPlan, **parameters: Any) -> Any:
    return await action.run(ActionCall(parameters, context, approved=approved.artifact))


async def test_a_step_without_it_is_one_unknown_effect_and_runs_nothing() -> None:
    context = here(MACHINE)
    for action, parameters in (
        (EXEC, {"command": ["go"]}),
        (CHEF, {"runList": ["a"]}),
        (REST, {"command": "http://x"}),
    ):
        made = await plan(action, context, **parameters)
        assert [each.kind for each in made.effects] == ["unknown"]
        assert "Without the parameter 'plan'" in made.effects[0].note
    assert context.reached.asked == []


async def test_what_the_command_prints_is_shown_and_only_it_has_run() -> None:
    context = here(MACHINE, look='{"rows": 3, "token": "canary-1"}\n', go="done")

    made = await plan(EXEC, context, command=["go"], plan=["look"], isSudo=True, shell="bash", timeout=5)

    [effect] = made.effects
    assert (effect.kind, effect.address, effect.certainty) == ("run", MACHINE.host, "estimated")
    assert effect.after == {"rows": 3, "token": "********"}
    [asked] = context.reached.asked
    assert (asked.line, asked.sudo, asked.shell, asked.timeout_s) == ("look", True, "bash", 5.0)


async def test_the_step_runs_only_while_the_answer_is_the_same() -> None:
    context = here(MACHINE, look="3 rows", go="done")
    given: dict[str, Any] = {"command": ["go"], "plan": ["look"]}
    made = await plan(EXEC, context, **given)

    assert (await apply(EXEC, context, made, **given))["stdout"] == {MACHINE.host: "done"}
    with pytest.raises(NotApproved, match="the parameters of the step changed"):
        await apply(EXEC, context, made, **given | {"command": ["other"]})
    context.reached.answers["look"] = CommandResult("4 rows", "", 0)
    context.reached.asked.clear()
    with pytest.raises(NotApproved, match=f"what 'plan' says of {MACHINE.host} changed"):
        await apply(EXEC, context, made, **given)
    assert [each.line for each in context.reached.asked] == ["look"]


@pytest.mark.parametrize("continues", [True, False])
async def test_only_the_attempt_whose_command_still_runs_does_not_look(continues: bool) -> None:
    context = here(MACHINE, look="3 rows", go="done")
    given: dict[str, Any] = {"command": ["go"], "plan": ["look"]}
    made = await plan(EXEC, context, **given)
    context.reached.answers["look"] = CommandResult("4 rows", "", 0)
    context.reached.asked.clear()
    call = ActionCall(given, context, approved=made.artifact, has_begun=True, continues=continues)

    with nullcontext() if continues else pytest.raises(NotApproved):
        await EXEC.run(call)

    assert [each.line for each in context.reached.asked] == ["go" if continues else "look"]


async def test_chef_is_held_in_the_same_way_and_reads_as_the_superuser() -> None:
    context = here(MACHINE, look="2 resources")
    given: dict[str, Any] = {"runList": ["recipe[a]"], "plan": "look"}
    made = await plan(CHEF, context, **given)
    assert made.effects[0].after == "2 resources"
    assert context.reached.asked[0].sudo
    context.reached.answers["look"] = CommandResult("9 resources", "", 0)

    with pytest.raises(NotApproved):
        await apply(CHEF, context, made, **given)

    assert context.reached.converged == 0


async def test_without_machines_nobody_knows_what_would_run() -> None:
    made = await plan(EXEC, here(), command=["go"], plan=["look"])
    assert [(each.kind, each.note) for each in made.effects] == [("unknown", "Unknown: there are no machines yet.")]


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (CommandResult("", "no such table", 3), "The command of 'plan' on 192.0.2.7 ended with exit code 3: no such"),
        (CommandResult("y" * (limits.PLAN_VALUE_BYTES + 1), "", 0), "Let it say less"),
    ],
)
async def test_a_command_that_fails_or_prints_too_much_fails_the_plan(result: CommandResult, named: str) -> None:
    with pytest.raises(ActionFailed, match=named):
        await plan(EXEC, here(MACHINE, look=result), command=["go"], plan=["look"])


async def test_a_request_shows_its_body_and_has_the_credentials_of_its_step() -> None:
    async with loopback_server() as server:
        server.routes["/preview"] = answer(200, b'{"rows": 3}', [JSON])
        server.routes["/go"] = answer(200, b"done")
        context = RecordingContext()
        given: dict[str, Any] = {
            "command": server.url("/go"),
            "method": "POST",
            "headers": {"x-one": "1"},
            "auth": {"token": "t-0123456789"},
            "plan": {"command": server.url("/preview"), "method": "POST", "body": {"a": 1}},
        }

        made = await plan(REST, context, **given)

        assert [(each.kind, each.after) for each in made.effects] == [("run", {"rows": 3})]
        [received] = server.received
        assert (received.method, received.target, received.body) == ("POST", "/preview", b'{"a":1}')
        assert (received.headers["x-one"], received.headers["authorization"]) == ("1", "Bearer t-0123456789")
        assert "idempotency-key" not in received.headers
        assert (await apply(REST, context, made, **given))["content"] == "done"
        server.routes["/preview"] = answer(200, b'{"rows": 4}', [JSON])
        with pytest.raises(NotApproved, match="what 'plan' says of"):
            await apply(REST, context, made, **given)
        assert [each.target for each in server.received].count("/go") == 1


async def test_a_request_that_fails_or_answers_too_much_fails_the_plan() -> None:
    async with loopback_server() as server:
        server.routes["/broken"] = answer(500, b"down")
        server.routes["/large"] = answer(200, b"x" * (limits.PLAN_VALUE_BYTES + 1))
        for path, named in (("/broken", "returned 500"), ("/large", "Let it say less")):
            with pytest.raises(ActionFailed, match=named):
                await plan(REST, RecordingContext(), command=server.url("/go"), plan={"command": server.url(path)})
        gone = server.url("/x")
    with pytest.raises(ActionFailed, match="Connection refused"):
        await plan(REST, RecordingContext(), command=gone, plan={"command": gone})
    with pytest.raises(ActionFailed, match="'plan' is wrong"):
        await plan(REST, RecordingContext(), command=gone, plan={"url": gone})
