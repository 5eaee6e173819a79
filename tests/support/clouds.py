"""An organization that makes its machines in a cloud of a test: account, key pair and policies, all through the API."""

import asyncio
import re
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import httpx

from launchbay.app.machines import CheckedResolver
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed
from launchbay.ids import new_id
from launchbay.machines.clouds.account import CloudAccount, CloudRegion
from launchbay.machines.clouds.driver import CloudCalls, Node
from launchbay.machines.clouds.provider import CloudMachines
from launchbay.machines.contract import INSTALLATION, PooledHost, ProviderContext, ProviderDeps, TaggedMachine, Tags
from launchbay.model.machine import LoginKey, Machine, MachineSpec
from tests.support.contexts import Log, context
from tests.support.eventually import until_listening
from tests.support.machines import LOGIN, Hosts
from tests.support.service import accepted, fresh_name

LONG_AGO = datetime.now(UTC) - timedelta(days=1)


@dataclass
class Yard:
    """Implements `Sweepable`. A machine in `stuck` cannot be taken down; one in `gone` has just gone."""

    name: str = "yard"
    standing: dict[str, TaggedMachine] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    looks: int = 0
    open: asyncio.Event = field(default_factory=asyncio.Event)  # nothing is taken down until it is set

    def __post_init__(self) -> None:
        self.open.set()

    def add(self, instance_id: str, *, organization_id: str = "", made_at: datetime | None = LONG_AGO) -> Machine:
        asked = context(instance_id=instance_id, organization_id=organization_id or new_id())
        machine = Machine(id=new_id(), role="web", provider=self.name, number=1, public_ip="192.0.2.1")
        self.standing[machine.id] = TaggedMachine(machine, Tags.of("here", asked, "web", 1), made_at)
        return machine

    async def list_tagged(self, context: ProviderContext) -> AsyncIterator[TaggedMachine]:
        self.looks += 1
        for each in list(self.standing.values()):
            yield each

    async def exists(self, context: ProviderContext, machine: Machine) -> bool:
        return machine.id in self.standing and machine.id not in self.gone

    async def release(self, context: ProviderContext, machine: Machine) -> None:
        await self.open.wait()
        if machine.id in self.stuck:
            raise ActionFailed("the yard keeps it.")
        del self.standing[machine.id]


_REFUSAL = (
    '<?xml version="1.0"?><Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>'
    "<RequestID>1</RequestID></Response>"
)


@dataclass
class Gate:
    """`refusals` names (action, how many-th) → code; `held` waits for the event after the request was carried out.

    Searches in `blind` find nothing yet. With `page_size`, a list comes in pages though nobody asked for them. With
    `honors_tokens`, a client token gets its first answer again, as EC2 documents it; moto ignores the token.
    """

    upstream: str
    url: str = ""
    actions: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    refusals: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    blind: set[tuple[str, int]] = field(default_factory=set)
    page_size: int = 0
    honors_tokens: bool = False
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    held: dict[tuple[str, int], threading.Event] = field(default_factory=dict)
    reached: dict[tuple[str, int], threading.Event] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, action: str, nth: int, code: str, status: int = 400) -> None:
        self.refusals[action, nth] = (status, code)

    def hold(self, action: str, nth: int) -> tuple[threading.Event, threading.Event]:
        """Have a request carried out and its answer kept back. Returns when it is so, and what lets the answer go."""
        place = (action, nth)
        self.reached[place], self.held[place] = threading.Event(), threading.Event()
        return self.reached[place], self.held[place]

    def count(self, action: str) -> int:
        return self.counts[action]

    def clear(self) -> None:
        for event in self.held.values():
            event.set()
        for known in (self.refusals, self.blind, self.held, self.reached, self.counts):
            known.clear()
        self.actions.clear()


@contextmanager
def standing_before(upstream: str) -> Iterator[Gate]:
    gate = Gate(upstream)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _pass(gate, self)

        def do_POST(self) -> None:
            _pass(gate, self)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    gate.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield gate
    finally:
        gate.clear()
        server.shutdown()
        server.server_close()


