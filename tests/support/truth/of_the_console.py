"""What the pages show."""

import json
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.support.truth.comparisons import View, comparison
from tests.support.truth.oracle import Oracle, Row, ago
from tests.support.truth.population import EVERY_MINUTE
from tests.support.truth.surfaces import Node, parsed, table_of

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
        "failed": last.one("a", "ell").attributes["title"] if last.all("a", "ell") else None,
        "application": row["Application"].text,
        "environment": row["Environment"].text.removesuffix(" frozen"),  # a chip, where it or the application is
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
        "sleeps": row["id"] in oracle.asleep and oracle.is_degraded(row["id"]),
        "last run": None
        if job is None
        else (job["id"], status[0], oracle.run_title(job), ago(job["finished_at"], oracle.now)),  # type: ignore[index]  # with a job
        "failed": None if job is None else job["error_message"],
        "application": f"{oracle.applications[row['application_id']]['name']} v{row['version']}",
        "environment": oracle.environments[row["environment_id"]]["name"],
        "expires": "–"
        if gone
        else ago(oracle.listed_end(row), oracle.now) or ("With parent" if row["parent_id"] else "No expiry"),
        "launched": (row["created_at"].isoformat(timespec="seconds"), ago(row["created_at"], oracle.now)),
    }


@comparison
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
        ({"q": "health:degraded"}, {each for each in oracle.instances if oracle.is_degraded(each)}),
        ({"q": "drift:new"}, oracle.drifted),
        ({"q": "secret:changed"}, oracle.with_changed_secrets),
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


@comparison
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
    next_end = f"next {ago(oracle.listed_end(ending[0]), oracle.now)}" if ending else "none soon"
    view.same(f"{where}, failed", sums[0], f"{health['failed']} failedof {number} instance{'' if number == 1 else 's'}")
    view.same(f"{where}, in progress", sums[2], f"{len(running)} in progressruns")
    view.same(f"{where}, degraded", sums[3].partition("degraded")[0], f"{health['degraded']} ")
    view.same(f"{where}, ends", sums[4], f"{len(ending)} expire{'s' if len(ending) == 1 else ''} in 24 h{next_end}")
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
            oracle.run_words(job)[1], ago(job["finished_at"], oracle.now),
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
            failure = json.loads(oracle.instances[instance]["last_failure"] or "{}")
            is_failed = oracle.instances[instance]["status"] == "Failed"
            cause = failure.get("cause") if is_failed else None  # an earlier job, which made it Failed
            reason = (cause["message"] if cause else job["error_message"]).rpartition(" failed: ")[2]
            view.same(f"{where}, reason of {instance}", reason[:200] in each.text, True)
            view.same(f"{where}, time of {instance}", ago(job["finished_at"], oracle.now) in each.text, True)


_PAGE_OF_AN_INSTANCE = "/console/instances/{id}"


def _reason(message: str) -> str:
    """Return a failure as lists say it: the step of a component, or the whole."""
    before, failed, why = message.partition(" failed: ")
    found = re.search(r"[Ww]orkflow '[^']+': step '([^']+)'$", before)
    if not failed or found is None:
        return message
    components = re.findall(r"Component '([^']+)'", before)
    return f"{' · '.join([*components, found[1]])}: {why}"


def _few(instances: Mapping[str, Row], oracle: Oracle) -> list[str]:
    """Return some instances of each kind and status."""
    seen: Counter[tuple[Any, ...]] = Counter()
    found = []
    for each in sorted(instances):
        job = oracle.last_job(each)
        kind = (
            oracle.instance_words(each),
            instances[each]["application_id"],
            job and oracle.run_words(job),
            each in oracle.asleep,
        )
        seen[kind] += 1
        if seen[kind] <= 1:
            found.append(each)
    return found


def _shown_run(row: Mapping[str, Node]) -> tuple[str, dict[str, Any]]:
    where = row["Where"]
    return row["Run"].id_after("jobs") or "", {
        "run": row["Run"].text,
        "status": row["Status"].status,
        "error": where.one("a").text if where.all("a") else None,
        "started": row["Started"].one("time").attributes["datetime"],
        **({"instance": row["Instance"].text, "environment": row["Environment"].text} if "Instance" in row else {}),
    }


