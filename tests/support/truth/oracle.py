"""What is so, from the tables alone: plain SQL, Python, and words of its own. It imports nothing of the product."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Any

import psycopg
import yaml
from psycopg.rows import dict_row

from tests.support.truth.freezes import Frozen, frozen_shown

Row = dict[str, Any]
TABLES = {
    "organizations": "*",
    "environments": "*",
    "applications": "*",
    "manifests": "*",
    "users": "id, email, name, description, service_of, enabled, created_at",
    "instances": "*",
    "jobs": "id, instance_id, organization_id, number, name, owner_id, status, error_message, created_at, started_at,"
    " finished_at, parent_job_id, plan::json AS plan",
    "steps": "job_id, path, name, status, error_message, started_at, finished_at, attempt,"
    " outputs IS NOT NULL AS goes_on",
    "approvals": "*",
    "schedules": "id, instance_id, kind, workflow, owner_id, due_at, component, cancelled_at",
    "log_lines": "id, instance_id, job_id, step, level, text, at, attempt, coalesce(stream, 'system') AS stream",
    "instance_sleeps": "instance_id, is_asleep, since",
    "bulk_runs": "*",
    "bulk_instances": "bulk_id, place, instance_id, instance_name, status, job_id, message, started_at, finished_at",
    "rollouts": "*",
    "rollout_instances": "rollout_id, place, wave, instance_id, instance_name, former_version, generation, status,"
    " job_id, message, started_at, finished_at",
    "change_sets": "id, organization_id, owner_id, act, kind, comment, status, needed, on_failure, confirm, created_at,"
    " expires_at, applied_at, finished_at",
    "change_set_instances": "*",
    "plans": "id, organization_id, owner_id, change_set_id, place, status, result, problem, digest, created_at,"
    " expires_at",
    "recurring_schedules": "*",
    "concurrency_places": "job_id, title, most, is_held, is_outrun",
    "step_waits": "job_id, path, wait::json AS wait",
    "generations": "*",
    "drift_reports": "*",
    "adoptions": "*",
    "secret_versions": "*",
    "secret_reads": "*",
    "drift_schedules": "*",
    "put_back_rules": "*",
    "put_backs": "instance_id, message",
    "change_rules": "owner_id, version, rules AS text, author_id, created_at",
    "audit_entries": "*",
    "memberships": "organization_id, user_id",
    "role_assignments": "user_id, role_id",
    "roles": "*",
    "services": "*",
    "environment_services": "*",
    "webhooks": "*",
    "webhook_deliveries": "*",
    "git_sources": "*",
    "git_syncs": "*",
    "revisions": "*",
    "refresh_tokens": "*",
    "access_tokens": "*",
    "lifetime_rules": "*",
    "promotion_orders": "*",
    "idle_ends": "*",
    "sleep_rules": "*",
    "concurrency_limits": "*",
    "identity_audiences": "environment_id, audiences::json AS audiences",
    "approval_answers": "*",
    "change_set_answers": "*",
    "instance_links": "*",
    "pending_memberships": "*",
    "invitations": "*",
    "vault_entries": "*",
    "service_secrets": "*",
    "pool_resources": "*",
    "zones": "*",
}
# Columns of text with JSON in them.
_JSON = {
    "policies",
    "markers",
    "properties",
    "settings",
    "rules",
    "limits",
    "change_policy",
    "before",
    "after",
    "labels",
}
BUSY = {"Requested", "Executing", "Destroying"}
DAY = timedelta(days=1)
# What people read, and the kind of the glyph before it.
INSTANCE_WORDS = {
    "Requested": ("queued", "Queued"),
    "Executing": ("busy", "In progress"),
    "Running": ("ok", "Running"),
    "Failed": ("fail", "Failed"),
    "Destroying": ("busy", "Destroying"),
    "Destroyed": ("gone", "Destroyed"),
    "degraded": ("wait", "Degraded"),
    "asleep": ("stop", "Sleeping"),
    "asking": ("wait", "Needs approval"),
}
RUN_WORDS = {
    "Requested": ("queued", "Queued"),
    "Executing": ("busy", "In progress"),
    "Succeeded": ("ok", "Succeeded"),
    "Failed": ("fail", "Failed"),
    "cancelled": ("stop", "Cancelled"),
    "asking": ("wait", "Needs approval"),
}
CANCELLED = "Cancelled by "
INTERRUPTED = "The step was interrupted."


def read_tables(url: str) -> dict[str, list[Row]]:
    """Return the rows of all tables, as they were at one moment."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return {
            table: [
                {name: _decoded(value) if name in _JSON else value for name, value in row.items()}
                for row in connection.execute(f"SELECT {columns} FROM {table}")
            ]
            for table, columns in TABLES.items()
        }


