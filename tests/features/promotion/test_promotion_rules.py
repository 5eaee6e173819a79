"""Gates of promotions, without a service."""

from datetime import UTC, datetime, timedelta

import pytest

from launchbay.features.promotion.rules import Placed, closed, gates_of, opens_at, stage_before, version_in
from launchbay.model.instance import InstanceStatus
from launchbay.model.promotion import Stage

NOW = datetime(2027, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def placed(version: int = 5, since: datetime | None = NOW - HOUR, status: str = "Running", **ran: bool) -> Placed:
    return Placed(InstanceStatus(status), version, since, ran)


@pytest.mark.parametrize(
    ("stage", "found", "sentence", "at"),
    [
        (Stage(environment_id="b"), [placed()], None, None),
        (Stage(environment_id="b"), [], "Version 5 isn't in 'staging'.", None),
        (Stage(environment_id="b"), [placed(version=4)], "Version 5 isn't in 'staging'.", None),
        (Stage(environment_id="b"), [placed(status="Failed")], "An instance in 'staging' is Failed.", None),
        (Stage(environment_id="b"), [placed(since=None)], "An instance in 'staging' isn't Running with it.", None),
        (Stage(environment_id="b", soak_s=3_600), [placed()], None, None),
        (
            Stage(environment_id="b", soak_s=7_200),
            [placed(), placed(since=NOW - 5 * HOUR)],
            "Version 5 must run in 'staging' for 2 h: until 2027-01-01T01:00:00Z.",
            NOW + HOUR,
        ),
        (Stage(environment_id="b", workflows=("smoke",)), [placed(smoke=True)], None, None),
        (
            Stage(environment_id="b", workflows=("smoke",)),
            [placed(smoke=True), placed()],
            "The workflow 'smoke' must run on each instance in 'staging' with version 5, and hasn't yet.",
            None,
        ),
        (
            Stage(environment_id="b", workflows=("smoke",)),
            [placed(smoke=False)],
            "The last run of the workflow 'smoke' in 'staging' with version 5 failed.",
            None,
        ),
    ],
)
def test_a_gate_says_why_it_is_closed_and_when_it_opens(
    stage: Stage, found: list[Placed], sentence: str | None, at: datetime | None
) -> None:
    gates = gates_of(stage, "staging", 5, found, NOW)
    assert [each.sentence for each in closed(gates)] == ([] if sentence is None else [sentence])
    assert opens_at(gates) == at


def test_gates_open_by_themselves_only_if_time_is_all_that_is_missing() -> None:
    stage = Stage(environment_id="b", soak_s=7_200, workflows=("smoke",))
    gates = gates_of(stage, "staging", 5, [placed()], NOW)
    assert [each.kind for each in closed(gates)] == ["soak", "workflow"]
    assert opens_at(gates) is None


def test_a_version_is_that_of_an_environment_only_if_all_instances_have_it() -> None:
    assert version_in([placed(), placed()]) == 5
    assert version_in([placed(), placed(version=4)]) is None
    assert version_in([]) is None


def test_an_environment_follows_the_one_before_it_in_the_order() -> None:
    stages = [Stage(environment_id=each) for each in "abc"]
    assert stage_before(stages, "c") == (stages[2], stages[1])
    assert stage_before(stages, "a") == (stages[0], None)
    assert stage_before(stages, "d") == (None, None)


def test_an_open_soak_gate_says_since_when_the_version_has_been_running() -> None:
    gates = gates_of(Stage(environment_id="b", soak_s=60), "staging", 5, [placed()], NOW)
    assert gates[-1].sentence == "Version 5 has been running in 'staging' since 2026-12-31T23:00:00Z."
