"""Reading answers: values of the types that a call names, and refusals (api-decisions, "Wire" 5)."""

from types import NoneType
from typing import Any, TypeVar

import msgspec

from launchbay.client.call import Call
from launchbay.client.effects import Response
from launchbay.client.errors import ApiError, Refusal, UnreadableAnswer, api_error

T = TypeVar("T")
_SHOWN_CHARS = 200


def value_of(call: Call[T], response: Response) -> T:
    """Return what a successful answer holds. Raises UnreadableAnswer where it is not of the call's type."""
    kind: Any = call.returns
    if kind is NoneType:
        return None  # type: ignore[return-value] # T is None here
    if kind is str:
        return response.content.decode("utf-8", "replace")  # type: ignore[return-value] # T is str here
    try:
        value: T = msgspec.json.decode(response.content, type=kind)
    except msgspec.MsgspecError as error:
        raise unreadable(call, response, error) from error
    return value


def unreadable(call: Call[Any], response: Response, error: Exception) -> UnreadableAnswer:
    """Return the error for an answer that is not of the form that the API describes."""
    shown = response.content[:_SHOWN_CHARS].decode("utf-8", "replace")
    return UnreadableAnswer(
        f"{call.known.method} {call.target()} answered {response.status} with something else than expected: {error}. "
        f"Is this the address of a Launchbay server, of this version? It said: {shown!r}"
    )


def refusal(response: Response) -> ApiError:
    """Return the error for an answer that is not a success; whatever it holds is read as far as it can be."""
    request_id = response.headers.get("x-request-id", "")
    retry_after_s = _seconds(response.headers.get("retry-after"))
    try:
        document = msgspec.json.decode(response.content)
    except msgspec.MsgspecError:
        document = None
    if not isinstance(document, dict):
        return api_error(Refusal(response.status, request_id=request_id, retry_after_s=retry_after_s))
    if "code" not in document:
        return api_error(_of_fields(response.status, document, request_id, retry_after_s))
    return api_error(
        Refusal(
            response.status,
            code=str(document["code"]),
            messages=_sentences(document.get("errors")),
            request_id=str(document.get("requestId", request_id)),
            findings=[each for each in document.get("findings") or () if isinstance(each, dict)],
            retry_after_s=retry_after_s,
        )
    )


def _of_fields(status: int, document: dict[str, Any], request_id: str, retry_after_s: float | None) -> Refusal:
    """Read field name → messages; what belongs to no field stands under `errors`."""
    fields = {name: _sentences(messages) for name, messages in document.items()}
    general = fields.pop("errors", [])
    messages = [*general, *(f"{name}: {message}" for name, found in fields.items() for message in found)]
    return Refusal(status, messages=messages, request_id=request_id, fields=fields, retry_after_s=retry_after_s)


def _sentences(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [] if value is None else [str(value)]


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None
