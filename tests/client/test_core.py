"""Whatever happens on the way, the core keeps its promises about repetition. Outcomes are handed to its steps."""

import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.client import (
    ApiError,
    AsyncClient,
    Client,
    ClientError,
    ConnectionFailed,
    NotAllowed,
    NotAuthenticated,
    Operations,
    RefreshToken,
    Retries,
    ServerFailed,
    Session,
    TooManyRequests,
    UnreadableAnswer,
)
from launchbay.client.core import Call, Core, Pause, Send
from launchbay.client.errors import api_error
from tests.support.external_services import made_certificate
from tests.support.scripted_server import BUSY, CUT, TOO_MANY, Answer, Script, scripted

Outcome = httpx.Response | httpx.TransportError
ID = "5f" * 12
ATTEMPTS = 4
REQUEST = httpx.Request("GET", "http://x.example/api/1/x")
GOOD = httpx.Response(200, content=b'{"id": "x", "version": 1, "errors": [], "warnings": []}', request=REQUEST)
LOST = httpx.ReadError("cut off", request=REQUEST)
REFUSED = httpx.ConnectError("no connection", request=REQUEST)
STATUSES = (400, 404, 409, 429, 500, 503)
OUTCOMES = [
    GOOD,
    LOST,
    REFUSED,
    *(httpx.Response(status, content=b"{}", headers={"X-Request-ID": "r"}, request=REQUEST) for status in STATUSES),
]
# call → may it be done twice
CALLS: list[tuple[Callable[[], Call[Any]], bool]] = [
    (lambda: Operations.read_role.call(ID).with_returns(Any), True),
    (lambda: Operations.delete_role.call(ID), True),
    (lambda: Operations.launch_application.call(ID), True),
    (lambda: Operations.validate_manifest.call("{}"), True),
    (lambda: Operations.reschedule_workflow.call(ID, "w", interval=0), False),
]


def driven(call: Call[Any], outcomes: list[Outcome]) -> tuple[list[Send], list[Outcome], bool]:
    """Do the steps of a call with these outcomes; return requests, the outcomes met, and whether it was good."""
    steps = Core("http://x.example", None, retries=Retries(attempts=ATTEMPTS)).answer(call)
    sent: list[Send] = []
    met: list[Outcome] = []
    outcome: Outcome | None = None
    try:
        while True:
            effect = steps.send(outcome)
            outcome = None
            if isinstance(effect, Send):
                sent.append(effect)
                outcome = outcomes[min(len(sent), len(outcomes)) - 1]
                met.append(outcome)
            else:
                assert isinstance(effect, Pause)
                assert 0 <= effect.seconds <= 60
    except StopIteration:
        return sent, met, True
    except (ApiError, ConnectionFailed):
        return sent, met, False


@given(st.sampled_from(CALLS), st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=6))
def test_nothing_is_done_twice_that_may_have_been_done_once(
    case: tuple[Callable[[], Call[Any]], bool], outcomes: list[Outcome]
) -> None:
    make, is_repeatable = case
    sent, met, is_good = driven(make(), outcomes)
    assert 1 <= len(sent) <= ATTEMPTS
    assert len({(each.url, each.content, each.headers.get("Idempotency-Key")) for each in sent}) == 1
    assert is_good == (met[-1] is GOOD)
    for outcome in met[:-1]:  # each of these was followed by another attempt
        is_harmless = outcome is REFUSED or (isinstance(outcome, httpx.Response) and outcome.status_code == 429)
        may_repeat = outcome is LOST or (isinstance(outcome, httpx.Response) and outcome.status_code == 503)
        assert is_harmless or (may_repeat and is_repeatable)
    if not is_good and len(sent) < ATTEMPTS:
        last = met[-1]
        is_final = isinstance(last, httpx.Response) and last.status_code in {400, 404, 409, 500}
        assert is_final or not is_repeatable


QUICK = Retries(attempts=4, first_pause_s=0.001, longest_pause_s=0.01)
Case = tuple[str, Callable[[Client], object], Answer]
CREATED = Answer(body={"id": ID})


