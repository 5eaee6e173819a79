"""Roles, and explanations of permissions (reference §4, Roles). Users get their roles in users.py."""

from typing import Annotated

import msgspec

from launchbay.auth.permissions import ALIASES, Permission
from launchbay.clock import to_ms
from launchbay.store.users import GroupRoles, Role
from launchbay.usecases import permissions, roles
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import JSONResponse, Paging, Response, list_response
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Roles")
permissions_routes = Routes("Roles", extension=True)

_TEXT = "- CreateInstance: [/applications/*, /environments/*]\n- EditInstance: [/applications/*]\n"
_ITEM = {"id": EXAMPLE_ID, "name": "Developer", "canEdit": True, "canDelete": True}


class RoleItem(msgspec.Struct):
    """A role as lists show it."""

    id: str
    name: str
    canEdit: bool
    canDelete: bool


class RoleDetail(RoleItem):
    """A role with its permissions, unchanged as uploaded."""

    permissions: str


class RoleBody(msgspec.Struct):
    """Name and permissions of a role."""

    name: str
    permissions: str


@routes.get(
    "/organizations/{orgId}/roles",
    permission="Read on each role returned",
    returns=Returns("The roles.", [_ITEM], type=list[RoleItem]),
)
async def list_roles(request: Request[None, Paging]) -> Response:
    """List the roles of an organization."""
    rows = await roles.list_roles(request.ctx, request.path["orgId"])
    return list_response(request, [RoleItem(row.id, row.name, row.can_edit, row.can_delete) for row in rows])


@routes.post(
    "/organizations/{orgId}/roles",
    permission="ManageRoles",
    body=JsonBody(example={"name": "Developer", "permissions": _TEXT}),
    returns=Returns("The new role.", {**_ITEM, "permissions": _TEXT}, type=RoleDetail),
    idempotency_key=True,
)
async def create_role(request: Request[RoleBody, None]) -> Response:
    """Create a role."""
    body = request.body
    return _detail(await roles.create_role(request.ctx, request.path["orgId"], body.name, body.permissions))


class RoleCheckBody(msgspec.Struct, kw_only=True):
    """The text of a role, and the role that it would replace."""

    permissions: str
    roleId: Annotated[str | None, msgspec.Meta(description="Default: a new role.")] = None


class RoleHolderChange(msgspec.Struct, kw_only=True):
    """A holder of the role, and the entries that would be gained and lost."""

    id: str
    name: str
    isServiceAccount: bool
    gains: list[str]
    losses: list[str]
    kept: Annotated[list[str], msgspec.Meta(description="Entries that another role of the holder has anyway.")]


class LostChangeDocument(msgspec.Struct, kw_only=True):
    """A change that a holder made, and could no longer make."""

    at: int
    by: str
    operation: str
    object: str
    permission: str


class RecentRoleCheck(msgspec.Struct, kw_only=True):
    """The last changes by holders, and those that the text would refuse.

    Refused requests aren't in the audit log, so nothing says which of them would be allowed.
    """

    changes: int
    refused: list[LostChangeDocument]
    missing: Annotated[str | None, msgspec.Meta(description="Why nothing was compared.")] = None


class RoleCheckDocument(msgspec.Struct, kw_only=True):
    """What is wrong with a text, and what saving it would change."""

    errors: Annotated[list[str], msgspec.Meta(description="What prevents saving, each with its line and column.")]
    warnings: Annotated[list[str], msgspec.Meta(description="Patterns that name no object.")]
    holders: list[RoleHolderChange]
    hidden: Annotated[int, msgspec.Meta(description="How many more hold the role. You aren't allowed to read them.")]
    recent: Annotated[
        "RecentRoleCheck | None", msgspec.Meta(description="How the holders' last changes fare. Null with errors.")
    ] = None


@routes.post(
    "/organizations/{orgId}/roles/check",
    permission="ManageRoles",
    body=JsonBody(example={"permissions": _TEXT}),
    returns=Returns(
        "The findings and the changes.",
        {
            "errors": [],
            "warnings": [],
            "holders": [
                {
                    "id": EXAMPLE_ID,
                    "name": "Ada Lovelace",
                    "isServiceAccount": False,
                    "gains": ["CreateInstance: [/applications/*, /environments/*]"],
                    "losses": [],
                    "kept": ["EditInstance: [/applications/*]"],
                }
            ],
            "hidden": 0,
        },
        type=RoleCheckDocument,
    ),
    extension=True,
)
async def check_role(request: Request[RoleCheckBody, None]) -> RoleCheckDocument:
    """Check the text of a role, and show who gains and loses what."""
    body = request.body
    found = await roles.check_role(request.ctx, request.path["orgId"], body.permissions, body.roleId)
    return RoleCheckDocument(
        errors=list(found.errors),
        warnings=list(found.warnings),
        holders=[
            RoleHolderChange(
                id=change.holder.id,
                name=change.holder.name,
                isServiceAccount=change.holder.is_service_account,
                gains=list(map(str, change.gains)),
                losses=list(map(str, change.losses)),
                kept=list(map(str, change.kept)),
            )
            for change in found.changes
        ],
        hidden=found.hidden,
        recent=None if found.recent is None else _recent(found.recent),
    )


