"""The OpenAPI 3.1 document, from the endpoint table and the msgspec types: nothing is said twice."""

from collections.abc import Sequence
from typing import Any

import msgspec

from launchbay import __version__
from launchbay.web.answers import EVENTS, HTML, JSON, YAML
from launchbay.web.endpoint import Endpoint, JsonBody, YamlBody, is_id_parameter
from launchbay.web.openapi_links import links
from launchbay.web.problems import ErrorBody

Schema = dict[str, Any]

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
    if endpoint.addition:
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
