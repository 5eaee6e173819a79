"""Applications whose steps make entries in a ledger on loopback, which counts how often an effect really happened."""

import asyncio
import json
from collections import Counter
from typing import Any

import msgspec

from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest.graph import LOCATOR, SUBMODULE, CompiledManifest, Component, Pin
from launchbay.model.types import ListType, MapType, PinKind, Type
from tests.support.eventually import eventually
from tests.support.manifests import ACTIONS
from tests.support.network import LoopbackServer, answer
from tests.support.service import Api, accepted, fresh_name, refused

# Each step is an entry in the ledger. `size` is in every path, so that a test sees with what the step ran.
STEPS = """
launch:
  parameters: [{size: {default: 1}}, {password: {default: none-given}}]
  steps:
    - first: {action: restcall, parameters: {command: "LEDGER/first?size={$.size}"}}
    - both: {action: .pair, precedingPhases: [first], parameters: {}}
    - last:
        action: restcall
        precedingPhases: [both]
        parameters: {command: "LEDGER/last?size={$.size}"}
        output: {made: content}
  return:
    made: {value: "{$.made}"}
.pair:
  steps:
    - one: {action: restcall, parameters: {command: "LEDGER/one"}}
    - two: {action: restcall, precedingPhases: [one], parameters: {command: "LEDGER/two"}}
grow:
  parameters: [{by: {default: 1}}, {note: {default: ""}}]
  steps:
    - ask: {action: restcall, parameters: {command: "LEDGER/ask?by={$.by}"}}
    - add: {action: restcall, precedingPhases: [ask], parameters: {command: "LEDGER/add?by={$.by}"}}
retried:
  steps:
    - call: {action: .pair, parameters: {retryCount: 1}}
hold:
  steps:
    - before: {action: restcall, parameters: {command: "LEDGER/before"}}
    - rest: {action: wait, precedingPhases: [before], parameters: {delay: 60}}
    - after: {action: restcall, precedingPhases: [rest], parameters: {command: "LEDGER/after"}}
destroy:
  steps:
    - gone: {action: restcall, parameters: {command: "LEDGER/gone/{$.made}"}}
"""
# The first component is done when the second one is cancelled; its destroy needs what its launch returned.
TWO_COMPONENTS = """
application:
  components:
    store:
      type: workflow.Instance
      interfaces:
        out: {made: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - make: {action: restcall, parameters: {command: "LEDGER/last"}, output: {made: content}}
            return: {made: {value: "{$.made}"}}
          destroy:
            steps:
              - gone: {action: restcall, parameters: {command: "LEDGER/gone/{$.made}"}}
    slow:
      type: workflow.Instance
      interfaces:
        in: {made: consume-signal(string)}
      required: [in]
      configuration:
        configuration.workflows:
          launch:
            steps:
              - rest: {action: wait, parameters: {delay: 60}}
  bindings:
    - [store#out, slow#in]
"""
# A parent that launches two children, the second one after the first; each child is two entries in the ledger.
CHILD = """
application:
  interfaces:
    result: {made: bind(worker#result.made)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        result: {made: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch:
            steps:
              - one: {action: restcall, parameters: {command: "LEDGER/NAME/one"}, output: {made: content}}
              - two: {action: restcall, precedingPhases: [one], parameters: {command: "LEDGER/NAME/two"}}
            return: {made: {value: "{$.made}"}}
          destroy:
            steps: [{gone: {action: restcall, parameters: {command: "LEDGER/NAME/gone/{$.made}"}}}]
"""
FAMILY = """
application:
  components:
    elder:
      type: reference.Submodule
      configuration: {__locator.application-id: ELDER}
      interfaces:
        result: {made: publish-signal(string)}
    younger:
      type: reference.Submodule
      configuration: {__locator.application-id: YOUNGER}
      interfaces:
        result: {made: publish-signal(string)}
"""


class Ledger:
    """What was called, and how it answers."""

    def __init__(self, server: LoopbackServer) -> None:
        self.server = server

    def counts(self) -> Counter[str]:
        return Counter(received.target for received in self.server.received)

    def fail(self, path: str) -> None:
        self.server.routes[path] = answer(500)

    def mend(self, path: str) -> None:
        self.server.routes[path] = answer(body=b"thing-7")


async def job_of(api: Api, instance: str, place: int = 0) -> Any:
    """Return a job of an instance in detail; the newest by default."""
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    return accepted(await api.get(f"instances/{instance}/jobs/{jobs[place]['id']}"))


async def until_step(api: Api, instance: str, name: str, status: str) -> Any:
    return await eventually(
        lambda: job_of(api, instance),
        lambda job: any(step["name"] == name and step["status"] == status for step in job["steps"]),
    )


