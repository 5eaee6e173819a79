"""Instances of what runs already."""

from typing import Annotated, Any

import msgspec

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.features.adoption import usecases as adoption
from launchbay.features.adoption.rules import HELM, HOSTS, OPENTOFU, Adoptee, GivenHosts, GivenRelease, GivenState
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Instances", extension=True)
_LINEAGE = "8a6c6d6e-57a2-4a0d-9b0f-1f0d8f3e2b11"


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class StateBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A state of OpenTofu or Terraform, and the component that it belongs to."""

    component: str
    state: Annotated[str, _about("The text of terraform.tfstate, or what `tofu state pull` prints.")]
    name: Annotated[str | None, _about("The parameter `name` of the step, if the component has several.")] = None


class ReleaseBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A component that adopts its release of Helm."""

    component: Annotated[str, _about("Its step says which cluster, and the release must be deployed there.")]
    release: Annotated[str | None, _about("Its name, as the step has it. Default: all of the component.")] = None
    namespace: Annotated[str | None, _about("Its namespace, in the same way.")] = None


class HostsBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A component that adopts the hosts of its steps provisionVms."""

    component: Annotated[str, _about("Each host in `staticIps` must answer, show the right key and accept the login.")]


class AdoptBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to adopt.

    `launch` is the body of a launch: its environment, name, version and parameters.
    """

    launch: dict[str, Any] = {}
    states: Annotated[list[StateBody], msgspec.Meta(max_length=limits.ADOPTED_STATES)] = []
    releases: Annotated[list[ReleaseBody], msgspec.Meta(max_length=limits.ADOPTED_STATES)] = []
    hosts: Annotated[list[HostsBody], msgspec.Meta(max_length=limits.ADOPTED_STATES)] = []
    dryRun: Annotated[bool, _about("Only say what would be adopted.")] = False


class AdoptedStateDocument(msgspec.Struct, kw_only=True):
    """A state that a component has adopted."""

    component: str
    name: str
    lineage: Annotated[str, _about("It names the state: one instance of the organization can adopt it.")]
    resources: Annotated[
        list[str], _about(f"Addresses of what it manages: the first {limits.ADOPTED_ADDRESSES}, sorted.")
    ]
    resourceCount: Annotated[int, _about("How many it manages.")]


class AdoptedReleaseDocument(msgspec.Struct, kw_only=True):
    """A release of Helm that a component has adopted, as it was then."""

    component: str
    release: str
    namespace: str
    chart: Annotated[str, _about("With its version, such as `shop-1.0.0`.")]
    appVersion: str
    revision: int
    resources: Annotated[list[str], _about(f"Objects in its manifest: the first {limits.ADOPTED_ADDRESSES}, sorted.")]
    resourceCount: Annotated[int, _about("How many it has.")]
    otherValues: Annotated[
        dict[str, Any],
        _about(
            f"Its values that the step doesn't set, by path: the first {limits.ADOPTED_ADDRESSES}. Of a string or "
            "list, which may have secrets, it only says that it is one. An upgrade by the step drops them."
        ),
    ]
    otherValueCount: Annotated[int, _about("How many there are.")]


class AdoptedHostDocument(msgspec.Struct, kw_only=True):
    """A host that a component has adopted."""

    component: str
    role: str
    address: Annotated[str, _about("With its port.")]
    login: str


class AdoptDocument(msgspec.Struct, kw_only=True):
    """The adopted instance. With `dryRun`, its ID is null."""

    instanceId: str | None
    name: str
    environmentId: str
    version: int
    states: list[AdoptedStateDocument]
    releases: list[AdoptedReleaseDocument]
    hosts: list[AdoptedHostDocument]
    leftOut: Annotated[list[str], _about("Components that have adopted nothing: taking over launches them.")]


class AdoptionDocument(msgspec.Struct, kw_only=True):
    """What an instance has adopted.

    Without states, releases and hosts, Launchbay has launched it.
    """

    instanceId: str
    managed: Annotated[str, _about("`observe` until a change set takes it over; then `full`.")]
    states: list[AdoptedStateDocument]
    releases: list[AdoptedReleaseDocument]
    hosts: list[AdoptedHostDocument]
    adoptedAt: int | None
    adoptedBy: str | None


