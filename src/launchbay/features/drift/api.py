"""Drift of instances: what differs from what they are described as."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import from_ms, to_ms
from launchbay.errors import BadRequest
from launchbay.features.drift import usecases as drift
from launchbay.features.drift.rows import PutBackRule, ScheduleRow
from launchbay.features.drift.rules import Check, Finding, Unchecked, count_new, is_ignored_at
from launchbay.features.recurring.usecases import Timing
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Pages, Response, optional_ms, page
from launchbay.web.routing import Returns, Routes

routes = Routes("Instances", extension=True)
_AT_MS = 1_798_761_600_000
_DAY_MS = 24 * 3_600_000


class CheckBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How to check."""

    baseline: Annotated[bool, msgspec.Meta(description="What differs now is known from then on, and no finding.")] = (
        False
    )


class IgnoreBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why a finding is ignored, and until when in milliseconds since the Unix epoch."""

    reason: str
    until: int


class DriftScheduleBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When instances are checked."""

    cron: Annotated[
        str | None,
        msgspec.Meta(
            description="As of a recurring schedule. Without it, the schedule of the manifest applies, if it has one."
        ),
    ] = None
    zone: str = "UTC"
    jitter: Annotated[
        int, msgspec.Meta(ge=0, le=_DAY_MS, description="Delays each time by a random part of it, in milliseconds.")
    ] = 0
    paused: Annotated[
        bool,
        msgspec.Meta(
            description="No checks by schedule, also none of the manifest, and no emails, until somebody sets it again."
        ),
    ] = False
    mail: Annotated[
        bool,
        msgspec.Meta(
            description="Owners get an email about new findings, once a day at most. The server needs an SMTP server."
        ),
    ] = False

    def timing(self) -> Timing | None:
        return drift.timing_of_request(
            self.cron, zone=self.zone, jitter_ms=self.jitter, is_paused=self.paused, mail=self.mail
        )


class PutBackRuleBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is put back without anybody. In patterns, `*` stands for any text."""

    addresses: Annotated[
        list[str], msgspec.Meta(description="All that a launch may touch. None: nothing is put back.")
    ] = []
    allowDeletes: Annotated[list[str], msgspec.Meta(description="Those of them that it may delete.")] = []
    mostPerDay: Annotated[int, msgspec.Meta(description="How often an address is put back within a day.")] = 3

    def rule(self) -> drift.PutBack | None:
        """Return the rule; None for one without addresses."""
        return drift.PutBack(self.addresses, self.allowDeletes, self.mostPerDay) if self.addresses else None


class PutBackRuleDocument(msgspec.Struct, kw_only=True):
    """What is put back without anybody."""

    addresses: list[str]
    allowDeletes: list[str]
    mostPerDay: int
    ownerEmail: Annotated[str, msgspec.Meta(description="On whose behalf: who set it last.")]
    problem: Annotated[str | None, msgspec.Meta(description="Why it has stopped.")]


class DriftScheduleDocument(msgspec.Struct, kw_only=True):
    """When instances are checked.

    `nextAt` is the next time without jitter, in milliseconds since the Unix epoch.
    """

    cron: str | None
    zone: str
    jitter: int
    nextAt: int | None
    ownerEmail: Annotated[str, msgspec.Meta(description="On whose behalf: who set it last.")]
    problem: Annotated[str | None, msgspec.Meta(description="Why it stopped, or what it left out the last time.")]
    paused: bool
    mail: Annotated[bool, msgspec.Meta(description="Whether owners hear of new findings by email.")]
    fromManifest: Annotated[
        bool, msgspec.Meta(description="It is that of the manifest, and nobody has set another one.")
    ]


class InstanceScheduleDocument(DriftScheduleDocument, kw_only=True):
    """A schedule of an instance, and where it comes from."""

    source: Annotated[str, msgspec.Meta(description="instance, application, environment or manifest.")]
    replaced: Annotated[
        bool, msgspec.Meta(description="It isn't in effect: the application or environment has another one.")
    ]


class FindingDocument(msgspec.Struct, kw_only=True):
    """How one address differs. Secrets are masked.

    Times are in milliseconds since the Unix epoch.
    `from` is what the instance is described as, and `to` what was found: the attributes that differ.
    """

    id: str
    state: Annotated[str, msgspec.Meta(description="new, ignored, put back, taken over or gone.")]
    kind: Annotated[str, msgspec.Meta(description="changed, missing, or extra: nothing describes it.")]
    address: str
    component: str
    step: str
    described: dict[str, Any] = msgspec.field(name="from")
    found: dict[str, Any] = msgspec.field(name="to")
    note: str
    firstSeen: int
    lastSeen: int
    reason: str
    until: int | None
    byEmail: str
    changeSetId: Annotated[str | None, msgspec.Meta(description="The change set that puts it back, or takes it over.")]
    remedy: Annotated[str, msgspec.Meta(description="What to do, if the value can't be taken over.")]


class CheckDocument(msgspec.Struct, kw_only=True):
    """One check of the history."""

    at: int
    new: int
    ignored: int
    unchecked: int
    baseline: bool
    problem: str


class DriftDocument(msgspec.Struct, kw_only=True):
    """How an instance differs from what it is described as.

    Times are in milliseconds since the Unix epoch.
    The findings are as of `checkedAt`. With a `problem`, the last check found nothing out.
    """

    instanceId: str
    status: Annotated[str, msgspec.Meta(description="Unchecked, Waiting, Checking, Checked or Failed.")]
    ahead: Annotated[int, msgspec.Meta(description="Checks of the organization before this one, if it waits.")]
    counts: Annotated[dict[str, int], msgspec.Meta(description="Findings that are new, and that are ignored.")]
    checkedAt: int | None
    baselineAt: Annotated[int | None, msgspec.Meta(description="When it was noted what isn't a finding.")]
    problem: str | None
    problemAt: int | None
    unchecked: Annotated[list[Unchecked], msgspec.Meta(description="Steps of which a plan doesn't know all.")]
    findings: list[FindingDocument]
    checks: Annotated[list[CheckDocument], msgspec.Meta(description="The last 20, the newest first.")]
    putBack: Annotated[str | None, msgspec.Meta(description="What keeps a rule from putting it back.")]
    schedules: Annotated[
        list[InstanceScheduleDocument], msgspec.Meta(description="When it is checked, of what the caller may read.")
    ]


class DriftedDocument(msgspec.Struct, kw_only=True):
    """An instance with findings, or whose last check failed."""

    id: str
    name: str
    status: Annotated[str, msgspec.Meta(description="That of the instance, which drift doesn't change.")]
    counts: dict[str, int]
    checkedAt: int | None
    problem: str | None


class MadeDocument(msgspec.Struct, kw_only=True):
    """A change set that was made."""

    changeSetId: str


@routes.post(
    "/instances/{id}/drift/check",
    permission="Read and EditInstance",
    body=JsonBody(example={"baseline": False}),
    returns=Returns("The drift so far. The check is made in the background.", type=DriftDocument),
    shown_by="read_drift",
)
async def check_drift(request: Request[CheckBody, None]) -> DriftDocument:
    """Check how an instance differs from what it is described as."""
    await drift.check_drift(request.ctx, request.path["id"], learns=request.body.baseline)
    return await _read(request)


@routes.get(
    "/instances/{id}/drift/report",
    permission="Read",
    returns=Returns("The drift.", type=DriftDocument),
)
async def read_drift(request: Request[None, None]) -> DriftDocument:
    """Show how an instance differs from what it is described as."""
    return await _read(request)


@routes.get(
    "/organizations/{orgId}/drift",
    permission="Read on each instance returned",
    returns=Returns("The instances.", type=list[DriftedDocument]),
)
async def list_drift(request: Request[None, Pages]) -> Response:
    """List the instances with findings or problems."""
    limit = request.query.most_items
    rows = await drift.list_drift(request.ctx, request.path["orgId"], after=request.query.after, count=limit + 1)
    return page(
        request,
        [
            DriftedDocument(
                id=row.instance_id,
                name=row.name,
                status=row.status,
                counts={"new": row.new, "ignored": row.ignored},
                checkedAt=optional_ms(row.checked_at),
                problem=row.problem,
            )
            for row in rows
        ],
        limit,
    )


@routes.put(
    "/instances/{id}/drift/findings/{findingId}/ignored",
    permission="EditInstance",
    body=JsonBody(example={"reason": "The autoscaler changes it.", "until": _AT_MS}),
    statuses=(409,),
    shown_by="read_drift",
)
async def ignore_drift(request: Request[IgnoreBody, None]) -> None:
    """Ignore a finding until a date."""
    try:
        until = from_ms(request.body.until)
    except (OverflowError, ValueError):
        raise BadRequest("until: no time in milliseconds since the Unix epoch.", code="InvalidFinding") from None
    await drift.ignore_drift(request.ctx, request.path["id"], request.path["findingId"], request.body.reason, until)


@routes.delete(
    "/instances/{id}/drift/findings/{findingId}/ignored",
    permission="EditInstance",
    statuses=(409,),
    shown_by="read_drift",
)
async def watch_drift(request: Request[None, None]) -> None:
    """Take back that a finding is ignored."""
    await drift.watch_drift(request.ctx, request.path["id"], request.path["findingId"])


@routes.post(
    "/instances/{id}/drift/put-back",
    command="drift put-back",
    permission="EditInstance; RunInstanceWorkflow to apply the change set",
    returns=Returns("The change set, whose plan is made in the background.", type=MadeDocument),
    statuses=(409,),
    shown_by="read_drift",
)
async def put_back_drift(request: Request[None, None]) -> MadeDocument:
    """Make a change set that puts back all that differs."""
    return MadeDocument(changeSetId=await drift.put_back_drift(request.ctx, request.path["id"]))


@routes.post(
    "/instances/{id}/drift/findings/{findingId}/take-over",
    command="drift take-over",
    permission="Read and EditInstance",
    returns=Returns("The drift. A check looks for the parameter in the background.", type=DriftDocument),
    statuses=(409,),
    shown_by="read_drift",
)
async def take_over_drift(request: Request[None, None]) -> DriftDocument:
    """Make a change set that gives a parameter the found value."""
    await drift.take_over_drift(request.ctx, request.path["id"], request.path["findingId"])
    return await _read(request)


_NIGHTLY: dict[str, Any] = {"cron": "0 3 * * *", "zone": "Europe/Berlin", "jitter": 3_600_000}
_TIMES = Returns(
    "When they are checked; `cron` is null for never.",
    {
        **_NIGHTLY,
        "nextAt": _AT_MS,
        "ownerEmail": "ada@example.com",
        "problem": None,
        "paused": False,
        "mail": False,
        "fromManifest": False,
    },
)


@routes.get(
    "/applications/{appId}/drift-schedule",
    command="application drift-schedule",
    tags=("Applications",),
    permission="Read",
    returns=_TIMES,
)
async def read_application_drift_schedule(request: Request[None, None]) -> DriftScheduleDocument:
    """Show when instances of an application are checked for drift."""
    return _times(await drift.read_schedule(request.ctx, "application", request.path["appId"]))


@routes.put(
    "/applications/{appId}/drift-schedule",
    command="application set-drift-schedule",
    tags=("Applications",),
    permission="EditApplication",
    body=JsonBody(example=_NIGHTLY),
)
async def set_application_drift_schedule(request: Request[DriftScheduleBody, None]) -> None:
    """Set when instances of an application are checked for drift."""
    await drift.set_schedule(
        request.ctx, "application", request.path["appId"], request.body.timing(), mail=request.body.mail
    )


@routes.get(
    "/environments/{envId}/drift-schedule",
    command="environment drift-schedule",
    tags=("Environments",),
    permission="Read",
    returns=_TIMES,
)
async def read_environment_drift_schedule(request: Request[None, None]) -> DriftScheduleDocument:
    """Show when instances in an environment are checked for drift."""
    return _times(await drift.read_schedule(request.ctx, "environment", request.path["envId"]))


@routes.put(
    "/environments/{envId}/drift-schedule",
    command="environment set-drift-schedule",
    tags=("Environments",),
    permission="EditEnvironment",
    body=JsonBody(example=_NIGHTLY),
)
async def set_environment_drift_schedule(request: Request[DriftScheduleBody, None]) -> None:
    """Set when instances in an environment are checked for drift."""
    await drift.set_schedule(
        request.ctx, "environment", request.path["envId"], request.body.timing(), mail=request.body.mail
    )


@routes.get("/instances/{id}/drift/check-schedule", command="drift schedule", permission="Read", returns=_TIMES)
async def read_drift_schedule(request: Request[None, None]) -> DriftScheduleDocument:
    """Show when an instance is checked for drift."""
    return _times(await drift.read_schedule(request.ctx, "instance", request.path["id"]))


@routes.put(
    "/instances/{id}/drift/check-schedule",
    command="drift set-schedule",
    permission="EditInstance",
    body=JsonBody(example=_NIGHTLY),
)
async def set_drift_schedule(request: Request[DriftScheduleBody, None]) -> None:
    """Set when an instance is checked for drift."""
    await drift.set_schedule(request.ctx, "instance", request.path["id"], request.body.timing(), mail=request.body.mail)


_RULE: dict[str, Any] = {"addresses": ["dns_record.*"], "allowDeletes": [], "mostPerDay": 3}
_RULE_ANSWER = Returns(
    "The rule. Without addresses, nothing is put back.", {**_RULE, "ownerEmail": "ada@example.com", "problem": None}
)


@routes.get(
    "/applications/{appId}/put-back-rule",
    command="application put-back-rule",
    tags=("Applications",),
    permission="Read",
    returns=_RULE_ANSWER,
)
async def read_application_put_back_rule(request: Request[None, None]) -> PutBackRuleDocument:
    """Show what is put back in instances of an application."""
    return _rule(await drift.read_put_back_rule(request.ctx, "application", request.path["appId"]))


@routes.put(
    "/applications/{appId}/put-back-rule",
    command="application set-put-back-rule",
    tags=("Applications",),
    permission="EditApplication; EditInstance and RunInstanceWorkflow to put back",
    body=JsonBody(example=_RULE),
)
async def set_application_put_back_rule(request: Request[PutBackRuleBody, None]) -> None:
    """Set what is put back in instances of an application."""
    await drift.set_put_back_rule(request.ctx, "application", request.path["appId"], request.body.rule())


@routes.get(
    "/environments/{envId}/put-back-rule",
    command="environment put-back-rule",
    tags=("Environments",),
    permission="Read",
    returns=_RULE_ANSWER,
)
async def read_environment_put_back_rule(request: Request[None, None]) -> PutBackRuleDocument:
    """Show what is put back in instances of an environment."""
    return _rule(await drift.read_put_back_rule(request.ctx, "environment", request.path["envId"]))


@routes.put(
    "/environments/{envId}/put-back-rule",
    command="environment set-put-back-rule",
    tags=("Environments",),
    permission="EditEnvironment; EditInstance and RunInstanceWorkflow to put back",
    body=JsonBody(example=_RULE),
)
async def set_environment_put_back_rule(request: Request[PutBackRuleBody, None]) -> None:
    """Set what is put back in instances of an environment."""
    await drift.set_put_back_rule(request.ctx, "environment", request.path["envId"], request.body.rule())


@routes.get(
    "/instances/{id}/drift/put-back-rule", command="drift put-back-rule", permission="Read", returns=_RULE_ANSWER
)
async def read_put_back_rule(request: Request[None, None]) -> PutBackRuleDocument:
    """Show what is put back in an instance."""
    return _rule(await drift.read_put_back_rule(request.ctx, "instance", request.path["id"]))


@routes.put(
    "/instances/{id}/drift/put-back-rule",
    command="drift set-put-back-rule",
    permission="EditInstance; RunInstanceWorkflow to put back",
    body=JsonBody(example=_RULE),
)
async def set_put_back_rule(request: Request[PutBackRuleBody, None]) -> None:
    """Set what is put back in an instance."""
    await drift.set_put_back_rule(request.ctx, "instance", request.path["id"], request.body.rule())


def _rule(row: PutBackRule | None) -> PutBackRuleDocument:
    if row is None:
        return PutBackRuleDocument(addresses=[], allowDeletes=[], mostPerDay=3, ownerEmail="", problem=None)
    return PutBackRuleDocument(
        addresses=row.addresses,
        allowDeletes=row.allow_deletes,
        mostPerDay=row.most_per_day,
        ownerEmail=row.owner_email,
        problem=row.problem,
    )


def _times(row: ScheduleRow | None) -> DriftScheduleDocument:
    return DriftScheduleDocument(**_fields_of(row))


def _fields_of(row: ScheduleRow | None) -> dict[str, Any]:
    return {
        "cron": None if row is None else row.cron,
        "zone": "UTC" if row is None else row.zone,
        "jitter": 0 if row is None else row.jitter_ms,
        "nextAt": None if row is None else optional_ms(row.due_at),
        "ownerEmail": "" if row is None else row.owner_email,
        "problem": None if row is None else row.problem,
        "paused": row is not None and row.is_paused,
        "mail": row is not None and row.mail,
        "fromManifest": row is not None and row.of_manifest,
    }


def _of_instance(source: drift.Source, row: ScheduleRow) -> InstanceScheduleDocument:
    return InstanceScheduleDocument(**_fields_of(row), source=source, replaced=row.is_replaced)


async def _read(request: Request[Any, None]) -> DriftDocument:
    report = await drift.read_drift(request.ctx, request.path["id"])
    schedules = await drift.read_schedules(request.ctx, request.path["id"])
    now_ms = to_ms(request.ctx.app.clock.now())
    row = report.row
    return DriftDocument(
        instanceId=report.instance.id,
        status=report.status,
        ahead=report.ahead,
        counts=_counts(report.findings, now_ms),
        checkedAt=None if row is None else optional_ms(row.checked_at),
        baselineAt=None if row is None else optional_ms(row.known_since),
        problem=None if row is None else row.problem,
        problemAt=None if row is None else optional_ms(row.problem_at),
        unchecked=report.unchecked,
        findings=[_finding(each, now_ms) for each in report.findings],
        checks=[_check(each) for each in report.checks],
        putBack=None if row is None else row.put_back_message,
        schedules=[_of_instance(source, each) for source, each in schedules.items()],
    )


def _counts(findings: list[Finding], now_ms: int) -> dict[str, int]:
    new = count_new(findings, now_ms)
    return {"new": new, "ignored": sum(each.is_open for each in findings) - new}


def _finding(finding: Finding, now_ms: int) -> FindingDocument:
    difference = finding.difference
    is_over = finding.state == "ignored" and not is_ignored_at(finding, now_ms)
    return FindingDocument(
        id=finding.id,
        state="new" if is_over else finding.state,
        kind=difference.kind,
        address=difference.address,
        component=difference.component,
        step=difference.step,
        described=difference.described,
        found=difference.found,
        note=difference.note,
        firstSeen=finding.first_seen,
        lastSeen=finding.last_seen,
        reason=finding.reason,
        until=finding.until,
        byEmail=finding.by,
        changeSetId=finding.change_set_id,
        remedy=finding.remedy,
    )


def _check(check: Check) -> CheckDocument:
    return CheckDocument(
        at=check.at,
        new=check.new,
        ignored=check.ignored,
        unchecked=check.unchecked,
        baseline=check.learned,
        problem=check.problem,
    )
