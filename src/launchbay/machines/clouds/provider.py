"""`cloud`: machines of the environment's cloud account, made through its API and reached by SSH (language §8, §9).

A machine carries its marks from the request that makes it, so an interrupted `provision` finds what it made; where the
API knows client tokens, the same request makes none twice. Before the first machine is made somewhere, the place is
written down: the sweep looks there (`engine/sweeper.py`).
"""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import GIVEN, CloudAccount, CloudBook, Place
from launchbay.machines.clouds.calls import CloudCalls
from launchbay.machines.clouds.cloud import NodeState
from launchbay.machines.clouds.making import NAME, Making
from launchbay.machines.clouds.node_id import NodeId
from launchbay.machines.clouds.order import Order, asked_account, read_order, told
from launchbay.machines.clouds.ways import Way, read_way
from launchbay.machines.contract import Errand
from launchbay.machines.marks import INSTALLATION, INSTANCE, Marks
from launchbay.machines.outcomes import settled
from launchbay.machines.parts import Parts
from launchbay.machines.ssh import Ssh
from launchbay.machines.static import StaticMachines
from launchbay.machines.sweep import Found
from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand, WayIn


class CloudMachines:
    """The provider; one object serves all instances."""

    name = NAME

    def __init__(self, parts: Parts, book: CloudBook, calls: CloudCalls | None = None) -> None:
        self._parts = parts
        self._book = book
        self._calls = calls or CloudCalls(parts.reach)
        self._ssh = Ssh(parts)
        self._hosts = StaticMachines(parts)

    async def provision(
        self, errand: Errand, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Make machines, and return when they run and let us in; after a failure none of them is left."""
        account = await self._account(errand, spec)
        order = read_order(role, spec, account)
        if order.unknown:
            errand.log("warning", told(order.unknown))
        making = await self._making(errand, role, numbers, order, account)
        await self._book.note(errand, account.id, order.region)
        standing = await making.standing()
        try:
            return await making.machines(standing)
        except ActionFailed as error:
            left = await making.take_down()
            raise ActionFailed(*error.sentences, *left, retryable=error.retryable) from None

    async def adopt(
        self, errand: Errand, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Take hosts that are there, whoever made them; they are static ones from then on."""
        return await self._hosts.adopt(errand, role, addresses, spec)

    async def release(self, errand: Errand, machine: Machine) -> None:
        """Take a machine down. One that is gone already is a success."""
        account_id, region, node_id = NodeId.of(machine)
        account = await self._book.find(account_id)
        if account is None:
            raise ActionFailed(
                f"The cloud account that made the machine {node_id} in {region} was deleted.",
                "End the machine in the cloud's own console.",
                retryable=False,
            )
        await self._calls.ask(errand, account, region, lambda cloud: cloud.end(node_id))
        await self._ssh.forget(errand, machine)

    async def strays(self, errand: Errand) -> Sequence[Machine]:
        """Return all machines of the errand's instance, wherever some were made for it."""
        marks = {INSTALLATION: await self._book.installation(), INSTANCE: errand.instance_id}
        places = await self._book.places(errand.instance_id)
        found = await settled((self._marked(errand, place, marks) for place in places), limits.CLOUD_CALLS)
        return [each.machine for several in found for each in several]

    async def found(self, errand: Errand) -> AsyncIterator[Found]:
        """Return every machine of this installation; a place that does not answer is told and passed over."""
        marks = {INSTALLATION: await self._book.installation()}
        for place in await self._book.places():
            try:
                several = await self._marked(on_behalf(errand, place), place, marks)
            except ActionFailed as error:
                errand.log("warning", f"The cloud account {place.account_id} in {place.region}: {error}")
                continue
            for each in several:
                yield each

    async def stands(self, errand: Errand, machine: Machine) -> bool:
        """Tell whether a machine that was found still is there."""
        account_id, region, node_id = NodeId.of(machine)
        account = await self._book.find(account_id)
        if account is None:
            return False
        nodes = await self._calls.ask(errand, account, region, lambda cloud: cloud.look([node_id]))
        return any(node.state is not NodeState.OVER for node in nodes)

    async def run(self, errand: Errand, machine: Machine, command: RemoteCommand) -> CommandResult:
        """Run a command to its end."""
        return await self._ssh.run(errand, machine, command)

    async def stop(self, errand: Errand, machine: Machine) -> None:
        """End every command that the errand's job left running."""
        await self._ssh.stop(errand, machine)

    async def converge(self, errand: Errand, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        """Run Chef and return the node's attributes."""
        return await self._ssh.converge(errand, machine, chef)

    async def way_in(self, errand: Errand, machine: Machine) -> WayIn:
        """Return what another program needs to get in."""
        return await self._ssh.way_in(errand, machine)

    async def put_file(self, errand: Errand, machine: Machine, name: str, content: bytes) -> None:
        """Write a file."""
        await self._ssh.put_file(errand, machine, name, content)

    async def get_file(self, errand: Errand, machine: Machine, name: str) -> bytes:
        """Read a file."""
        return await self._ssh.get_file(errand, machine, name)

    def stand_in(self, errand: Errand, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:  # noqa: ARG002 - contract
        """Let every action run."""
        return None

    async def _account(self, errand: Errand, spec: MachineSpec) -> CloudAccount:
        """Return the account that a manifest brings, or the one of the environment's that it asks for."""
        asked = asked_account(spec)
        if asked.brings_its_own:
            given = CloudAccount(
                id="",
                name=GIVEN,
                provider=asked.provider,
                identity=asked.identity,
                credential=asked.credential,
                endpoint_url=asked.endpoint_url,
            )
            return await self._book.given(errand, given)
        offered = await self._book.of_environment(errand)
        fitting = [account for account in offered if asked.fits(account)]
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(f"{account.name!r} ({account.provider})" for account in offered) or "none"
        if fitting:
            raise ActionFailed(
                f"Several cloud accounts of the environment fit: {known}.",
                "Say which one with jcloudsProvider or jcloudsEndpoint, or let the environment offer one only.",
                retryable=False,
            )
        raise ActionFailed(
            f"No cloud account of the environment fits; it offers {known}.",
            "Let the environment offer a service of the type builtin:cloud_account, or correct jcloudsProvider and "
            "jcloudsEndpoint.",
            retryable=False,
        )

    async def _making(
        self, errand: Errand, role: str, numbers: Sequence[int], order: Order, account: CloudAccount
    ) -> Making:
        way = read_way(errand)
        installation = await self._book.installation()
        return Making(
            calls=self._calls,
            ssh=self._ssh,
            errand=errand,
            account=account,
            order=order,
            way=way,
            role=role,
            marks={number: Marks.of(installation, errand, role, number) for number in numbers},
            cloud_key=await self._cloud_key(errand, way, order, account),
        )

    async def _cloud_key(self, errand: Errand, way: Way, order: Order, account: CloudAccount) -> str:
        """Let the cloud know the public key that lets in, and return its name there: the same for the same key."""
        if not (way.waits_for_ssh or order.key_pair):
            return ""
        public_key = await self._parts.keys.public_key(errand, order.key_pair)
        material = " ".join(public_key.split()[:2])
        name = f"launchbay-{hashlib.sha256(material.encode()).hexdigest()[:16]}"
        await self._calls.ask(errand, account, order.region, lambda cloud: cloud.put_key(name, material))
        return name

    async def _marked(self, errand: Errand, place: Place, marks: Mapping[str, str]) -> list[Found]:
        account = await self._book.find(place.account_id)
        if account is None:
            errand.log("warning", f"The cloud account {place.account_id} was deleted; nobody can look into it.")
            return []
        nodes = await self._calls.ask(errand, account, place.region, lambda cloud: cloud.marked(marks))
        return [
            Found(
                Machine(
                    id=str(NodeId(place.account_id, place.region, node.id)),
                    role=node.marks.role,
                    provider=self.name,
                    number=node.marks.number,
                    public_ip=node.public_ip,
                    private_ip=node.private_ip,
                    host_name=node.host_name,
                ),
                node.marks,
                node.made_at,
            )
            for node in nodes
            if node.marks is not None
        ]


def on_behalf(errand: Errand, place: Place) -> Errand:
    """Return the errand for somebody else: those who made machines at a place may reach it."""
    return replace(errand, organization_id=place.organization_id, environment_id=place.environment_id)
