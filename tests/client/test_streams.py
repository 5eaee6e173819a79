"""Lists come out item by item, however the answer is cut into pieces; pages are followed by their links."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.client import AsyncClient, Client, ConnectionFailed, Event, NotFound, Operations, Retries
from launchbay.client.streams import ArrayItems, EventParser, text_steps
from tests.support.scripted_server import CUT, TOO_MANY, Answer, scripted

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


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def fed(pieces: list[bytes]) -> list[Any]:
    items = ArrayItems()
    return [item for piece in [*pieces, b""] for item in items.feed(piece)]


@given(st.lists(VALUES, max_size=6), st.data())
def test_any_cutting_of_an_array_gives_the_same_items(values: list[Any], data: st.DataObject) -> None:
    text = json.dumps(values, ensure_ascii=data.draw(st.booleans())).encode()
    cuts = sorted(data.draw(st.lists(st.integers(1, max(1, len(text) - 1)), max_size=8, unique=True)))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if begin < end]
    assert fed(pieces) == values


@pytest.mark.parametrize("number", ["0.5", "-1.25e-3", "10E+2", "123"])
def test_a_number_is_read_whole_wherever_it_is_cut(number: str) -> None:
    text = f"[{number}, {number}]".encode()
    for place in range(1, len(text)):
        assert fed([text[:place], text[place:]]) == [float(number)] * 2


@pytest.mark.parametrize("text", [b'[{"a": 1}', b"[1, 2", b'{"errors": []}', b""])
def test_an_array_without_end_and_what_is_none_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="list"):
        fed([text])


def page(*names: str, link: str = "") -> Answer:
    headers = {"Link": f'</api/1/x?limit=2&after={link}>; rel="next"'} if link else {}
    return Answer(body=[{"id": name * 12, "name": name} for name in names], headers=headers)


def test_pages_are_followed_and_one_that_is_cut_off_is_read_again() -> None:
    quick = Retries(first_pause_s=0.001)
    with scripted(page("aa", "bb", link="bb"), CUT, page("cc")) as script:
        found = [each.name for each in Client(script.url, retries=quick).list_applications.each(ID, limit=2)]
    assert found == ["aa", "bb", "cc"]
    assert [asked.target.partition("?")[2] for asked in script.asked] == ["limit=2", *["limit=2&after=bb"] * 2]


def test_a_long_answer_that_is_cut_off_gives_its_items_and_then_an_error() -> None:
    with scripted(Answer(text='[{"id": "a", "name": "A"}, {"id"', cut=True)) as script:
        items = Client(script.url).list_applications.each(ID)
        assert next(items).name == "A"
        with pytest.raises(ConnectionFailed, match="cut off"):
            next(items)


def test_a_text_comes_in_pieces_and_one_that_is_cut_off_is_an_error() -> None:
    call = Operations.export_organization_lines.call(ID)
    with scripted(Answer(text='{"a": 1}\n')) as script, Client(script.url) as client:
        assert list(client.iterate(text_steps(client.core, call))) == [b'{"a": 1}\n']
    with scripted(Answer(text='{"a": 1}\n', cut=True)) as script, Client(script.url) as client:
        pieces = client.iterate(text_steps(client.core, call))
        assert next(pieces) == b'{"a": 1}\n'
        with pytest.raises(ConnectionFailed, match="cut off"):
            next(pieces)


async def test_a_file_is_sent_in_pieces_and_again_where_the_server_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "archive"
    file.write_bytes(b"x" * 200_000)
    made = {"id": ID, "created": {}, "holes": [], "invitations": []}
    with scripted(TOO_MANY, Answer(body=made)) as script, Client(script.url, retries=QUICK) as client:
        assert client.import_organization_lines(file, plan=True).id == ID
    assert [asked.content for asked in script.asked] == [file.read_bytes()] * 2
    with scripted(Answer(body=made)) as script:
        async with AsyncClient(script.url) as waiting:
            assert (await waiting.import_organization_lines(file)).id == ID
    assert [asked.content for asked in script.asked] == [file.read_bytes()]


async def test_iterating_can_be_left_at_any_item() -> None:
    with scripted(page("aa", "bb", "cc")) as script:
        async with AsyncClient(script.url) as client:
            async for item in client.list_applications.each(ID):
                assert item.name == "aa"
                break
        with Client(script.url) as client_:
            first = await anyio.to_thread.run_sync(lambda: next(client_.list_applications.each(ID)))
    assert first.name == "aa"
