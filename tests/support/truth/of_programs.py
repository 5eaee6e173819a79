"""What the client, the commands and the tools for agents show."""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client

from launchbay.client import Basic, Client
from tests.support.service import basic
from tests.support.shell import Shell
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.of_the_api import same_failures, seconds
from tests.support.truth.oracle import CANCELLED, Oracle, Row, ms
from tests.support.truth.recording import Kept, Record

Ask = Callable[..., Coroutine[Any, Any, Any]]


@comparison
async def lists_of_the_client(view: View) -> None:
    oracle = view.oracle

    def read() -> dict[str, Any]:
        with Client(view.url, Basic(view.email, view.password)) as client:
            found: dict[str, Any] = {
                "instances": [
                    {
                        name: getattr(row, name)
                        for name in ("id", "name", "status", "version", "created_at", "destroy_at")
                    }
                    | {"last_job": row.last_job and row.last_job.id}
                    for row in client.list_organization_instances(oracle.organization)
                ],
                "jobs": [
                    {
                        name: getattr(job, name)
                        for name in ("id", "status", "instance_id", "error_message", "finished_at")
                    }
                    for job in client.list_organization_jobs(oracle.organization)
                ],
                "running": client.read_summary(oracle.organization).running,
            }
            return found

    asked = "client"
    kept = view.record.again(asked)
    if kept is None:
        kept = Kept(("client", "lists"), json.dumps(await asyncio.to_thread(read)))
        view.record.keep(asked, kept)
    found = json.loads(kept.text)
    view.same_rows(
        "client, instances",
        [(row["id"], row) for row in found["instances"]],
        {
            each: {
                **{name: row[name] for name in ("id", "name", "status", "version")},
                "created_at": ms(row["created_at"]),
                "destroy_at": ms(oracle.listed_end(row)),
                "last_job": (job := oracle.last_job(each)) and job["id"],
            }
            for each, row in oracle.instances.items()
        },
    )
    view.same_rows(
        "client, jobs",
        [(job["id"], job) for job in found["jobs"]],
        {
            each: {
                **{name: job[name] for name in ("id", "status", "instance_id", "error_message")},
                "finished_at": ms(job["finished_at"]),
            }
            for each, job in oracle.jobs.items()
        },
    )
    running = sum(job["status"] == "Executing" for job in oracle.jobs.values())
    view.same("client, summary", found["running"], running)


def _ended(oracle: Oracle, each: str) -> str:
    job = oracle.last_job(each)
    if job is None:
        return ""
    is_cancelled = job["status"] == "Failed" and job["error_message"].startswith(CANCELLED)
    return f"{job['name']} {'Cancelled' if is_cancelled else job['status']}"


class OfThisProcess(Shell):
    """Notes what is printed."""

    def __init__(self, directory: Path, environ: dict[str, str], record: Record) -> None:
        super().__init__(directory, environ)
        self._record = record

    def good(self, *words: str, stdin: str = "") -> str:
        asked = " ".join(("launchbay", *words))
        if (kept := self._record.again(asked)) is not None:
            return kept.text
        text = super().good(*words, stdin=stdin)
        command = takewhile(lambda word: re.fullmatch("[a-z]+(-[a-z]+)*", word) and len(word) < 24, words)
        place = ("command, as JSON" if "json" in words else "command", " ".join(command))
        self._record.keep(asked, Kept(place, text))
        self._record.read(*place, text)
        return text


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


def in_ms(value: Any) -> Any:
    """Return a document of a program with its times as numbers."""
    if isinstance(value, dict):
        return {name: in_ms(each) for name, each in value.items()}
    if isinstance(value, list):
        return [in_ms(each) for each in value]
    return ms(datetime.fromisoformat(value)) if isinstance(value, str) and _TIME.fullmatch(value) else value


