"""One order of machines, from the question what is there already to machines that let us in, or to none."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.clouds.account import CloudAccount
from launchbay.machines.clouds.calls import CloudCalls
from launchbay.machines.clouds.cloud import Cloud, CloudFailed, Node, NodeState
from launchbay.machines.clouds.node_id import NodeId
from launchbay.machines.clouds.order import Order
from launchbay.machines.clouds.ways import Way
from launchbay.machines.contract import Errand
from launchbay.machines.marks import INSTALLATION, INSTANCE, TAG, Marks
from launchbay.machines.outcomes import settled
from launchbay.machines.ssh import Ssh
from launchbay.model.machine import Machine

T = TypeVar("T")

NAME = "cloud"
_LOOK_FIRST_S = 0.5
_LOOK_LONGEST_S = 5.0
_TAKE_DOWN_PAUSES_S = (0.5, 2.0)  # between attempts to clean up


@dataclass(frozen=True, kw_only=True)
class Making:
    """What one errand makes. `marks` are its machines' by number; `cloud_key` is the key's name in the cloud."""

    calls: CloudCalls
    ssh: Ssh
    errand: Errand
    account: CloudAccount
    order: Order
    way: Way
    role: str
    marks: Mapping[int, Marks]
    cloud_key: str

    async def standing(self) -> Sequence[Node]:
        """Return what carries the errand's tag already: machines of an attempt that was interrupted."""
        mark = next(iter(self.marks.values()))
        written = {INSTALLATION: mark.installation, INSTANCE: mark.instance, TAG: mark.tag}
        return await self._ask(lambda cloud: cloud.marked(written))

    async def machines(self, standing: Sequence[Node]) -> Sequence[Machine]:
        """Make what is missing and return all when they let us in. Raises ActionFailed; some may stand then."""
        made = await self._made(standing)
        try:
            async with asyncio.timeout(self.way.within_s):
                running = await self._running(made)
        except TimeoutError:
            ids = ", ".join(node.id for node in made.values())
            raise CloudFailed(f"{ids} did not run within {self.way.within_s:g} s.") from None
        machines = [machine_of(self, number, node) for number, node in sorted(running.items())]
        if self.way.waits_for_ssh:
            answers = [self.ssh.answers(self.errand, machine, within_s=self.way.within_s) for machine in machines]
            await settled(answers, limits.MACHINES_AT_ONCE)
        return machines

    async def take_down(self) -> list[str]:
        """End everything that carries the errand's tag, and return a sentence where something may be left."""
        for pause_s in (*_TAKE_DOWN_PAUSES_S, None):
            try:
                standing = await self.standing()
                for node in standing:
                    self.errand.log("info", f"Takes the machine {node.id} down again.")
                await settled(map(self._end, standing), limits.CLOUD_CALLS)
                break
            except ActionFailed as error:
                if pause_s is None:
                    return [f"Machines may be left, for the sweep to find: {error}"]
                await asyncio.sleep(pause_s)
        return []

    async def _made(self, standing: Sequence[Node]) -> dict[int, Node]:
        nodes = self._taken(standing)
        missing = [number for number in self.marks if number not in nodes]
        if missing:
            order = self.order
            self.errand.log(
                "info",
                f"Makes {len(missing)} of {order.image} ({order.size}) in {order.region} for the role {self.role!r}, "
                f"cloud account {self.account.name!r}.",
            )
        results = await settled(map(self._make, missing), limits.CLOUD_CALLS)
        for number, node in zip(missing, results, strict=True):
            nodes[number] = node
        await self._end_twins({node.id for node in nodes.values()})
        return nodes

    def _taken(self, standing: Sequence[Node]) -> dict[int, Node]:
        """Return the machines that an interrupted attempt made, by number."""
        nodes: dict[int, Node] = {}
        for node in sorted(standing, key=lambda node: node.id):
            number = node.marks.number if node.marks is not None else -1
            if number in self.marks and number not in nodes:
                nodes[number] = node
                self.errand.log("info", f"Takes the machine {node.id}, which was made before.")
        return nodes

    async def _end_twins(self, kept: Set[str]) -> None:
        """End what an interrupted attempt made after it was looked for: its last requests may have come in late."""
        twins = [node for node in await self.standing() if node.id not in kept]
        for node in twins:
            self.errand.log("info", f"Takes the machine {node.id} down, which was made twice.")
        await settled(map(self._end, twins), limits.CLOUD_CALLS)

    async def _make(self, number: int) -> Node:
        token = hashlib.sha256(f"{self.errand.tag}/{number}/{self.errand.attempt}".encode()).hexdigest()
        marks = self.marks[number]
        name = self.order.name_of(self.role, number, self.errand.instance_id, self.errand.component)
        node = await self._ask(lambda cloud: cloud.make(self.order, name, marks, token, self.cloud_key))
        self.errand.log("info", f"Made {node.id} ({name}).")
        return node

    async def _running(self, made: Mapping[int, Node]) -> dict[int, Node]:
        """Wait until all run and have an address."""
        nodes, pause_s = dict(made), _LOOK_FIRST_S
        while waiting := {node.id: number for number, node in nodes.items() if not self._is_up(node)}:
            # A cloud may not know a machine yet, right after it was made: it is waited for.
            for node in await self._ask(partial(_look, ids=list(waiting))):
                if node.state is NodeState.OVER:
                    raise CloudFailed(f"The machine {node.id} ended while it started.")
                nodes[waiting[node.id]] = node
            if not all(map(self._is_up, nodes.values())):
                await asyncio.sleep(pause_s)
                pause_s = min(_LOOK_LONGEST_S, pause_s * 2)
        return nodes

    def _is_up(self, node: Node) -> bool:
        return node.state is NodeState.RUNNING and self.way.has_address(node)

    async def _end(self, node: Node) -> None:
        await self._ask(lambda cloud: cloud.end(node.id))

    async def _ask(self, question: Callable[[Cloud], T]) -> T:
        return await self.calls.ask(self.errand, self.account, self.order.region, question)


def _look(cloud: Cloud, ids: Sequence[str]) -> Sequence[Node]:
    return cloud.look(ids)


def machine_of(making: Making, number: int, node: Node) -> Machine:
    """Return a machine that runs, as its instance keeps it."""
    public, private = making.way.addresses(node)
    return Machine(
        id=str(NodeId(making.account.id, making.order.region, node.id)),
        role=making.role,
        provider=NAME,
        number=number,
        public_ip=public,
        private_ip=private,
        host_name=node.host_name,
        login=making.order.login,
        port=making.way.port,
        key_name=making.order.key_pair,
    )
