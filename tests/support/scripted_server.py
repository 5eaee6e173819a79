"""A server that answers what it is told to, in order, and remembers what it was asked."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """An answer. With `cut` the connection ends without one, or in the middle of its body."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    text: str | bytes | None = None


@dataclass(frozen=True)
class Asked:
    """What was asked."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes


CUT = Answer(cut=True)
BUSY = Answer(503, {"errors": ["Later."], "code": "Unavailable", "requestId": "r1"}, {"Retry-After": "0"})
TOO_MANY = Answer(429, {"errors": ["Slower."], "code": "TooManyRequests", "requestId": "r2"}, {"Retry-After": "0"})


class Script:
    """What the server answers, and what it was asked; beyond the last answer it gives that one again."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.asked: list[Asked] = []
        self.url = ""

    def next(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            return self._answers[min(len(self.asked), len(self._answers)) - 1]


@contextmanager
def scripted(*answers: Answer) -> Iterator[Script]:
    """Serve a script."""
    script = Script(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = script.next(Asked(self.command, self.path, headers, content))
            if answer.cut and answer.text is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            text = json.dumps(answer.body) if answer.text is None else answer.text
            body = text if isinstance(text, bytes) else text.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) + (1 if answer.cut else 0)))
            self.end_headers()
            self.wfile.write(body)
            if answer.cut:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