def _so_in_runs(oracle: Oracle, job: Row, *, with_instance: bool) -> dict[str, Any]:
    instance = oracle.instances[job["instance_id"]]
    more = {"instance": instance["name"], "environment": oracle.environments[instance["environment_id"]]["name"]}
    return {
        "run": oracle.run_title(job),
        "status": oracle.run_words(job),
        "error": None if job["error_message"] is None else _reason(job["error_message"]),
        "started": job["created_at"].isoformat(timespec="seconds"),
        **(more if with_instance else {}),
    }


@comparison
async def runs_of_the_console(view: View) -> None:
    oracle, path = view.oracle, f"{view.home}/runs"
    queries: list[tuple[dict[str, str], list[Row]]] = [({}, list(oracle.jobs.values()))]
    for word, status in (("succeeded", "Succeeded"), ("in-progress", "Executing")):
        queries.append(({"q": f"status:{word}"}, [job for job in oracle.jobs.values() if job["status"] == status]))
    unsuccessful = [job for job in oracle.jobs.values() if job["status"] == "Failed"]
    queries += [
        ({"q": "status:failed"}, [job for job in unsuccessful if oracle.has_failed(job)]),
        ({"q": "status:cancelled"}, [job for job in unsuccessful if not oracle.has_failed(job)]),
    ]
    for query, jobs in queries:
        pages = await view.console.pages(path, query)
        rows = [_shown_run(row) for page in pages for row in table_of(page, "Runs")]
        view.same_rows(f"runs {query}", rows, {job["id"]: _so_in_runs(oracle, job, with_instance=True) for job in jobs})
        numbers = {each.text for each in pages[0].all(role="status") if re.fullmatch(r"\d+ runs?", each.text)}
        view.same(f"runs {query}, number", numbers, {f"{len(jobs)} run{'' if len(jobs) == 1 else 's'}"})
    for each in _few(oracle.instances, oracle)[:12]:
        rows = [_shown_run(row) for row in await view.console.rows(f"/console/instances/{each}/runs", "Runs")]
        jobs = oracle.history.get(each, [])
        view.same_rows(
            f"runs of {each}", rows, {job["id"]: _so_in_runs(oracle, job, with_instance=False) for job in jobs}
        )


def _in_short_list(row: Mapping[str, Node]) -> tuple[str, dict[str, Any]]:
    return row["Name"].id_after("instances") or "", {
        "name": row["Name"].one("a").text,
        "status": row["Status"].status,
        "environment": row["Environment"].text,
        "launched": row["Launched"].text,
        "expires": row["Expires"].text,
    }


def _so_in_short_list(oracle: Oracle, row: Row) -> dict[str, Any]:
    gone = row["status"] == "Destroyed"
    never = "With its parent" if row["parent_id"] else "No expiry"
    return {
        "name": row["name"],
        "status": oracle.instance_words(row["id"]),
        "environment": oracle.environments[row["environment_id"]]["name"],
        "launched": ago(row["created_at"], oracle.now),
        "expires": "Destroyed" if gone else ago(oracle.listed_end(row), oracle.now) or never,
    }


@comparison
async def instances_of_their_application_and_environment(view: View) -> None:
    """Destroyed instances may be left out, and are never shown as others; a page shows the newest ones."""
    oracle = view.oracle
    for noun, column, label in (
        ("applications", "application_id", "Instances of this application"),
        ("environments", "environment_id", "Instances in this environment"),
    ):
        for each in oracle.applications if noun == "applications" else oracle.environments:
            if noun == "environments" and oracle.only not in (None, each):
                continue
            page = await view.console.page(f"/console/{noun}/{each}")
            rows = dict(_in_short_list(row) for row in table_of(page, label))
            own = {row["id"]: row for row in oracle.instances.values() if row[column] == each}
            newest = sorted((row for row in own if row in rows or own[row]["status"] != "Destroyed"), reverse=True)
            shown = newest[: len(rows)] if len(rows) < len(newest) else newest
            if len(rows) < len(newest):
                leads = any(f"instances?{noun[:-1]}={each}" in link for link in page.links)
                view.same(f"{noun} {each}, leads to all", (leads, len(rows) > 0), (True, True))
            view.same_rows(f"{noun} {each}", rows, {row: _so_in_short_list(oracle, own[row]) for row in shown})
            if noun == "environments":
                _head_of_environment(view, page, [row for row in own.values() if row["status"] != "Destroyed"])


