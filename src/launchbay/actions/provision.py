"""Machines of a role: create, adopt and release them (manifest-language §9)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from launchbay import limits
from launchbay.actions.contract import ActionCall, ActionDefaults, ActionParameter, Roles, StepContext
from launchbay.actions.parameters import (
    optional_text,
    optional_texts,
    refuse_no_choice,
    text_or_default,
    whole_number,
)
from launchbay.errors import ActionFailed
from launchbay.model.machine import Machine, MachineSpec, address_of, exclude_machines, merge_machines, read_jump

DEFAULT_ROLE = "default"
_ADDRESSES = "a list of addresses"
_SPEC = {
    "hardwareId": "hardware",
    "imageId": "image",
    "vmIdentity": "login",
    "jcloudsRegions": "location",
    "jcloudsNodeNamePrefix": "name_prefix",
    "publicKeyId": "key_name",
    "sudoPassword": "sudo_secret",
}
_SETTINGS = "providerSettings"
_JUMP = "jump"
_OWN = frozenset(("roleName", _JUMP, "staticIps", "targetQuantity", "quantity", *_SPEC))


class Provision(ActionDefaults):
    """Adds machines to a role, under two names: adopts those in `staticIps`, or creates new ones."""

    on_machines = True
    extra_parameters = True  # settings of the provider
    default_role = DEFAULT_ROLE
    parameters: Mapping[str, ActionParameter] = {
        "roleName": ActionParameter(f"The role of the machines. Default: {DEFAULT_ROLE}.", type="string"),
        "hardwareId": ActionParameter("The size of a machine.", type="string"),
        "imageId": ActionParameter("The image of a machine.", type="string"),
        "vmIdentity": ActionParameter("The login.", type="string"),
        "publicKeyId": ActionParameter("The key pair for the login: its name or ID in a vault.", type="string"),
        "sudoPassword": ActionParameter(
            "The secret with the password that sudo asks for: its name or ID in a vault. Default: the environment's"
            " policy machines.sudo-password.",
            type="string",
        ),
        _JUMP: ActionParameter(
            "The jump hosts on the way to the machines, in order: texts such as ops@bastion.example:22, or maps with"
            " address, port, user and keyPair. Default: the environment's policy machines.jump.",
            check=read_jump,
        ),
        "staticIps": ActionParameter(
            "Hosts to adopt instead of creating machines, such as 10.0.0.5 or ops@db.example:2222.",
            type="list<string>",
            is_choice=True,
        ),
        "targetQuantity": ActionParameter("The minimum number of machines in the role.", type="int"),
        "quantity": ActionParameter("The number of machines to add. Default: 1, without targetQuantity.", type="int"),
        _SETTINGS: ActionParameter("Additional settings of the provider.", type="map<string,object>"),
    }
    outputs: Mapping[str, str] = {
        "ips": "The addresses of all machines of the role.",
        "privateips": "Their private addresses.",
        "machines": "The machines that this step created or adopted.",
    }

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        refuse_no_choice(call, self.parameters)
        machines = call.context.machines
        # Every other null has a fallback, or no effect (language §9).
        parameters = {name: value for name, value in call.parameters.items() if value is not None}
        role = text_or_default(parameters, "roleName", "the name of a role", DEFAULT_ROLE)
        addresses = optional_texts(parameters, "staticIps", _ADDRESSES)
        spec = _spec(parameters)
        if addresses is None:
            missing = _missing(call.context, parameters, role, len(machines.of_role(role)))
            added = await machines.provision(role, missing, spec) if missing else []
        else:
            known = {machine.host for machine in machines.of_role(role)}
            new = [entry for entry in dict.fromkeys(addresses) if address_of(entry) not in known]
            added = await machines.adopt(role, new, spec) if new else []
        present = merge_machines(machines.of_role(role), added)
        return {
            "ips": [machine.host for machine in present],
            "privateips": [machine.inner_host for machine in present],
            "machines": [msgspec.to_builtins(machine) for machine in added],
        }

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        roles.add(msgspec.convert(outputs["machines"], list[Machine]))


def _missing(context: StepContext, parameters: Mapping[str, Any], role: str, present: int) -> int:
    """Return the number of machines to create."""
    target = parameters.get("targetQuantity")
    if target is not None:
        wanted = whole_number(target, "targetQuantity", minimum=0, maximum=limits.ROLE_MACHINES)
        if wanted < present:
            context.log(
                "info",
                f"The role {role!r} has {present} machines, more than the minimum of {wanted}. "
                "To remove machines, use the action destroyVms.",
            )
        return max(0, wanted - present)
    quantity = parameters.get("quantity")
    room = max(0, limits.ROLE_MACHINES - present)
    return 1 if quantity is None else whole_number(quantity, "quantity", minimum=0, maximum=room)


def _spec(parameters: Mapping[str, Any]) -> MachineSpec:
    texts = {field: text_or_default(parameters, name, "a string") for name, field in _SPEC.items()}
    settings = {name: value for name, value in parameters.items() if name not in _OWN}
    more = settings.get(_SETTINGS)
    if isinstance(more, Mapping):
        settings[_SETTINGS] = {name: value for name, value in more.items() if value is not None}
    try:
        jump = read_jump(parameters[_JUMP]) if _JUMP in parameters else None
    except ValueError as error:
        raise ActionFailed(f"The parameter '{_JUMP}' is wrong: {error}", retryable=False) from None
    return MachineSpec(**texts, jump=jump, settings=settings)


class Release(ActionDefaults):
    """Releases machines of the component: all, or those of a role, by number or by address."""

    on_machines = True
    parameters: Mapping[str, ActionParameter] = {
        "roleName": ActionParameter("The role of the machines.", type="string", is_choice=True),
        "quantity": ActionParameter(
            "The number of machines, the youngest first. Default: all.", type="int", is_choice=True
        ),
        "ips": ActionParameter("The addresses of the machines.", type="list<string>", is_choice=True),
    }
    outputs: Mapping[str, str] = {
        "ips": "The addresses of the remaining machines, of the role if one is set.",
        "released": "The released machines.",
    }

    def __init__(self, name: str, *, needs_choice: bool = False) -> None:
        self.name = name
        self._needs_choice = needs_choice

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        machines = call.context.machines
        role = optional_text(call.parameters, "roleName", "the name of a role") if self.parameters else None
        present = machines.own() if role is None else machines.of_role(role)
        released: Sequence[Machine] = ()
        if present:
            released = self._chosen(call, present, role)
        else:
            where = "the component" if role is None else f"the role {role!r}"
            call.context.log("info", f"There are no machines in {where}, so there is nothing to release.")
        if released:
            await machines.release(released)
        return {
            "ips": [machine.host for machine in exclude_machines(present, released)],
            "released": [msgspec.to_builtins(machine) for machine in released],
        }

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        roles.remove(msgspec.convert(outputs["released"], list[Machine]))

    def _chosen(self, call: ActionCall, present: Sequence[Machine], role: str | None) -> Sequence[Machine]:
        parameters = call.parameters if self.parameters else {}
        refuse_no_choice(call, self.parameters)  # here, because without machines there is nothing to choose
        addresses = optional_texts(parameters, "ips", "a list of addresses")
        if addresses is not None:
            known = {machine.host for machine in present} | {machine.inner_host for machine in present}
            for address in addresses:
                if address not in known:
                    call.context.log("info", f"No machine has the address {address}; it may have been released.")
            return [machine for machine in present if {machine.host, machine.inner_host} & set(addresses)]
        quantity = parameters.get("quantity", len(present))
        count = whole_number(quantity, "quantity", minimum=0, maximum=limits.ROLE_MACHINES)
        if count and role is None and self._needs_choice:
            raise ActionFailed("Set 'roleName' or 'ips' to choose the machines.", retryable=False)
        return present[max(0, len(present) - count) :]


class ReleaseAll(Release):
    """Releases all machines of the component; it has no parameters."""

    parameters: Mapping[str, ActionParameter] = {}