# As the reference of the API documents it.
_NOTHING = (
    b'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
    b"<requestId>fdcdcab1-ae5c-489e-9c33-4637c5dda355</requestId><reservationSet/></DescribeInstancesResponse>"
)


def _pass(gate: Gate, handler: BaseHTTPRequestHandler) -> None:
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    query = parse_qs(urlsplit(handler.path).query)
    action = query.get("Action", [""])[0] or parse_qs(body.decode()).get("Action", [""])[0]
    with gate.lock:
        gate.counts[action] += 1
        place = (action, gate.counts[action])
        gate.actions.append(action)
        gate.tokens.extend(query.get("ClientToken", []))
    if place in gate.refusals:
        status, code = gate.refusals[place]
        _answer(handler, status, _REFUSAL.format(code=code, message=f"refused by the test: {code}").encode())
        return
    if place in gate.blind:
        _answer(handler, 200, _NOTHING)
        return
    if action == "DescribeInstances" and gate.page_size:
        handler.path += f"&MaxResults={gate.page_size}"
    token = query.get("ClientToken", [""])[0]
    if gate.honors_tokens and token and token in gate.answers:
        _answer(handler, *gate.answers[token])
        return
    headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "content-length")}
    # The region is read from the signature, and moto does not verify it.
    url = f"{gate.upstream}{handler.path}"
    try:
        answer = urlopen(Request(url, data=body or None, headers=headers, method=handler.command), timeout=30)
    except HTTPError as refusal:
        answer = refusal
    with answer:
        status, content = answer.status, answer.read()
    gate.answers[token] = status, content
    if place in gate.held:
        gate.reached[place].set()
        gate.held[place].wait(60)
    _answer(handler, status, content)


def _answer(handler: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
    try:
        handler.send_response(status)
        handler.send_header("Content-Type", "text/xml")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)
    except OSError:  # whoever asked has given up
        handler.close_connection = True


PROGRAM = Path(__file__).resolve().parents[2] / ".venv" / "moto" / "bin" / "moto_server"
MISSING = "moto is not installed: run requirements/moto, which needs the package registry"
IMAGE = "ami-12c6146b"  # one of those that moto knows
SIZE = "t2.micro"
_START_S = 60.0


