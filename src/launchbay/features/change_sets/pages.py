"""Change sets: what changes would do, who approves them, and their results."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import msgspec
from starlette.responses import Response

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.console.assets import Glyph
from launchbay.console.forms import parse_number, seen_tag
from launchbay.console.request import HOME, PageRequest, Routes, user_names
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed
from launchbay.features.change_sets import usecases as change_sets
from launchbay.features.change_sets.rows import ChangeSet, ChangeSetInstance
from launchbay.features.change_sets.rules import ChangePolicy
from launchbay.features.change_sets.usecases import (
    ChangeAct,
    ChangeSetRequest,
    ChangeSetView,
    Promise,
    read_promise,
    waiting_for,
)
from launchbay.features.directories.plans import KEEP
from launchbay.features.plans.rules import PlannedStep, cost_of, count_effects, deletions, read_steps
from launchbay.features.plans.usecases import Consent
from launchbay.ids import is_id
from launchbay.limits import CONSOLE_PAGE_ROWS, CONSOLE_SUGGESTIONS
from launchbay.model.freezes import shown_freeze
from launchbay.usecases.applications import list_applications
from launchbay.usecases.environments import list_environments
from launchbay.usecases.fleet import InstanceFilter
from launchbay.usecases.roles import list_roles

routes = Routes()

# Names that the buttons of forms send.
SAVE = "save change set"
STATUSES: dict[str, tuple[Glyph, str]] = {
    "Pending": (Glyph.WAIT, "Needs approval"),
    "Ready": (Glyph.WAIT, "Ready to apply"),
    "Rejected": (Glyph.FAIL, "Rejected"),
    "Expired": (Glyph.STOPPED, "Expired"),
    "Applying": (Glyph.BUSY, "Being applied"),
    "Succeeded": (Glyph.OK, "Applied"),
    "Failed": (Glyph.FAIL, "Failed"),
}
RESULTS: dict[str, tuple[Glyph, str]] = {
    "Planned": (Glyph.QUEUED, "Not applied"),
    "Running": (Glyph.BUSY, "In progress"),
    "Succeeded": (Glyph.OK, "Succeeded"),
    "Failed": (Glyph.FAIL, "Failed"),
}
SIGNS: dict[str, tuple[Glyph, str]] = {
    "+": (Glyph.OK, "Created"),
    "~": (Glyph.WARN, "Changed"),
    "-": (Glyph.FAIL, "Deleted"),
    "=": (Glyph.STOPPED, "Kept"),
}
_DAY_MS = 24 * 3_600_000
EXPIRIES = ((_DAY_MS, "in 1 day"), (limits.CHANGE_SET_EXPIRY_MS, "in 1 week"), (30 * _DAY_MS, "in 30 days"))
_VERBS = {
    "launch": "Launch",
    "reconfigure": "Change",
    "version": "Change the version of",
    "relaunch": "Launch again",
    "manage": "Take over",
    "destroy": "Destroy",
}
_TITLE_CHARS = 120
_SHOWN = 50  # instances of a page
_POLICIES = 50  # environments of a page
_MOST_APPROVALS = 20
_OTHERS = 6  # beside one change set
_read_sentences = msgspec.json.Decoder(list[str]).decode


class PlannedInstance(NamedTuple):
    """What happens to an instance, and what became of it."""

    row: ChangeSetInstance
    promise: Promise
    keeps: int
    differences: list[str] | None


class Workflow(NamedTuple):
    """A workflow that runs on so many instances."""

    name: str
    number: int
    usual_ms: int | None


class Total(NamedTuple):
    """What happens to all instances together."""

    changes: Counter[str]
    workflows: list[Workflow]
    usual_ms: int
    made: int
    released: int
    warnings: Counter[str]
    permissions: list[tuple[str, str]]


@routes.get("/console/organizations/{id}/changes", query=("after",))
async def list_all(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show the change sets of an organization, and who approves them.

    The form of a policy names the organization.
    """
    organization_id = request.form.text("organization", request.path("id"))
    request.ask_frame(organization_id)
    asked_rows = request.ask(
        change_sets.list_change_sets(
            request.ctx, organization_id, after=request.query("after"), count=CONSOLE_PAGE_ROWS + 1
        )
    )
    asked_policies = request.ask(change_sets.list_change_policies(request.ctx, organization_id))
    asked_roles = request.ask(_roles(request, organization_id))
    asked_asking = request.ask(change_sets.list_asking(request.ctx, organization_id))
    rows = await asked_rows
    shown = rows[:CONSOLE_PAGE_ROWS]
    people = request.ask(user_names(request, organization_id, [row.owner_id for row in shown]))
    policies = (await asked_policies)[:_POLICIES]
    roles = await asked_roles
    return await request.page(
        "change_sets/templates/change_sets.html",
        section="approvals",
        organization_id=organization_id,
        problem=problem,
        rows=[(row, title_of(row), STATUSES[row.status]) for row in shown],
        policies=[(row, policy, seen_tag(_stored(policy))) for row, policy in policies],
        roles=roles,
        role_suggestions=list(roles.values())[:CONSOLE_SUGGESTIONS],
        asking={row.id for row in await asked_asking},
        people=people,
        next_after=shown[-1].id if len(rows) > CONSOLE_PAGE_ROWS else None,
    )