def _decoded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def ms(at: datetime | None) -> int | None:
    """Return a time in whole milliseconds since the Unix epoch, as all surfaces have it."""
    return None if at is None else (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def bare(text: str) -> str:
    """Return a text without what equal failures differ in."""
    return " ".join(re.sub(r"[#…]|[0-9a-f]{24}|\d[\d.,:]*(?: ?(?:ms|s|min|h|d|KB|MB)\b)?", " ", text).split())


def ago(at: datetime | None, now: datetime) -> str:
    """Return how people say how far off a time is."""
    if at is None:
        return ""
    seconds = int((at - now).total_seconds())
    if not seconds:
        return "now" if at > now else "just now"
    left = abs(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)) if left >= 60 else (("s", 1),):
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
    return f"in {' '.join(parts)}" if seconds > 0 else f"{' '.join(parts)} ago"


@dataclass(frozen=True)
class Oracle:
    """What somebody may see of an organization; None are all environments."""

    tables: dict[str, list[Row]]
    now: datetime
    organization: str
    only: str | None = None

    def _named(self, table: str) -> dict[str, Row]:
        return {
            row["id"]: row
            for row in self.tables[table]
            if row.get("organization_id", self.organization) == self.organization
        }

    @cached_property
    def applications(self) -> dict[str, Row]:
        return self._named("applications")

    @cached_property
    def environments(self) -> dict[str, Row]:
        return self._named("environments")

    @cached_property
    def users(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.tables["users"]}

    @cached_property
    def instances(self) -> dict[str, Row]:
        return {
            row["id"]: row
            for row in self.tables["instances"]
            if row["organization_id"] == self.organization and self.only in (None, row["environment_id"])
        }

    @cached_property
    def living(self) -> dict[str, Row]:
        return {each: row for each, row in self.instances.items() if row["status"] != "Destroyed"}

    @cached_property
    def jobs(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.tables["jobs"] if row["instance_id"] in self.instances}

    @cached_property
    def history(self) -> dict[str, list[Row]]:
        """The jobs of each instance, the newest first."""
        rows = sorted(
            self.jobs.values(), key=lambda row: (row["instance_id"], row["created_at"], row["id"]), reverse=True
        )
        return {each: list(of_one) for each, of_one in groupby(rows, key=lambda row: row["instance_id"])}

    @cached_property
    def steps(self) -> dict[str, list[Row]]:
        rows = sorted(self.tables["steps"], key=lambda row: (row["job_id"], row["path"]))
        return {each: list(of_one) for each, of_one in groupby(rows, key=lambda row: row["job_id"])}

    @cached_property
    def approvals(self) -> dict[str, Row]:
        return {row["id"]: row for row in self.tables["approvals"] if row["instance_id"] in self.instances}

    @cached_property
    def asking_jobs(self) -> set[str]:
        """Jobs that wait for an approval."""
        return {row["job_id"] for row in self.approvals.values() if row["status"] == "pending"}

    def freeze(self, application: str, environment: str) -> tuple[str, Frozen] | None:
        """Return what freezes an instance, and whether that is its environment or application.

        Of two, it is the one that ends later, and of two that will, the one that begins first.
        """
        rows = {"environment": self.environments[environment], "application": self.applications[application]}
        shown = [(kind, found) for kind, row in rows.items() if (found := frozen_shown(row, self.now)) is not None]
        if current := [each for each in shown if each[1].begins_at is None]:
            return max(current, key=lambda each: each[1].until or datetime.max.replace(tzinfo=UTC))
        return min(shown, key=lambda each: each[1].begins_at or self.now, default=None)

    def freeze_of(self, application: str, environment: str) -> dict[str, Any] | None:
        """Return what lists say of it."""
        if (found := self.freeze(application, environment)) is None:
            return None
        kind, state = found
        return {"kind": kind, "reason": state.reason, "until": ms(state.until), "beginsAt": ms(state.begins_at)}

    def is_frozen(self, application: str, environment: str) -> bool:
        found = self.freeze(application, environment)
        return found is not None and found[1].begins_at is None

    @cached_property
    def asleep(self) -> set[str]:
        return {
            row["instance_id"] for row in self.tables["instance_sleeps"] if row["is_asleep"]
        } & self.instances.keys()

    @cached_property
    def drifted(self) -> set[str]:
        found = {
            row["instance_id"]
            for row in self.tables["drift_reports"]
            if row["new_findings"] or any(until <= self.now for until in row["ignored_until"])
        }
        return found & self.instances.keys()

    @cached_property
    def with_changed_secrets(self) -> set[str]:
        return {row["instance_id"] for row in self._changed_reads} & self.living.keys()

    @cached_property
    def _changed_reads(self) -> list[Row]:
        newest = {(row["service_id"], row["path"]): row["version"] for row in self.tables["secret_versions"]}
        return [
            row
            for row in self.tables["secret_reads"]
            if (version := row["version"])
            and newest.get((row["service_id"], row["secret"].partition("#")[0]), version) != version
        ]

    def changed_reads(self, instance_id: str) -> list[tuple[Any, ...]]:
        """Return secret, component, step, time in ms and job of each read whose secret has changed since."""
        names = {row["id"]: row["name"] for row in self.tables["services"]}
        return sorted(
            (
                f"{names[row['service_id']]}/{row['secret']}",
                row["component"],
                row["step"],
                ms(row["read_at"]),
                row["job_id"],
            )
            for row in self._changed_reads
            if row["instance_id"] == instance_id
        )

    @cached_property
    def people(self) -> set[str]:
        """Members of the organization, without programs."""
        return {
            row["user_id"]
            for row in self.tables["memberships"]
            if row["organization_id"] == self.organization and self.users[row["user_id"]]["service_of"] is None
        }

    def change_set_status(self, row: Row) -> str:
        is_open = row["status"] in {"Pending", "Ready"}
        return "Expired" if is_open and row["expires_at"] <= self.now else str(row["status"])

    def last_job(self, instance: str) -> Row | None:
        """Return the job that ended last."""
        over = [row for row in self.history.get(instance, ()) if row["finished_at"] is not None]
        return max(over, key=lambda row: row["finished_at"], default=None)

    def last_status(self, instance: str) -> str | None:
        job = self.last_job(instance)
        return None if job is None else str(job["status"])

    def is_degraded(self, instance: str) -> bool:
        row = self.instances[instance]
        if row["status"] != "Running":
            return False
        lacks = (row["running_count"] or 0) < (row["component_count"] or 0)
        return self.last_failed(instance) or lacks or self._has_ill_submodule(instance)

    def _has_ill_submodule(self, instance: str) -> bool:
        """Return whether a submodule has failed or is degraded, or one inside it."""
        return any(
            row["status"] == "Failed" or self.is_degraded(each) or self._has_ill_submodule(each)
            for each, row in self.instances.items()
            if row["parent_id"] == instance and row["status"] != "Destroyed"
        )

    def last_failed(self, instance: str) -> bool:
        """Return whether the job that ended last failed; one that somebody cancelled didn't."""
        job = self.last_job(instance)
        return job is not None and self.has_failed(job)

    def has_failed(self, job: Row) -> bool:
        return job["status"] == "Failed" and not job["error_message"].startswith(CANCELLED)

    def instance_words(self, instance: str) -> tuple[str, str]:
        """Return the kind and the words of an instance's status."""
        row = self.instances[instance]
        if row["job_id"] in self.asking_jobs:
            return INSTANCE_WORDS["asking"]
        if self.is_degraded(instance):
            return INSTANCE_WORDS["degraded"]
        return INSTANCE_WORDS["asleep" if row["status"] == "Running" and instance in self.asleep else row["status"]]

    def run_words(self, job: Row) -> tuple[str, str]:
        """Return the kind and the words of a run's status."""
        status = job["status"]
        if status == "Executing" and job["id"] in self.asking_jobs:
            return RUN_WORDS["asking"]
        if status == "Executing" and job["started_at"] is None:
            return RUN_WORDS["Requested"]
        if status == "Failed" and job["error_message"].startswith(CANCELLED):
            return RUN_WORDS["cancelled"]
        return RUN_WORDS[status]

    def current_step(self, job: str) -> str | None:
        """Return the path of the step that began last and still runs."""
        running = [row for row in self.steps.get(job, ()) if row["status"] == "Executing" and "/" in row["path"]]
        return max(running, key=lambda row: row["started_at"], default={"path": None})["path"]

    def run_title(self, job: Row) -> str:
        return f"{job['name']} #{job['number']}"

    def children(self, instance: str) -> dict[str, str]:
        """Return the instances of its submodules, by the names of the components."""
        links = [
            row for row in self.tables["instance_links"] if row["instance_id"] == instance and row["kind"] == "own"
        ]
        return {row["component"]: row["target_id"] for row in links}

    def _component(self, instance: str, steps: list[Row]) -> str:
        """Return what a component does that has these steps in the newest job."""
        if any(row["status"] == "Failed" and not row["goes_on"] for row in steps):
            is_cut = all(row["error_message"] == INTERRUPTED for row in steps if row["status"] == "Failed")
            return "interrupted" if is_cut else "failed"
        if any(row["status"] == "Executing" for row in steps):
            asks = {row["step"] for row in self.approvals.values() if row["status"] == "pending"} & {
                row["path"] for row in steps if row["job_id"] in self.asking_jobs
            }
            return "waiting" if asks else "busy"
        return "sleeping" if instance in self.asleep else "running"

    @cached_property
    def texts(self) -> dict[tuple[str, int], Any]:
        """The manifests, parsed."""
        return {
            (row["application_id"], row["version"]): yaml.safe_load(row["content"]) for row in self.tables["manifests"]
        }

    def component_count(self, instance: Row) -> int:
        """Return how many components a version declares. A manifest of workflows alone is one."""
        text = self.texts[instance["application_id"], instance["version"]]
        return len(text.get("application", {}).get("components", [None]))

    def components(self, instance: str) -> Counter[str]:
        """Count the components of an instance by what they do."""
        row, history = self.instances[instance], self.history.get(instance, [])
        total = self.component_count(row)
        children = self.children(instance)
        if row["status"] == "Destroyed":
            return Counter(destroyed=total)
        steps: dict[str, list[Row]] = {}
        for step in self.steps.get(history[0]["id"], ()) if history else ():
            if "/" in step["path"]:
                steps.setdefault(step["path"].partition("#")[0], []).append(step)
        found = Counter(self._component(instance, own) for own in steps.values())
        for child in children.values():
            found += Counter([self._behind(child)])
        rest = total - found.total()
        if rest > 0:
            is_new = not any(job["status"] == "Succeeded" for job in history) and row["status"] in BUSY | {"Failed"}
            found["notStarted" if is_new else "sleeping" if instance in self.asleep else "running"] += rest
        return found

    def _behind(self, child: str) -> str:
        row = self.instances[child]
        if row["job_id"] in self.asking_jobs:
            return "waiting"
        words = {"Requested": "notStarted", "Running": "running", "Failed": "failed", "Destroyed": "destroyed"}
        return words.get(row["status"], "busy")

    def end(self, instance: str) -> datetime | None:
        """Return when an instance that lives is destroyed, as far as that is known: with the outermost one."""
        row = self.instances[instance]
        return self.listed_end(row) if row["parent_id"] is None else self.end(row["parent_id"])

    def told_ends(self, instance: str) -> list[datetime]:
        """Return what a page says of a destroy that is scheduled: its time, and the end of a lifetime after it."""
        row = self.instances[instance]
        if row["parent_id"] is not None:
            return self.told_ends(row["parent_id"])
        end, lifetime = self.listed_end(row), row["destroy_at"]
        if end in (None, lifetime) or row["status"] == "Destroyed":
            return []
        return [each for each in (end, lifetime) if each is not None]

    def listed_end(self, row: Row) -> datetime | None:
        """Return when an instance is destroyed as lists show it: not because the one is that it belongs to."""
        due = [
            one["due_at"]
            for one in self.tables["schedules"]
            if one["instance_id"] == row["id"] and one["kind"] == "workflow" and one["workflow"] == "destroy"
        ]
        return min((at for at in (row["destroy_at"], *due) if at is not None), default=None)

    def idle_end(self, instance: str) -> datetime | None:
        """Return when an instance ends if nothing runs on it: with the outermost one."""
        row = self.instances[instance]
        if row["parent_id"] is not None:
            return self.idle_end(row["parent_id"])
        found = next((one for one in self.tables["idle_ends"] if one["instance_id"] == instance), None)
        if found is None or row["status"] == "Destroyed":
            return None
        last = self.last_job(instance)
        ran = None if last is None or last["id"] == found["own_job_id"] else last["finished_at"]
        since: datetime = max(at for at in (found["since"], ran) if at is not None)
        return since + timedelta(milliseconds=found["idle_ms"])

    def error(self, instance: str) -> tuple[str, str] | None:
        """Return where and why the last run of an instance failed, without names, IDs and numbers."""
        job, row = self.last_job(instance), self.instances[instance]
        if job is None or job["status"] != "Failed":
            return None
        before, failed, why = job["error_message"].partition(" failed: ")
        step = re.search(r"[Ww]orkflow '[^']+': step '([^']+)'$", before)
        place = job["name"] if job["error_message"].startswith(CANCELLED) else ""
        if failed and step is not None:
            place = " · ".join([*re.findall(r"Component '([^']+)'", before), step[1]])
        else:
            why = job["error_message"]
        names = (
            row["name"],
            self.applications[row["application_id"]]["name"],
            self.environments[row["environment_id"]]["name"],
        )
        for name in sorted(names, key=len, reverse=True):
            why = why.replace(name, "…")
        return place, bare(why)

    def expires_today(self) -> list[Row]:
        """Return what ends within a day, the next one first."""
        ends = [(self.listed_end(row), row["id"]) for row in self.living.values()]
        soon = sorted((end, each) for end, each in ends if end is not None and end < self.now + DAY)
        return [self.living[each] for _, each in soon]

    def health(self, instances: Iterable[Row] | None = None) -> Counter[str]:
        """Count living instances by what people call them."""
        found: Counter[str] = Counter()
        for row in self.living.values() if instances is None else instances:
            if row["status"] == "Running":
                found["degraded" if self.is_degraded(row["id"]) else "well"] += 1
            elif row["status"] != "Destroyed":
                found["failed" if row["status"] == "Failed" else "busy"] += 1
        return found

    def health_words(self, instances: Iterable[Row]) -> str:
        """Return what most needs somebody."""
        found = self.health(instances)
        for kind, words in (("failed", "failed"), ("degraded", "degraded"), ("busy", "in progress")):
            if found[kind]:
                return f"{found[kind]} {words}"
        return "all healthy"

    def waits_of(self, instance: str) -> list[str]:
        """Return what an explanation of an instance's wait has to contain; empty for one that doesn't wait."""
        job = self.instances[instance]["job_id"]
        end = self._scheduled_end(instance)
        if job is None:
            return [*end, *(["Sleeping"] if instance in self.asleep and instance in self.living else [])]
        pending = [row for row in self.approvals.values() if row["job_id"] == job and row["status"] == "pending"]
        found = [row["text"] for row in pending]
        places = [row for row in self.tables["concurrency_places"] if row["job_id"] == job and not row["is_held"]]
        found += [row["title"] for row in places]
        waits = [row for row in self.tables["step_waits"] if row["job_id"] == job]
        found += [row["wait"]["text"] for row in waits]
        # No step of the population works for long: those that are left are pauses.
        resting = [row for row in self.steps.get(job, ()) if row["status"] == "Executing" and "/" in row["path"]]
        told = {row["path"] for row in waits} | {row["step"] for row in pending}
        found += [f"Step {row['name']!r}" for row in resting if row["path"] not in told]
        children = [row for row in self.jobs.values() if row["parent_job_id"] == job and row["finished_at"] is None]
        found += [self.instances[row["instance_id"]]["name"] for row in children]
        due = [row for row in self.tables["schedules"] if row["instance_id"] == instance and row["due_at"] < self.now]
        return end + found + [f"{row['workflow']!r}" for row in due if row["cancelled_at"] is None]

    def _scheduled_end(self, instance: str) -> list[str]:
        """Return what is said of a destroy in the future that is scheduled, if no lifetime ends before."""
        row = self.instances[instance]
        end = self.listed_end(row)
        if end in (None, row["destroy_at"]) or end < self.now:
            return []
        return [f"The instance is destroyed at {end:%Y-%m-%dT%H:%M:%SZ}"]

    def matching(self, **wanted: Any) -> set[str]:
        """Return the IDs of instances with these columns; a collection is a choice."""
        return {
            each
            for each, row in self.instances.items()
            if all(
                row[name] in value
                if isinstance(value, Collection) and not isinstance(value, str)
                else row[name] == value
                for name, value in wanted.items()
            )
        }
