"""`cloud`: machines of the environment's cloud account, created by its API and reached by SSH (language §8, §9).

The request that creates a machine also tags it, so an interrupted `provision` finds what it created. If the API
supports client tokens, a repeated request creates no second machine. The ledger records each place before the first
machine there is created: the sweep searches these places (`engine/sweeper.py`).
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.concurrency import gather_bounded
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import CloudAccount, CloudRegion, MachineLedger, NodeId
from launchbay.machines.clouds.driver import (
    KEY_UNKNOWN,
    Cloud,
    CloudCalls,
    CloudFailed,
    Node,
    NodeAccess,
    NodeState,
    read_node_access,
)
from launchbay.machines.clouds.order import Order, read_account_request, read_order, selects
from launchbay.machines.contract import (
    INSTALLATION,
    INSTANCE,
    TAG,
    ProviderContext,
    ProviderDeps,
    TaggedMachine,
    Tags,
)
from launchbay.machines.ssh import SshMachines
from launchbay.machines.static import StaticMachines
from launchbay.model.machine import Machine, MachineSpec

T = TypeVar("T")
NAME = "cloud"
_POLL = Backoff(0.5, 5.0)
_TERMINATE_PAUSES_S = (0.5, 2.0)  # between attempts to clean up
# Between attempts at what was created just now: a cloud is eventually consistent, and may not know it yet.
_UNKNOWN_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, kw_only=True)
class NodeLaunch:
    """The machines that one step creates. `tags` are by number; `cloud_key` is the key pair's name in the cloud."""

    calls: CloudCalls
    ssh: SshMachines
    context: ProviderContext
    account: CloudAccount
    order: Order
    access: NodeAccess
    role: str
    tags: Mapping[int, Tags]
    cloud_key: str
    created: list[Node] = field(default_factory=list)

    async def existing(self) -> Sequence[Node]:
        """Return the machines with the step's tag: those of an interrupted attempt."""
        first = next(iter(self.tags.values()))
        tags = {INSTALLATION: first.installation, INSTANCE: first.instance, TAG: first.tag}
        return await self._call(lambda cloud: cloud.find_tagged(tags))

    async def machines(self, existing: Sequence[Node]) -> Sequence[Machine]:
        """Create the missing machines, and return all when they accept the login.

        Raises ActionFailed; some of the machines may exist then.
        """
        nodes = await self._create_missing(existing)
        try:
            async with asyncio.timeout(self.access.within_s):
                running = await self._running(nodes)
        except TimeoutError:
            ids = ", ".join(node.id for node in nodes.values())
            raise CloudFailed(f"Not running within {self.access.within_s:g} s: {ids}.") from None
        machines = [machine_of(self, number, node) for number, node in sorted(running.items())]
        if self.access.waits_for_ssh:
            waits = [
                self.ssh.wait_until_reachable(self.context, machine, within_s=self.access.within_s)
                for machine in machines
            ]
            await gather_bounded(waits, limits.MACHINES_AT_ONCE)
        return machines

    async def terminate_all(self) -> list[str]:
        """Terminate all machines with the step's tag. Return a message if some may be left."""
        for pause_s in (*_TERMINATE_PAUSES_S, None):
            try:
                # A search may not find yet what this attempt has created.
                nodes = {node.id: node for node in (*self.created, *await self.existing())}
                for node_id in nodes:
                    self.context.log("info", f"Terminating the machine {node_id}, because the step failed.")
                await gather_bounded(map(self._terminate, nodes.values()), limits.CLOUD_CALLS)
                break
            except ActionFailed as error:
                if pause_s is None:
                    return [f"Machines may be left for the sweep: {error}"]
                await asyncio.sleep(pause_s)
        return []

    async def _create_missing(self, existing: Sequence[Node]) -> dict[int, Node]:
        nodes = self._adopted(existing)
        missing = [number for number in self.tags if number not in nodes]
        if missing:
            order = self.order
            self.context.log(
                "info",
                f"Creating {len(missing)} of {order.image} ({order.size}) in {order.region} for the role "
                f"{self.role!r}, cloud account {self.account.name!r}.",
            )
        results = await gather_bounded(map(self._create, missing), limits.CLOUD_CALLS)
        for number, node in zip(missing, results, strict=True):
            nodes[number] = node
        await self._terminate_duplicates({node.id for node in nodes.values()})
        return nodes

    def _adopted(self, existing: Sequence[Node]) -> dict[int, Node]:
        """Return the machines that an interrupted attempt created, by number."""
        nodes: dict[int, Node] = {}
        for node in sorted(existing, key=lambda node: node.id):
            number = node.tags.number if node.tags is not None else -1
            if number in self.tags and number not in nodes:
                nodes[number] = node
                self.context.log("info", f"Using the machine {node.id} of an interrupted attempt.")
        return nodes

    async def _terminate_duplicates(self, retained: Set[str]) -> None:
        """Terminate machines of an interrupted attempt whose requests arrived late, after the search."""
        duplicates = [node for node in await self.existing() if node.id not in retained]
        for node in duplicates:
            self.context.log("info", f"Terminating the machine {node.id}, which was created twice.")
        await gather_bounded(map(self._terminate, duplicates), limits.CLOUD_CALLS)

    async def _create(self, number: int) -> Node:
        token = hashlib.sha256(f"{self.context.tag}/{number}/{self.context.attempt}".encode()).hexdigest()
        tags = self.tags[number]
        name = self.order.name_of(self.role, number, self.context.instance_id, self.context.component)
        for pause_s in (*_UNKNOWN_PAUSES_S, None):
            try:
                node = await self._call(lambda cloud: cloud.create_node(self.order, name, tags, token, self.cloud_key))
                break
            except CloudFailed as error:
                if error.reason != KEY_UNKNOWN or pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        self.created.append(node)
        self.context.log("info", f"Created {node.id} ({name}).")
        return node

    async def _running(self, created: Mapping[int, Node]) -> dict[int, Node]:
        """Wait until all run and have an address."""
        nodes, delays = dict(created), _POLL.delays()
        while waiting := {node.id: number for number, node in nodes.items() if not self._is_up(node)}:
            # Right after its creation a machine may be missing from the cloud's answer.
            for node in await self._call(partial(_describe, ids=list(waiting))):
                if node.state is NodeState.TERMINATED:
                    raise CloudFailed(f"The machine {node.id} terminated while it started.")
                nodes[waiting[node.id]] = node
            if not all(map(self._is_up, nodes.values())):
                await asyncio.sleep(next(delays))
        return nodes

    def _is_up(self, node: Node) -> bool:
        return node.state is NodeState.RUNNING and self.access.has_address(node)

    async def _terminate(self, node: Node) -> None:
        is_new = any(node.id == each.id for each in self.created)
        for pause_s in (*_UNKNOWN_PAUSES_S, None):
            if await self._call(lambda cloud: cloud.terminate(node.id)) or not is_new:
                return
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        raise CloudFailed(f"The cloud doesn't know the new machine {node.id} yet.")

    async def _call(self, question: Callable[[Cloud], T]) -> T:
        return await self.calls.call(self.context, self.account, self.order.region, question)


