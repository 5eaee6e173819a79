"""Differences, what is known, and the states of findings."""

from typing import Any

import pytest
from msgspec.structs import replace

from launchbay import limits
from launchbay.features.drift.rules import (
    Difference,
    answered,
    candidates,
    count_new,
    differences,
    ignored,
    is_decided,
    learned,
    merged,
    other_answers,
    unchecked,
    with_answers,
    without_known,
)
from launchbay.features.plans.rules import PlannedStep
from launchbay.model.effect import AFTER_APPLY, ANSWER, NOT_SHOWN, Effect

STEP = "web#launch/infra"


def planned(*effects: Effect, path: str = STEP) -> PlannedStep:
    return PlannedStep(path=path, component="web", action="opentofu", effects=list(effects))


def changed(found: Any, described: Any, address: str = "box") -> PlannedStep:
    return planned(Effect(kind="change", address=address, before=found, after=described))


def only(*steps: PlannedStep) -> Difference:
    [found] = differences(steps)
    return found


def test_a_change_has_what_is_described_and_what_was_found() -> None:
    found = only(changed({"size": 5}, {"size": 1}))

    assert (found.kind, found.described, found.found) == ("changed", {"size": 1}, {"size": 5})


def test_a_replacement_is_one_difference_of_the_attributes_that_differ() -> None:
    found = only(
        planned(
            Effect(kind="delete", address="box", before={"id": "a", "size": 5, "name": "x"}),
            Effect(kind="create", address="box", after={"id": AFTER_APPLY, "size": 1, "name": "x"}),
        )
    )

    assert (found.described, found.found) == ({"size": 1}, {"size": 5})


def test_what_is_gone_is_missing_and_what_nothing_describes_is_extra() -> None:
    steps = [
        planned(Effect(kind="create", address="gone", after={"size": 1})),
        planned(Effect(kind="delete", address="made by hand", before={"size": 2}), path="web#launch/other"),
    ]

    assert [(each.kind, each.described, each.found) for each in differences(steps)] == [
        ("missing", {"size": 1}, {}),
        ("extra", {}, {"size": 2}),
    ]


def test_what_only_follows_from_another_difference_is_none() -> None:
    assert differences([changed(1, AFTER_APPLY, "output.size")]) == []


def test_runs_and_unknown_steps_are_no_differences_but_the_latter_are_listed() -> None:
    step = planned(
        Effect(kind="run", address="a"), Effect(kind="unknown", address="b", certainty="unknown", note="Nobody knows.")
    )

    assert differences([step]) == []
    assert [(each.step, each.note) for each in unchecked([step])] == [(STEP, "Nobody knows.")]


def test_noise_is_known_as_long_as_the_attribute_is_what_it_was() -> None:
    known = learned([only(changed({"at": "12:00", "size": 1}, {"at": "12:05", "size": 2}))], None, None)

    assert without_known([only(changed({"at": "12:00"}, {"at": "12:09"}))], known) == []
    [left] = without_known([only(changed({"at": "12:00", "size": 7}, {"at": "12:09", "size": 2}))], known)
    assert left.found == {"size": 7}


def test_of_steps_that_did_not_run_only_what_was_known_before_stays_known() -> None:
    def both(found: str) -> list[Difference]:
        return differences(changed_in(step, {"at": found}) for step in ("web#launch/infra", "db#launch/infra"))

    def changed_in(step: str, found: Any) -> PlannedStep:
        return planned(Effect(kind="change", address="box", before=found, after={"at": "later"}), path=step)

    known = learned(both("12:00"), learned(both("11:00"), None, None), ["web#launch/infra"])

    assert [each.step for each in without_known(both("12:00"), known)] == ["db#launch/infra"]
    assert [each.step for each in without_known(both("11:00"), known)] == ["web#launch/infra"]
    assert list(learned([], known, ["web#launch/infra"])) == ["db#launch/infra"], (
        "it doesn't differ after its step any more"
    )


