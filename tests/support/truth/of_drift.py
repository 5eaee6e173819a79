"""What each surface shows of drift: reports of checks, their findings, and the list of instances that have any."""

import asyncio
import hashlib
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.of_programs import OfThisProcess, agent, in_ms
from tests.support.truth.of_the_console import scheduled_end
from tests.support.truth.oracle import Oracle, Row, ago, ms
from tests.support.truth.surfaces import Node, listed

Json = dict[str, Any]
_OPEN = ("new", "ignored")
_STATES = {
    "new": ("wait", "New"),
    "ignored": ("stop", "Ignored"),
    "put back": ("ok", "Put back"),
    "taken over": ("ok", "Taken over"),
    "gone": ("ok", "Gone"),
}


def _reports(oracle: Oracle) -> dict[str, Row]:
    """Return the reports of instances that live."""
    rows = {row["instance_id"]: row for row in oracle.tables["drift_reports"]}
    return {each: row for each, row in sorted(rows.items()) if each in oracle.living}


def _state(finding: Json, now_ms: int) -> str:
    """Return what becomes new again once the time of an ignored finding is over."""
    is_over = finding["state"] == "ignored" and (finding.get("until") or 0) <= now_ms
    return "new" if is_over else str(finding["state"])


def _counts(oracle: Oracle, row: Row) -> dict[str, int]:
    states = [_state(each, ms(oracle.now) or 0) for each in json.loads(row["findings"])]
    return {each: states.count(each) for each in _OPEN}


def _finding(stored: Json, now_ms: int) -> Json:
    difference = stored["difference"]
    named = f"{difference['step']}\n{difference['address']}"
    return {
        "id": hashlib.sha256(named.encode()).hexdigest()[:24],
        "state": _state(stored, now_ms),
        **{name: difference[name] for name in ("kind", "address", "component", "step")},
        "from": difference["described"],
        "to": difference["found"],
        "note": difference.get("note", ""),
        "firstSeen": stored["first_seen"],
        "lastSeen": stored["last_seen"],
        "reason": stored.get("reason", ""),
        "until": stored.get("until"),
        "byEmail": stored.get("by", ""),
        "changeSetId": stored.get("change_set_id"),
        "remedy": stored.get("remedy", ""),
    }


def _status(row: Row | None) -> str:
    """Return what the last check came to. None of the population is under way."""
    if row is None:
        return "Unchecked"
    if row["waiting_since"] is not None:
        return "Waiting"
    return "Failed" if row["problem"] is not None else "Checked" if row["checked_at"] else "Unchecked"


def _document(oracle: Oracle, each: str, row: Row | None) -> Json:
    if row is None:
        times = dict.fromkeys(("checkedAt", "baselineAt", "problem", "problemAt"))
        lists: dict[str, Any] = {"unchecked": [], "findings": [], "checks": []}
        return {
            "instanceId": each,
            "status": "Unchecked",
            "ahead": 0,
            "counts": dict.fromkeys(_OPEN, 0),
            **times,
            **lists,
            "putBack": None,
            "schedules": _schedules(oracle, each),
        }
    now_ms = ms(oracle.now) or 0
    numbers = ("new", "ignored", "unchecked")
    return {
        "instanceId": each,
        "status": _status(row),
        "ahead": 0,  # none waits
        "counts": _counts(oracle, row),
        "checkedAt": ms(row["checked_at"]),
        "baselineAt": ms(row["known_since"]),
        "problem": row["problem"],
        "problemAt": ms(row["problem_at"]),
        "unchecked": json.loads(row["unchecked"]),
        "findings": [_finding(one, now_ms) for one in json.loads(row["findings"])],
        "checks": [
            {
                "at": one["at"],
                **{name: one.get(name, 0) for name in numbers},
                "baseline": one.get("learned", False),
                "problem": one.get("problem", ""),
            }
            for one in json.loads(row["checks"])
        ],
        "putBack": next((one["message"] for one in oracle.tables["put_backs"] if one["instance_id"] == each), None),
        "schedules": _schedules(oracle, each),
    }


