"""Machines of a role: create, adopt and release them (manifest-language §9)."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
from launchbay.actions.plan import ActionPlan, refuse_difference
from launchbay.errors import ActionFailed
from launchbay.model.effect import Effect
from launchbay.model.existing import Existing
from launchbay.model.machine import (
    Machine,
    MachineSpec,
    address_of,
    exclude_machines,
    host_and_port,
    merge_machines,
    read_jump,
)

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
_NAMED = 5  # addresses of hosts that don't answer
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
        "publicKeyId": ActionParameter(
            "The key pair for the login: its name or ID in a vault, or a path of a provider.", type="string"
        ),
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
        machines, wanted = call.context.machines, self._wanted(call)
        if call.approved is not None:
            read_approved(call.approved).require(wanted.approved())
        if wanted.addresses:
            added = await machines.adopt(wanted.role, wanted.addresses, wanted.spec)
        else:
            added = await machines.provision(wanted.role, wanted.missing, wanted.spec) if wanted.missing else []
        present = merge_machines(machines.of_role(wanted.role), added)
        return {
            "ips": [machine.host for machine in present],
            "privateips": [machine.inner_host for machine in present],
            "machines": [msgspec.to_builtins(machine) for machine in added],
        }

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return the machines that the step makes or adopts."""
        wanted = self._wanted(call)
        component = _component(call)
        note = f"{len(wanted.present)} stay" if wanted.present else ""
        spec = {name: value for name, value in msgspec.to_builtins(wanted.spec).items() if value}
        price = call.context.machines.price_of(wanted.spec.hardware) if wanted.missing else None
        made = [
            Effect(
                kind="create",
                address=f"{component}: new machine {number} of {wanted.role}",
                after=spec,
                note=note,
                price=price,
            )
            for number in range(1, wanted.missing + 1)
        ]
        adopted = [
            Effect(kind="change", address=f"{component}: machine {address} of {wanted.role}", note="adopted")
            for address in wanted.addresses
        ]
        return ActionPlan(effects=(*made, *adopted), artifact=wanted.approved().encoded())

    async def find_existing(self, call: ActionCall) -> Existing:
        """Return the hosts of `staticIps`.

        Each has shown its key and accepted the login.
        """
        wanted = self._wanted(call)
        if not wanted.addresses:
            raise ActionFailed(
                f"The role {wanted.role!r} has no hosts that exist: the step makes machines, or uses a pool.",
                "Name its hosts in 'staticIps'.",
            )
        try:
            async with asyncio.timeout(limits.ADOPTED_HOSTS_S):
                found = await call.context.machines.adopt(wanted.role, wanted.addresses, wanted.spec)
        except TimeoutError:
            raise ActionFailed(
                f"The hosts of the role {wanted.role!r} didn't all answer within {limits.ADOPTED_HOSTS_S:g} s:"
                f" {', '.join(wanted.addresses[:_NAMED])}.",
                "See that each is up, and that nothing drops connections on the way.",
            ) from None
        places = [host_and_port(each.host, each.port) for each in found]
        return Existing(
            name=wanted.role,
            identity=wanted.role,
            document=msgspec.json.encode(found),
            resources=places[: limits.ADOPTED_ADDRESSES],
            resource_count=len(places),
            about={},
        )

    def _wanted(self, call: ActionCall) -> "_Wanted":
        refuse_no_choice(call, self.parameters)
        # Every other null has a fallback, or no effect (language §9).
        parameters = {name: value for name, value in call.parameters.items() if value is not None}
        role = text_or_default(parameters, "roleName", "the name of a role", DEFAULT_ROLE)
        addresses = optional_texts(parameters, "staticIps", _ADDRESSES)
        machines = call.context.machines
        spec, present, provider = _spec(parameters), machines.of_role(role), machines.provider_name
        if addresses is None:
            return _Wanted(role, present, _missing(call.context, parameters, role, len(present)), (), spec, provider)
        known = {machine.host for machine in present}
        new = tuple(entry for entry in dict.fromkeys(addresses) if address_of(entry) not in known)
        return _Wanted(role, present, 0, new, spec, provider)

    def apply_outputs(self, outputs: Mapping[str, Any], roles: Roles) -> None:
        roles.add(msgspec.convert(outputs["machines"], list[Machine]))


