"""Cron expressions of five fields mean what other libraries read in them, or one of the reasons here says why not.

The reasons are those of docs/reference/cron.md. HYPOTHESIS_PROFILE=nightly asks ten times as many expressions.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings

from launchbay.model.schedule import zone_of
from tests.support import cron_peers
from tests.support.cron_peers import Answer, Question

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (cron_peers.PACKAGES / "croner").is_dir(), reason="the npm registry was not to be had"),
]

_EQUAL_ENDS = re.compile(r"(\w+)-\1\b")


def _both_days(text: str) -> bool:
    _, _, day, _, weekday = text.split()
    return day != "*" and weekday != "*"


def _starred_days(text: str) -> bool:
    _, _, day, _, weekday = text.split()
    return _both_days(text) and (day.startswith("*") or weekday.startswith("*"))


def _weekday(text: str) -> str:
    return text.split()[4]


# What a library reads differently: the sentence, and the expressions that it concerns.
REASONS: Mapping[str, Mapping[str, Callable[[str], bool]]] = {
    "croniter": {
        "days that begin with a star don't restrict": _starred_days,
        "a range with equal ends is all values": lambda text: _EQUAL_ENDS.search(text) is not None,
        "beside W, the weekday has no effect": lambda text: "W" in text.split()[2],
        "beside #, the day of month has no effect": lambda text: _both_days(text) and "#" in text,
    },
    "APScheduler": {
        "weekdays are counted from Monday": lambda text: re.search(r"\d", _weekday(text).partition("#")[0]) is not None,
        "both days must match": _both_days,
    },
    "croner": {
        "days that begin with a star don't restrict": _starred_days,
        "SUN-SUN is the whole week": lambda text: "SUN-SUN" in text,
    },
    "cron-parser": {
        "days that begin with a star don't restrict": _starred_days,
        "a step from a weekday includes Sunday, as 7": lambda text: re.match(r"\d/", _weekday(text)) is not None,
    },
}


@pytest.mark.timeout(1_800)
def test_four_libraries_fire_at_the_same_times_or_a_reason_says_why_not() -> None:
    count = 4_000 if settings.get_current_profile_name() == "nightly" else 400
    asked = list(cron_peers.questions(count, ["UTC"]))
    ours = [cron_peers.ours(each) for each in asked]
    answers: dict[str, list[Answer]] = {
        "croniter": [cron_peers.by_croniter(each) for each in asked],
        "APScheduler": [cron_peers.by_apscheduler(each) for each in asked],
        **cron_peers.by_npm(asked),
    }
    for library, theirs in answers.items():
        met: Counter[str] = Counter()
        for question, own, other in zip(asked, ours, theirs, strict=True):
            # What never fires is refused here, such as `0 0 31 4 *`; elsewhere it is a schedule without times.
            if other is None or (own or ()) == other:
                met["the same" if other is not None else "refused there"] += 1
                continue
            reasons = [reason for reason, concerns in REASONS[library].items() if concerns(question.text)]
            assert reasons, f"{question.text}: {library} fires at other times, for no known reason"
            met.update(reasons)
        assert set(met) >= set(REASONS[library]), f"{library} has changed: {met}"
        print(library, dict(met))


CHANGES = [
    # zone, the day of the change, expression, when it fires that day
    ("Europe/Berlin", "2026-03-29", "30 2 * * *", ["03:30+0200"]),
    ("Europe/Berlin", "2026-03-29", "0 2,3 * * *", ["03:00+0200"]),
    ("Europe/Berlin", "2026-03-29", "*/30 1-2 * * *", ["01:00+0100", "01:30+0100", "03:00+0200", "03:30+0200"]),
    ("Europe/Berlin", "2026-03-29", "0 1-4 * * *", ["01:00+0100", "03:00+0200", "04:00+0200"]),
    ("Europe/Berlin", "2026-10-25", "30 2 * * *", ["02:30+0200"]),
    ("Europe/Berlin", "2026-10-25", "0 2,3 * * *", ["02:00+0200", "03:00+0100"]),
    ("Australia/Lord_Howe", "2026-10-04", "0 2,3 * * *", ["02:30+1100", "03:00+1100"]),
    ("Australia/Lord_Howe", "2026-10-04", "*/30 1-2 * * *", ["01:00+1030", "01:30+1030", "02:30+1100"]),
    ("Australia/Lord_Howe", "2026-04-05", "*/30 1-2 * * *", ["01:00+1100", "01:30+1100", "02:00+1030", "02:30+1030"]),
    ("America/Santiago", "2026-09-06", "0 0 * * *", ["01:00-0300"]),
    ("America/Santiago", "2026-04-04", "30 23 * * *", ["23:30-0300"]),
    ("Asia/Kolkata", "2026-03-29", "30 2 * * *", ["02:30+0530"]),
]


@pytest.mark.parametrize(("zone", "day", "text", "expected"), CHANGES)
def test_where_a_clock_is_set_it_fires_as_the_page_says(
    zone: str, day: str, text: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = zone_of(zone)
    midnight = datetime.fromisoformat(day).replace(tzinfo=place)
    monkeypatch.setattr(cron_peers, "SINCE", midnight.astimezone(UTC) - timedelta(seconds=1))
    monkeypatch.setattr(cron_peers, "UNTIL", (midnight + timedelta(hours=23, minutes=59)).astimezone(UTC))
    found = cron_peers.ours(Question(text, zone)) or ()
    assert [f"{datetime.fromtimestamp(each, place):%H:%M%z}" for each in found] == expected
