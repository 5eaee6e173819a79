"""Which failures are equal."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from launchbay.ids import is_id
from launchbay.model.failures import Affected, failure_id, group_failures, read_reason, shared_reason

STEP = "Component 'web': workflow 'launch': step '{}' failed: {}"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EQUAL = [
    ("Instance 5f5f5f5f5f5f5f5f5f5f5f5f is busy", "Instance 6a6a6a6a6a6a6a6a6a6a6a6a is busy"),
    ("job 0f8fad5b-d9cb-469f-a165-70867728950e lost", "job 7c9e6679-7425-40de-944b-e07fc1f90ae7 lost"),
    ("no answer within 30 s", "no answer within 31.5 s"),
    ("took 900 ms of 1000 ms", "took 2 s of 5 s"),
    ("10.0.0.5:22: connection refused", "10.0.12.7:2222: connection refused"),
    ("disk 93% full at 2026-03-01 10:15:00", "disk 97.5% full at 2026-03-02 11:00:01"),
    ("line one\n  line two", "line one line two"),
    ("https://shop-1.example/jobs/17 got 503", "https://shop-22.example/jobs/18 got 503"),
]
DIFFERENT = [
    ("got 503", "got 404"),
    ("exit code 1", "exit code 137"),
    ("HTTP 401", "HTTP 403"),
    ("status: 500", "status: 502"),
    ("killed by signal 9", "killed by signal 15"),
    ("connection refused", "connection reset"),
    ("Unknown variable 'red'", "Unknown variable 'blue'"),
    ("deadbeef is missing", "facade is missing"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_ids_and_numbers_do_not_count(one: str, other: str) -> None:
    assert shared_reason(STEP.format("check", one)) == shared_reason(STEP.format("check", other))
    assert shared_reason(one) == shared_reason(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_was_wrong_counts(one: str, other: str) -> None:
    assert shared_reason(STEP.format("check", one)) != shared_reason(STEP.format("check", other))


def test_names_of_the_objects_do_not_count() -> None:
    one = shared_reason("Volume of quay (Harbour shop) is full", Affected("quay", "Harbour shop"))
    assert one == shared_reason("Volume of pier (Shop) is full", Affected("pier", "Shop"))
    assert one.text == "Volume of … (…) is full"
    assert shared_reason("shopping failed", Affected("shop")).text == "shopping failed", (
        "a part of a word isn't the name"
    )
    assert shared_reason("x", Affected("", "x")).text == "…"
    assert shared_reason("shop-web failed", Affected("shop", "shop-web")).text == "… failed", (
        "a name may begin with another"
    )


def test_the_step_counts_and_the_workflow_does_not() -> None:
    one = shared_reason(STEP.format("check", "got 503"))
    assert one == ("web · check", "got 503")
    assert one != shared_reason(STEP.format("probe", "got 503"))
    assert one == shared_reason(STEP.format("check", "got 503").replace("launch", "deploy"))
    assert read_reason("Out of space") == ("", "Out of space")


def test_the_failure_of_a_submodule_has_the_place_of_both() -> None:
    inner = "Component 'pump': workflow 'launch': step 'fill' failed: got 503"
    assert read_reason(f"Component 'hull': {inner}") == ("hull · pump · fill", "got 503")
    assert read_reason("Component 'hull': Workflow 'launch': step 'fill' failed: got 503") == ("hull · fill", "got 503")


def test_the_id_has_the_form_of_ids_and_stays() -> None:
    reason = shared_reason(STEP.format("check", "got 503"))
    assert is_id(failure_id(reason))
    assert failure_id(reason) == "08206bd57922958af810a06c"
    assert failure_id(reason) != failure_id(shared_reason("got 503"))


class Failed(NamedTuple):
    name: str
    message: str
    at: datetime | None


def test_groups_have_their_first_and_last_failure_and_the_latest_comes_first() -> None:
    rows = [
        Failed("a", "no answer within 30 s", NOW - timedelta(hours=3)),
        Failed("b", "got 404", NOW - timedelta(hours=1)),
        Failed("c", "no answer within 31 s", NOW),
        Failed("d", "no answer within 32 s", NOW - timedelta(hours=2)),
        Failed("e", "never began", None),
    ]
    found = group_failures(rows, lambda row: row.message, lambda row: row.at, lambda _: Affected())
    assert [[row.name for row in group.items] for group in found] == [["c", "d", "a"], ["b"], ["e"]]
    assert (found[0].first, found[0].last, found[0].count) == (NOW - timedelta(hours=3), NOW, 3)
    assert (found[0].example, found[0].reason.text) == ("no answer within 31 s", "no answer within #")
    assert (found[2].first, found[2].last) == (None, None)


def test_a_message_without_end_takes_no_time() -> None:
    assert len(shared_reason("9" * 1_000_000 + "x" * 1_000_000).text) <= 2_000


def test_long_messages_are_equal_whatever_the_lengths_of_their_names() -> None:
    texts = [STEP.format("go", f"{name} stopped. " + "x " * 2_000 + "the end") for name in ("a", "a-much-longer-name")]
    first, second = (
        shared_reason(text, Affected(name)) for text, name in zip(texts, ("a", "a-much-longer-name"), strict=True)
    )
    assert first == second
    assert len(first.text) <= 2_000