async def failed_launch(api: Api, ledger: Ledger, application: str, path: str = "/two", **body: Any) -> tuple[str, str]:
    """Launch while one address fails, mend it, and return instance and job."""
    ledger.fail(path)
    instance = await api.launch(application, **body)
    assert (await api.settled(instance))["status"] == "Failed"
    ledger.mend(path)
    return instance, (await job_of(api, instance))["id"]


async def family(api: Api, ledger: Ledger) -> str:
    """Return the application of a parent with two children."""
    manifest = FAMILY
    for name in ("ELDER", "YOUNGER"):
        child = CHILD.replace("LEDGER", ledger.server.url("")).replace("NAME", name.lower())
        manifest = manifest.replace(name, await api.application(child))
    return await api.application(manifest)


# Offers a signal and a command that changes it.
SPEAKER = """
application:
  interfaces:
    input: {first: bind(speaker#input.first)}
    voice: {word: bind(speaker#voice.word)}
    orders: {say: bind(speaker#orders.say)}
  components:
    speaker:
      type: workflow.Instance
      interfaces:
        input: {first: configuration(string)}
        voice: {word: publish-signal(string)}
        orders: {say: receive-command(string word => string said)}
      configuration:
        input.first: first
        configuration.workflows:
          launch: {steps: [], return: {word: {value: "{$.first}"}}}
          say: {steps: [], return: {word: {value: "{$.word}"}, said: {value: "said {$.word}"}}}
"""
# Stands on a speaker: shows its word, is triggered by it, and asks it to say something.
LISTENER = """
application:
  interfaces:
    result: {word: bind(service#voice.word), heard: bind(main#out.heard), told: bind(main#out.told)}
    actions: {ask: bind(main#actions.ask), wait: bind(main#actions.wait)}
  bindings: [[main, service]]
  components:
    service:
      type: reference.Service
      interfaces:
        voice: {word: publish-signal(string)}
        orders: {say: receive-command(string word => string said)}
    main:
      type: workflow.Instance
      required: REQUIRED
      interfaces:
        voice: {word: consume-signal(string)}
        orders: {say: send-command(string word => string said)}
        actions: {ask: receive-command(string word), wait: receive-command()}
        out: {heard: publish-signal(string), told: publish-signal(string)}
      configuration:
        configuration.triggers: {voice.word: hear}
        configuration.workflows:
          launch: &hear
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {heard: {value: "heard {$.seen.voice}"}}
          hear: *hear
          ask:
            steps: [{say: {action: orders.say, parameters: {word: "{$.word}"}, output: {answer: said}}}]
            return: {told: {value: "{$.answer}"}}
          wait: {steps: [], return: {told: {value: waited}}}
"""
NEEDY = LISTENER.replace("REQUIRED", "[voice]")
EASY = LISTENER.replace("REQUIRED", "[]")


async def environment(api: Api) -> str:
    """Make an environment that offers nothing."""
    created = await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    return str(accepted(created)["id"])


async def offer(api: Api, instance: str, *environments: str) -> None:
    """Offer an instance in exactly these environments."""
    accepted(await api.put(f"instances/{instance}/environments", {"environments": list(environments)}))


async def offered(api: Api, manifest: str = SPEAKER, **body: Any) -> tuple[str, str]:
    """Launch an instance and offer it in an environment of its own; return both ids."""
    instance = await api.running(manifest, **body)
    where = await environment(api)
    await offer(api, instance, where)
    return instance, where


def heard(word: str) -> str:
    return f'heard {{"word": "{word}"}}'


def behind(document: Any, component: str = "service") -> str | None:
    """Return the id of the instance that the API shows behind a component."""
    [found] = [part.get("instanceId") for part in document["components"] if part["name"] == component]
    return None if found is None else str(found)


async def launched(api: Api, manifest: str, where: str, **body: Any) -> Any:
    instance = await api.launch(await api.application(manifest), environmentId=where, **body)
    return await api.settled(instance)


async def refusal(api: Api, manifest: str, where: str) -> str:
    """Launch what cannot be launched there; return why not, and see that nothing came of it."""
    application = await api.application(manifest)
    told = refused(await api.post(f"applications/{application}/launch", {"environmentId": where}), 400, "CannotLaunch")
    assert accepted(await api.get(f"applications/{application}/instances")) == []
    return told


def stand_ins(manifest: CompiledManifest) -> dict[str, str]:
    """Return a manifest for each application that the submodules name."""
    return {
        str(component.configuration[LOCATOR]): _application(component)
        for component in manifest.components.values()
        if component.type == SUBMODULE
    }


