"""The ASGI application of the console: sessions, forms, errors as pages. It stands inside the API's middleware."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.auth.cookies import is_form_token, require_own_form, sent_cookie, session_cookie
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
from launchbay.console.request import HOME, SIGN_IN, Outside, Page, Visit
from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated, NotFound
from launchbay.usecases.sign_in import caller_of_session

_FAMILIES: tuple[tuple[Page, ...], ...] = (
    account.SIGN_IN_PAGES,
    organizations.PAGES,
    applications.PAGES,
    manifests.PAGES,
    launch.PAGES,
    instances.PAGES,
    instances.INSTANCE_ACTS_PAGES,
    instances.JOBS_PAGES,
    instances.LIVE_PAGES,
    configuration.PAGES,
    approvals.PAGES,
    environments.PAGES,
    services.PAGES,
    roles.PAGES,
    users.PAGES,
    account.PAGES,
    organizations.AUDIT_PAGES,
    webhooks.PAGES,
)
PAGES: tuple[Page, ...] = tuple(page for family in _FAMILIES for page in family)

FORM_TOKEN = "formToken"  # noqa: S105 - the name of a field
FORM_TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header
_INTERNAL = "Something went wrong inside the service. Try again; if it stays, give the request id to the administrator."


def create_console(outside: Outside) -> ASGIApp:
    """Return the console; it answers `/` and everything below `/console`."""
    routes = [Route(page.path, _endpoint(page, outside), methods=[page.method]) for page in PAGES]
    routes += [
        Route("/", _to_home, methods=["GET"]),
        Route(f"{rendering.PATH}/{{name:path}}", _asset, methods=["GET"]),
    ]
    return Router(routes, redirect_slashes=False, default=_nowhere(outside))


def is_of_console(path: str) -> bool:
    """Tell whether the console answers this path."""
    return path in {"/", HOME} or path.startswith(f"{HOME}/")


async def _to_home(_: Request) -> Response:
    return RedirectResponse(HOME, 303)


async def _asset(request: Request) -> Response:
    return rendering.asset(request.path_params["name"]) or Response("There is no such file.", 404)


def _nowhere(outside: Outside) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        visit = Visit(request=request, outside=outside, signed_in=None, session="")
        missing = NotFound("There is no such page.", "Begin at the start page.")
        await (await _refusal(visit, missing))(scope, receive, send)

    return answer


def _endpoint(page: Page, outside: Outside) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        visit = Visit(request=request, outside=outside, signed_in=None, session="")
        try:
            visit = await _admitted(page, request, outside)
            return await page.handler(visit)
        except NotAuthenticated as error:
            return _to_sign_in(visit, error)
        except Exception as error:  # noqa: BLE001 - the last place where an exception can become a page
            return await _refusal(visit, error)

    return answer


async def _admitted(page: Page, request: Request, outside: Outside) -> Visit:
    """Return the visit of who may have this page. Raises NotAuthenticated, NotAllowed, TooManyRequests."""
    address = request.client.host if request.client else ""
    if outside.limits is not None:
        outside.limits.count_address(address)
    session = sent_cookie(request.headers.get("cookie", ""))
    form = Form()
    if page.method == "POST":
        require_own_form(request.headers, outside.base_url)
        form = await read_form(request)
    if page.public:
        return Visit(request=request, outside=outside, signed_in=None, session="", form=form)
    if not session:
        raise NotAuthenticated("Sign in first.")
    actor = await caller_of_session(outside.app, session, address)
    request.scope["state"]["user_id"] = actor.user_id
    if outside.limits is not None:
        outside.limits.count_user(actor.user_id)
    if page.method == "POST":
        sent = request.headers.get(FORM_TOKEN_HEADER) or form.raw(FORM_TOKEN)
        if not is_form_token(session, sent):
            raise NotAllowed(
                "This form belongs to another session, or has none.", "Open its page again.", code="CrossOrigin"
            )
    return Visit(request=request, outside=outside, signed_in=actor, session=session, form=form)


def _to_sign_in(visit: Visit, error: NotAuthenticated) -> Response:
    """Lead to the sign-in page, and back to where one wanted to go; what has ended is forgotten."""
    request = visit.request
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
        response.headers.append("Set-Cookie", session_cookie("", 0, secure=visit.is_secure))
    return response


async def _refusal(visit: Visit, error: Exception) -> Response:
    """Return the page that says what was refused, or that something broke, with the request's id."""
    outside = visit.outside
    status = outside.status_of(error)
    request_id = visit.request.scope["state"]["request_id"]
    if not isinstance(error, LaunchbayError) or status == 500:
        outside.log_failure("page failed", error, request_id)
        error = LaunchbayError(_INTERNAL)
    # Without the organizations of the caller: whatever failed may fail for them too.
    nobody = Visit(request=visit.request, outside=outside, signed_in=None, session=visit.session)
    return await nobody.page(
        "refusal.html",
        problem=error,
        status=status,
        phrase=HTTPStatus(status).phrase,
        request_id=request_id,
        is_signed_in=visit.signed_in is not None,
    )
