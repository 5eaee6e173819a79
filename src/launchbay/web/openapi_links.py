"""Links of the OpenAPI document: which operations take the id that an answer holds.

They follow from the paths of the table: what `POST …/applications` makes is addressed by `/api/1/applications/{appId}`.
Tools that try calls in sequence, and people who read the document, go along them.
"""

from collections.abc import Iterable, Sequence
from typing import Any, get_args, get_origin

import msgspec

from launchbay.web.endpoint import Endpoint, is_id_parameter

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
        parameters = special.get(target.operation_id) or _parameters(endpoint, target, f"$response.body#{pointer}")
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


def _parameters(source: Endpoint, target: Endpoint, value: str) -> Schema | None:
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
