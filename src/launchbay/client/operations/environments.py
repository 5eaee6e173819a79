"""Operations of the API: environments.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Sequence
from types import NoneType

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import (
    Created,
    EnvironmentItem,
    Marker,
    Markers,
    Named,
    OfferedInstance,
    OfferedServices,
    Properties,
    Property,
)


@list_operation(
    Row(
        id="list_environments",
        method="GET",
        path="/api/1/organizations/{orgId}/environments",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_environments(
    organization_id: str, *, limit: int | None = None, after: str | None = None
) -> Call[list[EnvironmentItem]]:
    """Lists the environments of an organization.

    Needs: Read on each environment shown.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[EnvironmentItem], (organization_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_environment",
        method="POST",
        path="/api/1/organizations/{orgId}/environments",
        media_type="application/json",
        keyed=True,
    )
)
def create_environment(organization_id: str, *, name: str, idempotency_key: str | None = None) -> Call[Created]:
    """Creates an environment that offers nothing yet.

    Needs: CreateEnvironment.
    """
    return Call(Created, (organization_id,), body=given({"name": name}), idempotency_key=idempotency_key)


@operation(
    Row(
        id="set_default_environment",
        method="PUT",
        path="/api/1/organizations/{orgId}/defaultEnvironment",
        media_type="application/json",
    )
)
def set_default_environment(organization_id: str, *, environment_id: str) -> Call[None]:
    """Chooses the environment that launches without an environment go to.

    Needs: EditEnvironment on the environment that becomes the default one.
    """
    return Call(NoneType, (organization_id,), body=given({"environmentId": environment_id}))


@operation(Row(id="replace_policies", method="PUT", path="/api/1/environments/{id}", media_type="application/x-yaml"))
def replace_policies(environment_id: str, text: str) -> Call[None]:
    """Imports policies; they replace all that the environment has.

    Needs: EditEnvironment.
    """
    return Call(NoneType, (environment_id,), body=text)


@operation(Row(id="read_policies", method="GET", path="/api/1/environments/{id}", answer="application/x-yaml"))
def read_policies(environment_id: str) -> Call[str]:
    """Exports the policies as the YAML document that an import takes.

    Needs: Read.
    """
    return Call(str, (environment_id,))


@operation(Row(id="delete_environment", method="DELETE", path="/api/1/environments/{id}"))
def delete_environment(environment_id: str) -> Call[None]:
    """Deletes an environment that has no instances and is not the default one.

    Needs: DeleteEnvironment.
    """
    return Call(NoneType, (environment_id,))


@operation(
    Row(
        id="clone_environment",
        method="POST",
        path="/api/1/environments/{id}/clone",
        media_type="application/json",
        keyed=True,
    )
)
def clone_environment(
    environment_id: str, *, name: str | None = None, idempotency_key: str | None = None
) -> Call[Named]:
    """Copies an environment with its policies, markers, properties and services.

    Needs: Read on the environment, CreateEnvironment for the copy.
    """
    return Call(Named, (environment_id,), body=given({"name": name}), idempotency_key=idempotency_key)


@operation(
    Row(id="rename_environment", method="PUT", path="/api/1/environments/{id}/name", media_type="application/json")
)
def rename_environment(environment_id: str, *, name: str) -> Call[None]:
    """Renames an environment.

    Needs: EditEnvironment.
    """
    return Call(NoneType, (environment_id,), body=given({"name": name}))


@operation(
    Row(id="replace_markers", method="PUT", path="/api/1/environments/{id}/markers", media_type="application/json")
)
def replace_markers(environment_id: str, *, markers: Sequence[Marker]) -> Call[None]:
    """Replaces the markers of an environment.

    Needs: EditEnvironment.
    """
    return Call(NoneType, (environment_id,), body=given({"markers": markers}))


@operation(Row(id="read_markers", method="GET", path="/api/1/environments/{id}/markers"))
def read_markers(environment_id: str) -> Call[Markers]:
    """Reads the markers of an environment.

    Needs: Read.
    """
    return Call(Markers, (environment_id,))


@operation(
    Row(
        id="replace_properties", method="PUT", path="/api/1/environments/{id}/properties", media_type="application/json"
    )
)
def replace_properties(environment_id: str, *, properties: Sequence[Property]) -> Call[None]:
    """Replaces the properties of an environment.

    Needs: EditEnvironment.
    """
    return Call(NoneType, (environment_id,), body=given({"properties": properties}))


@operation(Row(id="read_properties", method="GET", path="/api/1/environments/{id}/properties"))
def read_properties(environment_id: str) -> Call[Properties]:
    """Reads the properties of an environment.

    Needs: Read.
    """
    return Call(Properties, (environment_id,))


@operation(
    Row(
        id="replace_environment_services",
        method="PUT",
        path="/api/1/environments/{id}/services",
        media_type="application/json",
    )
)
def replace_environment_services(environment_id: str, *, services: Sequence[str]) -> Call[None]:
    """Makes an environment offer exactly these services.

    Needs: EditEnvironment on the environment and each service that comes or goes.
    """
    return Call(NoneType, (environment_id,), body=given({"services": services}))


@operation(Row(id="read_environment_services", method="GET", path="/api/1/environments/{id}/services"))
def read_environment_services(environment_id: str) -> Call[OfferedServices]:
    """Reads which services an environment offers.

    Needs: Read.
    """
    return Call(OfferedServices, (environment_id,))


@list_operation(
    Row(
        id="list_environment_offers",
        method="GET",
        path="/api/1/environments/{id}/offers",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_environment_offers(
    environment_id: str, *, limit: int | None = None, after: str | None = None
) -> Call[list[OfferedInstance]]:
    """Lists the instances that the environment offers as services.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[OfferedInstance], (environment_id,), query={"limit": limit, "after": after})