def _head_of_environment(view: View, page: Node, living: list[Row]) -> None:
    health, number = view.oracle.health(living), len(living)
    words = next((f"{health[kind]} of {number} {said}" for kind, said in (
        ("failed", "failed"), ("degraded", "degraded"), ("busy", "in progress")
    ) if health[kind]), "All healthy" if number else None)  # fmt: skip
    pills = [each.text for each in page.one("div", "head").all("span", "pill")]
    view.same(f"environment {page.one('h1').text}, state", pills[:1], [words][:1] if words else [])
    meta = page.one("p", "meta").text
    view.same(f"environment {page.one('h1').text}, number", meta.startswith(f"{number} instance"), True)


@comparison
async def lists_of_applications_and_environments(view: View) -> None:
    oracle = view.oracle
    for noun, column, label in (
        ("applications", "application_id", "Applications"),
        ("environments", "environment_id", "Environments"),
    ):
        visible = oracle.environments if oracle.only is None else {oracle.only: oracle.environments[oracle.only]}
        objects = oracle.applications if noun == "applications" else visible
        rows = await view.console.rows(f"{view.home}/{noun}", label)
        so = {}
        for each, row in objects.items():
            own = [instance for instance in oracle.living.values() if instance[column] == each]
            so[each] = (row["name"], str(len(own)), oracle.health_words(own) if own else "No instances")
        shown = [
            (
                row["Name"].id_after(noun) or "",
                (row["Name"].one("a", "name").text, row["Instances"].text, row["State"].text),
            )
            for row in rows
        ]
        view.same_rows(noun, shown, so)


def scheduled_end(view: View, where: str, page: Node, each: str) -> None:
    """Compare what the head of a page says of a destroy that is scheduled."""
    said = [time for one in page.all(id="waiting-destroy") for time in one.stamps]
    so = [at.isoformat(timespec="seconds") for at in view.oracle.told_ends(each)]
    view.same(f"{where}, destroy that is scheduled", said, so)


@comparison
async def pages_of_instances_and_runs(view: View) -> None:
    oracle = view.oracle
    for each in _few(oracle.instances, oracle):
        row = oracle.instances[each]
        page = await view.console.page(f"/console/instances/{each}")
        where = f"page of {row['name']}"
        view.same(f"{where}, name", page.one("h1").text, row["name"])
        view.same(f"{where}, status", page.one(id="state").status, oracle.instance_words(each))
        meta = page.one("p", "meta").text
        facts = [
            f"version {row['version']}",
            oracle.applications[row["application_id"]]["name"],
            oracle.environments[row["environment_id"]]["name"],
            f"Launched {ago(row['created_at'], oracle.now)} by {oracle.users[row['owner_id']]['name']}",
        ]
        facts += (
            [f"Expires {ago(oracle.listed_end(row), oracle.now)}"]
            if oracle.listed_end(row) and row["status"] != "Destroyed"
            else []
        )
        facts += ["Sleeps"] if each in oracle.asleep else []
        view.has(f"{where}, facts", meta, facts)
        scheduled_end(view, where, page, each)
        history = oracle.history.get(each, [])
        why = page.one(id="why")
        if row["job_id"] in oracle.asking_jobs:
            [text] = [
                each["text"]
                for each in oracle.approvals.values()
                if each["job_id"] == row["job_id"] and each["status"] == "pending"
            ]
            view.same(f"{where}, asks", text in why.text, True)
        elif row["error_message"] is None:
            view.same(f"{where}, has no failure", why.all(id="live-error"), [])
        elif row["job_id"] is None:
            failed = [
                job for job in history if job["status"] == "Failed" and job["error_message"] == row["error_message"]
            ]
            view.same(f"{where}, last failure", why.id_after("jobs"), failed[0]["id"])
        if history:
            last = page.one(id="live-job")
            view.same(
                f"{where}, last run",
                (last.id_after("jobs"), last.one("span", "st").text),
                (history[0]["id"], oracle.run_words(history[0])[1]),
            )
            await _page_of_a_run(view, history[0])


