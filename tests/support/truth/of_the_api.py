"""What the endpoints show."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.oracle import CANCELLED, DAY, Oracle, Row, bare, ms
from tests.support.truth.surfaces import listed


def _only(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _last_job(oracle: Oracle, instance: str) -> dict[str, Any] | None:
    job = oracle.last_job(instance)
    return None if job is None else {
        "id": job["id"],
        "number": job["number"],
        "workflow": job["name"],
        "status": job["status"],
        "startedAt": ms(job["started_at"]),
        "finishedAt": ms(job["finished_at"]),
        "errorMessage": job["error_message"],
        "cancelled": _is_cancelled(job),
    }  # fmt: skip


def _is_cancelled(job: Row) -> bool:
    return (job["error_message"] or "").startswith(CANCELLED)


def _fleet_instance(oracle: Oracle, row: Row) -> dict[str, Any]:
    counts = oracle.components(row["id"])
    words = {
        "Running": "Degraded" if oracle.is_degraded(row["id"]) else "Healthy",
        "Failed": "Failed",
        "Destroyed": "Gone",
    }
    return {
        "id": row["id"],
        "name": row["name"],
        "status": row["status"],
        "health": words.get(row["status"], "Busy"),
        "applicationId": row["application_id"],
        "applicationName": oracle.applications[row["application_id"]]["name"],
        "environmentId": row["environment_id"],
        "environmentName": oracle.environments[row["environment_id"]]["name"],
        "version": row["version"],
        "ownerId": row["owner_id"],
        "parentId": row["parent_id"],
        "labels": row["labels"],
        "createdAt": ms(row["created_at"]),
        "destroyAt": ms(oracle.listed_end(row)),
        "waitingDestroy": None,  # no instance of the population has a destroy that can be taken back
        "isAsleep": row["id"] in oracle.asleep,
        "isFrozen": oracle.is_frozen(row["application_id"], row["environment_id"]),
        "freeze": oracle.freeze_of(row["application_id"], row["environment_id"]),
        "isDrifted": row["id"] in oracle.drifted,
        "isObserved": row["is_observed"],
        "secretsChanged": row["id"] in oracle.with_changed_secrets,
        "lastJob": _last_job(oracle, row["id"]),
        "components": {"total": counts.total(), **counts},
    }


def _of_fleet(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item with those numbers of components that aren't 0."""
    return {**shown, "components": {name: number for name, number in shown["components"].items() if number}}


@comparison
async def instances_of_the_api(view: View) -> None:
    oracle = view.oracle
    path = f"{view.root}/instances"
    rows, total = await listed(view.caller, path, limit=37, count=1)
    so = {each: _fleet_instance(oracle, row) for each, row in oracle.instances.items()}
    view.same_rows(path, [(row["id"], _of_fleet(row)) for row in rows], so)
    view.same(f"{path}, total", total, len(so))
    view.same(f"{path}, order", [row["id"] for row in rows], sorted(so, reverse=True))
    for query, wanted in _filters(oracle):
        rows, total = await listed(view.caller, path, count=1, **query)
        view.same(f"{path} {query}", sorted(row["id"] for row in rows), sorted(wanted))
        view.same(f"{path} {query}, total", total, len(wanted))
    for sort, key in (("name", "name"), ("-expiry", "destroyAt"), ("expiry", "destroyAt")):
        rows, _ = await listed(view.caller, path, limit=37, sort=sort)
        values = [row[key] for row in rows if row[key] is not None]
        view.same(f"{path} sort={sort}", values, sorted(values, reverse=sort[0] == "-"))
        view.same(f"{path} sort={sort}, rows", len(rows), len(so))


