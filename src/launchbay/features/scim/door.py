"""`/scim/v2`: SCIM 2.0 (RFC 7643, RFC 7644), behind the checks of the API.

The package that knows its schemas is loaded with the first request: a server without them needs neither its time nor
its memory.
"""

import asyncio
from importlib import import_module
from typing import Any

import msgspec

from launchbay.auth.secret_key import UnsealFailed
from launchbay.errors import LaunchbayError, NotFound, TooManyRequests, Unavailable
from launchbay.web.problems import MethodNotAllowed, log_failure, status_of
from launchbay.web.wire import WireCall, WireReply

MEDIA_TYPE = "application/scim+json"
_ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
_INTERNAL = "Internal error. Retry; if it persists, send the request ID to your administrator."
# Statuses that differ from those of the API, and the words of RFC 7644 §3.12, by code.
_CODES = {
    "Taken": (409, "uniqueness"),
    "LastAdministrator": (409, None),
    "TooMany": (409, None),
    "MalformedBody": (400, "invalidSyntax"),
}


class ScimRefused(LaunchbayError):
    """What the package refuses: `status` and the word of RFC 7644 §3.12."""

    code = "InvalidScim"

    def __init__(self, status: int, scim_type: str | None, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.scim_type = scim_type


class Scim:
    """The protocol, as a server of features has it."""

    name = "scim"
    root = "/scim/v2"

    def __init__(self) -> None:
        self._module: Any = None
        self._loading = asyncio.Lock()

    async def answer(self, call: WireCall) -> WireReply:
        """Answer a request whose caller is known. Raises NotFound without the package."""
        module = await self._loaded()
        reply: WireReply = await module.answer(call)
        return reply

    def refuse(self, error: Exception, request_id: str) -> WireReply:
        """Return an error in the form of RFC 7644 §3.12."""
        status, scim_type = status_and_type(error)
        if not isinstance(error, LaunchbayError) or status == 500:
            log_failure("scim.failed", error, request_id)
            detail = _INTERNAL
        else:
            detail = detail_of(error)
        body = {"schemas": [_ERROR], "status": str(status), "detail": detail}
        if scim_type is not None:
            body["scimType"] = scim_type
        headers = [("Content-Type", MEDIA_TYPE)]
        if status == 401:
            headers.append(("WWW-Authenticate", 'Bearer realm="Launchbay"'))
        if isinstance(error, MethodNotAllowed):
            headers.append(("Allow", ", ".join(error.allowed)))
        if isinstance(error, TooManyRequests | Unavailable):
            headers.append(("Retry-After", str(max(1, error.retry_after_s))))
        return WireReply(status, msgspec.json.encode(body), tuple(headers))

    async def _loaded(self) -> Any:
        async with self._loading:
            if self._module is None:
                try:
                    self._module = await asyncio.to_thread(import_module, "launchbay.features.scim.resources")
                except ImportError as error:
                    raise NotFound(
                        f"This server doesn't speak SCIM: {error}.",
                        "Its administrator can run pip install 'launchbay[scim]'.",
                        code="ScimMissing",
                    ) from error
            return self._module


def detail_of(error: LaunchbayError) -> str:
    """Return the sentences of an error."""
    return " ".join(error.messages) or _INTERNAL


def status_and_type(error: Exception) -> tuple[int, str | None]:
    """Return the status of an error, and its word in RFC 7644 §3.12."""
    if isinstance(error, ScimRefused):
        return error.status, error.scim_type
    if isinstance(error, UnsealFailed):
        return 503, None
    if isinstance(error, LaunchbayError) and error.code in _CODES:
        return _CODES[error.code]
    status = status_of(error)
    return status, "invalidValue" if status == 400 else None
