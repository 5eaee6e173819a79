"""Operations of the API: services.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import Created, Named, ServiceDocument, ServiceItem, ServiceTypeShape


@list_operation(
    Row(
        id="list_services",
        method="GET",
        path="/api/1/organizations/{orgId}/services",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_services(
    organization_id: str, *, limit: int | None = None, after: str | None = None
) -> Call[list[ServiceItem]]:
    """Lists the service instances of an organization.

    Needs: Read on each service shown.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[ServiceItem], (organization_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_service",
        method="POST",
        path="/api/1/organizations/{orgId}/services",
        media_type="application/json",
        keyed=True,
    )
)
def create_service(
    organization_id: str,
    *,
    name: str,
    type_id: str,
    zone_id: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Created]:
    """Creates a service instance.

    Needs: CreateService.
    """
    return Call(
        Created,
        (organization_id,),
        body=given({"name": name, "typeId": type_id, "zoneId": zone_id, "parameters": parameters}),
        idempotency_key=idempotency_key,
    )


@list_operation(Row(id="list_service_types", method="GET", path="/api/1/organizations/{orgId}/serviceTypes"))
def list_service_types(organization_id: str) -> Call[list[ServiceTypeShape]]:
    """Lists the types that services can be made of, with their parameters and commands.

    Needs: None: everybody in the organization may know.
    """
    return Call(list[ServiceTypeShape], (organization_id,))


@list_operation(
    Row(
        id="list_zones",
        method="GET",
        path="/api/1/organizations/{orgId}/zones",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_zones(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[Named]]:
    """Lists the zones that services can be in.

    Needs: None: everybody in the organization may know.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Named], (organization_id,), query={"limit": limit, "after": after})


@operation(Row(id="read_service", method="GET", path="/api/1/services/{id}"))
def read_service(service_id: str) -> Call[ServiceDocument]:
    """Reads a service instance; secret parameters are masked.

    Needs: Read.
    """
    return Call(ServiceDocument, (service_id,))


@operation(Row(id="update_service", method="PUT", path="/api/1/services/{id}", media_type="application/json"))
def update_service(
    service_id: str, *, name: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Call[ServiceDocument]:
    """Changes the name and the named parameters of a service instance.

    Needs: EditService.
    """
    return Call(ServiceDocument, (service_id,), body=given({"name": name, "parameters": parameters}))


@operation(Row(id="delete_service", method="DELETE", path="/api/1/services/{id}"))
def delete_service(service_id: str) -> Call[None]:
    """Deletes a service instance; no environment offers it any longer.

    Needs: EditService.
    """
    return Call(NoneType, (service_id,))


@operation(
    Row(
        id="run_service_command",
        method="POST",
        path="/api/1/services/{id}/{commandname}",
        media_type="application/json",
    )
)
def run_service_command(
    service_id: str,
    command: str,
    *,
    arguments: Mapping[str, Any] | None = None,
    include_intermediate: bool | None = None,
) -> Call[list[dict[str, Any]]]:
    """Runs a command on a service instance and returns its results, the final one last.

    Needs: RunServiceCommand.
    """
    return Call(
        list[dict[str, Any]],
        (
            service_id,
            command,
        ),
        body=given({"arguments": arguments, "includeIntermediate": include_intermediate}),
    )
