"""The past of instances: changes in order, and differences between states."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import from_ms, to_ms
from launchbay.features.history import usecases as history
from launchbay.features.history.usecases import Change, Difference, State
from launchbay.model.manifest_difference import ManifestDifference
from launchbay.usecases import manifest_differences
from launchbay.usecases.context import Context
from launchbay.web.api.instances import instance_document
from launchbay.web.requests import Request
from launchbay.web.responses import JSONResponse, MomentMs, Pages, Response, next_link, optional_ms
from launchbay.web.routing import Returns, Routes

routes = Routes("Instances", extension=True)


class ChangedField(msgspec.Struct, rename={"from_": "from"}, kw_only=True):
    """A changed field.

    `names` are the parts that changed, of a field with parts. `diff` has their values.
    """

    field: str
    from_: str | int | None
    to: str | int | None
    names: list[str]


class TimelineEntry(msgspec.Struct, kw_only=True):
    """What changed at once, and the job that did it, if one did.

    The oldest entry may be the creation.
    """

    id: str
    at: int
    kind: Literal["created", "changed"]
    jobId: str | None
    jobNumber: int | None
    workflow: str | None
    ownerId: str | None
    changes: list[ChangedField]


@routes.get(
    "/instances/{id}/timeline",
    command="instance timeline",
    permission="Read",
    returns=Returns("The changes, newest first.", type=list[TimelineEntry]),
)
async def list_timeline(request: Request[None, Pages]) -> Response:
    """List the changes of an instance."""
    query = request.query
    limit = query.most_items
    before = None if query.after is None else min(int(query.after, 16), 2**63 - 1)
    found = await history.list_timeline(request.ctx, request.path["id"], before=before, count=limit)
    shown = [_entry(each) for each in found.changes]
    has_room = len(shown) < limit
    if found.created is not None and has_room:
        status = ChangedField(field="status", from_=None, to=found.created, names=[])
        shown.append(
            TimelineEntry(
                id="0" * 24, at=to_ms(found.created_at), kind="created", jobId=None, jobNumber=None, workflow=None,
                ownerId=None, changes=[status],
            )
        )  # fmt: skip
    has_more = found.has_more or (found.created is not None and not has_room)
    return JSONResponse(shown, next_link(request, shown[-1].id) if has_more else ())


def _entry(change: Change) -> TimelineEntry:
    row = change.row
    return TimelineEntry(
        id=f"{row.id:024x}",
        at=to_ms(row.at),
        kind="changed",
        jobId=row.job_id,
        jobNumber=row.number,
        workflow=row.name,
        ownerId=row.owner_id,
        changes=[ChangedField(field=each.field, from_=each.before, to=each.after, names=each.names)
                 for each in change.fields],
    )  # fmt: skip


class DiffQuery(msgspec.Struct, frozen=True, rename={"from_": "from"}, kw_only=True):
    """The two states."""

    from_: Annotated[MomentMs | None, msgspec.Meta(description="The first time. Default: now.")] = None
    to: Annotated[MomentMs | None, msgspec.Meta(description="The second time. Default: now.")] = None
    otherId: (
        Annotated[
            str,
            msgspec.Meta(
                pattern="^[0-9a-f]{24}$", max_length=24, description="Take the second state from this other instance."
            ),
        ]
        | None
    ) = None


class ComparedState(msgspec.Struct):
    """One of the two; `at` is null for the present."""

    instanceId: str
    at: int | None


class DifferentValue(msgspec.Struct, rename={"from_": "from"}, kw_only=True):
    """A value that isn't the same in both."""

    path: str
    change: Literal["added", "removed", "changed"]
    from_: Any
    to: Any


class InstanceDiff(msgspec.Struct, rename={"from_": "from"}, kw_only=True):
    """What differs between two states.

    `own` is what two instances differ in however they were launched: names, ends, hosts of machines, instances of
    submodules, results and errors, and the versions if their manifests mean the same. Of two times of one instance, it
    is empty.
    """

    from_: ComparedState
    to: ComparedState
    differences: list[DifferentValue]
    own: list[DifferentValue]
    manifest: Annotated[
        ManifestDifference | None,
        msgspec.Meta(
            description="What their manifests differ in. Null if you may not read the application, or a version no"
            " longer compiles."
        ),
    ]


@routes.get(
    "/instances/{id}/diff",
    permission="Read, also on the other instance",
    returns=Returns("The differences."),
    computes=True,
)
async def diff_instance(request: Request[None, DiffQuery]) -> InstanceDiff:
    """Compare two states of one or two instances."""
    query, instance_id = request.query, request.path["id"]
    one = await history.read_state(request.ctx, instance_id, moment(query.from_))
    other = await history.read_state(request.ctx, query.otherId or instance_id, moment(query.to))
    manifest = await manifest_differences.compare_manifests_of(request.ctx, one.view, other.view)
    found = history.differences(one, other, is_same_manifest=manifest is not None and not manifest)
    return InstanceDiff(
        from_=_compared(one, query.from_),
        to=_compared(other, query.to),
        differences=_different_values(found.values),
        own=_different_values(found.own),
        manifest=manifest,
    )


def _different_values(found: Sequence[Difference]) -> list[DifferentValue]:
    return [DifferentValue(path=each.path, change=each.change, from_=each.before, to=each.after) for each in found]


def moment(at_ms: int | None) -> datetime | None:
    """Return the last moment that is shown as this millisecond."""
    return None if at_ms is None else from_ms(at_ms) + timedelta(microseconds=999)


def _compared(state: State, at_ms: int | None) -> ComparedState:
    return ComparedState(state.view.detail.id, at_ms)


async def past_instance(ctx: Context, instance_id: str, at_ms: int) -> dict[str, Any]:
    """Return the document of an instance at a time.

    Raises BadRequest for a time that isn't recorded.
    """
    state = await history.read_state(ctx, instance_id, moment(at_ms))
    return {
        **instance_document(state.view),
        "at": optional_ms(state.at),
        "recordedSince": to_ms(state.recorded_since),
        "environment": state.environment,
        "machines": state.machines,
    }
