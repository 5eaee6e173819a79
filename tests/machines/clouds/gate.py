"""Stands before an endpoint, passes requests on, and can refuse, hold or lose single ones: clouds do all of that."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

_REFUSAL = (
    '<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>'
    "<RequestID>1</RequestID></Response>"
)


@dataclass
class Gate:
    """`refusals` names (action, how many-th) → code; `held` waits for the event after the request was carried out."""

    upstream: str
    url: str = ""
    actions: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    refusals: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    held: dict[tuple[str, int], threading.Event] = field(default_factory=dict)
    reached: dict[tuple[str, int], threading.Event] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, action: str, nth: int, code: str, status: int = 400) -> None:
        self.refusals[action, nth] = (status, code)

    def hold(self, action: str, nth: int) -> tuple[threading.Event, threading.Event]:
        """Have a request carried out and its answer kept back. Returns when it is so, and what lets the answer go."""
        place = (action, nth)
        self.reached[place], self.held[place] = threading.Event(), threading.Event()
        return self.reached[place], self.held[place]

    def count(self, action: str) -> int:
        return self.counts[action]

    def clear(self) -> None:
        for event in self.held.values():
            event.set()
        for known in (self.refusals, self.held, self.reached, self.counts):
            known.clear()
        self.actions.clear()


@contextmanager
def standing_before(upstream: str) -> Iterator[Gate]:
    gate = Gate(upstream)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _pass(gate, self)

        def do_POST(self) -> None:
            _pass(gate, self)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    gate.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield gate
    finally:
        gate.clear()
        server.shutdown()
        server.server_close()


def _pass(gate: Gate, handler: BaseHTTPRequestHandler) -> None:
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    query = parse_qs(urlsplit(handler.path).query)
    action = query.get("Action", [""])[0] or parse_qs(body.decode()).get("Action", [""])[0]
    with gate.lock:
        gate.counts[action] += 1
        place = (action, gate.counts[action])
        gate.actions.append(action)
        gate.tokens.extend(query.get("ClientToken", []))
    if place in gate.refusals:
        status, code = gate.refusals[place]
        _answer(handler, status, _REFUSAL.format(code=code, message=f"refused by the test: {code}").encode())
        return
    headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "content-length")}
    # The region is read from the signature, and moto does not verify it.
    url = f"{gate.upstream}{handler.path}"
    try:
        answer = urlopen(Request(url, data=body or None, headers=headers, method=handler.command), timeout=30)
    except HTTPError as refusal:
        answer = refusal
    with answer:
        status, content = answer.status, answer.read()
    if place in gate.held:
        gate.reached[place].set()
        gate.held[place].wait(60)
    _answer(handler, status, content)


def _answer(handler: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
    try:
        handler.send_response(status)
        handler.send_header("Content-Type", "text/xml")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
    except OSError:  # whoever asked has given up
        handler.close_connection = True
