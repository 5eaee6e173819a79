"""Events are read in whatever pieces they come, and gone on with after an interruption."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.client import Client, Event, NotFound, Retries
from launchbay.client.streams import EventParser
from tests.client.scripted import Answer, scripted

ID = "5f" * 12
QUICK = Retries(first_pause_s=0.001, longest_pause_s=0.01)
GONE = Answer(404, {"errors": ["Gone."], "code": "NotFound", "requestId": "r"})
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["status", "step", "log"]),
        st.dictionaries(st.text(max_size=4), st.text(max_size=9), max_size=3),
        st.none() | st.integers(0, 99),
    ),
    max_size=5,
)


def stream(*events: tuple[str, Any, int | None]) -> str:
    texts = ["retry: 1\n\n"]
    for name, data, number in events:
        tail = "" if number is None else f"id: {number}\n"
        texts.append(f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n{tail}\n:\n\n")
    return "".join(texts)


@given(EVENTS, st.data())
def test_any_cutting_of_a_stream_gives_the_same_events(
    events: list[tuple[str, Any, int | None]], data: st.DataObject
) -> None:
    text = stream(*events).encode()
    cuts = sorted(data.draw(st.lists(st.integers(1, len(text) - 1), max_size=8, unique=True)))
    parser = EventParser()
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = [event for piece in pieces for event in parser.feed(piece)]
    assert found == [Event(name, value, None if number is None else str(number)) for name, value, number in events]
    assert parser.retry_s == 0.001


def test_a_stream_goes_on_after_its_last_event_until_the_instance_is_gone() -> None:
    first = Answer(text=stream(("status", {"status": "Executing"}, 7), ("log", {"text": "a"}, 8)), cut=True)
    second = Answer(text=stream(("log", {"text": "b"}, 9)))
    with scripted(first, second, GONE) as script:
        found = list(Client(script.url, retries=QUICK).watch_instance(ID, after=3))
    assert [event.id for event in found] == ["7", "8", "9"]
    assert [asked.headers.get("last-event-id") for asked in script.asked] == [None, "8", "9"]
    assert script.asked[0].target.endswith("after=3")


def test_half_an_event_at_an_interruption_is_nothing() -> None:
    half = Answer(text='event: log\ndata: {"text": "ha', cut=True)
    whole = Answer(text=stream(("log", {"text": "whole"}, 1)))
    with scripted(half, whole, GONE) as script:
        found = list(Client(script.url, retries=QUICK).watch_instance(ID))
    assert [event.data["text"] for event in found] == ["whole"]


def test_an_instance_that_never_was_is_an_error() -> None:
    with scripted(GONE) as script, pytest.raises(NotFound):
        next(Client(script.url, retries=QUICK).watch_instance(ID))