def client(script: Script, authentication: Any = None) -> Client:
    return Client(script.url, authentication, retries=QUICK, timeout_s=10)


READ: Case = ("read", lambda it: it.read_organization(ID), Answer(body={"id": ID, "name": "Acme"}))
PUT: Case = ("put", lambda it: it.rename_organization(ID, name="Acme"), Answer(body={}))
DELETE: Case = ("delete", lambda it: it.delete_role(ID), Answer(body={}))
KEYED: Case = ("keyed post", lambda it: it.launch_application(ID), CREATED)
CHECK: Case = (
    "post that changes nothing",
    lambda it: it.validate_manifest("{}"),
    Answer(body={"errors": [], "warnings": []}),
)
PLAIN: Case = ("post without key", lambda it: it.reschedule_workflow(ID, "w", interval=1), CREATED)


@pytest.mark.parametrize("case", [READ, PUT, DELETE, KEYED, CHECK], ids=lambda case: str(case[0]))
@pytest.mark.parametrize("trouble", [CUT, BUSY, TOO_MANY], ids=["cut off", "503", "429"])
def test_what_may_be_repeated_is_repeated(case: Case, trouble: Answer) -> None:
    _, do, good = case
    with scripted(trouble, trouble, good) as script:
        do(client(script))
    assert len(script.asked) == 3
    assert len({(asked.method, asked.target, asked.content) for asked in script.asked}) == 1


def test_who_asks_to_be_notified_hears_of_each_pause() -> None:
    told: list[tuple[str, float]] = []
    notified = replace(QUICK, notify=lambda error, pause_s: told.append((type(error).__name__, pause_s)))
    with scripted(CUT, BUSY, READ[2]) as script:
        Client(script.url, None, retries=notified, timeout_s=10).read_organization(ID)
    assert [name for name, _ in told] == ["ConnectionFailed", "ServerFailed"]
    assert told[0][1] > 0 == told[1][1]


def test_all_attempts_of_a_launch_have_one_key() -> None:
    with scripted(CUT, BUSY, CREATED) as script:
        client(script).launch_application(ID)
        first = {asked.headers["idempotency-key"] for asked in script.asked}
        client(script).launch_application(ID)
    assert len(first) == 1
    assert script.asked[-1].headers["idempotency-key"] not in first


@pytest.mark.parametrize(("trouble", "error"), [(CUT, ConnectionFailed), (BUSY, ServerFailed)], ids=["cut off", "503"])
def test_what_may_have_been_done_is_not_done_again(trouble: Answer, error: type[ClientError]) -> None:
    _, do, good = PLAIN
    with scripted(trouble, good) as script, pytest.raises(error):
        do(client(script))
    assert len(script.asked) == 1


def test_a_refused_connection_and_a_429_are_tried_again_for_everything() -> None:
    _, do, good = PLAIN
    with scripted(TOO_MANY, good) as script:
        do(client(script))
    assert len(script.asked) == 2


@pytest.mark.parametrize("status", [502, 504])
def test_a_read_is_repeated_when_a_proxy_finds_no_server_and_a_change_is_not(status: int) -> None:
    page = Answer(status, "<html>Bad gateway</html>", {"Content-Type": "text/html", "Server": "nginx/1.22"})
    _, do, good = READ
    with scripted(page, page, good) as script:
        do(client(script))
    assert len(script.asked) == 3
    _, do, good = PUT
    with scripted(page, good) as script, pytest.raises(ServerFailed, match=f"in front of the server answered {status}"):
        do(client(script))
    assert len(script.asked) == 1


def test_the_refusal_of_a_proxy_says_whose_it_is_and_what_to_set() -> None:
    page = httpx.Response(413, html="<html>Too large</html>", headers={"Server": "nginx/1.22"}, request=REQUEST)
    told = "nginx in front of the server answered 413, not Launchbay. Raise its limit of bodies, in nginx: client_max_"
    assert str(api_error(page)).startswith(told)
    ours = httpx.Response(413, json={"errors": ["Too large."], "code": "TooLarge"}, request=REQUEST)
    assert str(api_error(ours)) == "Too large."


