"""A service whose environment works on real hosts, for tests of the API."""

import base64
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from launchbay.actions.contract import ActionCall
from launchbay.errors import ActionFailed
from launchbay.model.redaction import SecretEncodings
from launchbay.model.types import BOOL, INT, OBJECT, STRING, ListType, PinType, parse_pin_type
from launchbay.service_types.contract import (
    CommandArgument,
    FieldMessages,
    ParameterScope,
    PassiveServiceType,
    ServiceCall,
    ServiceCommand,
    ServiceParameter,
    command_pins,
)
from tests.support.machines import LOGIN, Hosts
from tests.support.service import Api, Caller, accepted, fresh_name, running_api


class Beacon(PassiveServiceType):
    """Publishes where it stands, and counts how often it was lit and with which keys."""

    id = "test:beacon"
    name = "Beacon"
    parameters: Mapping[str, ServiceParameter] = {
        "place": ServiceParameter(STRING, "Where.", required=True),
        "code": ServiceParameter(STRING, "A secret.", secret=True),
    }
    commands: Mapping[str, ServiceCommand] = {
        "light": ServiceCommand("beacon", "Lights it.", intermediate={"glow": STRING}, results={"seen": STRING}),
    }
    interfaces: Mapping[str, Mapping[str, PinType]] = {
        "beacon": {**command_pins(commands)["beacon"], "place": parse_pin_type("publish-signal(string)")}
    }

    def __init__(self) -> None:
        self.keys: list[str | None] = []

    def signals(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        assert "code" not in parameters
        if parameters["place"] == "nowhere":
            raise ValueError("no such place")
        return {"beacon.place": parameters["place"]}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        self.keys.append(call.idempotency_key)
        call.report({"glow": "faint"})
        # What is secret must reach the type, and shall not be shown; its length is enough to tell.
        return {"seen": f"{call.parameters['place']} {len(call.parameters.get('code', ''))}"}


BEACON = Beacon()


async def service(api: Api, type_id: str, parameters: Any, *, where: str) -> str:
    """Make a service and let an environment offer it, and nothing else."""
    body = {"name": fresh_name("service"), "typeId": type_id, "parameters": parameters}
    made = str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])
    accepted(await api.put(f"environments/{where}/services", {"services": [made]}))
    return made


POOLED = """
application:
  interfaces:
    result: {has: bind(main#result.has), busy: bind(main#result.busy)}
    actions: {give: bind(main#actions.give), list: bind(pool#resource-pool.list)}
  bindings: [[main, pool]]
  components:
    pool:
      type: reference.Service
      interfaces:
        resource-pool:
          acquire: receive-command(string holder, int timeout => int ahead => string id, object resource)
          release: receive-command(string holder => bool released)
          list: receive-command( => list<object> resources, int waiting)
    main:
      type: workflow.Instance
      required: [hosts]
      interfaces:
        hosts:
          acquire: send-command(string holder, int timeout => int ahead => string id, object resource)
          release: send-command(string holder => bool released)
        actions: {give: receive-command()}
        result: {has: publish-signal(string), busy: publish-signal(object)}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - me: {action: getInstanceContext, output: {me: instanceId}}
              - take:
                  action: hosts.acquire
                  precedingPhases: [me]
                  parameters: {holder: "{$.me}", timeout: 0}
                  output: {host: id}
            return: {has: {value: "{$.host}"}}
          give:
            steps:
              - me: {action: getInstanceContext, output: {me: instanceId}}
              - give:
                  action: hosts.release
                  precedingPhases: [me]
                  parameters: {holder: "{$.me}"}
                  output: {released: released}
            return: {has: {value: "released: {$.released}"}}
"""

SECRET = 'tr0ub4dor&3 "ünd" /more+'


def encodings(text: str) -> list[str]:
    data = text.encode()
    return [
        text,
        json.dumps({"told": text}),
        quote(text, safe=""),
        data.hex(),
        *(base64.b64encode(b"x" * shift + data + b"yz").decode() for shift in range(3)),
        base64.urlsafe_b64encode(data).decode(),
    ]


