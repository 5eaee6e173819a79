"""Environments: policies, markers, properties, services, the default one (reference §4, Environments)."""

import msgspec

from launchbay.model.environment import Marker, Property
from launchbay.usecases import environments
from launchbay.web.requests import YAML, Call, JsonBody, YamlBody
from launchbay.web.responses import Answer, Created, Empty, Json, NameBody, Named, Paging, ServiceItem, Yaml, listed
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Environments",)
_ID = "5f" * 12
_POLICIES = "policies:\n  provisionVms.hardwareId: m1.small\n  execrun.ignoreFail: true\n"
_MARKERS = {"markers": [{"name": "has-internet-access"}]}
_PROPERTIES = {"properties": [{"name": "mirrors", "value": ["http://mirror.example"], "type": "list<string>"}]}


class EnvironmentItem(msgspec.Struct):
    """An environment as lists show it."""

    id: str
    name: str
    isDefault: bool


class CloneBody(msgspec.Struct):
    """What the clone is called; without a name one is generated."""

    name: str | None = None


class Markers(msgspec.Struct):
    """The markers of an environment."""

    markers: list[Marker]


class Properties(msgspec.Struct):
    """The properties of an environment."""

    properties: list[Property]


class DefaultEnvironment(msgspec.Struct):
    """The id of the environment that becomes the default one."""

    environmentId: str


class OfferedServices(msgspec.Struct):
    """The services that an environment offers."""

    services: list[ServiceItem]


class ServiceIds(msgspec.Struct):
    """The ids of all services that an environment is to offer."""

    services: list[str]


async def list_environments(call: Call[None, Paging]) -> Answer:
    """List environments."""
    rows = await environments.list_environments(call.services.desk, call.actor, call.path["orgId"])
    return listed(call, [EnvironmentItem(row.id, row.name, row.is_default) for row in rows])


async def create_environment(call: Call[NameBody, None]) -> Answer:
    """Create an environment."""
    return Json(
        Created(
            await environments.create_environment(call.services.desk, call.actor, call.path["orgId"], call.body.name)
        )
    )


async def set_default_environment(call: Call[DefaultEnvironment, None]) -> Answer:
    """Choose the default environment."""
    await environments.set_default_environment(
        call.services.desk, call.actor, call.path["orgId"], call.body.environmentId
    )
    return Empty()


async def replace_policies(call: Call[str, None]) -> Answer:
    """Import policies."""
    await environments.replace_policies(call.services.desk, call.actor, call.path["id"], call.body)
    return Empty()


async def read_policies(call: Call[None, None]) -> Answer:
    """Export policies."""
    return Yaml(await environments.read_policies_document(call.services.desk, call.actor, call.path["id"]))


async def clone_environment(call: Call[CloneBody, None]) -> Answer:
    """Copy an environment."""
    clone = await environments.clone_environment(call.services.desk, call.actor, call.path["id"], call.body.name)
    return Json(Named(clone.id, clone.name))


async def rename_environment(call: Call[NameBody, None]) -> Answer:
    """Rename an environment."""
    await environments.rename_environment(call.services.desk, call.actor, call.path["id"], call.body.name)
    return Empty()


async def delete_environment(call: Call[None, None]) -> Answer:
    """Delete an environment."""
    await environments.delete_environment(call.services.desk, call.actor, call.path["id"])
    return Empty()


async def replace_markers(call: Call[Markers, None]) -> Answer:
    """Replace the markers."""
    await environments.replace_markers(call.services.desk, call.actor, call.path["id"], call.body.markers)
    return Empty()


async def read_markers(call: Call[None, None]) -> Answer:
    """Read the markers."""
    return Json(Markers(await environments.read_markers(call.services.desk, call.actor, call.path["id"])))


async def replace_properties(call: Call[Properties, None]) -> Answer:
    """Replace the properties."""
    await environments.replace_properties(call.services.desk, call.actor, call.path["id"], call.body.properties)
    return Empty()


async def read_properties(call: Call[None, None]) -> Answer:
    """Read the properties."""
    return Json(Properties(await environments.read_properties(call.services.desk, call.actor, call.path["id"])))


async def read_services(call: Call[None, None]) -> Answer:
    """Read which services it offers."""
    rows = await environments.read_services(call.services.desk, call.actor, call.path["id"])
    return Json(OfferedServices([ServiceItem(row.id, row.name, row.type_id) for row in rows]))


