"""What versions, revisions, environments and services would do to live instances."""

from typing import Annotated, Any

import msgspec

from launchbay.features.impact import usecases as impact
from launchbay.features.impact.usecases import EnvironmentChange, Impact, ImpactGroup
from launchbay.model.code_change import CodeChange
from launchbay.usecases.launch_request import RevisionRequest
from launchbay.web.requests import JsonBody, Request, YamlBody
from launchbay.web.routing import Returns, Routes

routes = Routes("Applications", extension=True)


class ImpactQuery(msgspec.Struct, frozen=True):
    """The version."""

    version: Annotated[int, msgspec.Meta(ge=1, lt=2**31, description="Default: the newest.")] | None = None


class ImpactValue(msgspec.Struct, rename={"from_": "from"}):
    """The value of a pin before and after; null if unset."""

    name: str
    from_: Any
    to: Any


class ImpactComponent(msgspec.Struct):
    """A component that would start, change or stop, and the pins that would change."""

    path: str
    change: str
    parameters: list[str]
    values: Annotated[
        list[ImpactValue], msgspec.Meta(description="The pins in `parameters` before and after. Secrets are masked.")
    ]


class ImpactInstance(msgspec.Struct):
    """An instance of a group."""

    id: str
    name: str


class ImpactSetting(msgspec.Struct, rename={"from_": "from"}):
    """Something that would change, with the component that uses it."""

    kind: Annotated[
        str,
        msgspec.Meta(
            description="`policy`, `marker`, `property` or `service` of an environment; `parameter`, `secret` or"
            " `signal` of a service."
        ),
    ]
    name: Annotated[str, msgspec.Meta(description="Of a service: its ID.")]
    component: str | None
    from_: Annotated[Any, msgspec.Meta(description="What the instances use now. Secrets are masked.")]
    to: Any


class ImpactItem(msgspec.Struct, kw_only=True):
    """Instances with the same outcome: how many, and the first 20."""

    outcome: Annotated[
        str, msgspec.Meta(description="`fails`, `changes`, or `keeps` if they use nothing of what changes.")
    ]
    applicationId: str
    fromVersion: int
    count: int
    components: list[ImpactComponent]
    workflows: list[str]
    code: Annotated[
        list[CodeChange],
        msgspec.Meta(description="What differs in components that stay: it applies from their next runs on."),
    ]
    settings: list[ImpactSetting]
    errors: list[str]
    instances: list[ImpactInstance]


class ImpactDocument(msgspec.Struct, kw_only=True):
    """How many instances would fail, change or keep what they have."""

    version: Annotated[int | None, msgspec.Meta(description="Null if it isn't that of a saved version.")]
    present: Annotated[int, msgspec.Meta(description="How many have the change already.")]
    fails: int
    changes: int
    keeps: int
    warnings: Annotated[
        list[str], msgspec.Meta(description="Freezes that keep it from instances now, and how many read secrets of it.")
    ]
    groups: list[ImpactItem]


_SHOWN = Returns("The impact, the largest groups first.", type=ImpactDocument)


@routes.get(
    "/applications/{appId}/impact", command="application impact", permission="Read", returns=_SHOWN, computes=True
)
async def read_impact(request: Request[None, ImpactQuery]) -> ImpactDocument:
    """Show what a version would do to live instances."""
    return _document(await impact.impact_of_version(request.ctx, request.path["appId"], request.query.version))


@routes.post(
    "/applications/{appId}/impact",
    command="application preview-impact",
    permission="EditApplication; Read",
    body=YamlBody(example="launch:\n  steps: []\n"),
    returns=_SHOWN,
    computes=True,
)
async def preview_impact(request: Request[str, None]) -> ImpactDocument:
    """Show what a manifest that isn't saved would do."""
    return _document(await impact.impact_of_manifest(request.ctx, request.path["appId"], request.body))


class ServiceParametersBody(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters of a service. Omitted ones stay unchanged; null removes one."""

    parameters: dict[str, Any]


@routes.get(
    "/revisions/{revId}/impact",
    command="revision impact",
    permission="Read on its application",
    returns=_SHOWN,
    computes=True,
)
async def read_revision_impact(request: Request[None, None]) -> ImpactDocument:
    """Show what a revision would do to its instances."""
    return _document(await impact.impact_of_revision(request.ctx, request.path["revId"]))


@routes.post(
    "/revisions/{revId}/impact",
    command="revision preview-impact",
    permission="EditApplication and Read on its application; Read on the instance or environment named",
    body=JsonBody(required=True, example={"version": 2}),
    returns=_SHOWN,
    computes=True,
)
async def preview_revision_impact(request: Request[RevisionRequest, None]) -> ImpactDocument:
    """Show what a change of a revision would do."""
    return _document(await impact.impact_of_revision(request.ctx, request.path["revId"], request.body))


@routes.get("/environments/{id}/impact", command="environment impact", permission="Read", returns=_SHOWN, computes=True)
async def read_environment_impact(request: Request[None, None]) -> ImpactDocument:
    """Show what the next reconfigurations take from an environment."""
    return _document(await impact.impact_of_environment(request.ctx, request.path["id"]))


@routes.post(
    "/environments/{id}/impact",
    command="environment preview-impact",
    permission="EditEnvironment and Read; EditEnvironment on each service added or removed",
    body=JsonBody(
        required=True,
        example={
            "policies": "policies:\n  execrun.ignoreFail: true\n",
            "markers": [{"name": "has-internet-access"}],
        },
    ),
    returns=_SHOWN,
    computes=True,
)
async def preview_environment_impact(request: Request[EnvironmentChange, None]) -> ImpactDocument:
    """Show what other settings of an environment would do."""
    return _document(await impact.impact_of_environment(request.ctx, request.path["id"], request.body))


@routes.get(
    "/services/{id}/parameters/impact", command="service impact", permission="Read", returns=_SHOWN, computes=True
)
async def read_service_impact(request: Request[None, None]) -> ImpactDocument:
    """Show what the next reconfigurations take from a service."""
    return _document(await impact.impact_of_service(request.ctx, request.path["id"]))


@routes.post(
    "/services/{id}/parameters/impact",
    command="service preview-impact",
    permission="EditService and Read",
    body=JsonBody(required=True, example={"parameters": {"configuration.resources": ["blue"]}}),
    returns=_SHOWN,
    field_errors=True,
    computes=True,
)
async def preview_service_impact(request: Request[ServiceParametersBody, None]) -> ImpactDocument:
    """Show what other parameters of a service would do."""
    return _document(await impact.impact_of_service(request.ctx, request.path["id"], request.body.parameters))


_decode = msgspec.json.decode


def _document(found: Impact) -> ImpactDocument:
    order = {"fails": 0, "changes": 1, "keeps": 2}
    groups = sorted(found.groups.values(), key=lambda group: (order[group.outcome.kind], -group.count))
    return ImpactDocument(
        version=found.version,
        warnings=found.warnings,
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
        applicationId=outcome.application_id,
        fromVersion=outcome.former_version,
        count=group.count,
        components=[
            ImpactComponent(
                path,
                change,
                [pin.name for pin in pins],
                [ImpactValue(pin.name, _decode(pin.before), _decode(pin.after)) for pin in pins],
            )
            for path, change, pins in outcome.components
        ],
        workflows=list(outcome.workflows),
        code=list(outcome.code),
        settings=[
            ImpactSetting(each.kind, each.name, each.component, _decode(each.before), _decode(each.after))
            for each in outcome.settings
        ],
        errors=list(outcome.errors),
        instances=[ImpactInstance(instance_id, name) for instance_id, name in group.first],
    )
