"""Instances in every state that the product has, made as users make them: by requests to the application."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any, TypeVar

import msgspec
import psycopg

from launchbay.clock import SystemClock, from_ms, to_ms
from launchbay.features.drift.rules import Check, Finding
from tests.support.changes import FINDING
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import BUSY, Api, Caller, Person, accepted, person, running_api
from tests.support.truth.blueprints import Planner
from tests.support.truth.harbor import Furnisher

T = TypeVar("T")
AT_ONCE = 12  # requests
HOUR_MS = 3_600_000
# Never within minutes of a day, which lists ask for.
LIFETIMES_MS = (-1, 2 * HOUR_MS, 20 * HOUR_MS, 30 * HOUR_MS, 80 * HOUR_MS)
WINDOW_AHEAD = timedelta(minutes=3)
EVERY_MINUTE = "* * * * *"
LONG_AGO_MS, FAR_AHEAD_MS = 1_600_000_000_000, 4_000_000_000_000

CRANE = """
launch: {steps: [{settle: {action: wait, parameters: {delay: 0}}}]}
turn: {steps: [{look: {action: getInstanceContext}}]}
hold: {steps: [{rest: {action: wait, parameters: {delay: 36000}}}]}
poll: {steps: [{see: {action: wait, until: "{$= false}", delay: 36000, parameters: {delay: 0}}}]}
break:
  steps:
    - before: {action: wait, parameters: {delay: 0}}
    - call: {action: restcall, precedingPhases: [before], parameters: {command: "no address <at> all"}}
ask: {steps: [{sign: {action: approval, parameters: {text: "Lift the container?"}}}]}
stop: {steps: []}
start: {steps: []}
destroy: {steps: []}
"""
HAUL = """
header: {concurrency: [{key: "lock:quay", limit: 1}]}
launch: {steps: [{haul: {action: wait, parameters: {delay: 36000}}}]}
destroy: {steps: []}
"""
LEAK = """
launch: {steps: [{fill: {action: serialize, parameters: {input: 1, format: WATER}}}]}
destroy: {steps: []}
"""
DRAIN = """
launch: {steps: []}
destroy: {steps: [{drain: {action: wait, parameters: {delay: 36000}}}]}
"""
FERRY = """
application:
  components:
    hull: {type: reference.Submodule, configuration: {__locator.application-id: "%s"}}