def _filters(oracle: Oracle) -> list[tuple[dict[str, Any], set[str]]]:
    """Return filters of instances, and what they find."""
    found: list[tuple[dict[str, Any], set[str]]] = []
    for status in ("Requested", "Executing", "Running", "Failed", "Destroying", "Destroyed"):
        found.append(({"status": status}, oracle.matching(status=status)))
    found.append(({"status": "Failed,Destroying"}, oracle.matching(status=("Failed", "Destroying"))))
    for status in ("Succeeded", "Failed"):
        found.append(
            ({"lastStatus": status}, {each for each in oracle.instances if oracle.last_status(each) == status})
        )
    for environment in oracle.environments:
        found.append(({"environment": environment}, oracle.matching(environment_id=environment)))
        failed = oracle.matching(environment_id=environment, status="Failed")
        found.append(({"environment": environment, "status": "Failed"}, failed))
    for application in oracle.applications:
        found.append(({"application": application}, oracle.matching(application_id=application)))
    for version in (2, 3, 4):
        found.append(({"version": version}, oracle.matching(version=version)))
    labeled = {each for each, row in oracle.instances.items() if row["labels"].get("team") == "quay"}
    found.append(({"labels": "team=quay"}, labeled))
    found.append(
        (
            {"labels": "team=quay,tier!=1"},
            {each for each in labeled if oracle.instances[each]["labels"].get("tier") != "1"},
        )
    )
    found.append(
        ({"namePart": "RANE 00"}, {each for each, row in oracle.instances.items() if "rane 00" in row["name"]})
    )
    found.append(({"q": "crane dock"}, {
        each for each, row in oracle.instances.items() if "crane" in row["name"] and "dock" in row["labels"].values()
    }))  # fmt: skip
    soon = ms(oracle.now + DAY)
    ends = {row["id"] for row in oracle.expires_today()}
    found.append(({"expiresBefore": soon}, ends))
    last = {each: oracle.last_job(each) for each in oracle.instances}
    found.append(({"lastWorkflow": "break"}, {each for each, job in last.items() if job and job["name"] == "break"}))
    return found


def _fleet_job(oracle: Oracle, job: Row) -> dict[str, Any]:
    instance = oracle.instances[job["instance_id"]]
    return {
        "id": job["id"],
        "number": job["number"],
        "workflow": job["name"],
        "status": job["status"],
        "instanceId": instance["id"],
        "instanceName": instance["name"],
        "applicationId": instance["application_id"],
        "applicationName": oracle.applications[instance["application_id"]]["name"],
        "environmentId": instance["environment_id"],
        "environmentName": oracle.environments[instance["environment_id"]]["name"],
        "ownerId": job["owner_id"],
        "parentJobId": job["parent_job_id"],
        "createdAt": ms(job["created_at"]),
        "startedAt": ms(job["started_at"]),
        "finishedAt": ms(job["finished_at"]),
        "errorMessage": job["error_message"],
        "cancelled": _is_cancelled(job),
        "currentStep": oracle.current_step(job["id"]) if job["status"] == "Executing" else None,
        "beganBy": _beginning(oracle, job),
    }


def _beginning(oracle: Oracle, job: Row) -> dict[str, Any]:
    owner = oracle.users[job["owner_id"]]["name"]
    if job["parent_job_id"] is not None:
        name = oracle.jobs[job["parent_job_id"]]["name"]
        return {"kind": "job", "id": job["parent_job_id"], "name": name, "owner": owner}
    origin = job["plan"].get("origin")
    if origin is None:
        return {"kind": "person", "id": job["owner_id"], "name": owner, "owner": owner}
    name = origin.get("name") or (job["name"] if origin["kind"] == "schedule" else owner)
    return {"kind": origin["kind"], "id": origin.get("id", ""), "name": name, "owner": owner}


@comparison
async def jobs_of_the_api(view: View) -> None:
    oracle, path = view.oracle, f"{view.root}/jobs"
    rows, total = await listed(view.caller, path, limit=83, count=1)
    so = {each: _fleet_job(oracle, job) for each, job in oracle.jobs.items()}
    view.same_rows(path, [(row["id"], row) for row in rows], so)
    view.same(f"{path}, total", total, len(so))
    newest = sorted(oracle.jobs.values(), key=lambda job: (job["created_at"], job["id"]), reverse=True)
    view.same(f"{path}, order", [row["id"] for row in rows], [job["id"] for job in newest])
    queries: list[tuple[dict[str, Any], set[str]]] = []
    for status in ("Executing", "Succeeded", "Failed"):
        queries.append(({"status": status}, {each for each, job in oracle.jobs.items() if job["status"] == status}))
    for environment in oracle.environments:
        wanted = {each for each, job in so.items() if job["environmentId"] == environment}
        queries.append(({"environment": environment}, wanted))
    for application in oracle.applications:
        queries.append(
            ({"application": application}, {each for each, job in so.items() if job["applicationId"] == application})
        )
    queries.append(
        ({"workflow": "break,ask"}, {each for each, job in so.items() if job["workflow"] in {"break", "ask"}})
    )
    for query, wanted in queries:
        rows, total = await listed(view.caller, path, count=1, **query)
        view.same(f"{path} {query}", sorted(row["id"] for row in rows), sorted(wanted))
        view.same(f"{path} {query}, total", total, len(wanted))


