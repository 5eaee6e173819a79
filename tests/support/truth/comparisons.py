"""What each surface shows, compared with the oracle. Each comparison names what it covers."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.service import Caller, accepted
from tests.support.truth.oracle import DAY, Oracle, Row, ago, ms
from tests.support.truth.surfaces import Console, Node, Unreadable, listed, table_of


@dataclass
class View:
    """Somebody, what they use, and what they may see."""

    name: str
    caller: Caller
    console: Console
    oracle: Oracle
    differences: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"organizations/{self.oracle.organization}"

    @property
    def home(self) -> str:
        return f"/console/organizations/{self.oracle.organization}"

    def same(self, where: str, shown: Any, so: Any) -> None:
        """Note a difference between what is shown and what is so."""
        if shown == so:
            return
        if isinstance(shown, dict) and isinstance(so, dict):
            wrong = {
                each: (shown.get(each), so.get(each))
                for each in shown.keys() | so.keys()
                if shown.get(each) != so.get(each)
            }
            shown, so = ({each: pair[place] for each, pair in wrong.items()} for place in (0, 1))
        self.differences.append(f"{self.name}, {where}: shows {str(shown)[:600]}, but it is {str(so)[:600]}")

    def same_rows(self, where: str, shown: Mapping[str, Any] | list[tuple[str, Any]], so: Mapping[str, Any]) -> None:
        """Compare rows by ID: none twice, none missing, none too many, and each is so."""
        rows = list(shown.items()) if isinstance(shown, Mapping) else shown
        twice = [each for each, number in Counter(each for each, _ in rows).items() if number > 1]
        self.same(f"{where}, rows that are there twice", twice, [])
        found = dict(rows)
        self.same(f"{where}, rows that are missing", sorted(so.keys() - found.keys()), [])
        self.same(f"{where}, rows that should not be there", sorted(found.keys() - so.keys()), [])
        for each in found.keys() & so.keys():
            self.same(f"{where}, {each}", found[each], so[each])


Compare = Callable[[View], Awaitable[None]]


@dataclass(frozen=True)
class Comparison:
    """A comparison, and what it covers: pages by their paths, operations, tools and commands by their names."""

    name: str
    compare: Compare
    pages: frozenset[str] = frozenset()
    operations: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()


COMPARISONS: dict[str, Comparison] = {}


def covers(
    *,
    pages: Iterable[str] = (),
    operations: Iterable[str] = (),
    tools: Iterable[str] = (),
    commands: Iterable[str] = (),
) -> Callable[[Compare], Compare]:
    """Register a comparison under the name of its function."""

    def registered(compare: Compare) -> Compare:
        name = compare.__name__
        COMPARISONS[name] = Comparison(
            name, compare, frozenset(pages), frozenset(operations), frozenset(tools), frozenset(commands)
        )
        return compare

    return registered


def _only(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


# The API


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
    }  # fmt: skip


def _fleet_instance(oracle: Oracle, row: Row) -> dict[str, Any]:
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
        "destroyAt": ms(row["destroy_at"]),
        "lastJob": _last_job(oracle, row["id"]),
    }


def _of_fleet(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item without the numbers of components."""
    return {name: value for name, value in shown.items() if name != "components"}


@covers(operations=["list_organization_instances"])
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
    ends = {each for each, row in oracle.living.items() if row["destroy_at"] and ms(row["destroy_at"]) < soon}  # type: ignore[operator]  # both are times
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
        "currentStep": oracle.current_step(job["id"]) if job["status"] == "Executing" else None,
    }


@covers(operations=["list_organization_jobs"])
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


@covers(operations=["read_summary"])
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
        "failures": sum(job["status"] == "Failed" and job["finished_at"] > since for job in oracle.jobs.values()),
    })  # fmt: skip


# The console

_PAGE_OF_INSTANCES = "/console/organizations/{id}/instances"


