"""Plans of launches, reconfigurations and destructions, step by step."""

from typing import Annotated, Any

import msgspec

from launchbay.clock import to_ms
from launchbay.errors import BadRequest
from launchbay.features.plans import usecases as plans
from launchbay.features.plans.ahead import PlanAct, PlanRequest
from launchbay.features.plans.rows import PlanRow
from launchbay.features.plans.rules import PlannedStep, cost_of, count_effects, deletions, read_steps
from launchbay.model.expiry import IfExists
from launchbay.model.price import Cost
from launchbay.web.requests import TYPED, JsonBody, Request
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Changes", extension=True)


class PlanBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to plan: a launch of an application, or what happens to an instance.

    `launch` and `configuration` are bodies of a launch and a reconfiguration.
    """

    act: PlanAct
    applicationId: str | None = None
    launch: dict[str, Any] | None = None
    ifExists: IfExists | None = None
    instanceId: str | None = None
    configuration: dict[str, Any] | None = None
    force: bool = False

    def request(self) -> PlanRequest:
        """Return what is asked for. Raises BadRequest for fields of another act."""
        used = {"launch": {"launch", "ifExists"}, "reconfigure": {"configuration"}, "destroy": {"force"}}.get(
            self.act, set()
        )
        others: dict[str, Any] = {
            "launch": self.launch,
            "ifExists": self.ifExists,
            "configuration": self.configuration,
            "force": self.force or None,
        }
        if unused := sorted(name for name, value in others.items() if value is not None and name not in used):
            raise BadRequest(f"The act {self.act} has no {', '.join(unused)}.", code="InvalidAct")
        return PlanRequest(
            act=self.act,
            application_id=self.applicationId,
            instance_id=self.instanceId,
            body=(self.launch if self.act == "launch" else self.configuration) or {},
            if_exists=self.ifExists,
            force=self.force,
        )


class PlanDocument(msgspec.Struct, kw_only=True):
    """A plan. Without steps, it isn't made yet or failed. Secrets are masked."""

    id: str
    status: Annotated[str, msgspec.Meta(description="Waiting, Planning, Planned or Failed.")]
    counts: Annotated[dict[str, int], msgspec.Meta(description="Effects by kind, deletions first.")]
    deletes: Annotated[list[str], msgspec.Meta(description="Addresses of what would be deleted.")]
    cost: Annotated[
        Cost,
        msgspec.Meta(description="What new machines cost: amounts per hour by currency, and how many have no price."),
    ]
    steps: list[PlannedStep]
    problem: str | None
    digest: Annotated[str | None, msgspec.Meta(description="Covers all effects and artifacts.")]
    createdAt: int
    expiresAt: int


_NEEDED = "Read, and CreateInstance for a launch; EditInstance otherwise"


@routes.post(
    "/organizations/{orgId}/plans",
    permission=_NEEDED,
    body=JsonBody(example={"act": "destroy", "instanceId": EXAMPLE_ID}, keeps_texts=TYPED),
    returns=Returns("The plan, which is made in the background.", type=PlanDocument),
    idempotency_key=True,
)
async def create_plan(request: Request[PlanBody, None]) -> PlanDocument:
    """Plan what each step of a change would do."""
    made = await plans.create_plan(request.ctx, request.path["orgId"], request.body.request())
    return plan_document(await plans.read_plan(request.ctx, made))


@routes.get(
    "/plans/{planId}",
    permission="Read; only your own plans",
    returns=Returns("The plan.", type=PlanDocument),
)
async def read_plan(request: Request[None, None]) -> PlanDocument:
    """Show a plan of yours."""
    return plan_document(await plans.read_plan(request.ctx, request.path["planId"]))


@routes.delete("/plans/{planId}", permission="None; only your own plans")
async def delete_plan(request: Request[None, None]) -> None:
    """Delete a plan of yours, and stop making it."""
    await plans.delete_plan(request.ctx, request.path["planId"])


def plan_document(row: PlanRow) -> PlanDocument:
    """Return a plan as the API shows it."""
    steps = read_steps(row.result or "[]")
    return PlanDocument(
        id=row.id,
        status="Planning" if row.status == "Waiting" and row.is_begun else row.status,
        counts=count_effects(steps),
        deletes=deletions(steps),
        cost=cost_of(steps),
        steps=steps,
        problem=row.problem,
        digest=row.digest,
        createdAt=to_ms(row.created_at),
        expiresAt=to_ms(row.expires_at),
    )