@comparison
async def commands(view: View) -> None:
    oracle = view.oracle
    names = {"LAUNCHBAY_URL": view.url, "LAUNCHBAY_EMAIL": view.email, "LAUNCHBAY_PASSWORD": view.password}
    environ = {**names, "LAUNCHBAY_ORGANIZATION": oracle.organization, "COLUMNS": "1000"}
    with tempfile.TemporaryDirectory() as directory:
        shell = OfThisProcess(Path(directory), environ, view.record)
        most = ("--limit", "1000")
        rows = await asyncio.to_thread(shell.document, "ps", "--all", *most)
        view.same_rows("ps --all -o json", [(row["id"], (row["name"], row["status"])) for row in rows], {
            each: (row["name"], row["status"]) for each, row in oracle.instances.items()
        })  # fmt: skip
        living = await asyncio.to_thread(shell.document, "ps", *most)
        view.same("ps -o json", sorted(row["id"] for row in living), sorted(oracle.living))
        failed = await asyncio.to_thread(shell.good, "ps", "--status", "Failed", "-q", *most)
        view.same("ps --status Failed -q", sorted(failed.split()), sorted(oracle.matching(status="Failed")))
        _table(view, await asyncio.to_thread(shell.good, "ps", "--all", *most))
        jobs = await asyncio.to_thread(shell.document, "organization", "jobs", *most)
        view.same("organization jobs", {job["id"]: job["status"] for job in jobs}, {
            each: job["status"] for each, job in oracle.jobs.items()
        })  # fmt: skip
        for each in _one_of_each(oracle):
            await _status(view, shell, each)


def _one_of_each(oracle: Oracle) -> list[str]:
    """Return an instance of each status in words, and those that wait."""
    found = {oracle.instance_words(each): each for each in sorted(oracle.instances)}
    waiting = {" ".join(oracle.waits_of(each))[:12]: each for each in sorted(oracle.living) if oracle.waits_of(each)}
    return sorted({*found.values(), *waiting.values(), *sorted(oracle.asleep)[:1]})


def _table(view: View, text: str) -> None:
    """Compare the lines of the table: each has the ID, the name, the status and the last job of one instance."""
    oracle = view.oracle
    lines = {line.split()[0]: line for line in text.splitlines() if re.match(r"[0-9a-f]{24}\b", line)}
    view.same("ps --all, lines", sorted(lines), sorted(oracle.instances))
    for each, line in lines.items():
        row = oracle.instances.get(each)
        if row is not None:
            wanted = [
                row["name"],
                row["status"],
                oracle.applications[row["application_id"]]["name"],
                _ended(oracle, each),
            ]
            view.has(f"ps --all, {each}", line, wanted)


async def _status(view: View, shell: Shell, each: str) -> None:
    oracle, row = view.oracle, view.oracle.instances[each]
    shown = await asyncio.to_thread(shell.document, "status", each)
    view.same(f"status {row['name']}", (shown["name"], shown["status"], shown["version"], shown["errorMessage"]), (
        row["name"], row["status"], row["version"], row["error_message"]
    ))  # fmt: skip
    said = " ".join(filter(None, (shown["waitingFor"], shown["sleep"])))
    view.has(f"status {row['name']}, waits", said, oracle.waits_of(each))
    view.same(f"status {row['name']}, says something", bool(said), bool(oracle.waits_of(each)) or each in oracle.asleep)
    history = oracle.history.get(each, [])
    view.same(f"status {row['name']}, jobs", [job["id"] for job in shown["jobs"]], [job["id"] for job in history[:5]])
    jobs = await asyncio.to_thread(shell.document, "job", "list", each)
    view.same(f"job list {row['name']}", [(job["id"], job["status"]) for job in jobs], [
        (job["id"], job["status"]) for job in history
    ])  # fmt: skip
    table = await asyncio.to_thread(shell.good, "status", each)
    words = [
        row["name"],
        row["status"],
        *([row["error_message"][:40]] if row["error_message"] and not row["job_id"] else []),
    ]
    view.has(f"status {row['name']}, as text", table, words)


# Lists of an organization, and the tables that they show all rows of.
LISTS = {
    "application list": "applications",
    "bulk list": "bulk_runs",
    "change-set list": "change_sets",
    "environment list": "environments",
    "git-source list": "git_sources",
    "recurring-schedule list": "recurring_schedules",
    "role list": "roles",
    "rollout list": "rollouts",
    "service list": "services",
    "webhook list": "webhooks",
    "zone list": "zones",
}
# Lists of one object: the table of the objects, that of the rows, the column with the object, what tells rows apart.
INSIDE = {
    "bulk instances": ("bulk_runs", "bulk_instances", "bulk_id", "instance_id", "instanceId"),
    "rollout instances": ("rollouts", "rollout_instances", "rollout_id", "instance_id", "instanceId"),
    "instance approvals": ("approvals", "approvals", "instance_id", "id", "id"),
    "instance generations": ("generations", "generations", "instance_id", "number", "number"),
    "manifest list": ("manifests", "manifests", "application_id", "version", "version"),
}


