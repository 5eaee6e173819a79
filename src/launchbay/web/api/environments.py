"""Environments and what they offer: policies, markers, properties, services (reference §4, Environments)."""

import msgspec

from launchbay.model.environment import Marker, Property
from launchbay.usecases import environments
from launchbay.web.requests import TYPED, YAML, JsonBody, Request, YamlBody
from launchbay.web.responses import (
    Created,
    LabeledPaging,
    NameBody,
    Named,
    Paging,
    Response,
    ServiceItem,
    YAMLResponse,
    list_response,
)
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Environments")
offers_routes = Routes(extension=True)

_POLICIES = "policies:\n  provisionVms.hardwareId: m1.small\n  execrun.ignoreFail: true\n"
_MARKERS = {"markers": [{"name": "has-internet-access"}]}
_PROPERTIES = {"properties": [{"name": "mirrors", "value": ["http://mirror.example"], "type": "list<string>"}]}


class EnvironmentItem(msgspec.Struct):
    """An environment as lists show it."""

    id: str
    name: str
    isDefault: bool


class CloneBody(msgspec.Struct):
    """The name of the clone. Default: generated."""

    name: str | None = None


class Markers(msgspec.Struct):
    """The markers of an environment."""

    markers: list[Marker]


class Properties(msgspec.Struct):
    """The properties of an environment."""

    properties: list[Property]


class DefaultEnvironment(msgspec.Struct):
    """The ID of the new default environment."""

    environmentId: str


class OfferedServices(msgspec.Struct):
    """The services that an environment offers."""

    services: list[ServiceItem]


class ServiceIds(msgspec.Struct):
    """The IDs of all services for an environment to offer."""

    services: list[str]


@routes.get(
    "/organizations/{orgId}/environments",
    permission="Read on each environment returned",
    returns=Returns(
        "The environments, by name.",
        [{"id": EXAMPLE_ID, "name": "default", "isDefault": True}],
        type=list[EnvironmentItem],
    ),
)
async def list_environments(request: Request[None, LabeledPaging]) -> Response:
    """List the environments of an organization."""
    rows = await environments.list_environments(request.ctx, request.path["orgId"], request.query.labels)
    return list_response(request, [EnvironmentItem(row.id, row.name, row.is_default) for row in rows])


@routes.post(
    "/organizations/{orgId}/environments",
    permission="CreateEnvironment",
    body=JsonBody(example={"name": "staging"}),
    returns=Returns("The ID of the new environment.", {"id": EXAMPLE_ID}),
    extension=True,
    idempotency_key=True,
)
async def create_environment(request: Request[NameBody, None]) -> Created:
    """Create an empty environment."""
    return Created(await environments.create_environment(request.ctx, request.path["orgId"], request.body.name))


@routes.put(
    "/organizations/{orgId}/defaultEnvironment",
    command="environment set-default",
    permission="EditEnvironment on the new default environment",
    body=JsonBody(example={"environmentId": EXAMPLE_ID}),
    statuses=(409,),
    extension=True,
    shown_by="list_environments",
)
async def set_default_environment(request: Request[DefaultEnvironment, None]) -> None:
    """Set the default environment, used by launches that name none."""
    await environments.set_default_environment(request.ctx, request.path["orgId"], request.body.environmentId)


@routes.put(
    "/environments/{id}",
    command="environment set-policies",
    permission="EditEnvironment",
    body=YamlBody(example=_POLICIES),
)
async def replace_policies(request: Request[str, None]) -> None:
    """Import policies, replacing all policies of an environment."""
    await environments.replace_policies(request.ctx, request.path["id"], request.body)


@routes.get(
    "/environments/{id}",
    command="environment show-policies",
    permission="Read",
    returns=Returns("The policies.", _POLICIES, YAML, type=str),
)
async def read_policies(request: Request[None, None]) -> Response:
    """Export the policies of an environment as a YAML document to import."""
    return YAMLResponse(await environments.read_policies_document(request.ctx, request.path["id"]))


@routes.delete("/environments/{id}", permission="DeleteEnvironment", extension=True)
async def delete_environment(request: Request[None, None]) -> None:
    """Delete an environment. It must have no instances and not be the default one."""
    await environments.delete_environment(request.ctx, request.path["id"])


@routes.post(
    "/environments/{id}/clone",
    permission="Read on the environment; CreateEnvironment for the copy",
    body=JsonBody(media_optional=True, example={"name": "staging"}),
    returns=Returns("The clone.", {"id": EXAMPLE_ID, "name": "staging"}),
    idempotency_key=True,
)
async def clone_environment(request: Request[CloneBody, None]) -> Named:
    """Copy an environment with its policies, markers, properties and services."""
    clone = await environments.clone_environment(request.ctx, request.path["id"], request.body.name)
    return Named(clone.id, clone.name)


