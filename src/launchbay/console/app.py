"""The ASGI application of the console: sessions, forms, errors as pages. It stands inside the API's middleware."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.auth.cookies import is_form_token, require_same_origin_form, sent_cookie, session_cookie
from launchbay.console import rendering
from launchbay.console.forms import Form, read_form
from launchbay.console.pages import (
    account,
    applications,
    approvals,
    configuration,
    environments,
    instances,
    launch,
    manifests,
    organizations,
    roles,
    services,
    users,
    webhooks,
)
from launchbay.console.rendering import HEADERS
from launchbay.console.request import HOME, SIGN_IN, ConsoleDeps, PageRequest, PageRoute
from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated, NotFound
from launchbay.usecases.sign_in import authenticate_session

_PAGE_MODULES: tuple[tuple[PageRoute, ...], ...] = (
    account.SIGN_IN_ROUTES,
    organizations.ROUTES,
    applications.ROUTES,
    manifests.ROUTES,
    launch.ROUTES,
    instances.ROUTES,
    instances.INSTANCE_ACTION_ROUTES,
    instances.JOB_ROUTES,
    instances.LIVE_ROUTES,
    configuration.ROUTES,
    approvals.ROUTES,
    environments.ROUTES,
    services.ROUTES,
    roles.ROUTES,
    users.ROUTES,
    account.ROUTES,
    organizations.AUDIT_ROUTES,
    webhooks.ROUTES,
)
ROUTES: tuple[PageRoute, ...] = tuple(page for family in _PAGE_MODULES for page in family)

FORM_TOKEN = "formToken"  # noqa: S105 - the name of a field
FORM_TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header
_INTERNAL = "Something went wrong inside the service. Try again; if it stays, give the request id to the administrator."


def create_console(deps: ConsoleDeps) -> ASGIApp:
    """Return the console; it answers `/` and everything below `/console`."""
    routes = [Route(page.path, _endpoint(page, deps), methods=[page.method]) for page in ROUTES]
    routes += [
        Route("/", _to_home, methods=["GET"]),
        Route(f"{rendering.PATH}/{{name:path}}", _asset, methods=["GET"]),
    ]
    return Router(routes, redirect_slashes=False, default=_not_found(deps))


def is_of_console(path: str) -> bool:
    """Tell whether the console answers this path."""
    return path in {"/", HOME} or path.startswith(f"{HOME}/")


async def _to_home(_: Request) -> Response:
    return RedirectResponse(HOME, 303)


async def _asset(request: Request) -> Response:
    return rendering.asset(request.path_params["name"]) or Response("There is no such file.", 404)


def _not_found(deps: ConsoleDeps) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        visit = PageRequest(http=request, deps=deps, signed_in=None, session="")
        missing = NotFound("There is no such page.", "Begin at the start page.")
        await (await _refusal(visit, missing))(scope, receive, send)

    return answer


def _endpoint(route: PageRoute, deps: ConsoleDeps) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visit = PageRequest(http=request, deps=deps, signed_in=None, session="")
        try:
            visit = await _authorize(route, request, deps)
            return await route.handler(visit)
        except NotAuthenticated as error:
            return _to_sign_in(visit, error)
        except Exception as error:  # noqa: BLE001 - the last place where an exception can become a page
            return await _refusal(visit, error)

    return answer


async def _authorize(route: PageRoute, request: Request, deps: ConsoleDeps) -> PageRequest:
    """Return the visit of who may have this page. Raises NotAuthenticated, NotAllowed, TooManyRequests."""
    address = request.client.host if request.client else ""
    if deps.limits is not None:
        deps.limits.count_address(address)
    session = sent_cookie(request.headers.get("cookie", ""))
    form = Form()
    if route.method == "POST":
        require_same_origin_form(request.headers, deps.base_url)
        form = await read_form(request)
    if route.public:
        return PageRequest(http=request, deps=deps, signed_in=None, session="", form=form)
    if not session:
        raise NotAuthenticated("Sign in first.")
    actor = await authenticate_session(deps.app, session, address)
    request.scope["state"]["user_id"] = actor.user_id
    if deps.limits is not None:
        deps.limits.count_user(actor.user_id)
    if route.method == "POST":
        sent = request.headers.get(FORM_TOKEN_HEADER) or form.raw(FORM_TOKEN)
        if not is_form_token(session, sent):
            raise NotAllowed(
                "This form belongs to another session, or has none.", "Open its page again.", code="CrossOrigin"
            )
    return PageRequest(http=request, deps=deps, signed_in=actor, session=session, form=form)


def _to_sign_in(page_request: PageRequest, error: NotAuthenticated) -> Response:
    """Lead to the sign-in page, and back to where one wanted to go; what has ended is forgotten."""
    request = page_request.http
    wanted = request.url.path if request.method == "GET" else HOME
    if request.url.query and request.method == "GET":
        wanted += f"?{request.url.query}"
    target = SIGN_IN if wanted == HOME else f"{SIGN_IN}?next={quote(wanted, safe='/')}"
    if request.headers.get("hx-request") == "true":
        response = Response(status_code=204, headers={"HX-Redirect": target})
    elif request.headers.get("accept", "").startswith(("application/json", "text/event-stream")):
        response = Response(str(error), 401)
    else:
        response = RedirectResponse(target, 303, HEADERS)
    if sent_cookie(request.headers.get("cookie", "")):
        response.headers.append("Set-Cookie", session_cookie("", 0, secure=page_request.is_secure))
    return response


async def _refusal(request: PageRequest, error: Exception) -> Response:
    """Return the page that says what was refused, or that something broke, with the request's id."""
    outside = request.deps
    status = outside.status_of(error)
    request_id = request.http.scope["state"]["request_id"]
    if not isinstance(error, LaunchbayError) or status == 500:
        outside.log_failure("page.failed", error, request_id)
        error = LaunchbayError(_INTERNAL)
    # Without the organizations of the caller: whatever failed may fail for them too.
    nobody = PageRequest(http=request.http, deps=outside, signed_in=None, session=request.session)
    return await nobody.page(
        "refusal.html",
        problem=error,
        status=status,
        phrase=HTTPStatus(status).phrase,
        request_id=request_id,
        is_signed_in=request.signed_in is not None,
    )
