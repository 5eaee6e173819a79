"""`destroyVms`, `compute.shrink-all`, `undeployEnv`: machines are given back (manifest-language §9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter, Roles, StepMachines
from launchbay.actions.parameters import optional_text, optional_texts, whole_number
from launchbay.errors import ActionFailed
from launchbay.model.machine import Machine, without

_WHICH = {
    "roleName": ActionParameter("The role whose machines go.", type="string"),
    "quantity": ActionParameter("How many machines go, the youngest first; all where it is left out.", type="int"),
    "ips": ActionParameter("The addresses of the machines that go.", type="list<string>"),
}


@dataclass(frozen=True)
class Release:
    """Releases machines of the component: all, or those of a role, by number or by address.

    One that does not `need_choice` takes all machines where its parameters choose none.
    """

    name: str
    needs_choice: bool = False
    parameters: Mapping[str, ActionParameter] = field(default_factory=lambda: _WHICH)
    aliases: tuple[str, ...] = ()
    pure: bool = False
    on_machines: bool = True

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return {
            "ips": "The addresses that are left, of the role where one is named.",
            "released": "The machines that are gone.",
        }

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Release the machines."""
        machines = call.context.machines
        role = optional_text(call.parameters, "roleName", "the name of a role") if self.parameters else None
        leaving = self._leaving(call, machines, role)
        if leaving:
            await machines.release(leaving)
        left = without(_present(machines, role), leaving)
        return {
            "ips": [machine.host for machine in left],
            "released": [msgspec.to_builtins(machine) for machine in leaving],
        }

    def settle(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        """Note which machines are gone."""
        roles.left(msgspec.convert(outputs["released"], list[Machine]))

    def _leaving(self, call: ActionCall, machines: StepMachines, role: str | None) -> Sequence[Machine]:
        present = _present(machines, role)
        parameters = call.parameters if self.parameters else {}
        addresses = optional_texts(parameters, "ips", "a list of addresses")
        if addresses is not None:
            known = {machine.host for machine in present} | {machine.inner_host for machine in present}
            for address in addresses:
                if address not in known:
                    call.context.log("info", f"No machine here has the address {address}; it may be gone already.")
            return [machine for machine in present if {machine.host, machine.inner_host} & set(addresses)]
        if role is None and self.needs_choice:
            raise ActionFailed("Say which machines go: give 'roleName' or 'ips'.", retryable=False)
        quantity = parameters.get("quantity")
        if quantity is None:
            return present
        count = whole_number(quantity, "quantity", least=0, most=limits.ROLE_MACHINES)
        return present[max(0, len(present) - count) :]


def _present(machines: StepMachines, role: str | None) -> Sequence[Machine]:
    return machines.own() if role is None else machines.of_role(role)
