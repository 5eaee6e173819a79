"""What jobs and instances wait for, as sentences."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from launchbay.clock import from_ms
from launchbay.model.job import Holders
from launchbay.model.waits import Wait, has_places, read_waits, sentences, sleeping_message, turns_message

AT_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


DB = "5" * 24


def waits(names: Mapping[str, str] | None = None, **facts: Any) -> list[Wait]:
    return read_waits(
        json.dumps({"since": AT_MS, **facts}), {}, {DB: "db"} if names is None else names, of_instance=True
    )


def said(**facts: Any) -> str | None:
    return sentences(waits(**facts))


def test_nothing_is_said_where_nothing_waits() -> None:
    assert said() is None
    assert said(job="launch", owner="Ann", approvals=None, jobs=None, due=None, queue=[0, 0]) is None


def test_a_job_in_the_queue_says_its_place() -> None:
    assert said(queue=[2, 3], workers=1) == (
        "The job is number 2 of 3 in the organization's queue for a free job slot."
    )
    assert "none has sent a heartbeat" in (said(queue=[1, 1], workers=0) or "")


def test_people_and_other_jobs_are_named() -> None:
    approval = ["Deploy?", None, "Ops", 2, 1, AT_MS, AT_MS + 1_000]
    text = said(approvals=[approval], jobs=[["7" * 24, 3, "grow", DB, "db", AT_MS]])
    assert text == (
        "Waiting for 2 approvals (1 given) by a user with role 'Ops': Deploy?"
        " Waiting for job 3, 'grow', of the instance 'db'."
    )


def test_other_instances_are_named_only_to_those_who_may_read_them() -> None:
    jobs = [["7" * 24, 3, "grow", DB, "db", AT_MS]]
    call = {"kind": "instance", "text": "The call of 'grow' waits for another instance, which runs a job."}
    facts: dict[str, Any] = {"jobs": jobs, "told": [[AT_MS, {**call, "ends_when": "", "job": "8", "instance": DB}]]}
    for wait in waits({}, **facts):
        assert (wait.job, wait.instance) == (None, DB)
        assert not re.search("db|grow, 3", wait.text)
    assert said(**facts) == (
        "Waiting for job 3, 'grow', of the instance 'db'."
        " The call of 'grow' waits for another instance, which runs a job. It is 'db'."
    )


def test_what_is_not_listed_is_counted() -> None:
    approval = ["Deploy?", None, None, 1, 0, AT_MS, AT_MS + 1_000]
    step = ["rest", "web#launch/rest", AT_MS, AT_MS + 1_000]
    told = [AT_MS, {"kind": "retry", "text": "A pause.", "ends_when": ""}]
    counts = {"approvals_in_all": 2, "jobs_in_all": 1_001, "steps_in_all": 2, "told_in_all": 4}
    jobs = [["7" * 24, 3, "grow", DB, "db", AT_MS]]
    text = said(approvals=[approval], jobs=jobs, steps=[step], told=[told], **counts) or ""
    for counted in ("1 more approval.", "1000 more jobs.", "3 more steps.", "1 more step."):
        assert f"And for {counted}" in text
    assert "more" not in (said(approvals=[approval], approvals_in_all=1, jobs=jobs, jobs_in_all=1) or "")


def test_a_service_is_named_only_where_nothing_nearer_is_known() -> None:
    launching = [["db", "5"]]
    assert said(launching=launching) == "Waiting for the launch of service 'db', instance 5."
    steps = [["rest", "web#launch/rest", AT_MS, AT_MS + 1_000]]
    assert said(launching=launching, steps=steps) == "Step 'rest' of 'web' waits for its time."


@pytest.mark.parametrize(
    ("due", "beginning"),
    [
        (("workflow", "go", ""), "Scheduled 'go', due since 2023-11-14T22:13:20Z, is waiting for"),
        (("cron", "act.go", "db"), "Scheduled 'act.go' of 'db', due since 2023-11-14T22:13:20Z, is waiting for"),
        (("trigger", "go", ""), "Triggered 'go', due since 2023-11-14T22:13:20Z, is waiting for"),
        (("expiry", "destroy", ""), "The instance's destruction is due and waiting for"),
        (("signals", "", ""), "Changed signals of other instances are waiting for"),
    ],
)
def test_what_is_due_says_behind_what_it_waits(due: tuple[str, str, str], beginning: str) -> None:
    assert said(job="hold", owner="Ann", due=[[*due, AT_MS]]) == f"{beginning} the end of 'hold', run by Ann."
    assert said(due=[[*due, AT_MS]]) == f"{beginning} earlier due work."


def test_only_an_instance_says_what_waits_for_its_job() -> None:
    facts = json.dumps({"due": [["trigger", "go", "", AT_MS]], "sleeping": [AT_MS, None]})
    assert read_waits(facts, {}, {}) == []
    assert [each.kind for each in read_waits(facts, {}, {}, of_instance=True)] == ["schedule", "sleep"]


def test_a_sleeper_says_until_when() -> None:
    assert sleeping_message(from_ms(AT_MS), None) == (
        "Sleeping since 2023-11-14T22:13:20Z, until somebody keeps it awake."
    )
    assert said(sleeping=[AT_MS, AT_MS + 60_000]) == "Sleeping since 2023-11-14T22:13:20Z, until 2023-11-14T22:14:20Z."


def test_holders_are_read_only_for_groups() -> None:
    facts = json.dumps({"places": [["lock 'db'", 1, AT_MS, 1, 0]]})
    assert has_places(facts)
    assert not has_places("{}")
    [wait] = read_waits(facts, {"lock 'db'": Holders()}, {})
    assert (wait.kind, wait.position) == ("limit", 1)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"running": 1}, "Waiting for 1 job under way."),
        ({"running": 2, "busy": 1}, "Waiting for 2 jobs under way and 1 busy instance, which gets its turn when other"),
        ({"running": 0, "busy": 2}, "Waiting for 2 busy instances, which get their turns when other work allows it."),
        (
            {"running": 3, "waiting": 1, "most": 3},
            "Waiting for 3 jobs under way; 1 instance follows, at most 3 at a time.",
        ),
        ({"running": 0}, "Waiting for its next turn."),
        (
            {"running": 0, "frozen": 2, "freeze": "Ann froze it."},
            "Waiting for the end of a freeze of 2 instances. Ann froze it.",
        ),
    ],
)
def test_work_on_many_instances_says_what_it_waits_for(numbers: dict[str, Any], text: str) -> None:
    assert turns_message(**numbers).startswith(text)