_STATES = [
    {
        "component": "infra",
        "name": "default",
        "lineage": _LINEAGE,
        "resources": ["aws_instance.web"],
        "resourceCount": 1,
    }
]

_RELEASES = [
    {
        "component": "web",
        "release": "shop",
        "namespace": "production",
        "chart": "shop-1.0.0",
        "appVersion": "2.4",
        "revision": 7,
        "resources": ["apps/v1 Deployment shop"],
        "resourceCount": 1,
        "otherValues": {"replicas": 3},
        "otherValueCount": 1,
    }
]

_HOSTS = [{"component": "db", "role": "db", "address": "10.0.0.5:22", "login": "ops"}]


@routes.post(
    "/applications/{appId}/adoptions",
    command="application adopt",
    permission="CreateInstance on the application and the environment",
    body=JsonBody(
        example={
            "launch": {"environmentId": EXAMPLE_ID, "instanceName": "shop", "parameters": {"input.size": 2}},
            "states": [{"component": "infra", "state": '{"version": 4, "lineage": "…"}'}],
        },
        keeps_texts=TYPED,
        bytes_max=limits.ADOPTED_STATE_BYTES,
    ),
    returns=Returns("The instance, of which a check shows soon what differs.", type=AdoptDocument),
    idempotency_key=True,
)
async def adopt_instance(request: Request[AdoptBody, None]) -> AdoptDocument:
    """Make an instance of what runs already, which is only observed."""
    body = request.body
    states = [GivenState(component=each.component, state=each.state, name=each.name) for each in body.states]
    releases = [msgspec.convert(each, GivenRelease, from_attributes=True) for each in body.releases]
    hosts = [GivenHosts(component=each.component) for each in body.hosts]
    made = await adoption.adopt(
        request.ctx, request.path["appId"], body.launch, states, releases, hosts, is_trial=body.dryRun
    )
    return AdoptDocument(
        instanceId=made.instance_id,
        name=made.name,
        environmentId=made.environment_id,
        version=made.version,
        states=[_state(each) for each in made.adopted if each.action == OPENTOFU],
        releases=[_release(each) for each in made.adopted if each.action == HELM],
        hosts=[_host(each) for each in made.adopted if each.action == HOSTS],
        leftOut=list(made.left_out),
    )


@routes.get(
    "/instances/{id}/adoption",
    command="instance adoption",
    permission="Read",
    returns=Returns(
        "What it has adopted.",
        {
            "instanceId": EXAMPLE_ID,
            "managed": "observe",
            "states": _STATES,
            "releases": _RELEASES,
            "hosts": _HOSTS,
            "adoptedAt": 1_798_761_600_000,
            "adoptedBy": "ada@example.com",
        },
    ),
)
async def read_adoption(request: Request[None, None]) -> AdoptionDocument:
    """Show what an instance has adopted."""
    found = await adoption.read_adoption(request.ctx, request.path["id"])
    adopted = found.adopted
    return AdoptionDocument(
        instanceId=found.record.id,
        managed="observe" if found.record.is_observed else "full",
        states=[_state(each) for each in adopted if each.action == OPENTOFU],
        releases=[_release(each) for each in adopted if each.action == HELM],
        hosts=[_host(each) for each in adopted if each.action == HOSTS],
        adoptedAt=None if found.at is None else to_ms(found.at),
        adoptedBy=found.by,
    )


def _state(adopted: Adoptee) -> AdoptedStateDocument:
    return AdoptedStateDocument(
        component=adopted.component,
        name=adopted.name,
        lineage=adopted.identity,
        resources=adopted.resources,
        resourceCount=adopted.resource_count,
    )


def _release(adopted: Adoptee) -> AdoptedReleaseDocument:
    counted = {"resources": adopted.resources, "resourceCount": adopted.resource_count}
    return msgspec.convert({"component": adopted.component, **counted, **(adopted.about or {})}, AdoptedReleaseDocument)


def _host(adopted: Adoptee) -> AdoptedHostDocument:
    return msgspec.convert({"component": adopted.component, **(adopted.about or {})}, AdoptedHostDocument)
