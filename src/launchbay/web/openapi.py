"""The OpenAPI 3.1 document of the endpoint table, and the page that shows it."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, get_args, get_origin

import msgspec

from launchbay import __version__
from launchbay.errors import NotFound
from launchbay.model.changes import GOVERNED
from launchbay.web.conditions import ITEM_TAGS, Conditions, has_tag
from launchbay.web.path_prefix import path_prefix
from launchbay.web.problems import ErrorBody
from launchbay.web.requests import JSON, NDJSON, YAML, JsonBody, LinesBody, Request, YamlBody
from launchbay.web.responses import EVENTS, HTML, IncludeQuery, RawJSONResponse, Response
from launchbay.web.routing import Endpoint, Returns, Routes, is_id_parameter


def calls_by_tag(endpoints: Sequence[Endpoint]) -> dict[str, list[dict[str, Any]]]:
    """Return operations by tag, each with method, path and a curl command."""
    families: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document(endpoints)["paths"].items():
        for method, operation in methods.items():
            call = {
                "method": method.upper(),
                "path": path,
                "operation": operation,
                "curl": _curl(method.upper(), path, operation),
            }
            families.setdefault(operation["tags"][0], []).append(call)
    return families


def _curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return a curl command for the operation, with the example of its body."""
    words = ["curl"]
    if operation.get("security") != []:
        words += ["-u", "EMAIL:PASSWORD"]
    if method != "GET":
        words += ["-X", method]
    for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
        example = body.get("example")
        text = example if isinstance(example, str) else json.dumps({} if example is None else example)
        quoted = text.replace("'", "'\\''")
        words += ["-H", f"'Content-Type: {media_type}'", "--data-binary", f"'{quoted}'"]
    return " ".join([*words, f'"$LAUNCHBAY{path}"'])


# OpenAPI links name the operations that take the ID in a response. They follow from the paths: what
# `POST …/applications` creates has the path `/api/1/applications/{appId}`.

Schema = dict[str, Any]
# The path parameter `workflow` takes a schedule too.
_TO_SCHEDULE = {"reschedule_workflow": {"id": "$request.path.id", "workflow": "$response.body#/id"}}
_ROOT = "/api/1"
# Responses with the ID of a different object than the last word of the path.
_NOUNS = {"launch_application": "instances", "run_workflow": "instances", "clone_environment": "environments"}


def links(endpoint: Endpoint, endpoints: Sequence[Endpoint]) -> Schema:
    """Return the links of a successful response by operation; empty if the response has no ID."""
    pointer = _pointer(endpoint)
    if pointer is None:
        return {}
    special = _TO_SCHEDULE if endpoint.operation_id == "schedule_workflow" else {}
    found = {}
    for target in endpoints:
        parameters = special.get(target.operation_id) or _link_parameters(endpoint, target, f"$response.body#{pointer}")
        if parameters is not None:
            found[target.operation_id] = {"operationId": target.operation_id, "parameters": parameters}
    return found


def _pointer(endpoint: Endpoint) -> str | None:
    """Return the JSON pointer of the ID in a response: of the object, or of the first item of a list."""
    kind, pointer = endpoint.returns.type, "/id"
    if get_origin(kind) is list:
        kind, pointer = get_args(kind)[0], "/0/id"
    described = None if kind is None else msgspec.inspect.type_info(kind)
    if not isinstance(described, msgspec.inspect.StructType | msgspec.inspect.TypedDictType):
        return None
    return pointer if "id" in (field.encode_name for field in described.fields) else None


def _link_parameters(source: Endpoint, target: Endpoint, value: str) -> Schema | None:
    """Return the target's path parameters, if a response of the source provides all of them."""
    noun = _NOUNS.get(source.operation_id) or source.path.rpartition("/")[2]
    for prefix in (_ROOT, source.path.rpartition("/")[0]):
        start = f"{prefix}/{noun}/{{"
        if target.path.startswith(start):
            taken = target.path[len(start) :].partition("}")[0]
            known = {name: f"$request.path.{name}" for name in _names(prefix)} | {taken: value}
            wanted = {name for name in target.parameters() if is_id_parameter(name)}
            return known if wanted == set(known) else None
    return None


def _names(path: str) -> Iterable[str]:
    return (segment[1:-1] for segment in path.split("/") if segment.startswith("{"))


_ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{24}$", "example": "6565a1f0c0ffee1234567890"}
_REFERENCE = "#/components/schemas/{name}"
_FIELD_ERRORS: Schema = {
    "type": "object",
    "description": "Messages by field name. Messages without a field are in `errors`.",
    "additionalProperties": {"type": "array", "items": {"type": "string"}},
}
# Without a type, which would describe the parsed document and not its text.
_YAML_DOCUMENT: Schema = {"description": "A YAML document."}
_EMPTY: Schema = {"type": "object", "additionalProperties": False, "example": {}}
_REFUSALS: dict[int, tuple[str, str, str]] = {
    # status: (when, code of the example, message of the example)
    400: (
        "The content type, the syntax or a value of the request is invalid.",
        "MalformedBody",
        "The body is not valid JSON: Expecting value (line 1, column 1).",
    ),
    401: ("The credentials are missing or invalid.", "NotAuthenticated", "Send an email address and a password."),
    403: ("The caller lacks the permission.", "NotAllowed", "You need the permission CreateInstance for this."),
    404: ("The addressed object does not exist.", "NotFound", "Application not found."),
    409: (
        "The object is busy with a job, or was changed by another request.",
        "Conflict",
        "Another workflow is running. Retry when it has ended.",
    ),
    412: (
        "The object has changed since the caller read it. `ETag` is its present tag.",
        "PreconditionFailed",
        "The object has changed since you read it.",
    ),
    413: ("The body is too large.", "TooLarge", "The body is larger than 1024 KiB."),
    429: ("Too many requests.", "TooManyRequests", "Too many attempts. Retry in 30 seconds."),
    500: ("Internal error. Search the log for the request ID.", "InternalError", "Internal error."),
    503: ("The server can't process requests now.", "Unavailable", "The database is unreachable. Retry in 2 seconds."),
}
_HEADERS_OF_STATUS: dict[int, dict[str, Schema]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "example": 'Basic realm="Launchbay"'}},
    429: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}},
    503: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}},
}
# Without types for lines and events: tools compare them with each line or event, not with the whole text.
_OTHER_FORMS: dict[str, Schema] = {
    NDJSON: {"schema": {"description": "A line of JSON for each item."}},
    EVENTS: {"schema": {"description": "Server-sent events; each one's data is JSON."}},
    "text/plain; charset=utf-8": {"schema": {"type": "string"}},
}
_JOB: Schema = {
    "Location": {"schema": {"type": "string"}, "description": "The path of the job that the request began or queued."},
    "Launchbay-Job": {"schema": _ID, "description": "The ID of that job."},
}
_WARNINGS: Schema = {
    "Launchbay-Warnings": {
        "schema": {"type": "string"},
        "description": "What was ignored, or is odd: a JSON array of strings, in ASCII, up to 2 KiB. Missing without "
        "warnings.",
    }
}
_LIST: Schema = {
    "Launchbay-List": {
        "schema": {"type": "string", "enum": ["complete", "page"]},
        "description": "Whether this answer has all items that fit, or is a page of them.",
    }
}
_LINK: Schema = {
    "Link": {"schema": {"type": "string"}, "description": 'The next page: `<…>; rel="next"`. Missing on the last one.'}
}
_REQUEST_ID: Schema = {
    "X-Request-Id": {"schema": {"type": "string"}, "description": "The ID of this request in the log."}
}


def document(endpoints: Sequence[Endpoint]) -> Schema:
    """Return the OpenAPI document of the endpoints. msgspec must be able to describe every type."""
    schemas = _Schemas(endpoints)
    conditions = Conditions(endpoints)
    paths: dict[str, Schema] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schemas)
        _add_conditions(operation, endpoint, conditions, schemas)
        if leading_on := links(endpoint, endpoints):
            operation["responses"]["200"]["links"] = leading_on
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Launchbay",
            "version": __version__,
            "description": "Describe an application once, launch it with one call.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(tag for endpoint in endpoints for tag in endpoint.tags)],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas.components, "FieldErrors": _FIELD_ERRORS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "Email address and password."},
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }


