"""Cron expressions mean what crontab(5) and the documentation of Quartz say."""

import re
from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.cron import parse

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


def days(text: str, count: int = 5) -> list[str]:
    """The days on which an expression fires, such as `Thu 01.01`."""
    return [f"{each:%a %d.%m}" for each in islice(parse(text).times(START), count)]


def times(text: str, count: int = 4) -> list[str]:
    return [f"{each:%H:%M:%S}" for each in islice(parse(text).times(START), count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 9 * * 1-5/2", ["Fri 02.01", "Mon 05.01", "Wed 07.01"]),
        ("0 9 * * */2", ["Thu 01.01", "Sat 03.01", "Sun 04.01", "Tue 06.01"]),
        ("0 9 * * 1/2", ["Fri 02.01", "Mon 05.01", "Wed 07.01"]),
        ("0 9 * * 5-7", ["Fri 02.01", "Sat 03.01", "Sun 04.01", "Fri 09.01"]),
        ("0 9 * * 0-7", ["Thu 01.01", "Fri 02.01", "Sat 03.01", "Sun 04.01", "Mon 05.01"]),
        ("0 9 * * 5-7/2", ["Fri 02.01", "Sun 04.01", "Fri 09.01"]),
        ("0 9 * * 7", ["Sun 04.01", "Sun 11.01"]),
        ("0 9 * * 0,7", ["Sun 04.01", "Sun 11.01"]),
        ("0 9 * * 6-1", ["Sat 03.01", "Sun 04.01", "Mon 05.01", "Sat 10.01"]),
        ("0 9 * * 7-2", ["Sun 04.01", "Mon 05.01", "Tue 06.01", "Sun 11.01"]),
        ("0 9 * * fri-mon", ["Fri 02.01", "Sat 03.01", "Sun 04.01", "Mon 05.01", "Fri 09.01"]),
        ("0 9 * * MON-FRI/2", ["Fri 02.01", "Mon 05.01", "Wed 07.01"]),
        ("0 9 * * 5L", ["Fri 30.01", "Fri 27.02", "Fri 27.03"]),
        ("0 9 * * FRIL", ["Fri 30.01", "Fri 27.02", "Fri 27.03"]),
        ("0 9 * * 5#2", ["Fri 09.01", "Fri 13.02"]),
        ("0 9 * * MON#1,MON#3", ["Mon 05.01", "Mon 19.01", "Mon 02.02"]),
        ("0 9 * * MON#5", ["Mon 30.03", "Mon 29.06"]),
        ("0 9 L * *", ["Sat 31.01", "Sat 28.02", "Tue 31.03"]),
        ("0 9 LW * *", ["Fri 30.01", "Fri 27.02", "Tue 31.03"]),
        ("0 9 15W * *", ["Thu 15.01", "Mon 16.02", "Mon 16.03"]),
        ("0 9 1,L * *", ["Thu 01.01", "Sat 31.01", "Sun 01.02"]),
        ("0 9 28-2 * *", ["Thu 01.01", "Fri 02.01", "Wed 28.01"]),
        ("0 9 * NOV-FEB 1", ["Mon 05.01", "Mon 12.01"]),
        ("0 9 13 * 5", ["Fri 02.01", "Fri 09.01", "Tue 13.01"]),
        ("0 9 LW * MON", ["Mon 05.01", "Mon 12.01", "Mon 19.01", "Mon 26.01", "Fri 30.01"]),
        ("0 9 15W * MON", ["Mon 05.01", "Mon 12.01", "Thu 15.01"]),
        ("0 9 1 * FRIL", ["Thu 01.01", "Fri 30.01", "Sun 01.02"]),
        ("0 9 */2 * 1", ["Mon 05.01", "Mon 19.01", "Mon 09.02"]),  # crontab(5): both, as one begins with a star
        ("@weekly", ["Sun 04.01", "Sun 11.01"]),
        ("@Monthly", ["Sun 01.02", "Sun 01.03"]),
        ("0 0 9 ? * 2-6/2", ["Fri 02.01", "Mon 05.01", "Wed 07.01"]),
        ("0 0 9 ? * 1-5/2", ["Thu 01.01", "Sun 04.01", "Tue 06.01"]),
        ("0 0 9 ? * 7-2", ["Sat 03.01", "Sun 04.01", "Mon 05.01"]),
        ("0 0 9 ? * L", ["Sat 03.01", "Sat 10.01"]),
        ("0 0 9 ? * 6L", ["Fri 30.01", "Fri 27.02"]),
        ("0 0 9 L-3W * ?", ["Wed 28.01", "Wed 25.02", "Fri 27.03"]),
        ("0 0 9 L-30 * ?", ["Thu 01.01", "Sun 01.03", "Fri 01.05"]),
        ("0 0 9 ? * FRI-SUN", ["Fri 02.01", "Sat 03.01", "Sun 04.01"]),
    ],
)
def test_it_fires_on_these_days(text: str, expected: list[str]) -> None:
    assert days(text, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 22-2 * * *", ["01:00:00", "02:00:00", "22:00:00", "23:00:00"]),
        ("5/20 0 * * *", ["00:05:00", "00:25:00", "00:45:00", "00:05:00"]),
        ("/30 0 * * *", ["00:30:00", "00:00:00", "00:30:00"]),
        ("*/45 0-1 * * *", ["00:45:00", "01:00:00", "01:45:00"]),
        ("55-5/5 3 * * *", ["03:00:00", "03:05:00", "03:55:00"]),
        ("30,0 0,12 1 * * ?", ["01:00:00", "01:00:30", "01:12:00", "01:12:30"]),
    ],
)
def test_it_fires_at_these_times(text: str, expected: list[str]) -> None:
    assert times(text, len(expected)) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected 5 fields, found 0"),
        ("* * * *", "expected 5 fields, found 4"),
        ("@reboot", "Unknown macro '@reboot'. Use @yearly,"),
        ("@every 5m", "Unknown macro '@every 5m'."),
        ("0 0 * * 8", "Bad day-of-week '8'. Use SUN to SAT, or 0 (Sunday) to 6"),
        ("0 0 0 * * 8", "Bad day-of-week '8'. Use SUN to SAT, or 1 (Sunday) to 7"),
        ("0 0 0 * * 0", "Bad day-of-week '0'."),
        ("0 0 * * MONDAY", "Bad day-of-week 'MONDAY'."),
        ("0 0 * * 5#6", "Bad day-of-week '5#6'."),
        ("0 24 * * *", "Bad hour '24'. Use 0 to 23, or a list"),
        ("0 ? * * *", "Bad hour '?'."),
        ("*/0 * * * *", "Bad minute '*/0'."),
        ("1,,2 * * * *", "Bad minute '1,,2'."),
        ("1- * * * *", "Bad minute '1-'."),
        ("-1 * * * *", "Bad minute '-1'."),
        ("٣ * * * *", "Bad minute '٣'."),
        ("0 0 0 * *", "Bad day-of-month '0'."),
        ("0 0 L-31 * *", "Bad day-of-month 'L-31'."),
        ("0 0 32W * *", "Bad day-of-month '32W'."),
        ("0 0 31 2,4 *", "There is no day '31' in February or April."),
        ("0 0 L-30 FEB *", "There is no day 'L-30' in February."),
        ("0 0 0 1 1 ? 2030-2026", "Bad year '2030-2026'. Use 1970 to 2199"),
        ("0 0 0 1 1 ? twenty", "Bad year 'TWENTY'."),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_and_what_it_may_be(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=rf"^Invalid schedule {re.escape(repr(text))}: {re.escape(sentence)}"):
        parse(text)