@comparison
async def summary_of_the_api(view: View) -> None:
    """Destroyed instances may be counted or not; the total is the sum of what is shown."""
    oracle = view.oracle
    shown = accepted(await view.caller.get(f"{view.root}/summary"))

    def compare(where: str, part: Mapping[str, Any], instances: list[Row]) -> None:
        statuses = Counter(row["status"] for row in instances)
        if "Destroyed" not in part["byStatus"]:
            del statuses["Destroyed"]
        view.same(f"summary, {where}, by status", part["byStatus"], dict(statuses))
        view.same(f"summary, {where}, total", part["total"], sum(part["byStatus"].values()))
        if statuses["Destroyed"] or all(row["status"] != "Destroyed" for row in instances):
            last = Counter(status for row in instances if (status := oracle.last_status(row["id"])) is not None)
            view.same(f"summary, {where}, by last status", part["byLastStatus"], dict(last))

    compare("all", shown, list(oracle.instances.values()))
    for name, column, objects in (
        ("applications", "application_id", oracle.applications),
        ("environments", "environment_id", oracle.environments),
    ):
        by_id = {part["id"]: part for part in shown[name]}
        for each in by_id:
            compare(
                objects[each]["name"], by_id[each], [row for row in oracle.instances.values() if row[column] == each]
            )
        view.same(
            f"summary, {name} with instances",
            sorted(by_id.keys() | set()),
            sorted({row[column] for row in oracle.instances.values()}),
        )
    since = oracle.now - DAY
    view.same("summary, what happens", _only(shown, "running", "approvals", "expiring", "failures"), {
        "running": sum(job["status"] == "Executing" for job in oracle.jobs.values()),
        "approvals": sum(row["status"] == "pending" for row in oracle.approvals.values()),
        "expiring": len(oracle.expires_today()),
        "failures": sum(oracle.has_failed(job) and job["finished_at"] > since for job in oracle.jobs.values()),
    })  # fmt: skip


_OPERATIONS_OF_LISTS = ("list_environment_instances", "list_application_instances")


@comparison
async def instances_of_applications_and_environments(view: View) -> None:
    """A list has what its reader may read of the instances. Destroyed ones may be left out."""
    oracle = view.oracle
    for kind, column in (("applications", "application_id"), ("environments", "environment_id")):
        for each in oracle.applications if kind == "applications" else oracle.environments:
            path = f"{kind}/{each}/instances"
            answer = await view.caller.get(path)
            may_read = kind == "applications" or oracle.only in (None, each)
            view.same(f"{path}, may be read", answer.status_code == 200, may_read)
            rows = accepted(answer) if may_read else []
            shown = {row["id"]: (row["name"], row["status"], row["application"], row["environment"]) for row in rows}
            so = {
                row["id"]: (row["name"], row["status"], row["application_id"], row["environment_id"])
                for row in oracle.instances.values()
                if may_read and row[column] == each and (row["status"] != "Destroyed" or row["id"] in shown)
            }
            view.same_rows(path, shown, so)


@comparison
async def each_instance_of_the_api(view: View) -> None:
    oracle = view.oracle
    for each, row in oracle.instances.items():
        shown = accepted(await view.caller.get(f"instances/{each}"))
        where = f"instances/{each}"
        so = {
            "id": each,
            "name": row["name"],
            "version": row["version"],
            "status": row["status"],
            "ownerId": row["owner_id"],
            "applicationId": row["application_id"],
            "environmentId": row["environment_id"],
            "errorMessage": row["error_message"],
            "destroyAt": ms(row["destroy_at"]),  # the end of its lifetime, which the reference says
            "createdAt": ms(row["created_at"]),
            "labels": row["labels"],
        }
        view.same(where, _only(shown, *so), so)
        history = oracle.history.get(each, [])
        view.same(
            f"{where}, history",
            [_history(job) for job in shown["workflowHistory"]],
            [_in_history(job) for job in history],
        )
        failure = shown["lastFailure"]
        view.same(f"{where}, has a failure", failure is not None, row["error_message"] is not None)
        if failure is not None:
            failed = [job for job in history if job["id"] == failure["jobId"]]
            view.same(f"{where}, last failure", [(failure["workflow"], failure["message"])], [
                (job["name"], job["error_message"]) for job in failed if job["status"] == "Failed"
            ])  # fmt: skip
        _waits(view, where, each, shown.get("waitingFor"))


