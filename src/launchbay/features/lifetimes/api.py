"""How long instances live: rules, extensions."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from launchbay.clock import to_ms
from launchbay.features.lifetimes import usecases as lifetimes
from launchbay.features.lifetimes.rules import LifetimeRules
from launchbay.model.expiry import IfExists
from launchbay.usecases import workflows
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import optional_ms
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes(extension=True)
_EXAMPLE: dict[str, Any] = {"defaultMs": 86_400_000, "greatestMs": 604_800_000, "mayNever": False, "extensions": 3}


class LifetimeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rules for how long instances live. Null means that there is no such rule."""

    defaultMs: Annotated[
        int | None, msgspec.Meta(description="For launches that don't say how long; -1 means without an end.")
    ] = None
    greatestMs: Annotated[int | None, msgspec.Meta(description="The longest life, from the launch.")] = None
    mayNever: Annotated[bool, msgspec.Meta(description="Whether an instance may live on without an end.")] = True
    extendMs: Annotated[int | None, msgspec.Meta(description="The maximum time that one extension adds.")] = None
    extensions: Annotated[int | None, msgspec.Meta(description="How often an instance may be extended.")] = None
    graceMs: Annotated[
        int | None, msgspec.Meta(description="How long a destroy waits and can be taken back. Forced ones don't wait.")
    ] = None
    idleMs: Annotated[
        int | None, msgspec.Meta(description="An instance without a run for so long is destroyed; an hour or more.")
    ] = None
    mail: Annotated[bool, msgspec.Meta(description="Whether owners are warned by email, too.")] = False
    ifExists: Annotated[
        IfExists | UnsetType | None,
        msgspec.Meta(
            description="What launches do whose name a living instance has, if they don't say it: `fail`, `return` "
            "that instance, or `allow` a second one. With the first two, no instance is renamed to such a name."
        ),
    ] = UNSET


class ComingEvent(msgspec.Struct, kw_only=True):
    """What will happen by itself: `warning` or `destroy`."""

    kind: str
    at: int
    text: str


class WaitingDestroyDocument(msgspec.Struct, kw_only=True):
    """A destroy within its grace time."""

    at: Annotated[int, msgspec.Meta(description="When the instance is destroyed.")]
    requestedAt: int
    requestedBy: str
    isStopped: Annotated[bool, msgspec.Meta(description="Whether `stop` was run, and taking it back runs `start`.")]
    isIdle: Annotated[bool, msgspec.Meta(description="Whether the rule for idle instances asked for it.")]
    text: Annotated[str, msgspec.Meta(description="That it is destroyed, when, and what it changes to take it back.")]


class LifetimeDocument(msgspec.Struct, kw_only=True):
    """How long an instance lives, by the rules of its application and environment."""

    createdAt: int
    destroyAt: Annotated[
        int | None, msgspec.Meta(description="The end of its lifetime. `coming` says what ends it first.")
    ]
    latestAt: Annotated[int | None, msgspec.Meta(description="The latest end that the rules allow.")]
    idleEndsAt: Annotated[int | None, msgspec.Meta(description="When it is destroyed if nothing runs until then.")]
    extensions: int
    rules: LifetimeBody
    waitingDestroy: Annotated[
        WaitingDestroyDocument | None, msgspec.Meta(description="A destroy that can be taken back.")
    ]
    coming: Annotated[list[ComingEvent], msgspec.Meta(description="What will happen automatically, in order.")]


class ExtendBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How much longer the instance is to live."""

    byMs: int


class ExtendedDocument(msgspec.Struct, kw_only=True):
    """The new end."""

    destroyAt: int
    endsFirst: Annotated[
        str | None, msgspec.Meta(description="What destroys the instance before that all the same.")
    ] = None


class UndoneDocument(msgspec.Struct, kw_only=True):
    """The schedule that starts the instance again, as soon as no job runs.

    Null if it wasn't stopped.
    """

    scheduleId: str | None


@routes.get(
    "/applications/{appId}/lifetime",
    command="application lifetime",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The rules.", _EXAMPLE),
)
async def read_application_lifetime(request: Request[None, None]) -> LifetimeBody:
    """Show how long instances of an application may live."""
    return _rules(await lifetimes.read_rules(request.ctx, "application", request.path["appId"]))


@routes.put(
    "/applications/{appId}/lifetime",
    command="application set-lifetime",
    tags=("Applications",),
    permission="EditApplication",
    body=JsonBody(example=_EXAMPLE),
)
async def replace_application_lifetime(request: Request[LifetimeBody, None]) -> None:
    """Set how long instances of an application may live."""
    await lifetimes.replace_rules(request.ctx, "application", request.path["appId"], _given(request.body))


@routes.get(
    "/environments/{envId}/lifetime",
    command="environment lifetime",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The rules.", _EXAMPLE),
)
async def read_environment_lifetime(request: Request[None, None]) -> LifetimeBody:
    """Show how long instances in an environment may live."""
    return _rules(await lifetimes.read_rules(request.ctx, "environment", request.path["envId"]))


@routes.put(
    "/environments/{envId}/lifetime",
    command="environment set-lifetime",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example=_EXAMPLE),
)
async def replace_environment_lifetime(request: Request[LifetimeBody, None]) -> None:
    """Set how long instances in an environment may live."""
    await lifetimes.replace_rules(request.ctx, "environment", request.path["envId"], _given(request.body))


@routes.get(
    "/instances/{id}/lifetime",
    command="instance lifetime",
    tags=("Instances",),
    permission="Read",
    returns=Returns("The lifetime."),
)
async def read_lifetime(request: Request[None, None]) -> LifetimeDocument:
    """Show how long an instance lives, and what will happen when."""
    found = await lifetimes.read_lifetime(request.ctx, request.path["id"])
    waiting = found.waiting_destroy
    return LifetimeDocument(
        createdAt=to_ms(found.created_at),
        destroyAt=optional_ms(found.destroy_at),
        latestAt=optional_ms(found.latest),
        idleEndsAt=optional_ms(found.idle_ends_at),
        extensions=found.extensions,
        rules=_rules(found.rules),
        waitingDestroy=None
        if waiting is None
        else WaitingDestroyDocument(
            at=to_ms(waiting.due_at),
            requestedAt=to_ms(waiting.created_at),
            requestedBy=waiting.owner_id,
            isStopped=waiting.undo_workflow != "",
            isIdle=waiting.is_idle,
            text=found.ends.message or "",
        ),
        coming=[ComingEvent(kind=kind, at=to_ms(at), text=text) for kind, at, text in found.coming],
    )


@routes.post(
    "/instances/{id}/lifetime/extend",
    tags=("Instances",),
    permission="RunInstanceWorkflow for the workflow extend",
    body=JsonBody(example={"byMs": 86_400_000}),
    returns=Returns("The new end.", {"destroyAt": 1_798_761_600_000, "endsFirst": None}),
)
async def extend_instance(request: Request[ExtendBody, None]) -> ExtendedDocument:
    """Let an instance live longer, within the rules."""
    destroy_at, ends_first = await lifetimes.extend(request.ctx, request.path["id"], request.body.byMs)
    return ExtendedDocument(destroyAt=to_ms(destroy_at), endsFirst=ends_first)


@routes.post(
    "/instances/{id}/lifetime/undo-destroy",
    command="instance undo-destroy",
    tags=("Instances",),
    permission="EditInstance",
    returns=Returns("What starts the instance again.", {"scheduleId": EXAMPLE_ID}),
    statuses=(409,),
)
async def undo_destroy(request: Request[None, None]) -> UndoneDocument:
    """Take back a destroy within its grace time."""
    return UndoneDocument(scheduleId=await workflows.undo_destroy(request.ctx, request.path["id"]))


def _given(body: LifetimeBody) -> LifetimeRules:
    return LifetimeRules(
        default_ms=body.defaultMs,
        greatest_ms=body.greatestMs,
        may_never=body.mayNever,
        extend_ms=body.extendMs,
        extensions=body.extensions,
        grace_ms=body.graceMs,
        idle_ms=body.idleMs,
        mail=body.mail,
        if_exists=body.ifExists or None,
    )


def _rules(rules: LifetimeRules) -> LifetimeBody:
    return LifetimeBody(
        defaultMs=rules.default_ms,
        greatestMs=rules.greatest_ms,
        mayNever=rules.may_never,
        extendMs=rules.extend_ms,
        extensions=rules.extensions,
        graceMs=rules.grace_ms,
        idleMs=rules.idle_ms,
        mail=rules.mail,
        ifExists=rules.if_exists or UNSET,
    )
