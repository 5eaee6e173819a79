"""Run with `pytest` in this folder. Needs only Launchbay and the loopback network."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from launchbay_example_action.wait_for_url import WaitForUrl

from launchbay.actions.contract import ActionCall
from launchbay.clock import SystemClock
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed


def asked(statuses: list[int], **parameters: Any) -> tuple[Mapping[str, Any], list[str]]:
    """Run the action against a server that returns these statuses in turn."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the standard library's
            """Keep the test's output quiet."""

    async def ignored(_percent: int) -> None: ...

    lines: list[str] = []
    context: Any = SimpleNamespace(
        clock=SystemClock(),
        started_at=datetime.now(UTC),
        egress=EgressClient(Allowlist.parse("127.0.0.1")),
        log=lambda _level, text: lines.append(text),
        progress=ignored,
        sleep=asyncio.sleep,
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        try:
            return asyncio.run(WaitForUrl().run(ActionCall({"url": url, **parameters}, context))), lines
        finally:
            server.shutdown()


def test_it_asks_until_the_answer_is_a_success() -> None:
    """Other statuses are logged, and the request is repeated."""
    outputs, lines = asked([503, 503, 200], interval=0.01)

    assert outputs == {"status": 200, "attempts": 3}
    assert ["503" in line for line in lines] == [True, True]


def test_it_waits_for_the_status_that_is_asked_for() -> None:
    """A status may be a string."""
    assert asked([200, 404], status="404", interval=0.01)[0]["attempts"] == 2


def test_it_gives_up_after_the_timeout() -> None:
    """The error contains the last status."""
    with pytest.raises(ActionFailed, match=r"within 0\.05 seconds.*503"):
        asked([503], timeout=0.05, interval=0.01)


def test_a_wrong_parameter_is_named() -> None:
    """No request is sent."""
    with pytest.raises(ActionFailed, match="'status' is wrong"):
        asked([200], status="ok")