class Leak:
    """Says, returns and fails with what it is given, in every encoding. `used` is what it was given, last first."""

    name = "test.leak"
    aliases = ()
    pure = False
    parameters: Mapping[str, Any] = {}
    outputs: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.used: list[str] = []

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        text = call.parameters["text"]
        self.used.insert(0, text)
        for number, encoded in enumerate(encodings(text)):
            call.context.log("info", f"{number}: {encoded}")
        # A line that is longer than the log takes, with the secret where it is cut.
        call.context.log("info", "." * 4_090 + text)
        if call.parameters.get("fail"):
            raise ActionFailed(f"refused: {' '.join(encodings(text))}", retryable=False)
        return {"whole": text, "parts": encodings(text), "by": {text: 1}}


LEAK = Leak()
USER = """
application:
  interfaces:
    result: {secret: bind(main#result.secret), length: bind(main#result.length)}
    actions: {use: bind(main#actions.use), fail: bind(main#actions.fail), again: bind(main#actions.again)}
  bindings: [[main, vault]]
  components:
    vault:
      type: reference.Service
      interfaces: {secret-store: {get-secret: receive-command(string name => string value)}}
    main:
      type: workflow.Instance
      required: [vault]
      interfaces:
        vault: {get-secret: send-command(string name => string value)}
        result: {secret: publish-signal(string), length: publish-signal(string)}
        actions: {use: "receive-command(=> string secret)", fail: receive-command(), again: receive-command()}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          use:
            steps:
              - get: {action: vault.get-secret, parameters: {name: db}, output: {password: value}}
              - leak:
                  {action: test.leak, precedingPhases: [get], parameters: {text: "{$.password}"}, output: {w: whole}}
            return: {secret: {value: "{$.w}"}, length: {value: "user:{$.w}@host"}}
          fail:
            steps:
              - get: {action: vault.get-secret, parameters: {name: db}, output: {password: value}}
              - leak: {action: test.leak, precedingPhases: [get], parameters: {text: "{$.password}", fail: true}}
          again: {steps: [{leak: {action: test.leak, parameters: {text: "{$.secret}"}}}]}
"""


def assert_covered(*shown: Any) -> None:
    """Check that nothing has the secret in it, in any disguise."""
    disguises = SecretEncodings([SECRET])
    for text in (json.dumps(each, ensure_ascii=False) if not isinstance(each, str) else each for each in shown):
        assert [text[max(0, start - 40) : stop + 9] for start, stop in disguises.spans(text)] == []


async def everything_shown(api: Api, instance: str) -> list[Any]:
    """Return all that the API shows of an instance."""
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    return [
        await api.document(instance),
        jobs,
        *[accepted(await api.get(f"instances/{instance}/jobs/{job['id']}")) for job in jobs],
        accepted(await api.get(f"instances/{instance}/log")),
        accepted(await api.get(f"organizations/{api.organization}/audit")),
    ]


async def everything_stored(api: Api, but: Collection[str] = ()) -> str:
    """Return every row of every table as text, but of some tables."""
    async with api.database.connection() as connection:
        found = await connection.execute("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in await found.fetchall() if name not in but]
        texts = []
        for table in tables:
            rows = await (
                await connection.execute(f"SELECT row_to_json({table})::text FROM {table}".encode())
            ).fetchall()
            texts += [row for (row,) in rows]
    return "\n".join(texts)


TYPE = "builtin:cobalt_secure_store"


async def made_vault(api: Api, *, offered_by: str | None = None) -> str:
    """Make a vault, which an environment may offer beside what it offers already."""
    body = {"name": fresh_name("vault"), "typeId": TYPE}
    vault = str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])
    if offered_by is not None:
        offered = accepted(await api.get(f"environments/{offered_by}/services"))["services"]
        ids = [*(row["id"] for row in offered if row["typeId"] != TYPE), vault]
        accepted(await api.put(f"environments/{offered_by}/services", {"services": ids}))
    return vault