def _schedules(oracle: Oracle, each: str) -> list[Json]:
    """Return the schedules that check an instance, the nearest first."""
    [instance] = [row for row in oracle.tables["instances"] if row["id"] == each]
    rows = {row["object_id"]: row for row in oracle.tables["drift_schedules"]}
    places = {"instance": each, "application": instance["application_id"], "environment": instance["environment_id"]}
    others = [rows[at] for source, at in places.items() if source != "instance" and at in rows]
    others = [row for row in others if row["is_paused"] or row["fires_at"] is not None]
    return [
        {
            "cron": rows[at]["cron"],
            "zone": rows[at]["zone"],
            "jitter": rows[at]["jitter_ms"],
            "nextAt": ms(rows[at]["due_at"]),
            "ownerEmail": oracle.users[rows[at]["owner_id"]]["email"],
            "problem": rows[at]["problem"],
            "paused": rows[at]["is_paused"],
            "mail": rows[at]["mail"],
            "fromManifest": rows[at]["of_manifest"],
            "source": "manifest" if rows[at]["of_manifest"] else source,
            "replaced": rows[at]["of_manifest"] and bool(others),
        }
        for source, at in places.items()
        if at in rows
    ]


def _some(oracle: Oracle) -> dict[str, Row | None]:
    """Return the instances with reports, and one without."""
    reports = _reports(oracle)
    return {**reports, next(each for each in sorted(oracle.living) if each not in reports): None}


@comparison
async def drift(view: View) -> None:
    oracle = view.oracle
    for each, row in _some(oracle).items():
        shown = accepted(await view.caller.get(f"instances/{each}/drift/report"))
        view.same(f"drift of {each}", shown, _document(oracle, each, row))
    rows, _ = await listed(view.caller, f"{view.root}/drift")
    view.same_rows("drift, instances", [(one["id"], one) for one in rows], _listed(oracle))


def _listed(oracle: Oracle) -> dict[str, Json]:
    """Return the instances with findings that are open, or whose last check failed."""
    return {
        each: {
            "id": each,
            "name": oracle.instances[each]["name"],
            "status": oracle.instances[each]["status"],
            "counts": _counts(oracle, row),
            "checkedAt": ms(row["checked_at"]),
            "problem": row["problem"],
        }
        for each, row in _reports(oracle).items()
        if any(_counts(oracle, row).values()) or row["problem"] is not None
    }


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@comparison
async def drift_of_the_console(view: View) -> None:
    oracle = view.oracle
    for each, row in _some(oracle).items():
        page = (await view.console.page(f"/console/instances/{each}/drift")).one("main")
        where, so = f"page of the drift of {each}", _document(oracle, each, row)
        scheduled_end(view, where, page, each)
        heading = page.one("section", aria_labelledby="findings-heading").one("header").one("span", "soft").text
        checked = "not checked yet" if row is None else f"checked {ago(row['checked_at'], oracle.now)}"
        view.same(f"{where}, when", heading, checked)
        if so["problem"] is not None:
            why = page.one("div", "split").one("div", "why")
            view.has(f"{where}, problem", why.text, ["The last check failed.", so["problem"]])
            times = [] if not any(so["counts"].values()) else [_at(so["checkedAt"]).isoformat(timespec="seconds")]
            view.same(f"{where}, as of", why.stamps, times)
        open_ones = [one for one in so["findings"] if one["state"] in _OPEN]
        view.same(
            f"{where}, findings", [one.one("code").text for one in page.all("div", "place")], _addresses(open_ones)
        )
        for shown, one in zip(page.all("div", "place"), open_ones, strict=True):
            _one_finding(view, f"{where}, {one['address']}", shown, one)
        _settled(view, where, page, so)
        number = so["counts"]["new"]
        tab = next(link.text for link in page.one("nav", "views").all("a") if link.text.startswith("Drift"))
        view.same(f"{where}, tab", tab, f"Drift {number}" if number else "Drift")


def _addresses(findings: list[Json]) -> list[str]:
    return [one["address"] for one in findings]