def _application(component: Component) -> str:
    pins = [pin for pin in component.pins.values() if pin.key != LOCATOR]
    own: dict[str, dict[str, Any]] = {}
    bound: dict[str, dict[str, str]] = {}
    workflows: dict[str, Any] = {"launch": {"steps": [], "return": {}}}
    for pin in pins:
        name = _flat(pin)
        own.setdefault("own", {})[name] = str(pin.type)
        bound.setdefault(pin.interface, {})[pin.name] = f"bind(app#own.{name})"
        if pin.type.kind is PinKind.PUBLISH_SIGNAL:
            workflows["launch"]["return"][name] = {"value": _value(pin.type.value_type, name)}
        elif pin.type.kind is PinKind.RECEIVE_COMMAND:
            signature = pin.type.signature
            results = {} if signature is None else signature.results
            returned = {result: {"value": _value(kind, result)} for result, kind in results.items()}
            workflows[name] = {"steps": [], "return": returned}
    app = {
        "type": "workflow.Instance",
        "interfaces": own,
        "configuration": {
            "configuration.workflows": workflows,
            **{
                f"own.{_flat(pin)}": _value(pin.type.value_type, pin.name)
                for pin in pins
                if pin.type.kind is PinKind.CONFIGURATION
            },
        },
    }
    return json.dumps({"application": {"interfaces": bound, "components": {"app": app}}})


def _flat(pin: Pin) -> str:
    return f"{pin.interface}-{pin.name}"


def _value(kind: Type | None, name: str) -> Any:
    if isinstance(kind, ListType):
        return [_value(kind.item, name)]
    if isinstance(kind, MapType):
        return {name: _value(kind.value, name)}
    return {"int": 7, "bool": True, "double": 0.5, "object": {"of": name}}.get(str(kind), f"the {name}")


async def finished(api: Api, instance: str, jobs: int) -> Any:
    """Wait until an instance has so many jobs behind it: triggered ones follow by themselves."""
    async with asyncio.timeout(60.0):
        document = await api.settled(instance)
        while len(document["workflowHistory"]) < jobs:
            document = await api.settled(instance)
    assert [job["status"] for job in document["workflowHistory"]] == ["Succeeded"] * jobs
    return document


async def destroyed(api: Api, instance: str) -> None:
    document = await api.run(instance, "destroy")
    assert (document["status"], document["errorMessage"]) == ("Destroyed", None)
    async with api.database.connection() as connection:
        statement = "SELECT state FROM instances WHERE id = %s OR parent_id = %s"
        rows = await (await connection.execute(statement, [instance, instance])).fetchall()
    for [state] in rows:
        parts: dict[str, dict[str, Any]] = msgspec.json.decode(state)
        assert [part["machines"] for part in parts.values() if part["machines"]] == []


async def with_stand_ins(api: Api, text: str) -> None:
    """Make an application for each one that the submodules of a manifest name."""
    for name, manifest in stand_ins(compile_manifest(text.encode(), known_actions=ACTIONS)).items():
        await api.application(manifest, name=name)


def is_public(ip: str) -> bool:
    return ip.startswith("192.0.2.")


async def reconfigured(api: Api, instance: str, jobs: int, **parameters: Any) -> Any:
    """Reconfigure an instance with these parameters alone and wait until so many jobs are behind it."""
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": parameters}))
    return await finished(api, instance, jobs)


async def given_to_chef(api: Api, instance: str, step: str, job: str | None = None) -> Any:
    """Return the attributes that Chef got in this step, on the first machine, in the last job (of this name)."""
    jobs = accepted(await api.get(f"instances/{instance}/jobs"))
    last = next(each for each in jobs if job in (None, each["name"]))
    detail = accepted(await api.get(f"instances/{instance}/jobs/{last['id']}"))
    # A workflow's step and the action's own step inside of it may have one name; the outputs are the action's.
    [outputs] = [each["outputs"] for each in detail["steps"] if each["name"] == step and each.get("outputs")]
    return next(iter(outputs["chefState"].values()))


TRIGGERED = """
application:
  interfaces:
    result: {heard: bind(listener#result.heard), alarm: bind(listener#result.alarm)}
    actions: {say: bind(speaker#actions.say), stay: bind(speaker#actions.stay)}
  bindings: [[listener, speaker]]
  components:
    speaker:
      type: workflow.Instance
      interfaces:
        actions: {say: "receive-command(string word, string tone)", stay: receive-command()}
        voice: {word: publish-signal(string), tone: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {word: {value: first}, tone: {value: low}}}
          say: {steps: [], return: {word: {value: "{$.word}"}, tone: {value: "{$.tone}"}}}
          stay: {steps: []}
    listener:
      type: workflow.Instance
      REQUIRED
      interfaces:
        voice: {word: consume-signal(string), tone: consume-signal(string)}
        result: {heard: publish-signal(string), alarm: publish-signal(string)}
      configuration:
        configuration.triggers: {voice.word: hear, voice.tone: hear}
        configuration.propagateStatus: [hear]
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {heard: {value: "{$.seen.voice.word}"}}
          hear:
            steps:
              - look: {action: getSignals, output: {seen: result}}
              - dig: {action: wait, precedingPhases: [look], parameters: {delay: DELAY}}
            return: {heard: {value: "{$.seen.voice.word} {$.seen.voice.tone}"}, alarm: {value: "rang"}}
"""