@comparison
async def lists_of_the_commands(view: View) -> None:
    """Compare which rows there are; what they say of each is compared wherever an answer has the object."""
    oracle = view.oracle
    if oracle.only is not None:
        return  # who may read what is in the matrix of permissions
    names = {"LAUNCHBAY_URL": view.url, "LAUNCHBAY_EMAIL": view.email, "LAUNCHBAY_PASSWORD": view.password}
    with tempfile.TemporaryDirectory() as directory:
        shell = OfThisProcess(
            Path(directory), {**names, "LAUNCHBAY_ORGANIZATION": oracle.organization, "COLUMNS": "1000"}, view.record
        )
        for command, table in LISTS.items():
            so = [row["id"] for row in oracle.tables[table] if row.get("organization_id") == oracle.organization]
            rows = await asyncio.to_thread(shell.document, *command.split())
            view.same(command, sorted(row["id"] for row in rows), sorted(so))
        for command, (objects, table, column, stored, shown) in INSIDE.items():
            own = [row for row in oracle.tables[objects] if _is_own(oracle, row)]
            for each in sorted({row[column if objects == table else "id"] for row in own})[:3]:
                rows = await asyncio.to_thread(shell.document, *command.split(), each)
                of_one = [row[stored] for row in oracle.tables[table] if row[column] == each]
                view.same(f"{command} {each}", sorted(row[shown] for row in rows), sorted(of_one))
        broken = {
            each: row for each, row in oracle.instances.items() if row["status"] == "Failed" or oracle.is_degraded(each)
        }
        groups = await asyncio.to_thread(shell.document, "organization", "failures", "--instances", "1000")
        view.same(
            "organization failures", sorted(one["id"] for row in groups for one in row["instances"]), sorted(broken)
        )
        same_failures(view, "organization failures", groups, broken)
        due = [row for row in oracle.tables["schedules"] if row["instance_id"] in oracle.living]
        for each in sorted({row["instance_id"] for row in due if row["kind"] == "workflow"})[:3]:
            found = await asyncio.to_thread(shell.document, "instance", "schedules", each)
            times = {
                row["id"]: (row["workflow"], seconds(ms(row["due_at"])))
                for row in due
                if row["instance_id"] == each and row["kind"] in {"workflow", "cron"}
            }
            listed = [(one["id"], (one["name"], seconds(one["timestamp"]))) for one in found["schedules"]]
            view.same_rows(f"instance schedules {each}", listed, times)
        for each in sorted(row["id"] for row in oracle.tables["change_sets"] if _is_own(oracle, row))[:3]:
            shown_set = await asyncio.to_thread(shell.document, "change-set", "show", each)
            members = [row for row in oracle.tables["change_set_instances"] if row["change_set_id"] == each]
            view.same(
                f"change-set show {each}",
                {one["instanceId"]: one["instanceName"] for one in shown_set["plan"]},
                {row["instance_id"]: row["instance_name"] for row in members},
            )


def _is_own(oracle: Oracle, row: Row) -> bool:
    if "organization_id" in row:
        return bool(row["organization_id"] == oracle.organization)
    if "instance_id" in row:
        return row["instance_id"] in oracle.instances
    return row["application_id"] in oracle.applications


@asynccontextmanager
async def agent(view: View) -> AsyncIterator[Ask]:
    """Give what calls a tool and returns its answer."""
    headers = {"Authorization": basic(view.email, view.password)}
    async with AsyncExitStack() as stack:
        client: Any = None
        if not view.record.is_replayed:
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60))
            client = await stack.enter_async_context(
                McpClient(streamable_http_client(f"{view.url}/mcp", http_client=http))
            )

        async def ask(tool: str, **arguments: Any) -> Any:
            asked = f"{tool} {json.dumps(arguments, sort_keys=True)}"
            kept = view.record.again(asked)
            if kept is None:
                found: Any = await client.call_tool(tool, arguments)
                assert not found.is_error, found.content
                kept = Kept(("tool", tool), found.content[0].text)
                view.record.keep(asked, kept)
                view.record.read("tool", tool, kept.text)
            return json.loads(kept.text)

        yield ask


