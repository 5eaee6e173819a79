"""Rules of change sets."""

import pytest

from launchbay.features.change_sets.rules import follow_up_act, follow_up_comment


@pytest.mark.parametrize(
    ("kind", "is_running", "act"),
    [
        ("launch", False, "version"),
        ("reconfigure", True, "version"),
        ("version", False, "version"),
        ("relaunch", True, "relaunch"),
        ("relaunch", False, "version"),
        ("manage", True, "relaunch"),
        ("manage", False, "version"),
        ("destroy", False, "destroy"),
    ],
)
def test_what_stopped_is_followed_by_what_brings_the_instance_there(kind: str, act: str, *, is_running: bool) -> None:
    assert follow_up_act(kind, is_running=is_running) == act


@pytest.mark.parametrize(
    ("comment", "follows"),
    [
        ("OPS-17", "Plan again: OPS-17"),
        ("", "Plan again"),
        (" \n", "Plan again"),
        ("Plan again: OPS", "Plan again: OPS"),
    ],
)
def test_a_follow_up_says_once_that_it_is_one(comment: str, follows: str) -> None:
    assert follow_up_comment(comment, 100) == follows
    assert follow_up_comment("x" * 100, 100) == f"Plan again: {'x' * 88}"