def test_manifests_take_only_the_form_of_quartz() -> None:
    for text in ("0 9 * * *", "@daily"):
        with pytest.raises(ValueError, match="expected 6 or 7 fields"):
            parse(text, quartz_only=True)


def test_two_texts_that_mean_the_same_are_equal() -> None:
    assert parse("0 9 * * MON-FRI") == parse("0 0 9 * * 2-6") == parse("0 9 * * 1,2,3,4,5")
    assert parse("0 9 * * 1-5") != parse("0 9 * * 1-6")
    assert parse("@daily") == parse("0 0 * * *")
    assert parse("0 9 13 * MON-FRI") == parse("0 9 13 * 1-5")  # with other words in their warnings


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("0 9 13 * FRI", "Day of month 13 and day of week FRI: it fires on days that match either of them."),
        (
            "0 9 */2 * FRI",
            "Day of month */2 and day of week FRI: it fires on days that match both, as one begins with *.",
        ),
        ("*/90 * * * *", "The step 90 in */90 is longer than the field. The minute is always 0."),
        ("0 */36 * * *", "The step 36 in */36 is longer than the field. The hour is always 0."),
    ],
)
def test_what_people_often_mean_differently_has_a_warning(text: str, warning: str) -> None:
    assert parse(text).warnings == (warning,)


def test_a_plain_expression_has_no_warning() -> None:
    for text in ("0 9 * * MON-FRI", "*/15 * * * *", "0 0 9 ? * 2", "0 0 9 L * ?", "@daily", "0 0 9 1 JAN ? 2030"):
        assert parse(text).warnings == ()


@given(st.text(alphabet="0123456789*/,-?LW#SUNMONFRIJANDEC @", max_size=30))
def test_whatever_is_typed_is_an_expression_or_a_value_error(text: str) -> None:
    try:
        found = parse(text)
    except ValueError as error:
        assert str(error).startswith("Invalid schedule")  # noqa: PT017 - the sentence, where there is one
    else:
        assert all(each > START for each in islice(found.times(START), 3))