@comparison
async def tools(view: View) -> None:
    oracle = view.oracle
    async with agent(view) as ask:
        for status in ("Requested", "Executing", "Running", "Failed", "Destroying", "Destroyed"):
            rows = (await ask("list_instances", status=status, limit=100))["instances"]
            wanted = sorted(oracle.matching(status=status), reverse=True)[:100]
            shown = [(row["id"], row["name"], row["status"]) for row in rows if isinstance(row, dict)]
            view.same(f"list_instances {status}, how many", len(shown) > 0, len(wanted) > 0)
            # An answer has no more than a model reads at once, and says so.
            view.same(f"list_instances {status}", shown, [
                (each, oracle.instances[each]["name"], status)
                for each in wanted[: None if len(shown) == len(rows) else len(shown)]
            ])  # fmt: skip
        changes = (await ask("list_change_sets"))["changeSets"]
        stored = {row["id"]: oracle.change_set_status(row) for row in oracle.tables["change_sets"]}
        view.same("list_change_sets", [each["status"] for each in changes], [stored[each["id"]] for each in changes])
        broken = {
            each for each, row in oracle.instances.items() if row["status"] == "Failed" or oracle.is_degraded(each)
        }
        failures = (await ask("list_failures", limit=100))["failures"]
        groups = [each for each in failures if isinstance(each, dict)]
        members = [each["id"] for group in groups for each in group["instances"] if isinstance(each, dict)]
        view.same("list_failures, instances", set(members) - broken, set())
        # An answer has no more than a model reads at once. Each of its groups has all of its instances, or says so.
        numbers = sum(group["count"] for group in groups)
        is_whole = len(groups) == len(failures) and all(len(group["instances"]) == group["count"] for group in groups)
        view.same("list_failures, numbers", numbers, len(broken) if len(groups) == len(failures) else numbers)
        view.same("list_failures, all", set(members) if is_whole else broken, broken)
        found = (await ask("find", text="owl", kind="instances"))["instances"]
        owls = [each for each, row in oracle.instances.items() if "owl" in row["name"]]
        view.same("find", sorted(each["id"] for each in found), sorted(owls))
        for each, row in [*oracle.applications.items()][:2] if oracle.only is None else []:
            shown = await ask("read_application", application=each)
            view.same(f"read_application {row['name']}", shown["application"]["name"], row["name"])
            text = (await ask("read_manifest", application=each))["manifest"]
            stored_text = next(
                one["content"]
                for one in oracle.tables["manifests"]
                if one["application_id"] == each and one["version"] == row["latest_version"]
            )
            lines = [json.dumps(line)[1:-1].strip() for line in stored_text.splitlines() if line.strip()][:3]
            view.has(f"read_manifest {row['name']}", json.dumps(text), lines)
        for each in [each["id"] for each in changes][:2]:
            shown = await ask("read_change_set", change_set=each)
            view.has(f"read_change_set {each}", json.dumps(shown), [each, stored[each]])
        for each in _one_of_each(oracle):
            row = oracle.instances[each]
            shown = await ask("read_instance", instance=each)
            view.same(f"read_instance {row['name']}", {name: shown.get(name) for name in _READ}, {
                "name": row["name"],
                "status": row["status"],
                "errorMessage": row["error_message"],
                "version": row["version"],
                "createdAt": _iso(row["created_at"]),
                "destroyAt": _iso(row["destroy_at"]),
            })  # fmt: skip
            said = shown.get("waitingFor") or ""
            view.has(f"read_instance {row['name']}, waits", said, oracle.waits_of(each))
            await _explained(view, ask, row)


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


_READ = ("name", "status", "errorMessage", "version", "createdAt", "destroyAt")


async def _explained(view: View, ask: Any, row: Row) -> None:
    oracle, each = view.oracle, row["id"]
    why = await ask("explain_instance", instance=each)
    newest = oracle.history.get(each, [None])[0]
    if newest is None or newest["status"] == "Succeeded":
        view.same(f"explain_instance {row['name']}", "job" in why, False)
        return
    job = why["job"]
    view.same(f"explain_instance {row['name']}", (job["job"], job["status"], job.get("errorMessage")), (
        newest["id"], newest["status"], newest["error_message"]
    ))  # fmt: skip
    pending = [
        each for each in oracle.approvals.values() if each["job_id"] == newest["id"] and each["status"] == "pending"
    ]
    view.same(
        f"explain_instance {row['name']}, asks",
        [each["text"] for each in why.get("approvals", [])],
        [each["text"] for each in pending],
    )
    for tool, more in (("read_job", {}), ("wait", {"seconds": 0})):
        shown = await ask(tool, job=newest["id"], **more)
        view.same(f"{tool} {newest['id']}", (shown["status"], shown["workflow"], shown.get("finishedAt")), (
            newest["status"], newest["name"], _iso(newest["finished_at"])
        ))  # fmt: skip
