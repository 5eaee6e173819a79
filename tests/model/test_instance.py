"""The table of an instance's statuses, pair by pair (conformance.md, "States")."""

from itertools import product

import pytest

from launchbay.model.instance import (
    AwaitedApproval,
    ChildJob,
    DueRun,
    InstanceEvent,
    InstanceStatus,
    Launching,
    Queued,
    Waits,
    is_active,
    sources,
    status_after_job,
    transition,
    waiting_for,
)

# Every pair that there is: status, event → status. All others are impossible.
MOVES = {
    ("Requested", "launch started"): "Executing",
    ("Executing", "launch started"): "Executing",
    ("Running", "work accepted"): "Executing",
    ("Failed", "work accepted"): "Executing",
    ("Executing", "work succeeded"): "Running",
    ("Executing", "work failed"): "Failed",
    ("Requested", "work failed"): "Failed",
    ("Requested", "destroy accepted"): "Destroying",
    ("Running", "destroy accepted"): "Destroying",
    ("Failed", "destroy accepted"): "Destroying",
    ("Destroying", "destroy succeeded"): "Destroyed",
    ("Destroying", "destroy failed"): "Failed",
}


@pytest.mark.parametrize(("status", "event"), product(InstanceStatus, InstanceEvent))
def test_each_pair_leads_where_the_decisions_say_or_nowhere(status: InstanceStatus, event: InstanceEvent) -> None:
    expected = MOVES.get((status.value, event.value))
    if expected is not None:
        assert transition(status, event) == expected
        assert status in sources(event)
        return
    with pytest.raises(ValueError, match="Invalid event"):
        transition(status, event)
    assert status not in sources(event)


def test_the_statuses_are_those_of_the_reference() -> None:
    assert set(InstanceStatus) == {"Requested", "Running", "Executing", "Failed", "Destroying", "Destroyed"}


def test_nothing_leads_out_of_destroyed() -> None:
    assert not any(InstanceStatus.DESTROYED in sources(event) for event in InstanceEvent)


@pytest.mark.parametrize("prior", [InstanceStatus.RUNNING, InstanceStatus.FAILED])
@pytest.mark.parametrize("succeeded", [True, False])
def test_a_job_that_does_not_propagate_leaves_the_status_as_it_was(prior: InstanceStatus, succeeded: bool) -> None:
    assert status_after_job(prior, is_destroy=False, succeeded=succeeded, propagates=False) is prior
    after = status_after_job(prior, is_destroy=False, succeeded=succeeded, propagates=True)
    assert after == ("Running" if succeeded else "Failed")


@pytest.mark.parametrize("propagates", [True, False])
def test_the_end_of_a_destroy_always_counts(propagates: bool) -> None:
    for prior in InstanceStatus:
        ends = [
            status_after_job(prior, is_destroy=True, succeeded=succeeded, propagates=propagates)
            for succeeded in (True, False)
        ]
        assert ends == ["Destroyed", "Failed"]


def test_only_destroyed_ones_and_failures_that_hold_nothing_are_not_active() -> None:
    active = {(status, held) for status in InstanceStatus for held in (True, False)}
    active -= {(InstanceStatus.DESTROYED, True), (InstanceStatus.DESTROYED, False), (InstanceStatus.FAILED, False)}
    assert {
        pair for pair in product(InstanceStatus, (True, False)) if is_active(pair[0], may_hold_something=pair[1])
    } == (active)


AT_S = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


def test_nothing_is_said_where_nothing_waits() -> None:
    assert waiting_for(Waits()) == ""
    assert waiting_for(Waits(job="launch", owner="Ann", approvals=[], inner=[], launching=[], due=[])) == ""


@pytest.mark.parametrize(
    ("waiting", "subject"),
    [
        (1, "is"),
        (2, "and 1 other job of the organization are"),
        (3, "and 2 other jobs of the organization are"),
        (1000, "and many other jobs of the organization are"),
    ],
)
def test_a_job_in_the_queue_says_how_many_wait_beside_it(waiting: int, subject: str) -> None:
    said = waiting_for(Waits(job="launch", queued=Queued(waiting, workers=1)))
    assert said == f"'launch' {subject} waiting for a free job slot."


def test_a_job_without_workers_says_so() -> None:
    assert "No worker has sent a heartbeat" in waiting_for(Waits(job="launch", queued=Queued(5, workers=0)))


def test_people_and_other_instances_are_named() -> None:
    waits = Waits(
        job="deploy",
        approvals=[AwaitedApproval("Deploy?", None, "Ops", 2, 1)],
        inner=[ChildJob("grow", "db", "5"), ChildJob("ask", None, "6")],
    )
    assert waiting_for(waits) == (
        "Waiting for 2 approvals (1 given) by a user with role 'Ops': Deploy?"
        " Waiting for 'grow' of 'db', instance 5. Waiting for 'ask' of instance 6."
    )


def test_a_service_is_named_only_where_nothing_nearer_is_known() -> None:
    launching = [Launching("db", "5")]
    assert waiting_for(Waits(launching=launching)) == "Waiting for the launch of service 'db', instance 5."
    assert "service" not in waiting_for(Waits(launching=launching, inner=[ChildJob("launch", "db", "5")]))


@pytest.mark.parametrize(
    ("due", "said"),
    [
        (DueRun("workflow", "go", "", AT_S), "Scheduled 'go', due since 2023-11-14 22:13:20 UTC, is waiting for"),
        (
            DueRun("cron", "act.go", "db", AT_S),
            "Scheduled 'act.go' of 'db', due since 2023-11-14 22:13:20 UTC, is waiting for",
        ),
        (DueRun("trigger", "go", "", AT_S), "Triggered 'go', due since 2023-11-14 22:13:20 UTC, is waiting for"),
        (DueRun("expiry", "destroy", "", AT_S), "The instance's destruction is due and waiting for"),
        (DueRun("signals", "", "", AT_S), "Changed signals of other instances are waiting for"),
    ],
)
def test_what_is_due_says_behind_what_it_waits(due: DueRun, said: str) -> None:
    assert waiting_for(Waits(job="hold", owner="Ann", due=[due])) == f"{said} the end of 'hold', run by Ann."
    assert waiting_for(Waits(due=[due])) == f"{said} earlier due work."
