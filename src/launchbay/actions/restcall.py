"""`restcall`: an HTTP request (manifest-language §9)."""

import asyncio
from collections.abc import Mapping
from email.message import Message
from http.client import responses
from typing import Any
from urllib.parse import urlencode

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter
from launchbay.actions.output import decode_output, parse_json_output
from launchbay.actions.own_plan import PLAN, bounded_answer, has_plan, no_plan, plan_of_answers, read_answers
from launchbay.actions.parameters import (
    duration_s,
    json_text,
    optional_mapping,
    optional_text,
    optional_text_mapping,
    required_text,
    text_or_default,
    whole_number,
    wrong_parameter,
)
from launchbay.actions.plan import ActionPlan
from launchbay.egress.http import EgressResponse, basic_authorization
from launchbay.errors import ActionFailed, EgressFailed
from launchbay.model.durations import parse_duration_s
from launchbay.model.scalars import settled, text_of
from launchbay.telemetry.tracing import trace_headers

_SHOWN_BODY_CHARS = 500
_LONG_JSON_CHARS = 65_536
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
# Servers take one of these for the method.
_OTHER_METHODS = frozenset(("x-http-method-override", "x-http-method", "x-method-override"))
_RETRYABLE_CLIENT_ERRORS = frozenset((408, 425, 429))
_FORM = "application/x-www-form-urlencoded"
_AUTH = "a map with username and password, or with token"
_REQUEST = ("command", "method", "contentType", "headers", "body", "auth", "timeout", "expectedStatus")
_OF_STEP = ("headers", "auth", "timeout")  # what a request of `plan` has in common with that of its step


def _check_plan(value: Any) -> None:
    """Raise ValueError for what isn't a request."""
    names = ", ".join(_REQUEST)
    if not isinstance(value, Mapping) or not isinstance(value.get("command"), str):
        raise ValueError(  # noqa: TRY004 - what the compiler reports with its place
            f"Expected a map with command, the URL, and optionally {names.removeprefix('command, ')}."
        )
    if other := [str(name) for name in value if name not in _REQUEST]:
        raise ValueError(f"A request has no {', '.join(other)}; it has {names}.")


class RestCall(ActionDefaults):
    """Sends one request. An unexpected status fails the step."""

    name = "restcall"
    parameters: Mapping[str, ActionParameter] = {
        "command": ActionParameter("The URL.", type="string", required=True),
        "method": ActionParameter("The HTTP method. Default: GET.", type="string", needs_value=True),
        "contentType": ActionParameter("The media type of the body.", type="string"),
        "headers": ActionParameter("Headers by name.", type="map<string,string>"),
        "body": ActionParameter(
            "A string is sent unchanged; a map or list as JSON, or as a form if contentType is.", numbers="written"
        ),
        "auth": ActionParameter("username and password (Basic), or token (Bearer).", type="map<string,string>"),
        "timeout": ActionParameter(
            'The maximum duration, in seconds or as a string such as "2 minutes".', check=parse_duration_s
        ),
        "expectedStatus": ActionParameter("The status that means success, or a list of them. Default: 200 to 299."),
        PLAN: ActionParameter(
            "A request that only reads: a map of these parameters. A plan sends it and shows the body of the response."
            " Default for headers, auth and timeout: those of the step.",
            needs_value=True,
            numbers="written",
            check=_check_plan,
        ),
    }
    outputs: Mapping[str, str] = {
        "content": "The body of the response: a value if it is JSON, otherwise a string.",
        "status": "The status code.",
        "headers": "The headers of the response by lower-case name.",
    }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        if call.approved is not None:
            answers = await _answers(call) if has_plan(call) else {}
            read_answers(call.approved).require(call, answers)
        return await _send(call, call.parameters, keys={"idempotency-key": call.context.idempotency_key})

    def may_change(self, parameters: Mapping[str, Any]) -> str:
        """Return why the request may do more than read (RFC 9110, 9.2.1)."""
        method = str(parameters.get("method") or "GET").strip().upper()
        if method not in _SAFE_METHODS:
            return f"the method {method[:20]} may change something"
        if parameters.get("body") is not None:
            return "a request with a body may change something"
        headers = parameters.get("headers")
        for name in headers if isinstance(headers, Mapping) else ():
            if str(name).strip().lower().replace("_", "-") in _OTHER_METHODS:
                return f"the header {str(name)[:40]} may change the method"
        return ""

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return what the request of the parameter `plan` answers."""
        return plan_of_answers(call, await _answers(call)) if has_plan(call) else no_plan(call)


async def _answers(call: ActionCall) -> dict[str, Any]:
    try:
        _check_plan(call.parameters[PLAN])
    except ValueError as error:
        raise wrong_parameter(PLAN, str(error).removeprefix("Expected ").rstrip(".")) from None
    given = {name: call.parameters[name] for name in _OF_STEP if name in call.parameters} | call.parameters[PLAN]
    outputs = await _send(call, given, keys={})
    content = outputs["content"]
    where = str(given["command"])
    bounded_answer(where, content if isinstance(content, str) else json_text(content, PLAN), call.context.redact)
    return {where: content}


async def _send(call: ActionCall, parameters: Mapping[str, Any], keys: Mapping[str, str]) -> Mapping[str, Any]:
    """Send the request of the parameters and return the outputs.

    `keys` are headers of methods that change something.
    """
    url = required_text(parameters, "command", "a URL that starts with http:// or https://")
    method = (optional_text(parameters, "method", "an HTTP method") or "GET").strip().upper()
    timeout_s = duration_s(parameters, "timeout", limits.EGRESS_TIMEOUT_S, longest_s=limits.EGRESS_TIMEOUT_LONGEST_S)
    headers = _headers(parameters)
    body = _body(parameters, headers)
    expected = _expected_statuses(parameters)
    if method not in _SAFE_METHODS:
        headers = {**keys, **headers}
    headers = {**trace_headers(), **headers}
    begin_s = call.context.clock.monotonic_s()
    try:
        response = await call.context.egress.request(method, url, headers=headers, body=body, timeout_s=timeout_s)
    except EgressFailed as error:
        raise ActionFailed(*error.messages, retryable=error.retryable) from error
    took_ms = round((call.context.clock.monotonic_s() - begin_s) * 1000)
    size = len(response.body)
    call.context.log("info", f"{method} {response.url}: {response.status}, {size} bytes, {took_ms} ms.")
    return await _outputs(call, method, response, expected)


async def _outputs(
    call: ActionCall, method: str, response: EgressResponse, expected: frozenset[int]
) -> Mapping[str, Any]:
    """Return the outputs for a response. Raises ActionFailed for an unexpected status."""
    media_type, charset = _media_type(response.headers.get("content-type", ""))
    text = decode_output(response.body, charset)
    succeeded = response.status in expected if expected else 200 <= response.status <= 299
    if not succeeded:
        status_line = f"{response.status} {responses.get(response.status, '')}".strip()
        start = " ".join(call.context.redact(text)[:_SHOWN_BODY_CHARS].split())  # redacted before the cut
        raise ActionFailed(
            f"{method} {response.url} returned {status_line}" + (f": {start}" if start else "."),
            retryable=not 300 <= response.status <= 499 or response.status in _RETRYABLE_CLIENT_ERRORS,
        )
    content: Any = text
    if text.strip() and (media_type == "application/json" or media_type.endswith("+json")):
        try:
            # A long text is parsed in a thread, because it would block the event loop.
            is_long = len(text) > _LONG_JSON_CHARS
            content = await asyncio.to_thread(parse_json_output, text) if is_long else parse_json_output(text)
        except ValueError as error:
            call.context.log("warning", f"Invalid JSON in the response: {error}. The output 'content' is its text.")
    headers = {name: decode_output(value.encode("utf-8", "replace")) for name, value in response.headers.items()}
    return {"content": content, "status": response.status, "headers": headers}


def _headers(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of the request by lower-case name; `auth` and `contentType` override `headers`."""
    given = optional_text_mapping(parameters, "headers", "a map from header names to strings")
    headers = {name.strip().lower(): value for name, value in given.items()}
    content_type = text_or_default(parameters, "contentType", "a media type such as application/json")
    if content_type:
        headers["content-type"] = content_type
    auth = optional_mapping(parameters, "auth", _AUTH)
    if auth:
        headers["authorization"] = _authorization(auth)
    return headers


