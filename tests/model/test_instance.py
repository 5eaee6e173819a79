"""The table of an instance's statuses, pair by pair (conformance.md, "States")."""

from itertools import product

import pytest

from launchbay.model.instance import (
    InstanceEvent,
    InstanceStatus,
    is_active,
    sources,
    status_after_job,
    transition,
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