@contextmanager
def started(log: Path) -> Iterator[str]:
    """Run the server and give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [PROGRAM, "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait(url, process, log)
        yield url
    finally:
        process.kill()
        process.wait()


def reset(url: str) -> None:
    """Forget every machine."""
    urlopen(Request(f"{url}/moto-api/reset", method="POST"), timeout=30).close()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_listening(int(url.rpartition(":")[2]), process, log, within_s=_START_S)


def loopback_subnet(url: str, region: str, network: int) -> str:
    """Make a subnet whose machines get the addresses 127.0.`network`.4 and on, and return its id."""
    vpc = _asked(url, region, "vpcId", Action="CreateVpc", CidrBlock=f"127.0.{network}.0/24")
    return _asked(url, region, "subnetId", Action="CreateSubnet", VpcId=vpc, CidrBlock=f"127.0.{network}.0/24")


def _asked(url: str, region: str, wanted: str, **parameters: str) -> str:
    scope = f"AKIAIOSFODNN7EXAMPLE/20260101/{region}/ec2/aws4_request"
    request = Request(
        f"{url}/?{urlencode({**parameters, 'Version': '2016-11-15'})}",
        headers={"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"},
    )
    with urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    found = re.search(rf"<{wanted}>([^<]+)</{wanted}>", text)
    assert found is not None, text
    return found[1]


REGION = "us-west-2"
UNWATCHED: Mapping[str, Any] = {"machines.wait-for-ssh": False}
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0wCYl2uDdqvLyLyTDWKFWhoxd0CEbcZbaTGnw4DBoR test"


@dataclass
class MemoryBook:
    """Implements `CloudBook`."""

    accounts: list[CloudAccount] = field(default_factory=list)
    noted: list[tuple[str, CloudRegion]] = field(default_factory=list)
    brought: dict[str, CloudAccount] = field(default_factory=dict)
    id: str = "installation-1"

    async def installation(self) -> str:
        return self.id

    async def list_by_environment(self, context: ProviderContext) -> Sequence[CloudAccount]:
        return self.accounts

    async def save_given(self, context: ProviderContext, account: CloudAccount) -> CloudAccount:
        return self.brought.setdefault(account.identity, replace(account, id=f"given-{account.identity}"))

    async def get(self, account_id: str) -> CloudAccount | None:
        known = {account.id: account for account in (*self.accounts, *self.brought.values())}
        return known.get(account_id)

    async def record_place(self, context: ProviderContext, account_id: str, region: str) -> None:
        place = CloudRegion(account_id, region, context.organization_id, context.environment_id)
        self.noted.append((context.instance_id, place))

    async def places(self, instance_id: str | None = None) -> Sequence[CloudRegion]:
        found = [place for instance, place in self.noted if instance_id in (None, instance)]
        return list(dict.fromkeys(found))


@dataclass
class Keys:
    """One key pair under every name: that of SSH servers of a test, or one whose private half is lost."""

    private: str = ""
    public: str = PUBLIC_KEY

    async def login_key(self, context: ProviderContext, name: str, login: str) -> LoginKey:
        if not self.private:
            raise ActionFailed("the test has no private key.", retryable=False)
        return LoginKey(self.private)

    async def public_key(self, context: ProviderContext, name: str) -> str:
        return self.public

    async def password(self, context: ProviderContext, name: str) -> str:
        raise ActionFailed("the test has no secret.", retryable=False)


@dataclass
class Bay:
    """A provider, its account, and a way to look into the cloud past it."""

    provider: CloudMachines
    book: MemoryBook
    account: CloudAccount
    calls: CloudCalls
    log: Log = field(default_factory=Log)

    def context(self, **more: Any) -> ProviderContext:
        return context(self.log, **{"policies": UNWATCHED, "action": "provisionVms", **more})

    async def standing(self, installation: str = "installation-1") -> list[Node]:
        return await self.marked({INSTALLATION: installation})

    async def marked(self, marks: Mapping[str, str]) -> list[Node]:
        found = await self.calls.call(self.context(), self.account, REGION, lambda cloud: cloud.find_tagged(marks))
        return sorted(found, key=lambda node: node.id)


def account(url: str, **more: Any) -> CloudAccount:
    found = CloudAccount(
        id="account-1",
        name="lab",
        provider="aws-ec2",
        identity="AKIAIOSFODNN7EXAMPLE",
        credential="wJalrXUtnFEMI/K7MDENG",
        endpoint_url=url,
        regions=(REGION,),
    )
    return replace(found, **more)


def bay(url: str, directory: Path, *, allow: str = "127.0.0.1", keys: Keys | None = None, **more: Any) -> Bay:
    allowlist = Allowlist.parse(allow)
    reach = CheckedResolver(allowlist)
    own = account(url, **more)
    book = MemoryBook([own])
    outgoing = EgressClient(allowlist)
    calls = CloudCalls(outgoing)
    parts = ProviderDeps(
        keys=keys or Keys(), host_keys=Pins(), pools=NoPools(), resolver=reach, egress=outgoing, directory=directory
    )
    return Bay(CloudMachines(parts, book, calls), book, own, calls)


class NoPools:
    """An environment without a pool."""

    async def acquire(self, context: ProviderContext, count: int) -> Mapping[str, PooledHost]:
        raise ActionFailed("there is no pool.")

    async def release(self, context: ProviderContext, machine_id: str) -> None:
        pass

    async def acquired(self, context: ProviderContext) -> Mapping[str, PooledHost]:
        return {}


class Pins:
    """Keeps no host keys: nothing here signs in."""

    async def pinned(self, context: ProviderContext, host: str) -> str | None:
        return None

    async def pin(self, context: ProviderContext, host: str, key: str) -> str:
        return key

    async def forget(self, context: ProviderContext, host: str) -> None:
        pass


def spec(**more: Any) -> MachineSpec:
    settings = more.pop("settings", {})
    return MachineSpec(**{"hardware": SIZE, "image": IMAGE, "login": "ubuntu", **more}, settings=settings)


KEY_PAIR = "deploy"
MANIFEST = f"""
application:
  interfaces:
    result: {{hosts: bind(web#result.hosts), names: bind(web#result.names)}}
    actions: {{grow: bind(web#actions.grow), shrink: bind(web#actions.shrink)}}
  components:
    web:
      type: workflow.Instance
      interfaces:
        result: {{hosts: publish-signal(list<string>), names: publish-signal(list<string>)}}
        actions: {{grow: receive-command(int size), shrink: receive-command(int count)}}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - machines:
                  action: provisionVms
                  parameters: &machines
                    roleName: web
                    targetQuantity: 2
                    imageId: {REGION}/{IMAGE}
                    hardwareId: {SIZE}
                    vmIdentity: {LOGIN}
                    publicKeyId: {KEY_PAIR}
                    subnetId: SUBNET
                  output: {{hosts: ips}}
              - look:
                  action: execrun
                  precedingPhases: [machines]
                  parameters: {{roles: [web], command: ["echo $SSH_CONNECTION | cut -d' ' -f3"]}}
                  output: {{names: stdout}}
            return: {{hosts: {{value: "{{$.hosts}}"}}, names: {{value: "{{$.names[*]}}"}}}}
          grow:
            steps:
              - machines:
                  action: provisionVms
                  parameters: {{<<: *machines, targetQuantity: "{{$.size}}"}}
                  output: {{hosts: ips}}
            return: {{hosts: {{value: "{{$.hosts}}"}}}}
          shrink:
            steps:
              - machines:
                  action: destroyVms
                  parameters: {{roleName: web, quantity: "{{$.count}}"}}
                  output: {{hosts: ips}}
            return: {{hosts: {{value: "{{$.hosts}}"}}}}
"""


class Organized(Protocol):
    """Who may set an organization up: `Caller` has all of it, and `Api` both."""

    @property
    def organization(self) -> str: ...
    async def post(self, path: str, body: Any = None) -> httpx.Response: ...
    async def put(self, path: str, body: Any) -> httpx.Response: ...
    async def put_yaml(self, path: str, text: str) -> httpx.Response: ...


async def cloud_environment(api: Organized, endpoint: str, hosts: Hosts) -> str:
    """Make an environment with an account at the endpoint and the key pair of the hosts; return its id."""
    services = f"organizations/{api.organization}/services"
    parameters = {
        "configuration.provider": "aws-ec2",
        "configuration.identity": "AKIAIOSFODNN7EXAMPLE",
        "configuration.credential": "wJalrXUtnFEMI/K7MDENG",
        "configuration.endpoint-url": endpoint,
        "configuration.legacy-regions": REGION,
    }
    account = await _created(api, services, "builtin:cloud_account", parameters)
    vault = await _created(api, services, "builtin:cobalt_secure_store", {})
    arguments = {"name": KEY_PAIR, "privateKey": hosts.private_key}
    accepted(await api.post(f"services/{vault}/import-keypair", {"arguments": arguments}))
    created = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    environment = str(accepted(created)["id"])
    accepted(await api.put(f"environments/{environment}/services", {"services": [account, vault]}))
    policies = f"""
        policies:
          machines.provider: cloud
          machines.address: private
          machines.ssh-port: {hosts[0].port}
          machines.start-timeout: 60
    """
    accepted(await api.put_yaml(f"environments/{environment}", dedent(policies)))
    return environment


async def _created(api: Organized, path: str, kind: str, parameters: dict[str, Any]) -> str:
    body = {"name": fresh_name("service"), "typeId": kind, "parameters": parameters}
    return str(accepted(await api.post(path, body))["id"])
