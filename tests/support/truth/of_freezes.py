"""What each surface shows of freezes: switches, windows, and what they refuse."""

import asyncio
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.freezes import Frozen, frozen_next, frozen_now, frozen_shown, windows_of
from tests.support.truth.of_programs import OfThisProcess, in_ms
from tests.support.truth.oracle import Oracle, Row, ago, ms
from tests.support.truth.surfaces import Node


def _owners(oracle: Oracle) -> list[tuple[str, str, Row]]:
    """Return environments and applications."""
    return [
        (kind, each, row)
        for kind, rows in (("environment", oracle.environments), ("application", oracle.applications))
        for each, row in rows.items()
    ]


def _document(oracle: Oracle, row: Row) -> dict[str, Any]:
    current, following = frozen_now(row, oracle.now), frozen_next(row, oracle.now)
    by = None if current is None or current.by_id is None else oracle.users[current.by_id]["email"]
    return {
        "reason": current and current.reason,
        "byId": current and current.by_id,
        "byEmail": by,
        "at": current and current.at_ms,
        "until": current and ms(current.until),
        "next": following
        and {"reason": following.reason, "beginsAt": ms(following.begins_at), "until": ms(following.until)},
    }


def _window(stored: dict[str, Any]) -> dict[str, Any]:
    names = {
        "reason": "reason",
        "beginsAt": "begins_at",
        "endsAt": "ends_at",
        "firstDay": "first_day",
        "lastDay": "last_day",
    }
    texts = {shown: stored.get(name, "") for shown, name in names.items()}
    return {**texts, "days": stored.get("days", []), "zone": stored.get("zone", "UTC")}


@comparison
async def freezes(view: View) -> None:
    if view.oracle.only is not None:
        return  # who may read what is in the matrix of permissions
    for kind, each, row in _owners(view.oracle):
        path = f"{kind}s/{each}"
        shown = accepted(await view.caller.get(f"{path}/freeze"))
        view.same(f"{path}/freeze", shown, _document(view.oracle, row))
        shown = accepted(await view.caller.get(f"{path}/freeze-windows"))
        view.same(f"{path}/freeze-windows", shown, {"windows": [_window(one) for one in windows_of(row)]})


def _time(at: datetime | None) -> str:
    assert at is not None
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _words(state: Frozen, what: str, now: datetime) -> str:
    """Return the sentence of a page about a freeze."""
    until = None if state.until is None else _time(state.until)
    if state.begins_at is not None:
        words = f"The {what} freezes {ago(state.begins_at, now)}, at {_time(state.begins_at)}. Nothing changes then"
        return f"{words} until {until}." if until else f"{words}."
    if until:
        return f"The {what} is frozen until {until}. Until then, nothing changes."
    return f"The {what} is frozen. Nothing changes until somebody lifts the freeze."


def _iso(*times: datetime | None) -> list[str]:
    return [at.isoformat(timespec="seconds") for at in times if at is not None]


@comparison
async def freezes_of_the_console(view: View) -> None:
    """Compare the banners of what is frozen, or will be within a day, and of its instances; and marks in lists."""
    oracle = view.oracle
    for kind, each, row in _owners(oracle):
        if kind == "environment" and oracle.only not in (None, each):
            continue
        for tab in _tabs(kind, row) if oracle.only is None else ("",):
            page = await view.console.page(f"/console/{kind}s/{each}{tab}")
            _banner(view, page, f"freeze of the {kind} {row['name']}, {tab}", kind, row)
            if tab == "/settings":
                _windows(view, page, f"{kind} {row['name']}", row)
    for each in _one_of_each_freeze(oracle):
        instance = oracle.instances[each]
        page = await view.console.page(f"/console/instances/{each}")
        where = f"freeze of {instance['name']}"
        found = oracle.freeze(instance["application_id"], instance["environment_id"])
        banners = page.all(id="frozen")
        view.same(where, len(banners), int(found is not None and instance["status"] != "Destroyed"))
        if banners and found is not None:
            what, state = found
            view.has(where, banners[0].text, [_words(state, what, oracle.now), state.reason])
            view.same(f"{where}, times", banners[0].stamps, _iso(state.begins_at, state.until))
    await _marks(view)


def _tabs(kind: str, row: Row) -> tuple[str, ...]:
    """Return the pages that have the banner."""
    if kind == "environment":
        return "", "/settings"
    return "", "/settings", "/revisions", "/promotion", "/versions", f"/versions/{row['latest_version']}"


