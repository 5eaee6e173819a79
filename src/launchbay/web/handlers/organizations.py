"""Organizations (reference §4)."""

from launchbay.usecases import organizations
from launchbay.web.answers import Answer, Empty, Json
from launchbay.web.call import Call
from launchbay.web.encode import Paging
from launchbay.web.endpoint import Endpoint, JsonBody, Returns
from launchbay.web.handlers.lists import listed
from launchbay.web.handlers.shapes import Created, NameBody, Named

_TAGS = ("Organizations",)
_ID = "5f" * 12


async def list_organizations(call: Call[None, Paging]) -> Answer:
    """List the caller's organizations."""
    rows = await organizations.list_organizations(call.services.desk, call.actor)
    return listed(call, [Named(row.id, row.name) for row in rows])


async def read_organization(call: Call[None, None]) -> Answer:
    """Read one organization."""
    found = await organizations.read_organization(call.services.desk, call.actor, call.path["orgId"])
    return Json(Named(found.id, found.name))


async def create_organization(call: Call[NameBody, None]) -> Answer:
    """Create an organization."""
    return Json(Created(await organizations.create_organization(call.services.desk, call.actor, call.body.name)))


async def rename_organization(call: Call[NameBody, None]) -> Answer:
    """Rename an organization."""
    await organizations.rename_organization(call.services.desk, call.actor, call.path["orgId"], call.body.name)
    return Empty()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations",
        operation_id="list_organizations",
        handler=list_organizations,
        summary="Lists the organizations that the caller belongs to.",
        tags=_TAGS,
        permission="None: everybody sees their own organizations.",
        query=Paging,
        returns=Returns(list[Named], "The organizations, by name.", [{"id": _ID, "name": "Default"}]),
    ),
    Endpoint(
        method="POST",
        path="/api/1/organizations",
        operation_id="create_organization",
        handler=create_organization,
        summary="Creates an organization with all that comes with one; the caller becomes its administrator.",
        tags=_TAGS,
        permission="ManageUsers for all users of some organization",
        body=JsonBody(NameBody, example={"name": "Research"}),
        returns=Returns(Created, "The id of the new organization.", {"id": _ID}),
        statuses=(403,),
        addition=True,
        idempotency_key=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}",
        operation_id="read_organization",
        handler=read_organization,
        summary="Reads an organization.",
        tags=_TAGS,
        permission="None: for those who belong to it.",
        returns=Returns(Named, "The organization.", {"id": _ID, "name": "Default"}),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/organizations/{orgId}",
        operation_id="rename_organization",
        handler=rename_organization,
        summary="Renames an organization.",
        tags=_TAGS,
        permission="ManageUsers for all users",
        body=JsonBody(NameBody, example={"name": "Research"}),
        statuses=(403,),
        addition=True,
    ),
)