async def _page_of_a_run(view: View, job: Row) -> None:
    oracle, where = view.oracle, f"page of run {job['id']}"
    page = await view.console.page(f"/console/instances/{job['instance_id']}/jobs/{job['id']}")
    head = page.one(id="run-head")
    view.same(f"{where}, title", head.one("h1").text, oracle.run_title(job))
    view.same(f"{where}, status", head.one(role="status").one("span", "st").text, oracle.run_words(job)[1])
    begun = job["started_at"] or job["created_at"]
    view.same(f"{where}, time", head.one("time").attributes["datetime"], begun.isoformat(timespec="seconds"))
    if job["status"] == "Failed":
        reason = job["error_message"].rpartition(" failed: ")[2]
        view.has(f"{where}, reason", head.one(id="why").text, [reason])


@comparison
async def approvals_of_the_console(view: View) -> None:
    oracle = view.oracle
    pages = await view.console.pages(f"{view.home}/approvals", {"view": "open"})
    shown = [
        (each.attributes["id"].removeprefix("approval-"), (each.id_after("jobs"), each.id_after("instances")))
        for page in pages
        for each in page.all("section", "approval")
    ]
    waiting = {each: row for each, row in oracle.approvals.items() if row["status"] == "pending"}
    view.same_rows(
        "open approvals", shown, {each: (row["job_id"], row["instance_id"]) for each, row in waiting.items()}
    )
    numbers = {each.text for each in pages[0].one("nav", "views").all("a") if each.text.startswith("All open")}
    view.same("open approvals, number", numbers, {f"All open {len(waiting)}"})
    decided = [
        each
        for page in await view.console.pages(f"{view.home}/approvals", {"view": "decided"})
        for each in page.all("li")
        if each.id_after("jobs")
    ]
    so = Counter(
        (row["job_id"], ago(row["decided_at"], oracle.now))
        for row in oracle.approvals.values()
        if row["status"] != "pending"
    )
    view.same(
        "decided approvals", Counter((each.id_after("jobs"), each.all("span", "s")[-1].text) for each in decided), so
    )


_BULK_STATES = {
    "Running": ("busy", "In progress"),
    "Paused": ("wait", "Paused"),
    "Cancelled": ("stop", "Cancelled"),
    "Stopped": ("stop", "Stopped"),
}
_BULK_WORDS = {
    "Succeeded": ("ok", "Succeeded"),
    "Failed": ("fail", "Failed"),
    "Refused": ("stop", "Refused"),
    "Running": ("busy", "In progress"),
    "Waiting": ("queued", "Queued"),
    "Cancelled": ("skip-s", "Left out"),
}


@comparison
async def bulk_runs_of_the_console(view: View) -> None:
    oracle = view.oracle
    stored = {row["id"]: row for row in oracle.tables["bulk_runs"] if row["organization_id"] == oracle.organization}
    rows = await view.console.rows(f"{view.home}/bulk", "Bulk runs")
    found = {row["Bulk run"].id_after("bulk"): row for row in rows}
    view.same("bulk runs", oracle.only is not None or found.keys() == stored.keys(), True)
    for each, row in found.items():
        members = [one for one in oracle.tables["bulk_instances"] if one["bulk_id"] == each]
        done = sum(one["status"] not in {"Waiting", "Running"} for one in members)
        failed = any(one["status"] in {"Failed", "Refused"} for one in members)
        finished = ("fail", "Finished with failures") if failed else ("ok", "Finished")
        view.same(f"bulk {each}", (row["Status"].status, row["Progress"].text, row["Started"].text), (
            {**_BULK_STATES, "Finished": finished}[stored[each or ""]["status"]],
            f"{done} of {len(members)}",
            ago(stored[each or ""]["created_at"], oracle.now),
        ))  # fmt: skip
        page = await view.console.page(f"{view.home}/bulk/{each}")
        view.same(f"page of bulk {each}, done", page.one("b", "").text, f"{done} of {len(members)} done")
        shown = await view.console.rows(f"{view.home}/bulk/{each}", "Instances")
        view.same_rows(f"page of bulk {each}", [
            (one["Instance"].id_after("instances") or "", (
                one["Instance"].text, one["Result"].status, one["Run"].id_after("jobs"), one["Where or why"].text
            ))
            for one in shown
        ], {
            one["instance_id"]: (
                one["instance_name"], _BULK_WORDS[one["status"]], one["job_id"], _reason(one["message"] or "")
            )
            for one in members if one["instance_id"] in oracle.instances
        })  # fmt: skip