@routes.post("/console/environments/{id}/changePolicy", again=list_all)
async def set_policy(request: PageRequest) -> Response:
    """Set how many approve the change sets of an environment, and with which role."""
    form = request.form
    approvals = parse_number(form.text("approvals"), 2)
    if approvals is None or approvals > _MOST_APPROVALS:
        raise BadRequest(f"Approvals: expected a number from 0 to {_MOST_APPROVALS}.", code="InvalidField")
    role = form.text("role")
    if role and not is_id(role):  # the field has the ID of a role that its user can't see
        ids = {name: role_id for role_id, name in (await _roles(request, form.text("organization"))).items()}
        if role not in ids:
            raise BadRequest(
                f"You can see no role {role!r}.", "Use the name of a role.", code="InvalidField", field="role"
            )
        role = ids[role]
    before = await change_sets.read_change_policy(request.ctx, request.path("id"))
    policy = msgspec.structs.replace(before, approvals=approvals, role_id=role or None)
    async with request.unless_changed("environments", request.path("id"), partial(_read_policy, request)):
        await change_sets.set_change_policy(request.ctx, request.path("id"), policy)
    return request.redirect(f"{HOME}/organizations/{form.text('organization')}/changes", "Policy saved.")


async def _read_policy(request: PageRequest) -> dict[str, str]:
    return _stored(await change_sets.read_change_policy(request.ctx, request.path("id")))


def _stored(policy: ChangePolicy) -> dict[str, str]:
    return {"approvals": str(policy.approvals), "role": policy.role_id or ""}


async def _roles(request: PageRequest, organization_id: str) -> dict[str, str]:
    """Return the names of roles by ID; empty for who may not read them."""
    try:
        return {row.id: row.name for row in await list_roles(request.ctx, organization_id)}
    except NotAllowed:
        return {}


