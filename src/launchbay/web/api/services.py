"""Service instances, their types and zones (reference §4, Service instances; conformance.md)."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from launchbay.service_types.contract import CommandArgument, ServiceParameter, ServiceType
from launchbay.usecases import services
from launchbay.usecases.services import ServiceView
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.responses import Created, Named, Paging, Response, ServiceItem, list_response
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Services")

_POOL = "builtin:static_resource_pool"


class ServiceStatus(msgspec.Struct):
    """The status of a service."""

    name: str
    pending: bool


class ServiceDocument(msgspec.Struct):
    """A service with exactly the fields of the reference; secret parameters are masked."""

    id: str
    name: str
    typeId: str
    typeName: str
    zoneId: str
    zoneName: str
    organizationId: str
    interfaces: list[str]
    parameters: dict[str, Any]
    status: ServiceStatus
    internalId: str


class NewService(msgspec.Struct):
    """A new service. Default of `zoneId`: the organization's first zone."""

    name: str
    typeId: str
    zoneId: str | None = None
    parameters: dict[str, Any] | None = None


class ServiceChange(msgspec.Struct, forbid_unknown_fields=True):
    """Changes of a service. Omitted fields and parameters stay unchanged; null removes a parameter."""

    name: str | None = None
    parameters: dict[str, Any] | None = None


class CommandBody(msgspec.Struct):
    """The arguments of a command, and whether to return its intermediate results."""

    arguments: dict[str, Any] | None = None
    includeIntermediate: Annotated[
        bool, msgspec.Meta(description="Return the intermediate results before the final one.")
    ] = False


class TypedName(msgspec.Struct):
    """A name with its type, such as `list<string>`."""

    name: str
    type: str


class ParameterShape(TypedName):
    """A parameter or argument."""

    required: bool
    secret: bool
    description: str


class CommandShape(msgspec.Struct):
    """A command of a service type."""

    name: str
    interface: str
    description: str
    arguments: list[ParameterShape]
    intermediate: list[TypedName]
    results: list[TypedName]


class ServiceTypeShape(msgspec.Struct):
    """A type of services."""

    id: str
    name: str
    interfaces: list[str]
    parameters: list[ParameterShape]
    commands: list[CommandShape]


@routes.get(
    "/organizations/{orgId}/services",
    permission="Read on each service returned",
    returns=Returns(
        "The services, by name.", [{"id": EXAMPLE_ID, "name": "Hosts", "typeId": _POOL}], type=list[ServiceItem]
    ),
    extension=True,
)
async def list_services(request: Request[None, Paging]) -> Response:
    """List the services of an organization."""
    rows = await services.list_services(request.ctx, request.path["orgId"])
    return list_response(request, [ServiceItem(row.id, row.name, row.type_id) for row in rows])


@routes.post(
    "/organizations/{orgId}/services",
    permission="CreateService",
    body=JsonBody(
        keeps_texts=TYPED,
        example={
            "name": "Hosts",
            "typeId": _POOL,
            "parameters": {"configuration.resources": {"blue": {"ip": "10.0.0.1"}}},
        },
    ),
    returns=Returns("The ID of the new service.", {"id": EXAMPLE_ID}),
    extension=True,
    idempotency_key=True,
)
async def create_service(request: Request[NewService, None]) -> Created:
    """Create a service."""
    body = request.body
    return Created(
        await services.create_service(
            request.ctx,
            request.path["orgId"],
            name=body.name,
            type_id=body.typeId,
            zone_id=body.zoneId,
            parameters=body.parameters or {},
        )
    )


@routes.get(
    "/organizations/{orgId}/serviceTypes",
    command="service types",
    permission="None: every member",
    returns=Returns("The types, by ID."),
    statuses=(403,),
    extension=True,
)
async def list_service_types(request: Request[None, None]) -> list[ServiceTypeShape]:
    """List the service types with their parameters and commands."""
    types = await services.list_service_types(request.ctx, request.path["orgId"])
    return [_type_shape(kind) for kind in types]


@routes.get(
    "/organizations/{orgId}/zones",
    permission="None: every member",
    returns=Returns("The zones, by name.", [{"id": EXAMPLE_ID, "name": "Default"}], type=list[Named]),
    statuses=(403,),
    extension=True,
)
async def list_zones(request: Request[None, Paging]) -> Response:
    """List the zones of an organization."""
    rows = await services.list_zones(request.ctx, request.path["orgId"])
    return list_response(request, [Named(row.id, row.name) for row in rows])


@routes.get("/services/{id}", permission="Read", returns=Returns("The service."))
async def read_service(request: Request[None, None]) -> ServiceDocument:
    """Show a service with secret parameters masked."""
    return _document(await services.read_service(request.ctx, request.path["id"]))


@routes.put(
    "/services/{id}",
    permission="EditService",
    body=JsonBody(required=True, example={"name": "Hosts"}, keeps_texts=TYPED),
    returns=Returns("The updated service."),
    statuses=(409,),
    field_errors=True,
)
async def update_service(request: Request[ServiceChange, None]) -> ServiceDocument:
    """Change the name and the named parameters of a service."""
    view = await services.update_service(request.ctx, request.path["id"], request.body.name, request.body.parameters)
    return _document(view)


@routes.delete("/services/{id}", permission="EditService", extension=True)
async def delete_service(request: Request[None, None]) -> None:
    """Delete a service. Environments no longer offer it."""
    await services.delete_service(request.ctx, request.path["id"])


@routes.post(
    "/services/{id}/{commandname}",
    command="service run",
    permission="RunServiceCommand",
    body=JsonBody(example={"arguments": {"holder": "build 17"}, "includeIntermediate": False}, keeps_texts=TYPED),
    returns=Returns("The results.", [{"id": "blue", "resource": {"ip": "10.0.0.1"}}]),
    statuses=(409,),
    field_errors=True,
)
async def run_service_command(request: Request[CommandBody, None]) -> list[Mapping[str, Any]]:
    """Run a command on a service and return its results, the final one last."""
    return await services.run_command(
        request.ctx,
        request.path["id"],
        request.path["commandname"],
        request.body.arguments or {},
        include_intermediate=request.body.includeIntermediate,
    )


def _document(view: ServiceView) -> ServiceDocument:
    record = view.record
    return ServiceDocument(
        id=record.id,
        name=view.name,
        typeId=record.type_id,
        typeName=view.type_name,
        zoneId=record.zone_id,
        zoneName=view.zone_name,
        organizationId=record.organization_id,
        interfaces=view.interfaces,
        parameters=view.parameters,
        status=ServiceStatus(record.status, record.status_pending),
        internalId=f"{record.organization_id}.services.{record.id}",
    )


def _type_shape(kind: ServiceType) -> ServiceTypeShape:
    return ServiceTypeShape(
        id=kind.id,
        name=kind.name,
        interfaces=list(kind.interfaces),
        parameters=[_parameter_shape(name, parameter) for name, parameter in kind.parameters.items()],
        commands=[
            CommandShape(
                name=name,
                interface=command.interface,
                description=command.description,
                arguments=[_parameter_shape(argument, entry) for argument, entry in command.arguments.items()],
                intermediate=[TypedName(result, str(type_)) for result, type_ in command.intermediate.items()],
                results=[TypedName(result, str(type_)) for result, type_ in command.results.items()],
            )
            for name, command in kind.commands.items()
        ],
    )


def _parameter_shape(name: str, entry: ServiceParameter | CommandArgument) -> ParameterShape:
    secret = isinstance(entry, ServiceParameter) and entry.secret
    return ParameterShape(name, str(entry.type), entry.required, secret, entry.description)
