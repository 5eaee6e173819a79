"""Application instances: lists, detail, user data, deletion (reference §4)."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec

from launchbay.store.instances import InstanceSummary
from launchbay.usecases import instances
from launchbay.web.answers import Answer, Empty, Json, JsonList
from launchbay.web.call import Call
from launchbay.web.encode import Paging, page, rows
from launchbay.web.endpoint import Endpoint, JsonBody, Returns
from launchbay.web.instance_document import InstanceDocument, instance_document

_TAGS = ("Instances",)
_ID = "5f" * 12


class InstanceQuery(Paging, frozen=True):
    """Paging and filters of instance lists (api-decisions, "Wire" 9)."""

    status: Annotated[str | None, msgspec.Meta(description="Only instances in this status.")] = None
    name: Annotated[str | None, msgspec.Meta(description="Only instances of exactly this name.")] = None


class ForceQuery(msgspec.Struct, frozen=True):
    """The query of a deletion."""

    force: Annotated[
        int, msgspec.Meta(ge=0, le=1, description="1 deletes an active instance too, after destroying it.")
    ] = 0


async def list_environment_instances(call: Call[None, InstanceQuery]) -> Answer:
    """List an environment's instances."""
    return await _list(call, "environments", call.path["envId"])


async def list_application_instances(call: Call[None, InstanceQuery]) -> Answer:
    """List an application's instances."""
    return await _list(call, "applications", call.path["appId"])


async def list_revision_instances(call: Call[None, InstanceQuery]) -> Answer:
    """List a revision's instances."""
    return await _list(call, "revisions", call.path["revId"])


async def read_instance(call: Call[None, None]) -> Answer:
    """Read one instance."""
    return Json(instance_document(await instances.read_instance(call.services.desk, call.actor, call.path["id"])))


async def put_user_data(call: Call[dict[str, Any], None]) -> Answer:
    """Associate user data."""
    await instances.put_user_data(call.services.desk, call.actor, call.path["id"], call.body)
    return Empty()


async def delete_instance(call: Call[None, ForceQuery]) -> Answer:
    """Delete an instance."""
    await instances.delete_instance(call.services.desk, call.actor, call.path["id"], force=call.query.force == 1)
    return Empty()


async def _list(call: Call[None, InstanceQuery], kind: str, of_id: str) -> Answer:
    query = call.query
    found = instances.instances_of(
        call.services.desk,
        call.actor,
        kind,
        of_id,
        status=query.status,
        name=query.name,
        after=query.after or "",
        limit=None if query.limit is None else query.limit + 1,
    )
    if query.limit is not None:
        shown = [msgspec.to_builtins(row) async for chunk in found for row in chunk]
        return page(call, shown, query.limit)
    return JsonList(_encoded(found))


async def _encoded(chunks: AsyncIterator[list[InstanceSummary]]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield rows(chunk)


def _list_endpoint(path: str, operation_id: str, handler: Any, of: str) -> Endpoint:
    return Endpoint(
        method="GET",
        path=path,
        operation_id=operation_id,
        handler=handler,
        summary=f"Lists the instances of {of}.",
        tags=_TAGS,
        permission="Read",
        query=InstanceQuery,
        returns=Returns(list[InstanceSummary], "The instances, oldest first."),
        statuses=(403,),
    )


ENDPOINTS = (
    _list_endpoint(
        "/api/1/environments/{envId}/instances",
        "list_environment_instances",
        list_environment_instances,
        "an environment",
    ),
    _list_endpoint(
        "/api/1/applications/{appId}/instances",
        "list_application_instances",
        list_application_instances,
        "an application",
    ),
    _list_endpoint(
        "/api/1/revisions/{revId}/instances", "list_revision_instances", list_revision_instances, "a revision"
    ),
    Endpoint(
        method="GET",
        path="/api/1/instances/{id}",
        operation_id="read_instance",
        handler=read_instance,
        summary="Reads an instance with its workflow history.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(InstanceDocument, "The instance."),
        statuses=(403,),
    ),
    Endpoint(
        method="PUT",
        path="/api/1/instances/{id}/userData",
        operation_id="put_user_data",
        handler=put_user_data,
        summary="Associates user data with the instance.",
        tags=_TAGS,
        permission="EditInstance",
        body=JsonBody(dict[str, Any], required=True, example={"ticket": "OPS-17", "tags": ["blue"]}),
        statuses=(403, 413),
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/instances/{id}",
        operation_id="delete_instance",
        handler=delete_instance,
        summary="Deletes a destroyed instance; with force also an active one, which is destroyed first.",
        tags=_TAGS,
        permission="DeleteInstance",
        query=ForceQuery,
        statuses=(403, 409),
    ),
)