@routes.put(
    "/environments/{id}/name", permission="EditEnvironment", body=JsonBody(example={"name": "staging"}), extension=True
)
async def rename_environment(request: Request[NameBody, None]) -> None:
    """Rename an environment."""
    await environments.rename_environment(request.ctx, request.path["id"], request.body.name)


@routes.get("/environments/{id}/name", command="environment show-name", permission="Read", extension=True)
async def read_environment_name(request: Request[None, None]) -> Named:
    """Show the name of an environment."""
    environment = await environments.read_environment(request.ctx, request.path["id"])
    return Named(environment.id, environment.name)


@routes.put(
    "/environments/{id}/markers",
    command="environment set-markers",
    permission="EditEnvironment",
    body=JsonBody(example=_MARKERS),
)
async def replace_markers(request: Request[Markers, None]) -> None:
    """Replace the markers of an environment."""
    await environments.replace_markers(request.ctx, request.path["id"], request.body.markers)


@routes.get(
    "/environments/{id}/markers",
    command="environment show-markers",
    permission="Read",
    returns=Returns("The markers.", _MARKERS),
)
async def read_markers(request: Request[None, None]) -> Markers:
    """List the markers of an environment."""
    return Markers(await environments.read_markers(request.ctx, request.path["id"]))


@routes.put(
    "/environments/{id}/properties",
    command="environment set-properties",
    permission="EditEnvironment",
    body=JsonBody(example=_PROPERTIES, keeps_texts=TYPED),
)
async def replace_properties(request: Request[Properties, None]) -> None:
    """Replace the properties of an environment. Each has a name, a type such as `list<string>`, and a value."""
    await environments.replace_properties(request.ctx, request.path["id"], request.body.properties)


@routes.get(
    "/environments/{id}/properties",
    command="environment show-properties",
    permission="Read",
    returns=Returns("The properties.", _PROPERTIES),
)
async def read_properties(request: Request[None, None]) -> Properties:
    """List the properties of an environment."""
    return Properties(await environments.read_properties(request.ctx, request.path["id"]))


@routes.put(
    "/environments/{id}/services",
    command="environment set-services",
    permission="EditEnvironment on the environment and on each service added or removed",
    body=JsonBody(example={"services": [EXAMPLE_ID]}),
    extension=True,
)
async def replace_environment_services(request: Request[ServiceIds, None]) -> None:
    """Replace the services that an environment offers."""
    await environments.replace_services(request.ctx, request.path["id"], request.body.services)


@routes.get(
    "/environments/{id}/services",
    command="environment show-services",
    permission="Read",
    returns=Returns(
        "The services, by name.",
        {"services": [{"id": EXAMPLE_ID, "name": "Hosts", "typeId": "builtin:static_resource_pool"}]},
    ),
    extension=True,
)
async def read_environment_services(request: Request[None, None]) -> OfferedServices:
    """List the services that an environment offers."""
    rows = await environments.read_services(request.ctx, request.path["id"])
    return OfferedServices([ServiceItem(row.id, row.name, row.type_id) for row in rows])


_EXAMPLE = {"environments": [EXAMPLE_ID]}


class OfferedIn(msgspec.Struct):
    """The IDs of the environments that offer an instance as a service."""

    environments: list[str]


class OfferedInstance(msgspec.Struct):
    """An instance that an environment offers as a service; `application` is an ID."""

    id: str
    name: str
    application: str
    status: str


@offers_routes.get(
    "/environments/{id}/offers",
    command="environment offers",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The instances, oldest first.", type=list[OfferedInstance]),
)
async def list_environment_offers(request: Request[None, Paging]) -> Response:
    """List the instances that an environment offers as services."""
    found = await environments.list_offered_instances(request.ctx, request.path["id"])
    return list_response(request, [OfferedInstance(row.id, row.name, row.application_id, row.status) for row in found])


@offers_routes.get(
    "/instances/{id}/environments",
    command="instance show-environments",
    tags=("Instances",),
    permission="Read",
    returns=Returns("The environments, by ID.", _EXAMPLE),
)
async def read_instance_environments(request: Request[None, None]) -> OfferedIn:
    """List the environments that offer an instance as a service."""
    return OfferedIn(await environments.list_offers(request.ctx, request.path["id"]))


@offers_routes.put(
    "/instances/{id}/environments",
    command="instance offer",
    tags=("Instances",),
    permission="EditInstance; EditEnvironment on the instance and on each environment added or removed",
    body=JsonBody(example=_EXAMPLE),
    statuses=(409,),
)
async def replace_instance_environments(request: Request[OfferedIn, None]) -> None:
    """Replace the environments that offer an instance as a service. An offered instance doesn't expire."""
    await environments.replace_offers(request.ctx, request.path["id"], request.body.environments)
