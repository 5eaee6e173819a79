"""The queries of lists, their facets, and the pages of lists by name."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.console.list_query import (
    FACET_ROWS,
    InstanceQuery,
    facet_of_names,
    page_by_name,
    read_activity_query,
    read_instance_query,
    read_run_query,
    term,
)
from launchbay.ids import NamedRow
from launchbay.limits import CONSOLE_PAGE_ROWS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
APPLICATIONS = {"1": "Harbour shop", "2": "Payments", "3": "payments"}
ENVIRONMENTS = {"8": "production", "9": "staging"}
PEOPLE = {"5": "Mia Berg", "6": "Ada"}


def read(text: str) -> InstanceQuery:
    return read_instance_query(text, APPLICATIONS, ENVIRONMENTS, PEOPLE, "5", NOW)


def test_terms_narrow_and_words_search() -> None:
    query = read('status:failed shop app:"Harbour shop" env:production label:team=quay last-run:failed expires:<24h pr')
    wanted = query.wanted
    assert wanted.statuses == ["Failed"]
    assert wanted.application_ids == ["1"]
    assert wanted.environment_ids == ["8"]
    assert wanted.labels == "team=quay"
    assert wanted.job_outcomes == ["Failed"]
    assert wanted.expires_before == NOW + timedelta(hours=24)
    assert wanted.search == "shop pr"
    assert [each.problem for each in query.terms] == [""] * 6


def test_terms_of_one_field_are_alternatives() -> None:
    assert read("status:failed status:queued").wanted.statuses == ["Failed", "Requested"]
    assert read("app:PAYMENTS").wanted.application_ids == ["2", "3"]


def test_the_owner_is_a_person_by_name_or_the_user() -> None:
    assert read("owner:me").wanted.owner_id == "5"
    assert read("owner:ada").wanted.owner_id == "6"
    assert read('owner:"mia berg"').wanted.owner_id == "5"
    unknown = read("owner:Nobody")
    assert unknown.terms[0].problem
    assert unknown.wanted.owner_id is None


@pytest.mark.parametrize(
    "text", ["status:odd", "app:nothing", "colour:red", "expires:soon", "label:=", "last-run:running"]
)
def test_a_term_that_is_not_understood_says_why_and_selects_nothing(text: str) -> None:
    query = read(f"{text} status:failed")
    assert query.terms[0].problem
    assert text in str(query.problem)
    assert query.wanted.statuses == ["nothing"]


def test_an_unknown_field_names_the_nearest() -> None:
    assert "Did you mean 'status'?" in str(read("statuss:failed").problem)
    assert "Did you mean 'duration'?" in str(read_run_query("durations:>5s", {}, {}, {}, "7", NOW).problem)
    assert "Did you mean 'since'?" in str(read_activity_query("sinc:7d", ["delete"], NOW).problem)


def test_a_facet_adds_and_removes_its_term() -> None:
    query = read("status:failed shop")
    assert query.toggled("env:production") == "status:failed env:production shop"
    assert query.toggled("status:failed") == "shop"


def test_a_facet_offers_the_first_names_and_the_chosen_ones() -> None:
    names = [f"shop {number:04}" for number in range(5_000)]
    facet = facet_of_names("Application", "app", names, read('app:"shop 4999" app:other'))
    assert [name for name, _ in facet.options] == [*names[:FACET_ROWS], "shop 4999"]
    assert facet.more == "app"
    assert facet_of_names("Application", "app", names[:FACET_ROWS], read("")).more == ""


def test_pages_by_name_show_each_object_once() -> None:
    rows = [NamedRow(f"{number:024x}", f"Shop {number}") for number in range(2 * CONSOLE_PAGE_ROWS + 1)]
    shown, after = list[NamedRow](), None
    for _ in range(3):
        page = page_by_name(rows, None, after)
        assert not page.is_all
        shown, after = [*shown, *page.rows], page.next_after
    assert shown == rows
    assert after is None
    assert page_by_name(rows, "SHOP 100", None).rows == [rows[100]]
    assert page_by_name(rows, None, "f" * 24).is_first  # somebody has deleted the last row of the page before
    assert page_by_name(rows[:CONSOLE_PAGE_ROWS], None, None).is_all


@given(st.text())
def test_any_text_is_read_and_written_again(text: str) -> None:
    query = read(text)
    assert read(query.text).wanted == query.wanted


@pytest.mark.parametrize(("each", "name"), list(APPLICATIONS.items()))
def test_a_name_becomes_a_term_that_finds_it(each: str, name: str) -> None:
    assert each in (read(term("app", name)).wanted.application_ids or ())


def test_a_query_of_runs_narrows_by_people_times_and_durations() -> None:
    people = {"5": "Ana Ferreira", "6": "ci-bot"}
    text = 'status:failed by:"ana ferreira" duration:>5min started:<24h workflow:deploy quay'
    query = read_run_query(text, APPLICATIONS, ENVIRONMENTS, people, "7", NOW)
    assert query.wanted.outcomes == ["Failed"]
    assert query.wanted.owner_id == "5"
    assert query.wanted.longer_than == timedelta(minutes=5)
    assert query.wanted.since == NOW - timedelta(hours=24)
    assert query.wanted.workflows == ["deploy"]
    assert query.wanted.search == "quay"
    assert query.of_instance("9").instance_ids == ["9"]
    assert read_run_query("by:me", {}, {}, people, "7", NOW).wanted.owner_id == "7"
    for odd in ("by:nobody", "duration:5", "label:a=b", "expires:<1h"):
        assert read_run_query(odd, {}, {}, people, "7", NOW).terms[0].problem


def test_a_term_with_a_minus_leaves_out_what_has_the_value() -> None:
    assert read("-status:destroyed").wanted.statuses == ["Running", "Failed", "Executing", "Requested", "Destroying"]
    assert read("-env:production").wanted.environment_ids == ["9"]
    assert read("status:failed status:running -status:running").wanted.statuses == ["Failed"]
    assert read("-env:production -env:staging").wanted.environment_ids not in (None, [])
    for each in read("-colour:red -label:a=b").terms:
        assert each.problem.startswith("There is no field -")
