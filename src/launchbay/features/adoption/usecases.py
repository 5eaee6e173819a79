"""Instances of what runs already (decision 0232).

An adopted instance is observed: it has the parameters and the state of what is there, and no job changes anything of it
until somebody takes it over with a change set.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from launchbay import limits
from launchbay.actions.helm import installed_on
from launchbay.actions.helm_plan import shown_value
from launchbay.actions.opentofu import adopted_module
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.errors import BadRequest, NotAllowed, NotFound
from launchbay.features.adoption import rows as store
from launchbay.features.adoption.rows import AdoptionRow, KeeperRow, OwnerRow
from launchbay.features.adoption.rules import (
    HELM,
    HOSTS,
    OPENTOFU,
    AdoptedState,
    Adoptee,
    GivenHosts,
    GivenRelease,
    GivenState,
    adopted_state,
    check_hosts,
    check_manifest,
    check_releases,
    found_hosts,
    found_releases,
    placed,
    require_something,
)
from launchbay.features.drift.usecases import ask_for_check
from launchbay.features.plans.ahead import PlanRequest
from launchbay.features.plans.usecases import find_existing
from launchbay.ids import new_id
from launchbay.model.changes import Allowed, Refusal
from launchbay.model.expiry import NEVER
from launchbay.model.instance import InstanceStatus
from launchbay.planning.acceptance import OBSERVED, TAKE_OVER
from launchbay.planning.decisions import Change, Refused
from launchbay.quotas.bounds import Quota
from launchbay.store import jobs, organizations
from launchbay.store.database import Connection, foreign_key_violation_as
from launchbay.store.instances import InstanceRecord, announce_new, document_purpose
from launchbay.usecases.context import Context, Work
from launchbay.usecases.launch import (
    PlannedLaunch,
    check_name,
    ignored_by_launch,
    lock_name,
    nothing_launched,
    plan_launch_tree,
    proposal_of,
)
from launchbay.usecases.launch_tree import components_text, write_links

_KEEPS = frozenset({"destroy", "end"})  # it is forgotten then, and nothing else


class Adoption(NamedTuple):
    """An instance that was adopted, or would be; then it has no ID."""

    instance_id: str | None
    name: str
    environment_id: str
    version: int
    adopted: Sequence[Adoptee]
    left_out: Sequence[str]  # components without anything adopted


class Adopted(NamedTuple):
    """What an instance has adopted, and whether it is still only observed."""

    record: InstanceRecord
    adopted: Sequence[Adoptee]
    at: datetime | None
    by: str | None


async def adopt(
    ctx: Context,
    application_id: str,
    body: Mapping[str, Any],
    given: Sequence[GivenState],
    releases: Sequence[GivenRelease],
    hosts: Sequence[GivenHosts],
    *,
    is_trial: bool,
) -> Adoption:
    """Make an observed instance of what runs, or say what it would be.

    `body` is that of a launch, and needs the same permission. Raises BadRequest for what can't be read, has no place in
    the manifest, or belongs to an instance, and Unavailable if no server looks at releases and hosts in time.
    """
    seen = await _look(ctx, application_id, body, releases, hosts) if releases or hosts else []
    with foreign_key_violation_as("The application or its environment was deleted by another request."):
        async with ctx.begin() as work:
            announce_new.later(work.connection)
            planned = await _plan(work, application_id, body)
            root, environment = planned.root, planned.environment
            check_manifest(root.manifest)
            require_something(root.manifest, given, releases, hosts)
            states = await asyncio.to_thread(placed, root.manifest, given)  # megabytes of JSON
            adopted = [*map(_of_state, states), *seen]
            left_out = [path for path in root.manifest.order if path not in {each.component for each in adopted}]
            await organizations.lock(work.connection, organization_id=environment.organization_id)
            await _require_unadopted(work, environment.organization_id, adopted)
            await _require_name(work, planned)
            work.warn(ignored_by_launch(planned))
            await _require_allowed(work, planned, is_trial=is_trial)
            if not is_trial:
                await _write(work, planned, adopted)
    made = None if is_trial else root.instance_id
    return Adoption(made, root.name, environment.id, root.version, adopted, left_out)


def _of_state(state: AdoptedState) -> Adoptee:
    return Adoptee(
        component=state.component,
        action=OPENTOFU,
        name=state.name,
        identity=state.lineage,
        document=adopted_module(state.text),
        resources=state.resources,
        resource_count=state.resource_count,
    )


async def _look(
    ctx: Context,
    application_id: str,
    body: Mapping[str, Any],
    releases: Sequence[GivenRelease],
    hosts: Sequence[GivenHosts],
) -> list[Adoptee]:
    """Return releases and hosts as a server with an engine sees them."""
    async with ctx.begin() as work:
        planned = await _plan(work, application_id, body)
        check_manifest(planned.root.manifest)
        check_releases(planned.root.manifest, releases)
        check_hosts(planned.root.manifest, hosts)
        organization_id = planned.environment.organization_id
        if planned.destroy_after_ms is None:
            body = {**body, "destroyInterval": NEVER}
    request = PlanRequest(
        act="adopt",
        application_id=application_id,
        body=dict(body),
        override=ctx.override,
        only=sorted({*(each.component for each in hosts), *(each.component for each in releases)}),
    )
    found = await find_existing(ctx, organization_id, request, limits.ADOPTED_LOOK_S)
    adopted: dict[tuple[str, str, str], Adoptee] = {}
    for component in hosts:
        for host in found_hosts(found.steps, found.artifacts, component, application_id):
            adopted[host.component, HOSTS, host.name] = host
    for given in releases:
        for each in found_releases(found.steps, found.artifacts, given):
            adopted[given.component, HELM, each.name] = Adoptee(
                component=given.component,
                action=HELM,
                name=each.name,
                identity=each.identity,
                document=each.document,
                resources=each.resources,
                resource_count=each.resource_count,
                about=each.about,
            )
    return list(adopted.values())


async def _plan(work: Work, application_id: str, body: Mapping[str, Any]) -> PlannedLaunch:
    """Return what a launch would be.

    It has no end unless the request or the rules give one.
    """
    if body.get("destroyInterval") is None:
        try:
            return await plan_launch_tree(work, application_id, {**body, "destroyInterval": NEVER}, None)
        except BadRequest as error:
            if error.code != "LifetimeRule":
                raise
    return await plan_launch_tree(work, application_id, body, None)


async def _require_name(work: Work, planned: PlannedLaunch) -> None:
    if planned.if_exists == "allow" or planned.request.instance_name is None:
        return
    await lock_name(work, planned.application.id, planned.environment.id, planned.root.name)
    existing = await check_name(work, planned)
    if existing is not None:
        raise BadRequest(nothing_launched(planned, existing), code="NameExists", field="instanceName")


async def _require_unadopted(work: Work, organization_id: str, adopted: Sequence[Adoptee]) -> None:
    for identity, count in Counter((each.action, each.identity) for each in adopted).items():
        if count > 1:
            raise BadRequest(f"{identity[1]} is given for {count} components.", code="InvalidRelease")
    for action in (OPENTOFU, HELM, HOSTS):
        identities = [each.identity for each in adopted if each.action == action]
        found = await store.list_owners(
            work.connection, organization_id=organization_id, action=action, identities=identities
        )
        owners = {owner.identity: owner for owner in found}
        for each in adopted:
            if each.action == action and (owner := owners.get(each.identity)) is not None:
                raise await _taken(work, each, owner)
    for each in adopted:
        if each.action == HELM:
            await _require_uninstalled(work, organization_id, each)


async def _require_uninstalled(work: Work, organization_id: str, release: Adoptee) -> None:
    """Raise BadRequest if an instance has installed the release."""
    server = installed_on(release.document)
    for each in await store.list_keepers(
        work.connection, organization_id=organization_id, action=HELM, name=release.name
    ):
        document = work.app.secret_key.open(bytes(each.sealed), document_purpose(each.document_id))
        if installed_on(document) == server:
            raise await _taken(work, release, each)


async def _taken(work: Work, adopted: Adoptee, owner: OwnerRow | KeeperRow) -> BadRequest:
    """Return that something belongs to an instance."""
    try:
        await work.lookup.instance(owner.id, Permission.READ)
        who = f"the instance {owner.name!r} ({owner.id}), in its component {owner.component!r}"
    except (NotAllowed, NotFound):
        who = "an instance that you can't see"
    if isinstance(owner, KeeperRow):
        text, remedy = "was installed by", "Use that one: Launchbay manages the release already."
    else:
        text = "is adopted already by"
        remedy = "One instance has it. Destroy that one first: while it is only observed, it is just forgotten."
    return BadRequest(f"{adopted.what} {text} {who}.", remedy, code="AdoptedAlready")


async def _require_allowed(work: Work, planned: PlannedLaunch, *, is_trial: bool) -> None:
    """Raise what rules and quotas say against an instance. A trial records no override."""
    application, environment_id, proposed = planned.application, planned.environment.id, proposal_of(planned)
    if not is_trial:
        await work.decide(
            "adopt_instance",
            application,
            kind="launch",
            environment_id=environment_id,
            may_be_ruled=planned.may_be_ruled,
            at=permissions.instance(application.id, planned.root.instance_id),
            proposed=proposed,
        )
    elif planned.may_be_ruled:
        answer = await work.foresee(
            "adopt_instance", application, kind="launch", environment_id=environment_id, proposed=proposed
        )
        if isinstance(answer, Refusal):
            raise Refused(answer)
        work.warn(answer.warnings)
    await work.admit(application.organization_id, {Quota.INSTANCES: 1})


async def _write(work: Work, planned: PlannedLaunch, adopted: Sequence[Adoptee]) -> None:
    application, environment, request, root = planned.application, planned.environment, planned.request, planned.root
    at = permissions.instance(application.id, root.instance_id)
    components = {each.component for each in adopted}
    await store.insert(
        work.connection,
        instance_id=root.instance_id,
        schedule_id=new_id(),
        organization_id=environment.organization_id,
        application_id=application.id,
        environment_id=environment.id,
        revision_id=root.revision_id,
        version=root.version,
        name=root.name,
        owner_id=work.actor.user_id,
        status=InstanceStatus.RUNNING,
        parameters=msgspec.json.encode(root.parameters).decode(),
        parameter_origins=msgspec.json.encode(root.origins).decode(),
        components=components_text(root),
        environment_view=planned.view.to_text(),
        destroy_after_ms=planned.destroy_after_ms,
        labels=msgspec.json.encode(request.labels).decode(),
        state=adopted_state(adopted),
        component_count=len(root.manifest.order),
        running_count=len(components),
    )
    write_links(work, root.walk())
    for each in adopted:
        key = {"instance_id": root.instance_id, "component": each.component, "action": each.action, "name": each.name}
        if each.action != HOSTS:  # machines are in the instance's state
            document_id = new_id()
            sealed = work.app.secret_key.seal(each.document, document_purpose(document_id))
            await store.insert_document(work.connection, document_id=document_id, sealed=sealed, **key)
        await store.insert_adoption(
            work.connection,
            organization_id=environment.organization_id,
            identity=each.identity,
            resources=msgspec.json.encode(each.resources).decode(),
            resource_count=each.resource_count,
            about=None if each.about is None else msgspec.json.encode(each.about).decode(),
            adopted_by=work.actor.email,
            **key,
        )
    await ask_for_check(work, root.instance_id, environment.organization_id)
    await work.audit(
        "adopt_instance",
        application,
        after={
            "name": root.name,
            "version": root.version,
            "revisionId": request.revision_id,
            "environmentId": environment.id,
            "destroyInterval": NEVER if planned.destroy_after_ms is None else planned.destroy_after_ms,
            "parameters": work.fingerprints(request.parameters),
            "states": _named(adopted, OPENTOFU),
            "releases": _named(adopted, HELM),
            "hosts": _named(adopted, HOSTS),
        },
        at=at,
    )


def _named(adopted: Sequence[Adoptee], action: str) -> dict[str, str]:
    return {f"{each.component}/{each.name}": each.identity for each in adopted if each.action == action}


async def read_adoption(ctx: Context, instance_id: str) -> Adopted:
    """Return what an instance has adopted."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        found = await store.list_of_instance(work.connection, instance_id=record.id)
    first = found[0] if found else None
    when, who = (None, None) if first is None else (first.adopted_at, first.adopted_by)
    return Adopted(record, [_of_row(row) for row in found], when, who)


def _of_row(row: AdoptionRow) -> Adoptee:
    return Adoptee(
        component=row.component,
        action=row.action,
        name=row.name,
        identity=row.identity,
        document=b"",
        resources=msgspec.json.decode(row.resources, type=list[str]),
        resource_count=row.resource_count,
        about=None if row.about is None else _about(row.about),
    )


def _about(text: str) -> dict[str, Any]:
    """Return what is shown of a release: earlier versions kept strings too."""
    about: dict[str, Any] = msgspec.json.decode(text)
    values = about.get("otherValues", {})
    return about | {"otherValues": {path: shown_value(path, value, str) for path, value in values.items()}}


async def refuse_observed(connection: Connection, change: Change) -> Refusal | Allowed | None:
    """Refuse what would change something that is only observed."""
    if change.instance_id is None or change.kind in _KEEPS or change.operation == "take_over_instance":
        return None
    if not await jobs.is_observed(connection, instance_id=change.instance_id):
        return None
    return Refusal("deny", "InstanceObserved", OBSERVED, TAKE_OVER)
