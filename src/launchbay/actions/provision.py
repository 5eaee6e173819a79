"""`provisionVms`, also `provisionAmazonVm`: machines for a role, made or adopted (manifest-language §9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionParameter, Roles, StepMachines
from launchbay.actions.parameters import optional_text, optional_texts, whole_number
from launchbay.errors import ActionFailed
from launchbay.model.machine import Machine, MachineSpec, address_of, exclude_machines, merge_machines

DEFAULT_ROLE = "default"
_ADDRESSES = "a list of addresses"
_SPEC = {
    "hardwareId": "hardware",
    "imageId": "image",
    "vmIdentity": "login",
    "jcloudsRegions": "location",
    "jcloudsNodeNamePrefix": "name_prefix",
    "publicKeyId": "key_name",
}
_OWN = frozenset(("roleName", "staticIps", "targetQuantity", "quantity", *_SPEC))
_PARAMETERS = {
    "roleName": ActionParameter(f"The role of the machines; '{DEFAULT_ROLE}' where it is left out.", type="string"),
    "hardwareId": ActionParameter("The size of a machine.", type="string"),
    "imageId": ActionParameter("The image of a machine.", type="string"),
    "vmIdentity": ActionParameter("The login.", type="string"),
    "publicKeyId": ActionParameter("The key pair that lets in: its name or id in a vault.", type="string"),
    "staticIps": ActionParameter(
        "Hosts to adopt, such as 10.0.0.5 or ops@db.example:2222; none is made then.", type="list<string>"
    ),
    "targetQuantity": ActionParameter("How many machines the role shall have at least.", type="int"),
    "quantity": ActionParameter("How many machines to add; 1 where nothing says how many.", type="int"),
    "providerSettings": ActionParameter("What the provider knows beside.", type="map<string,object>"),
}
_OUTPUTS = {
    "ips": "The addresses of all machines of the role.",
    "privateips": "Their inner addresses.",
    "machines": "The machines that this step made or adopted.",
}


@dataclass(frozen=True)
class Provision:
    """Brings machines into a role: adopts those of `staticIps`, or makes what `targetQuantity` or `quantity` say.

    The same work under two names.
    """

    name: str
    aliases: tuple[str, ...] = ()
    pure: bool = False
    on_machines: bool = True

    @property
    def parameters(self) -> Mapping[str, ActionParameter]:
        """The documented parameters by name."""
        return _PARAMETERS

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""
        return _OUTPUTS

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Make or adopt the machines."""
        machines, parameters = call.context.machines, call.parameters
        role = optional_text(parameters, "roleName", "the name of a role") or DEFAULT_ROLE
        addresses = optional_texts(parameters, "staticIps", _ADDRESSES)
        spec = _spec(parameters)
        if addresses is None:
            missing = _missing(call, role, len(machines.of_role(role)))
            made = await machines.provision(role, missing, spec) if missing else []
        else:
            known = {machine.host for machine in machines.of_role(role)}
            new = [entry for entry in dict.fromkeys(addresses) if address_of(entry) not in known]
            made = await machines.adopt(role, new, spec) if new else []
        everyone = merge_machines(machines.of_role(role), made)
        return {
            "ips": [machine.host for machine in everyone],
            "privateips": [machine.inner_host for machine in everyone],
            "machines": [msgspec.to_builtins(machine) for machine in made],
        }

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        """Note the new machines."""
        roles.add(msgspec.convert(outputs["machines"], list[Machine]))


def _missing(call: ActionCall, role: str, present: int) -> int:
    """Return how many machines to make."""
    parameters = call.parameters
    target = parameters.get("targetQuantity")
    if target is not None:
        wanted = whole_number(target, "targetQuantity", minimum=0, maximum=limits.ROLE_MACHINES)
        if wanted < present:
            call.context.log(
                "info",
                f"The role {role!r} has {present} machines, more than the {wanted} that are wanted at least. "
                "The action destroyVms takes machines away.",
            )
        return max(0, wanted - present)
    added = parameters.get("quantity")
    room = max(0, limits.ROLE_MACHINES - present)
    return 1 if added is None else whole_number(added, "quantity", minimum=0, maximum=room)


def _spec(parameters: Mapping[str, Any]) -> MachineSpec:
    texts = {
        field: "" if parameters.get(name) in (None, "") else optional_text(parameters, name, "a text") or ""
        for name, field in _SPEC.items()
    }
    settings = {name: value for name, value in parameters.items() if name not in _OWN}
    return MachineSpec(**texts, settings=settings)


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
        left = exclude_machines(_present(machines, role), leaving)
        return {
            "ips": [machine.host for machine in left],
            "released": [msgspec.to_builtins(machine) for machine in leaving],
        }

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        """Note which machines are gone."""
        roles.remove(msgspec.convert(outputs["released"], list[Machine]))

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
        count = whole_number(quantity, "quantity", minimum=0, maximum=limits.ROLE_MACHINES)
        return present[max(0, len(present) - count) :]


def _present(machines: StepMachines, role: str | None) -> Sequence[Machine]:
    return machines.own() if role is None else machines.of_role(role)
