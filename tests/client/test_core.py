"""Whatever happens on the way, the core keeps its promises about repetition. Outcomes are handed to its steps."""

from collections.abc import Callable
from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from launchbay.client import ApiError, ConnectionFailed, Operations, Retries
from launchbay.client.core import Call, Core, Pause, Send

Outcome = httpx.Response | httpx.TransportError

ID = "5f" * 12
ATTEMPTS = 4
REQUEST = httpx.Request("GET", "http://x.example/api/1/x")
GOOD = httpx.Response(200, content=b'{"id": "x", "version": 1, "errors": [], "warnings": []}', request=REQUEST)
LOST = httpx.ReadError("cut off", request=REQUEST)
REFUSED = httpx.ConnectError("no connection", request=REQUEST)
STATUSES = (400, 404, 409, 429, 500, 503)
OUTCOMES = [GOOD, LOST, REFUSED, *(httpx.Response(status, content=b"{}", request=REQUEST) for status in STATUSES)]

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
