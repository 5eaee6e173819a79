"""Clients that launch, call, trigger, reconfigure and destroy applications of three levels."""

import asyncio
from dataclasses import dataclass, field

import httpx

from tests.support.eventually import eventually
from tests.support.load import Live, Load
from tests.support.verdict import Records

LEAF = """
application:
  configuration: {input.size: 0}
  interfaces:
    input: {size: bind(worker#input.wanted)}
    result: {size: bind(worker#result.size)}
    actions: {grow: bind(worker#actions.grow)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {wanted: configuration(int)}
        result: {size: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
      configuration:
        configuration.triggers: {input.wanted: resize}
        configuration.workflows:
          launch: &set
            steps:
              - a1: {action: probe, parameters: {seconds: 0.05}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.1, value: "{$.wanted}"}, output: {v: value}}
            return: {size: {value: "{$.v}"}}
          resize: *set
          grow:
            steps: [{a1: {action: probe, parameters: {seconds: 0.1, value: "{$.by}"}, output: {v: value}}}]
            return: {size: {value: "{$.v}"}}
          destroy:
            steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]
"""
MIDDLE = """
application:
  interfaces:
    input: {size: bind(leaf#input.size)}
    result: {size: bind(leaf#result.size), heard: bind(ear#out.heard)}
    actions: {grow: bind(leaf#actions.grow)}
  bindings: [[ear, leaf]]
  components:
    leaf:
      type: reference.Submodule
      configuration: {__locator.application-id: leaf}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
    ear:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {size: consume-signal(int)}
        out: {heard: publish-signal(int)}
      configuration:
        configuration.triggers: {result.size: hear}
        configuration.workflows:
          launch: &hear
            steps:
              - a1: {action: getSignals, output: {seen: result}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.05, value: "{$.seen.result.size}"}, output: {v: value}}
            return: {heard: {value: "{$.v}"}}
          hear: *hear
          destroy:
            steps: [{a1: {action: probe, parameters: {seconds: 0.05}}}]
"""
# Offered as a service to all families.
BELL = """
application:
  interfaces: {bell: {ring: bind(bell#bell.ring), rung: bind(bell#bell.rung)}}
  components:
    bell:
      type: workflow.Instance
      interfaces: {bell: {ring: receive-command(int by => int heard), rung: publish-signal(int)}}
      configuration:
        configuration.workflows:
          launch: {steps: [], return: {rung: {value: 0}}}
          ring:
            steps:
              - a1: {action: probe, parameters: {seconds: 0.05, value: "{$.by}"}, output: {v: value}}
              - a2: {action: probe, precedingPhases: [a1], parameters: {seconds: 0.05}}
            return: {rung: {value: "{$.v}"}, heard: {value: "{$.v}"}}
"""
# CHILD is the name of the component that stands for the child, PART that of one without children: other names in
# another version make a reconfiguration take down what there is and launch what there is not.
TOP = """
application:
  configuration: {input.size: 0}
  interfaces:
    input: {size: bind(CHILD#input.size)}
    result: {size: bind(CHILD#result.size), heard: bind(CHILD#result.heard), echo: bind(ear#out.echo)}
    actions: {grow: bind(CHILD#actions.grow), ask: bind(ear#actions.ask)}
  bindings: [[ear, CHILD], [ear, tower]]
  components:
    tower:
      type: reference.Service
      interfaces: {bell: {ring: receive-command(int by => int heard)}}
    CHILD:
      type: reference.Submodule
      configuration: {__locator.application-id: middle}
      interfaces:
        input: {size: configuration(int)}
        result: {size: publish-signal(int), heard: publish-signal(int)}
        actions: {grow: receive-command(int by => int size)}
    PART:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch: {steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]}
          destroy: {steps: [{a1: {action: probe, parameters: {seconds: 0.1}}}]}
    ear:
      type: workflow.Instance
      required: [result]
      interfaces:
        result: {heard: consume-signal(int)}
        bell: {ring: send-command(int by => int heard)}
        actions: {grow: send-command(int by => int size), ask: receive-command(int by)}
        out: {echo: publish-signal(int)}
      configuration:
        configuration.triggers: {result.heard: hear}
        configuration.workflows:
          launch: &hear
            steps:
              - a1: {action: getSignals, output: {seen: result}}
              - a2: {action: probe, precedingPhases: [a1],
                   parameters: {seconds: 0.05, value: "{$.seen.result.heard}"}, output: {v: value}}
            return: {echo: {value: "{$.v}"}}
          hear: *hear
          ask:
            steps:
              - a1: {action: probe, parameters: {seconds: 0.05, value: "{$.by}"}, output: {v: value}}
              - a2: {action: actions.grow, precedingPhases: [a1], parameters: {by: "{$.v}"}}
              - a3: {action: bell.ring, precedingPhases: [a2], parameters: {by: "{$.v}"}, output: {v: heard}}
              - a4: {action: actions.grow, precedingPhases: [a3], parameters: {by: "{$.v}"}}
          destroy:
            steps: [{a1: {action: probe, parameters: {seconds: 0.05}}}]
"""


