"""What a plan says of all its steps."""

from msgspec.structs import replace

from launchbay.features.plans.look import job_id_of
from launchbay.features.plans.rules import (
    PlannedStep,
    count_effects,
    deletions,
    digest_of,
    leaves_open,
    not_allowed,
)
from launchbay.model.effect import Effect


def step(path: str, *effects: Effect, digest: str = "") -> PlannedStep:
    return PlannedStep(path=path, component="web", action="x", effects=list(effects), digest=digest)


DELETE = Effect(kind="delete", address="db[0]")
OPEN = Effect(kind="unknown", address="x")


def test_effects_are_counted_with_deletions_first() -> None:
    steps = [step("a", Effect(kind="create", address="db[0]"), DELETE), step("b", DELETE, OPEN)]
    assert list(count_effects(steps).items())[:2] == [("delete", 2), ("create", 1)]
    assert deletions(steps) == ["db[0]"]


def test_a_pattern_allows_addresses_whose_brackets_are_plain_text() -> None:
    assert not_allowed(["db[0]", "db[1]", "cache"], ["db[0]"]) == ["db[1]", "cache"]
    assert not_allowed(["db[0]", "cache"], ["db*"]) == ["cache"]
    assert not_allowed(["db[0]"], ["*"]) == []


def test_only_what_is_unknown_is_left_open_with_all_inside_it() -> None:
    steps = [step("web#launch/infra", DELETE), step("web#launch/each", OPEN)]
    assert leaves_open(steps, "web#launch/each")
    assert leaves_open(steps, "web#launch/each~[3]/each")
    assert not leaves_open(steps, "web#launch/infra")
    assert not leaves_open(steps, "web#launch/infra/inner")
    assert not leaves_open(steps, "web#launch/other")
    assert not leaves_open([replace(steps[1], instance="below")], "web#launch/each"), "that is a submodule's"


def test_steps_of_submodules_share_no_key_with_others_of_the_same_path() -> None:
    plan = "6b0d89742de59137f6ba9a41"
    ids = [job_id_of(plan, path) for path in ((), ("db",), ("db", "box"), ("web",))]
    assert ids[0] == plan
    assert len(set(ids)) == 4
    assert ids[1:] == [job_id_of(plan, path) for path in (("db",), ("db", "box"), ("web",))], "also after a crash"


def test_the_digest_covers_effects_and_artifacts() -> None:
    plans = [[step("a", DELETE)], [step("a", OPEN)], [step("a", DELETE, digest="1")], []]
    assert len({digest_of(each) for each in plans}) == 4
