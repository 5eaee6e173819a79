"""The OpenAPI 3.1 document, from the endpoint table and the msgspec types: nothing is said twice."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, get_args, get_origin

import msgspec

from launchbay import __version__
from launchbay.web.html import page
from launchbay.web.problems import ErrorBody
from launchbay.web.requests import JSON, YAML, JsonBody, Request, YamlBody
from launchbay.web.responses import EVENTS, HTML, HTMLResponse, RawJSONResponse, Response
from launchbay.web.routing import Endpoint, Returns, is_id_parameter

# The API browser at `/docs`: the OpenAPI document as a page, without scripts and without anything from elsewhere.
#
# Why it is not one of the script-driven browsers is in docs/decisions/0031-api-browser-without-scripts.md.


def api_page(described: dict[str, Any]) -> HTMLResponse:
    """Return the page for an OpenAPI document."""
    families: dict[str, list[dict[str, Any]]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            call = {
                "method": method.upper(),
                "path": path,
                "operation": operation,
                "curl": _curl(method.upper(), path, operation),
            }
            families.setdefault(operation["tags"][0], []).append(call)
    return page("api.html", described=described, families=families)


def _curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return a command line that makes the call, with the example of its body."""
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


# Links of the OpenAPI document: which operations take the id that an answer holds.
#
# They follow from the paths of the table: what `POST …/applications` makes is addressed by
# `/api/1/applications/{appId}`. Tools that try calls in sequence, and people who read the document, go along them.

Schema = dict[str, Any]
# A schedule is named where the path otherwise has a workflow.
_TO_SCHEDULE = {"reschedule_workflow": {"id": "$request.path.id", "workflow": "$response.body#/id"}}
_ROOT = "/api/1"
# Answers that hold the id of something else than the last word of their path says.
_NOUNS = {
    "launch_application": "instances",
    "run_workflow": "instances",
    "clone_environment": "environments",
}


def links(endpoint: Endpoint, endpoints: Sequence[Endpoint]) -> Schema:
    """Return the links of a row's successful answer, by the operation that they lead to; empty without an id in it."""
    pointer = _pointer(endpoint)
    if pointer is None:
        return {}
    special = _TO_SCHEDULE if endpoint.operation_id == "schedule_workflow" else {}
    found = {}
    for target in endpoints:
        parameters = special.get(target.operation_id) or _openapi_links_parameters(
            endpoint, target, f"$response.body#{pointer}"
        )
        if parameters is not None:
            found[target.operation_id] = {"operationId": target.operation_id, "parameters": parameters}
    return found


def _pointer(endpoint: Endpoint) -> str | None:
    """Return where the id stands in an answer: that of the object, or of the first item of a list."""
    kind, pointer = endpoint.returns.type, "/id"
    if get_origin(kind) is list:
        kind, pointer = get_args(kind)[0], "/0/id"
    described = None if kind is None else msgspec.inspect.type_info(kind)
    if not isinstance(described, msgspec.inspect.StructType | msgspec.inspect.TypedDictType):
        return None
    return pointer if "id" in (field.encode_name for field in described.fields) else None


def _openapi_links_parameters(source: Endpoint, target: Endpoint, value: str) -> Schema | None:
    """Return the path parameters of the target that an answer of the source knows; None where that is not enough."""
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
    "description": "Field name → messages; what belongs to no field stands under `errors`.",
    "additionalProperties": {"type": "array", "items": {"type": "string"}},
}
# Without a type: it would be that of the value that the document stands for, not of its text.
_YAML_DOCUMENT: Schema = {"description": "A YAML document."}
_EMPTY: Schema = {"type": "object", "additionalProperties": False, "example": {}}
_REFUSALS: dict[int, tuple[str, str, str]] = {
    # status: (when, code of the example, sentence of the example)
    400: (
        "The content type is wrong, the body cannot be read, or its meaning is wrong.",
        "MalformedBody",
        "The body is not valid JSON: Expecting value (line 1, column 1).",
    ),
    401: ("The credentials are missing or not valid.", "NotAuthenticated", "Send an e-mail address and a password."),
    403: ("The caller lacks the permission.", "NotAllowed", "You need the permission CreateInstance for this."),
    404: ("The addressed object does not exist.", "NotFound", "There is no application with this id."),
    409: (
        "The object is busy with a job, or was changed meanwhile.",
        "Conflict",
        "Another workflow is running; wait for its end.",
    ),
    413: ("The body is too large.", "TooLarge", "The body is larger than 1024 KiB; send less at once."),
    429: ("Too many requests.", "TooManyRequests", "Too many attempts; try again in 30 seconds."),
    500: ("Something went wrong inside; the request id finds it in the log.", "InternalError", "Something went wrong."),
    503: ("The service cannot answer now.", "Unavailable", "The database cannot be reached; try again in 2 seconds."),
}
_HEADERS_OF_STATUS: dict[int, dict[str, Schema]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "example": 'Basic realm="Launchbay"'}},
    429: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}},
    503: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}},
}
_REQUEST_ID: Schema = {"X-Request-Id": {"schema": {"type": "string"}, "description": "Names this request in the log."}}


