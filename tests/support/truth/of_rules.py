"""What each surface shows of rules about changes, and of schedules of drift checks."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.of_programs import OfThisProcess, in_ms
from tests.support.truth.oracle import Oracle, Row, ago, ms
from tests.support.truth.surfaces import Node, table_of


def _owners(oracle: Oracle) -> list[tuple[str, str, str]]:
    """Return the kinds, IDs and names of what may have rules."""
    [own] = [row for row in oracle.tables["organizations"] if row["id"] == oracle.organization]
    places = (("environment", oracle.environments), ("application", oracle.applications))
    inner = [(kind, each, row["name"]) for kind, rows in places for each, row in rows.items()]
    return [("organization", own["id"], own["name"]), *inner]


def _versions(oracle: Oracle, owner: str) -> list[Row]:
    """Return the versions of the rules, the newest first."""
    rows = [row for row in oracle.tables["change_rules"] if row["owner_id"] == owner]
    return sorted(rows, key=lambda row: row["version"], reverse=True)


def _written(oracle: Oracle, row: Row | None) -> dict[str, Any]:
    if row is None:
        return {"version": 0, "byId": None, "byEmail": None, "at": None}
    by = oracle.users[row["author_id"]]
    return {"version": row["version"], "byId": by["id"], "byEmail": by["email"], "at": ms(row["created_at"])}


@comparison
async def rules_about_changes(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return
    for kind, each, _ in _owners(oracle):
        path, versions = f"{kind}s/{each}/change-rules", _versions(oracle, each)
        newest = versions[0] if versions else None
        shown = accepted(await view.caller.get(path))
        view.same(path, shown, {**_written(oracle, newest), "rules": newest["text"] if newest else ""})
        shown = accepted(await view.caller.get(f"{path}/versions"))
        view.same(f"{path}/versions", shown, [_written(oracle, row) for row in versions])
        for row in versions:
            shown = accepted(await view.caller.get(path, version=row["version"]))
            view.same(f"{path}, {row['version']}", shown, {**_written(oracle, row), "rules": row["text"]})


@comparison
async def rules_of_the_console(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return
    for kind, each, name in _owners(oracle):
        page = await view.console.page(f"/console/{kind}s/{each}/change-rules")
        where, versions = f"page of the rules of {name}", _versions(oracle, each)
        view.same(where, page.one("h1").text, f"Rules of {name}")
        newest = versions[0] if versions else None
        words = "No rules yet."
        if newest is not None and newest["text"]:
            count, by = len(yaml.safe_load(newest["text"])), oracle.users[newest["author_id"]]["email"]
            words = f"Version {newest['version']} with {count} {'rule' if count == 1 else 'rules'}, by {by}"
            words += f" {ago(newest['created_at'], oracle.now)}."
        view.has(f"{where}, written", page.one("p", "sub").text, [words])
        view.same(f"{where}, text", page.filled("rules"), newest["text"].strip() if newest else "")
        listed = page.one("section", aria_labelledby="h-versions").all("li")
        said = [(one.one("a").text, one.one("p").text) for one in listed]
        so = [
            (f"Version {row['version']}", f"{ago(row['created_at'], oracle.now)} · {_written(oracle, row)['byEmail']}")
            for row in versions
        ]
        view.same(f"{where}, versions", said, so)
        if kind == "organization":
            _others(view, page)


def _others(view: View, page: Node) -> None:
    """Compare the list of applications and environments with rules of their own."""
    oracle, so = view.oracle, {}
    for kind, each, name in _owners(oracle)[1:]:
        versions = _versions(oracle, each)
        if versions and versions[0]["text"]:
            by = oracle.users[versions[0]["author_id"]]["email"]
            so[each] = (f"{name} {kind}", str(versions[0]["version"]), by, ago(versions[0]["created_at"], oracle.now))
    rows = [
        (
            row["Of"].id_after("environments") or row["Of"].id_after("applications") or "",
            (row["Of"].text, row["Version"].text, row["By"].text, row["Since"].text),
        )
        for row in table_of(page, "Where rules are")
    ]
    view.same_rows("rules of others", rows, so)


def _schedule(oracle: Oracle, each: str) -> dict[str, Any]:
    row = next((row for row in oracle.tables["drift_schedules"] if row["object_id"] == each), None)
    if row is None:
        times: dict[str, Any] = {"cron": None, "zone": "UTC", "jitter": 0, "nextAt": None}
        return {**times, "ownerEmail": "", "problem": None, "paused": False, "mail": False, "fromManifest": False}
    return {
        "cron": row["cron"],
        "zone": row["zone"],
        "jitter": row["jitter_ms"],
        "nextAt": ms(row["due_at"]),
        "ownerEmail": oracle.users[row["owner_id"]]["email"],
        "problem": row["problem"],
        "paused": row["is_paused"],
        "mail": row["mail"],
        "fromManifest": row["of_manifest"],
    }


def _put_back_rule(oracle: Oracle, each: str) -> dict[str, Any]:
    row = next((row for row in oracle.tables["put_back_rules"] if row["object_id"] == each), None)
    if row is None:
        return {"addresses": [], "allowDeletes": [], "mostPerDay": 3, "ownerEmail": "", "problem": None}
    return {
        "addresses": row["addresses"],
        "allowDeletes": row["allow_deletes"],
        "mostPerDay": row["most_per_day"],
        "ownerEmail": oracle.users[row["owner_id"]]["email"],
        "problem": row["problem"],
    }


@comparison
async def schedules_of_drift_checks(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return
    places = [(kind, each) for kind, each, _ in _owners(oracle)[1:]]
    for kind, each in places:
        shown = accepted(await view.caller.get(f"{kind}s/{each}/drift-schedule"))
        view.same(f"{kind} {each}, drift schedule", shown, _schedule(oracle, each))
        shown = accepted(await view.caller.get(f"{kind}s/{each}/put-back-rule"))
        view.same(f"{kind} {each}, put-back rule", shown, _put_back_rule(oracle, each))
    for each in sorted(oracle.living)[:3]:
        shown = accepted(await view.caller.get(f"instances/{each}/drift/check-schedule"))
        view.same(f"instance {each}, drift schedule", shown, _schedule(oracle, each))
        shown = accepted(await view.caller.get(f"instances/{each}/drift/put-back-rule"))
        view.same(f"instance {each}, put-back rule", shown, _put_back_rule(oracle, each))
    names = {"LAUNCHBAY_URL": view.url, "LAUNCHBAY_EMAIL": view.email, "LAUNCHBAY_PASSWORD": view.password}
    environ = {**names, "LAUNCHBAY_ORGANIZATION": oracle.organization, "COLUMNS": "1000"}
    with tempfile.TemporaryDirectory() as directory:
        shell = OfThisProcess(Path(directory), environ, view.record)
        for kind, each in places:
            shown = await asyncio.to_thread(shell.document, kind, "drift-schedule", each)
            view.same(f"{kind} drift-schedule {each}", in_ms(shown), _schedule(oracle, each))
            shown = await asyncio.to_thread(shell.document, kind, "put-back-rule", each)
            view.same(f"{kind} put-back-rule {each}", shown, _put_back_rule(oracle, each))