_ROLLOUT_WORDS = {
    "Waiting": ("queued", "Not started"),
    "Running": ("busy", "In progress"),
    "Succeeded": ("ok", "Succeeded"),
    "Failed": ("fail", "Failed"),
    "Returned": ("skip-s", "Taken back"),
    "Skipped": ("skip-s", "Left out"),
}


def _rollout_state(row: Row, members: list[Row]) -> tuple[str, str]:
    waves = max(one["wave"] for one in members)
    now = f"wave {row['wave']} of {waves}"
    if row["status"] == "Running":
        pauses = row["wave_done_at"] is not None and row["wave"] < waves
        return "busy", f"Pause before wave {row['wave'] + 1}" if pauses else now.capitalize()
    return {
        "Waiting": ("wait", f"Waits before wave {row['wave'] + 1}"),
        "Stopped": ("wait", f"Stopped in {now}"),
        "Returned": ("skip-s", "Taken back"),
        "Finished": ("ok", "Finished"),
    }[row["status"]]


@comparison
async def rollouts_of_the_console(view: View) -> None:
    oracle = view.oracle
    for row in oracle.tables["rollouts"]:
        members = [one for one in oracle.tables["rollout_instances"] if one["rollout_id"] == row["id"]]
        if any(one["instance_id"] not in oracle.instances for one in members):
            continue
        path = f"/console/applications/{row['application_id']}/rollouts"
        listed_ones = {one["Rollout"].id_after("rollouts"): one for one in await view.console.rows(path, "Rollouts")}
        number = f"{len(members)} instance{'' if len(members) == 1 else 's'}"
        line = listed_ones[row["id"]]
        title = " ".join(filter(None, (f"Version {row['version']} to {number}", row["comment"])))
        view.same(f"rollout {row['id']}", (line["Rollout"].text, line["Started"].text), (
            title, ago(row["created_at"], oracle.now)
        ))  # fmt: skip
        view.same(f"rollout {row['id']}, state", line["State"].status, _rollout_state(row, members))
        shown = await view.console.rows(f"{path}/{row['id']}", "Instances")
        view.same_rows(f"page of rollout {row['id']}", [
            (one["Instance"].id_after("instances") or "", (
                one["Outcome"].status, one["Wave"].text, one["Before"].text, one["Run"].id_after("jobs"),
                one["Where or why"].text,
            ))
            for one in shown
        ], {
            one["instance_id"]: (
                _ROLLOUT_WORDS[one["status"]], str(one["wave"]), f"version {one['former_version']}", one["job_id"],
                _reason(one["message"] or ""),
            )
            for one in members
        })  # fmt: skip


_CHANGE_SET_WORDS = {
    "Pending": ("wait", "Needs approval"),
    "Ready": ("wait", "Ready to apply"),
    "Rejected": ("fail", "Rejected"),
    "Expired": ("stop", "Expired"),
    "Succeeded": ("ok", "Applied"),
}


@comparison
async def change_sets_of_the_console(view: View) -> None:
    oracle = view.oracle
    rows = {
        row["Change set"].id_after("changes"): row
        for row in await view.console.rows(f"{view.home}/changes", "Change sets")
    }
    so = {row["id"]: row for row in oracle.tables["change_sets"] if row["organization_id"] == oracle.organization}
    view.same("change sets", oracle.only is not None or rows.keys() == so.keys(), True)
    for each, row in rows.items():
        stored = so[each or ""]
        members = [one for one in oracle.tables["change_set_instances"] if one["change_set_id"] == each]
        status = oracle.change_set_status(stored)
        ends = ago(stored["expires_at"], oracle.now) if status in {"Pending", "Ready"} else "–"
        shown = (row["Instances"].text, row["Saved"].text, row["Expires"].text)
        view.same(f"change set {each}", shown, (str(len(members)), ago(stored["created_at"], oracle.now), ends))
        view.same(f"change set {each}, state", row["Status"].status, _CHANGE_SET_WORDS[status])


