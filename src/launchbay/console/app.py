"""The ASGI application of the console: sessions, form tokens, errors as pages. It runs inside the API's middleware."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.auth.cookies import is_form_token, require_same_origin_form, sent_cookie, session_cookie
from launchbay.console import assets
from launchbay.console.forms import Form, read_form
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, ORGANIZATION_COOKIE, ConsoleDeps, PageRequest, PageRoute
from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated, NotFound
from launchbay.tenants import current_tenant
from launchbay.usecases.organizations import list_organizations
from launchbay.usecases.sign_in import authenticate_session
from launchbay.usecases.users import UserFilter, find_users

FORM_TOKEN = "formToken"  # noqa: S105 - the name of a field
FORM_TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header
_RETRY_S = 5
_HELPERS = 3  # administrators that a page names
_HELPER_ROWS = 20  # of users whose roles have such names, among whom they are
_ADMINISTRATOR = "Administrator"  # the built-in role, whose name never changes
_INTERNAL = "Internal error. Retry; if it persists, send the request ID to your administrator."


def create_console(deps: ConsoleDeps, declared: Sequence[PageRoute]) -> ASGIApp:
    """Return the application that serves `/` and the pages.

    The first one of an address wins.
    """
    routes = [Route(page.path, _endpoint(page, deps), methods=[page.method]) for page in declared]
    # The address of a form, as a page. It comes last, so that a page at the same address wins.
    routes += [
        Route(page.path, _endpoint(replace(page, method="GET", handler=_form_only, query=None), deps), methods=["GET"])
        for page in declared
        if page.method == "POST"
    ]
    routes += [
        Route("/", _to_home, methods=["GET"]),
        Route(f"{assets.PATH}/{{name:path}}", _asset, methods=["GET"]),
    ]
    return Router(routes, redirect_slashes=False, default=_not_found(deps))


def served_by_console(pages: Sequence[PageRoute]) -> Callable[[str], bool]:
    """Return what tells whether the console answers a path.

    It does for all that begin as its pages do.
    """
    first = {page.path.split("/")[1] for page in pages}
    return lambda path: path == "/" or path[1:].partition("/")[0] in first


async def _form_only(_: PageRequest) -> Response:
    raise NotFound("This address is that of a form.", "Open the page that has the form.")


async def _to_home(_: Request) -> Response:
    return RedirectResponse(HOME, 303)


async def _asset(request: Request) -> Response:
    return assets.asset(request.path_params["name"], request.headers) or Response("File not found.", 404)


def _not_found(deps: ConsoleDeps) -> ASGIApp:
    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        request = PageRequest(http=Request(scope, receive), deps=deps)
        missing = NotFound("Page not found.", "Go to the start page.")
        await (await _error_page(request, missing))(scope, receive, send)

    return handle


def _endpoint(route: PageRoute, deps: ConsoleDeps) -> Callable[[Request], Awaitable[Response]]:
    async def handle(http: Request) -> Response:
        request = PageRequest(http=http, deps=deps)
        try:
            request = await _authorize(route, http, deps)
            route.check_query(http)
            end_turn = await _begin_turn(request)
            try:
                return await route.answer(request)
            finally:
                end_turn()
        except NotAuthenticated as error:
            return _to_sign_in(request, error)
        except Exception as error:  # noqa: BLE001 - the last place where an exception can become a page
            return await _error_page(request, error)

    return handle


async def _authorize(route: PageRoute, http: Request, deps: ConsoleDeps) -> PageRequest:
    """Check rate limits, origin, session and form token. Raises NotAuthenticated, NotAllowed, TooManyRequests."""
    address = http.client.host if http.client else ""
    if deps.limits is not None:
        deps.limits.count_address(address)
    form = Form()
    if route.method == "POST":
        require_same_origin_form(http.headers, deps.base_url)
        form = await read_form(http)
    if route.public:
        return PageRequest(http=http, deps=deps, form=form)
    session = sent_cookie(http.headers.get("cookie", ""), secure=deps.is_secure)
    if not session:
        raise NotAuthenticated("Sign in first.")
    actor = await authenticate_session(deps.app, session, address)
    http.scope["state"]["user_id"] = actor.user_id
    if deps.limits is not None:
        deps.limits.count_user(actor.user_id)
    if route.method == "POST" and not is_form_token(
        session, http.headers.get(FORM_TOKEN_HEADER) or form.raw(FORM_TOKEN)
    ):
        raise NotAllowed("The form belongs to another session.", "Reload its page and retry.", code="CrossOrigin")
    return PageRequest(http=http, deps=deps, signed_in=actor, session=session, form=form)


async def _begin_turn(request: PageRequest) -> Callable[[], None]:
    """Count the request for its organization, and wait for its turn, as calls of the API do. Raises TooManyRequests."""
    app, actor = request.deps.app, request.signed_in
    if actor is None or request.deps.limits is None:
        return lambda: None
    organization_id = app.lookups.organization_of(actor.user_id)
    if organization_id is not None:
        app.quotas.count_request(organization_id)
    tenant = app.quotas.tenants.of(organization_id or actor.user_id)
    current_tenant.set(tenant)
    return await app.turns.begin(tenant)


def _to_sign_in(request: PageRequest, error: NotAuthenticated) -> Response:
    """Redirect to the sign-in page, which leads back. Clears an ended session's cookie."""
    http = request.http
    had_session = bool(sent_cookie(http.headers.get("cookie", ""), secure=request.is_secure))
    if http.headers.get("hx-request") == "true":
        response = Response(status_code=204, headers={"HX-Redirect": request.sign_in_path(ended=True)})
    elif request.is_stream:  # a browser that gets an error instead connects again and again
        response = Response(request.live_end(error), media_type="text/event-stream", headers=HEADERS)
    elif http.headers.get("accept", "").startswith("application/json"):
        response = Response(str(error), 401)
    else:
        # Only a page that somebody saw has a form, even if the browser has deleted the cookie since.
        target = request.sign_in_path(ended=had_session or http.method != "GET")
        response = RedirectResponse(target, 303, HEADERS)
    if had_session:
        response.headers.append("Set-Cookie", session_cookie("", 0, secure=request.is_secure))
    return response


