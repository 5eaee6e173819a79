"""Clients that use rules: sleep windows, limits of jobs, recurring schedules, destroys with a grace time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx

from tests.support.eventually import eventually
from tests.support.load import Live, Load
from tests.support.verdict import Records

RULED = 3  # instances of each of the two applications that sleep
MANIFEST = """
header: {concurrency: [{key: "lock:clock", limit: LIMIT}]}
launch: {steps: [{a1: {action: probe, parameters: {seconds: 0.05}}}]}
tick: {steps: [{a1: {action: probe, parameters: {seconds: 0.2}}}, {a2: {action: probe, precedingPhases: [a1]}}]}
stop: {steps: [{a1: {action: probe, parameters: {seconds: 0.3}}}]}
start: {steps: [{a1: {action: probe, parameters: {seconds: 0.3}}}]}
destroy: {steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]}
"""
LIMIT = 2
GRACE_MS = 3_000
SOON = timedelta(seconds=25)  # from the start of the load to the sleep
# How long they sleep: through some kills, and until the load is over.
SHORT, LONG = timedelta(seconds=20), timedelta(hours=1)
QUIET_S = 180.0


class RuleLoad(Load):
    """Does what `Load` does. Meanwhile, other instances tick, sleep, and are destroyed with a grace time."""

    async def set_up(self) -> None:
        """Make the applications with the rules, and their instances."""
        await super().set_up()
        [organization] = (await self._call("GET", "organizations")).json()
        home = f"organizations/{organization['id']}"
        self._begin = datetime.now(UTC) + SOON
        self._ticking: list[str] = []
        self._sleeping: dict[str, list[str]] = {}
        for name, length in (("short", SHORT), ("long", LONG)):
            application = await self._ruled(home, name)
            self._sleeping[application] = []
            for _ in range(RULED):
                body = {"destroyInterval": -1}
                instance = (await self._accepted("POST", f"applications/{application}/launch", body))["id"]
                self.history.launched[instance] = Live(instance, fails=True)  # left alone by the other clients
                self._sleeping[application].append(instance)
                tick = {"name": "tick", "cron": "0/10 * * * * *", "instanceId": instance, "workflow": "tick"}
                made = await self._accepted("POST", f"{home}/recurring-schedules", {**tick, "whenBusy": "queue"})
                self._ticking.append(made["id"])
            await self._set_window(application, self._begin + length)
        self._graceful = await self._ruled(home, "graceful")
        await self._accepted("PUT", f"applications/{self._graceful}/lifetime", {"graceMs": GRACE_MS})

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Make requests as long as the block runs. Then let everybody sleep and wake, and end the ticking."""
        async with super().going_on():
            yield
        async with asyncio.timeout(QUIET_S):
            await asyncio.sleep(max(0.0, (self._begin - datetime.now(UTC)).total_seconds()))
            *_, last = self._sleeping
            await self._until(self._sleeping[last], is_asleep=True)
            await self._set_window(last, datetime.now(UTC) + timedelta(seconds=2))
            for instances in self._sleeping.values():
                await self._until(instances, is_asleep=False)
            for schedule in self._ticking:
                await self._accepted("POST", f"recurring-schedules/{schedule}/pause", {})

    async def _set_window(self, application: str, end: datetime) -> None:
        sleep_at, wake_at = (f"{at.second} {at.minute} {at.hour} * * *" for at in (self._begin, end))
        rule = {"windows": [{"sleepAt": sleep_at, "wakeAt": wake_at}]}
        await self._accepted("PUT", f"applications/{application}/sleep", rule)

    async def _until(self, instances: list[str], *, is_asleep: bool) -> None:
        """Wait until the instances sleep, or until no turn of theirs is due."""
        for instance in instances:
            await eventually(
                partial(self._accepted, "GET", f"instances/{instance}/sleep", None),
                lambda found: found is not None and found["isAsleep"] == is_asleep,
            )

    async def _ruled(self, home: str, name: str) -> str:
        made = str((await self._accepted("POST", f"{home}/applications", {"name": name}))["id"])
        text = MANIFEST.replace("LIMIT", str(LIMIT)).encode()
        answer = await self._call("PUT", f"applications/{made}/manifest", content=text)
        assert answer.status_code == 200, answer.text
        return made

    async def _accepted(self, method: str, path: str, body: Any) -> Any:
        """Make a request that changes nothing if it is made twice, until somebody answers."""
        while True:
            try:
                answer = await self._call(method, path, body)
            except httpx.HTTPError:
                await asyncio.sleep(0.2)
                continue
            assert answer.status_code == 200, answer.text
            return answer.json() if answer.content else None

    async def _client(self) -> None:
        await asyncio.gather(super()._client(), self._end_gracefully())

    async def _end_gracefully(self) -> None:
        """Launch instances and destroy them with a grace time, again and again."""
        while not self._stop.is_set():
            answer = await self._try("POST", f"applications/{self._graceful}/launch", {"destroyInterval": -1})
            if answer is not None and answer.status_code == 200:
                instance = answer.json()["id"]
                self.history.launched[instance] = Live(instance, fails=True)
                for _ in range(20):
                    await asyncio.sleep(0.5)
                    answer = await self._try("POST", f"instances/{instance}/destroy", {})
                    if answer is not None and answer.status_code in {200, 409} and "DestroyWaits" not in answer.text:
                        break
            await asyncio.sleep(self._chance.uniform(1.0, 3.0))


