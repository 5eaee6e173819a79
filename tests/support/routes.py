"""A small table for tests of the frame: one row for everything that a row can say."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Annotated, Any

import msgspec
from starlette.types import ASGIApp

from launchbay import errors
from launchbay.auth.permissions import Actor, Method
from launchbay.limits import MANIFEST_BYTES, MIB
from launchbay.web import responses
from launchbay.web.app import create_app
from launchbay.web.requests import YAML, ApiDeps, JsonBody, LinesBody, Request, Upload, YamlBody
from launchbay.web.responses import EmptyResponse, JSONResponse, JSONStream, RawJSONResponse, Response, YAMLResponse
from launchbay.web.routing import Endpoint, Returns
from tests.support.served import ENDPOINTS

ID = "0123456789abcdef01234567"
TOKEN = {"Authorization": "Bearer good"}
SECRET = "hunter2-in-the-exception"


class Thing(msgspec.Struct, rename="camel"):
    name: str
    wheel_count: int = 4


class Options(msgspec.Struct, rename="camel"):
    version: int | None = None
    labels: dict[str, str] = {}


class Copy(msgspec.Struct):
    name: str | None = None


class Change(msgspec.Struct, forbid_unknown_fields=True):
    name: str | None = None
    parameters: dict[str, Any] | None = None


class Count(msgspec.Struct):
    count: Annotated[int, msgspec.Meta(ge=0)] = 3
    fail_at: int | None = None
    slow: bool = False


class Force(msgspec.Struct):
    force: int = 0


async def show(call: Request[None, None]) -> Response:
    return JSONResponse(
        {"path": call.path, "user": call.actor.user_id, "request": call.request_id, "address": call.address}
    )


async def open_to_all(_: Request[None, None]) -> Response:
    return RawJSONResponse(b'{"open":true}')


async def echo(call: Request[Any, Any]) -> Response:
    return JSONResponse({"path": call.path, "body": call.body})


async def show_force(call: Request[None, Force]) -> Response:
    return JSONResponse({"force": call.query.force})


async def echo_text(call: Request[str, None]) -> Response:
    return YAMLResponse(call.body)


async def count_bytes(call: Request[Upload, None]) -> Response:
    async with call.body.kept() as file:
        return JSONResponse({"bytes": len(file.read())})


async def nothing(_: Request[Any, Any]) -> Response:
    return EmptyResponse()


class Streams:
    """What happened to the streams that were begun."""

    closed = 0
    rows_made = 0


async def stream(call: Request[None, Count]) -> Response:
    async def chunks() -> AsyncIterator[list[dict[str, str]]]:
        try:
            for start in range(0, call.query.count, 100):
                if call.query.fail_at is not None and start >= call.query.fail_at:
                    raise RuntimeError(SECRET)
                if call.query.slow:
                    await asyncio.sleep(0.01)
                numbers = range(start, min(start + 100, call.query.count))
                Streams.rows_made += len(numbers)
                yield [{"id": f"{number:024x}", "padding": "x" * 200} for number in numbers]
        finally:
            Streams.closed += 1

    return JSONStream(chunks())


async def pages(call: Request[None, responses.Paging]) -> Response:
    first = int(call.query.after, 16) + 1 if call.query.after else 0
    limit = call.query.limit or 10
    return responses.page(
        call, [{"id": f"{number:024x}"} for number in range(first, min(first + limit + 1, 10))], limit
    )


FAILURES: Mapping[str, Exception] = {
    "BadRequest": errors.BadRequest("The name is empty; give one."),
    "MalformedBody": errors.MalformedBody("Broken."),
    "InvalidManifest": errors.InvalidManifest([{"message": "odd", "line": 3, "column": 7, "code": "Odd"}]),
    "FieldErrors": errors.FieldErrors({"name": ["Too long.", "Too loud."]}),
    "NotAuthenticated": errors.NotAuthenticated("Send credentials."),
    "NotAllowed": errors.NotAllowed("You need EditApplication for this."),
    "NotFound": errors.NotFound("There is no such thing."),
    "Conflict": errors.Conflict("A job is running."),
    "TooManyRequests": errors.TooManyRequests("Slowly.", retry_after_s=17),
    "PreconditionFailed": errors.PreconditionFailed("It has changed.", tag='"new"'),
    "TooLarge": errors.TooLarge("Too much."),
    "Unavailable": errors.Unavailable("The database is away.", retry_after_s=5),
    "SecretKeyOutdated": errors.SecretKeyOutdated(),
    "ManifestSourceLocked": errors.ManifestSourceLocked("The manifest comes from a URL."),
    "ExpressionError": errors.ExpressionError("No such name."),
    "ActionFailed": errors.ActionFailed("The remote side said no."),
    "OutgoingFailed": errors.EgressFailed("Nobody answered."),
    "AddressRefused": errors.AddressRefused("This address is not allowed."),
    "Fenced": errors.Fenced("Another process has it."),
    "CannotStart": errors.CannotStart(SECRET),
    "WorkflowFailed": errors.WorkflowFailed(SECRET),
    "LaunchbayError": errors.LaunchbayError(SECRET),
    "RuntimeError": RuntimeError(SECRET),
}


async def fail(call: Request[None, None]) -> Response:
    raise FAILURES[call.path["kind"]]


async def sleep(_: Request[None, None]) -> Response:
    await asyncio.sleep(0.5)
    return EmptyResponse()


def _row(method: Any, path: str, handler: Any, **more: Any) -> Endpoint:
    name = f"{method}_{path}".lower()
    operation = "_".join(part for part in "".join(c if c.isalnum() else " " for c in name).split())
    settings = {"permission": "Read", "summary": "A sample.", "tags": ("Samples",), **more}
    return Endpoint(method=method, path=path, operation_id=operation, handler=handler, **settings)


SAMPLES = (
    _row("GET", "/api/1/open", open_to_all, public=True, permission=""),
    _row("GET", "/api/1/things", stream, query=Count, returns=Returns(type=list[Thing])),
    _row("POST", "/api/1/things", echo, body=JsonBody(Thing, example={"name": "cart"}), idempotency_key=True),
    _row("GET", "/api/1/things/{id}", show, returns=Returns(type=Thing)),
    _row("PUT", "/api/1/things/{id}", echo, body=JsonBody(Change), field_errors=True),
    _row("DELETE", "/api/1/things/{id}", show_force, query=Force),
    _row("GET", "/api/1/things/{id}/wheels", show, permission="None: every member"),
    _row("POST", "/api/1/things/{id}/{verb}", echo, body=JsonBody(dict[str, Any], required=False), statuses=(409,)),
    _row("POST", "/api/1/things/{id}/{verb}/schedule", echo, body=JsonBody(Options)),
    _row("POST", "/api/1/things/{id}/wheels/preview", nothing),
    _row("POST", "/api/1/things/{id}/clone", echo, body=JsonBody(Copy, media_optional=True), idempotency_key=True),
    _row("PUT", "/api/1/things/{id}/data", echo, body=JsonBody(dict[str, Any])),
    _row("PUT", "/api/1/things/{id}/text", echo_text, body=YamlBody(), returns=Returns(media_type=YAML, type=str)),
    _row("POST", "/api/1/uploads/lines", count_bytes, body=LinesBody(10 * MIB)),
    _row("DELETE", "/api/1/things/{id}/roles", echo, body=JsonBody(list[str])),
    _row("GET", "/api/1/pages", pages, query=responses.Paging, returns=Returns(type=list[Thing])),
    _row("GET", "/api/1/failures/{kind}", fail, public=True, permission=""),
    _row("GET", "/api/1/sleep", sleep, public=True, permission=""),
)


class SampleAuthenticator:
    """Knows one token."""

    async def authenticate(self, headers: Mapping[str, str], client_address: str) -> Actor:
        if headers.get("authorization") != "Bearer good":
            raise errors.NotAuthenticated("Send an e-mail address and a password, or a token.")
        return Actor(user_id=ID, email="a@b.example", name="A", address=client_address, method=Method.BEARER)


class Readiness:
    """What the database would say."""

    failure: Exception | None = None
    delay_s = 0.0

    async def __call__(self) -> None:
        await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure


def sample_app(ready: Readiness | None = None, proxies: Callable[[ASGIApp], ASGIApp] | None = None) -> ASGIApp:
    # The samples reach nothing but the readiness, whatever else the product's families ask for.
    reached: dict[str, Any] = {field.name: None for field in dataclasses.fields(ApiDeps)}
    services = ApiDeps(**{**reached, "ready": ready or Readiness(), "base_url": "", "manifest_bytes": MANIFEST_BYTES})
    return create_app((*SAMPLES, *ENDPOINTS), SampleAuthenticator(), services, proxies=proxies)