async def _error_page(request: PageRequest, error: Exception) -> Response:
    """Return the page of an error, with the request ID. Logs what isn't the user's fault."""
    deps = request.deps
    status = deps.status_of(error)
    request_id = request.http.scope["state"]["request_id"]
    if not isinstance(error, LaunchbayError) or status == 500:
        deps.log_failure("page.failed", error, request_id)
        error = LaunchbayError(_INTERNAL)
    # Rendered as signed out, without the user's organizations: reading them could fail for the same reason.
    signed_out = PageRequest(http=request.http, deps=deps, session=request.session)
    near = await _organization_near(request, or_last=status == 404) if status in {403, 404} else None
    return await signed_out.page(
        "error.html",
        problem=error,
        status=status,
        error_status=status,
        error_code=error.code,
        phrase=HTTPStatus(status).phrase,
        request_id=request_id,
        near=None if near is None else f"{HOME}/organizations/{near}",
        helpers=await _helpers(request, near) if status == 403 and near is not None else [],
        can_retry=request.http.method == "GET",
        retry_s=_RETRY_S,
    )


async def _organization_near(request: PageRequest, *, or_last: bool) -> str | None:
    """Return the organization of the page, or the only one of the user; None if neither is known.

    With `or_last`, it may be the one whose pages the user saw last.
    """
    if request.signed_in is None:
        return None
    try:
        ids = [row.id for row in await list_organizations(request.ctx)]
    except LaunchbayError:
        return None
    last = sent_cookie(request.http.headers.get("cookie", ""), ORGANIZATION_COOKIE, secure=request.is_secure)
    near = [each for each in ids if each in request.http.url.path.split("/")]
    near = near or [each for each in ids if or_last and each == last]
    return (near or ids)[0] if near or len(ids) == 1 else None


async def _helpers(request: PageRequest, organization_id: str) -> list[tuple[str, str]]:
    """Return administrators of the organization, whom a person without a permission can ask."""
    try:
        wanted = UserFilter(roles=[_ADMINISTRATOR.lower()])
        users = await find_users(request.ctx, organization_id, "", _HELPER_ROWS, wanted)
    except LaunchbayError:
        return []  # the person may not know who belongs to it
    found = [(row.name, row.email) for row in users if _ADMINISTRATOR in row.roles]
    return found[:_HELPERS]