def _describe(cloud: Cloud, ids: Sequence[str]) -> Sequence[Node]:
    return cloud.describe(ids)


def machine_of(launch: NodeLaunch, number: int, node: Node) -> Machine:
    public, private = launch.access.addresses(node)
    return Machine(
        id=str(NodeId(launch.account.id, launch.order.region, node.id)),
        role=launch.role,
        provider=NAME,
        number=number,
        public_ip=public,
        private_ip=private,
        host_name=node.host_name,
        login=launch.order.login,
        port=launch.access.port,
        key_name=launch.order.key_pair,
        jump=launch.order.jump,
        sudo_secret=launch.order.sudo_secret,
    )


class CloudMachines(SshMachines):
    """The provider; one object serves all instances."""

    name = NAME

    def __init__(self, deps: ProviderDeps, ledger: MachineLedger, calls: CloudCalls | None = None) -> None:
        super().__init__(deps)
        self._ledger = ledger
        self._calls = calls or CloudCalls(deps.egress)
        self._hosts = StaticMachines(deps)

    async def provision(
        self, context: ProviderContext, role: str, numbers: Sequence[int], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Create machines, and return when they run and accept the login. Terminates all of them after a failure."""
        account = await self._account(context, spec)
        order = read_order(role, spec, account)
        if order.unknown:
            context.log("warning", f"The cloud provider ignores unknown parameters: {', '.join(order.unknown)}.")
        launch = await self._launch(context, role, numbers, order, account)
        await self._ledger.record_place(context, account.id, order.region)
        existing = await launch.existing()
        try:
            return await launch.machines(existing)
        except ActionFailed as error:
            left = await launch.terminate_all()
            raise ActionFailed(*error.messages, *left, retryable=error.retryable) from None

    async def adopt(
        self, context: ProviderContext, role: str, addresses: Mapping[int, str], spec: MachineSpec
    ) -> Sequence[Machine]:
        """Adopt existing hosts of any origin, as static machines."""
        return await self._hosts.adopt(context, role, addresses, spec)

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        account_id, region, node_id = NodeId.of(machine)
        account = await self._ledger.get(account_id)
        if account is None:
            raise ActionFailed(
                f"The cloud account that created the machine {node_id} in {region} was deleted.",
                "Terminate the machine in the cloud's own console.",
                retryable=False,
            )
        await self._calls.call(context, account, region, lambda cloud: cloud.terminate(node_id))
        await self.forget(context, machine)

    async def orphans(self, context: ProviderContext) -> Sequence[Machine]:
        """Return all machines of the context's instance, in every place that the ledger has for it."""
        tags = {INSTALLATION: await self._ledger.installation(), INSTANCE: context.instance_id}
        places = await self._ledger.places(context.instance_id)
        found = await gather_bounded((self._find_tagged(context, place, tags) for place in places), limits.CLOUD_CALLS)
        return [each.machine for several in found for each in several]

    async def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        tags = {INSTALLATION: await self._ledger.installation()}
        for place in await self._ledger.places():
            try:
                # On behalf of the environment that may connect to the place.
                own = replace(context, organization_id=place.organization_id, environment_id=place.environment_id)
                several = await self._find_tagged(own, place, tags)
            except ActionFailed as error:
                context.log("warning", f"Skipping the cloud account {place.account_id} in {place.region}: {error}")
                continue
            for each in several:
                yield each

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:
        account_id, region, node_id = NodeId.of(machine)
        account = await self._ledger.get(account_id)
        if account is None:
            return False
        nodes = await self._calls.call(context, account, region, lambda cloud: cloud.describe([node_id]))
        return any(node.state is not NodeState.TERMINATED for node in nodes)

    async def _account(self, context: ProviderContext, spec: MachineSpec) -> CloudAccount:
        """Return the account that the manifest contains, or the environment's account that it selects."""
        asked = read_account_request(spec)
        if asked.identity:
            return await self._ledger.save_given(context, asked)
        offered = await self._ledger.list_by_environment(context)
        fitting = [account for account in offered if selects(asked, account)]
        if len(fitting) == 1:
            return fitting[0]
        known = ", ".join(f"{account.name!r} ({account.provider})" for account in offered) or "none"
        if fitting:
            raise ActionFailed(
                f"Several cloud accounts of the environment match: {known}.",
                "Select one with jcloudsProvider or jcloudsEndpoint, or let the environment offer only one.",
                retryable=False,
            )
        raise ActionFailed(
            f"No cloud account of the environment matches. It offers: {known}.",
            "Let the environment offer a service of the type builtin:cloud_account, or correct jcloudsProvider and "
            "jcloudsEndpoint.",
            retryable=False,
        )

    async def _launch(
        self, context: ProviderContext, role: str, numbers: Sequence[int], order: Order, account: CloudAccount
    ) -> NodeLaunch:
        access = read_node_access(context)
        installation = await self._ledger.installation()
        return NodeLaunch(
            calls=self._calls,
            ssh=self,
            context=context,
            account=account,
            order=order,
            access=access,
            role=role,
            tags={number: Tags.of(installation, context, role, number) for number in numbers},
            cloud_key=await self._cloud_key(context, access, order, account),
        )

    async def _cloud_key(
        self, context: ProviderContext, access: NodeAccess, order: Order, account: CloudAccount
    ) -> str:
        """Import the public key into the cloud and return its name there, which depends on the key alone."""
        if not (access.waits_for_ssh or order.key_pair):
            return ""
        public_key = await self._deps.keys.public_key(context, order.key_pair)
        if not public_key:
            return ""
        material = " ".join(public_key.split()[:2])
        name = f"launchbay-{hashlib.sha256(material.encode()).hexdigest()[:16]}"
        await self._calls.call(context, account, order.region, lambda cloud: cloud.import_key(name, material))
        return name

    async def _find_tagged(
        self, context: ProviderContext, place: CloudRegion, tags: Mapping[str, str]
    ) -> list[TaggedMachine]:
        account = await self._ledger.get(place.account_id)
        if account is None:
            context.log("warning", f"Skipping the cloud account {place.account_id}, because it was deleted.")
            return []
        nodes = await self._calls.call(context, account, place.region, lambda cloud: cloud.find_tagged(tags))
        return [
            TaggedMachine(
                Machine(
                    id=str(NodeId(place.account_id, place.region, node.id)),
                    role=node.tags.role,
                    provider=self.name,
                    number=node.tags.number,
                    public_ip=node.public_ip,
                    private_ip=node.private_ip,
                    host_name=node.host_name,
                ),
                node.tags,
                node.created_at,
            )
            for node in nodes
            if node.tags is not None
        ]
