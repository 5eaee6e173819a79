"""Organizations (reference §4)."""

from launchbay.usecases import organizations
from launchbay.web.answers import Answer, Json
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns
from launchbay.web.handlers.shapes import Named


async def list_organizations(call: Call[None, None]) -> Answer:
    """List the caller's organizations."""
    rows = await organizations.list_organizations(call.services.desk, call.actor)
    return Json([Named(row.id, row.name) for row in rows])


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations",
        operation_id="list_organizations",
        handler=list_organizations,
        summary="Lists the organizations that the caller belongs to.",
        tags=("Organizations",),
        permission="None: everybody sees their own organizations.",
        returns=Returns(list[Named], "The organizations, by name.", [{"id": "5f" * 12, "name": "Default"}]),
    ),
)