launch: {steps: []}
"""
TIDES = """
application:
  configuration: {input.release: %d}
  interfaces:
    input: {release: bind(tables#input.release), pace: bind(tables#input.pace)}
  components:
    tables:
      type: workflow.Instance
      interfaces: {input: {release: configuration(int), pace: configuration(int)}}
      configuration:
        input.pace: 0
        configuration.triggers: {input.release: update, input.pace: update}
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: {steps: []}
          update: {steps: [{compute: {action: wait, parameters: {delay: "{$.pace}"}}}]}
          destroy: {steps: []}
"""
RULES = """\
- {name: hour, when: $.time.hour > 24, deny: Not in this hour.}
- {name: late, when: $.time.hour > 24, warn: It is late.}
- {name: four-eyes, when: $.time.hour > 24, require: {changeSet: true}, because: Two look.}
"""
BAD_PACE = -1
LONG_PACE = 36_000
SHIP = """
application:
  interfaces:
    input: {pace: bind(sail#input.pace)}
    result: {speed: bind(sail#result.speed)}
  components:
    keel:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{lay: {action: wait, parameters: {delay: 0}}}]}
    mast:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps: [{paint: {action: serialize, parameters: {input: 1, format: TAR, ignoreFail: true}}}]
    sail:
      type: workflow.Instance
      interfaces:
        input: {pace: configuration(int)}
        result: {speed: publish-signal(string)}
      configuration:
        input.pace: 0
        configuration.workflows:
          launch:
            steps: [{hoist: {action: wait, parameters: {delay: "{$.pace}"}}}]
            return: {speed: {value: "twelve knots"}}
"""
# Waits that need machines, resources and others to come about by themselves, by the kind of the wait.
TOLD = {
    each: f"The step waits for a {each}, as nothing else does." for each in ("resource", "machine", "peers", "instance")
}
_TOLD_BY_STEPS = """
INSERT INTO step_waits (job_id, path, fence, wait)
SELECT id, 'workflow#hold/told', fence, %(wait)s FROM jobs WHERE id = %(job)s
"""
_PARKED = "SELECT count(*) FROM parked WHERE job_id = %s"


class StoppableClock(SystemClock):
    """Goes ahead by what it is told to, and stands still when pages are read.

    Then words such as `3 min ago` are exact.
    """

    def __init__(self) -> None:
        self.ahead = timedelta()
        self.stopped: datetime | None = None

    def now(self) -> datetime:
        """Return the time at which it was stopped, or the real one and what it is ahead."""
        return self.stopped or super().now() + self.ahead

    def stop(self) -> None:
        self.stopped = self.now()


@dataclass
class Population:
    """Who and what there is. Everything else is in the tables."""

    api: Api
    clock: StoppableClock
    url: str
    administrator: Caller
    member: Person
    other: Caller
    organization: str
    other_organization: str
    environments: dict[str, str] = field(default_factory=dict)
    applications: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def populated(databases: Databases, *, seed: int, cranes: int) -> AsyncIterator[Population]:
    """Make a population of which so many instances are cranes, some of all other kinds besides, and stop the clock."""
    url = databases.create()
    clock = StoppableClock()
    async with (
        running_api(url, clock, outgoing_allow="127.0.0.1") as api,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        yield await _Maker(api, clock, url, random.Random(seed), connection).made(cranes)
    databases.drop(url)


def _at(address: str, finding: Finding) -> Finding:
    """Return a finding about another address."""
    return msgspec.structs.replace(finding, difference=msgspec.structs.replace(finding.difference, address=address))


class _Maker:
    def __init__(self, api: Api, clock: StoppableClock, url: str, chance: random.Random, connection: Any) -> None:
        self.connection = connection
        self.asking = asyncio.Lock()
        self.decisions = cycle((None, "approve", None, "reject"))
        self.api = api
        self.clock = clock
        self.url = url
        self.chance = chance
        self.turns = asyncio.Semaphore(AT_ONCE)
        self.root = f"organizations/{api.organization}"
        self.environments = {"default": api.environment}
        self.applications: dict[str, str] = {}

    async def made(self, cranes: int) -> Population:
        other, other_organization = await self._other()
        for name in ("production", "staging"):
            self.environments[name] = await self._created(f"{self.root}/environments", name=name)
        text = f"- Read: [/applications/*, /environments/{self.environments['staging']}]\n"
        accepted(await self.api.post(f"{self.root}/roles", {"name": "Stagehand", "permissions": text}))
        member = await person(self.api, "Stagehand")
        await self._applications()
        await Furnisher(self.api, self.environments).furnished(self.applications["Never launched"])
        living = await self._cranes(cranes)
        await asyncio.gather(self._acts(living), self._others(), self._tides(), self._ships(), self._under_way())
        await self._change_sets(living[-2:])
        await self._drift(living[-6:-2])
        planner = Planner(self.api, self.connection, self._until)
        running = await self._idle_outside_of_production(living[:-6])
        await planner.adopted(running[-3:])
        await planner.secrets(running[-2:])
        await planner.planned(running[:3])
        await planner.stale()
        await self._family()
        await self._sleepers()
        await self._freezes()
        await self._rules()
        await self._promotions()
        await self._holding_window()
        await self._rest()
        self.clock.stop()
        return Population(
            api=self.api,
            clock=self.clock,
            url=self.url,
            administrator=self.api,
            member=member,
            other=other,
            organization=self.api.organization,
            other_organization=other_organization,
            environments=self.environments,
            applications=self.applications,
        )

    # Requests

    async def _created(self, path: str, /, **body: Any) -> str:
        async with self.turns:
            return str(accepted(await self.api.post(path, body))["id"])

    async def _post(self, path: str, body: Any = None) -> Any:
        async with self.turns:
            return accepted(await self.api.post(path, {} if body is None else body))

    async def _put(self, path: str, body: Any) -> Any:
        async with self.turns:
            return accepted(await self.api.put(path, body))

    async def _launch(self, application: str, name: str, **body: Any) -> str:
        given = {"instanceName": name, "destroyInterval": -1, **body}
        return await self._created(f"applications/{self.applications[application]}/launch", **given)

    async def _settled(self, instances: Iterable[str]) -> None:
        """Wait for the end of what these instances do."""
        ids = list(instances)
        query = "SELECT count(*) FROM instances WHERE id = ANY (%s) AND (status = ANY (%s) OR job_id IS NOT NULL)"
        await self._until(query, [ids, list(BUSY)], 0)

    async def _idle_outside_of_production(self, instances: list[str]) -> list[str]:
        query = (
            "SELECT array_agg(id ORDER BY id) FROM instances"
            " WHERE id = ANY (%s) AND status = 'Running' AND environment_id <> %s"
        )
        found: list[str] = (await self._row(query, [instances, self.environments["production"]]))[0]
        return found

    async def _until(self, query: str, values: list[Any], wanted: int) -> None:
        await eventually(lambda: self._row(query, values), lambda found: found[0] == wanted, within_s=90)

    async def _row(self, query: str, values: list[Any] | None = None) -> Any:
        """Ask PostgreSQL itself: requests that wait are many, and the pool of the service is its own."""
        async with self.asking:
            return await (await self.connection.execute(query, values)).fetchone()

    # What there is

    async def _other(self) -> tuple[Caller, str]:
        """Another organization with the same names, which nobody here may see."""
        caller, organization, _ = await self.api.outsider()
        made = accepted(await caller.post(f"organizations/{organization}/applications", {"name": "Crane"}))["id"]
        accepted(await caller.put_yaml(f"applications/{made}/manifest", CRANE))
        for number in range(5):
            body = {"instanceName": f"foreign {number}", "destroyInterval": HOUR_MS, "labels": {"team": "abroad"}}
            instance = accepted(await caller.post(f"applications/{made}/launch", body))["id"]
            await self._settled([instance])
            workflow = ("break", "hold", "ask", "turn", "destroy")[number]
            accepted(await caller.post(f"instances/{instance}/{workflow}", {}))
        return caller, organization

    async def _applications(self) -> None:
        for name, manifest in (
            ("Crane", CRANE),
            ("Haul", HAUL),
            ("Leak", LEAK),
            ("Drain", DRAIN),
            ("Tides", TIDES % 1),
            ("Owl", CRANE),
            ("Ship", SHIP),
            ("Never launched", LEAK),
        ):
            self.applications[name] = await self.api.application(manifest, name)
        self.applications["Ferry"] = await self.api.application(FERRY % self.applications["Haul"], "Ferry")
        self.applications["Barge"] = await self.api.application(FERRY % self.applications["Leak"], "Barge")

    async def _cranes(self, count: int) -> list[str]:
        """Launch cranes of three versions in three environments, and return their IDs."""
        found: list[str] = []
        for version in range(3):
            if version:
                text = f"# Version {version}\n{CRANE}"
                accepted(await self.api.put_yaml(f"applications/{self.applications['Crane']}/manifest", text))
            launches = []
            for number in range(version, count, 3):
                body: dict[str, Any] = {
                    "environmentId": self.environments[self.chance.choice(("default", "production", "staging"))],
                    "destroyInterval": self.chance.choice(LIFETIMES_MS),
                }
                if self.chance.random() < 0.5:
                    body["labels"] = {"team": self.chance.choice(("quay", "dock")), "tier": str(number % 3)}
                launches.append(self._launch("Crane", f"crane {number:03}", **body))
            found += await asyncio.gather(*launches)
        await self._settled(found)
        return found

    async def _acts(self, cranes: list[str]) -> None:
        """Let cranes do all that they can. The first ones do each thing at least once."""
        one_step = (
            "turn",
            "break",
            "break",
            "hold",
            "ask",
            "poll",
            "destroy",
            "cancel",
            "expire",
            "schedule",
            "behind",
            "withdraw",
            "end_later",
            "end_behind",
        )
        chosen = list(
            zip(cranes, [*one_step, *self.chance.choices((*one_step, None, None, None), k=len(cranes))], strict=False)
        )
        await asyncio.gather(*(getattr(self, f"_{act}")(instance) for instance, act in chosen[: len(cranes)] if act))
        still = [instance for instance, act in chosen if act in {None, "turn"}]
        bulk = {"act": "run", "workflow": "break", "ids": still[: max(2, len(still) // 4)]}
        await self._ended_bulk(await self._created(f"{self.root}/bulk", **bulk))
        relabel = {"act": "label", "labels": {"berth": "7"}, "ids": still[-max(2, len(still) // 4) :]}
        await self._ended_bulk(await self._created(f"{self.root}/bulk", **relabel))
        broken = {"act": "resume", "ids": still[:2]}
        await self._ended_bulk(await self._created(f"{self.root}/bulk", **broken))
        # One without an end: after it, nothing that repeats is promised.
        accepted(await self.api.put(f"instances/{still[-1]}/destroyAt", {"destroyAt": -1}))
        common = {"zone": "UTC", "instanceId": still[-1], "workflow": "turn"}
        await self._created(f"{self.root}/recurring-schedules", name="Nightly", cron="30 2 * * *", **common)
        # None of them runs while pages are read.
        often = {"cron": EVERY_MINUTE, "startsAt": to_ms(self.clock.now() + timedelta(days=2)), **common}
        for number in range(2):
            await self._created(f"{self.root}/recurring-schedules", name=f"Every minute {number}", **often)
        paused = await self._created(f"{self.root}/recurring-schedules", name="Paused", cron="0 5 * * *", **common)
        await self._post(f"recurring-schedules/{paused}/pause")

    async def _policy(self, instances: list[str]) -> None:
        """Ask for approvals in an environment: what is done there directly is refused from then on."""
        accepted(await self.api.put(f"environments/{self.environments['production']}/changePolicy", {"approvals": 2}))
        acts: list[dict[str, Any]] = [{"act": "destroy"}, {"act": "reconfigure", "configuration": {"parameters": {}}}]
        for act in acts:
            body = {"ids": instances, "comment": "After the season", **act}
            await self._created(f"{self.root}/change-sets", **body)

    async def _run(self, instance: str, workflow: str) -> str:
        async with self.turns:
            answer = await self.api.post(f"instances/{instance}/{workflow}", {})
            accepted(answer)
            return answer.headers["Launchbay-Job"]

    async def _turn(self, instance: str) -> None:
        await self._run(instance, "turn")
        await self._settled([instance])

    async def _break(self, instance: str) -> None:
        await self._run(instance, "break")
        await self._settled([instance])

    async def _hold(self, instance: str) -> None:
        await self._run(instance, "hold")

    async def _poll(self, instance: str) -> None:
        await self._run(instance, "poll")

    async def _ask(self, instance: str) -> None:
        await self._run(instance, "ask")
        await self._until("SELECT count(*) FROM approvals WHERE instance_id = %s", [instance], 1)
        decision = next(self.decisions)
        if decision:
            [approval] = accepted(await self.api.get(f"instances/{instance}/approvals"))
            await self._post(f"approvals/{approval['id']}/{decision}")
            await self._settled([instance])

    async def _destroy(self, instance: str) -> None:
        await self._run(instance, "destroy")
        await self._settled([instance])

    async def _cancel(self, instance: str) -> None:
        job = await self._run(instance, "hold")
        await self._until("SELECT count(*) FROM steps WHERE job_id = %s AND status = 'Executing'", [job], 1)
        async with self.turns:
            accepted(await self.api.delete(f"instances/{instance}/jobs/{job}"))
        await self._settled([instance])

    async def _withdraw(self, instance: str) -> None:
        """Cancel a run that asks somebody."""
        job = await self._run(instance, "ask")
        await self._until("SELECT count(*) FROM approvals WHERE job_id = %s", [job], 1)
        async with self.turns:
            accepted(await self.api.delete(f"instances/{instance}/jobs/{job}"))
        await self._settled([instance])

    async def _expire(self, instance: str) -> None:
        again = await self._launch("Crane", f"expired after {instance[-6:]}", destroyInterval=200)
        await self._until("SELECT count(*) FROM instances WHERE id = %s AND status = 'Destroyed'", [again], 1)

    async def _schedule(self, instance: str) -> None:
        await self._post(f"instances/{instance}/turn/schedule", {"interval": 5 * HOUR_MS, "parameters": {}})

    async def _behind(self, instance: str) -> None:
        """Let a due run wait for the end of another."""
        await self._run(instance, "hold")
        await self._post(f"instances/{instance}/turn/schedule", {"interval": 1, "parameters": {}})

    async def _end_later(self, instance: str) -> None:
        await self._post(f"instances/{instance}/destroy/schedule", {"interval": 7 * HOUR_MS, "parameters": {}})

    async def _end_behind(self, instance: str) -> None:
        """Let a due destroy wait for the end of a run."""
        await self._run(instance, "hold")
        await self._post(f"instances/{instance}/destroy/schedule", {"interval": 1, "parameters": {}})

    async def _others(self) -> None:
        failed = [self._launch("Leak", f"leak {number}") for number in range(6)]
        await self._settled(await asyncio.gather(*failed))
        drains = await asyncio.gather(*(self._launch("Drain", f"drain {number}") for number in range(3)))
        await self._settled(drains)
        for instance in drains[1:]:
            await self._run(instance, "destroy")
        staging = self.environments["staging"]
        hauls = [await self._launch("Haul", f"haul {number}", environmentId=staging) for number in range(3)]
        [job] = [each["id"] for each in accepted(await self.api.get(f"instances/{hauls[2]}"))["workflowHistory"]]
        accepted(await self.api.delete(f"instances/{hauls[2]}/jobs/{job}"))
        await self._settled(hauls[2:])

    async def _tides(self) -> None:
        """Roll out a version that one instance fails on; let another one roll back by itself."""
        application = self.applications["Tides"]
        paces = (0, 0, BAD_PACE, 0, 0)
        made = [
            await self._launch("Tides", f"tide {number}", parameters={"input.pace": pace})
            for number, pace in enumerate(paces)
        ]
        await self._settled(made)
        accepted(await self.api.put_yaml(f"applications/{application}/manifest", TIDES % 2))
        for ids, status in ((made[:2], "Finished"), (made[2:4], "Stopped")):
            body = {"applicationId": application, "version": 3, "ids": ids, "waves": [1]}
            rollout = await self._created(f"{self.root}/rollouts", **body)
            await self._until("SELECT count(*) FROM rollouts WHERE id = %s AND status = %s", [rollout, status], 1)
        accepted(await self.api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
        await self._put(f"instances/{made[4]}/configuration", {"parameters": {"input.pace": BAD_PACE}})
        query = "SELECT count(*) FROM jobs WHERE instance_id = %s AND finished_at IS NOT NULL"
        await self._until(query, [made[4]], 3)
        await self._rollouts_under_way(application)

    async def _ships(self) -> None:
        """Launch what has components, all of which ignore a failure: one runs, one fails, one is under way."""
        ships = [
            await self._launch("Ship", f"ship {number}", parameters={"input.pace": pace})
            for number, pace in enumerate((0, BAD_PACE, LONG_PACE))
        ]
        barge = await self._launch("Barge", "barge 0")
        await self._settled([*ships[:2], barge])

    async def _under_way(self) -> None:
        """Begin bulk runs and roll-outs that are under way, wait, pause, were cancelled, stopped or taken back."""
        cranes = await asyncio.gather(*(self._launch("Crane", f"berth {number:02}") for number in range(16)))
        await self._settled(cranes)
        run = {"act": "run", "workflow": "hold"}
        await self._begun("bulk", **run, ids=cranes[:3], maxParallel=2)
        await self._running("bulk_instances", cranes[:3], 2)
        await self._begun("bulk", act="run", workflow="turn", ids=cranes[:3])
        for ids, act in ((cranes[3:6], "pause"), (cranes[6:9], "cancel")):
            bulk = await self._begun("bulk", **run, ids=ids, maxParallel=1)
            await self._running("bulk_instances", ids, 1)
            await self._post(f"bulk/{bulk}/{act}")
        await self._begun("bulk", act="run", workflow="break", ids=cranes[9:12], maxParallel=1, stopAfterFailures=1)
        for instance, (kind, text) in zip(cranes[12:], TOLD.items(), strict=True):
            job = await self._run(instance, "hold")
            await self._until(_PARKED, [job], 1)
            wait = json.dumps({"kind": kind, "text": text, "ends_when": "It comes."})
            async with self.asking:
                await self.connection.execute(_TOLD_BY_STEPS, {"job": job, "wait": wait})

    async def _begun(self, noun: str, **body: Any) -> str:
        return await self._created(f"{self.root}/{noun}", **body)

    async def _running(self, table: str, instances: list[str], number: int) -> None:
        query = f"SELECT count(*) FROM {table} WHERE instance_id = ANY (%s) AND status = 'Running'"
        await self._until(query, [instances], number)

    async def _rollouts_under_way(self, application: str) -> None:
        paces = (0, 0, 0, 0, LONG_PACE, LONG_PACE, 0, 0)
        made = [
            await self._launch("Tides", f"ebb {number}", parameters={"input.pace": pace}, version=2)
            for number, pace in enumerate(paces)
        ]
        await self._settled(made)
        common = {"applicationId": application, "version": 3, "waves": [1]}
        status = "SELECT count(*) FROM rollouts WHERE id = %s AND status = %s"
        waiting = await self._begun("rollouts", **common, ids=made[:2], pause=None)
        pausing = await self._begun("rollouts", **common, ids=made[2:4], pause=10 * HOUR_MS, comment="After the tide")
        await self._begun("rollouts", **common, ids=made[4:6])
        returned = await self._begun("rollouts", **common, ids=made[6:])
        await self._until(status, [waiting, "Waiting"], 1)
        await self._until("SELECT count(*) FROM rollouts WHERE id = %s AND wave_done_at IS NOT NULL", [pausing], 1)
        await self._running("rollout_instances", made[4:6], 1)
        await self._until(status, [returned, "Finished"], 1)
        await self._post(f"rollouts/{returned}/take-back")
        await self._until(status, [returned, "Returned"], 1)

    async def _change_sets(self, cranes: list[str]) -> None:
        """Let change sets be ready, rejected, expired, applied."""
        production = self.environments["production"]
        made = [await self._launch("Crane", f"mole {number}", environmentId=production) for number in range(5)]
        await self._settled(made)
        await self._policy(cranes)
        judges = [await person(self.api, "Administrator") for _ in range(2)]
        sets = [
            await self._begun(
                "change-sets",
                act="destroy",
                ids=[instance],
                comment=f"Mole {number}",
                **({"expiresIn": 1} if number == 3 else {}),
            )
            for number, instance in enumerate(made)
        ]
        for number in (0, 2, 4):
            for judge in judges if number != 4 else judges[:1]:
                accepted(await judge.post(f"change-sets/{sets[number]}/approve", {"comment": "Fine"}))
        accepted(await judges[0].post(f"change-sets/{sets[1]}/reject", {"comment": "Not before the release."}))
        await self._post(f"change-sets/{sets[2]}/apply")
        await self._until("SELECT count(*) FROM change_sets WHERE id = %s AND status = 'Succeeded'", [sets[2]], 1)

    async def _drift(self, instances: list[str]) -> None:
        """Let checks have found something, failed, and found nothing; one found what was ignored until a past day."""
        seen = {"first_seen": to_ms(self.clock.now()) - 50 * HOUR_MS, "last_seen": to_ms(self.clock.now()) - HOUR_MS}
        [change_set, *_] = accepted(await self.api.get(f"{self.root}/change-sets"))
        found = msgspec.structs.replace(FINDING, **seen, remedy="Change it in the code.")
        named = {"expiresAt": LONG_AGO_MS, "owner": ""}
        found = msgspec.structs.replace(
            found,
            difference=msgspec.structs.replace(found.difference, described={**found.difference.described, **named}),
        )
        ignored = msgspec.structs.replace(
            _at("aws_instance.tower", found), state="ignored", reason="It grows.", by="ada@example.com", remedy=""
        )
        answered = {"answer": "put back", "change_set_id": change_set["id"]}
        late = msgspec.structs.replace(ignored, until=LONG_AGO_MS)
        ignored = msgspec.structs.replace(ignored, until=FAR_AHEAD_MS)
        put_back = msgspec.structs.replace(_at("aws_vpc.net", found), state="put back", **answered)
        gone = msgspec.structs.replace(found, state="gone")
        reports = (
            ([msgspec.structs.replace(found, **answered), ignored, put_back], None),
            ([ignored], None),
            ([gone], "The state can't be read."),
            ([late], None),
        )
        for number, (instance, (findings, problem)) in enumerate(zip(instances, reports, strict=True)):
            checks = [
                Check(at=seen["last_seen"], new=2, ignored=1, unchecked=3),
                Check(at=seen["first_seen"], learned=True),
            ]
            await self.connection.execute(
                "INSERT INTO drift_reports (instance_id, organization_id, checked_at, findings, new_findings,"
                " ignored_until, problem, problem_at, known_since, unchecked, checks)"
                " SELECT id, organization_id, now(), %s, %s, %s, %s, CASE WHEN %s THEN now() END, now(), %s, %s"
                " FROM instances WHERE id = %s",
                [
                    msgspec.json.encode(findings).decode(),
                    sum(each.state == "new" for each in findings),
                    [from_ms(each.until) for each in findings if each.until is not None],
                    problem,
                    problem is not None,
                    json.dumps([{"step": "web#launch/plan", "note": "It asks nobody."}] if number else []),
                    msgspec.json.encode([Check(at=seen["last_seen"], problem="Down"), *checks][number == 0 :]).decode(),
                    instance,
                ],
            )

    async def _sleepers(self) -> None:
        made = [await self._launch("Owl", f"owl {number}") for number in range(3)]
        await self._settled(made)
        begin = self.clock.now() + WINDOW_AHEAD / 2
        window = {"sleepAt": begin.strftime("%H:%M"), "wakeAt": (begin + timedelta(hours=9)).strftime("%H:%M")}
        days = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
        rules = {"windows": [{**window, "days": days, "zone": "UTC"}]}
        accepted(await self.api.put(f"applications/{self.applications['Owl']}/sleep", rules))
        await self.api.round_of("sleep windows")
        self.clock.ahead = WINDOW_AHEAD
        query = "SELECT count(*) FROM instance_sleeps WHERE is_asleep"

        async def asleep() -> int:
            await self.api.round_of("sleep windows")
            return int((await self._row(query))[0])

        await eventually(asleep, lambda found: found >= len(made))
        await self._settled(made)

    async def _freezes(self) -> None:
        """Freeze an application that only sleeps, and set windows that nobody lives to see."""
        accepted(await self.api.put(f"applications/{self.applications['Owl']}/freeze", {"reason": "Release 7."}))
        window = {"reason": "Jubilee", "firstDay": "2199-12-20", "lastDay": "2199-12-31", "zone": "Europe/Berlin"}
        for path in (f"environments/{self.environments['staging']}", f"applications/{self.applications['Owl']}"):
            accepted(await self.api.put(f"{path}/freeze-windows", {"windows": [window]}))

    async def _promotions(self) -> None:
        """Set the orders of an organization and of an application, whose instances are in one environment of it."""
        places = [self.environments["staging"], self.environments["production"]]
        gates = {"soak": 90 * HOUR_MS, "workflows": ["hoist"], "approvals": 2}
        for path, stages in (
            (self.root, [{"environmentId": each} for each in places]),
            (
                f"applications/{self.applications['Crane']}",
                [{"environmentId": places[0]}, {"environmentId": places[1], **gates}],
            ),
        ):
            accepted(await self.api.put(f"{path}/promotion-order", {"stages": stages}))

    async def _holding_window(self) -> None:
        """Freeze an application without instances by a window that lasts."""
        window = {"reason": "Lent", "firstDay": "1999-01-01", "lastDay": "2198-12-31", "zone": "UTC"}
        path = f"applications/{self.applications['Never launched']}/freeze-windows"
        accepted(await self.api.put(path, {"windows": [window]}))

    async def _rules(self) -> None:
        """Write rules about changes, of which none holds, and when to check for drift: never while pages are read."""
        production, never = self.environments["production"], self.applications["Never launched"]
        for path, texts in (
            (self.root, (RULES.splitlines(keepends=True)[0], RULES)),
            (f"environments/{production}", (RULES, "")),
            (f"applications/{never}", (RULES,)),
        ):
            for text in texts:
                accepted(await self.api.put(f"{path}/change-rules", {"rules": text}))
        times = {"cron": "0 3 29 2 *", "zone": "Europe/Berlin", "jitter": HOUR_MS}
        accepted(await self.api.put(f"applications/{never}/drift-schedule", times))
        for path, rule in (
            (f"applications/{never}", {"addresses": ["aws_vpc.*", "random_id.*"]}),
            (f"environments/{production}", {"addresses": ["nowhere.*"]}),
        ):
            accepted(await self.api.put(f"{path}/put-back-rule", rule))

    async def _family(self) -> None:
        """Launch ferries, whose hulls wait for a place."""
        for number in range(2):
            await self._launch("Ferry", f"ferry {number}")
        await self._put(f"applications/{self.applications['Ferry']}/lifetime", {"idleMs": 400 * HOUR_MS})
        # One hauls, and the other one waits for its place. A rest is shown as a wait once its job is parked.
        resting = "SELECT count(*) FROM steps JOIN parked USING (job_id) WHERE steps.name = 'haul'"
        await self._until(f"{resting} AND steps.status = 'Executing'", [], 1)

    async def _ended_bulk(self, bulk: str) -> None:
        await self._until("SELECT count(*) FROM bulk_runs WHERE id = %s AND finished_at IS NOT NULL", [bulk], 1)

    async def _rest(self) -> None:
        """Wait until nothing changes any more."""
        async with asyncio.timeout(60):
            before = None
            while (row := await self._row(_MOVES)) != before:
                before = row
                await asyncio.sleep(0.7)


_MOVES = """
SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM jobs WHERE started_at IS NULL),
       (SELECT count(*) FROM jobs WHERE finished_at IS NULL), (SELECT count(*) FROM instances WHERE job_id IS NULL),
       (SELECT count(*) FROM steps), (SELECT count(*) FROM steps WHERE status = 'Executing'),
       (SELECT count(*) FROM log_lines), (SELECT count(*) FROM step_waits), (SELECT count(*) FROM parked)
"""
