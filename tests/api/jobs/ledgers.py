"""Applications whose steps make entries in a ledger on loopback, which counts how often an effect really happened."""

import asyncio
from collections import Counter
from typing import Any

from tests.api.running import Api, accepted
from tests.outgoing.loopback import LoopbackServer, answer

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
    async with asyncio.timeout(20):
        while True:
            job = await job_of(api, instance)
            if any(step["name"] == name and step["status"] == status for step in job["steps"]):
                return job
            await asyncio.sleep(0.01)


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