def top(child: str, part: str) -> str:
    """A manifest of the top level with these components."""
    return TOP.replace("CHILD", child).replace("PART", part)


VERSIONS = {2: ("child", "part"), 3: ("other", "spare"), 4: ("child", "spare")}


@dataclass
class Deletions:
    """Instances that a client asked to delete by force; they may be there no more."""

    asked: set[str] = field(default_factory=set)


class FamilyLoad(Load):
    """Every job that it starts is to succeed: no step fails, and nothing is broken off but what is deleted by force."""

    _top = ""
    _sizes = 0

    async def set_up(self) -> None:
        """Make the applications, the versions of the top one, and the service that its workflows call."""
        self.deletions = Deletions()
        [organization] = (await self._call("GET", "organizations")).json()
        await self._offer_bell(organization["id"])
        for name, manifests in (
            ("leaf", [LEAF]),
            ("middle", [MIDDLE]),
            ("top", [top(*names) for names in VERSIONS.values()]),
        ):
            made = await self._call("POST", f"organizations/{organization['id']}/applications", {"name": name})
            self._top = made.json()["id"]
            for text in manifests:
                answer = await self._call("PUT", f"applications/{self._top}/manifest", content=text.encode())
                assert answer.status_code == 200, answer.text

    async def _offer_bell(self, organization: str) -> None:
        made = (await self._call("POST", f"organizations/{organization}/applications", {"name": "bell"})).json()["id"]
        answer = await self._call("PUT", f"applications/{made}/manifest", content=BELL.encode())
        assert answer.status_code == 200, answer.text
        [environment] = (await self._call("GET", f"organizations/{organization}/environments")).json()
        bell = (await self._call("POST", f"applications/{made}/launch", {"destroyInterval": -1})).json()["id"]
        await eventually(
            lambda: self._call("GET", f"instances/{bell}"), lambda found: found.json().get("status") == "Running"
        )
        offered = {"environments": [environment["id"]]}
        answer = await self._call("PUT", f"instances/{bell}/environments", offered)
        assert answer.status_code == 200, answer.text

    async def _client(self) -> None:
        while not self._stop.is_set():
            known = [live for live in self.history.launched.values() if not live.is_destroyed]
            kind = self._chance.random()
            if kind < 0.25 or not known:
                await self._launch_family()
            else:
                await self._change(self._chance.choice(known), kind)
            await self._rest()

    async def _rest(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.2, 0.8))

    async def _launch_family(self, version: int | None = None) -> Live | None:
        given = {"version": version or self._chance.choice(list(VERSIONS)), "parameters": {"input.size": self._size()}}
        return await self._launched(self._top, {**given, "destroyInterval": -1})

    async def _change(self, live: Live, kind: float) -> None:
        if kind < 0.45:
            await self._command(live, self._chance.choice(["actions.grow", "actions.ask"]))
        elif kind < 0.55:
            await self._try(
                "POST",
                f"instances/{live.id}/actions.ask/schedule",
                {"interval": "300", "parameters": {"by": str(self._size())}},
            )
        elif kind < 0.8:
            await self._reconfigure(live, self._chance.choice(list(VERSIONS)), self._size())
        elif kind < 0.94:
            await self._take_down(live)
        else:
            await self._delete(live)

    async def _command(self, live: Live, action: str) -> None:
        await self._try("POST", f"instances/{live.id}/{action}", {"by": str(self._size())})

    async def _reconfigure(self, live: Live, version: int, size: int) -> httpx.Response | None:
        body = {"manifestVersion": version, "parameters": {"input.size": size}}
        return await self._try("PUT", f"instances/{live.id}/configuration", body)

    async def _take_down(self, live: Live) -> httpx.Response | None:
        live.is_destroyed = True
        return await self._try("POST", f"instances/{live.id}/destroy", {})

    async def _delete(self, live: Live) -> httpx.Response | None:
        live.is_destroyed = True
        self.deletions.asked.add(live.id)
        self.history.launched.pop(live.id)
        return await self._try("DELETE", f"instances/{live.id}?force=1", None)

    def _size(self) -> int:
        self._sizes += 1
        return self._sizes