def document(endpoints: Sequence[Endpoint]) -> Schema:
    """Return the OpenAPI document of the rows. Every type of a row must be one that msgspec can describe."""
    schemas = _Schemas(endpoints)
    paths: dict[str, Schema] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schemas)
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
                "basic": {"type": "http", "scheme": "basic", "description": "E-mail address and password."},
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
    }


class _Schemas:
    """The JSON Schema of every type in the table, the structs among them as components."""

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
        operation["description"] = f"Needs: {endpoint.permission}"
    if endpoint.public:
        operation["security"] = []
    if endpoint.extension:
        operation["x-addition"] = True
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
                "description": "The same key from the same user within 24 h gives the first answer again.",
                # Visible ASCII characters, with spaces between them only.
                "schema": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 255,
                    "pattern": "^[!-~]([ -~]*[!-~])?$",
                },
            }
        )
    return parameters


def _request_body(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    body = endpoint.body
    assert body is not None, "asked only for rows with a body"
    if isinstance(body, YamlBody):
        content: Schema = {"schema": dict(_YAML_DOCUMENT)}
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
            "example": {"name": ["The name is empty; give one."]} if status == 400 else {"errors": [sentence]},
        }
    else:
        content = {
            "schema": schemas.of(ErrorBody),
            "example": {"errors": [sentence], "code": code, "requestId": "6565a1f0c0ffee1234567890"},
        }
    headers = {**_REQUEST_ID, **_HEADERS_OF_STATUS.get(status, {})}
    contents = {JSON: content}
    if endpoint.returns.media_type == HTML:
        contents[HTML] = {"schema": {"type": "string"}}  # what the page itself refuses, it shows
    return {"description": when, "headers": headers, "content": contents}


def _success(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    returns = endpoint.returns
    if returns.media_type == YAML:
        content: Schema = {"schema": dict(_YAML_DOCUMENT)}
    elif returns.media_type == EVENTS:
        # Without a type as well: tools compare it with each event, not with the text of the stream.
        content = {"schema": {"description": "Server-sent events; each one's data is JSON."}}
    else:
        content = {"schema": _EMPTY if returns.type is None else schemas.of(returns.type)}
    if returns.example is not None:
        content["example"] = returns.example
    return {"description": returns.description, "headers": _REQUEST_ID, "content": {returns.media_type: content}}


def description_rows(described: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the rows that describe the others and themselves."""

    @cache
    def described_now() -> dict[str, Any]:
        return document((*described, *rows))

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(described_now())

    @cache
    def shown() -> HTMLResponse:
        return api_page(described_now())

    async def openapi(_: Request[None, None]) -> Response:
        return RawJSONResponse(encoded())

    async def browse(_: Request[None, None]) -> Response:
        return shown()

    rows = (
        Endpoint(
            method="GET",
            path="/api/1/openapi.json",
            operation_id="openapi",
            handler=openapi,
            summary="Describes this API: an OpenAPI 3.1 document.",
            tags=("Description",),
            public=True,
            returns=Returns("The document.", type=dict[str, Any]),
            extension=True,
        ),
        Endpoint(
            method="GET",
            path="/docs",
            operation_id="browse_api",
            handler=browse,
            summary="Shows this API as a page: calls by family, parameters, answers, and command lines to try.",
            tags=("Description",),
            public=True,
            returns=Returns("The page.", media_type=HTML, type=str),
            extension=True,
        ),
    )
    return rows
