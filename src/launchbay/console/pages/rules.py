"""Rules of applications and environments: lifetimes, and limits of jobs."""

from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from launchbay.auth.lookup import RuleOwner
from launchbay.console.forms import SEEN, parse_number, seen_tag
from launchbay.console.request import HOME, PageRequest
from launchbay.errors import BadRequest, LaunchbayError, PreconditionFailed
from launchbay.limits import INTERVAL_LONGEST_MS
from launchbay.model.concurrency_limits import ConcurrencyLimit
from launchbay.model.durations import parse_duration_s
from launchbay.model.lifetimes import NEVER, LifetimeRules, duration
from launchbay.usecases.concurrency_limits import Group, list_groups, read_concurrency, replace_concurrency
from launchbay.usecases.lifetimes import read_rules, replace_rules

_BLANK_LIMITS = 2
# How the rows of the form are named: the key of a limit, and what it says to people.
KEYS = (
    ("application", "Runs of one application"),
    ("environment", "Runs in one environment"),
    ("label:", "Runs with the same value of a label"),
    ("lock:", "Runs that share a lock"),
)
WHEN = (
    ("queue", "Runs wait"),
    ("refuse", "Runs are refused"),
    ("cancel-older", "The oldest run is cancelled"),
)
# Fields of lengths of time: the name in the form, its label, and its hint.
LENGTHS = (
    (
        "default",
        "Lifetime of a launch that says none",
        "Such as 8 hours, 7 days, or never. Empty: the default of the server.",
    ),
    ("greatest", "Longest lifetime", "From the launch. Empty: any."),
    ("extend", "Longest extension", "Empty: any."),
    ("grace", "Grace time of a destroy", "Until then, it can be taken back. Empty: none."),
    ("idle", "Longest time without a run", "Then the instance is destroyed. An hour or more. Empty: any."),
)


class LimitRow(NamedTuple):
    """A limit in the form; an empty `limit` sets none."""

    kind: str
    name: str
    limit: str
    when: str


async def rule_values(
    request: PageRequest, kind: RuleOwner, owner_id: str, organization_id: str, problem: LaunchbayError | None
) -> dict[str, Any]:
    """Return what rules.html shows. A form that was refused keeps what it had."""
    rules = await read_rules(request.ctx, kind, owner_id)
    limits = await read_concurrency(request.ctx, kind, owner_id)
    groups = await list_groups(request.ctx, organization_id)
    form, tags = request.form, {"lifetime": seen_tag(rules), "concurrency": seen_tag(limits)}
    lifetime = _texts(rules)
    rows = [_row(limit.key, str(limit.limit), limit.when) for limit in limits]
    if problem is not None and form.has("limit"):
        rows = _sent_rows(request)
    elif problem is not None and form.has("greatest"):
        lifetime = {name: form.text(name) for name in lifetime}
    if form.has(SEEN) and not isinstance(problem, PreconditionFailed):
        tags["concurrency" if form.has("limit") else "lifetime"] = form.text(SEEN)
    return {
        "rule_kind": kind,
        "rule_base": f"{HOME}/{kind}s/{owner_id}",
        "rule_seen": tags,
        "lifetime": lifetime,
        "lengths": LENGTHS,
        "limits": [*rows, *([_row(kind, "", "queue")] * _BLANK_LIMITS)],
        "limit_keys": KEYS,
        "limit_when": WHEN,
        "limit_groups": [group for group in groups if _concerns(group, kind, owner_id)],
    }


def _concerns(group: Group, kind: RuleOwner, owner_id: str) -> bool:
    return any(
        owner_id == (row.application_id if kind == "application" else row.environment_id) for row in group.places
    )


def _texts(rules: LifetimeRules) -> dict[str, str]:
    """Return the texts of the fields, which are empty without a rule."""

    def text(ms: int | None) -> str:
        return "" if ms is None else "never" if ms == NEVER else duration(ms)

    return {
        "default": text(rules.default_ms),
        "greatest": text(rules.greatest_ms),
        "extend": text(rules.extend_ms),
        "grace": text(rules.grace_ms),
        "idle": text(rules.idle_ms),
        "extensions": "" if rules.extensions is None else str(rules.extensions),
        "must_end": "" if rules.may_never else "1",
        "mail": "1" if rules.mail else "",
    }


def _row(key: str, limit: str, when: str) -> LimitRow:
    kind, colon, name = key.partition(":")
    return LimitRow(kind + colon, name, limit, when)


def _sent_rows(request: PageRequest) -> list[LimitRow]:
    form = request.form
    sent = zip(form.all("key"), form.all("of"), form.all("limit"), form.all("when"), strict=False)
    return [LimitRow(key, of.strip(), limit.strip(), when) for key, of, limit, when in sent if limit.strip()]


async def save_lifetime(request: PageRequest, kind: RuleOwner) -> Response:
    form, owner_id = request.form, request.path("id")
    lengths = {f"{name}_ms": _length(label, form.text(name)) for name, label, _ in LENGTHS}
    extensions = parse_number(form.text("extensions"))
    if form.text("extensions") and extensions is None:
        raise BadRequest("Extensions: give a whole number, such as 3.", code="InvalidLifetime")

    async def read() -> LifetimeRules:
        return await read_rules(request.ctx, kind, owner_id)

    async with request.unless_changed(f"{kind}s", owner_id, read):
        rules = msgspec.structs.replace(
            await read(),
            **lengths,
            extensions=extensions,
            may_never=not form.has("must_end"),
            mail=form.has("mail"),
        )
        await replace_rules(request.ctx, kind, owner_id, rules)
    return request.redirect(
        f"{HOME}/{kind}s/{owner_id}/settings#lifetime", "Lifetimes saved. Later launches follow them."
    )


def _length(label: str, text: str) -> int | None:
    """Return the ms of a field, NEVER, or None. Raises BadRequest."""
    if not text:
        return None
    if text.lower() == "never":
        return NEVER
    problem = "Add a unit, such as hours or days."
    try:
        if not text.isdecimal():
            return round(parse_duration_s(text, longest_s=INTERVAL_LONGEST_MS / 1000) * 1000)
    except ValueError as error:
        problem = str(error)
    raise BadRequest(f"{label}: {problem}", code="InvalidLifetime")


async def save_limits(request: PageRequest, kind: RuleOwner) -> Response:
    owner_id = request.path("id")
    given = []
    for row in _sent_rows(request):
        most = parse_number(row.limit)
        if most is None:
            raise BadRequest(f"{row.limit[:40]!r} isn't a number of runs.", code="InvalidConcurrency")
        given.append(
            {"key": row.kind + row.name if row.kind.endswith(":") else row.kind, "limit": most, "when": row.when}
        )

    async def read() -> list[ConcurrencyLimit]:
        return await read_concurrency(request.ctx, kind, owner_id)

    async with request.unless_changed(f"{kind}s", owner_id, read):
        await replace_concurrency(request.ctx, kind, owner_id, given)
    return request.redirect(f"{HOME}/{kind}s/{owner_id}/settings#concurrency", "Limits saved. They count at once.")
