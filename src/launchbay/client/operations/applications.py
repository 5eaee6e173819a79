"""Operations of the API: applications.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import ApplicationDocument, Created, Named, Preview


@list_operation(
    Row(
        id="list_applications",
        method="GET",
        path="/api/1/organizations/{orgId}/applications",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_applications(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[Named]]:
    """Lists the applications of an organization.

    Needs: Read on each application shown.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Named], (organization_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_application",
        method="POST",
        path="/api/1/organizations/{orgId}/applications",
        media_type="application/json",
        keyed=True,
    )
)
def create_application(organization_id: str, *, name: str, idempotency_key: str | None = None) -> Call[Created]:
    """Creates an application with the default no-op manifest.

    Needs: CreateApplication.
    """
    return Call(Created, (organization_id,), body=given({"name": name}), idempotency_key=idempotency_key)


@operation(Row(id="read_application", method="GET", path="/api/1/applications/{appId}"))
def read_application(application_id: str) -> Call[ApplicationDocument]:
    """Reads an application.

    Needs: Read.
    """
    return Call(ApplicationDocument, (application_id,))


@operation(
    Row(id="rename_application", method="PUT", path="/api/1/applications/{appId}", media_type="application/json")
)
def rename_application(application_id: str, *, name: str) -> Call[None]:
    """Renames an application.

    Needs: EditApplication.
    """
    return Call(NoneType, (application_id,), body=given({"name": name}))


@operation(Row(id="delete_application", method="DELETE", path="/api/1/applications/{appId}"))
def delete_application(application_id: str) -> Call[None]:
    """Deletes an application whose instances are all destroyed, with its manifests and revisions.

    Needs: DeleteApplication.
    """
    return Call(NoneType, (application_id,))


@operation(
    Row(
        id="launch_application",
        method="POST",
        path="/api/1/applications/{appId}/launch",
        media_type="application/json",
        keyed=True,
        about={
            "revision_id": "The revision to launch.",
            "version": "The manifest version; the newest by default. It wins over the revision's.",
            "environment_id": "By default the default environment.",
            "destroy_interval": "Milliseconds until the instance is destroyed; -1 is never, an hour the default.",
            "instance_name": "Generated when left out.",
            "parameters": "Name to value.",
            "submodules": "Submodule id to its configuration.",
        },
    )
)
def launch_application(
    application_id: str,
    *,
    revision_id: str | None = None,
    version: int | str | None = None,
    environment_id: str | None = None,
    destroy_interval: int | str | None = None,
    instance_name: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    submodules: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Created]:
    """Launches the application into a new instance.

    Needs: CreateInstance on the application and the environment.

    `revision_id`: The revision to launch.

    `version`: The manifest version; the newest by default. It wins over the revision's.

    `environment_id`: By default the default environment.

    `destroy_interval`: Milliseconds until the instance is destroyed; -1 is never, an hour the default.

    `instance_name`: Generated when left out.

    `parameters`: Name to value.

    `submodules`: Submodule id to its configuration.
    """
    return Call(
        Created,
        (application_id,),
        body=given(
            {
                "revisionId": revision_id,
                "version": version,
                "environmentId": environment_id,
                "destroyInterval": destroy_interval,
                "instanceName": instance_name,
                "parameters": parameters,
                "submodules": submodules,
            }
        ),
        idempotency_key=idempotency_key,
    )


@operation(
    Row(
        id="preview_launch",
        method="POST",
        path="/api/1/applications/{appId}/launch/preview",
        media_type="application/json",
        repeatable=True,
        about={
            "revision_id": "The revision to launch.",
            "version": "The manifest version; the newest by default. It wins over the revision's.",
            "environment_id": "By default the default environment.",
            "destroy_interval": "Milliseconds until the instance is destroyed; -1 is never, an hour the default.",
            "instance_name": "Generated when left out.",
            "parameters": "Name to value.",
            "submodules": "Submodule id to its configuration.",
        },
    )
)
def preview_launch(
    application_id: str,
    *,
    revision_id: str | None = None,
    version: int | str | None = None,
    environment_id: str | None = None,
    destroy_interval: int | str | None = None,
    instance_name: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    submodules: Mapping[str, Any] | None = None,
) -> Call[Preview]:
    """Tells what a launch would do, and changes nothing.

    Needs: CreateInstance on the application, its submodules and the environment.

    `revision_id`: The revision to launch.

    `version`: The manifest version; the newest by default. It wins over the revision's.

    `environment_id`: By default the default environment.

    `destroy_interval`: Milliseconds until the instance is destroyed; -1 is never, an hour the default.

    `instance_name`: Generated when left out.

    `parameters`: Name to value.

    `submodules`: Submodule id to its configuration.
    """
    return Call(
        Preview,
        (application_id,),
        body=given(
            {
                "revisionId": revision_id,
                "version": version,
                "environmentId": environment_id,
                "destroyInterval": destroy_interval,
                "instanceName": instance_name,
                "parameters": parameters,
                "submodules": submodules,
            }
        ),
    )
