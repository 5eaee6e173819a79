"""A request for a page: its dependencies, its session, the flash message, and how a page is declared."""

import asyncio
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from launchbay.auth.cookies import form_token, sent_cookie, set_cookie
from launchbay.auth.permissions import Actor, Permission
from launchbay.auth.second_factors import RelyingParty, relying_party
from launchbay.auth.throttle import RateLimits
from launchbay.console.forms import SEEN, Form, Forms, seen_tag
from launchbay.console.permissions import UiPermissions
from launchbay.console.rendering import HEADERS, csv_line, live_event, redact_value, render
from launchbay.console.shell import ACCESS_TABS, guide_to, read_appearance
from launchbay.errors import BadRequest, LaunchbayError, NotAllowed, NotAuthenticated, NotFound, PreconditionFailed
from launchbay.ids import NamedRow
from launchbay.limits import CONSOLE_FORM_FIELDS
from launchbay.model.findings import Hints
from launchbay.model.wrong_values import strange_parameters
from launchbay.planning.decisions import Refused
from launchbay.store.applications import Application
from launchbay.store.page_scope import PageScope
from launchbay.urlencoded import decode_fields
from launchbay.usecases.approvals import list_own_approvals
from launchbay.usecases.context import AppContext, Context
from launchbay.usecases.fleet import count_running_jobs
from launchbay.usecases.organizations import list_organizations
from launchbay.usecases.permissions import permitted
from launchbay.usecases.sign_in import SignInLink
from launchbay.usecases.users import list_user_names

T = TypeVar("T")
HOME = "/console"
SIGN_IN = "/console/signIn"
FLASH_COOKIE = "launchbay_flash"
ORGANIZATION_COOKIE = "launchbay_organization"  # whose pages the user saw last
_ORGANIZATION_S = 30 * 24 * 3_600
OVERRIDE_COOKIE = "launchbay_override"
OVERRIDE_S = 600  # for which forms change what is frozen
_FLASH_S = 60
_FLASH_CHARS = 400
_PART_CHARS = 150  # of a flash message: what was done, or one warning


def flash_cookie(session: str, message: str | None, *, secure: bool) -> str:
    """Return the value of a Set-Cookie header with a message that the next page shows once; None clears it."""
    shown = None if message is None else message[:_FLASH_CHARS]
    return _signed_cookie(session, FLASH_COOKIE, shown, _FLASH_S, secure=secure)


def message_with_warnings(message: str, warnings: Sequence[str]) -> str:
    """Return a flash message with as many warnings as fit, and count the others."""
    text = _shortened(message) if warnings else message
    for place, each in enumerate(warnings):
        longer = f"{text} Warning: {_shortened(each)}".strip()
        left = len(warnings) - place - 1
        more = f" And {left} more." if left else ""
        if len(longer) + len(more) > _FLASH_CHARS:
            return f"{text} And {left + 1} more."
        text = longer
    return text


def _shortened(text: str) -> str:
    """Return the text, or its beginning up to the end of a word."""
    return text if len(text) <= _PART_CHARS else f"{text[:_PART_CHARS].rsplit(' ', 1)[0]}…"


def override_cookie(session: str, reason: str | None, *, secure: bool) -> str:
    """Return a Set-Cookie header by which forms change what is frozen.

    None as the reason clears it.
    """
    return _signed_cookie(session, OVERRIDE_COOKIE, reason, OVERRIDE_S, secure=secure)


def _signed_cookie(session: str, name: str, text: str | None, seconds: int, *, secure: bool) -> str:
    value = ""
    if text is not None:
        payload = urlsafe_b64encode(msgspec.json.encode(text))
        value = f"{payload.decode()}.{_signature(session, name, payload)}"
    return set_cookie(name, value, seconds if value else 0, path=HOME, secure=secure)


def read_flash(session: str, value: str) -> str | None:
    """Return the message in the cookie's value, or None if it isn't signed for this session."""
    return _read_signed(session, FLASH_COOKIE, value)