def rule_violations(records: Records) -> list[str]:
    """Return what is wrong with the rules once everything is quiet, one sentence each."""
    found = [text.format(*row) for text, statement in _CHECKS.items() for row in records.rows(statement)]
    for instance, application, names in records.rows(_TURNS):
        wanted = [["stop", "start"]] if application == "long" else [["stop", "start"], []]
        if names not in wanted:
            found.append(f"sleep: {instance} had the turns {names}")
    return found


_TURNS = """
SELECT instances.id, applications.name,
       coalesce(array_agg(jobs.name ORDER BY jobs.created_at) FILTER (WHERE jobs.name IN ('stop', 'start')), '{}')
FROM instances JOIN applications ON applications.id = instances.application_id
LEFT JOIN jobs ON jobs.instance_id = instances.id
WHERE applications.name IN ('short', 'long') GROUP BY instances.id, applications.name
"""
_CHECKS = {
    "recurring: {0} noted {1} firings and has {2} jobs": """
        SELECT recurring_schedules.id, fired, count(jobs.id)
        FROM recurring_schedules
        LEFT JOIN jobs ON jobs.instance_id = recurring_schedules.instance_id AND jobs.name = 'tick'
        GROUP BY recurring_schedules.id, fired HAVING fired <> count(jobs.id) OR fired = 0""",
    "recurring: {0} noted its time {1} twice": """
        SELECT id, firing ->> 'due_at' FROM recurring_schedules, json_array_elements(firings::json) AS firing
        GROUP BY 1, 2 HAVING count(*) > 1""",
    "sleep: {0} sleeps by its row": "SELECT instance_id FROM instance_sleeps WHERE is_asleep",
    "grace: {0} was destroyed {1} times": """
        SELECT instance_id, count(*) FROM jobs WHERE name = 'destroy' AND instance_id IN (
            SELECT instances.id FROM instances JOIN applications ON applications.id = instances.application_id
            WHERE applications.name = 'graceful')
        GROUP BY instance_id HAVING count(*) > 1""",
    "limit: {0} places are left": "SELECT count(*) FROM concurrency_places HAVING count(*) > 0",
    "limit: {0} and {1} others had a place at once": f"""
        SELECT job.id, count(*) FROM jobs AS job JOIN jobs AS other
            ON other.started_at <= job.started_at AND other.id <> job.id
            AND other.finished_at > job.started_at + interval '0.05 s'
        WHERE job.instance_id IN (SELECT instance_id FROM instance_sleeps)
          AND other.instance_id IN (SELECT instance_id FROM instance_sleeps)
        GROUP BY job.id HAVING count(*) >= {LIMIT}""",
}
