"""What an instance's work waits for, as sentences."""

import pytest

from launchbay.model.instance import AwaitedApproval, ChildJob, DueRun, Launching, Queued, Waits, waiting_for

AT_S = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


def test_nothing_is_said_where_nothing_waits() -> None:
    assert waiting_for(Waits()) == ""
    assert waiting_for(Waits(job="launch", owner="Ann", approvals=[], inner=[], launching=[], due=[])) == ""


@pytest.mark.parametrize(
    ("waiting", "end"),
    [
        (1, "worker."),
        (2, "worker, as another job of the organization does."),
        (3, "worker, as 2 other jobs of the organization do."),
        (1000, "worker, as many other jobs of the organization do."),
    ],
)
def test_a_job_in_the_queue_says_how_many_wait_beside_it(waiting: int, end: str) -> None:
    said = waiting_for(Waits(job="launch", queued=Queued(waiting, workers=1)))
    assert said == f"'launch' waits for a free place of a {end}"


def test_a_job_without_workers_says_so() -> None:
    assert "The operator must start one" in waiting_for(Waits(job="launch", queued=Queued(5, workers=0)))


def test_people_and_other_instances_are_named() -> None:
    waits = Waits(
        job="deploy",
        approvals=[AwaitedApproval("Deploy?", None, "Ops", 2, 1)],
        inner=[ChildJob("grow", "db", "5"), ChildJob("ask", None, "6")],
    )
    assert waiting_for(waits) == (
        "Waits for 2 approvals (1 given) by somebody with the role 'Ops': Deploy?"
        " Waits for 'grow' of 'db', instance 5. Waits for 'ask' of instance 6."
    )


def test_a_service_is_named_only_where_nothing_nearer_is_known() -> None:
    launching = [Launching("db", "5")]
    assert waiting_for(Waits(launching=launching)) == "Waits for the launch of the service 'db', instance 5."
    assert "service" not in waiting_for(Waits(launching=launching, inner=[ChildJob("launch", "db", "5")]))


@pytest.mark.parametrize(
    ("due", "said"),
    [
        (DueRun("workflow", "go", "", AT_S), "Scheduled 'go', due since 2023-11-14 22:13:20 UTC, waits for"),
        (
            DueRun("cron", "act.go", "db", AT_S),
            "Scheduled 'act.go' of 'db', due since 2023-11-14 22:13:20 UTC, waits for",
        ),
        (DueRun("trigger", "go", "", AT_S), "Triggered 'go', due since 2023-11-14 22:13:20 UTC, waits for"),
        (DueRun("expiry", "destroy", "", AT_S), "Its destruction is due and waits for"),
        (DueRun("signals", "", "", AT_S), "Changed signals of other instances wait for"),
    ],
)
def test_what_is_due_says_behind_what_it_waits(due: DueRun, said: str) -> None:
    assert waiting_for(Waits(job="hold", owner="Ann", due=[due])) == f"{said} the end of 'hold', run by Ann."
    assert waiting_for(Waits(due=[due])) == f"{said} what is due before it."
