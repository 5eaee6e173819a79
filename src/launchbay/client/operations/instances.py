"""Operations of the API: instances.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import InstanceDocument, InstanceSummary, OfferedIn, Preview


@list_operation(
    Row(
        id="list_environment_instances",
        method="GET",
        path="/api/1/environments/{envId}/instances",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
            "status": "Only instances in this status.",
            "name": "Only instances of exactly this name.",
        },
    )
)
def list_environment_instances(
    environment_id: str,
    *,
    limit: int | None = None,
    after: str | None = None,
    status: str | None = None,
    name: str | None = None,
) -> Call[list[InstanceSummary]]:
    """Lists the instances of an environment.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.

    `status`: Only instances in this status.

    `name`: Only instances of exactly this name.
    """
    return Call(
        list[InstanceSummary], (environment_id,), query={"limit": limit, "after": after, "status": status, "name": name}
    )


@list_operation(
    Row(
        id="list_application_instances",
        method="GET",
        path="/api/1/applications/{appId}/instances",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
            "status": "Only instances in this status.",
            "name": "Only instances of exactly this name.",
        },
    )
)
def list_application_instances(
    application_id: str,
    *,
    limit: int | None = None,
    after: str | None = None,
    status: str | None = None,
    name: str | None = None,
) -> Call[list[InstanceSummary]]:
    """Lists the instances of an application.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.

    `status`: Only instances in this status.

    `name`: Only instances of exactly this name.
    """
    return Call(
        list[InstanceSummary], (application_id,), query={"limit": limit, "after": after, "status": status, "name": name}
    )


@list_operation(
    Row(
        id="list_revision_instances",
        method="GET",
        path="/api/1/revisions/{revId}/instances",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
            "status": "Only instances in this status.",
            "name": "Only instances of exactly this name.",
        },
    )
)
def list_revision_instances(
    revision_id: str,
    *,
    limit: int | None = None,
    after: str | None = None,
    status: str | None = None,
    name: str | None = None,
) -> Call[list[InstanceSummary]]:
    """Lists the instances of a revision.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.

    `status`: Only instances in this status.

    `name`: Only instances of exactly this name.
    """
    return Call(
        list[InstanceSummary], (revision_id,), query={"limit": limit, "after": after, "status": status, "name": name}
    )


@operation(Row(id="read_instance", method="GET", path="/api/1/instances/{id}"))
def read_instance(instance_id: str) -> Call[InstanceDocument]:
    """Reads an instance with its workflow history.

    Needs: Read.
    """
    return Call(InstanceDocument, (instance_id,))


@operation(
    Row(
        id="delete_instance",
        method="DELETE",
        path="/api/1/instances/{id}",
        about={"force": "1 deletes an active instance too, after destroying it."},
    )
)
def delete_instance(instance_id: str, *, force: int | None = None) -> Call[None]:
    """Deletes a destroyed instance; with force also an active one, which is destroyed first.

    Needs: DeleteInstance.

    `force`: 1 deletes an active instance too, after destroying it.
    """
    return Call(NoneType, (instance_id,), query={"force": force})


@operation(Row(id="put_user_data", method="PUT", path="/api/1/instances/{id}/userData", media_type="application/json"))
def put_user_data(instance_id: str, user_data: Mapping[str, Any]) -> Call[None]:
    """Associates user data with the instance.

    Needs: EditInstance.
    """
    return Call(NoneType, (instance_id,), body=user_data)


@operation(
    Row(
        id="reconfigure_instance",
        method="PUT",
        path="/api/1/instances/{id}/configuration",
        media_type="application/json",
        about={
            "instance_name": "The new name; unchanged when left out.",
            "manifest_version": "The new manifest version; it wins over the revision's.",
            "revision_id": "The new revision.",
            "parameters": "Name to value.",
            "submodules": "Submodule id to its configuration.",
        },
    )
)
def reconfigure_instance(
    instance_id: str,
    *,
    instance_name: str | None = None,
    manifest_version: int | str | None = None,
    revision_id: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    submodules: Mapping[str, Any] | None = None,
) -> Call[None]:
    """Gives the instance a new configuration, which takes effect some time after the answer.

    Needs: EditInstance; CreateInstance on applications of new submodules.

    `instance_name`: The new name; unchanged when left out.

    `manifest_version`: The new manifest version; it wins over the revision's.

    `revision_id`: The new revision.

    `parameters`: Name to value.

    `submodules`: Submodule id to its configuration.
    """
    return Call(
        NoneType,
        (instance_id,),
        body=given(
            {
                "instanceName": instance_name,
                "manifestVersion": manifest_version,
                "revisionId": revision_id,
                "parameters": parameters,
                "submodules": submodules,
            }
        ),
    )


@operation(
    Row(
        id="preview_configuration",
        method="POST",
        path="/api/1/instances/{id}/configuration/preview",
        media_type="application/json",
        repeatable=True,
        about={
            "instance_name": "The new name; unchanged when left out.",
            "manifest_version": "The new manifest version; it wins over the revision's.",
            "revision_id": "The new revision.",
            "parameters": "Name to value.",
            "submodules": "Submodule id to its configuration.",
        },
    )
)
def preview_configuration(
    instance_id: str,
    *,
    instance_name: str | None = None,
    manifest_version: int | str | None = None,
    revision_id: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    submodules: Mapping[str, Any] | None = None,
) -> Call[Preview]:
    """Tells what a reconfiguration would do, and changes nothing.

    Needs: EditInstance; CreateInstance on applications of new submodules.

    `instance_name`: The new name; unchanged when left out.

    `manifest_version`: The new manifest version; it wins over the revision's.

    `revision_id`: The new revision.

    `parameters`: Name to value.

    `submodules`: Submodule id to its configuration.
    """
    return Call(
        Preview,
        (instance_id,),
        body=given(
            {
                "instanceName": instance_name,
                "manifestVersion": manifest_version,
                "revisionId": revision_id,
                "parameters": parameters,
                "submodules": submodules,
            }
        ),
    )


@operation(Row(id="read_instance_environments", method="GET", path="/api/1/instances/{id}/environments"))
def read_instance_environments(instance_id: str) -> Call[OfferedIn]:
    """Reads which environments offer the instance as a service.

    Needs: Read.
    """
    return Call(OfferedIn, (instance_id,))


@operation(
    Row(
        id="replace_instance_environments",
        method="PUT",
        path="/api/1/instances/{id}/environments",
        media_type="application/json",
    )
)
def replace_instance_environments(instance_id: str, *, environments: Sequence[str]) -> Call[None]:
    """Offers the instance as a service in exactly these environments; an offered instance does not expire.

    Needs: EditInstance; EditEnvironment on the instance and each environment that comes or goes.
    """
    return Call(NoneType, (instance_id,), body=given({"environments": environments}))


@operation(
    Row(id="set_destroy_at", method="PUT", path="/api/1/instances/{id}/destroyAt", media_type="application/json")
)
def set_destroy_at(instance_id: str, *, destroy_at: int) -> Call[None]:
    """Sets when the instance is destroyed by itself; -1 lets it live on.

    Needs: EditInstance.
    """
    return Call(NoneType, (instance_id,), body=given({"destroyAt": destroy_at}))
