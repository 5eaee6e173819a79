"""Requests with an Idempotency-Key (api-decisions, "Wire" 8)."""

from typing import Any

import msgspec

from launchbay.usecases.idempotency import Idempotency
from launchbay.web import encode
from launchbay.web.answers import JSON, EventStream, JsonList, RawJson
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint

HEADER = "idempotency-key"
_REPEATED = (("Idempotency-Replayed", "true"),)


async def answer_once(idempotency: Idempotency, endpoint: Endpoint, call: Call[Any, Any]) -> RawJson:
    """Return the handler's answer, or the one that the same request under the same key got before."""

    async def work() -> bytes:
        answer = await endpoint.handler(call)
        assert not isinstance(answer, JsonList | EventStream), "a stream cannot be kept"
        media_type, data = encode.whole(answer)
        assert media_type == JSON, f"{endpoint.operation_id} answers {media_type}"
        assert not answer.headers, f"{endpoint.operation_id} answers headers, which are not kept"
        return data

    # The body as it was understood: other white space, or another order of names, is still the same request.
    body = msgspec.json.encode(call.body, order="sorted")
    request = b"\0".join([endpoint.method.encode(), call.target.encode(), body])
    outcome = await idempotency.once(call.actor, call.headers[HEADER], request, work)
    return RawJson(outcome.answer, _REPEATED if outcome.is_repeated else ())
