"""`cloud`: machines of the environment's cloud account, made through its API and reached by SSH (language §8, §9).

A machine carries its marks from the request that makes it, so an interrupted `provision` finds what it made; where the
API knows client tokens, the same request makes none twice. Before the first machine is made somewhere, the place is
written down: the sweep looks there (`engine/sweeper.py`).
"""

import asyncio
import hashlib
import importlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from launchbay import limits
from launchbay.errors import ActionFailed, AddressRefused
from launchbay.machines.clouds.account import GIVEN, CloudAccount, CloudBook, NodeId, Place
from launchbay.machines.clouds.driver import Cloud, CloudFailed, Endpoint, Node, NodeState, Way, read_way
from launchbay.machines.clouds.order import Order, asked_account, read_order, told
from launchbay.machines.contract import INSTALLATION, INSTANCE, TAG, Errand, Found, Marks, Parts, Reach
from launchbay.machines.remote_commands import settled
from launchbay.machines.ssh import Ssh
from launchbay.machines.static import StaticMachines
from launchbay.model.machine import ChefRun, CommandResult, Machine, MachineSpec, RemoteCommand, WayIn

T = TypeVar("T")
# By the name that a cloud account gives its provider: where the driver is.
DRIVERS = {
    "aws-ec2": "launchbay.machines.clouds.ec2:Ec2",
    "ec2": "launchbay.machines.clouds.ec2:Ec2",
}
_AMAZON = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PORTS = {"https": 443, "http": 80}
_GRACE_S = 5.0  # beyond what the driver gives up after by itself


class CloudCalls:
    """Calls drivers. One object serves all accounts."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._turn = asyncio.Semaphore(limits.CLOUD_CALLS)
        self._threads: ThreadPoolExecutor | None = None

    async def ask(self, errand: Errand, account: CloudAccount, region: str, question: Callable[[Cloud], T]) -> T:
        """Ask a region of an account. Raises CloudFailed, and AddressRefused for an endpoint that may not be reached.

        A question that is cancelled, or takes too long, may still be carried out.
        """
        errand.learn(account.credential)
        errand.learn(account.credential)
        driver = DRIVERS.get(account.provider)
        if driver is None:
            raise CloudFailed(
                f"The cloud account {account.name!r} is for the provider {account.provider!r}, which is not supported.",
                f"Supported are {', '.join(DRIVERS)}; an endpoint of another maker that speaks EC2 works as ec2 with "
                "its endpoint-url.",
                retryable=False,
            )
        endpoint = await self._endpoint(errand, account, region)

        def work() -> T:
            # A driver's object is for one thread, and costs next to nothing to make.
            return question(_loaded(driver)(account, region, endpoint))

        async with self._turn:
            try:
                async with asyncio.timeout(limits.CLOUD_CALL_S + _GRACE_S):
                    return await asyncio.get_running_loop().run_in_executor(self._pool(), work)
            except TimeoutError:
                raise CloudFailed(
                    f"The cloud of the account {account.name!r} did not answer within {limits.CLOUD_CALL_S:g} s."
                ) from None

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(limits.CLOUD_CALLS, thread_name_prefix="cloud")
        return self._threads

    async def _endpoint(self, errand: Errand, account: CloudAccount, region: str) -> Endpoint:
        url = urlsplit(endpoint_url(account, region))
        host, port = url.hostname or "", url.port or _PORTS[url.scheme]
        try:
            addresses = await self._reach.addresses(errand, host, port)
        except AddressRefused as error:
            raise CloudFailed(
                f"The endpoint of the cloud account {account.name!r} may not be reached:",
                *error.sentences,
                retryable=False,
            ) from None
        except ActionFailed as error:
            raise CloudFailed(*error.sentences) from None
        return Endpoint(url.scheme, host, port, url.path, tuple(addresses))


def endpoint_url(account: CloudAccount, region: str) -> str:
    """Return where a region of the account answers. Raises CloudFailed for a name that no region can have."""
    known = _REGION if account.endpoint_url else _AMAZON
    if not known.fullmatch(region):
        raise CloudFailed(f"{region[:80]!r} is no name of a region; one is called like us-east-1.", retryable=False)
    if account.endpoint_url:
        return account.endpoint_url
    return f"https://ec2.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _loaded(driver: str) -> Callable[[CloudAccount, str, Endpoint], Cloud]:
    """Return a driver's class; the first time, this loads its library."""
    module, _, name = driver.partition(":")
    try:
        found: Callable[[CloudAccount, str, Endpoint], Cloud] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise CloudFailed(
            f"The library for clouds is not installed on this server: {error.name} is missing.",
            "An administrator installs it with: pip install 'launchbay[clouds]'.",
            retryable=False,
        ) from None
    return found


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