async def replace_services(call: Call[ServiceIds, None]) -> Answer:
    """Choose which services it offers."""
    await environments.replace_services(call.services.desk, call.actor, call.path["id"], call.body.services)
    return Empty()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/environments",
        operation_id="list_environments",
        handler=list_environments,
        summary="Lists the environments of an organization.",
        tags=_TAGS,
        permission="Read on each environment shown.",
        query=Paging,
        returns=Returns(
            list[EnvironmentItem], "The environments, by name.", [{"id": _ID, "name": "default", "isDefault": True}]
        ),
        statuses=(403,),
    ),
    Endpoint(
        method="POST",
        path="/api/1/organizations/{orgId}/environments",
        operation_id="create_environment",
        handler=create_environment,
        summary="Creates an environment that offers nothing yet.",
        tags=_TAGS,
        permission="CreateEnvironment",
        body=JsonBody(NameBody, example={"name": "staging"}),
        returns=Returns(Created, "The id of the new environment.", {"id": _ID}),
        statuses=(403,),
        addition=True,
        idempotency_key=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/organizations/{orgId}/defaultEnvironment",
        operation_id="set_default_environment",
        handler=set_default_environment,
        summary="Chooses the environment that launches without an environment go to.",
        tags=_TAGS,
        permission="EditEnvironment on the environment that becomes the default one",
        body=JsonBody(DefaultEnvironment, example={"environmentId": _ID}),
        statuses=(403, 409),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/environments/{id}",
        operation_id="replace_policies",
        handler=replace_policies,
        summary="Imports policies; they replace all that the environment has.",
        tags=_TAGS,
        permission="EditEnvironment",
        body=YamlBody(example=_POLICIES),
        statuses=(403,),
    ),
    Endpoint(
        method="GET",
        path="/api/1/environments/{id}",
        operation_id="read_policies",
        handler=read_policies,
        summary="Exports the policies as the YAML document that an import takes.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(str, "The policies.", _POLICIES, YAML),
        statuses=(403,),
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/environments/{id}",
        operation_id="delete_environment",
        handler=delete_environment,
        summary="Deletes an environment that has no instances and is not the default one.",
        tags=_TAGS,
        permission="DeleteEnvironment",
        statuses=(400, 403),
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/environments/{id}/clone",
        operation_id="clone_environment",
        handler=clone_environment,
        summary="Copies an environment with its policies, markers, properties and services.",
        tags=_TAGS,
        permission="Read on the environment, CreateEnvironment for the copy",
        body=JsonBody(CloneBody, media_optional=True, example={"name": "staging"}),
        returns=Returns(Named, "The clone.", {"id": _ID, "name": "staging"}),
        statuses=(403,),
        idempotency_key=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/environments/{id}/name",
        operation_id="rename_environment",
        handler=rename_environment,
        summary="Renames an environment.",
        tags=_TAGS,
        permission="EditEnvironment",
        body=JsonBody(NameBody, example={"name": "staging"}),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/environments/{id}/markers",
        operation_id="replace_markers",
        handler=replace_markers,
        summary="Replaces the markers of an environment.",
        tags=_TAGS,
        permission="EditEnvironment",
        body=JsonBody(Markers, example=_MARKERS),
        statuses=(403,),
    ),
    Endpoint(
        method="GET",
        path="/api/1/environments/{id}/markers",
        operation_id="read_markers",
        handler=read_markers,
        summary="Reads the markers of an environment.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(Markers, "The markers.", _MARKERS),
        statuses=(403,),
    ),
    Endpoint(
        method="PUT",
        path="/api/1/environments/{id}/properties",
        operation_id="replace_properties",
        handler=replace_properties,
        summary="Replaces the properties of an environment.",
        tags=_TAGS,
        permission="EditEnvironment",
        body=JsonBody(Properties, example=_PROPERTIES),
        statuses=(403,),
    ),
    Endpoint(
        method="GET",
        path="/api/1/environments/{id}/properties",
        operation_id="read_properties",
        handler=read_properties,
        summary="Reads the properties of an environment.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(Properties, "The properties.", _PROPERTIES),
        statuses=(403,),
    ),
    Endpoint(
        method="PUT",
        path="/api/1/environments/{id}/services",
        operation_id="replace_environment_services",
        handler=replace_services,
        summary="Makes an environment offer exactly these services.",
        tags=_TAGS,
        permission="EditEnvironment on the environment and each service that comes or goes",
        body=JsonBody(ServiceIds, example={"services": [_ID]}),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/environments/{id}/services",
        operation_id="read_environment_services",
        handler=read_services,
        summary="Reads which services an environment offers.",
        tags=_TAGS,
        permission="Read",
        returns=Returns(
            OfferedServices,
            "The services, by name.",
            {"services": [{"id": _ID, "name": "Hosts", "typeId": "builtin:static_resource_pool"}]},
        ),
        statuses=(403,),
        addition=True,
    ),
)

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


OFFERS_ENDPOINTS = (
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