def _shown_instance(row: Mapping[str, Node]) -> tuple[str, dict[str, Any]]:
    last = row["Last run"]
    shown = last.text
    return row["Name"].id_after("instances") or "", {
        "name": row["Name"].one("a").text,
        "submodule": "Submodule" in row["Name"].text,
        "status": row["Status"].status,
        "sleeps": row["Status"].text.endswith("Sleeps"),
        "last run": (last.id_after("jobs"), *last.status, last.one("span", "quiet").text) if shown else None,
        "failed": last.one("a", "bad").attributes["title"] if last.all("a", "bad") else None,
        "application": row["Application"].text,
        "environment": row["Environment"].text,
        "expires": row["Expires"].text,
        "launched": (row["Launched"].attributes["title"], row["Launched"].text),
    }


def _so_in_list(oracle: Oracle, row: Row) -> dict[str, Any]:
    job = oracle.last_job(row["id"])
    status = None if job is None else oracle.run_words(job)
    gone = row["status"] == "Destroyed"
    return {
        "name": row["name"],
        "submodule": row["parent_id"] is not None,
        "status": oracle.instance_words(row["id"]),
        "sleeps": row["id"] in oracle.asleep and not gone,
        "last run": None
        if job is None
        else (job["id"], status[0], oracle.run_title(job), ago(job["finished_at"], oracle.now)),  # type: ignore[index]  # with a job
        "failed": None if job is None else job["error_message"],
        "application": f"{oracle.applications[row['application_id']]['name']} v{row['version']}",
        "environment": oracle.environments[row["environment_id"]]["name"],
        "expires": "–"
        if gone
        else ago(row["destroy_at"], oracle.now) or ("With parent" if row["parent_id"] else "No expiry"),
        "launched": (row["created_at"].isoformat(timespec="seconds"), ago(row["created_at"], oracle.now)),
    }


@covers(pages=[_PAGE_OF_INSTANCES])
async def instances_of_the_console(view: View) -> None:
    oracle, path = view.oracle, f"{view.home}/instances"
    named = {row["name"]: each for each, row in oracle.environments.items()}
    queries: list[tuple[dict[str, str], set[str]]] = [
        ({"q": ""}, set(oracle.instances)),
        ({}, set(oracle.living)),
        ({"q": "status:failed"}, oracle.matching(status="Failed")),
        ({"q": "status:queued"}, oracle.matching(status="Requested")),
        ({"q": "status:in-progress"}, oracle.matching(status="Executing")),
        ({"q": "status:destroyed"}, oracle.matching(status="Destroyed")),
        ({"q": "status:running last-run:failed"}, {each for each in oracle.instances if oracle.is_degraded(each)}),
        ({"q": "env:staging"}, oracle.matching(environment_id=named["staging"])),
        (
            {"q": "app:Tides", "sort": "name"},
            oracle.matching(
                application_id=[each for each, row in oracle.applications.items() if row["name"] == "Tides"]
            ),
        ),
        ({"q": "expires:<24h", "sort": "expiry"}, {row["id"] for row in oracle.expires_today()}),
    ]
    for query, wanted in queries:
        pages = await view.console.pages(path, query)
        rows = [_shown_instance(row) for page in pages for row in table_of(page, "Instances")]
        view.same_rows(
            f"instances {query}", rows, {each: _so_in_list(oracle, oracle.instances[each]) for each in wanted}
        )
        said = {
            each.text
            for page in pages
            for each in page.all(role="status")
            if re.fullmatch(r"\d+ instances?", each.text)
        }
        view.same(f"instances {query}, number", said, {f"{len(wanted)} instance{'' if len(wanted) == 1 else 's'}"})


@covers(pages=["/console/organizations/{id}"])
async def overview(view: View) -> None:
    for environment in (None, *view.oracle.environments):
        await _overview(view, environment)