@routes.get("/console/organizations/{id}/changes/{change}", query=("after", "compare"))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    """Show what a change set does, who decides, and what became of it."""
    ctx, organization_id = request.ctx, request.path("id")
    request.ask_frame(organization_id)
    view = await change_sets.read_compared(ctx, request.path("change"), compare=bool(request.query("compare")) or None)
    found, permissions = view.change_set, await request.permissions(organization_id)
    planned = [_planned(row) for row in view.instances]
    plans = _plans(view)
    after = parse_number(request.query("after")) or 0
    rest = [each for each in planned if each.row.place > after]
    is_open = found.status in {"Pending", "Ready"}
    # Not before: the comparison is a transaction of its own.
    asked_people = request.ask(user_names(request, organization_id, [found.owner_id, found.applied_by]))
    newest = request.ask(change_sets.list_change_sets(ctx, organization_id, after=None, count=_OTHERS + 1))
    applications = request.ask(list_applications(ctx, organization_id))
    environments = request.ask(list_environments(ctx, organization_id))
    people = await asked_people
    in_environments = {each.row.environment_id for each in planned}
    return await request.page(
        "change_sets/templates/change_set.html",
        section="approvals",
        organization_id=organization_id,
        problem=problem,
        found=found,
        title=title_of(found, view.instances),
        summary=_summary(found, view.instances),
        state=STATUSES[found.status],
        waiting=None if view.stale else waiting_for(view),
        answers=view.answers,
        approvals=sum(each.approves and each.user_id not in view.lost for each in view.answers),
        lost=view.lost,
        may_answer=view.may_answer,
        may_apply=(bool(planned) and permissions.apply_change_set(view.instances))
        if view.directory is None
        else view.directory.may_apply,
        directory=view.directory,
        signs=SIGNS,
        changed=[each for each in view.directory.objects if each.sign != KEEP] if view.directory else [],
        kept=[each for each in view.directory.objects if each.sign == KEEP] if view.directory else [],
        may_delete=found.status != "Applying" and permissions.control(found, request.actor),
        is_open=is_open,
        is_compared=view.stale is not None,
        stale=view.stale or [],
        planned=rest[:_SHOWN],
        total=_total([each.promise for each in planned]),
        hidden=found.instances - len(planned),
        next_after=rest[_SHOWN - 1].row.place if len(rest) > _SHOWN else None,
        results=RESULTS,
        plans=plans,
        effects=count_effects(step for each in plans for step in each.steps),
        cost=cost_of(step for each in plans for step in each.steps).text(),
        deleted=deletions(step for each in plans for step in each.steps),
        plan_digest=view.plan_digest,
        follow_ups=view.follow_ups,
        follows=view.follows,
        applications={row.id: row.name for row in await applications},
        environments={row.id: row.name for row in await environments},
        frozen=[
            (row.name, freeze)
            for row in await environments
            if row.id in in_environments and (freeze := shown_freeze(row.freezes, request.now())) is not None
        ],
        others=[(row, title_of(row), STATUSES[row.status]) for row in await newest if row.id != found.id][:_OTHERS],
        owner=people.get(found.owner_id, found.owner_email),
        applied_by=people.get(found.applied_by or "", "a user"),
        comment_chars=limits.CHANGE_SET_COMMENT_CHARS,
    )


@routes.post("/console/organizations/{id}/changes/{change}/answer", again=show, refusals=(BadRequest, Conflict))
async def answer(request: PageRequest) -> Response:
    """Approve or reject a change set."""
    approves = request.form.text("do") == "approve"
    consent = await _consent(request)
    with _in_words_of_the_form():
        await change_sets.answer_change_set(
            request.ctx,
            request.path("change"),
            approves=approves,
            comment=request.form.text("comment"),
            consent=consent,
        )
    return request.redirect(_path(request), "Approved." if approves else "Rejected.")


@routes.post("/console/organizations/{id}/changes/{change}/apply", again=show, refusals=(BadRequest, Conflict))
async def apply(request: PageRequest) -> Response:
    """Apply a change set exactly as it was shown."""
    consent = await _consent(request)
    with _in_words_of_the_form():
        await change_sets.apply_change_set(request.ctx, request.path("change"), consent)
    found = (await change_sets.read_change_set(request.ctx, request.path("change"))).change_set
    is_over = found.status not in {"Ready", "Applying"}
    return request.redirect(_path(request), "Applied." if is_over else "The change set is being applied.")