def _authorization(auth: Mapping[str, Any]) -> str:
    token = text_of(auth.get("token"))
    if token:
        return f"Bearer {token}"
    username = text_of(auth.get("username", auth.get("user")))
    password = text_of(auth.get("password"))
    if username is None or password is None or ":" in username:
        raise wrong_parameter("auth", _AUTH)
    return basic_authorization(username, password)


def _body(parameters: Mapping[str, Any], headers: dict[str, str]) -> bytes:
    """Return the bytes of `body`, and set the content type if it is missing."""
    body = parameters.get("body")
    if body is None:
        return b""
    media_type, _charset = _media_type(headers.get("content-type", ""))
    if isinstance(body, str):
        headers.setdefault("content-type", "text/plain; charset=utf-8")
        return body.encode("utf-8", "replace")
    if media_type == _FORM:
        return _form(body)
    if media_type in ("", "application/json") or media_type.endswith("+json"):
        headers.setdefault("content-type", "application/json")
        return json_text(settled(body), "body").encode()
    raise wrong_parameter("body", f"a string, because contentType is {media_type}")


def _form(body: Any) -> bytes:
    if not isinstance(body, Mapping):
        raise wrong_parameter("body", f"a string or a map of fields, because contentType is {_FORM}")
    fields: list[tuple[str, str]] = []
    for name, value in body.items():
        for element in value if isinstance(value, list | tuple) else (value,):
            text = "" if element is None else text_of(element)
            if text is None:
                raise wrong_parameter(f"body.{name}", f"a string or a list of strings, because contentType is {_FORM}")
            fields.append((str(name), text))
    return urlencode(fields, errors="replace").encode("ascii")


def _expected_statuses(parameters: Mapping[str, Any]) -> frozenset[int]:
    value = parameters.get("expectedStatus")
    if value is None:
        return frozenset()
    codes = value if isinstance(value, list | tuple) else [value]
    if not codes:
        raise wrong_parameter("expectedStatus", "a status, or a list of them which isn't empty")
    return frozenset(whole_number(code, "expectedStatus", minimum=100, maximum=599) for code in codes)


def _media_type(content_type: str) -> tuple[str, str]:
    """Split `text/html; charset=latin-1` into the media type and the charset. Default: `utf-8`."""
    message = Message()
    message["content-type"] = content_type.replace("\r", " ").replace("\n", " ")
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type, str(message.get_content_charset() or "utf-8")