async def told(caller: Caller, service: str, command: str, **arguments: Any) -> Any:
    """Run a command and return its final result."""
    return accepted(await caller.post(f"services/{service}/{command}", {"arguments": arguments}))[-1]


POOL = "builtin:static_resource_pool"


@dataclass
class Fleet:
    """The service, and the hosts that its default environment reaches: by `staticIps`, and through a pool."""

    api: Api
    hosts: Hosts
    pool: str

    async def held(self) -> set[str]:
        """Return the addresses of the pool that somebody holds."""
        listed = await told(self.api, self.pool, "list")
        return {entry["id"] for entry in listed["resources"] if entry["holder"]}

    async def log(self, instance: str) -> list[str]:
        """Return the texts of the instance's log."""
        return [line["text"] for line in accepted(await self.api.get(f"instances/{instance}/log"))]


@asynccontextmanager
async def running_fleet(
    database_url: str, hosts: Hosts, policies: Mapping[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Fleet]:
    """Start a service with a vault that has the hosts' key, and a pool of the hosts."""
    chosen = {"machines": "static", "outgoing_allow": "127.0.0.0/8", **settings}
    async with running_api(database_url, **chosen) as api:
        services = f"organizations/{api.organization}/services"
        vault = accepted(await api.post(services, {"name": fresh_name("vault"), "typeId": TYPE}))["id"]
        await told(api, vault, "import-keypair", name="deploy", privateKey=hosts.private_key)
        places = {host.address: {"address": host.address, "user": LOGIN} for host in hosts.hosts}
        resources = {"configuration.resources": places}
        made = await api.post(services, {"name": fresh_name("pool"), "typeId": POOL, "parameters": resources})
        pool = accepted(made)["id"]
        offered = accepted(await api.get(f"environments/{api.environment}/services"))["services"]
        ids = [*(row["id"] for row in offered if row["typeId"] != TYPE), vault, pool]
        accepted(await api.put(f"environments/{api.environment}/services", {"services": ids}))
        stated = {"machines.login": LOGIN, "machines.ssh-port": hosts[0].port, **(policies or {})}
        text = "policies:\n" + "".join(f"  {name}: {value}\n" for name, value in stated.items())
        accepted(await api.put_yaml(f"environments/{api.environment}", text))
        yield Fleet(api, hosts, pool)


class Oracle:
    """Answers questions, and tells its secrets to whoever asks for them by a command."""

    id = "test:oracle"
    name = "Oracle"
    parameters: Mapping[str, ServiceParameter] = {
        "place": ServiceParameter(STRING, "Where.", required=True),
        "riddle": ServiceParameter(STRING, "A secret.", secret=True),
        "keys": ServiceParameter(OBJECT, "More secrets.", secret=True),
        "hours": ServiceParameter(ListType(INT), "When."),
    }
    commands: Mapping[str, ServiceCommand] = {
        "ask": ServiceCommand(
            "oracle",
            "Answers.",
            arguments={
                "question": CommandArgument(STRING, "What.", required=True),
                "aloud": CommandArgument(BOOL, "How."),
                "to": CommandArgument(ListType(STRING), "Whom."),
            },
            intermediate={"murmur": STRING},
            results={"answer": OBJECT},
        ),
        "reveal": ServiceCommand("oracle", "Tells the secrets.", results={"parameters": OBJECT}),
    }
    interfaces = command_pins(commands)

    async def check(self, scope: ParameterScope, parameters: Mapping[str, Any]) -> FieldMessages:
        if parameters["place"] == scope.previous.get("place"):
            return {}
        wrong = [] if parameters["place"] in {"Delphi", "Dodona"} else ["There is no oracle there."]
        return {"place": wrong, "riddle": [] if parameters.get("riddle") != "easy" else ["Too easy."]}

    async def run(self, command: str, call: ServiceCall) -> Mapping[str, Any]:
        if command == "reveal":
            return {"parameters": dict(call.parameters)}
        for murmur in ("hm", "well"):
            call.report({"murmur": murmur})
        return {"answer": dict(call.arguments)}