def _waits(view: View, where: str, instance: str, said: str | None) -> None:
    """Compare what is said of a wait: all that the instance waits for, and nothing where it waits for nothing."""
    wanted = view.oracle.waits_of(instance)
    view.same(f"{where}, says what it waits for", said is not None, bool(wanted))
    view.has(f"{where}, waits", (said or ""), wanted)


def _history(job: Mapping[str, Any]) -> dict[str, Any]:
    return _only(job, "id", "number", "name", "status", "ownerId", "startedAt", "finishedAt", "errorMessage")


def _in_history(job: Row) -> dict[str, Any]:
    return {
        "id": job["id"],
        "number": job["number"],
        "name": job["name"],
        "status": job["status"],
        "ownerId": job["owner_id"],
        "startedAt": ms(job["started_at"]),
        "finishedAt": ms(job["finished_at"]),
        "errorMessage": job["error_message"],
    }


@comparison
async def each_job_of_the_api(view: View) -> None:
    oracle = view.oracle
    for each, job in oracle.jobs.items():
        if job["status"] == "Succeeded" and job["name"] == "launch":
            continue
        where = f"jobs/{each}"
        shown = accepted(await view.caller.get(where))
        so = {
            **_in_history(job),
            "cancelled": _is_cancelled(job),
            "instanceId": job["instance_id"],
            "queuedAt": ms(job["created_at"]),
        }
        view.same(where, _only(shown, *so), so)
        steps = {step["path"]: (step["status"], step["errorMessage"], step["finishedAt"]) for step in shown["steps"]}
        stored = {
            step["path"]: (step["status"], step["error_message"], ms(step["finished_at"]))
            for step in oracle.steps.get(each, ())
            if "/" in step["path"]
        }
        view.same(f"{where}, steps", {path: steps.get(path) for path in stored}, stored)
        asked = [
            row["text"] for row in oracle.approvals.values() if row["job_id"] == each and row["status"] == "pending"
        ]
        texts = " ".join(wait["text"] for wait in shown["waitingFor"])
        view.has(f"{where}, asks", texts, asked)
        if job["status"] == "Failed":
            paths = f"instances/{job['instance_id']}/jobs/{each}"
            rows = accepted(await view.caller.get(f"{paths}/steps"))
            view.same(f"{paths}/steps", {step["path"] for step in rows} >= {*stored}, True)
            view.same(paths, _only(accepted(await view.caller.get(paths)), *so), so)


@comparison
async def approvals_of_the_api(view: View) -> None:
    oracle = view.oracle
    for wanted in ("pending", "decided"):
        rows, _ = await listed(view.caller, f"{view.root}/approvals", status=wanted)
        so = {
            each: row for each, row in oracle.approvals.items() if (row["status"] == "pending") is (wanted == "pending")
        }
        view.same_rows(f"approvals {wanted}", [(row["id"], _shown_approval(row)) for row in rows], {
            each: {
                "status": row["status"],
                "text": row["text"],
                "needed": row["needed"],
                "instanceId": row["instance_id"],
                "instanceName": oracle.instances[row["instance_id"]]["name"],
                "jobId": row["job_id"],
                "workflow": oracle.jobs[row["job_id"]]["name"],
                "createdAt": ms(row["created_at"]),
                "expiresAt": ms(row["expires_at"]),
                "decidedAt": ms(row["decided_at"]),
            }
            for each, row in so.items()
        })  # fmt: skip
        for row in rows[:2]:
            view.same(f"approvals/{row['id']}", accepted(await view.caller.get(f"approvals/{row['id']}")), row)
            of_instance, _ = await listed(view.caller, f"instances/{row['instanceId']}/approvals")
            view.same(f"approvals of {row['instanceId']}", row in of_instance, True)


def _shown_approval(row: Mapping[str, Any]) -> dict[str, Any]:
    return _only(
        row,
        "status",
        "text",
        "needed",
        "instanceId",
        "instanceName",
        "jobId",
        "workflow",
        "createdAt",
        "expiresAt",
        "decidedAt",
    )