def _read_signed(session: str, name: str, value: str) -> str | None:
    payload, _, signature = value.partition(".")
    if not hmac.compare_digest(_signature(session, name, payload.encode()).encode(), signature.encode()):
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(payload.encode()), type=str)
    except (ValueError, msgspec.MsgspecError):
        return None


def _signature(session: str, name: str, payload: bytes) -> str:
    purpose = name.replace("_", " ").encode()
    return hmac.digest(session.encode(), purpose + payload, "sha256").hex()[:32]


class Tabs(NamedTuple):
    """What is above the tabs of an object, for features whose page is one.

    `instance` takes the request, the tab's key and an error to show; `application` the request, the application and
    the key. Both return values for `PageRequest.page`.
    """

    instance: Callable[["PageRequest", str, LaunchbayError | None], Coroutine[Any, Any, dict[str, Any]]]
    application: Callable[["PageRequest", Application, str], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleDeps:
    """Dependencies of pages. `status_of` and `log_failure` are the API's own, so that both treat errors alike."""

    app: AppContext
    tabs: Tabs
    base_url: str  # as in the settings; "" uses the Host header
    known_actions: tuple[str, ...]
    known_types: tuple[str, ...]
    status_of: Callable[[Exception], int]
    log_failure: Callable[[str, Exception, str], None]
    api_calls: Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]  # operations by tag, as web/openapi.py has them
    limits: RateLimits | None = None
    sign_in_links: tuple[SignInLink, ...] = ()
    is_secure: bool = False  # browsers reach this server only through TLS


def safe_path(path: str) -> str:
    """Return the path if it is a page of the console, else the start page. Prevents open redirects."""
    is_own = path == HOME or path.startswith((f"{HOME}/", f"{HOME}?"))
    return path if is_own and path.isascii() and path.isprintable() and "\\" not in path else HOME


