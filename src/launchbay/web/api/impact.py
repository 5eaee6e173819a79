"""What a manifest version would do to the live instances of its application."""

from typing import Annotated

import msgspec

from launchbay.usecases import impact
from launchbay.usecases.impact import Impact, ImpactGroup
from launchbay.web.requests import Request, YamlBody
from launchbay.web.routing import Returns, Routes

routes = Routes("Applications", extension=True)


class ImpactQuery(msgspec.Struct, frozen=True):
    """The version."""

    version: Annotated[int, msgspec.Meta(ge=1, lt=2**31, description="Default: the newest.")] | None = None


class ImpactComponent(msgspec.Struct):
    """A component that would start, change or stop, and the pins that would change."""

    path: str
    change: str
    parameters: list[str]


class ImpactInstance(msgspec.Struct):
    """An instance of a group."""

    id: str
    name: str


class ImpactItem(msgspec.Struct, kw_only=True):
    """Instances with the same outcome: how many, and the first 20."""

    outcome: Annotated[str, msgspec.Meta(description="`fails`, `changes`, or `keeps` if only the version changes.")]
    fromVersion: int
    count: int
    components: list[ImpactComponent]
    workflows: list[str]
    errors: list[str]
    instances: list[ImpactInstance]


class ImpactDocument(msgspec.Struct, kw_only=True):
    """How many instances would fail, change or keep what they have."""

    version: Annotated[int | None, msgspec.Meta(description="Null for a manifest that isn't saved.")]
    present: Annotated[int, msgspec.Meta(description="How many have the version already.")]
    fails: int
    changes: int
    keeps: int
    groups: list[ImpactItem]


_SHOWN = Returns("The impact, the largest groups first.", type=ImpactDocument)


@routes.get("/applications/{appId}/impact", permission="Read", returns=_SHOWN, computes=True)
async def read_impact(request: Request[None, ImpactQuery]) -> ImpactDocument:
    """Show what a version would do to live instances."""
    return _document(await impact.impact_of_version(request.ctx, request.path["appId"], request.query.version))


@routes.post(
    "/applications/{appId}/impact",
    permission="EditApplication; Read",
    body=YamlBody(example="launch:\n  steps: []\n"),
    returns=_SHOWN,
    computes=True,
)
async def preview_impact(request: Request[str, None]) -> ImpactDocument:
    """Show what a manifest that isn't saved would do."""
    return _document(await impact.impact_of_manifest(request.ctx, request.path["appId"], request.body))


def _document(found: Impact) -> ImpactDocument:
    order = {"fails": 0, "changes": 1, "keeps": 2}
    groups = sorted(found.groups.values(), key=lambda group: (order[group.outcome.kind], -group.count))
    return ImpactDocument(
        version=found.version,
        present=found.present,
        fails=found.count("fails"),
        changes=found.count("changes"),
        keeps=found.count("keeps"),
        groups=[_item(group) for group in groups],
    )


def _item(group: ImpactGroup) -> ImpactItem:
    outcome = group.outcome
    return ImpactItem(
        outcome=outcome.kind,
        fromVersion=outcome.former_version,
        count=group.count,
        components=[ImpactComponent(path, change, list(pins)) for path, change, pins in outcome.components],
        workflows=list(outcome.workflows),
        errors=list(outcome.errors),
        instances=[ImpactInstance(instance_id, name) for instance_id, name in group.first],
    )