@comparison
async def schedules_of_the_console(view: View) -> None:
    """Runs are compared one by one. Expiries may be in one line a day."""
    oracle = view.oracle
    rows = await view.console.rows(f"{view.home}/schedules", "Schedules", {"view": "list", "kind": "once"})
    so = Counter(
        (
            row["workflow"],
            oracle.instances[row["instance_id"]]["name"],
            ("due " if row["due_at"] < oracle.now else "") + ago(row["due_at"], oracle.now),
        )
        for row in oracle.tables["schedules"]
        if row["kind"] == "workflow" and row["instance_id"] in oracle.instances
    )
    view.same("schedules", Counter((row["Workflow"].text, row["Instance"].text, row["Next"].text) for row in rows), so)
    # A month in which nothing else is due: each day has all runs of what repeats. Instances with an end are gone then.
    month = (oracle.now.replace(day=1) + timedelta(days=70)).replace(day=1)
    page = await view.console.page(f"{view.home}/schedules", {"month": f"{month:%Y-%m}"})
    so_a_day = sum(
        _RUNS_A_DAY[row["cron"]]
        for row in oracle.tables["recurring_schedules"]
        if row["instance_id"] in oracle.instances and not row["is_paused"]
        if oracle.end(row["instance_id"]) is None
    )
    shown = {
        cell.one("span", "d").text: sum(_runs_of(link) for link in cell.all("a"))
        for cell in page.one("div", "cal").all("div")
        if cell.all("span", "d") and "out" not in cell.classes and cell is not page.one("div", "cal")
    }
    view.same(
        "runs of each day", shown, {str(day + 1): so_a_day for day in range(monthrange(month.year, month.month)[1])}
    )


_RUNS_A_DAY = {"30 2 * * *": 1, "0 5 * * *": 1, EVERY_MINUTE: 24 * 60}


def _runs_of(link: Node) -> int:
    """Return how many runs an entry of the calendar stands for: `3 runs`, `3 × turn`, `3 more`, or one."""
    text = re.sub(r"^\d\d:\d\d ", "", link.text)
    found = re.match(r"(\d+) (?:runs$|× |more$)", text)
    return int(found[1]) if found else 1


