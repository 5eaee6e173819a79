"""What the console may reach. Bootstrap fills it: the console and the HTTP API do not import each other."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from launchbay.auth.cookies import form_token, sent_cookie
from launchbay.auth.permissions import Actor
from launchbay.auth.throttle import RateLimits
from launchbay.console.forms import Form
from launchbay.console.permissions import UiPermissions
from launchbay.console.rendering import HEADERS, render
from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated
from launchbay.ids import NamedRow
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.organizations import list_organizations
from launchbay.usecases.permissions import permitted
from launchbay.usecases.sign_in import SignInLink
from launchbay.usecases.users import list_users

COOKIE = "launchbay_notice"
_PURPOSE = b"launchbay notice"
_SECONDS = 60
_CHARS = 400


class Flash(msgspec.Struct, frozen=True):
    """What to say."""

    text: str
    kind: Literal["done", "warning"] = "done"


def flash_cookie(session: str, flash: Flash | None, *, secure: bool) -> str:
    """Return the value of a Set-Cookie header that carries the notice; None takes it away."""
    value, seconds = "", 0
    if flash is not None:
        clipped = msgspec.structs.replace(flash, text=flash.text[:_CHARS])
        payload = urlsafe_b64encode(msgspec.json.encode(clipped))
        value, seconds = f"{payload.decode()}.{_signature(session, payload)}", _SECONDS
    return f"{COOKIE}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


def read_flash(session: str, value: str) -> Flash | None:
    """Return the notice in the cookie's value, None for one that this session was not given."""
    payload, _, signature = value.partition(".")
    if not hmac.compare_digest(_signature(session, payload.encode()).encode(), signature.encode()):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(payload.encode()), type=Flash)
    except (ValueError, msgspec.MsgspecError):
        return None


def _signature(session: str, payload: bytes) -> str:
    return hmac.digest(session.encode(), _PURPOSE + payload, "sha256").hex()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleDeps:
    """The outside of a page. `status_of` and `log_failure` are the API's own, so that both treat errors alike."""

    app: AppContext
    base_url: str  # as in the settings, "" where it is the Host that browsers ask for
    known_actions: tuple[str, ...]
    known_types: tuple[str, ...]
    status_of: Callable[[Exception], int]
    log_failure: Callable[[str, Exception, str], None]
    limits: RateLimits | None = None
    sign_in_links: tuple[SignInLink, ...] = ()


HOME = "/console"
THEMES = ("auto", "light", "dark")
THEME_COOKIE = "launchbay_theme"
SIGN_IN = "/console/signIn"
# What stands in the navigation while its page is shown; also the ids of the links.
SECTIONS: tuple[tuple[str, str], ...] = (
    ("instances", "Instances"),
    ("applications", "Applications"),
    ("environments", "Environments"),
    ("services", "Services"),
    ("approvals", "Approvals"),
    ("roles", "Roles"),
    ("users", "Users"),
    ("webhooks", "Webhooks"),
    ("audit", "Audit"),
)


def safe_path(path: str) -> str:
    """Return where to go next: a page of the console, whatever a link has made of the field."""
    is_own = path == HOME or path.startswith((f"{HOME}/", f"{HOME}?"))
    return path if is_own and path.isascii() and path.isprintable() and "\\" not in path else HOME


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """What a page's handler receives. `session` is the cookie's token, "" on pages that need none."""

    http: Request
    deps: ConsoleDeps
    signed_in: Actor | None
    session: str
    form: Form = field(default_factory=Form)

    @property
    def actor(self) -> Actor:
        """The caller; only public pages have none."""
        assert self.signed_in is not None, "a public page must not ask who calls"
        return self.signed_in

    @property
    def ctx(self) -> Context:
        """What use cases rest on: the application, and the signed-in caller."""
        return Context(self.deps.app, self.actor)

    @property
    def app(self) -> AppContext:
        """The application, for public pages and the few acts without a caller."""
        return self.deps.app

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach this server through TLS only."""
        return self.deps.base_url.startswith("https://")

    def path(self, name: str) -> str:
        """Return a part of the path."""
        found: str = self.http.path_params[name]
        return found

    def query(self, name: str) -> str | None:
        """Return a field of the query; an empty one counts as left out."""
        return self.http.query_params.get(name, "").strip() or None

    def now(self) -> datetime:
        """Return the time by the server's clock."""
        return self.app.clock.now()

    async def page(
        self,
        template: str,
        *,
        section: str = "",
        organization_id: str | None = None,
        problem: LaunchbayError | None = None,
        status: int | None = None,
        **values: Any,
    ) -> Response:
        """Return a whole page. One that shows a problem has the status that an API call would have."""
        if status is None:
            status = 200 if problem is None else self.deps.status_of(problem)
        cookies = self.http.headers.get("cookie", "")
        flash = read_flash(self.session, sent_cookie(cookies, COOKIE)) if self.session else None
        organizations = await self._organizations()
        current = next((row for row in organizations if row.id == organization_id), None)
        theme = sent_cookie(cookies, THEME_COOKIE)
        text = render(
            template,
            {
                "visit": self,
                "may": None if current is None else await self.permissions(current.id),
                "caller": self.signed_in,
                "form_token": form_token(self.session),
                "organizations": organizations,
                "organization": current,
                "section": section,
                "sections": SECTIONS,
                "notice": flash,
                "problems": () if problem is None else problem.messages,
                "theme": theme if theme in THEMES else "auto",
                "now": self.now(),
                "here": self.http.url.path,
                **values,
            },
        )
        response = HTMLResponse(text, status, HEADERS)
        if flash is not None:
            response.headers.append("Set-Cookie", flash_cookie(self.session, None, secure=self.is_secure))
        return response

    async def permissions(self, organization_id: str) -> UiPermissions:
        """Return what the caller may do in an organization, as it is now."""
        return UiPermissions(await permitted(self.ctx, organization_id))

    def part(self, template: str, **values: Any) -> Response:
        """Return a part of a page, for a script that puts it into its place."""
        return HTMLResponse(self.text(template, **values), 200, HEADERS)

    def text(self, template: str, **values: Any) -> str:
        """Return a filled template that is a part of a page."""
        return render(template, {"visit": self, "form_token": form_token(self.session), "now": self.now(), **values})

    def redirect(self, path: str, message: str = "", *, warning: bool = False) -> Response:
        """Send the browser to another page, after a form was taken; that page says `said`."""
        response = RedirectResponse(path, 303, HEADERS)
        if message:
            flash = Flash(message, "warning" if warning else "done")
            response.headers.append("Set-Cookie", flash_cookie(self.session, flash, secure=self.is_secure))
        return response

    def header_map(self) -> Mapping[str, str]:
        """Return the headers, with lower-case names."""
        return self.http.headers

    async def _organizations(self) -> list[NamedRow]:
        if self.signed_in is None:
            return []
        try:
            return await list_organizations(self.ctx)
        except NotAuthenticated:
            return []  # the page is about to say so


Handler = Callable[[PageRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """One page, or what one of its forms is sent to. A public one is for those who have not signed in."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    public: bool = False


async def user_names(request: PageRequest, organization_id: str) -> Mapping[str, str]:
    """Return the names of an organization's users by their ids; those that the caller may not read are not there."""
    try:
        return {view.row.id: view.row.name for view in await list_users(request.ctx, organization_id)}
    except NotAllowed:
        return {}
