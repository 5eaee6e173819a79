"""Clients that launch, run, schedule and destroy, and remember what they were promised."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.servers import EMAIL, PASSWORD

# Steps `a1`, `a2`, … of one workflow run one after the other; the names are what verdict.py goes by.
MANIFEST = """
launch:
  steps:
    - a1: {action: probe, parameters: {seconds: 0.05, value: 1}, output: {x: value}}
    - a2: {action: probe, precedingPhases: [a1], parameters: {seconds: 0.1, fail: 1, retryCount: 2}}
    - a3: {action: .inner, precedingPhases: [a2], parameters: {v: "{$.x}"}, output: {y: out}}
    - p1: {action: probe, precedingPhases: [a3], parameters: {seconds: 0.2}}
    - p2: {action: probe, precedingPhases: [a3], parameters: {seconds: 0.3, fail: 9, ignoreFail: true}}
    - a4: {action: probe, precedingPhases: [p1, p2], parameters: {seconds: 0.05, value: "{$.y}"}, output: {z: value}}
    - a5: {action: probe, precedingPhases: [a4], parameters: {fail: FAIL}}
  return: {z: {value: "{$.z}"}}
destroy:
  steps:
    - a1: {action: probe, parameters: {seconds: 0.1}}
.inner:
  parameters: [v: {}]
  steps:
    - a1: {action: probe, parameters: {seconds: 0.05, value: "{$.v}"}, output: {w: value}}
    - a2: {action: probe, precedingPhases: [a1], parameters: {seconds: 0.05}}
  return: {out: {value: ["{$.w}"]}}
"""
COMMANDS = 12
COMMAND = """
{name}:
  steps:
"""
COMMAND_STEP = """
    - a{n}: {{action: probe, {preceding} parameters: {{seconds: 0.15}}}}