@comparison
async def people_and_services(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return  # what a member sees of others is in the matrix of permissions
    users = {row["id"]: row for row in oracle.tables["users"]}
    roles = {row["id"]: row for row in oracle.tables["roles"] if row["organization_id"] == oracle.organization}
    members = oracle.people
    held = {
        each: sorted(
            roles[row["role_id"]]["name"]
            for row in oracle.tables["role_assignments"]
            if row["user_id"] == each and row["role_id"] in roles
        )
        for each in members
    }
    rows = await view.console.rows(f"{view.home}/users", "Users")
    view.same(
        "users",
        sorted((row["Name"].one("a").text, sorted(each.text for each in row["Roles"].all(css="chip"))) for row in rows),
        sorted((users[each]["name"] or users[each]["email"], held[each]) for each in members),
    )
    rows = await view.console.rows(f"{view.home}/roles", "Roles")
    view.same(
        "roles",
        {row["Role"].one("a").text: row["People"].text for row in rows},
        {role["name"]: str(sum(role["name"] in own for own in held.values())) for role in roles.values()},
    )
    rows = await view.console.rows(f"{view.home}/services", "Services")
    own = [row["name"] for row in oracle.tables["services"] if row["organization_id"] == oracle.organization]
    view.same("services", sorted(row["Name"].one("a").text for row in rows), sorted(own))


@comparison
async def versions_in_use(view: View) -> None:
    oracle = view.oracle
    for each in oracle.applications:
        page = await view.console.page(f"/console/applications/{each}/versions")
        used = Counter(row["version"] for row in oracle.living.values() if row["application_id"] == each)
        shown = {
            row.one("a", "name").text: row.all("span", "soft")[-1].text
            for row in page.all("li", "r-plain")
            if row.all("a", "name") and "Version" in row.one("a").text
        }
        versions = {row["version"] for row in oracle.tables["manifests"] if row["application_id"] == each}
        view.same(
            f"versions of {oracle.applications[each]['name']}",
            shown,
            {f"Version {number}": f"{used[number]} in use" for number in versions},
        )
        for row in oracle.tables["manifests"]:
            if row["application_id"] != each:
                continue
            page = await view.console.page(f"/console/applications/{each}/versions/{row['version']}")
            main = page.one("main").text
            number, where = used[row["version"]], f"version {row['version']} of {each}"
            view.has(where, main, [f"{number} {'instance uses' if number == 1 else 'instances use'} it"])
            listed_one = next(
                one for one in page.all("li", "r-plain") if one.one("a").text == f"Version {row['version']}"
            )
            # Who may not see people sees their IDs.
            author = oracle.users[row["author_id"]]["name"] if oracle.only is None else row["author_id"]
            said = listed_one.all("p")[-1].text
            view.same(f"{where}, when and by whom", said, f"{ago(row['created_at'], oracle.now)} · {author}")


@comparison
async def recurring_schedules_of_the_console(view: View) -> None:
    oracle = view.oracle
    page = await view.console.page(f"{view.home}/recurring")
    stored = [row for row in oracle.tables["recurring_schedules"] if row["instance_id"] in oracle.instances]
    for row in stored:
        found = [each for each in page.all("tr") if row["id"] in " ".join(each.links)]
        view.same(f"recurring {row['name']}", len(found), 1)
        view.same(
            f"recurring {row['name']}, is paused",
            "Paused" in found[0].all("td")[0].text if found else None,
            row["is_paused"],
        )


@comparison
async def activity_of_an_organization(view: View) -> None:
    """Each entry is there once. Those of the visit itself are newer than the tables."""
    oracle = view.oracle
    if oracle.only is not None:
        return  # who may see an environment sees no log
    to_entry = re.compile(rf"{view.home}/audit/(\w{{24}})$")
    pages = await view.console.pages(f"{view.home}/audit")
    shown = Counter(found[1] for page in pages for link in set(page.links) if (found := to_entry.match(link)))
    so = {
        f"{row['id']:024x}" for row in oracle.tables["audit_entries"] if row["organization_id"] == oracle.organization
    }
    view.same("activity, entries", {each: each in shown for each in so}, dict.fromkeys(so, True))
    view.same("activity, entries that are there twice", [each for each, number in shown.items() if number > 1], [])


_TABS = ("activity", "components", "configuration", "run", "schedules", "settings", "signals", "end")


@comparison
async def tabs_of_an_instance(view: View) -> None:
    """Each has the name of its instance, and its status where it has the head of the page."""
    oracle = view.oracle
    outer = [each for each, row in sorted(oracle.living.items()) if row["parent_id"] is None]
    chosen = {(oracle.living[each]["status"], bool(oracle.told_ends(each))): each for each in outer}
    for each in chosen.values():
        for tab in _TABS:
            path = f"/console/instances/{each}/{tab}"
            answer = await view.console.client.get(path)
            if answer.status_code != 200:
                view.same(
                    f"{path}, is refused to", (answer.status_code in {403, 409}, view.name == "member"), (True, True)
                )
                continue
            page = parsed(answer.text)
            row = oracle.instances[each]
            view.same(f"{path}, name", row["name"] in page.one("main").text, True)
            if page.all(id="state"):
                view.same(f"{path}, status", page.one(id="state").status, oracle.instance_words(each))
            if page.all("p", "meta"):  # the whole head, which the page of all components hasn't
                scheduled_end(view, path, page, each)


@comparison
async def plans_of_acts(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return  # who may only read plans nothing
    for row in oracle.tables["change_sets"]:
        page = await view.console.page(f"{view.home}/changes/{row['id']}")
        names = [
            one["instance_name"] for one in oracle.tables["change_set_instances"] if one["change_set_id"] == row["id"]
        ]
        view.has(f"change set {row['id']}", page.one("main").text, names)
    for query, wanted in (("status:failed", oracle.matching(status="Failed")), ("app:Owl", {
        each for each, row in oracle.living.items() if oracle.applications[row["application_id"]]["name"] == "Owl"
    })):  # fmt: skip
        page = await view.console.page(f"{view.home}/bulk/new", {"act": "label", "all": "1", "q": query})
        number = sum(oracle.instances[each]["parent_id"] is None for each in wanted)
        view.same(f"act on {query}", re.findall(r"\b(\d+) instances?\b", page.one("main").text)[:1], [str(number)])


@comparison
async def usage_of_the_console(view: View) -> None:
    oracle = view.oracle
    own = [row for row in oracle.tables["instances"] if row["organization_id"] == oracle.organization]
    page = await view.console.page(f"{view.home}/usage")
    living = sum(row["status"] != "Destroyed" for row in own)
    shown = [each.text for each in page.one(id="usage").all("li") if each.text.startswith("Instances")]
    view.same("usage, instances", [re.findall(r"\d+", text)[:1] for text in shown], [[str(living)]])
