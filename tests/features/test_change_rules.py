"""The matrix of rules about changes: every operation, every kind of rule, every kind of caller.

After a change that is meant: LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/features/test_change_rules.py, and read the
diff.
"""

import os
from dataclasses import replace
from pathlib import Path

from launchbay.app.features import FEATURES
from launchbay.auth.permissions import ActingToken, Actor, Method
from launchbay.model.changes import EXEMPT, GOVERNED, Allowed, ChangeKind, Proposal, Refusal
from launchbay.model.job import Cause
from launchbay.planning.decisions import Change, answer_of
from tests.support.service import Api, accepted

# What a plan asks as (decision 0206).
PLANNED: tuple[tuple[str, ChangeKind], ...] = (
    ("launch_application", "launch"),
    ("reconfigure_instance", "reconfigure"),
    ("run_workflow", "run"),
    ("run_workflow of destroy", "destroy"),
)
WRITES = os.environ.get("LAUNCHBAY_GOLDEN") == "write"
MATRIX = Path(__file__).with_name("change_rules.golden")
PERSON = Actor("a" * 24, "a@example.com", "A", "", Method.CONSOLE)
RULES = {
    "a rule that denies programs": "- name: a\n  when: $.credential.kind in ['agent', 'token']\n  deny: No.",
    "a rule that requires a change set": "- {name: a, require: {changeSet: true}, because: Propose it.}",
    "a rule that requires an approval": "- {name: a, require: {approvals: 1}, because: Ask somebody.}",
    "a rule that warns": "- {name: a, warn: Think twice.}",
    "a rule about destructions": "- {name: a, when: $.kind == 'destroy', deny: It stays.}",
}
GATES: dict[str, dict[str, int]] = {"a closed gate of promotions": {"soak": 1_000}}
PROGRAM = replace(PERSON, method=Method.ACCESS_TOKEN, token=ActingToken("b" * 24, "bot", "c" * 24, None))
ENGINE = replace(PERSON, method=Method.ENGINE)


async def prepared(api: Api) -> dict[str, str]:
    """Return where changes are made, by the rule that is there: an environment, or an application in the first one."""
    open_one, ruled = await api.offer(), await api.offer()
    accepted(await api.put(f"environments/{ruled}/changePolicy", {"approvals": 1}))
    frozen = await api.offer()
    accepted(await api.put(f"environments/{frozen}/freeze", {"reason": "An incident."}))
    windowed = await api.offer()
    always = {"reason": "Always.", "firstDay": "1970-01-01", "lastDay": "2199-12-31"}
    accepted(await api.put(f"environments/{windowed}/freeze-windows", {"windows": [always]}))
    application = await api.application()
    accepted(await api.put(f"applications/{application}/freeze", {"reason": "An incident."}))
    places = {"no rule": open_one, "change policy": ruled, "freeze": frozen, "freeze window": windowed}
    places["freeze of the application"] = application
    for place, text in RULES.items():
        places[place] = await api.offer()
        accepted(await api.put(f"environments/{places[place]}/change-rules", {"rules": text}))
    stages: list[dict[str, object]] = [{"environmentId": open_one}]  # nothing runs in any of them
    for place, gate in GATES.items():
        places[place] = await api.offer()
        stages.append({"environmentId": places[place], **gate})
    accepted(await api.put(f"organizations/{api.organization}/promotion-order", {"stages": stages}))
    return places


async def change_set(api: Api, environment: str) -> str:
    """Return a change set of an environment, under its present policy."""
    body = {"act": "launch", "applicationId": await api.application(), "launch": {"environmentId": environment}}
    return str(accepted(await api.post(f"organizations/{api.organization}/change-sets", body))["id"])


async def matrix(api: Api) -> str:
    places = await prepared(api)
    covered = await change_set(api, places["change policy"])
    other = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    accepted(await other.post(f"change-sets/{covered}/approve"))
    uncovered = await change_set(api, places["no rule"])
    person = Change(operation="", kind="edit", organization_id=api.organization, actor=PERSON)
    promoted = await api.application()
    callers = {
        "a person": person,
        "an access token": replace(person, actor=PROGRAM),
        "an agent": replace(person, actor=replace(PERSON, is_agent=True)),
        "a schedule or bulk run": replace(person, is_later=True),
        "a recurring schedule": replace(person, is_later=True, cause=Cause("recurring-schedule", "d" * 24, "nightly")),
        "a rollout": replace(person, is_later=True, cause=Cause("rollout", "d" * 24)),
        "a rollback by policy": replace(person, actor=ENGINE, cause=Cause("rollback", "1")),
        "an access token that rolls back": replace(person, actor=PROGRAM, cause=Cause("rollback", "1")),
        "a sleep window": replace(person, is_later=True, cause=Cause("sleep", "d" * 24)),
        "the end of an idle instance": replace(person, is_later=True, cause=Cause("idle", "d" * 24, "environment")),
        "the same by a rule of the application": replace(
            person, is_later=True, cause=Cause("idle", "d" * 24, "application")
        ),
        "a put back by a rule": replace(person, is_later=True, change_set=uncovered),
        "an approved change set": replace(person, change_set=covered),
        "a change set without approvals": replace(person, change_set=uncovered),
    }
    kinds: dict[str, ChangeKind] = {
        **GOVERNED,
        "run_workflow destroy": "destroy",
        "resume_job with parameters": "reconfigure",
        **{f"{operation} as create_plan": kind for operation, kind in PLANNED},
    }
    lines = []
    rules = FEATURES.change_rules()
    async with api.database.connection() as connection:
        for place, environment in places.items():
            lines.append(f"# {place}")
            for operation, kind in kinds.items():
                lines.append(f"{operation} ({kind})")
                for caller, change in callers.items():
                    asked = replace(change, operation=operation.partition(" ")[0], kind=kind)
                    if place == "freeze of the application":
                        asked = replace(asked, environment_id=places["no rule"], application_id=environment)
                    else:
                        asked = replace(asked, environment_id=environment)
                    if place in GATES:
                        asked = replace(asked, application_id=promoted, proposed=Proposal(version=1))
                    found = await answer_of(connection, rules, asked)
                    answer = "warn" if isinstance(found, Allowed) and found.warnings else "allow"
                    if isinstance(found, Refusal):
                        answer = f"{found.outcome} {found.code}"
                    lines.append(f"  {caller}: {answer}")
    lines.append("# never asked")
    lines += [f"{operation}: {reason}" for operation, reason in EXEMPT.items()]
    return "\n".join(lines) + "\n"


async def test_each_operation_asks_each_rule_for_each_caller(api: Api) -> None:
    found = await matrix(api)
    if WRITES:
        MATRIX.write_text(found, "utf-8")
    assert found == MATRIX.read_text("utf-8")