@comparison
async def schedules_of_the_api(view: View) -> None:
    oracle = view.oracle
    rows = accepted(await view.caller.get(f"{view.root}/schedules"))
    so = {
        row["id"]: (
            row["instance_id"],
            oracle.instances[row["instance_id"]]["name"],
            row["workflow"],
            ms(row["due_at"]),
            ms(oracle.end(row["instance_id"])),
        )
        for row in oracle.tables["schedules"]
        if row["instance_id"] in oracle.instances
        and row["kind"] in {"workflow", "cron"}
        and row["due_at"] >= oracle.now
    }
    names = ("instanceId", "instanceName", "workflow", "dueAt", "instanceEndsAt")
    shown = [(row["id"], tuple(row[name] for name in names)) for row in rows]
    view.same_rows("schedules", shown, so)
    for instance in {row[0] for row in so.values()}:
        found = accepted(await view.caller.get(f"instances/{instance}/schedules"))["schedules"]
        own = [each for each, row in so.items() if row[0] == instance]
        listed_ones = {each["id"]: (each["name"], each["timestamp"]) for each in found}
        view.same(
            f"schedules of {instance}",
            {each: listed_ones.get(each) for each in own},
            {each: (so[each][2], so[each][3]) for each in own},
        )


@comparison
async def failures_of_the_api(view: View) -> None:
    """Every instance that failed or is degraded is in one group, with those whose message is equal but for names."""
    oracle = view.oracle
    rows, _ = await listed(view.caller, f"{view.root}/failures", instances=1000)
    broken = {
        each: row for each, row in oracle.instances.items() if row["status"] == "Failed" or oracle.is_degraded(each)
    }
    shown = [(each["id"], each["name"], each["status"], each["failedAt"]) for row in rows for each in row["instances"]]
    so = [(each, row["name"], row["status"], _ended(oracle, each)) for each, row in broken.items()]
    view.same("failures", sorted(shown, key=str), sorted(so, key=str))
    same_failures(view, "failure", rows, broken)


def same_failures(view: View, where: str, rows: list[Any], broken: Mapping[str, Row]) -> None:
    """Compare groups of equal failures, of the API or of a command, whose times are texts of whole seconds."""
    oracle = view.oracle
    grouped: Counter[tuple[str, str]] = Counter()
    for row in rows:
        of = f"{where} {row['id']}"
        members = [each["id"] for each in row["instances"]]
        times = [at for each in members if (at := _ended(oracle, each)) is not None]
        failed = sum(oracle.instances[each]["status"] == "Failed" for each in members if each in broken)
        view.same(f"{of}, numbers", (row["count"], row["failed"]), (len(members), failed))
        for name, so in (("firstAt", min(times, default=None)), ("lastAt", max(times, default=None))):
            at = row[name]
            view.same(
                f"{of}, {name}", seconds(at) if isinstance(at, str) else at, seconds(so) if isinstance(at, str) else so
            )
        errors = {oracle.error(each) for each in members if each in broken}
        if None in errors:
            continue  # it failed before its last run, or a submodule has
        view.same(f"{of}, place and reason", {(row["place"], bare(row["reason"]))}, errors)
        messages = [job["error_message"] for each in members if (job := oracle.last_job(each)) is not None]
        view.same(f"{of}, message", row["message"] in messages, True)
        grouped[row["place"], bare(row["reason"])] += 1
    view.same(f"{where}, groups that are equal", {each: n for each, n in grouped.items() if n > 1}, {})


def seconds(at: Any) -> int | None:
    """Return a time of the API or of a command in whole seconds."""
    if isinstance(at, str):
        return int(datetime.fromisoformat(at).timestamp())
    return None if at is None else int(at) // 1000


def _ended(oracle: Oracle, instance: str) -> int | None:
    row = oracle.instances[instance]
    job = oracle.last_job(instance)
    cause = json.loads(row["last_failure"] or "{}").get("cause")
    if row["status"] == "Failed" and cause and job and job["error_message"]:  # an earlier job, which made it Failed
        return int(cause["time"])
    return None if job is None else ms(job["finished_at"])


