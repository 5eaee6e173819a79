"""A real OpenID Connect provider on loopback, and a browser that goes to it and comes back."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_provider_mock  # type: ignore[import-untyped] # it ships no types
from werkzeug.serving import make_server

from tests.api.pages import Page, browser
from tests.api.running import Api

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass
class Asked:
    """A request that the provider got."""

    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Provider:
    """The provider. `port` is where it listens, `asked` what it was asked, in order."""

    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"

    async def know(self, subject: str, **claims: Any) -> None:
        """Let somebody have these claims from now on."""
        async with httpx.AsyncClient() as client:
            answer = await client.put(f"{self.issuer}/users/{subject}", json=claims)
            assert answer.status_code == 204, answer.text

    def token_requests(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == "/oauth2/token"]


@contextmanager
def identity_provider(*, is_strict: bool = True) -> Iterator[Provider]:
    """Run a provider that insists on a nonce."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = oidc_provider_mock.app(require_nonce=is_strict)
    provider = Provider(0)
    server = make_server("localhost", 0, _recording(app, provider), threaded=True)
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def _recording(app: Wsgi, provider: Provider) -> Wsgi:
    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        headers = {name[5:].lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        provider.asked.append(Asked(environ["PATH_INFO"], headers, form))
        return app(environ, start_response)

    return call


async def begin(client: httpx.AsyncClient) -> str:
    """Follow the link of the page, and return where it leads."""
    answer = await client.get("/signIn/openid")
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


async def consent(url: str, subject: str, action: str = "authorize") -> str:
    """Sign in at the provider, and return where it sends the browser."""
    async with httpx.AsyncClient() as client:
        form = await client.get(url)
        assert form.status_code == 200, form.text
        answer = await client.post(url, data={"sub": subject, "action": action})
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])


async def sign_in(api: Api, subject: str) -> Page:
    """Sign in as somebody whom the provider knows, in a fresh browser."""
    async with browser(api) as client:
        back = await consent(await begin(client), subject)
        return Page(await client.get(back))


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