async def _overview(view: View, environment: str | None) -> None:
    oracle = view.oracle
    query = {} if environment is None else {"environment": environment}
    page = await view.console.page(view.home, query)
    if environment is not None and not any(link.endswith(environment) for link in page.links):
        return  # whom the environment isn't shown to sees the whole
    where = f"overview {query}"
    rows = [row for row in oracle.living.values() if environment in (None, row["environment_id"])]
    jobs = [
        job
        for job in oracle.jobs.values()
        if environment in (None, oracle.instances[job["instance_id"]]["environment_id"])
    ]
    health = oracle.health(rows)
    running = [job for job in jobs if job["status"] == "Executing"]
    ending = [row for row in oracle.expires_today() if environment in (None, row["environment_id"])]
    sums = [each.text for each in page.one("nav", "sums").all("a")]
    number = sum(health.values())
    next_end = f"next {ago(ending[0]['destroy_at'], oracle.now)}" if ending else "within 24 hours"
    view.same(f"{where}, failed", sums[0], f"{health['failed']} failedof {number} instance{'' if number == 1 else 's'}")
    view.same(f"{where}, in progress", sums[2], f"{len(running)} in progressruns")
    view.same(f"{where}, degraded", sums[3].partition("degraded")[0], f"{health['degraded']} ")
    view.same(f"{where}, ends", sums[4], f"{len(ending)} expire today{next_end}")
    _broken(view, where, page, rows)
    shown = [each.text.partition(" ")[0] for each in page.all("li", "r-run")]
    view.same(f"{where}, rows in progress", len(shown), min(6, len(running)))
    for each in page.all("li", "r-run"):
        job = oracle.jobs.get(each.id_after("jobs") or "")
        so = None if job is None else (oracle.run_title(job), oracle.instances[job["instance_id"]]["name"], "Executing")
        links = [link.text for link in each.all("a")]
        view.same(f"{where}, in progress", (*links, job and job["status"]), so)
    ended = [
        job
        for job in sorted(jobs, key=lambda job: (job["created_at"], job["id"]), reverse=True)[:150]
        if job["status"] != "Executing"
    ]
    recent = [
        (
            row["Run"].id_after("jobs"),
            row["Run"].text,
            row["Instance"].text,
            row["Environment"].text,
            row["Result"].text,
            row["Finished"].text,
        )
        for row in table_of(page, "Table of recent runs")
    ]
    view.same(f"{where}, recent runs", recent, [
        (
            job["id"], oracle.run_title(job), instance["name"], oracle.environments[instance["environment_id"]]["name"],
            job["status"], ago(job["finished_at"], oracle.now),
        )
        for job in ended[:6] for instance in [oracle.instances[job["instance_id"]]]
    ])  # fmt: skip
    for each in page.all("li", "r-env"):
        own = [row for row in rows if row["environment_id"] == each.id_after("environments")]
        words = f"{len(own)} instance{'' if len(own) == 1 else 's'}"
        view.same(
            f"{where}, {each.one('a').text}",
            (each.one("span", "quiet").text, each.one("span", "soft").text),
            (words, oracle.health_words(own)),
        )
    if not environment:
        with_instances = {row["environment_id"] for row in rows}
        shown_environments = {each.id_after("environments") for each in page.all("li", "r-env")}
        view.same(
            f"{where}, environments",
            shown_environments,
            with_instances & oracle.environments.keys() if oracle.only is None else shown_environments,
        )


def _broken(view: View, where: str, page: Node, rows: list[Row]) -> None:
    """Compare the card of what is broken: who, why, and since when. Equal failures may be in one line."""
    oracle = view.oracle
    broken = {row["id"] for row in rows if row["status"] == "Failed" or oracle.is_degraded(row["id"])}
    heading = page.one("h2", id="h-broken")
    view.same(f"{where}, number of broken ones", heading.one("span", "count").text, str(len(broken)))
    for each in page.all("li", "r-broken"):
        instance = each.id_after("instances") or ""
        if instance not in broken:
            view.same(f"{where}, broken", instance, "one that isn't")
            continue
        job = oracle.last_job(instance)
        if len(each.all("a", "name")) == 1 and job is not None and job["status"] == "Failed":
            view.same(f"{where}, broken {instance}", each.id_after("jobs"), job["id"])
            reason = job["error_message"].rpartition(" failed: ")[2]
            view.same(f"{where}, reason of {instance}", reason[:200] in each.text, True)
            view.same(f"{where}, time of {instance}", ago(job["finished_at"], oracle.now) in each.text, True)


async def differences(view: View, *names: str) -> list[str]:
    """Return what the comparisons of these names find, or all of them; what they cannot read is a difference too."""
    for comparison in COMPARISONS.values():
        if names and comparison.name not in names:
            continue
        try:
            await comparison.compare(view)
        except (Unreadable, KeyError, IndexError) as error:
            view.differences.append(f"{view.name}, {comparison.name}: cannot be read: {error!r}")
    found, view.differences = view.differences, []
    return found