@comparison
async def bulk_runs_of_the_api(view: View) -> None:
    oracle = view.oracle
    rows, _ = await listed(view.caller, f"{view.root}/bulk")
    so = {row["id"]: row for row in oracle.tables["bulk_runs"] if row["organization_id"] == oracle.organization}
    for row in rows:
        stored = so.get(row["id"])
        view.same(f"bulk {row['id']} is of the organization", stored is not None, True)
        members = [each for each in oracle.tables["bulk_instances"] if each["bulk_id"] == row["id"]]
        counts = Counter(each["status"].lower() for each in members)
        if stored is not None:
            view.same(f"bulk {row['id']}", (row["status"], row["createdAt"], row["finishedAt"]), (
                stored["status"], ms(stored["created_at"]), ms(stored["finished_at"])
            ))  # fmt: skip
        view.same(f"bulk {row['id']}, counts", row["counts"], {name: counts[name] for name in row["counts"]})
        view.same(f"bulk/{row['id']}", _only(accepted(await view.caller.get(f"bulk/{row['id']}")), *row), row)
        shown, _ = await listed(view.caller, f"bulk/{row['id']}/instances", limit=7)
        view.same_rows(f"bulk/{row['id']}/instances", [(each["instanceId"], _outcome(each)) for each in shown], {
            each["instance_id"]: _stored_outcome(each) for each in members if each["instance_id"] in oracle.instances
        })  # fmt: skip
    if oracle.only is None:
        view.same("bulk runs", sorted(row["id"] for row in rows), sorted(so))


def _outcome(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("instanceName", "status", "jobId", "message", "startedAt", "finishedAt"))


def _stored_outcome(row: Row) -> tuple[Any, ...]:
    began, ended = ms(row["started_at"]), ms(row["finished_at"])
    return (row["instance_name"], row["status"], row["job_id"], row["message"], began, ended)


@comparison
async def rollouts_of_the_api(view: View) -> None:
    oracle = view.oracle
    rows, _ = await listed(view.caller, f"{view.root}/rollouts")
    so = {row["id"]: row for row in oracle.tables["rollouts"] if row["organization_id"] == oracle.organization}
    for row in rows:
        stored = so.get(row["id"])
        view.same(f"roll-out {row['id']} is of the organization", stored is not None, True)
        members = [each for each in oracle.tables["rollout_instances"] if each["rollout_id"] == row["id"]]
        counts = Counter(each["status"].lower() for each in members)
        if stored is not None:
            shown = (row["status"], row["version"], row["createdAt"], row["finishedAt"])
            view.same(f"roll-out {row['id']}", shown, (
                stored["status"], stored["version"], ms(stored["created_at"]), ms(stored["finished_at"])
            ))  # fmt: skip
            view.same(
                f"roll-out {row['id']}, waits", row["waitingFor"] is None, stored["status"] in {"Finished", "Returned"}
            )
        view.same(
            f"roll-out {row['id']}, counts", row["counts"], {name: counts[name.lower()] for name in row["counts"]}
        )
        view.same(f"rollouts/{row['id']}", accepted(await view.caller.get(f"rollouts/{row['id']}")), row)
        found, _ = await listed(view.caller, f"rollouts/{row['id']}/instances", limit=1)
        view.same_rows(f"rollouts/{row['id']}/instances", [
            (each["instanceId"], (each["wave"], each["formerVersion"], *_outcome(each))) for each in found
        ], {
            each["instance_id"]: (each["wave"], each["former_version"], *_stored_outcome(each))
            for each in members if each["instance_id"] in oracle.instances
        })  # fmt: skip
    if oracle.only is None:
        view.same("roll-outs", sorted(row["id"] for row in rows), sorted(so))


@comparison
async def change_sets_of_the_api(view: View) -> None:
    oracle = view.oracle
    rows, _ = await listed(view.caller, f"{view.root}/change-sets")
    so = {row["id"]: row for row in oracle.tables["change_sets"] if row["organization_id"] == oracle.organization}
    for row in rows:
        stored = so[row["id"]]
        shown = (row["status"], row["comment"], row["createdAt"], row["expiresAt"])
        view.same(f"change set {row['id']}", shown, (
            oracle.change_set_status(stored), stored["comment"], ms(stored["created_at"]), ms(stored["expires_at"])
        ))  # fmt: skip
        found = accepted(await view.caller.get(f"change-sets/{row['id']}"))
        view.same(f"change-sets/{row['id']}", (found["status"], found["comment"]), (row["status"], stored["comment"]))
        members = {
            each["instance_id"]: each["instance_name"]
            for each in oracle.tables["change_set_instances"]
            if each["change_set_id"] == row["id"] and each["instance_id"] in oracle.instances
        }
        names = {each["instanceId"]: each["instanceName"] for each in found["plan"]}
        view.same(f"change-sets/{row['id']}, instances", {each: names.get(each) for each in members}, members)
        view.same(
            f"change-sets/{row['id']}, waits", found["waitingFor"] is None, row["status"] not in {"Pending", "Ready"}
        )
    if oracle.only is None:
        view.same("change sets", sorted(row["id"] for row in rows), sorted(so))


