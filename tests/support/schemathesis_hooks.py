# mypy: disable-error-code="import-not-found,import-untyped"
"""What schemathesis has to know of this API beyond its description. It loads this module by itself."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import schemathesis

from tests.support.fuzzing import WORDS_FILE, noun_of

# A request that fits the description may be refused for its meaning, never for its form, but for two bounds of all JSON
# that no schema tells: no NUL, no integer beyond 64 bits.
BOUNDS = ("NUL character", "at most 64 bits")
REFUSED_FOR_THE_FORM = {"MalformedBody", "WrongContentType", "WrongField", "InvalidIdempotencyKey"}
NOWHERE = "http://127.0.0.1:9/m.yaml"
# One function reads them for all operations. Their values were a third of all requests.
CONDITIONS = {"If-Match", "If-None-Match"}
TRIED_AT = 5  # operations


def before_load_schema(context: Any, raw_schema: Any) -> None:
    """Let the path parameters have objects that exist as their examples, and few operations have conditions."""
    words = json.loads(Path(os.environ[WORDS_FILE]).read_text("utf-8"))
    seen: Counter[str] = Counter()
    for path, methods in raw_schema["paths"].items():
        for operation in methods.values():
            parameters = operation.get("parameters", [])
            seen.update(each["name"] for each in parameters)
            parameters[:] = [
                each for each in parameters if each["name"] not in CONDITIONS or seen[each["name"]] <= TRIED_AT
            ]
            for parameter in parameters:
                noun = noun_of(path, parameter["name"])
                if parameter["in"] == "path" and noun in words:
                    parameter["schema"] = {**parameter["schema"], "example": words[noun][0]}


def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Keep a failure unless it is none of this API's."""
    kind = type(failure).__name__
    if kind == "RejectedPositiveData":
        return _is_refused_for_the_form(response.json())
    if kind == "AllowHeaderMismatch":
        # A workflow may have any name, so POST is allowed there, as the row of `run_workflow` describes. So may a
        # command of a service.
        has_any_name = case.operation.path.startswith(("/api/1/instances/{id}/", "/api/1/services/{id}/"))
        return not (has_any_name and failure.undocumented_methods == ["POST"] and not failure.missing_methods)
    if kind == "ResponseTimeExceeded":
        # A stream of events lasts as long as its reader does; nothing happening is no slowness.
        return not case.operation.path.endswith("/events")
    # Many wrong passwords from one address are slowed down, which is described for every operation.
    return not (kind == "IgnoredAuth" and "got `429" in failure.message)


def _is_refused_for_the_form(document: dict[str, Any]) -> bool:
    code = document.get("code")  # service update and service command have errors without one
    is_query = code == "BadRequest" and document["errors"][0].startswith("Query")
    if code not in REFUSED_FOR_THE_FORM and not is_query:
        return False
    return not any(bound in sentence for sentence in document["errors"] for bound in BOUNDS)


def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Let no generated URL lead out of this machine."""
    if not isinstance(case.body, dict) or not isinstance(case.body.get("url"), str):
        return
    try:
        host = urlsplit(case.body["url"]).hostname
    except ValueError:
        host = "unreadable"
    if host is not None and host != "127.0.0.1":
        case.body = {**case.body, "url": NOWHERE}


def lines_of(context: Any, value: Any) -> bytes:
    """Return a generated body as a line of JSON, or one line for each item of a list."""
    return b"".join(json.dumps(item).encode() + b"\n" for item in (value if isinstance(value, list) else [value]))


def read_lines(context: Any, response: Any) -> list[Any]:
    """Return the values of an answer that has one in each line."""
    return [json.loads(line) for line in response.content.splitlines()]


schemathesis.serializer("application/x-ndjson")(lines_of)
schemathesis.deserializer("application/x-ndjson")(read_lines)
schemathesis.hook("before_load_schema")(before_load_schema)
schemathesis.hook("filter_failure")(filter_failure)
schemathesis.hook("before_call")(before_call)