"""
STEPS_OF_A_RUN = 10


def manifest(*, fails: bool) -> str:
    """A workflow manifest with commands `run0` … (longer) and `due0` … (short)."""
    text = MANIFEST.replace("FAIL", "9" if fails else "0")
    for number in range(COMMANDS):
        for name, steps in ((f"run{number}", STEPS_OF_A_RUN), (f"due{number}", 2)):
            text += COMMAND.format(name=name).rstrip("\n") + "\n"
            for n in range(1, steps + 1):
                preceding = f"precedingPhases: [a{n - 1}]," if n > 1 else ""
                text += COMMAND_STEP.format(n=n, preceding=preceding).strip("\n") + "\n"
    return text


@dataclass
class Live:
    """An instance that a client knows."""

    id: str
    fails: bool
    runs: int = 0
    dues: int = 0
    is_destroyed: bool = False


@dataclass(frozen=True)
class Burst:
    """The same workflow asked for several times at the same moment."""

    instance: str
    workflow: str
    accepted: int
    unknown: int


@dataclass(frozen=True)
class Scheduled:
    """A schedule that was accepted, and the earliest moment at which it may fire."""

    instance: str
    workflow: str
    not_before: float


@dataclass
class History:
    """What the clients were promised."""

    launched: dict[str, Live] = field(default_factory=dict)
    unknown_launches: int = 0
    bursts: list[Burst] = field(default_factory=list)
    schedules: list[Scheduled] = field(default_factory=list)
    unknown_schedules: set[tuple[str, str]] = field(default_factory=set)
    statuses: dict[int, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # answers from 500 on, with their times


class Load:
    """Several clients at once, until stopped."""

    def __init__(self, port: Callable[[], int | None], seed: int, clients: int = 5) -> None:
        self.history = History()
        self._port = port
        self._chance = random.Random(seed)
        self._clients = clients
        self._stop = asyncio.Event()
        self._applications: dict[bool, str] = {}
        self.open()

    def open(self) -> None:
        """Make connections possible, in the event loop that is to use them."""
        self._http = httpx.AsyncClient(auth=(EMAIL, PASSWORD), timeout=3.0)

    async def set_up(self) -> None:
        """Make the two applications."""
        [organization] = (await self._call("GET", "organizations")).json()
        for fails in (False, True):
            made = await self._call("POST", f"organizations/{organization['id']}/applications", {"name": f"f{fails}"})
            self._applications[fails] = made.json()["id"]
            url = f"applications/{self._applications[fails]}/manifest"
            answer = await self._call("PUT", url, content=manifest(fails=fails).encode())
            assert answer.status_code == 200, answer.text

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Make requests as long as the block runs, and see the last ones to their answers.

        Clients that break end the block at once: faults that befall nobody show nothing.
        """
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._clients):
                tasks.create_task(self._client())
            yield
            self._stop.set()

    async def make_instance(self) -> str:
        """Launch one instance and return its id."""
        await self._launch(fails=False)
        return next(reversed(self.history.launched))

    async def run_workflow(self, instance: str, workflow: str) -> None:
        """Ask for a run, whatever comes of it."""
        await self._try("POST", f"instances/{instance}/{workflow}", {})

    async def close(self) -> None:
        """Give the connections back."""
        await self._http.aclose()

    async def _client(self) -> None:
        while not self._stop.is_set():
            idle = [live for live in self.history.launched.values() if not (live.fails or live.is_destroyed)]
            kind = self._chance.random()
            if kind < 0.45 or not idle:
                await self._launch(fails=self._chance.random() < 0.15)
            elif kind < 0.65:
                await self._burst(self._chance.choice(idle))
            elif kind < 0.92:
                await self._schedule(self._chance.choice(idle))
            else:
                await self._destroy([live for live in idle if live.dues == 0])
            await asyncio.sleep(self._chance.uniform(0.2, 0.9))

    async def _launch(self, *, fails: bool, destroy_interval_ms: int = -1) -> Live | None:
        body = {"destroyInterval": destroy_interval_ms}
        return await self._launched(self._applications[fails], body, fails=fails)

    async def _launched(self, application: str, body: Any, *, fails: bool = False) -> Live | None:
        answer = await self._try("POST", f"applications/{application}/launch", body)
        if answer is None:
            self.history.unknown_launches += 1
        elif answer.status_code == 200:
            made = answer.json()["id"]
            return self.history.launched.setdefault(made, Live(made, fails))
        return None

    async def _burst(self, live: Live) -> None:
        if live.runs == COMMANDS:
            return
        workflow = f"run{live.runs}"
        live.runs += 1
        answers = await asyncio.gather(*(self._try("POST", f"instances/{live.id}/{workflow}", {}) for _ in range(4)))
        accepted = sum(1 for answer in answers if answer is not None and answer.status_code == 200)
        unknown = sum(1 for answer in answers if answer is None)
        self.history.bursts.append(Burst(live.id, workflow, accepted, unknown))

    async def _schedule(self, live: Live, interval_ms: int | None = None) -> None:
        if live.dues == COMMANDS or live.is_destroyed:
            return
        workflow = f"due{live.dues}"
        live.dues += 1
        interval_ms = interval_ms or self._chance.randrange(100, 4000)
        sent = time.time()
        answer = await self._try("POST", f"instances/{live.id}/{workflow}/schedule", {"interval": str(interval_ms)})
        if answer is None:
            self.history.unknown_schedules.add((live.id, workflow))
        elif answer.status_code == 200:
            self.history.schedules.append(Scheduled(live.id, workflow, sent + interval_ms / 1000))

    async def _destroy(self, candidates: list[Live]) -> None:
        if len(candidates) < 3:
            return
        live = self._chance.choice(candidates)
        live.is_destroyed = True
        await self._try("POST", f"instances/{live.id}/destroy", {})

    async def _try(self, method: str, path: str, body: Any) -> httpx.Response | None:
        """Make a request; None when nobody knows what came of it."""
        try:
            answer = await self._call(method, path, body)
        except (httpx.HTTPError, ConnectionError, AttributeError):
            # An AttributeError is what anyio has for a server that dies between the connect and its first use.
            return None
        self.history.statuses[answer.status_code] = self.history.statuses.get(answer.status_code, 0) + 1
        if answer.status_code >= 500:
            self.history.failures.append(f"{time.strftime('%X')} {method} {answer.url}: {answer.text}")
            return None
        return answer

    async def _call(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> httpx.Response:
        url = f"http://127.0.0.1:{self._port() or 1}/api/1/{path}"
        if content is not None:
            return await self._http.request(
                method, url, content=content, headers={"Content-Type": "application/x-yaml"}
            )
        return await self._http.request(method, url, json=body)


class WatchfulLoad(Load):
    """Notes every answer that a client should not see while the database is away."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.improper: list[str] = []

    async def _call(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> httpx.Response:
        answer = await super()._call(method, path, body, content)
        if answer.status_code >= 500 and (answer.status_code != 503 or not answer.headers.get("retry-after")):
            self.improper.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer


CLOCK = """
application:
  components:
    clock:
      type: workflow.Instance
      configuration:
        configuration.schedule: {tick: "* * * * * ?"}
        configuration.workflows:
          tick: {steps: [{a1: {action: probe}}]}
"""
SLEEPER = """
application:
  components:
    sleeper:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - a1: {action: probe}
              - rest1: {precedingPhases: [a1], action: wait, parameters: {delay: 2}}
              - a2: {precedingPhases: [rest1], action: probe}
              - rest2: {precedingPhases: [a2], action: wait, parameters: {delay: 2}}
              - a3: {precedingPhases: [rest2], action: probe}
"""
ASKER = """
application:
  components:
    asker:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - a1: {action: probe}
              - rest1:
                  precedingPhases: [a1]
                  action: approval
                  parameters: {text: "Go on?", timeout: 5, ignoreFail: true}
              - a2: {precedingPhases: [rest1], action: probe}
"""
GUEST = """
application:
  interfaces:
    food: {word: bind(mouth#food.word)}
    result: {eaten: bind(mouth#result.eaten)}
  components:
    mouth:
      type: workflow.Instance
      required: [food]
      interfaces:
        food: {word: consume-signal(string)}
        result: {eaten: publish-signal(string)}
      configuration:
        configuration.triggers: {food.word: eat}
        configuration.workflows:
          launch: &eat
            steps:
              - a1: {action: getSignals, output: {seen: result}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.1, value: "{$.seen.food.word}"}, output: {v: value}}
            return: {eaten: {value: "{$.v}"}}
          eat: *eat
"""
COOK = """
application:
  interfaces:
    result: {said: bind(cook#food.word), eaten: bind(guest#result.eaten)}
    actions: {say: bind(cook#actions.say)}
  bindings: [[guest, cook]]
  components:
    cook:
      type: workflow.Instance
      interfaces:
        food: {word: publish-signal(string)}
        actions: {say: receive-command(string word)}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {word: {value: first}}}
          say:
            steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]
            return: {word: {value: "{$.word}"}}
    guest:
      type: reference.Submodule
      configuration: {__locator.application-id: guest}
      interfaces:
        food: {word: consume-signal(string)}
        result: {eaten: publish-signal(string)}
"""
