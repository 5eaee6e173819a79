"""Instances that environments offer as services (api-decisions, "Beyond the reference")."""

import msgspec

from launchbay.usecases import environments
from launchbay.web.answers import Answer, Empty, Json
from launchbay.web.call import Call
from launchbay.web.encode import Paging
from launchbay.web.endpoint import Endpoint, JsonBody, Returns
from launchbay.web.handlers.lists import listed

_EXAMPLE = {"environments": ["5f" * 12]}


class OfferedIn(msgspec.Struct):
    """The ids of the environments that offer an instance as a service."""

    environments: list[str]


class OfferedInstance(msgspec.Struct):
    """An instance that an environment offers as a service, with the id of its application."""

    id: str
    name: str
    application: str
    status: str


async def list_offers(call: Call[None, Paging]) -> Answer:
    """List what an environment offers."""
    found = await environments.instances_offered(call.services.desk, call.actor, call.path["id"])
    return listed(call, [OfferedInstance(row.id, row.name, row.application_id, row.status) for row in found])


async def read_offers(call: Call[None, None]) -> Answer:
    """Read where an instance is offered."""
    return Json(OfferedIn(await environments.read_offers(call.services.desk, call.actor, call.path["id"])))


async def replace_offers(call: Call[OfferedIn, None]) -> Answer:
    """Choose where an instance is offered."""
    await environments.replace_offers(call.services.desk, call.actor, call.path["id"], call.body.environments)
    return Empty()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/environments/{id}/offers",
        operation_id="list_environment_offers",
        handler=list_offers,
        summary="Lists the instances that the environment offers as services.",
        tags=("Environments",),
        permission="Read",
        query=Paging,
        returns=Returns(list[OfferedInstance], "The instances, oldest first."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/instances/{id}/environments",
        operation_id="read_instance_environments",
        handler=read_offers,
        summary="Reads which environments offer the instance as a service.",
        tags=("Instances",),
        permission="Read",
        returns=Returns(OfferedIn, "The environments, by id.", _EXAMPLE),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/instances/{id}/environments",
        operation_id="replace_instance_environments",
        handler=replace_offers,
        summary="Offers the instance as a service in exactly these environments; an offered instance does not expire.",
        tags=("Instances",),
        permission="EditInstance; EditEnvironment on the instance and each environment that comes or goes",
        body=JsonBody(OfferedIn, example=_EXAMPLE),
        statuses=(403, 409),
        addition=True,
    ),
)