@pytest.mark.parametrize("ran", [[], [STEP]])
def test_noise_where_a_finding_is_ignored_does_not_make_it_new_after_a_change(ran: list[str]) -> None:
    known = learned([only(changed({"at": "12:00"}, {"at": "12:05"}))], None, None)
    both = only(changed({"at": "12:00", "size": 5}, {"at": "12:09", "size": 1}))
    [first] = merged([], without_known([both], known), (), 1000)
    quiet = ignored(first, "The autoscaler does that.", 5000, "ada@example.com")

    [after] = merged([quiet], without_known([both], learned([both], known, ran)), (), 2000)

    assert after.state == "ignored"


@pytest.mark.parametrize("ran", [None, [STEP]])
def test_what_somebody_changes_between_a_change_and_its_baseline_does_not_become_noise(ran: list[str] | None) -> None:
    known = learned([only(changed({"at": "12:00"}, {"at": "12:05"}))], None, None)
    soon_after = only(changed({"at": "13:00", "size": 5}, {"at": "13:05", "size": 1}))
    extra = only(planned(Effect(kind="delete", address="other", before={"size": 1})))

    known = learned([soon_after, extra], known, ran)

    assert without_known([soon_after, extra], known) == [
        replace(soon_after, found={"size": 5}, described={"size": 1}),
        extra,
    ]


@pytest.mark.parametrize("value", [None, NOT_SHOWN])
def test_a_change_of_which_no_attribute_is_shown_is_a_difference_until_it_is_known(value: Any) -> None:
    found = only(changed(value, value))

    assert without_known([found], {}) == [found]
    assert without_known([found], learned([found], None, None)) == []


def test_a_finding_keeps_when_it_was_seen_first_and_is_gone_when_it_does_not_differ() -> None:
    [first] = merged([], [only(changed({"size": 5}, {"size": 1}))], (), 1000)
    [again] = merged([first], [only(changed({"size": 6}, {"size": 1}))], (), 2000)
    [gone] = merged([again], [], (), 3000)

    assert (again.first_seen, again.last_seen, again.difference.found) == (1000, 2000, {"size": 6})
    assert (gone.state, gone.last_seen) == ("gone", 3000)
    [back] = merged([gone], [only(changed({"size": 5}, {"size": 1}))], (), 4000)
    assert (back.state, back.first_seen) == ("new", 4000)


def test_a_finding_of_a_step_that_is_unknown_now_stays() -> None:
    [first] = merged([], [only(changed({"size": 5}, {"size": 1}))], (), 1000)

    assert merged([first], [], {STEP}, 2000) == [first]


def test_an_ignored_finding_is_new_when_its_time_is_over_or_another_attribute_differs() -> None:
    [first] = merged([], [only(changed({"size": 5}, {"size": 1}))], (), 1000)
    quiet = ignored(first, "The autoscaler does that.", 5000, "ada@example.com")
    assert count_new([quiet], 4999) == 0
    assert count_new([quiet], 5000) == 1

    [same] = merged([quiet], [only(changed({"size": 9}, {"size": 1}))], (), 2000)
    [late] = merged([quiet], [only(changed({"size": 9}, {"size": 1}))], (), 6000)
    [more] = merged([quiet], [only(changed({"size": 9, "open": True}, {"size": 1, "open": False}))], (), 2000)

    assert (same.state, same.reason) == ("ignored", "The autoscaler does that.")
    assert (late.state, late.reason, late.until) == ("new", "", None)
    assert more.state == "new"


def test_a_finding_is_put_back_only_if_its_change_set_was_applied() -> None:
    [first] = merged([], [only(changed({"size": 5}, {"size": 1}))], (), 1000)
    proposed = answered(first, "put back", "change-set-1")

    assert [each.state for each in merged([proposed], [], (), 2000, {"change-set-1"})] == ["put back"]
    assert [each.state for each in merged([proposed], [], (), 2000)] == ["gone"]


def test_a_parameter_with_the_described_value_is_a_candidate() -> None:
    found = only(changed({"size": 5, "name": "b", "key": "********"}, {"size": 1, "name": "a", "key": "********"}))

    assert candidates({"input.size": 1, "input.name": "a", "input.other": "x", "input.list": [1]}, found) == [
        ("input.size", 5),
        ("input.name", "b"),
    ]


