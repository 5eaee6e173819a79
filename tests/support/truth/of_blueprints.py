"""What each surface shows of plans with prices, of stale change sets, and of who has read secrets."""

import asyncio
import json
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.of_programs import OfThisProcess, agent
from tests.support.truth.oracle import Oracle, Row, ago, ms

Json = dict[str, Any]
_VERBS = {"delete": "deletes", "create": "creates", "change": "changes", "run": "runs", "unknown": "unknown"}
_STEP = {"instance": "", "warnings": [], "digest": "", "held": False}
_DEFAULTS = {"before": None, "after": None, "certainty": "exact", "note": "", "price": None}


def _effects(row: Row) -> list[Json]:
    return [each for step in json.loads(row["result"] or "[]") for each in step["effects"]]


def _cost(rows: list[Row]) -> Json:
    """Return the sum of prices by currency, and how many machines have none."""
    prices = [each["price"] for row in rows for each in _effects(row) if each.get("price") is not None]
    sums: dict[str, Decimal] = {}
    for each in prices:
        if each:
            sums[each["currency"]] = sums.get(each["currency"], Decimal()) + Decimal(each["hourly"])
    return {"hourly": {each: str(amount) for each, amount in sums.items()}, "unknown": prices.count({})}


def _cost_text(rows: list[Row]) -> str:
    cost = _cost(rows)
    known = " + ".join(f"{amount} {currency}" for currency, amount in cost["hourly"].items())
    unknown = cost["unknown"]
    parts = [f"{known} per hour"] if known else []
    if unknown:
        parts.append(f"{unknown} machine{'' if unknown == 1 else 's'} of unknown price")
    return ", ".join(parts)


def _counts(rows: list[Row]) -> dict[str, int]:
    kinds = Counter(each["kind"] for row in rows for each in _effects(row))
    return {kind: kinds[kind] for kind in _VERBS}


def _words(rows: list[Row]) -> str:
    counts = ", ".join(f"{_VERBS[kind]} {number}" for kind, number in _counts(rows).items() if number)
    cost = _cost_text(rows)
    return f"{counts}{f'; new machines: {cost}' if cost else ''}"


def _document(row: Row) -> Json:
    return {
        "id": row["id"],
        "status": row["status"],
        "counts": _counts([row]),
        "deletes": list(dict.fromkeys(each["address"] for each in _effects(row) if each["kind"] == "delete")),
        "cost": _cost([row]),
        "problem": row["problem"],
        "digest": row["digest"],
        "createdAt": ms(row["created_at"]),
        "expiresAt": ms(row["expires_at"]),
    }


def _same_plan(view: View, where: str, shown: Json, row: Row) -> None:
    so = _document(row)
    view.same(where, {name: shown[name] for name in so}, so)
    steps = [{**_STEP, **one, "effects": None} for one in shown["steps"]]
    stored = [{**_STEP, **one, "effects": None} for one in json.loads(row["result"] or "[]")]
    view.same(f"{where}, steps", steps, stored)
    effects = [{**_DEFAULTS, **each} for step in shown["steps"] for each in step["effects"]]
    view.same(f"{where}, effects", effects, [{**_DEFAULTS, **each} for each in _effects(row)])


def _of_change_sets(oracle: Oracle) -> dict[str, list[Row]]:
    """Return the plans of change sets by their places."""
    found: dict[str, list[Row]] = {}
    for row in oracle.tables["plans"]:
        if row["change_set_id"] is not None and row["organization_id"] == oracle.organization:
            found.setdefault(row["change_set_id"], []).append(row)
    return {each: sorted(rows, key=lambda row: row["place"]) for each, rows in found.items()}


def _applies(oracle: Oracle) -> dict[str, list[str] | None]:
    """Return the change sets that apply a directory, each with what changed since; None where nothing did."""
    made = {row["name"] for row in oracle.tables["roles"] if row["organization_id"] == oracle.organization}
    found: dict[str, list[str] | None] = {}
    for row in oracle.tables["change_sets"]:
        if row["kind"] == "apply" and row["organization_id"] == oracle.organization:
            name = row["comment"].removeprefix("A ")
            found[row["id"]] = [f"Since then, the role {name} changed."] if name in made else None
    return found