def _one_finding(view: View, where: str, shown: Node, one: Json) -> None:
    oracle = view.oracle
    view.same(where, shown.status, _STATES[one["state"]])
    words = {"changed": "Changed", "missing": "Missing", "extra": "Nothing describes it"}[one["kind"]]
    seen = f"{words}, in {one['step']}. First seen {ago(_at(one['firstSeen']), oracle.now)}."
    view.has(where, shown.text, [seen, *filter(None, (one["note"], one["remedy"]))])
    cells = [[cell.text for cell in line.children if isinstance(cell, Node)] for line in shown.all("tr")[1:]]
    names = dict.fromkeys((*one["from"], *one["to"]))
    sides = (one["from"], one["to"])
    so = [[name, *(json.dumps(side[name]) if name in side else "nothing" for side in sides)] for name in names]
    view.same(f"{where}, values", cells, so)
    linked = [link.rpartition("/")[2] for link in shown.links if "/changes/" in link]
    view.same(f"{where}, change set", linked, [one["changeSetId"]] if one["changeSetId"] else [])
    if one["state"] == "ignored":
        until = _at(one["until"])
        stamp = until.strftime("%Y-%m-%d %H:%M:%S UTC")
        view.has(where, shown.text, [f"Ignored by {one['byEmail']} until {stamp}: {one['reason']}"])
        view.same(f"{where}, until", shown.stamps, [until.isoformat(timespec="seconds")])


def _settled(view: View, where: str, page: Node, so: Json) -> None:
    """Compare what isn't open any more, what isn't checked, and the history."""
    now = view.oracle.now

    def rows(heading: str) -> list[list[str]]:
        found = page.all("section", aria_labelledby=heading)
        parts = [line.one("div", "two").children for line in found[0].all("li")] if found else []
        return [[part.text for part in line if isinstance(part, Node)] for line in parts]

    closed = [one for one in so["findings"] if one["state"] not in _OPEN]
    view.same(
        f"{where}, closed",
        rows("closed-heading"),
        [[one["address"], f"{_STATES[one['state']][1]} {ago(_at(one['lastSeen']), now)}"] for one in closed],
    )
    view.same(
        f"{where}, not checked", rows("unchecked-heading"), [[one["step"], one["note"]] for one in so["unchecked"]]
    )
    view.same(
        f"{where}, history",
        rows("history-heading"),
        [
            [
                ago(_at(one["at"]), now),
                "No result"
                if one["problem"]
                else f"{one['new']} new, {one['ignored']} ignored{', baseline' if one['baseline'] else ''}",
            ]
            for one in so["checks"]
        ],
    )


_TIMES = {"checkedAt", "baselineAt", "problemAt", "firstSeen", "lastSeen", "until", "at"}


def _for_agents(value: Any, name: str = "") -> Any:
    """Return a document without what is empty, and with times to the second. Values of users stay as they are."""
    if name in {"from", "to"}:
        return value
    if isinstance(value, dict):
        shown = {each: _for_agents(inside, each) for each, inside in value.items()}
        return {each: inside for each, inside in shown.items() if inside not in (None, "", {}, [])}
    if isinstance(value, list):
        return [_for_agents(each) for each in value]
    return value // 1000 * 1000 if name in _TIMES and value is not None else value


def _sides(document: Json) -> list[tuple[Json, Json]]:
    """Return both sides of each finding, in which no number is a time."""
    return [(one["from"], one["to"]) for one in document.get("findings", ())]


@comparison
async def drift_of_the_programs(view: View) -> None:
    """Compare the commands and the tool."""
    oracle = view.oracle
    names = {"LAUNCHBAY_URL": view.url, "LAUNCHBAY_EMAIL": view.email, "LAUNCHBAY_PASSWORD": view.password}
    environ = {**names, "LAUNCHBAY_ORGANIZATION": oracle.organization, "COLUMNS": "1000"}
    with tempfile.TemporaryDirectory() as directory:
        shell = OfThisProcess(Path(directory), environ, view.record)
        rows = await asyncio.to_thread(shell.document, "drift", "list")
        view.same_rows("drift list", [(one["id"], in_ms(one)) for one in rows], _listed(oracle))
        async with agent(view) as ask:
            for each, row in _some(oracle).items():
                so = _document(oracle, each, row)
                shown = await asyncio.to_thread(shell.document, "drift", "show", each)
                view.same(f"drift show {each}", in_ms(shown), so)
                view.same(f"drift show {each}, values", _sides(shown), _sides(so))
                told = {name: so[name] for name in ("counts", "checkedAt", "problem", "findings", "unchecked")}
                told["managed"] = "observe" if oracle.instances[each]["is_observed"] else "full"
                told["findings"] = [one for one in so["findings"] if one["state"] in _OPEN]
                answer = await ask("show_drift", instance=each)
                view.same(f"show_drift {each}", _for_agents(in_ms(answer)), _for_agents(told))
                view.same(f"show_drift {each}, values", _sides(answer), _sides(told))
