"""Rules about changes of an organization, an application or an environment."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.features.change_rules import usecases as change_rules
from launchbay.features.change_rules.usecases import Owner, RulesText
from launchbay.web.requests import JsonBody, Request
from launchbay.web.routing import Returns, Routes

routes = Routes(extension=True)
_RULES = """\
- name: quiet-friday
  when: $.time.weekday == 'FRI' && $.time.hour >= 14
  timeZone: Europe/Berlin
  deny: Nothing changes on a Friday afternoon.
"""
_EXAMPLE: dict[str, Any] = {"rules": _RULES}
_SHOWN: dict[str, Any] = {"version": 3, **_EXAMPLE, "byId": "5f" * 12, "byEmail": "ada@example.com"}
_SHOWN["at"] = 1_798_761_600_000
_SAVED: dict[str, Any] = {
    "version": 3,
    "saved": True,
    "recent": {"changes": 200, "refused": [], "warned": 3, "unchecked": [], "missing": None},
}


class RulesQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which version."""

    version: (
        Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1, description="Default: the version that is in force.")] | None
    ) = None


class RulesBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rules about changes."""

    rules: Annotated[str, msgspec.Meta(description="The rules as YAML. An empty text removes them.")]
    dryRun: Annotated[bool, msgspec.Meta(description="Only check them, and compare them with recent changes.")] = False


class RulesVersion(msgspec.Struct, kw_only=True):
    """Who wrote a version of rules, and when."""

    version: Annotated[int, msgspec.Meta(description="0: there never were rules.")]
    byId: Annotated[str | None, msgspec.Meta(description="The ID of the user who wrote it.")]
    byEmail: str | None
    at: Annotated[int | None, msgspec.Meta(description="In milliseconds since the Unix epoch.")]


class RulesDocument(RulesVersion, kw_only=True):
    """A version of rules."""

    rules: Annotated[str, msgspec.Meta(description="YAML; empty if there are no rules.")]


class RefusedChangeDocument(msgspec.Struct, kw_only=True):
    """A recent change that rules would have refused."""

    at: Annotated[int, msgspec.Meta(description="In milliseconds since the Unix epoch.")]
    by: str
    operation: str
    object: str
    outcome: Annotated[
        Literal["deny", "needs"], msgspec.Meta(description="`needs`: with a change set or approvals, it is allowed.")
    ]
    sentence: str


class RecentCheckDocument(msgspec.Struct, kw_only=True):
    """What rules would have said to recent changes, by the audit log.

    Objects and roles are as they are now.
    """

    changes: Annotated[int, msgspec.Meta(description="How many changes were compared.")]
    refused: Annotated[list[RefusedChangeDocument], msgspec.Meta(description="Newest first.")]
    warned: int
    unchecked: Annotated[
        list[str], msgspec.Meta(description="Rules that read parameters, which the audit log doesn't have.")
    ]
    missing: Annotated[str | None, msgspec.Meta(description="Why nothing was compared.")]


class RulesSaved(msgspec.Struct, kw_only=True):
    """The version in force, and what rules would have said to recent changes."""

    version: int
    saved: bool
    recent: RecentCheckDocument


@routes.get(
    "/organizations/{orgId}/change-rules",
    command="organization rules",
    tags=("Organizations",),
    permission="None, for members",
    returns=Returns("The rules.", _SHOWN),
)
async def read_organization_rules(request: Request[None, RulesQuery]) -> RulesDocument:
    """Show the rules about changes of an organization."""
    return await _read(request, "organization", "orgId")


@routes.put(
    "/organizations/{orgId}/change-rules",
    command="organization set-rules",
    tags=("Organizations",),
    permission="EditRules for everything",
    body=JsonBody(example=_EXAMPLE),
    returns=Returns("The rules are in force.", _SAVED),
)
async def replace_organization_rules(request: Request[RulesBody, None]) -> RulesSaved:
    """Set the rules about changes of an organization."""
    return await _replace(request, "organization", "orgId")


@routes.get(
    "/organizations/{orgId}/change-rules/versions",
    command="organization rule-versions",
    tags=("Organizations",),
    permission="None, for members",
)
async def list_organization_rules(request: Request[None, None]) -> list[RulesVersion]:
    """List the versions of an organization's rules, newest first."""
    return await _versions(request, "organization", "orgId")