@comparison
async def plans_and_prices(view: View) -> None:
    """Compare plans, with prices, in the API and on pages."""
    oracle = view.oracle
    if oracle.only is not None:
        return  # who may read which change set is in the matrix of permissions
    [owner] = {row["owner_id"] for row in oracle.tables["plans"]}
    for row in oracle.tables["plans"]:
        if row["change_set_id"] is None and oracle.users[owner]["email"] == view.email:
            _same_plan(view, f"plan {row['id']}", accepted(await view.caller.get(f"plans/{row['id']}")), row)
    for each, rows in _of_change_sets(oracle).items():
        shown = accepted(await view.caller.get(f"change-sets/{each}"))["plan"]
        for one, row in zip(shown, rows, strict=True):
            _same_plan(view, f"change-sets/{each}, plan {row['place']}", one["effects"], row)
        page = await view.console.page(f"{view.home}/changes/{each}")
        card = page.one("section", aria_labelledby="h-effects")
        where = f"page of change set {each}, effects"
        view.same(where, card.one("header").one("span", "soft").text, _words(rows))
        prices = [
            f"{effect['price']['hourly']} {effect['price']['currency']} per hour"
            if effect["price"]
            else "unknown price"
            for row in rows
            for effect in _effects(row)
            if effect.get("price") is not None
        ]
        ends = ("per hour", "unknown price")
        view.same(
            f"{where}, prices", [one.text for one in card.all("span", "quiet") if one.text.endswith(ends)], prices
        )
        view.has(f"{where}, problems", card.text, [row["problem"] for row in rows if row["problem"]])


def _role(oracle: Oracle, change_set: str) -> str:
    """Return the role that a change set makes."""
    comment = next(row["comment"] for row in oracle.tables["change_sets"] if row["id"] == change_set)
    return str(comment.removeprefix("A "))


def _same_directory(view: View, where: str, shown: Json, role: str) -> None:
    """Compare the one object that is made, and that all others stay."""
    names = ("sign", "what", "kind", "detail", "difference")
    made = [tuple(one[name] for name in names) for one in shown["objects"] if one["sign"] != "="]
    view.same(f"{where}, made", made, [("+", f"role {role}", "role", "", "@@ -0,0 +1 @@\n+- Read: [/*]\n")])
    kept = {one["what"]: one["detail"] for one in shown["objects"] if one["kind"] == "environment"}
    so = [f"environment {row['name']}" for row in view.oracle.environments.values()]
    view.same(f"{where}, environments", kept, dict.fromkeys(so, "its kind has no folder in the directory"))
    view.same(f"{where}, hidden", shown["hidden"], 0)
    view.same(f"{where}, permissions", [one["permission"] for one in shown["permissions"]], ["ManageRoles"])


@comparison
async def stale_change_sets(view: View) -> None:
    """Compare what is said of change sets whose world has changed, in the API and on pages."""
    oracle = view.oracle
    for each, changed in _applies(oracle).items() if oracle.only is None else ():
        shown = accepted(await view.caller.get(f"change-sets/{each}"))
        view.same(f"change-sets/{each}, stale", shown["stale"], changed or [])
        _same_directory(view, f"change-sets/{each}", shown["directory"], _role(oracle, each))
        page = (await view.console.page(f"{view.home}/changes/{each}", {"compare": "1"})).one("main")
        found = page.all("div", id="stale")
        sentences = [one.text for box in found for one in box.all("li")]
        view.same(f"page of change set {each}, stale", sentences, changed or [])
        needed = next(row["needed"] for row in oracle.tables["change_sets"] if row["id"] == each)
        words = "Stale" if changed else f"0 of {needed} approvals"
        pill = page.one("div", "head").status
        view.same(f"page of change set {each}, state", pill, ("wait", words))


