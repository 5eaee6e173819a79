"""What others answer to cron expressions of five fields: croniter, APScheduler, and npm's croner and cron-parser."""

import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter

from launchbay.model.schedule import zone_of, zoned_due_times

SCRIPT = Path(__file__).parents[1] / "model" / "cron_peers.mjs"
PACKAGES = Path(__file__).parents[2] / "frontend" / "node_modules"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=400)
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True, slots=True)
class Question:
    """An expression on the clock of a zone, for all times within 400 days."""

    text: str
    zone: str = "UTC"


Answer = tuple[int, ...] | None  # seconds since the epoch, or None if it is refused


def questions(count: int, zones: Sequence[str]) -> Iterator[Question]:
    """Yield random expressions: of many days with one time of the day, and of two days with many times."""
    chosen = random.Random(34)
    for number in range(count):
        zone = chosen.choice(zones)
        if number % 10:
            day = chosen.choice(("*", "*", "*", *_numbers(chosen, 1, 31), "L", "LW", f"{chosen.randint(1, 31)}W"))
            month = chosen.choice(("*", "*", "*", *_numbers(chosen, 1, 12), _names(chosen, _MONTHS)))
            numbered = (
                *_numbers(chosen, 0, 6),
                f"{chosen.randint(0, 6)}L",
                f"{chosen.randint(0, 6)}#{chosen.randint(1, 5)}",
            )
            named = (_names(chosen, _WEEKDAYS), f"{_names(chosen, _WEEKDAYS)}/2")
            weekday = chosen.choice(("*", "*", "5-7", "0-7", "7", f"{chosen.randint(0, 6)}/2", *numbered, *named))
            yield Question(f"{chosen.randint(0, 59)} {chosen.randint(0, 23)} {day} {month} {weekday}", zone)
        else:
            minute = chosen.choice(("0", *_numbers(chosen, 0, 59), f"{chosen.randint(0, 59)}/7", "*/70"))
            hour = chosen.choice(("*", "*", *_numbers(chosen, 0, 23), f"{chosen.randint(0, 23)}/5"))
            yield Question(f"{minute} {hour} 28,29 3 *", zone)


def _numbers(chosen: random.Random, low: int, high: int) -> tuple[str, ...]:
    first = chosen.randint(low, high)
    last = chosen.randint(first, high)
    step = chosen.randint(2, 4)
    return str(first), f"{first}-{last}", f"{first}-{last}/{step}", f"*/{step}", f"{first},{last}", f"{last}-{first}"


def _names(chosen: random.Random, names: Sequence[str]) -> str:
    first = chosen.randrange(len(names))
    return f"{names[first]}-{names[chosen.randrange(first, len(names))]}"


def ours(question: Question) -> Answer:
    try:
        times = zoned_due_times(question.text, zone_of(question.zone), SINCE)
    except ValueError:
        return None
    return _seconds(takewhile(lambda each: each <= UNTIL, times))


def by_croniter(question: Question) -> Answer:
    try:
        times = croniter(question.text, SINCE.astimezone(zone_of(question.zone)), ret_type=datetime)
        return _seconds(takewhile(lambda each: each <= UNTIL, times))
    except ValueError:
        return None


def by_apscheduler(question: Question) -> Answer:
    try:
        trigger = CronTrigger.from_crontab(question.text, timezone=zone_of(question.zone))
    except ValueError:
        return None
    found: list[datetime] = []
    after: datetime | None = SINCE + timedelta(seconds=1)
    while after is not None and after <= UNTIL:
        after = trigger.get_next_fire_time(found[-1] if found else None, after)
        if after is not None and after <= UNTIL:
            found.append(after)
            after = after.astimezone(UTC) + timedelta(microseconds=1)
    return _seconds(found)


def by_npm(asked: Sequence[Question]) -> dict[str, list[Answer]]:
    """Return the answers of each library of npm, in the order of the questions."""
    bounds = {"since": int(SINCE.timestamp()), "until": int(UNTIL.timestamp())}
    lines = "\n".join(json.dumps({"text": each.text, "zone": each.zone, **bounds}) for each in asked)
    done = subprocess.run(["node", SCRIPT], input=lines, capture_output=True, text=True, check=True, timeout=1_500)
    answers: dict[str, list[Answer]] = {"croner": [], "cron-parser": []}
    for line in done.stdout.splitlines():
        for library, times in json.loads(line).items():
            answers[library].append(None if times is None else tuple(times))
    return answers


def _seconds(times: Iterator[datetime] | list[datetime]) -> tuple[int, ...]:
    return tuple(int(each.timestamp()) for each in times)
