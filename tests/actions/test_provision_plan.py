"""Plans of `provisionVms` and `destroyVms`: machines to make, adopt and release, held to that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from launchbay.actions.contract import Action, ActionCall
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.actions.provision import Provision, Release
from launchbay.errors import ActionFailed, NotApproved
from launchbay.model.machine import Machine, MachineSpec
from launchbay.model.price import Price
from tests.support.contexts import MACHINE, RecordingContext

PROVISION, RELEASE = Provision("provisionVms"), Release("destroyVms", needs_choice=True)


@dataclass
class Owned:
    """The machines of a component, and what was done with them."""

    machines: list[Machine]
    done: list[str] = field(default_factory=list)
    provider_name: str = "local"

    def price_of(self, size: str) -> Price:
        return Price()

    def of_role(self, role: str) -> Sequence[Machine]:
        return [machine for machine in self.machines if machine.role == role]

    def own(self) -> Sequence[Machine]:
        return self.machines

    async def provision(self, role: str, count: int, spec: MachineSpec) -> Sequence[Machine]:
        self.done.append(f"made {count}")
        return []

    async def adopt(self, role: str, addresses: Sequence[str], spec: MachineSpec) -> Sequence[Machine]:
        self.done.append(f"adopted {', '.join(addresses)}")
        return []

    async def release(self, machines: Sequence[Machine]) -> None:
        self.done += [f"released {machine.id}" for machine in machines]


@dataclass
class WithMachines(RecordingContext):
    owned: Any = None

    @property
    def machines(self) -> Any:
        return self.owned


def here(*machines: Machine) -> WithMachines:
    return WithMachines(owned=Owned(list(machines)))


def second() -> Machine:
    return replace(MACHINE, id="m2", number=2, public_ip="192.0.2.8", private_ip="198.51.100.8")


async def plan(action: Action, context: WithMachines, **parameters: Any) -> ActionPlan:
    context.step_path = "web#launch/vms"
    return await plan_action(action, ActionCall(parameters, context), context.step_path)


async def apply(action: Action, context: WithMachines, approved: ActionPlan, **parameters: Any) -> Mapping[str, Any]:
    return await action.run(ActionCall(parameters, context, approved=approved.artifact))


async def test_missing_machines_are_made_as_planned_and_only_then() -> None:
    context, given = here(MACHINE), {"roleName": "web", "targetQuantity": 3, "hardwareId": "large"}

    made = await plan(PROVISION, context, **given)

    assert [(each.kind, each.address, each.certainty) for each in made.effects] == [
        ("create", "web: new machine 1 of web", "exact"),
        ("create", "web: new machine 2 of web", "exact"),
    ]
    assert (made.effects[0].after, made.effects[0].note) == ({"hardware": "large"}, "1 stay")
    assert context.owned.done == []
    with pytest.raises(NotApproved, match="other machines would be made"):
        await apply(PROVISION, context, made, **given | {"hardwareId": "small"})
    with pytest.raises(NotApproved, match="the role is 'db' instead of 'web'"):
        await apply(PROVISION, context, made, **given | {"roleName": "db"})
    context.owned.provider_name = "cloud"
    with pytest.raises(NotApproved, match="the provider is 'cloud' instead of 'local'"):
        await apply(PROVISION, context, made, **given)
    context.owned.provider_name = "local"
    await apply(PROVISION, context, made, **given)
    context.owned.machines.append(second())
    with pytest.raises(NotApproved, match="the machines are other ones"):
        await apply(PROVISION, context, made, **given)
    assert context.owned.done == ["made 2"]
    assert (await plan(PROVISION, context, roleName="web", targetQuantity=2)).effects == ()


async def test_adopted_machines_are_no_new_ones_and_are_not_deleted() -> None:
    context, given = here(MACHINE), {"roleName": "web", "staticIps": [MACHINE.host, "ops@192.0.2.9"]}

    made = await plan(PROVISION, context, **given)

    assert [(each.kind, each.address, each.note) for each in made.effects] == [
        ("change", "web: machine ops@192.0.2.9 of web", "adopted")
    ]
    await apply(PROVISION, context, made, **given)
    assert context.owned.done == ["adopted ops@192.0.2.9"]

    context.owned.machines = [replace(MACHINE, adopted=True)]
    gone = await plan(RELEASE, context, roleName="web")
    assert [(each.kind, each.address) for each in gone.effects] == [("change", "web: machine 1 of web")]


async def test_the_machines_that_were_approved_are_released_and_no_others() -> None:
    context, given = here(MACHINE, second()), {"roleName": "web", "quantity": 1}

    made = await plan(RELEASE, context, **given)

    assert [(each.kind, each.address) for each in made.effects] == [("delete", "web: machine 2 of web")]
    context.owned.machines.append(replace(MACHINE, id="m3", number=3))
    with pytest.raises(NotApproved, match=r"the machines are other ones \(m3 instead of m2\)"):
        await apply(RELEASE, context, made, **given)
    context.owned.machines.pop()
    await apply(RELEASE, context, made, **given)
    assert context.owned.done == ["released m2"]


async def test_a_parameter_that_is_wrong_fails_the_plan() -> None:
    with pytest.raises(ActionFailed, match="targetQuantity"):
        await plan(PROVISION, here(), targetQuantity=-1)
    with pytest.raises(ActionFailed, match="Set 'roleName' or 'ips'"):
        await plan(RELEASE, here(MACHINE))