def test_the_attempts_have_an_end_and_the_error_tells_the_last_answer() -> None:
    with scripted(BUSY) as script, pytest.raises(ServerFailed) as caught:
        client(script).read_organization(ID)
    assert len(script.asked) == QUICK.attempts
    assert (caught.value.status, caught.value.code, caught.value.request_id) == (503, "Unavailable", "r1")


def test_nobody_waits_an_hour_for_a_server_that_asks_for_it() -> None:
    with scripted(Answer(429, {}, {"Retry-After": "3600"})) as script, pytest.raises(TooManyRequests) as caught:
        client(script).read_organization(ID)
    assert len(script.asked) == 1
    assert caught.value.retry_after_s == 3600


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    with scripted(CREATED) as script:
        pass
    with pytest.raises(ConnectionFailed, match=script.url) as caught:
        client(script).launch_application(ID)
    assert not caught.value.may_have_arrived


def test_a_server_without_tls_is_told_as_such() -> None:
    with scripted(CREATED) as script, pytest.raises(ConnectionFailed, match="The server doesn't use TLS"):
        Client(script.url.replace("http://", "https://"), retries=QUICK).read_organization(ID)


def test_a_certificate_of_an_unknown_authority_is_answered_with_the_variable_for_it(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*made_certificate(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        shaken = pool.submit(lambda: context.wrap_socket(listener.accept()[0], server_side=True))
        with pytest.raises(ConnectionFailed, match="set SSL_CERT_FILE"):
            Client(f"https://127.0.0.1:{listener.getsockname()[1]}", retries=Retries(attempts=1)).read_organization(ID)
        assert isinstance(shaken.exception(10), ssl.SSLError)


def test_the_reason_of_a_lost_answer_ends_with_one_period() -> None:
    with scripted(CUT) as script, pytest.raises(ConnectionFailed) as caught:
        client(script).reschedule_workflow(ID, "w", interval=0)
    assert "without sending a response. Is the server up" in str(caught.value)


def test_an_answer_of_something_else_is_told_as_such() -> None:
    with scripted(Answer(text="sorry")) as script, pytest.raises(UnreadableAnswer, match="It said: 'sorry'"):
        client(script).read_organization(ID)


def test_a_web_page_instead_of_json_is_told_by_its_title_alone() -> None:
    page = "<!DOCTYPE html><html><head><title>Sign in &amp;\n go on</title></head><body>many words</body></html>"
    for status, kind in ((200, UnreadableAnswer), (503, ServerFailed), (403, NotAllowed)):
        answer = Answer(status, headers={"Content-Type": "text/html"}, text=page)
        with scripted(*[answer] * ATTEMPTS) as script, pytest.raises(kind) as caught:
            client(script).create_application(ID, name="x")
        told = str(caught.value)
        assert "'Sign in & go on'" in told
        assert str(status) in told
        assert "proxy" in told, "what to do"
        assert "many words" not in told
        assert "<" not in told


def test_a_path_that_another_server_lacks_is_no_missing_object() -> None:
    missing = Answer(404, text="<html>no such page</html>")
    with scripted(missing) as script, pytest.raises(UnreadableAnswer, match="answered 404 with a web page"):
        client(script).read_organization(ID)


def test_a_session_is_renewed_when_it_expires_or_is_refused() -> None:
    told: list[Session] = []
    session = Answer(body={"jwtBearer": "new", "expiresIn": 3600})
    refused = Answer(401, {"errors": ["Expired."], "code": "NotAuthenticated", "requestId": "r"})
    with scripted(session, CREATED, CREATED, refused, session, CREATED) as script:
        old = Session("old", time.time() - 1)
        launchbay = client(script, RefreshToken("lbr_x", old, told.append))
        for _ in range(3):
            launchbay.launch_application(ID)
    asked = [(each.target.rpartition("/")[2], each.headers.get("authorization")) for each in script.asked]
    launch, exchange = ("launch?include=warnings", "Bearer new"), ("jwtBearer", None)
    assert asked == [exchange, launch, launch, launch, exchange, launch]
    assert [each.token for each in told] == ["new", "new"]


def test_warnings_of_answers_without_a_place_for_them_are_passed_on() -> None:
    told: list[str] = []
    header = {"Launchbay-Warnings": '["odd \\u00e9", "more"]'}
    with scripted(Answer(body={"id": ID}, headers=header)) as script:
        launchbay = Client(script.url, None, on_warning=told.append)
        launchbay.send(Operations.create_revision.call(ID, name="r").with_returns(Any))
        assert told == ["odd é", "more"]
        launchbay.launch_application(ID)  # its answer has them
        assert told == ["odd é", "more"]


async def test_an_asynchronous_client_renews_its_session_alike() -> None:
    session = Answer(body={"jwtBearer": "new", "expiresIn": 3600})
    refused = Answer(401, {"errors": ["Expired."], "code": "NotAuthenticated", "requestId": "r"})
    with scripted(session, refused, session, CREATED, CREATED) as script:
        old = Session("old", time.time() - 1)
        async with AsyncClient(script.url, RefreshToken("lbr_x", old), retries=QUICK) as launchbay:
            for _ in range(2):
                await launchbay.launch_application(ID)
    asked = [(each.target.rpartition("/")[2], each.headers.get("authorization")) for each in script.asked]
    launch, exchange = ("launch?include=warnings", "Bearer new"), ("jwtBearer", None)
    assert asked == [exchange, launch, exchange, launch, launch]


async def test_calls_at_the_same_time_renew_a_session_once() -> None:
    session = Answer(body={"jwtBearer": "new", "expiresIn": 3600})
    with scripted(session, CREATED) as script:
        launchbay = client(script, RefreshToken("lbr_x"))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(launchbay.launch_application, [ID] * 4))
        assert [each.target.endswith("jwtBearer") for each in script.asked] == [True, *[False] * 4]
    with scripted(session, CREATED) as script:
        async with AsyncClient(script.url, RefreshToken("lbr_x")) as awaited, anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(awaited.launch_application, ID)
        assert [each.target.endswith("jwtBearer") for each in script.asked] == [True, *[False] * 4]


@pytest.mark.parametrize("trouble", [CUT, BUSY, TOO_MANY], ids=["cut off", "503", "429"])
def test_a_renewal_is_repeated_also_before_a_call_that_may_not_be(trouble: Answer) -> None:
    _, do, good = PLAIN
    with scripted(trouble, Answer(body={"jwtBearer": "new", "expiresIn": 3600}), good) as script:
        do(client(script, RefreshToken("lbr_x")))
    assert [each.target.endswith("jwtBearer") for each in script.asked] == [True, True, False]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(401, {"errors": ["No."], "code": "NotAuthenticated", "requestId": "r"}), NotAuthenticated),
        (Answer(text="<html>a proxy</html>"), UnreadableAnswer),
    ],
    ids=["refused", "unreadable"],
)
def test_a_renewal_that_fails_is_the_error_of_the_call(answer: Answer, error: type[ClientError]) -> None:
    with scripted(answer) as script, pytest.raises(error):
        client(script, RefreshToken("lbr_x")).read_organization(ID)
    assert {each.target for each in script.asked} == {"/refreshToken/jwtBearer"}


def test_a_session_that_is_refused_twice_is_not_renewed_for_ever() -> None:
    session = Answer(body={"jwtBearer": "new", "expiresIn": 3600})
    refused = Answer(401, {"errors": ["No."], "code": "NotAuthenticated", "requestId": "r"})
    with scripted(session, refused, session, refused) as script, pytest.raises(NotAuthenticated):
        client(script, RefreshToken("lbr_x")).read_organization(ID)
    assert len(script.asked) == 4
