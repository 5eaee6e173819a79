"""When instances sleep."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import from_ms
from launchbay.features.sleep_windows import usecases as sleep_windows
from launchbay.features.sleep_windows.rules import SleepRules, SleepWindow
from launchbay.limits import TIME_LATEST_MS
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import optional_ms
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)
_EXAMPLE: dict[str, Any] = {
    "windows": [
        {"sleepAt": "20:00", "wakeAt": "07:00", "days": ["MON", "TUE", "WED", "THU"], "zone": "Europe/Berlin"},
        {"sleepAt": "0 20 * * FRI", "wakeAt": "0 7 * * MON", "zone": "Europe/Berlin"},
    ]
}


class SleepWindowBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A time that returns, on the clock of a zone."""

    sleepAt: Annotated[str, msgspec.Meta(description="When it begins: 20:00, or a cron expression.")]
    wakeAt: Annotated[str, msgspec.Meta(description="When it ends: 07:00, or a cron expression.")]
    days: Annotated[
        list[str], msgspec.Meta(description="The days on which a time begins, such as MON. Default: every day.")
    ] = []
    zone: Annotated[str, msgspec.Meta(description="The IANA time zone, such as Europe/Berlin.")] = "UTC"


class SleepBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When instances sleep, and the workflows that stop and start them."""

    windows: Annotated[
        list[SleepWindowBody] | None,
        msgspec.Meta(
            description="Without it: no rule. An application with an empty list doesn't sleep with its environment."
        ),
    ] = None
    stop: Annotated[str, msgspec.Meta(description="Default: the command `stop`.")] = ""
    start: Annotated[str, msgspec.Meta(description="Default: the command `start`.")] = ""
    whenBusy: Annotated[
        Literal["queue", "skip"],
        msgspec.Meta(description="A busy instance sleeps later (`queue`), or not in this window (`skip`)."),
    ] = "queue"


class SleepDocument(msgspec.Struct, kw_only=True):
    """Whether an instance sleeps, and when that changes."""

    isAsleep: bool
    since: Annotated[int | None, msgspec.Meta(description="Since when it sleeps.")]
    sleepsAt: Annotated[int | None, msgspec.Meta(description="When it sleeps next. Past while it is busy.")]
    wakesAt: Annotated[int | None, msgspec.Meta(description="When it wakes next.")]
    keptAwakeUntil: int | None
    keptAwakeBy: Annotated[str | None, msgspec.Meta(description="The ID of the user who keeps it awake.")]
    message: Annotated[str | None, msgspec.Meta(description="Why it waits, or didn't sleep or wake the last time.")]
    ruleOf: Annotated[str | None, msgspec.Meta(description="`application` or `environment`; null without a rule.")]
    rules: SleepBody
    waitingFor: Annotated[
        str | None,
        msgspec.Meta(description="Since when it sleeps, why, and what wakes it; or what it waits for to sleep."),
    ] = None


class KeepAwakeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Until when an instance is kept awake."""

    awakeUntil: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0,
                le=TIME_LATEST_MS,
                description="Milliseconds since the Unix epoch; null lets it sleep again.",
            ),
        ]
        | None
    ) = None


@routes.get(
    "/applications/{appId}/sleep",
    command="application sleep",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The rules.", _EXAMPLE),
)
async def read_application_sleep(request: Request[None, None]) -> SleepBody:
    """Show when instances of an application sleep."""
    return _body(await sleep_windows.read_rules(request.ctx, "application", request.path["appId"]))


@routes.put(
    "/applications/{appId}/sleep",
    command="application set-sleep",
    tags=("Applications",),
    permission="EditApplication; RunInstanceWorkflow for workflows that it names",
    body=JsonBody(example=_EXAMPLE),
)
async def replace_application_sleep(request: Request[SleepBody, None]) -> None:
    """Set when instances of an application sleep."""
    await sleep_windows.replace_rules(request.ctx, "application", request.path["appId"], _given(request.body))


@routes.get(
    "/environments/{envId}/sleep",
    command="environment sleep",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The rules.", _EXAMPLE),
)
async def read_environment_sleep(request: Request[None, None]) -> SleepBody:
    """Show when instances in an environment sleep."""
    return _body(await sleep_windows.read_rules(request.ctx, "environment", request.path["envId"]))


@routes.put(
    "/environments/{envId}/sleep",
    command="environment set-sleep",
    tags=("Environments",),
    permission="EditEnvironment; RunInstanceWorkflow for workflows that it names",
    body=JsonBody(example=_EXAMPLE),
)
async def replace_environment_sleep(request: Request[SleepBody, None]) -> None:
    """Set when instances in an environment sleep."""
    await sleep_windows.replace_rules(request.ctx, "environment", request.path["envId"], _given(request.body))


@routes.get(
    "/instances/{id}/sleep",
    command="instance sleep",
    tags=("Instances",),
    permission="Read",
    returns=Returns("Whether it sleeps."),
)
async def read_sleep(request: Request[None, None]) -> SleepDocument:
    """Show whether an instance sleeps, and when that changes."""
    found = await sleep_windows.read_sleep(request.ctx, request.path["id"])
    return SleepDocument(
        isAsleep=found.is_asleep,
        since=optional_ms(found.since),
        sleepsAt=optional_ms(found.sleeps_at),
        wakesAt=optional_ms(found.wakes_at),
        keptAwakeUntil=optional_ms(found.awake_until),
        keptAwakeBy=found.awake_by,
        message=found.message,
        ruleOf=found.of,
        rules=_body(found.rules),
        waitingFor=found.waiting_for(),
    )


@routes.put(
    "/instances/{id}/sleep/awake-until",
    command="instance keep-awake",
    tags=("Instances",),
    permission="RunInstanceWorkflow for keep-awake",
    body=JsonBody(example={"awakeUntil": 1_798_761_600_000}),
    shown_by="read_sleep",
)
async def keep_awake(request: Request[KeepAwakeBody, None]) -> None:
    """Keep an instance awake until a time."""
    until = None if request.body.awakeUntil is None else from_ms(request.body.awakeUntil)
    await sleep_windows.keep_awake(request.ctx, request.path["id"], until)


def _given(body: SleepBody) -> SleepRules | None:
    if body.windows is None:
        return None
    windows = tuple(
        SleepWindow(sleep_at=each.sleepAt, wake_at=each.wakeAt, days=tuple(each.days), zone=each.zone)
        for each in body.windows
    )
    return SleepRules(windows=windows, stop=body.stop, start=body.start, when_busy=body.whenBusy)


def _body(rules: SleepRules | None) -> SleepBody:
    if rules is None:
        return SleepBody()
    windows = [
        SleepWindowBody(sleepAt=each.sleep_at, wakeAt=each.wake_at, days=list(each.days), zone=each.zone)
        for each in rules.windows
    ]
    return SleepBody(windows=windows, stop=rules.stop, start=rules.start, whenBusy=rules.when_busy)
