"""What every answer that names an object has to say of it, whoever reads the answer and what for.

A document of the API, a command or a tool that has the ID of an instance, a run or a step agrees with what is stored in
each field that is known here. On a page, links lead to what they name, and the glyph of a status fits its words.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeGuard

from tests.support.truth.oracle import CANCELLED, INSTANCE_WORDS, RUN_WORDS, Oracle, Row, ago, ms
from tests.support.truth.recording import Kept
from tests.support.truth.surfaces import Node, parsed

_ID = re.compile(r"\b[0-9a-f]{24}\b")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_AGO = re.compile(r"\bin \d+ (?:d|h|min|s)\b(?: \d+ (?:h|min)\b)?|\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min)\b)? ago")
# The kind of the glyph before words that have only one.
_GLYPHS = {
    **{words: glyph for glyph, words in (*INSTANCE_WORDS.values(), *RUN_WORDS.values())},
    **dict.fromkeys(("Interrupted", "Stopped", "Expired"), "stop"),
    **dict.fromkeys(("Finished", "Saved"), "ok"),
    **dict.fromkeys(("Finished with failures", "Rejected"), "fail"),
    **dict.fromkeys(("Skipped", "Left out", "Taken back"), "skip-s"),
    **dict.fromkeys(("Failed, ignored", "Ready to apply"), "wait"),
    "Not started": "queued",
}
_NUMBERED = "0" * 12
_HEALTH = {"Failed": "Failed", "Destroyed": "Gone"}
# What a document calls an object that it names besides its own: the field with its ID, and those with its name.
_NAMED = {
    "instanceId": ("instances", ("instanceName",)),
    "applicationId": ("applications", ("applicationName",)),
    "environmentId": ("environments", ("environmentName",)),
}
# Columns of other objects that answers show as they are.
_COLUMNS = {
    "applications": ("name",),
    "environments": ("name", "is_default"),
    "services": ("name", "type_id"),
    "roles": ("name",),
    "zones": ("name",),
    "revisions": ("name", "version"),
    "users": ("name",),
    "webhooks": ("url", "enabled", "format", "created_at"),
    "git_sources": ("name", "created_at"),
    "recurring_schedules": (
        *("name", "kind", "cron", "zone", "starts_at", "ends_at", "when_busy", "jitter_ms", "fired", "owner_email"),
        "created_at",
    ),
    "bulk_runs": ("status", "max_parallel", "stop_after_failures", "created_at", "finished_at"),
    "rollouts": (
        *("status", "version", "comment", "wave", "wave_done_at", "max_parallel", "stop_after_failures", "on_failure"),
        *("created_at", "finished_at"),
    ),
    "webhook_deliveries": ("status", "attempts", "created_at", "finished_at"),
}
_WITH_CAPITALS = re.compile(r"_([a-z])")
# Links to an object that do not show its name.
_LINKS = re.compile(r"^/console/(instances|applications|environments)/([0-9a-f]{24})$")
# Parts of pages that say when an instance ends, and how long before its end they warn.
_PARTS_WITH_ENDS = ("waiting-destroy", "coming", "schedules", "expiry")
_WARNINGS = (timedelta(hours=1), timedelta(days=1))
_TO_RUN = re.compile(r"^/console/instances/[0-9a-f]{24}/jobs/([0-9a-f]{24})$")


def _agrees(shown: Any, so: Any) -> bool:
    """Compare a value; a set is a choice. Times are in milliseconds, or texts to a second or millisecond."""
    if isinstance(so, frozenset):
        return any(_agrees(shown, each) for each in so)
    if isinstance(so, datetime):
        if isinstance(shown, str):
            at = datetime.fromisoformat(shown)
            return abs(at - so) < timedelta(seconds=1) if at.microsecond == 0 else ms(at) == ms(so)
        return bool(shown == ms(so))
    return bool(shown == so)


def _duration_ms(row: Row) -> int:
    """Return how long it took by the times that are shown."""
    return (ms(row["finished_at"]) or 0) - (ms(row["started_at"]) or 0)


@dataclass(frozen=True)
class Agreement:
    """What somebody's answers have to agree with."""

    oracle: Oracle

    @cached_property
    def known(self) -> frozenset[str]:
        """All IDs of what is stored."""
        tables = json.dumps(self.oracle.tables, default=str)
        logged = (f"{row['id']:024x}" for row in self.oracle.tables["audit_entries"])
        return frozenset((*_ID.findall(tables), *logged))

    @cached_property
    def _instances(self) -> dict[str, dict[str, Any]]:
        return {each: self._instance(each, row) for each, row in self.oracle.instances.items()}

    def _instance(self, each: str, row: Row) -> dict[str, Any]:
        oracle = self.oracle
        running = "Degraded" if oracle.is_degraded(each) else "Healthy"
        application, environment = row["application_id"], row["environment_id"]
        counts = oracle.components(each)
        return {
            "name": row["name"],
            "status": row["status"],
            "health": running if row["status"] == "Running" else _HEALTH.get(row["status"], "Busy"),
            "version": row["version"],
            "ownerId": row["owner_id"],
            "parentId": row["parent_id"],
            "applicationId": application,
            "environmentId": environment,
            "application": frozenset((application, oracle.applications[application]["name"])),
            "environment": frozenset((environment, oracle.environments[environment]["name"])),
            "applicationName": oracle.applications[application]["name"],
            "environmentName": oracle.environments[environment]["name"],
            "labels": row["labels"],
            "createdAt": row["created_at"],
            # Answers about one instance say when its lifetime ends, lists which of its ends is the first.
            "destroyAt": frozenset((row["destroy_at"], oracle.listed_end(row))),
            "errorMessage": row["error_message"],
            "isAsleep": each in oracle.asleep,
            "isFrozen": oracle.is_frozen(application, environment),
            "freeze": oracle.freeze_of(application, environment),
            "isDrifted": each in oracle.drifted,
            "isObserved": row["is_observed"],
            "secretsChanged": each in oracle.with_changed_secrets,
            "components": {"total": counts.total(), **counts},
        }

    @cached_property
    def _jobs(self) -> dict[str, dict[str, Any]]:
        return {each: self._job(row) for each, row in self.oracle.jobs.items()}

    def _job(self, row: Row) -> dict[str, Any]:
        found = {
            "name": row["name"],
            "workflow": row["name"],
            "number": row["number"],
            "status": row["status"],
            "ownerId": row["owner_id"],
            "parentJobId": row["parent_job_id"],
            "instanceId": row["instance_id"],
            "instance": row["instance_id"],
            "createdAt": row["created_at"],
            "queuedAt": row["created_at"],
            "startedAt": row["started_at"],
            "finishedAt": row["finished_at"],
            "errorMessage": row["error_message"],
            "cancelled": (row["error_message"] or "").startswith(CANCELLED),
            "currentStep": self.oracle.current_step(row["id"]) if row["status"] == "Executing" else None,
        }
        if row["started_at"] and row["finished_at"]:
            found["durationMs"] = _duration_ms(row)
        return found

    @cached_property
    def _approvals(self) -> dict[str, dict[str, Any]]:
        return {
            each: {
                "text": row["text"],
                "status": row["status"],
                "step": row["step"],
                "needed": row["needed"],
                "notByRequester": row["not_by_requester"],
                "createdAt": row["created_at"],
                "expiresAt": row["expires_at"],
                "decidedAt": row["decided_at"],
                "instanceEndsAt": self.oracle.end(row["instance_id"]) if row["status"] == "pending" else None,
            }
            for each, row in self.oracle.approvals.items()
        }

    @cached_property
    def _change_sets(self) -> dict[str, dict[str, Any]]:
        return {
            row["id"]: {
                "comment": row["comment"],
                "status": self.oracle.change_set_status(row),
                "ownerId": row["owner_id"],
                "ownerEmail": self.oracle.users[row["owner_id"]]["email"],
                "onFailure": row["on_failure"],
                "needed": row["needed"],
                "confirm": row["confirm"],
                "instances": sum(
                    one["change_set_id"] == row["id"] for one in self.oracle.tables["change_set_instances"]
                ),
                "createdAt": row["created_at"],
                "expiresAt": row["expires_at"],
                "appliedAt": row["applied_at"],
                "finishedAt": row["finished_at"],
            }
            for row in self.oracle.tables["change_sets"]
        }

    @cached_property
    def _answers(self) -> dict[str, dict[str, Row]]:
        """What people have answered to an approval or a change set, by their addresses."""
        found: dict[str, dict[str, Row]] = {}
        for table, of in (("approval_answers", "approval_id"), ("change_set_answers", "change_set_id")):
            for row in self.oracle.tables[table]:
                answer = {name: row[name] for name in ("email", "approves", "comment", "at")} | {"counts": True}
                found.setdefault(row[of], {})[row["email"]] = answer
        return found

    @cached_property
    def _counted(self) -> dict[str, Counter[str]]:
        """How many instances of a bulk run or roll-out have each status."""
        found: dict[str, Counter[str]] = {}
        for table, of in (("bulk_instances", "bulk_id"), ("rollout_instances", "rollout_id")):
            for row in self.oracle.tables[table]:
                found.setdefault(row[of], Counter())[row["status"].lower()] += 1
        return found

    @cached_property
    def _sources(self) -> dict[str, dict[str, Any]]:
        return {
            row["id"]: {
                "paused": row["is_paused"],
                **{name: value for name, value in row["settings"].items() if not isinstance(value, dict | list)},
            }
            for row in self.oracle.tables["git_sources"]
        }

    @cached_property
    def _logged(self) -> dict[str, Row]:
        return {f"{row['id']:024x}": row for row in self.oracle.tables["audit_entries"]}

    @cached_property
    def _others(self) -> list[dict[str, dict[str, Any]]]:
        return [
            {
                row["id"]: {_WITH_CAPITALS.sub(lambda found: found[1].upper(), name): row[name] for name in columns}
                for row in self.oracle.tables[table]
            }
            for table, columns in _COLUMNS.items()
        ]

    @cached_property
    def _facts(self) -> dict[str, list[dict[str, Any]]]:
        """What answers may say of each object, by its ID."""
        found: dict[str, list[dict[str, Any]]] = {}
        kinds = (self._instances, self._jobs, self._approvals, self._change_sets, self._sources, *self._others)
        for each, facts in (fact for kind in kinds for fact in kind.items()):
            found.setdefault(each, []).append(facts)
        return found

    @cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        """The names of all objects that links lead to, by their kinds."""
        kinds = ("instances", "applications", "environments")
        return {kind: frozenset(row["name"] for row in getattr(self.oracle, kind).values()) for kind in kinds}

    def _is_unknown(self, text: str) -> bool:
        """Tell whether it is an ID of nothing. Entries of the activity and events are numbered; new ones come."""
        return bool(_ID.fullmatch(text)) and text not in self.known and not text.startswith(_NUMBERED)

    def of(self, asked: str, answer: Kept) -> list[str]:
        """Return what an answer to a question says that is not so."""
        if answer.place is not None and answer.place[0] == "page":
            return self.pages(answer.text)
        jobs = set(_ID.findall(asked)) & self._jobs.keys()
        return self.documents(answer.text, job=jobs.pop() if len(jobs) == 1 else None)

    def documents(self, text: str, job: str | None = None) -> list[str]:
        """Return what a document says that is not so; `job` is the one whose steps it has."""
        try:
            document = json.loads(text)
        except ValueError:
            return []
        return [*self._walk(document, job)]

    def _walk(self, value: Any, job: str | None) -> Iterator[str]:
        if isinstance(value, list):
            for each in value:
                yield from self._walk(each, job)
        elif isinstance(value, dict):
            job = next((each for each in (value.get("id"), value.get("job")) if _is_in(each, self._jobs)), job)
            yield from self._document(value, job)
            if _is_in(value.get("id"), self._instances):
                yield from self._current(value)
            for name, each in value.items():
                if (
                    isinstance(each, str)
                    and self._is_unknown(each)
                    and not (name == "id" and {"count", "state"} & value.keys())
                ):
                    yield f"{name} is {each}, which nothing stored has"
                yield from self._walk(each, job)

    def _document(self, shown: Mapping[str, Any], job: str | None) -> Iterator[str]:
        if "kind" in shown and "cron" not in shown:
            return  # who or what began something: it has a name of its own
        each = shown.get("id")
        if isinstance(each, str):
            answers = self._answers.get(each, {})
            for answer in shown.get("answers") or ():
                if isinstance(answer, dict) and "email" in answer:
                    yield from _differing(f"answer to {each}", answer, answers.get(answer["email"], {"email": None}))
            if each in self._counted and isinstance(shown.get("counts"), dict):
                counts = self._counted[each]
                yield from _differing(
                    f"counts of {each}", shown["counts"], {name: counts[name] for name in shown["counts"]}
                )
        if _is_in(each, self._instances) and shown.get("status") not in INSTANCE_WORDS:
            shown = {name: value for name, value in shown.items() if name != "status"}  # what a change set does to it
        for facts in self._facts.get(each, ()) if isinstance(each, str) else ():
            yield from _differing(f"{each}", shown, facts)
        if _is_in(shown.get("job"), self._jobs) and "number" in shown:
            yield from _differing(f"job {shown['job']}", shown, self._jobs[shown["job"]])
        for name, (table, names) in _NAMED.items():
            objects = getattr(self.oracle, table)
            if _is_in(shown.get(name), objects):
                yield from _differing(
                    f"{name} {shown[name]}", shown, dict.fromkeys(names, objects[shown[name]]["name"])
                )
        of_job = shown.get("jobId")
        if _is_in(of_job, self._jobs):
            row = self.oracle.jobs[of_job]
            so: dict[str, Any] = {"workflow": row["name"], "number": row["number"], "jobNumber": row["number"]}
            so |= {"message": row["error_message"], "time": row["finished_at"]} if "code" in shown else {}
            so |= {"failedAt": row["finished_at"]} if "failedAt" in shown else {}
            yield from _differing(f"job {of_job}", shown, so)
        if _is_in(each, self._logged):
            row = self._logged[str(each)]
            entry = {name: row[name] for name in ("operation", "object", "address")}
            yield from _differing(f"entry {each}", shown, entry)
            yield from _differing(f"entry {each}", shown.get("actor") or {}, {"email": row["actor_email"]})
        if job is not None and "path" in shown and "/" in str(shown["path"]) and "status" in shown:
            yield from self._step(shown, job)

    def _current(self, shown: Mapping[str, Any]) -> Iterator[str]:
        """Compare what an instance does now, which has no ID: `workflow`, or `job` in the words of commands."""
        now = self._jobs.get(self.oracle.instances[shown["id"]]["job_id"] or "")
        for name in ("workflow", "job"):
            current = shown.get(name)
            if isinstance(current, dict) and "id" not in current and "job" not in current:
                yield from _differing(f"{name} of {shown['id']}", current, now or {"name": "nothing"})

    def _step(self, shown: Mapping[str, Any], job: str) -> Iterator[str]:
        row = next((each for each in self.oracle.steps.get(job, ()) if each["path"] == shown["path"]), None)
        if row is None:
            if shown.get("startedAt"):
                yield f"job {job} has no step {shown['path']}"
            return
        so = {
            "name": row["name"],
            "status": row["status"],
            "errorMessage": row["error_message"],
            "attempt": row["attempt"],
            "attempts": row["attempt"],
            "startedAt": row["started_at"],
            "finishedAt": row["finished_at"],
            "ignored": row["status"] == "Failed" and row["goes_on"],
        }
        if row["started_at"] and row["finished_at"]:
            so["durationMs"] = _duration_ms(row)
        yield from _differing(f"step {shown['path']} of {job}", shown, so)

    @cached_property
    def _moments(self) -> frozenset[str]:
        """All times that are stored, to the second."""
        return frozenset(at.isoformat(timespec="seconds") for at in self._stored_times())

    @cached_property
    def _ends(self) -> frozenset[str]:
        """When something may end or begin: all times that are stored, and those of the warnings before them."""
        times = [at - before for at in self._stored_times() for before in (timedelta(), *_WARNINGS)]
        return frozenset(at.isoformat(timespec="seconds") for at in times)

    def _stored_times(self) -> list[datetime]:
        rows = (row for table in self.oracle.tables.values() for row in table)
        times = [value for row in rows for value in row.values() if isinstance(value, datetime)]
        frozen = [row["frozen"] for of in ("environments", "applications") for row in self.oracle.tables[of]]
        times += [datetime.fromtimestamp(json.loads(each)["at_ms"] / 1000, UTC) for each in frozen if each]
        return times

    def _times(self, main: Node) -> Iterator[str]:
        for part in (each for name in _PARTS_WITH_ENDS for each in main.all(id=name)):
            yield from (f"nothing ends at {stamp}" for stamp in part.stamps if stamp not in self._ends)
        for each in main.walk():
            stamp = each.attributes.get("datetime") or each.attributes.get("title", "").partition(",")[0]
            if not _STAMP.fullmatch(stamp):
                continue
            at = datetime.fromisoformat(stamp)
            if stamp not in self._moments and at < self.oracle.now:
                yield f"nothing was at {stamp}"
            said = _AGO.search(each.text)
            if said and said[0] not in {ago(at + timedelta(seconds=late), self.oracle.now) for late in (0, 1)}:
                yield f"{said[0]!r} is not {stamp}"

    def pages(self, text: str) -> list[str]:
        """Return what a page says that is not so."""
        main = parsed(text).all("main")
        found = [each for node in main for each in (*self._times(node), *_statuses(node))]
        for link in main[0].all("a") if main else []:
            address = link.attributes.get("href", "").partition("?")[0]
            label = link.text
            unknown = [each for each in _ID.findall(address) if self._is_unknown(each)]
            found += [f"a link to {each}, which nothing stored has" for each in unknown]
            if (to := _LINKS.match(address)) and to[2] in (objects := getattr(self.oracle, to[1])):
                name = objects[to[2]]["name"]
                if label != name and (label in self._names[to[1]] or re.search(r"\d", label.replace(name, ""))):
                    found.append(f"{label!r} leads to {name}")
            if (to := _TO_RUN.match(address)) and to[1] in self.oracle.jobs:
                job = self.oracle.jobs[to[1]]
                if (number := re.search(r"#(\d+)", label)) and number[1] != str(job["number"]):
                    found.append(f"{label!r} leads to {self.oracle.run_title(job)}")
                if (title := re.fullmatch(r"(\S+) #\d+", label)) and title[1] not in {job["name"], "Open"}:
                    found.append(f"{label!r} leads to {self.oracle.run_title(job)}")
        return found


def _statuses(main: Node) -> Iterator[str]:
    for each in main.all("span", "st"):
        glyph, words = each.status
        if glyph != _GLYPHS.get(words, glyph):
            yield f"{words!r} has the glyph of {glyph}"


def _is_in(value: Any, objects: Mapping[str, Any]) -> TypeGuard[str]:
    return isinstance(value, str) and value in objects


def _differing(where: str, shown: Mapping[str, Any], so: Mapping[str, Any]) -> Iterator[str]:
    for name in shown.keys() & so.keys():
        value, wanted = shown[name], so[name]
        if isinstance(value, dict) != isinstance(wanted, dict) or isinstance(value, list):
            continue  # something else of this name, such as the current run under `workflow`
        if name == "components":
            value = {each: number for each, number in value.items() if number}
        if name in {"parentId", "destroyAt", "errorMessage", "labels"} and not value and not wanted:
            continue
        if name == "freeze" and value is not None and wanted is not None:  # programs leave out what isn't set
            value, wanted = ({part: what for part, what in each.items() if what} for each in (value, wanted))
        if not _agrees(value, wanted):
            yield f"{where}: {name} is {str(value)[:200]}, and should be {str(wanted)[:200]}"