def _banner(view: View, page: Node, where: str, kind: str, row: Row) -> None:
    now, state = view.oracle.now, frozen_shown(row, view.oracle.now)
    banners = page.all(id="frozen")
    view.same(where, len(banners), int(state is not None))
    if state is None or not banners:
        return
    if state.at_ms is None:
        view.has(where, banners[0].text, [_words(state, kind, now), state.reason])
        view.same(f"{where}, times", banners[0].stamps, _iso(state.begins_at, state.until))
        return
    begin = datetime.fromtimestamp(state.at_ms / 1000, now.tzinfo)
    by = view.oracle.users[state.by_id or ""]["email"]
    since = f"{by} froze this {kind} {ago(begin, now)}, at {_time(begin.replace(microsecond=0))}."
    view.has(where, banners[0].text, [since, "Nothing changes until somebody lifts the freeze.", state.reason])
    view.same(f"{where}, times", banners[0].stamps, _iso(begin))


def _windows(view: View, page: Node, where: str, row: Row) -> None:
    """Compare the form of the windows."""
    stored = windows_of(row)
    fields = page.one("form", id="freeze-form")
    for name, column in (("reason", "reason"), ("firstDay", "first_day"), ("lastDay", "last_day"), ("zone", "zone")):
        values = [each.attributes.get("value", "") for each in fields.all("input", name=name)]
        view.same(
            f"{where}, {name} of freeze windows", values[: len(stored)], [each.get(column, "UTC") for each in stored]
        )


async def _marks(view: View) -> None:
    """Compare the chips of environments."""
    oracle = view.oracle
    for name, row in {row["name"]: row for row in oracle.environments.values()}.items():
        if oracle.only not in (None, row["id"]):
            continue
        state = frozen_shown(row, oracle.now)
        words = []
        if state is not None:
            words = ["frozen" if state.begins_at is None else f"freezes {ago(state.begins_at, oracle.now)}"]
        rows = await view.console.rows(f"{view.home}/environments", "Environments")
        [cell] = [one["Name"] for one in rows if one["Name"].id_after("environments") == row["id"]]
        chips = [one.text for one in cell.all("span", "chip") if one.text != "default"]
        view.same(f"environments, {name}", chips, words)
        page = await view.console.page(view.home)
        for line in page.all("li", "r-env"):
            if line.id_after("environments") == row["id"]:
                chips = [one.text for one in line.all("span", "chip")]
                view.same(f"overview, {name}", chips, words)


def _one_of_each_freeze(oracle: Oracle) -> list[str]:
    """Return an instance of each pair of a freeze and a status."""
    found = {
        (oracle.freeze(row["application_id"], row["environment_id"]), row["status"]): each
        for each, row in sorted(oracle.instances.items())
    }
    return sorted(found.values())


@comparison
async def freezes_of_the_commands(view: View) -> None:
    """Compare what `status` says, and the lines below the table of `ps`."""
    oracle = view.oracle
    if oracle.only is not None:
        return
    names = {"LAUNCHBAY_URL": view.url, "LAUNCHBAY_EMAIL": view.email, "LAUNCHBAY_PASSWORD": view.password}
    environ = {**names, "LAUNCHBAY_ORGANIZATION": oracle.organization, "COLUMNS": "1000"}
    with tempfile.TemporaryDirectory() as directory:
        shell = OfThisProcess(Path(directory), environ, view.record)
        for each in _one_of_each_freeze(oracle):
            row = oracle.instances[each]
            found = oracle.freeze(row["application_id"], row["environment_id"])
            shown = await asyncio.to_thread(shell.document, "status", each)
            view.same(f"status {row['name']}, frozen", shown["frozen"], _said(oracle, found))
            text = await asyncio.to_thread(shell.good, "status", each)
            lines = [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("frozen ")]
            view.same(f"status {row['name']}, frozen, as text", lines, [_said(oracle, found)] if found else [])
        for kind, each, row in _owners(oracle):
            shown = await asyncio.to_thread(shell.document, kind, "freeze", each)
            view.same(f"{kind} freeze {each}", in_ms(shown), _document(oracle, row))
            shown = await asyncio.to_thread(shell.document, kind, "freeze-windows", each)
            view.same(f"{kind} freeze-windows {each}", shown, {"windows": [_window(one) for one in windows_of(row)]})


def _said(oracle: Oracle, found: tuple[str, Frozen] | None) -> str | None:
    if found is None:
        return None
    state = found[1]
    if state.until is not None:
        return f"until {state.until.strftime('%Y-%m-%dT%H:%M:%SZ')}: {state.reason}"
    return f"{oracle.users[state.by_id or '']['email']}: {state.reason}"
