import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth import permissions
from launchbay.auth.permissions import Pattern, Resource, parse_pattern, segment_matches
from launchbay.errors import BadRequest

APPLICATION = permissions.application("a1")
INSTANCE = permissions.instance("a1", "i1")
WORKFLOW = permissions.workflow("a1", "i1", "action.default")


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        ("/*", {APPLICATION, INSTANCE, WORKFLOW}),
        ("/applications/*", {APPLICATION, INSTANCE, WORKFLOW}),
        ("/applications/a1", {APPLICATION}),
        ("/applications/a1/*", {INSTANCE, WORKFLOW}),
        ("/applications/a*", {APPLICATION}),
        ("/applications/*/instances/*", {INSTANCE, WORKFLOW}),
        ("/applications/*/instances/i1", {INSTANCE}),
        ("/applications/*/instances/*/workflows/action.*", {WORKFLOW}),
        ("/applications/*/instances/*/workflows/Action.*", set()),
        ("*", {APPLICATION, INSTANCE, WORKFLOW}),
        ("/applications/**", {APPLICATION, INSTANCE, WORKFLOW}),
        ("/applications", set()),
        ("/Applications/*", set()),
        ("/environments/*", set()),
    ],
)
def test_a_pattern_covers_exactly_what_the_rules_say(pattern: str, covered: set[Resource]) -> None:
    parsed = parse_pattern(pattern)
    assert {resource for resource in (APPLICATION, INSTANCE, WORKFLOW) if parsed.covers(resource)} == covered


def test_a_slash_in_a_workflow_name_moves_no_boundary() -> None:
    tricky = permissions.workflow("a1", "i1", "x/y")
    assert not parse_pattern("/applications/a1/instances/i1/workflows/x/y").covers(tricky)
    assert parse_pattern("/applications/a1/instances/i1/workflows/x*").covers(tricky)


@pytest.mark.parametrize(
    "text", ["", "applications/*", "/", "//", "/applications/", "/applications//x", "/" + "x" * 2000]
)
def test_what_is_no_pattern_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"pattern"):
        parse_pattern(text)


def test_a_pattern_concerns_the_kinds_that_its_first_segment_fits() -> None:
    assert Pattern("/*").concerns("applications")
    assert Pattern("/app*/x").concerns("applications")
    assert not Pattern("/applications/*").concerns("environments")


@given(st.text(alphabet="ab*.", max_size=8), st.text(alphabet="ab.", max_size=8))
def test_a_segment_matches_as_the_regular_expression_of_its_stars_does(pattern: str, segment: str) -> None:
    obvious = ".*".join(re.escape(piece) for piece in pattern.split("*"))
    assert segment_matches(pattern, segment) == (re.fullmatch(obvious, segment) is not None)


def test_a_pattern_made_to_backtrack_costs_nothing() -> None:
    begin = time.process_time()
    assert not segment_matches("*a" * 500 + "b", "a" * 1000)
    assert time.process_time() - begin < 5


SEGMENT = st.text(st.characters(exclude_characters="/"), min_size=1, max_size=6)


@given(SEGMENT, SEGMENT, st.text(min_size=1, max_size=8))
def test_the_text_of_a_path_reads_back_as_the_same_path(application: str, instance: str, workflow: str) -> None:
    for resource in (
        permissions.application(application),
        permissions.instance(application, instance),
        permissions.workflow(application, instance, workflow),
        permissions.environment(application),
        permissions.service(application),
        permissions.role(application),
        permissions.user(application),
    ):
        assert permissions.parse_resource(str(resource)) == resource


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "applications/a",
        "/applications",
        "/applications/",
        "/machines/m",
        "/applications/a/instances",
        "/applications/a/revisions/r",
        "/applications/a/instances/i/steps/s",
        "/applications/a/instances/i/workflows/",
        "/environments/e/instances/i",
    ],
)
def test_what_names_no_object_is_refused_with_the_forms_that_do(text: str) -> None:
    with pytest.raises(BadRequest, match=r"A path is /applications/\{id\}"):
        permissions.parse_resource(text)
