"""Freezes of environments and applications, by a switch and in windows."""

from typing import Annotated, Any

import msgspec

from launchbay.auth.lookup import RuleOwner
from launchbay.features.freezes import usecases as freezes
from launchbay.model.freezes import FreezeWindow
from launchbay.usecases.context import Context
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import optional_ms
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)
_EXAMPLE: dict[str, Any] = {"reason": "Incident 4711: no changes until the database is back."}
_SHOWN = {
    **_EXAMPLE,
    "byId": "5f" * 12,
    "byEmail": "ada@example.com",
    "at": 1_798_761_600_000,
    "until": None,
    "next": {"reason": "Holidays", "beginsAt": 1_798_761_600_000, "until": 1_799_107_200_000},
}
_WINDOWS: dict[str, Any] = {
    "windows": [
        {
            "reason": "Weekend",
            "beginsAt": "18:00",
            "endsAt": "0 7 * * MON",
            "days": ["FRI"],
            "zone": "Europe/Berlin",
        },
        {"reason": "Holidays", "firstDay": "2026-12-20", "lastDay": "2027-01-04", "zone": "Europe/Berlin"},
    ]
}


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class FreezeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why nothing changes."""

    reason: Annotated[str, _about("Everyone who is refused sees it.")]


class NextFreeze(msgspec.Struct, kw_only=True):
    """A window that begins next."""

    reason: str
    beginsAt: int | None
    until: Annotated[int | None, _about("When it ends. Null: one window follows the other without end.")]


class FreezeDocument(msgspec.Struct, kw_only=True):
    """The freeze of an environment or application, and the next one."""

    reason: str | None
    byId: Annotated[str | None, _about("The ID of the user who froze it. Null: a window did.")]
    byEmail: str | None
    at: Annotated[int | None, _about("Since when somebody has frozen it, in milliseconds since the Unix epoch.")]
    until: Annotated[int | None, _about("When the window ends. Null: until somebody lifts the freeze.")] = None
    next: Annotated[NextFreeze | None, _about("The next window. Null: no window begins.")] = None


class FreezeWindowBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A time in which nothing changes: one that returns, or days."""

    reason: Annotated[str, _about("Everyone who is refused sees it.")]
    beginsAt: Annotated[str, _about("When it begins: 18:00, or a cron expression.")] = ""
    endsAt: Annotated[str, _about("When it ends: 07:00, or a cron expression.")] = ""
    days: Annotated[list[str], _about("The days on which a time begins, such as FRI. Default: every day.")] = []
    firstDay: Annotated[str, _about("Instead of `beginsAt`: the first day, such as 2026-12-20.")] = ""
    lastDay: Annotated[str, _about("The last day, which it includes.")] = ""
    zone: Annotated[str, _about("The IANA time zone, such as Europe/Berlin.")] = "UTC"


class FreezeWindowsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When nothing changes, again and again or on certain days."""

    windows: Annotated[
        list[FreezeWindowBody], _about("All of them. Without windows, nothing freezes automatically.")
    ] = []


_FREEZE = Returns("The freeze.", _SHOWN)


@routes.get(
    "/environments/{envId}/freeze",
    command="environment freeze",
    tags=("Environments",),
    permission="Read",
    returns=_FREEZE,
)
async def read_freeze(request: Request[None, None]) -> FreezeDocument:
    """Show why nothing changes in an environment."""
    return await _freeze(request.ctx, "environment", request.path["envId"])


@routes.put(
    "/environments/{envId}/freeze",
    command="environment set-freeze",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example=_EXAMPLE),
    shown_by=None,  # it waits for launches, and those for the lock of a condition
)
async def set_freeze(request: Request[FreezeBody, None]) -> None:
    """Stop all changes in an environment."""
    await freezes.set_freeze(request.ctx, "environment", request.path["envId"], request.body.reason)


@routes.delete(
    "/environments/{envId}/freeze",
    command="environment lift-freeze",
    tags=("Environments",),
    permission="EditEnvironment",
)
async def lift_freeze(request: Request[None, None]) -> None:
    """Allow changes in an environment again."""
    await freezes.set_freeze(request.ctx, "environment", request.path["envId"], None)


@routes.get(
    "/environments/{envId}/freeze-windows",
    command="environment freeze-windows",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The windows.", _WINDOWS),
)
async def read_freeze_windows(request: Request[None, None]) -> FreezeWindowsBody:
    """Show when nothing changes in an environment."""
    return await _windows(request.ctx, "environment", request.path["envId"])


@routes.put(
    "/environments/{envId}/freeze-windows",
    command="environment set-freeze-windows",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example=_WINDOWS),
    shown_by=None,  # as `set_freeze`
)
async def replace_freeze_windows(request: Request[FreezeWindowsBody, None]) -> None:
    """Set when nothing changes in an environment."""
    await freezes.replace_windows(request.ctx, "environment", request.path["envId"], _given(request.body))


@routes.get(
    "/applications/{appId}/freeze",
    command="application freeze",
    tags=("Applications",),
    permission="Read",
    returns=_FREEZE,
)
async def read_application_freeze(request: Request[None, None]) -> FreezeDocument:
    """Show why nothing of an application changes."""
    return await _freeze(request.ctx, "application", request.path["appId"])


@routes.put(
    "/applications/{appId}/freeze",
    command="application set-freeze",
    tags=("Applications",),
    permission="EditApplication",
    body=JsonBody(example=_EXAMPLE),
    shown_by=None,  # as `set_freeze`
)
async def set_application_freeze(request: Request[FreezeBody, None]) -> None:
    """Stop all changes of an application, its revisions and instances."""
    await freezes.set_freeze(request.ctx, "application", request.path["appId"], request.body.reason)


@routes.delete(
    "/applications/{appId}/freeze",
    command="application lift-freeze",
    tags=("Applications",),
    permission="EditApplication",
)
async def lift_application_freeze(request: Request[None, None]) -> None:
    """Allow changes of an application again."""
    await freezes.set_freeze(request.ctx, "application", request.path["appId"], None)


@routes.get(
    "/applications/{appId}/freeze-windows",
    command="application freeze-windows",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The windows.", _WINDOWS),
)
async def read_application_freeze_windows(request: Request[None, None]) -> FreezeWindowsBody:
    """Show when nothing of an application changes."""
    return await _windows(request.ctx, "application", request.path["appId"])


@routes.put(
    "/applications/{appId}/freeze-windows",
    command="application set-freeze-windows",
    tags=("Applications",),
    permission="EditApplication",
    body=JsonBody(example=_WINDOWS),
    shown_by=None,  # as `set_freeze`
)
async def replace_application_freeze_windows(request: Request[FreezeWindowsBody, None]) -> None:
    """Set when nothing of an application changes."""
    await freezes.replace_windows(request.ctx, "application", request.path["appId"], _given(request.body))


async def _freeze(ctx: Context, kind: RuleOwner, owner_id: str) -> FreezeDocument:
    shown = await freezes.show_freeze(ctx, kind, owner_id)
    following = None
    if shown.next is not None:
        begins_at, until = optional_ms(shown.next.begins_at), optional_ms(shown.next.until)
        following = NextFreeze(reason=shown.next.reason, beginsAt=begins_at, until=until)
    if shown.now is None:
        return FreezeDocument(reason=None, byId=None, byEmail=None, at=None, next=following)
    return FreezeDocument(
        reason=shown.now.reason,
        byId=shown.now.by_id,
        byEmail=shown.by_email,
        at=shown.now.since_ms,
        until=optional_ms(shown.now.until),
        next=following,
    )


async def _windows(ctx: Context, kind: RuleOwner, owner_id: str) -> FreezeWindowsBody:
    return FreezeWindowsBody(
        windows=[
            FreezeWindowBody(
                reason=each.reason,
                beginsAt=each.begins_at,
                endsAt=each.ends_at,
                days=list(each.days),
                firstDay=each.first_day,
                lastDay=each.last_day,
                zone=each.zone,
            )
            for each in await freezes.read_own_windows(ctx, kind, owner_id)
        ]
    )


def _given(body: FreezeWindowsBody) -> list[FreezeWindow]:
    return [
        FreezeWindow(
            reason=each.reason,
            begins_at=each.beginsAt,
            ends_at=each.endsAt,
            days=tuple(each.days),
            first_day=each.firstDay,
            last_day=each.lastDay,
            zone=each.zone,
        )
        for each in body.windows
    ]