@routes.get(
    "/applications/{appId}/change-rules",
    command="application rules",
    tags=("Applications",),
    permission="Read",
    returns=Returns("The rules.", _SHOWN),
)
async def read_application_rules(request: Request[None, RulesQuery]) -> RulesDocument:
    """Show the rules about changes of an application."""
    return await _read(request, "application", "appId")


@routes.put(
    "/applications/{appId}/change-rules",
    command="application set-rules",
    tags=("Applications",),
    permission="EditRules",
    body=JsonBody(example=_EXAMPLE),
    returns=Returns("The rules are in force.", _SAVED),
)
async def replace_application_rules(request: Request[RulesBody, None]) -> RulesSaved:
    """Set the rules about changes of an application."""
    return await _replace(request, "application", "appId")


@routes.get(
    "/applications/{appId}/change-rules/versions",
    command="application rule-versions",
    tags=("Applications",),
    permission="Read",
)
async def list_application_rules(request: Request[None, None]) -> list[RulesVersion]:
    """List the versions of an application's rules, newest first."""
    return await _versions(request, "application", "appId")


@routes.get(
    "/environments/{envId}/change-rules",
    command="environment rules",
    tags=("Environments",),
    permission="Read",
    returns=Returns("The rules.", _SHOWN),
)
async def read_environment_rules(request: Request[None, RulesQuery]) -> RulesDocument:
    """Show the rules about changes of an environment."""
    return await _read(request, "environment", "envId")


@routes.put(
    "/environments/{envId}/change-rules",
    command="environment set-rules",
    tags=("Environments",),
    permission="EditRules",
    body=JsonBody(example=_EXAMPLE),
    returns=Returns("The rules are in force.", _SAVED),
)
async def replace_environment_rules(request: Request[RulesBody, None]) -> RulesSaved:
    """Set the rules about changes of an environment."""
    return await _replace(request, "environment", "envId")


@routes.get(
    "/environments/{envId}/change-rules/versions",
    command="environment rule-versions",
    tags=("Environments",),
    permission="Read",
)
async def list_environment_rules(request: Request[None, None]) -> list[RulesVersion]:
    """List the versions of an environment's rules, newest first."""
    return await _versions(request, "environment", "envId")


async def _read(request: Request[None, RulesQuery], kind: Owner, parameter: str) -> RulesDocument:
    found = await change_rules.read_rules(request.ctx, kind, request.path[parameter], request.query.version)
    return RulesDocument(**_written(found), rules=found.rules)


async def _replace(request: Request[RulesBody, None], kind: Owner, parameter: str) -> RulesSaved:
    ctx, owner_id, text = request.ctx, request.path[parameter], request.body.rules
    found = await change_rules.check_recent(ctx, kind, owner_id, text)
    if request.body.dryRun:
        version = (await change_rules.read_rules(ctx, kind, owner_id)).version
    else:
        version = await change_rules.replace_rules(ctx, kind, owner_id, text)
    refused = [
        RefusedChangeDocument(
            at=to_ms(each.at),
            by=each.by,
            operation=each.operation,
            object=each.object,
            outcome=each.outcome,
            sentence=each.sentence,
        )
        for each in found.refused
    ]
    recent = RecentCheckDocument(
        changes=found.changes,
        refused=refused,
        warned=found.warned,
        unchecked=list(found.unchecked),
        missing=found.missing,
    )
    return RulesSaved(version=version, saved=not request.body.dryRun, recent=recent)


async def _versions(request: Request[None, None], kind: Owner, parameter: str) -> list[RulesVersion]:
    found = await change_rules.list_versions(request.ctx, kind, request.path[parameter])
    return [RulesVersion(**_written(each)) for each in found]


def _written(found: RulesText) -> dict[str, Any]:
    at = None if found.created_at is None else to_ms(found.created_at)
    return {"version": found.version, "byId": found.author_id, "byEmail": found.author_email, "at": at}