class _Schemas:
    """The JSON Schemas of all types in the table; structs are components."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        types: list[Any] = [ErrorBody]
        for endpoint in endpoints:
            types.extend(kind for kind in endpoint.types() if kind not in types)
        described, self.components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
        self._described = list(zip(types, described, strict=True))

    def of(self, kind: Any) -> Schema:
        """Return the schema of a type of the table."""
        return next(schema for known, schema in self._described if known == kind)

    def fields_of(self, struct: type[msgspec.Struct]) -> Schema:
        """Return name → schema of the fields of a struct."""
        name = self.of(struct)["$ref"].rpartition("/")[2]
        properties: Schema = self.components[name]["properties"]
        return properties


def _operation(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    operation: Schema = {
        "operationId": endpoint.operation_id,
        "summary": endpoint.summary,
        "tags": list(endpoint.tags),
        "responses": {str(status): _response(endpoint, status, schemas) for status in endpoint.all_statuses()},
    }
    if endpoint.permission:
        operation["description"] = f"Permission: {endpoint.permission}"
    if endpoint.public:
        operation["security"] = []
    if endpoint.extension:
        operation["x-addition"] = True
    operation["x-unknown-parameters"] = "refused" if endpoint.refuses_unknown_parameters else "ignored with a warning"
    parameters = _parameters(endpoint, schemas)
    if parameters:
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = _request_body(endpoint, schemas)
    return operation


def _parameters(endpoint: Endpoint, schemas: _Schemas) -> list[Schema]:
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _ID if is_id_parameter(name) else {"type": "string", "minLength": 1},
        }
        for name in endpoint.parameters()
    ]
    if endpoint.query is not None:
        required = {field.encode_name for field in msgspec.structs.fields(endpoint.query) if field.required}
        parameters.extend(
            {"name": name, "in": "query", "required": name in required, "schema": schema}
            for name, schema in schemas.fields_of(endpoint.query).items()
        )
    if endpoint.idempotency_key:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Makes retries safe: a repeated key of a user returns the first response for 24 h.",
                # Visible ASCII characters, with spaces only between them.
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
            }
        )
    if endpoint.operation_id in GOVERNED:
        about = "Why the caller changes what is frozen, percent-encoded. It needs the permission OverrideFreeze."
        parameters.append(_header("Launchbay-Override-Freeze", about))
    return parameters


_TAGS = '^(\\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$'
_ETAG: dict[str, Schema] = {
    "ETag": {
        "schema": {"type": "string", "pattern": '^"[!#-~]*"$'},
        "description": "Another tag if anything in the answer is different. Missing on long lists without `limit`.",
    }
}


def _add_conditions(operation: Schema, endpoint: Endpoint, conditions: Conditions, schemas: _Schemas) -> None:
    """Add what `web/conditions.py` does for the endpoint."""
    responses = operation["responses"]
    parameters: list[Schema] = []
    if has_tag(endpoint):
        parameters.append(
            _header("If-None-Match", "ETag of an answer that you have: 304 if it is still the same.", _TAGS)
        )
        if get_origin(endpoint.returns.type) is list:
            parameters.append(_header("Prefer", f"`{ITEM_TAGS}` adds the member `etag` to each item."))
        success = responses["200"]
        success["headers"] = {**success["headers"], **_ETAG}
        responses["304"] = {"description": "The answer is the one with this tag.", "headers": {**_REQUEST_ID, **_ETAG}}
    shown_by = conditions.shown_by(endpoint)
    if shown_by is not None:
        source = f"of `{shown_by.operation_id}`"
        if conditions.has_strong_items(shown_by):
            source += " for this item, with `Prefer: etags`"
        parameters.append(_header("If-Match", f"ETag {source}: 412 if it has changed since.", _TAGS))
        responses.setdefault("400", _response(endpoint, 400, schemas))
        refused = _response(endpoint, 412, schemas)
        responses["412"] = {**refused, "headers": {**refused["headers"], **_ETAG}}
    if parameters:
        operation["parameters"] = [*operation.get("parameters", ()), *parameters]
        operation["responses"] = dict(sorted(responses.items()))


def _header(name: str, description: str, pattern: str = "") -> Schema:
    schema = {"type": "string", "pattern": pattern} if pattern else {"type": "string"}
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def _request_body(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    body = endpoint.body
    assert body is not None, "called only for endpoints with a body"
    if isinstance(body, YamlBody):
        content: Schema = {"schema": dict(_YAML_DOCUMENT)}
        required = True
    elif isinstance(body, LinesBody):
        content = dict(_OTHER_FORMS[NDJSON])
        required = True
    else:
        content = {"schema": schemas.of(body.type)}
        required = not (isinstance(body, JsonBody) and body.may_be_empty())
    if body.example:
        content["example"] = body.example
    return {"required": required, "content": {body.media_type: content}}


def _response(endpoint: Endpoint, status: int, schemas: _Schemas) -> Schema:
    if status == 200:
        return _success(endpoint, schemas)
    when, code, sentence = _REFUSALS[status]
    if endpoint.field_errors:
        content: Schema = {
            "schema": {"$ref": _REFERENCE.format(name="FieldErrors")},
            "example": {"name": ["The name is empty."]} if status == 400 else {"errors": [sentence]},
        }
    else:
        content = {
            "schema": schemas.of(ErrorBody),
            "example": {"errors": [sentence], "code": code, "requestId": "6565a1f0c0ffee1234567890"},
        }
    headers = {**_REQUEST_ID, **_HEADERS_OF_STATUS.get(status, {})}
    contents = {JSON: content}
    if endpoint.returns.media_type == HTML:
        contents[HTML] = {"schema": {"type": "string"}}  # a page shows its own errors
    return {"description": when, "headers": headers, "content": contents}


def _success(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    returns = endpoint.returns
    if returns.media_type == YAML:
        content: Schema = {"schema": dict(_YAML_DOCUMENT)}
    elif returns.media_type == NDJSON:
        content = dict(_OTHER_FORMS[NDJSON])
    elif returns.media_type == EVENTS:
        # Without a type too: tools compare it with each event, not with the text of the stream.
        content = {"schema": {"description": "Server-sent events; each one's data is JSON."}}
    else:
        content = {"schema": _EMPTY if returns.type is None else schemas.of(returns.type)}
    if returns.example is not None:
        content["example"] = returns.example
    can_ask = endpoint.query is not None and issubclass(endpoint.query, IncludeQuery)
    warns = can_ask or isinstance(endpoint.body, JsonBody) or not endpoint.refuses_unknown_parameters
    headers = {**_REQUEST_ID, **(_JOB if endpoint.starts_job else {}), **(_WARNINGS if warns else {})}
    description = returns.description
    if endpoint.is_list:
        names = () if endpoint.query is None else endpoint.query.__struct_encode_fields__
        headers |= _LIST | (_LINK if "limit" in names else {})
        description += f" {_listed(endpoint.page_items, has_pages='limit' in names)}"
    contents = {returns.media_type: content, **{kind: _OTHER_FORMS.get(kind, {}) for kind in returns.also}}
    return {"description": description, "headers": headers, "content": contents}


def _listed(page_items: int | None, *, has_pages: bool) -> str:
    """Return the sentence that says whether a list is complete."""
    if page_items is not None:
        return f"Always in pages: of {page_items:,} without `limit`."
    return "Complete without `limit`." if has_pages else "Always complete."


def description_rows(described: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the endpoints that describe all endpoints, including themselves."""
    routes = Routes("Description", prefix="")

    @cache
    def described_now() -> dict[str, Any]:
        return document((*described, *routes))

    @cache
    def encoded(root: str) -> bytes:
        return msgspec.json.encode({**described_now(), "servers": [{"url": root}]})

    @routes.get(
        "/api/1/openapi.json",
        command="server openapi",
        public=True,
        returns=Returns("The document.", type=dict[str, Any]),
        extension=True,
    )
    async def openapi(request: Request[None, None]) -> Response:
        """Show the OpenAPI 3.1 document of this API."""
        return RawJSONResponse(encoded(path_prefix(request.deps.base_url) or "/"))

    @routes.get(
        "/docs",
        command="page docs",
        public=True,
        returns=Returns("The page.", media_type=HTML, type=str),
        extension=True,
    )
    async def browse_api(_: Request[None, None]) -> Response:
        """Show this API as a page: calls by resource, parameters, responses, and commands to try."""
        # The console answers this address (features/documentation/pages.py); the row describes it.
        raise NotFound("This server has no pages.", "Read /api/1/openapi.json.")

    return tuple(routes)