class Frame(NamedTuple):
    """What is around a page.

    What the user may do, and what waits and runs, by section of the navigation.
    """

    permissions: UiPermissions | None
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """What a page's handler receives. `session` is the cookie's token, "" on public pages."""

    http: Request
    deps: ConsoleDeps
    signed_in: Actor | None = None
    session: str = ""
    form: Form = field(default_factory=Form)
    warnings: list[str] = field(default_factory=list)  # about what a form did
    scope: PageScope = field(init=False)
    _frames: "dict[str | None, asyncio.Task[Frame]]" = field(default_factory=dict, init=False)
    _ctx: Context | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", PageScope(self.deps.app.database.pool))

    @property
    def actor(self) -> Actor:
        """The signed-in user. Not for public pages."""
        assert self.signed_in is not None, "a public page has no signed-in user"
        return self.signed_in

    @property
    def ctx(self) -> Context:
        """The context that use cases need: the application and the signed-in user."""
        if self._ctx is None:
            object.__setattr__(self, "_ctx", self._new_ctx())
        assert self._ctx is not None
        return self._ctx

    def _new_ctx(self) -> Context:
        if self.http.method != "POST":
            return Context(self.deps.app, self.actor, is_request=True)
        return Context(self.deps.app, self.actor, override=self.override, warnings=self.warnings, is_request=True)

    @property
    def override(self) -> str | None:
        """Why the user changes what is frozen, for some minutes."""
        if not self.session:
            return None
        sent = sent_cookie(self.http.headers.get("cookie", ""), OVERRIDE_COOKIE, secure=self.is_secure)
        return _read_signed(self.session, OVERRIDE_COOKIE, sent)

    @property
    def app(self) -> AppContext:
        """The application, for public pages and use cases without a caller."""
        return self.deps.app

    @property
    def is_secure(self) -> bool:
        return self.deps.is_secure

    @property
    def address(self) -> str:
        """The address that the request came from."""
        return self.http.client.host if self.http.client else ""

    @property
    def origin(self) -> str:
        """The address of this server for clients; the host was checked before."""
        url = self.http.url
        return self.deps.base_url.rstrip("/") or f"{url.scheme}://{url.netloc}"

    def relying_party(self) -> RelyingParty | None:
        """Return this server as passkeys know it."""
        return relying_party(self.origin)

    def path(self, name: str) -> str:
        """Return a part of the address.

        Raises NotFound for one that PostgreSQL couldn't look up.
        """
        text = str(self.http.path_params[name])
        if "\0" in text:
            raise NotFound("Page not found.", "Go to the start page.")
        return text

    def query(self, name: str) -> str | None:
        """Return a field of the query, or None if it is missing or empty."""
        return self.http.query_params.get(name, "").strip() or None

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        """Return a field of the query that has one of these values.

        None is a missing one. Raises BadRequest for another value.
        """
        given = self.query(name)
        if given is not None and given not in (known := list(choices)):
            hint = Hints().nearest(given, known) or f" Use one of these: {', '.join(known)}."
            raise BadRequest(f"{name}: there is no {given[:40]!r}.{hint}", code="InvalidFilter")
        return given

    def query_form(self) -> Form:
        """Return the fields of the query as a form. Links fill in forms that way."""
        query = self.http.query_params
        return Form({name: query.getlist(name) for name in query})

    @property
    def is_stream(self) -> bool:
        """Whether the browser asks for events."""
        return self.http.headers.get("accept", "").startswith("text/event-stream")

    def sign_in_path(self, *, ended: bool) -> str:
        """Return the address of the sign-in page that leads back.

        With `ended`, the page says that the session has ended.
        """
        http = self.http
        # A form or a part of a page leads back to the page that sent it.
        is_part = http.method != "GET" or self.is_stream or http.headers.get("hx-request") == "true"
        address = http.headers.get("referer", "") if is_part else str(http.url)
        wanted = safe_path("/" + address.partition("://")[2].partition("/")[2])
        of = "page" if http.method == "GET" else "form"
        query = ({} if wanted == HOME else {"next": wanted}) | ({"ended": of} if ended else {})
        return f"{SIGN_IN}?{urlencode(query, safe='/', quote_via=quote)}" if query else SIGN_IN

    def live_end(self, error: LaunchbayError) -> str:
        """Return the last event of a stream, which says why it ends.

        It leads to the sign-in page if the session has ended.
        """
        sign_in = self.sign_in_path(ended=True) if isinstance(error, NotAuthenticated) else ""
        return live_event("over", self.render_fragment("live_ended.html", messages=error.messages, sign_in=sign_in))

    def now(self) -> datetime:
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
        """Return a page.

        Default of `status`: the status that the API gives the problem, or 200. A value may be a read that was asked:
        the template gets its result.
        """
        if status is None:
            status = 200 if problem is None else self.deps.status_of(problem)
        cookies = self.http.headers.get("cookie", "")
        secure = self.is_secure
        flash = read_flash(self.session, sent_cookie(cookies, FLASH_COOKIE, secure=secure)) if self.session else None
        organizations: Sequence[NamedRow] = ()
        if self.signed_in is not None:
            self.ask_frame(organization_id)
            organizations = await self.ask(self._organizations())
        current = next((row for row in organizations if row.id == organization_id), None)
        # Pages of the account keep the navigation of the organization that the user was in.
        around = current or self._last_organization(organizations, cookies)
        frame = None if around is None else await self.ask_frame(around.id)
        values = {name: await each if isinstance(each, asyncio.Task) else each for name, each in values.items()}
        await self.scope.release()  # whatever takes long to render holds no connection
        text = render(
            template,
            {
                "permissions": None if frame is None else frame.permissions,
                "actor": self.signed_in,
                "form_token": form_token(self.session),
                "organizations": organizations,
                "organization": around,
                "section": section if current else "account",
                "navigation_counts": {} if frame is None else frame.counts,
                "access_tabs": ACCESS_TABS,
                "help": guide_to(template, section),
                "flash": flash,
                "override": self.override,
                "problems": () if problem is None else problem.messages,
                "forms": Forms(self.http.url.path if self.http.method == "POST" else "", self.form, problem),
                "appearance": read_appearance(cookies, secure=secure),
                "now": self.now(),
                "current_path": self.http.url.path,
                **values,
            },
        )
        response = HTMLResponse(text, status, HEADERS)
        if current is not None and sent_cookie(cookies, ORGANIZATION_COOKIE, secure=secure) != current.id:
            cookie = set_cookie(ORGANIZATION_COOKIE, current.id, _ORGANIZATION_S, path=HOME, secure=secure)
            response.headers.append("Set-Cookie", cookie)
        if flash is not None:
            response.headers.append("Set-Cookie", flash_cookie(self.session, None, secure=secure))
        return response

    def _last_organization(self, organizations: Sequence[NamedRow], cookies: str) -> NamedRow | None:
        last = sent_cookie(cookies, ORGANIZATION_COOKIE, secure=self.is_secure)
        return next((row for row in organizations if row.id == last), next(iter(organizations), None))

    def ask_frame(self, organization_id: str | None) -> "asyncio.Task[Frame]":
        """Begin to read what is around a page.

        Whoever knows the organization early saves a round trip.
        """
        if organization_id not in self._frames:
            self._frames[organization_id] = self.ask(self._read_frame(organization_id))
        return self._frames[organization_id]

    async def _read_frame(self, organization_id: str | None) -> "Frame":
        ask, ctx = self.ask, self.ctx
        if organization_id is None:
            await self._organizations()
            return Frame(None, {})
        asked = ask(self.permissions(organization_id))
        own = ask(list_own_approvals(ctx, organization_id))
        asking = ask(ctx.app.ports.count_asking(ctx, organization_id))
        running = ask(count_running_jobs(ctx, organization_id))
        ask(self._organizations(organization_id))
        return Frame(await asked, {"approvals": len(await own) + await asking, "runs": await running})

    @asynccontextmanager
    async def unless_changed(
        self, kind: str, object_id: str, read: Callable[[], Awaitable[Any]]
    ) -> AsyncIterator[None]:
        """Make a change if `read` still returns what the form shows.

        The comparison and the change in the block are one transaction, with the object locked. `kind` is as in
        `Context.locked`. Raises SavedMeanwhile.
        """
        await read()  # who may not read an object must not lock it
        async with self.ctx.locked(kind, object_id):
            stored = await read()
            tag = seen_tag(stored)
            if self.form.text(SEEN, tag) != tag:
                raise SavedMeanwhile(stored, tag)
            yield

    def seen(self, part: str, stored: Any) -> str:
        """Return the tag for the form that is sent to `part` of this page.

        A form that is shown again, with a mistake, keeps its tag: it doesn't show what others have saved.
        """
        is_sent = self.http.method == "POST" and self.http.url.path.endswith(part)
        return self.form.text(SEEN, seen_tag(stored)) if is_sent else seen_tag(stored)

    async def conflict(self, error: "SavedMeanwhile") -> Response:
        """Return the page with what somebody else has saved and the user's version."""
        stored = error.stored if isinstance(error.stored, Mapping) else {}
        names = [name for name in stored if isinstance(name, str)]
        rows = [
            SavedField(
                name.rpartition(":")[2],
                _field_words(stored[name]),
                _field_words(self.form.has(name) if isinstance(stored[name], bool) else sorted(self.form.all(name))),
            )
            for name in names
        ]
        return await self.page(
            "conflict.html",
            problem=error,
            rows=[SavedField(*(redact_value(each, row.name) for each in row)) for row in rows],
            tag=error.tag,
            action=self.http.url.path,
            sent=self.form.pairs(without=(SEEN, "formToken")),
            back=safe_path(urlsplit(self.http.headers.get("referer", "")).path),
        )

    def again(self) -> "PageRequest":
        """Return the request with a scope that survives a read that fails."""
        request = replace(self)
        object.__setattr__(request, "scope", PageScope(self.deps.app.database.pool, keeps_snapshot=True))
        return request

    @asynccontextmanager
    async def reading(self) -> AsyncIterator["PageRequest"]:
        """Yield the request with a scope of its own, for one update of a stream."""
        now = replace(self)
        now.scope.begin()
        try:
            yield now
        finally:
            await now.scope.end()

    def ask(self, read: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin a read, which goes out together with others. Await it for its result."""
        return self.scope.ask(read)

    async def permissions(self, organization_id: str) -> UiPermissions:
        return UiPermissions(await permitted(self.ctx, organization_id))

    async def confirm_deletion(
        self,
        problem: LaunchbayError | None,
        *,
        section: str,
        organization_id: str,
        name: str,
        consequence: str,
        path: str,
        allowed: bool,
        needed: Permission,
    ) -> Response:
        """Return the page that asks before an object is deleted; `path` is the page of the object."""
        return await self.page(
            "confirm.html",
            section=section,
            organization_id=organization_id,
            problem=problem,
            name=name,
            consequence=consequence,
            path=path,
            allowed=allowed,
            needed=needed,
        )

    async def fragment(self, template: str, **values: Any) -> Response:
        """Return a fragment of a page, which a script inserts."""
        await self.scope.release()
        return HTMLResponse(self.render_fragment(template, **values), 200, HEADERS)

    def render_fragment(self, template: str, **values: Any) -> str:
        return render(template, {"form_token": form_token(self.session), "forms": Forms(), "now": self.now(), **values})

    def download(self, name: str, columns: Sequence[str], rows: AsyncIterator[Sequence[Any]]) -> Response:
        """Send rows as a file while they are read.

        It is CSV, or with `format=json` in the query a JSON array of objects.
        """
        kind = "json" if self.query("format") == "json" else "csv"
        file = f"{name}-{self.now():%Y-%m-%d}.{kind}"
        return StreamingResponse(
            _json_array(columns, rows) if kind == "json" else _csv_lines(columns, rows),
            media_type="application/json" if kind == "json" else "text/csv; charset=utf-8",
            headers={**HEADERS, "Content-Disposition": f'attachment; filename="{file}"'},
        )

    def redirect(self, path: str, message: str = "") -> Response:
        """Redirect to another page after a form was accepted.

        That page shows the message, and what rules warned of.
        """
        response = RedirectResponse(path, 303, HEADERS)
        message = message_with_warnings(message, list(dict.fromkeys(self.warnings)))
        if message:
            cookie = flash_cookie(self.session, message, secure=self.is_secure)
            response.headers.append("Set-Cookie", cookie)
        return response

    async def _organizations(self, known: str | None = None) -> list[NamedRow]:
        """Return the organizations of the user.

        `known` is one that the page reads anyway, before them.
        """
        if known is not None:
            await self.permissions(known)
        try:
            return await list_organizations(self.ctx)
        except NotAuthenticated:
            return []  # the session ended; the page itself reports it


class SavedMeanwhile(PreconditionFailed):
    """Somebody else has saved what the form would overwrite.

    `stored` is what they saved, by field of the form.
    """

    def __init__(self, stored: Any, tag: str) -> None:
        super().__init__(
            "Someone else has changed this since you opened it. Nothing was saved.",
            "Your version is still in the form, and theirs is below. Saving again replaces theirs.",
            tag=tag,
        )
        self.stored = stored


class SavedField(NamedTuple):
    """A field of a form: what is stored, and what was sent."""

    name: str
    theirs: str
    yours: str


def _field_words(value: Any) -> str:
    """Return a value for people; a list has a line for each entry."""
    if isinstance(value, bool):
        return "on" if value else ""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


async def _csv_lines(columns: Sequence[str], rows: AsyncIterator[Sequence[Any]]) -> AsyncIterator[str]:
    yield csv_line(columns)
    async for row in rows:
        yield csv_line(row)


async def _json_array(columns: Sequence[str], rows: AsyncIterator[Sequence[Any]]) -> AsyncIterator[bytes]:
    before = b"[\n"
    async for row in rows:
        yield before + msgspec.json.encode(dict(zip(columns, row, strict=True)))
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


Handler = Callable[[PageRequest], Awaitable[Response]]
FormPage = Callable[[PageRequest, LaunchbayError], Awaitable[Response]]
HandlerT = TypeVar("HandlerT", bound=Handler)


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page, or the target of a form. A public one needs no session.

    `again` shows the page of the form again, with the error if it is one of the `refusals`. `query` are the fields
    that the address of the page may have; None is any, for forms that links fill in.
    """

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    public: bool = False
    again: FormPage | None = None
    refusals: tuple[type[LaunchbayError], ...] = ()
    query: frozenset[str] | None = frozenset()

    def check_query(self, request: Request) -> None:
        """Raise BadRequest for a query that the page can't read or doesn't know (decision 0163).

        A page that shows more than was asked for, because a filter is mistyped, invites to act on all of it.
        """
        try:
            fields = decode_fields(request.scope["query_string"], CONSOLE_FORM_FIELDS)
        except ValueError as error:
            raise BadRequest("Invalid query string.", str(error)) from None
        if self.method == "POST" or self.public or self.query is None:
            return
        for sentence in strange_parameters(fields, self.query):
            raise BadRequest(f"{sentence} Leave it out otherwise.", code="InvalidQuery")

    async def answer(self, request: PageRequest) -> Response:
        try:
            if self.method == "GET":
                return await self._page(request)
            return await self.handler(request)  # which begins a scope with the first read of a page that it shows
        except self.refusals as error:
            assert self.again is not None, "errors are expected where a page can show them"
            request.scope.begin()
            return await self.again(request, error)
        except SavedMeanwhile as error:
            return await request.conflict(error)
        finally:
            await request.scope.end()

    async def _page(self, request: PageRequest) -> Response:
        """Return a page of one moment.

        If it can be shown although a read failed, it is read once more, in a scope that keeps its snapshot.
        """
        request.scope.begin()
        found = await self.handler(request)
        if not request.scope.is_torn:
            return found
        await request.scope.end()
        request = request.again()
        request.scope.begin()
        try:
            return await self.handler(request)
        finally:
            await request.scope.end()


class Routes:
    """The pages of a module, declared at their handlers, in the order of their declaration.

    routes = Routes()

    @routes.get("/console/organizations/{id}/users")
    async def list_all(request: PageRequest) -> Response:
        \"""Show the users.\"""
    """

    def __init__(self) -> None:
        self._routes: list[PageRoute] = []

    def __iter__(self) -> Iterator[PageRoute]:
        return iter(self._routes)

    def get(
        self, path: str, *, public: bool = False, query: Iterable[str] | None = ()
    ) -> Callable[[HandlerT], HandlerT]:
        known = None if query is None else frozenset(query)
        return self._declare(lambda handler: PageRoute("GET", path, handler, public, query=known))

    def post(
        self,
        path: str,
        *,
        public: bool = False,
        again: FormPage | None = None,
        refusals: tuple[type[LaunchbayError], ...] = (BadRequest,),
    ) -> Callable[[HandlerT], HandlerT]:
        # What a rule refuses may be allowed with another value, so the form stays.
        expected = () if again is None else (*refusals, Refused)
        return self._declare(lambda handler: PageRoute("POST", path, handler, public, again, expected))

    def _declare(self, route: Callable[[Handler], PageRoute]) -> Callable[[HandlerT], HandlerT]:
        def declare(handler: HandlerT) -> HandlerT:
            self._routes.append(route(handler))
            return handler

        return declare


async def user_names(
    request: PageRequest, organization_id: str, ids: Iterable[str | None] | None = None, *, most: int | None = None
) -> Mapping[str, str]:
    """Return the names of these users, of all or of the first, by ID.

    Empty if the caller isn't allowed to read them.
    """
    wanted = None if ids is None else {each for each in ids if each is not None}
    try:
        return await list_user_names(request.ctx, organization_id, ids=wanted, most=most)
    except NotAllowed:
        return {}


async def people_in(request: PageRequest, organization_id: str, query: str, *, most: int = 0) -> Mapping[str, str]:
    """Return the names by ID that a query may have.

    If it names nobody, they are the first ones, or none.
    """
    if re.search(r"\b(owner|by):", query, re.IGNORECASE):
        return await user_names(request, organization_id)
    return await user_names(request, organization_id, most=most) if most else {}