@comparison
async def places_of_the_api(view: View) -> None:
    oracle = view.oracle
    places = [row for row in oracle.tables["concurrency_places"] if row["job_id"] in oracle.jobs]
    shown = accepted(await view.caller.get(f"{view.root}/concurrency"))
    jobs = {(group["title"], job["jobId"]): job["hasPlace"] for group in shown for job in group["jobs"]}
    view.same("places", jobs, {(row["title"], row["job_id"]): row["is_held"] for row in places})
    for group in shown if oracle.only is None else []:
        own = [row["is_held"] for row in places if row["title"] == group["title"]]
        view.same(f"group {group['title']}", (group["started"], group["waiting"]), (sum(own), len(own) - sum(own)))


@comparison
async def rules_of_the_api(view: View) -> None:
    oracle = view.oracle
    idle = [each for each in sorted(oracle.living) if oracle.idle_end(each) is not None]
    scheduled = {
        row["instance_id"]
        for row in oracle.tables["schedules"]
        if row["kind"] == "workflow" and row["workflow"] == "destroy"
    }
    chosen = dict.fromkeys(
        [*oracle.asleep, *sorted(oracle.living)[:10], *idle, *sorted(scheduled & oracle.living.keys())]
    )
    for each in chosen:
        sleep = accepted(await view.caller.get(f"instances/{each}/sleep"))
        view.same(f"instances/{each}/sleep", sleep["isAsleep"], each in oracle.asleep)
        view.has(
            f"instances/{each}/sleep, why", sleep["waitingFor"] or "", ["Sleeping"] if each in oracle.asleep else []
        )
        life = accepted(await view.caller.get(f"instances/{each}/lifetime"))
        view.same(f"instances/{each}/lifetime", life["destroyAt"], ms(oracle.instances[each]["destroy_at"]))
        view.same(f"instances/{each}/lifetime, idle", life["idleEndsAt"], ms(oracle.idle_end(each)))
        ends = [at for at in (oracle.end(each), oracle.idle_end(each)) if at is not None]
        coming = [one["at"] for one in life["coming"] if one["kind"] == "destroy"]
        view.same(f"instances/{each}/lifetime, end", coming, [ms(min(ends))] if ends else [])
        if ends and oracle.instances[each]["parent_id"] is not None:
            view.has(f"instances/{each}/lifetime, with what", life["coming"][-1]["text"], ["and this one with it."])


@comparison
async def usage_of_the_api(view: View) -> None:
    oracle = view.oracle
    own = [row for row in oracle.tables["instances"] if row["organization_id"] == oracle.organization]
    shown = {row["id"]: row["used"] for row in accepted(await view.caller.get(f"{view.root}/usage"))}
    living = sum(row["status"] != "Destroyed" for row in own)
    wanted = {"instances": living, "applications": len(oracle.applications)}
    view.same("usage", {name: shown[name] for name in wanted}, wanted)


@comparison
async def instances_of_revisions(view: View) -> None:
    """Each version has a revision without a name, which the list of its instances belongs to."""
    oracle = view.oracle
    rows = list(oracle.instances.values())
    for application in oracle.applications:
        summaries = accepted(await view.caller.get(f"applications/{application}/instances"))
        revisions = {each["revision"] for each in summaries}
        versions = {row["version"] for row in rows if row["application_id"] == application}
        view.same(f"revisions of {application}", len(revisions) <= len(versions), True)
        for revision in revisions:
            path = f"revisions/{revision}/instances"
            found = {each["id"]: each["status"] for each in accepted(await view.caller.get(path))}
            of_version = {row["version"] for row in rows if row["id"] in found}
            view.same(f"{path}, versions", len(of_version), 1)
            view.same(path, found, {
                row["id"]: row["status"] for row in rows
                if row["application_id"] == application and row["version"] in of_version
                and (row["status"] != "Destroyed" or row["id"] in found)
            })  # fmt: skip