def test_a_parameter_decides_a_difference_that_goes_with_it_and_brings_no_other() -> None:
    step, clock = changed(5, 1), changed("a", "b", "clock")
    box = only(step)

    assert is_decided(box, [step, clock], [clock], {})
    assert not is_decided(box, [step, clock], [step], {})
    assert not is_decided(box, [step], [clock], {})
    follows = changed(1, AFTER_APPLY, "output.size")
    assert is_decided(box, [step, follows], [changed(1, 5, "output.size")], {})


def test_noise_at_the_address_of_a_difference_leaves_it_decided() -> None:
    noise = {"at": "12:00"}
    known = learned([only(changed(noise, {"at": "12:05"}))], None, None)
    step, after = changed({**noise, "size": 5}, {"at": "12:09", "size": 1}), changed(noise, {"at": "12:10"})
    [box] = without_known([only(step)], known)

    assert is_decided(box, [step], [after], known)
    assert not is_decided(box, [step], [after], {})


def test_values_beyond_the_bytes_of_an_instance_are_left_out_and_the_findings_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "DRIFT_BYTES", 1000)
    found = differences([changed({"text": "x" * 300}, {"text": "y" * 30}, f"box[{number}]") for number in range(3)])

    kept = merged([], found, (), 1000)

    assert len(kept) == 3
    assert [each.difference.found["text"] for each in kept].count("(too large to be shown)") == 2
    assert {each.id for each in kept} == {each.id for each in found}


def answer(text: Any, address: str = "10.0.0.1", path: str = STEP) -> PlannedStep:
    return planned(Effect(kind="run", address=address, after=text, certainty="estimated", note=ANSWER), path=path)


def test_an_answer_that_is_another_one_than_in_the_baseline_shows_the_lines_that_differ() -> None:
    known = with_answers({}, [answer("port 80\nsize 1\nlog on")], None)

    [found] = other_answers([answer("port 80\nsize 5\nlog on")], known)

    assert (found.kind, found.address, found.is_answer) == ("changed", "10.0.0.1", True)
    assert (found.described, found.found) == ({"answer": "size 1"}, {"answer": "size 5"})
    assert other_answers([answer("port 80\nsize 1\nlog on")], known) == []
    assert differences([answer("anything")]) == []


def test_an_answer_in_another_order_or_with_a_line_less_is_another_one() -> None:
    known = with_answers({}, [answer("a\nb")], None)
    [other_order] = other_answers([answer("b\na")], known)
    [less] = other_answers([answer("a")], known)

    assert (other_order.described, other_order.found) == ({"answer": "a\nb"}, {"answer": "b\na"})
    assert (less.described, less.found) == ({"answer": "b"}, {"answer": ""})


def test_the_order_of_keys_in_an_answer_of_a_request_means_nothing() -> None:
    known = with_answers({}, [answer({"a": 1, "b": 2})], None)

    assert other_answers([answer({"b": 2, "a": 1})], known) == []
    [found] = other_answers([answer({"a": 1, "b": 3})], known)
    assert found.found == {"answer": '  "b": 3'}


def test_an_answer_without_a_baseline_is_no_finding_and_one_that_is_not_shown_says_nothing() -> None:
    assert other_answers([answer("a")], {}) == []
    assert other_answers([answer(NOT_SHOWN)], with_answers({}, [answer("a")], None)) == []


def test_steps_that_did_not_run_keep_the_answers_of_their_baseline() -> None:
    both = [answer("a"), answer("b", path="web#launch/other")]
    known = with_answers({}, both, None)

    after = with_answers(known, [answer("new"), answer("new", path="web#launch/other")], [STEP])

    assert other_answers([answer("new"), answer("b", path="web#launch/other")], after) == []


def test_of_answers_beyond_the_bytes_of_an_instance_only_digests_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRIFT_ANSWER_BYTES", 5)
    known = with_answers({}, [answer("too long")], None)

    assert "too long" not in str(known)
    assert other_answers([answer("too long")], known) == []
    [found] = other_answers([answer("changed")], known)
    assert (found.described, found.found) == ({"answer": NOT_SHOWN}, {"answer": "changed"})