def triggered(*, required: bool = True, delay: str = "0") -> str:
    return TRIGGERED.replace("REQUIRED", "required: [voice]" if required else "required: []").replace("DELAY", delay)


async def until(api: Api, instance: str, condition: Any, timeout_s: float = 15.0) -> Any:
    """Wait until the instance is as wanted, with no job under way."""
    return await eventually(lambda: api.settled(instance), condition, within_s=timeout_s)


def names(document: Any) -> list[str]:
    return [job["name"] for job in document["workflowHistory"]]


SIZED_CHILD = """
application:
  configuration: {input.size: 1}
  interfaces:
    input: {size: bind(worker#input.size)}
    result: {size: bind(worker#result.size), note: bind(worker#result.note)}
    actions: {grow: bind(worker#actions.grow)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int), note: publish-signal(string)}
        actions: {grow: receive-command(int by => int size)}
      configuration:
        configuration.workflows:
          launch:
            steps: [{pause: {action: wait, parameters: {delay: 0}}}]
            return: {size: {value: "{$.size}"}, note: {value: "size {$.size}"}}
          grow:
            steps: []
            return: {size: {value: "{$.by}"}, note: {value: "grown to {$.by}"}}
          destroy: {steps: []}
"""
PARENT = """
application:
  interfaces:
    input: {size: bind(child#input.size)}
    result: {size: bind(child#result.size), told: bind(main#result.told)}
    actions: {grow: bind(child#actions.grow), ask: bind(main#actions.ask)}
  bindings: [[main, child]]
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int), note: publish-signal(string)}
        actions: {grow: receive-command(int by => int size)}
    main:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {note: consume-signal(string)}
        actions: {grow: send-command(int by => int size), ask: receive-command(int by => int size)}
        out: {told: publish-signal(string)}
      configuration:
        configuration.workflows:
          launch:
            steps: [{look: {action: getSignals, output: {seen: result}}}]
            return: {told: {value: "{$.seen.result.note}"}}
          ask:
            steps: [{grow: {action: actions.grow, parameters: {by: "{$.by}"}, output: {grown: size}}}]
            return: {size: {value: "{$.grown}"}, told: {value: "asked for {$.by}, got {$.grown}"}}
"""
RELAY = """
application:
  interfaces:
    input: {size: bind(child#input.size)}
    result: {size: bind(child#result.size), note: bind(child#result.note)}
    actions: {grow: bind(child#actions.grow)}
  components:
    child:
      type: reference.Submodule
      configuration: {__locator.application-id: LOCATOR}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int), note: publish-signal(string)}
        actions: {grow: receive-command(int by => int size)}
"""


def parent(locator: str) -> str:
    # `main` publishes through `out`, which keeps its `result` free for what it consumes.
    return PARENT.replace("LOCATOR", locator).replace("bind(main#result.told)", "bind(main#out.told)")


async def parent_and_child(api: Api) -> str:
    """Make a child's application and return that of its parent."""
    name = fresh_name("child")
    await api.application(SIZED_CHILD, name)
    return await api.application(parent(name))


def child_of(document: Any) -> str:
    [found] = [part["instanceId"] for part in document["components"] if part["name"] == "child"]
    return str(found)


# The size is a delay in seconds, so a reconfiguration to one below 0 fails.
PICKY = """
application:
  configuration: {input.size: 1}
  interfaces:
    input: {size: bind(worker#input.size)}
    result: {shown: bind(worker#result.shown)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int)}
        result: {shown: publish-signal(string)}
      configuration:
        configuration.triggers: {input.size: resize}
        configuration.propagateStatus: [resize]
        configuration.workflows:
          launch: {steps: [], return: {shown: {value: "VERSION at {$.size}"}}}
          resize:
            steps: [{check: {action: wait, parameters: {delay: "{$.size}"}}}]
            return: {shown: {value: "VERSION at {$.size}"}}
          destroy: {steps: []}
"""


def picky(version: str = "first") -> str:
    return PICKY.replace("VERSION", version)


BAD_SIZE = -1