def _recent(found: roles.RecentLosses) -> RecentRoleCheck:
    refused = [
        LostChangeDocument(
            at=to_ms(each.at), by=each.by, operation=each.operation, object=each.object, permission=each.permission
        )
        for each in found.refused
    ]
    return RecentRoleCheck(changes=found.changes, refused=refused, missing=found.missing)


@routes.get(
    "/roles/{roleId}", permission="Read", returns=Returns("The role.", {**_ITEM, "permissions": _TEXT}, type=RoleDetail)
)
async def read_role(request: Request[None, None]) -> Response:
    """Show a role with its permissions."""
    return _detail(await roles.read_role(request.ctx, request.path["roleId"]))


@routes.put(
    "/roles/{roleId}", permission="ManageRoles", body=JsonBody(example={"name": "Developer", "permissions": _TEXT})
)
async def update_role(request: Request[RoleBody, None]) -> None:
    """Replace the name and permissions of a role. Applies from the next request of its holders."""
    body = request.body
    await roles.update_role(request.ctx, request.path["roleId"], body.name, body.permissions)


@routes.delete("/roles/{roleId}", permission="ManageRoles")
async def delete_role(request: Request[None, None]) -> None:
    """Delete a role and revoke it from all its holders."""
    await roles.delete_role(request.ctx, request.path["roleId"])


def _detail(role: Role) -> Response:
    return JSONResponse(RoleDetail(role.id, role.name, role.can_edit, role.can_delete, role.permissions))


_Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{24}$", max_length=24)]
# These two are for the documentation; the use case reads both, and reports errors in more detail.
_NAMES = {"enum": [*Permission, *ALIASES]}
_PATH = {
    "pattern": "^/(applications/[^/]+(/instances/[^/]+(/workflows/.+)?)?|(environments|services|roles|users)/[^/]+)$"
}


class GroupItem(msgspec.Struct):
    """A group of the identity provider, and the names of its roles."""

    group: str
    roles: list[str]


_GROUPS = [{"group": "platform-team", "roles": ["Guest"]}]


@routes.get(
    "/organizations/{orgId}/groupRoles",
    command="organization group-roles",
    permission="ManageRoles",
    returns=Returns("The groups, by name.", _GROUPS, type=list[GroupItem]),
    extension=True,
)
async def list_group_roles(request: Request[None, None]) -> Response:
    """List the roles of groups of the identity provider."""
    rows = await roles.list_group_roles(request.ctx, request.path["orgId"])
    return JSONResponse([GroupItem(row.group, row.roles) for row in rows])


@routes.put(
    "/organizations/{orgId}/groupRoles",
    command="organization set-group-roles",
    permission="ManageRoles for all users",
    body=JsonBody(example=_GROUPS),
    extension=True,
)
async def replace_group_roles(request: Request[list[GroupItem], None]) -> None:
    """Replace the roles of groups.

    Members get and lose these roles when they next sign in through the identity provider.
    """
    wanted = [GroupRoles(item.group, item.roles) for item in request.body]
    await roles.replace_group_roles(request.ctx, request.path["orgId"], wanted)


class ExplainQuery(msgspec.Struct, frozen=True):
    """A user, a permission, and an object."""

    permission: Annotated[
        str, msgspec.Meta(description="The permission's name, such as CreateInstance.", extra_json_schema=_NAMES)
    ]
    path: Annotated[
        str, msgspec.Meta(description="The object's path, such as /applications/{id}.", extra_json_schema=_PATH)
    ]
    user: Annotated[_Id | None, msgspec.Meta(description="The user's ID. Default: the caller.")] = None
    touching: Annotated[
        str | None,
        msgspec.Meta(
            description="A second object of the operation, such as the /environments/{id} of a launch.",
            extra_json_schema=_PATH,
        ),
    ] = None
    organization: Annotated[
        _Id | None, msgspec.Meta(description="The organization, if the path is that of a user.")
    ] = None


class Explained(msgspec.Struct):
    """The decision, its reason, and the role, entry and pattern that allowed it."""

    allowed: bool
    reason: str
    role: str | None
    entry: str | None
    pattern: str | None
    rules: Annotated[
        list[str], msgspec.Meta(description="The rules about changes there, whoever makes them, in words.")
    ] = []
    heldBy: Annotated[str | None, msgspec.Meta(description="Users who can do it: by name, or of many their roles.")] = (
        None
    )


@permissions_routes.get(
    "/permissions/explain",
    permission="None for yourself; ManageRoles on the user for others",
    returns=Returns(
        "The decision.",
        {
            "allowed": True,
            "reason": "Role 'Guest' allows it by '/*' in 'Read: [/*]'.",
            "role": "Guest",
            "entry": "Read: [/*]",
            "pattern": "/*",
        },
    ),
    statuses=(403, 404),
)
async def explain_permission(request: Request[None, ExplainQuery]) -> Explained:
    """Explain whether a user may do something, and which role, entry and pattern decide."""
    query = request.query
    found = await permissions.explain(
        request.ctx,
        user_id=query.user,
        permission_name=query.permission,
        path=query.path,
        touching=query.touching,
        organization_id=query.organization,
    )
    return Explained(
        found.allowed, found.reason, found.role, found.entry, found.pattern, list(found.rules), found.held_by
    )
