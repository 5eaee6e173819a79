"""Whatever an answer shows is compared: the recorded answers are read again, each with one value altered.

`unnoticed.txt` lists the places whose values nothing is compared with, one a line, in groups below their reason. It
may only get shorter: `LAUNCHBAY_GOLDEN=write` writes it anew, and whatever has no reason yet comes first.
`_NOT_STORED` says what has no other source to be compared with.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click
import pytest
import structlog
from click.testing import CliRunner

from tests.support.truth.all import COMPARISONS, View, differences
from tests.support.truth.alterations import Fact, facts_of, names_of
from tests.support.truth.comparisons import Noticed
from tests.support.truth.viewers import logs_apart

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # a population, and some thousand replays

_LIST = Path(__file__).parent / "unnoticed.txt"
_LEAST_NOTICED = 1000
_FIRST_TRIED = 12
_NO_REASON = ""
# Places by pattern, `kind | name | where`, and why nothing tells what has to stand there.
_NOT_STORED = {
    r"[. ](next|page)$": "advice and links of a tool for agents, which depend on where the server is",
    r"(percent|percentComplete|usualDurationMs|usualSeconds)$": "estimates, which have tests of their own",
    r"[. ](inputs|outputs|parameters|parameterOrigins|returnValues|results)\.": "encrypted in the tables",
    r"(inputsCut|inputsOmitted|outputsOmitted|parametersCut|parametersRecorded|resultsCut)$": "about encrypted columns",
    r"^page \| /console/instances/\{id\}\S* \| .* div#waiting div p time": "tests/console/test_waits.py has each kind",
    r"^operation \| list_service_types \|": "the kinds of services are part of the program",
    r"(canEvict|canManageRoles|canEdit|canDelete|availableWorkflows\[\])$": "rights, which the matrix has",
}
# On pages, links and times are altered; faults of statuses and counts are seeded one by one (test_seeded_faults.py).
_ALTERED = re.compile(r"^(?!page \|)|@href$|@datetime$")


async def _noticed(view: View, asked: str, text: str) -> bool:
    """Tell whether a comparison that read this answer finds that it is altered."""
    record = view.record
    kept = record.answers[asked]
    record.altered = {asked: text}
    try:
        if record.check(asked, replace(kept, text=text)):  # as each answer is when it is recorded
            return True
        for reader in kept.readers:
            await COMPARISONS[reader](view)
    except (Noticed, AssertionError, LookupError, ValueError, TypeError, AttributeError, StopIteration):
        return True  # what cannot be read any more is noticed, too
    return False


def _reasons(text: str) -> dict[str, str]:
    """Return why nothing is compared with each place of the list."""
    found, reason = {}, _NO_REASON
    for line in text.splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            found[line] = reason
    return found


def _grouped(reasons: Mapping[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for place, reason in sorted(reasons.items()):
        groups.setdefault(reason, []).append(place)
    lines = [[*([f"# {each}"] if each else []), *groups[each], ""] for each in sorted(groups)]
    return "\n".join("\n".join(group) for group in lines)


def test_each_place_that_nothing_is_compared_with_has_a_reason() -> None:
    text = _LIST.read_text("utf-8")
    reasons = _reasons(text)
    assert [place for place, reason in reasons.items() if reason == _NO_REASON] == []
    assert _grouped(reasons) == text, "in its order, each once"


def _places(view: View) -> dict[str, list[tuple[str, Fact]]]:
    """Return the facts of all answers by their places."""
    names = names_of(view.oracle)
    found: dict[str, list[tuple[str, Fact]]] = {}
    for asked, kept in view.record.answers.items():
        for fact in facts_of(kept, names) if kept.place is not None else ():
            found.setdefault(" | ".join((*(kept.place or ()), fact.where)), []).append((asked, fact))
    return found


def _in_order(facts: list[tuple[str, Fact]]) -> list[tuple[str, Fact]]:
    """Return the first one, the last one, some between them, and then the others.

    One that is noticed is enough, and it is among the first ones nearly always. Which rows are there first depends on
    how fast the machine was, and some comparisons ask for a few rows only.
    """
    step = 1 + len(facts) // _FIRST_TRIED
    first = {0, len(facts) - 1, *range(1, len(facts) - 1, step)}
    return [facts[each] for each in sorted(range(len(facts)), key=lambda each: each not in first)]


def test_what_is_logged_while_a_command_runs_is_not_in_what_it_prints() -> None:
    @click.command()
    def command() -> None:
        structlog.get_logger().info("http.request")
        click.echo("{}")

    with logs_apart():
        assert CliRunner().invoke(command).stdout == "{}\n"


async def test_a_value_that_is_altered_is_noticed(views: dict[str, View]) -> None:
    view = views["administrator"]
    assert await differences(view) == []
    view.record.is_replayed, view.stops = True, True
    try:
        for compare in COMPARISONS.values():
            await compare(view)  # which notices nothing, unless replays differ from what was read
        reasons = _reasons(_LIST.read_text("utf-8"))
        listed = reasons.keys()
        is_written = os.environ.get("LAUNCHBAY_GOLDEN") == "write"
        places = {
            place: facts
            for place, facts in _places(view).items()
            if _ALTERED.search(place)
            and (is_written or place not in listed)
            and not any(re.search(each, place) for each in _NOT_STORED)
        }
        unnoticed = []
        for place, facts in places.items():
            for asked, fact in _in_order(facts):
                if await _noticed(view, asked, fact.altered()):
                    break
            else:
                unnoticed.append(place)
    finally:
        view.record.is_replayed, view.stops, view.record.altered = False, False, {}
    if is_written:
        _LIST.write_text(_grouped({each: reasons.get(each, _NO_REASON) for each in unnoticed}), "utf-8")
        return
    assert unnoticed == [], "\n".join(unnoticed)
    assert len(places) > _LEAST_NOTICED
