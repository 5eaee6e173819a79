"""Why something is allowed or not (api-decisions, "Beyond the reference")."""

from typing import Annotated

import msgspec

from launchbay.auth.permissions import OTHER_SPELLINGS, Permission
from launchbay.usecases import permissions
from launchbay.web.answers import Answer, Json
from launchbay.web.call import Call
from launchbay.web.endpoint import Endpoint, Returns

_Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{24}$", max_length=24)]
# These two are for the documentation; the use case reads both, and says more about what is wrong.
_NAMES = {"enum": [*Permission, *OTHER_SPELLINGS]}
_PATH = {
    "pattern": "^/(applications/[^/]+(/instances/[^/]+(/workflows/.+)?)?|(environments|services|roles|users)/[^/]+)$"
}


class ExplainQuery(msgspec.Struct, frozen=True):
    """Who, what, on which object."""

    permission: Annotated[
        str, msgspec.Meta(description="The permission's name, such as CreateInstance.", extra_json_schema=_NAMES)
    ]
    path: Annotated[
        str, msgspec.Meta(description="The object's path, such as /applications/{id}.", extra_json_schema=_PATH)
    ]
    user: Annotated[_Id | None, msgspec.Meta(description="The user's id; the caller without it.")] = None
    touching: Annotated[
        str | None,
        msgspec.Meta(
            description="Another object that is touched, such as a launch's /environments/{id}.",
            extra_json_schema=_PATH,
        ),
    ] = None
    organization: Annotated[_Id | None, msgspec.Meta(description="For a path of a user: in which organization.")] = None


class Explained(msgspec.Struct):
    """The decision, a sentence that says why, and the role, entry and pattern that allowed it."""

    allowed: bool
    reason: str
    role: str | None
    entry: str | None
    pattern: str | None


async def explain(call: Call[None, ExplainQuery]) -> Answer:
    """Explain a decision."""
    query = call.query
    found = await permissions.explain(
        call.services.desk,
        call.actor,
        user_id=query.user,
        permission_name=query.permission,
        path=query.path,
        touching=query.touching,
        organization_id=query.organization,
    )
    return Json(Explained(found.allowed, found.reason, found.role, found.entry, found.pattern))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/permissions/explain",
        operation_id="explain_permission",
        handler=explain,
        summary="Tells whether a user may do something, and which role, entry and pattern decide.",
        tags=("Roles",),
        permission="None for oneself, ManageRoles on the user for others",
        query=ExplainQuery,
        returns=Returns(
            Explained,
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
        addition=True,
    ),
)