@routes.get("/console/organizations/{id}/changes/{change}/delete")
async def delete_page(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    found = (await change_sets.read_change_set(request.ctx, request.path("change"))).change_set
    return await request.confirm_deletion(
        problem,
        section="approvals",
        organization_id=request.path("id"),
        name=title_of(found),
        consequence="The change set and its answers are deleted. What it has applied stays.",
        path=_path(request),
        allowed=(await request.permissions(request.path("id"))).control(found, request.actor),
        needed=Permission.EDIT_INSTANCE,
    )


@routes.post("/console/organizations/{id}/changes/{change}/delete", again=delete_page, refusals=(BadRequest, Conflict))
async def delete(request: PageRequest) -> Response:
    await change_sets.delete_change_set(request.ctx, request.path("change"))
    return request.redirect(f"{HOME}/organizations/{request.path('id')}/changes", "Change set deleted.")


async def save(
    request: PageRequest,
    organization_id: str,
    act: ChangeAct,
    *,
    ids: list[str] | None = None,
    wanted: InstanceFilter | None = None,
) -> Response:
    """Keep what a form would do, with the fields of `macros.save_change`. Raises BadRequest."""
    form = request.form
    expiry = parse_number(form.text("changeExpiry"), 12)
    wish = ChangeSetRequest(
        act=act,
        ids=ids,
        wanted=wanted,
        comment=form.text("changeComment"),
        expires_in_ms=expiry if expiry in dict(EXPIRIES) else limits.CHANGE_SET_EXPIRY_MS,
        on_failure="rollback" if form.has("changeRollback") else "keep",
        with_plans=form.has("changePlan"),
    )
    made = await change_sets.create_change_set(request.ctx, organization_id, wish)
    return request.redirect(f"{HOME}/organizations/{organization_id}/changes/{made}", "Change set saved.")


def title_of(found: ChangeSet, rows: Sequence[ChangeSetInstance] = ()) -> str:
    """Return the first line of the comment, or what the change set does."""
    first = found.comment.strip().partition("\n")[0].strip()
    if not first:
        return _summary(found, rows)
    return first if len(first) <= _TITLE_CHARS else f"{first[:_TITLE_CHARS]}…"


def _summary(found: ChangeSet, rows: Sequence[ChangeSetInstance] = ()) -> str:
    if found.kind == "apply":
        return f"Apply the directory of {found.git_commit[:10]}" if found.git_commit else "Apply a directory"
    number = found.instances
    what = rows[0].instance_name if len(rows) == number == 1 else f"{number} instance{'' if number == 1 else 's'}"
    # With the version that they have, only their configuration changes: so is what follows a change that stopped.
    keeps = found.kind == "version" and len(rows) > 0 and all(_keeps_version(read_promise(row.promise)) for row in rows)
    return f"{_VERBS['reconfigure' if keeps else found.kind]} {what}"


def _keeps_version(promise: Promise) -> bool:
    return promise.version == promise.former_version


def _planned(row: ChangeSetInstance) -> PlannedInstance:
    promise = read_promise(row.promise)
    keeps = sum(each.change == "keeps" for each in promise.components)
    return PlannedInstance(row, promise, keeps, None if row.differences is None else _read_sentences(row.differences))


class InstanceEffects(NamedTuple):
    """The plan of one instance. Without steps, `problem` or the status says why."""

    name: str
    status: str
    problem: str | None
    steps: list[PlannedStep]


def _plans(view: ChangeSetView) -> list[InstanceEffects]:
    return [
        InstanceEffects(row.instance_name, plan.status, plan.problem, read_steps(plan.result or "[]"))
        for row in view.instances
        if (plan := view.plans.get(row.place)) is not None
    ]


@contextmanager
def _in_words_of_the_form() -> Iterator[None]:
    """Say of deletions that aren't allowed how the page allows them."""
    try:
        yield
    except Conflict as error:
        if error.code != "DeletionsNotAllowed":
            raise
        raise Conflict(error.messages[0], "To allow that, check the box that allows it.", code=error.code) from error


async def _consent(request: PageRequest) -> Consent:
    """Return the consent to the shown plans, with deletions if the box is checked."""
    deletes: list[str] = []
    if request.form.has("allowDeletes"):
        # The digest makes sure that these are the ones that were shown.
        view = await change_sets.read_change_set(request.ctx, request.path("change"))
        deletes = deletions(step for each in _plans(view) for step in each.steps)
    return Consent(allow_deletes=deletes, digest=request.form.text("planDigest"))


def _total(promises: Sequence[Promise]) -> Total:
    numbers: Counter[str] = Counter()
    usual: dict[str, int | None] = {}
    for promise in promises:
        for workflow in promise.workflows:
            numbers[workflow.name] += 1
            usual[workflow.name] = workflow.usual_ms if workflow.usual_ms is not None else usual.get(workflow.name)
    used = dict.fromkeys((each.permission, each.resource) for promise in promises for each in promise.permissions)
    return Total(
        changes=Counter(each.change for promise in promises for each in promise.components),
        workflows=[Workflow(name, number, usual[name]) for name, number in numbers.items()],
        # Instances change at the same time: the slowest one counts.
        usual_ms=max((sum(each.usual_ms or 0 for each in promise.workflows) for promise in promises), default=0),
        made=sum(len(promise.machines_made) for promise in promises),
        released=sum(len(promise.machines_released) for promise in promises),
        warnings=Counter(text for promise in promises for text in promise.warnings),
        permissions=list(used),
    )


def _path(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/changes/{request.path('change')}"
