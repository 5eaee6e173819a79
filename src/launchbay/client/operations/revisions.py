"""Operations of the API: revisions.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Mapping
from types import NoneType
from typing import Any

from msgspec import UNSET, UnsetType

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import Created, Named, RevisionDocument


@list_operation(
    Row(
        id="list_revisions",
        method="GET",
        path="/api/1/applications/{appId}/revisions",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_revisions(application_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[Named]]:
    """Lists the named revisions of an application.

    Needs: Read.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Named], (application_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_revision",
        method="POST",
        path="/api/1/applications/{appId}/revisions",
        media_type="application/json",
        keyed=True,
    )
)
def create_revision(
    application_id: str,
    *,
    name: str,
    instance_id: str | None = None,
    version: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    environment_id: str | UnsetType | None = UNSET,
    submodules: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Created]:
    """Creates a revision from an instance, or from a manifest version with what goes with it.

    Needs: EditApplication; Read on the instance or environment named.
    """
    return Call(
        Created,
        (application_id,),
        body=given(
            {
                "name": name,
                "instanceId": instance_id,
                "version": version,
                "parameters": parameters,
                "environmentId": environment_id,
                "submodules": submodules,
            },
            nullable=("environmentId",),
        ),
        idempotency_key=idempotency_key,
    )


@operation(Row(id="read_revision", method="GET", path="/api/1/revisions/{revId}"))
def read_revision(revision_id: str) -> Call[RevisionDocument]:
    """Reads a revision.

    Needs: Read on its application.
    """
    return Call(RevisionDocument, (revision_id,))


@operation(Row(id="change_revision", method="PUT", path="/api/1/revisions/{revId}", media_type="application/json"))
def change_revision(
    revision_id: str,
    *,
    name: str | None = None,
    instance_id: str | None = None,
    version: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    environment_id: str | UnsetType | None = UNSET,
    submodules: Mapping[str, Any] | None = None,
) -> Call[None]:
    """Changes what the body names of a revision.

    Needs: EditApplication on its application; Read on the instance or environment named.
    """
    return Call(
        NoneType,
        (revision_id,),
        body=given(
            {
                "name": name,
                "instanceId": instance_id,
                "version": version,
                "parameters": parameters,
                "environmentId": environment_id,
                "submodules": submodules,
            },
            nullable=("environmentId",),
        ),
    )


@operation(Row(id="delete_revision", method="DELETE", path="/api/1/revisions/{revId}"))
def delete_revision(revision_id: str) -> Call[None]:
    """Deletes a revision; instances launched from it stay.

    Needs: EditApplication on its application.
    """
    return Call(NoneType, (revision_id,))
