"""Environments: policies, markers, properties, services, the default one (reference §4, Environments)."""

import msgspec

from launchbay.model.environment import Marker, Property
from launchbay.usecases import environments
from launchbay.web.requests import YAML, JsonBody, Request, YamlBody
from launchbay.web.responses import Created, NameBody, Named, Paging, Response, ServiceItem, YAMLResponse, list_response
from launchbay.web.routing import Returns, Routes

routes = Routes("Environments")
offers_routes = Routes()

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


@routes.get(
    "/organizations/{orgId}/environments",
    permission="Read on each environment shown.",
    returns=Returns(
        "The environments, by name.", [{"id": _ID, "name": "default", "isDefault": True}], type=list[EnvironmentItem]
    ),
    statuses=(403,),
)
async def list_environments(request: Request[None, Paging]) -> Response:
    """Lists the environments of an organization."""
    rows = await environments.list_environments(request.ctx, request.path["orgId"])
    return list_response(request, [EnvironmentItem(row.id, row.name, row.is_default) for row in rows])


@routes.post(
    "/organizations/{orgId}/environments",
    permission="CreateEnvironment",
    body=JsonBody(example={"name": "staging"}),
    returns=Returns("The id of the new environment.", {"id": _ID}),
    statuses=(403,),
    extension=True,
    idempotency_key=True,
)
async def create_environment(request: Request[NameBody, None]) -> Created:
    """Creates an environment that offers nothing yet."""
    return Created(await environments.create_environment(request.ctx, request.path["orgId"], request.body.name))


@routes.put(
    "/organizations/{orgId}/defaultEnvironment",
    permission="EditEnvironment on the environment that becomes the default one",
    body=JsonBody(example={"environmentId": _ID}),
    statuses=(403, 409),
    extension=True,
)
async def set_default_environment(request: Request[DefaultEnvironment, None]) -> None:
    """Chooses the environment that launches without an environment go to."""
    await environments.set_default_environment(request.ctx, request.path["orgId"], request.body.environmentId)


@routes.put(
    "/environments/{id}",
    permission="EditEnvironment",
    body=YamlBody(example=_POLICIES),
    statuses=(403,),
)
async def replace_policies(request: Request[str, None]) -> None:
    """Imports policies; they replace all that the environment has."""
    await environments.replace_policies(request.ctx, request.path["id"], request.body)


@routes.get(
    "/environments/{id}",
    permission="Read",
    returns=Returns("The policies.", _POLICIES, YAML, type=str),
    statuses=(403,),
)
async def read_policies(request: Request[None, None]) -> Response:
    """Exports the policies as the YAML document that an import takes."""
    return YAMLResponse(await environments.read_policies_document(request.ctx, request.path["id"]))


@routes.delete(
    "/environments/{id}",
    permission="DeleteEnvironment",
    statuses=(400, 403),
    extension=True,
)
async def delete_environment(request: Request[None, None]) -> None:
    """Deletes an environment that has no instances and is not the default one."""
    await environments.delete_environment(request.ctx, request.path["id"])


@routes.post(
    "/environments/{id}/clone",
    permission="Read on the environment, CreateEnvironment for the copy",
    body=JsonBody(media_optional=True, example={"name": "staging"}),
    returns=Returns("The clone.", {"id": _ID, "name": "staging"}),
    statuses=(403,),
    idempotency_key=True,
)
async def clone_environment(request: Request[CloneBody, None]) -> Named:
    """Copies an environment with its policies, markers, properties and services."""
    clone = await environments.clone_environment(request.ctx, request.path["id"], request.body.name)
    return Named(clone.id, clone.name)


@routes.put(
    "/environments/{id}/name",
    permission="EditEnvironment",
    body=JsonBody(example={"name": "staging"}),
    statuses=(403,),
    extension=True,
)
async def rename_environment(request: Request[NameBody, None]) -> None:
    """Renames an environment."""
    await environments.rename_environment(request.ctx, request.path["id"], request.body.name)


@routes.put(
    "/environments/{id}/markers",
    permission="EditEnvironment",
    body=JsonBody(example=_MARKERS),
    statuses=(403,),
)
async def replace_markers(request: Request[Markers, None]) -> None:
    """Replaces the markers of an environment."""
    await environments.replace_markers(request.ctx, request.path["id"], request.body.markers)


@routes.get(
    "/environments/{id}/markers",
    permission="Read",
    returns=Returns("The markers.", _MARKERS),
    statuses=(403,),
)
async def read_markers(request: Request[None, None]) -> Markers:
    """Reads the markers of an environment."""
    return Markers(await environments.read_markers(request.ctx, request.path["id"]))


@routes.put(
    "/environments/{id}/properties",
    permission="EditEnvironment",
    body=JsonBody(example=_PROPERTIES),
    statuses=(403,),
)
async def replace_properties(request: Request[Properties, None]) -> None:
    """Replaces the properties of an environment."""
    await environments.replace_properties(request.ctx, request.path["id"], request.body.properties)


@routes.get(
    "/environments/{id}/properties",
    permission="Read",
    returns=Returns("The properties.", _PROPERTIES),
    statuses=(403,),
)
async def read_properties(request: Request[None, None]) -> Properties:
    """Reads the properties of an environment."""
    return Properties(await environments.read_properties(request.ctx, request.path["id"]))


@routes.put(
    "/environments/{id}/services",
    permission="EditEnvironment on the environment and each service that comes or goes",
    body=JsonBody(example={"services": [_ID]}),
    statuses=(403,),
    extension=True,
)
async def replace_environment_services(request: Request[ServiceIds, None]) -> None:
    """Makes an environment offer exactly these services."""
    await environments.replace_services(request.ctx, request.path["id"], request.body.services)


@routes.get(
    "/environments/{id}/services",
    permission="Read",
    returns=Returns(
        "The services, by name.", {"services": [{"id": _ID, "name": "Hosts", "typeId": "builtin:static_resource_pool"}]}
    ),
    statuses=(403,),
    extension=True,
)
async def read_environment_services(request: Request[None, None]) -> OfferedServices:
    """Reads which services an environment offers."""
    rows = await environments.read_services(request.ctx, request.path["id"])
    return OfferedServices([ServiceItem(row.id, row.name, row.type_id) for row in rows])


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


@offers_routes.get(
    "/environments/{id}/offers",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The instances, oldest first.", type=list[OfferedInstance]),
    statuses=(403,),
    extension=True,
)
async def list_environment_offers(request: Request[None, Paging]) -> Response:
    """Lists the instances that the environment offers as services."""
    found = await environments.list_offered_instances(request.ctx, request.path["id"])
    return list_response(request, [OfferedInstance(row.id, row.name, row.application_id, row.status) for row in found])


@offers_routes.get(
    "/instances/{id}/environments",
    tags=("Instances",),
    permission="Read",
    returns=Returns("The environments, by id.", _EXAMPLE),
    statuses=(403,),
    extension=True,
)
async def read_instance_environments(request: Request[None, None]) -> OfferedIn:
    """Reads which environments offer the instance as a service."""
    return OfferedIn(await environments.list_offers(request.ctx, request.path["id"]))


@offers_routes.put(
    "/instances/{id}/environments",
    tags=("Instances",),
    permission="EditInstance; EditEnvironment on the instance and each environment that comes or goes",
    body=JsonBody(example=_EXAMPLE),
    statuses=(403, 409),
    extension=True,
)
async def replace_instance_environments(request: Request[OfferedIn, None]) -> None:
    """Offers the instance as a service in exactly these environments; an offered instance does not expire."""
    await environments.replace_offers(request.ctx, request.path["id"], request.body.environments)