def family_violations(records: Records) -> list[str]:
    """Return what is wrong with families once everything is quiet, one sentence each."""
    return [text.format(*row) for text, statement in _CHECKS.items() for row in records.rows(statement)]


_CHECKS = {
    "failed: job {0} ({1}) of {2}: {3}": (
        "SELECT id, name, instance_id, error_message FROM jobs WHERE status = 'Failed'"
        " AND error_message NOT LIKE 'Cancelled, because the instance was deleted%'"
        " AND error_message NOT LIKE 'Cancelled: the caller''s instance%'"
        " AND error_message NOT LIKE 'The parent job ended%'"
    ),
    "orphan: job {0} is executing without its outer job": (
        "SELECT jobs.id FROM jobs LEFT JOIN jobs o ON o.id = jobs.parent_job_id"
        " WHERE jobs.status = 'Executing' AND jobs.parent_job_id IS NOT NULL AND o.status IS DISTINCT FROM 'Executing'"
    ),
    "left over: {0} of {1} is {2}, its parent {3}": (
        "SELECT c.id, c.parent_id, c.status, p.status FROM instances c JOIN instances p ON p.id = c.parent_id"
        " WHERE c.status <> 'Destroyed' AND (p.status = 'Destroyed'"
        " OR c.id NOT IN (SELECT target_id FROM instance_links WHERE instance_id = p.id))"
    ),
    "status: {0} is {1}, its parent {2} is {3}": (
        "SELECT c.id, c.status, p.id, p.status FROM instances c JOIN instance_links l ON l.target_id = c.id"
        " JOIN instances p ON p.id = l.instance_id WHERE l.kind = 'own' AND c.status <> p.status"
    ),
    "half reconfigured: {0} still comes from {1}": (
        "SELECT id, before FROM instances WHERE before IS NOT NULL AND status <> 'Destroyed'"
    ),
    "half reconfigured: {0} has {1}, its parent {2}": (
        "SELECT c.id, c.parameters, p.parameters FROM instances c JOIN instance_links l ON l.target_id = c.id"
        " JOIN instances p ON p.id = l.instance_id WHERE l.kind = 'own' AND c.parameters <> p.parameters"
    ),
    "signals: {0} has {1}, its child has {2}": (
        "SELECT p.id, p.return_values, c.return_values FROM instances c JOIN instance_links l ON l.target_id = c.id"
        " JOIN instances p ON p.id = l.instance_id WHERE l.kind = 'own' AND p.status = 'Running'"
        " AND p.return_values::json->>'result.size' IS DISTINCT FROM c.return_values::json->>'result.size'"
    ),
    "triggers: {0} has not heard of its child: {1}": (
        "SELECT id, return_values FROM instances WHERE status = 'Running' AND return_values LIKE '%heard%'"
        " AND (return_values::json->>'result.size' <> return_values::json->>'result.heard'"
        " OR return_values::json->>'result.heard' <> coalesce(return_values::json->>'result.echo',"
        " return_values::json->>'result.heard'))"
    ),
    "busy: {0} is {1} with job {2}": (
        "SELECT id, status, job_id FROM instances"
        " WHERE job_id IS NOT NULL OR status IN ('Requested', 'Executing', 'Destroying')"
    ),
    "pending: schedule {0} of the destroyed {1}": (
        "SELECT s.id, i.id FROM schedules s JOIN instances i ON i.id = s.instance_id WHERE i.status = 'Destroyed'"
    ),
}