@comparison
async def blueprints_of_the_programs(view: View) -> None:
    """Compare plans and stale change sets in the commands and the tool."""
    oracle = view.oracle
    if oracle.only is not None:
        return
    names = {"LAUNCHBAY_URL": view.url, "LAUNCHBAY_EMAIL": view.email, "LAUNCHBAY_PASSWORD": view.password}
    environ = {**names, "LAUNCHBAY_ORGANIZATION": oracle.organization, "COLUMNS": "1000"}
    with tempfile.TemporaryDirectory() as directory:
        shell = OfThisProcess(Path(directory), environ, view.record)
        async with agent(view) as ask:
            for each, rows in _of_change_sets(oracle).items():
                text = await asyncio.to_thread(shell.good, "change-set", "show", each)
                view.has(f"change-set show {each}", text, [
                    f"no plan: {row['problem']}" if row["problem"] else _words([row]) or "does nothing" for row in rows
                ])  # fmt: skip
                answer = await ask("read_change_set", change_set=each)
                for one, row in zip(answer["instances"], rows, strict=True):
                    so = _document(row)
                    view.same(f"read_change_set {each}, plan", _bare(one["plan"]), _bare({
                        name: so[name] for name in ("status", "counts", "deletes", "cost", "problem")
                    }))  # fmt: skip
            for each, changed in _applies(oracle).items():
                text = await asyncio.to_thread(shell.good, "change-set", "show", each)
                view.has(
                    f"change-set show {each}, stale", text, ["Pending, but stale", *changed] if changed else ["Pending"]
                )
                view.same(f"change-set show {each}, is stale", "but stale" in text, bool(changed))
                answer = await ask("read_change_set", change_set=each)
                view.same(f"read_change_set {each}, stale", answer.get("stale") or [], changed or [])
                made = [("+", f"role {_role(oracle, each)}")]
                listed = [(one["sign"], one["what"]) for one in answer["directory"]["changes"]]
                view.same(f"read_change_set {each}, changes", listed, made)
                view.same(f"read_change_set {each}, not shown", answer["directory"].get("notShown") or 0, 0)


def _bare(value: Any) -> Any:
    """Return a document without what is empty, as tools for agents leave it out."""
    if isinstance(value, dict):
        shown = {name: _bare(each) for name, each in value.items()}
        return {name: each for name, each in shown.items() if each not in (None, "", {}, [])}
    return value


@comparison
async def readers_of_secrets(view: View) -> None:
    """Compare who has read from a provider of secrets, and whether that has changed since."""
    oracle = view.oracle
    if oracle.only is not None:
        return
    reads: dict[str, list[Row]] = {}
    for row in oracle.tables["secret_reads"]:
        reads.setdefault(row["service_id"], []).append(row)
    newest = {(row["service_id"], row["path"]): row["version"] for row in oracle.tables["secret_versions"]}
    for each, rows in reads.items():
        found = accepted(await view.caller.get(f"services/{each}/provider/use"))
        so = {
            (row["instance_id"], row["step"], row["secret"]): (
                oracle.instances[row["instance_id"]]["name"],
                row["component"],
                ms(row["read_at"]),
                row["job_id"],
                newest[each, row["secret"].partition("#")[0]] != row["version"],
            )
            for row in rows
        }
        shown = {
            (one["instance"]["id"], one["step"], one["secret"]): (
                one["instance"]["name"],
                *(one[name] for name in ("component", "readAt", "job", "isChanged")),
            )
            for one in found["reads"]
        }
        view.same(f"services/{each}/provider/use", shown, so)
        view.same(f"services/{each}/provider/use, rest", (found["openSessions"], found["services"]), ([], []))
        page = await view.console.page(f"/console/services/{each}")
        table = page.one("div", "table", aria_labelledby="reads-heading").one("tbody")
        lines = Counter(
            (
                line.one("code").text,
                line.one("a", "name").text,
                "Changed since" in line.one("th").text,
                line.one("a", "soft").text,
            )
            for line in table.all("tr")
        )
        stored = Counter(
            (
                row["secret"],
                oracle.instances[row["instance_id"]]["name"],
                newest[each, row["secret"].partition("#")[0]] != row["version"],
                ago(row["read_at"], oracle.now),
            )
            for row in rows
        )
        view.same(f"page of service {each}, reads", lines, stored)