class _Wanted(NamedTuple):
    """What a role has, and gets: new machines, or those with addresses."""

    role: str
    present: Sequence[Machine]
    missing: int
    addresses: tuple[str, ...]
    spec: MachineSpec
    provider: str

    def approved(self) -> "ApprovedMachines":
        spec = hashlib.sha256(msgspec.json.encode(self.spec, order="deterministic")).digest()
        added = [*self.addresses, str(self.missing)]
        return ApprovedMachines(self.role, [machine.id for machine in self.present], added, spec, self.provider)


class ApprovedMachines(msgspec.Struct, frozen=True):
    """The artifact: the machines of a role, and what is added."""

    role: str
    machines: list[str]  # IDs
    added: list[str] = []
    spec: bytes = b""  # digest
    provider: str = ""  # of what is added

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def require(self, found: "ApprovedMachines") -> None:
        """Raise NotApproved unless the same would happen."""
        differs: list[str] = []
        if found.role != self.role:
            differs.append(f"the role is {found.role!r} instead of {self.role!r}")
        elif found.machines != self.machines:
            now, then = (", ".join(each) or "none" for each in (found.machines, self.machines))
            differs.append(f"the machines are other ones ({now} instead of {then})")
        if found.provider != self.provider:
            differs.append(f"the provider is {found.provider!r} instead of {self.provider!r}")
        if (found.added, found.spec) != (self.added, self.spec):
            differs.append("other machines would be made or adopted")
        refuse_difference(differs)


read_approved = msgspec.msgpack.Decoder(ApprovedMachines).decode


def _component(call: ActionCall) -> str:
    """Return the path of the component, as addresses of machines begin."""
    return call.context.step_path.partition("#")[0]


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
        role, present, released = self._choice(call)
        if call.approved is not None:
            read_approved(call.approved).require(_approved_release(role, released))
        if released:
            await call.context.machines.release(released)
        return {
            "ips": [machine.host for machine in exclude_machines(present, released)],
            "released": [msgspec.to_builtins(machine) for machine in released],
        }

    async def plan(self, call: ActionCall) -> ActionPlan:
        """Return the machines that the step releases."""
        role, _, released = self._choice(call)
        effects = tuple(
            Effect(kind="change", address=_address(call, machine), note="no longer used; it was adopted, so it stays")
            if machine.adopted
            else Effect(kind="delete", address=_address(call, machine), note=f"{machine.host} ({machine.id})")
            for machine in released
        )
        return ActionPlan(effects=effects, artifact=_approved_release(role, released).encoded())

    def _choice(self, call: ActionCall) -> tuple[str | None, Sequence[Machine], Sequence[Machine]]:
        """Return the role, its machines, and those of them to release."""
        machines = call.context.machines
        role = optional_text(call.parameters, "roleName", "the name of a role") if self.parameters else None
        present = machines.own() if role is None else machines.of_role(role)
        if present:
            return role, present, self._chosen(call, present, role)
        where = "the component" if role is None else f"the role {role!r}"
        call.context.log("info", f"There are no machines in {where}, so there is nothing to release.")
        return role, present, ()

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


def _approved_release(role: str | None, released: Sequence[Machine]) -> ApprovedMachines:
    return ApprovedMachines(role or "", [machine.id for machine in released])


def _address(call: ActionCall, machine: Machine) -> str:
    return f"{_component(call)}: machine {machine.number} of {machine.role}"


class ReleaseAll(Release):
    """Releases all machines of the component; it has no parameters."""

    parameters: Mapping[str, ActionParameter] = {}
