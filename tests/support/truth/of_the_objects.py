"""What the pages show of an organization besides its instances, and what their forms have in them.

Who may read only some of it sees what the matrix of permissions says; here it is the administrator who looks.
"""

import json
import re
from collections import Counter

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.oracle import Row, ago, ms
from tests.support.truth.surfaces import Node, table_of

_HOUR_MS = 3_600_000
_NEVER = "never used"


def _sees_all(view: View) -> bool:
    return view.oracle.only is None


def _length(milliseconds: int | None) -> str:
    """Return a length of time as forms have it: the largest unit that gives a whole number."""
    if milliseconds is None:
        return ""
    for unit, size in (("day", 24 * _HOUR_MS), ("hour", _HOUR_MS), ("minute", 60_000)):
        if milliseconds % size == 0:
            number = milliseconds // size
            return f"{number} {unit}{'' if number == 1 else 's'}"
    raise AssertionError(milliseconds)


def _own(view: View, table: str, of: str = "", value: str = "") -> list[Row]:
    """Return the rows of the organization, or of one object."""
    wanted = (of, value) if of else ("organization_id", view.oracle.organization)
    return [row for row in view.oracle.tables[table] if row[wanted[0]] == wanted[1]]


@comparison
async def own_account(view: View) -> None:
    oracle = view.oracle
    [me] = [row for row in oracle.tables["users"] if row["email"] == view.email]
    page = await view.console.page("/console/account")
    view.has("account, who", page.one("p", "sub").text, [me["name"], me["email"], me["id"]])
    section = page.one("section", id="tokens")
    tokens = [row for row in oracle.tables["refresh_tokens"] if row["user_id"] == me["id"]]
    shown = Counter((each.one("b").text, each.one("p").text) for each in section.all("li"))
    view.same(
        "account, tokens",
        shown,
        Counter(
            (row["label"], f"Signs in as you · {_NEVER} · expires {ago(row['expires_at'], oracle.now)}")
            for row in tokens
        ),
    )
    view.same("account, number of tokens", section.one("span", "count").text, str(len(tokens)))
    page = await view.console.page("/console/account/accessTokens")
    members = [row["organization_id"] for row in oracle.tables["memberships"] if row["user_id"] == me["id"]]
    names = [row["name"] for row in oracle.tables["organizations"] if row["id"] in members]
    view.same("access tokens, organizations", sorted(page.choices("organization")), sorted(names))
    page = await view.console.page("/console/organizations")
    tiles = {each.links[0].rpartition("/")[2]: each.one("strong").text for each in page.all("li") if each.all("strong")}
    view.same(
        "organizations",
        tiles,
        {row["id"]: row["name"] for row in oracle.tables["organizations"] if row["id"] in members},
    )


@comparison
async def page_of_signing_in(view: View) -> None:
    """It shows nothing of what is stored, not even to whom is signed in."""
    answer = await view.console.client.get("/console/signIn")
    if answer.status_code == 303:
        view.same("signing in leads somebody signed in to", answer.headers["location"].partition("?")[0], "/console")
        return
    page = await view.console.page("/console/signIn")
    told = [row["name"] for row in view.oracle.tables["organizations"] if row["name"] in page.text]
    view.same("signing in, names of organizations", told, [])
    view.has("signing in, what it is", page.text, ["Sign in"])


@comparison
async def pages_of_applications(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    for each, row in oracle.applications.items():
        where, path, name = f"application {row['name']}", f"/console/applications/{each}", row["name"]
        newest, versions = row["latest_version"], _own(view, "manifests", "application_id", each)
        numbers = sorted((one["version"] for one in versions), reverse=True)
        page = await view.console.page(f"{path}/delete")
        view.same(f"{where}, deletion", page.one("h1").text, f"Delete {name}?")
        page = await view.console.page(f"{path}/promotion")
        view.same(f"{where}, promotion", page.one("h1").text, name)
        page = await view.console.page(f"{path}/launch")
        view.same(f"{where}, launch", page.one("h1").text, f"Launch {name}")
        sources = [f"{number} (newest)" if number == newest else str(number) for number in numbers]
        revisions = sorted(
            (one for one in _own(view, "revisions", "application_id", each) if one["name"]), key=lambda one: one["name"]
        )
        shown = page.choices("source")
        view.same(f"{where}, versions to launch", shown[: len(sources)], sources)
        view.same(f"{where}, revisions to launch", len(shown) - len(sources), len(revisions))
        view.has(f"{where}, names of revisions to launch", " ".join(shown), [one["name"] for one in revisions])
        environments = sorted(
            f"{one['name']} (default)" if one["is_default"] else one["name"] for one in oracle.environments.values()
        )
        view.same(f"{where}, environments", sorted(page.choices("environmentId")), environments)
        page = await view.console.page(f"{path}/manifest")
        text = next(one["content"] for one in versions if one["version"] == newest)
        view.same(f"{where}, manifest", page.filled("text"), text.strip())
        view.has(
            f"{where}, number of the version",
            page.one("p", "sub").text,
            [f"From version {newest}.", f"version {newest + 1};"],
        )
        await _revisions(view, each, revisions, sources)
        page = await view.console.page(f"{path}/settings")
        view.same(f"{where}, settings", page.one("h1").text, name)
        _rules(view, where, page, "application_id", each)
        page = await view.console.page(f"{path}/rollouts/new")
        view.same(f"{where}, roll-out", page.one("h1").text, f"Roll out version {newest}")
        view.same(f"{where}, versions to roll out", page.choices("version"), sources)
        _planned_rollout(view, where, page, each, newest)


def _planned_rollout(view: View, where: str, page: Node, application: str, version: int) -> None:
    """Compare how many instances would get the newest version: living ones of their own that lack it."""
    own = [
        row
        for row in view.oracle.living.values()
        if row["application_id"] == application and row["version"] != version
        if row["parent_id"] is None and not row["is_observed"]
    ]
    said = page.one(id="preview").text
    number = re.search(r"(\d+) instances? gets? version (\d+)", said)
    view.same(f"{where}, instances of a roll-out", number and (number[1], number[2]), (str(len(own)), str(version)))


async def _revisions(view: View, application: str, revisions: list[Row], versions: list[str]) -> None:
    oracle, path = view.oracle, f"/console/applications/{application}/revisions"
    page = await view.console.page(path)
    tables = page.all("table")
    heads = [each.text for each in tables[0].one("thead").all("th")] if tables else []
    rows = [
        dict(zip(heads, [one for one in row.children if isinstance(one, Node)], strict=False))
        for row in (tables[0].one("tbody").all("tr") if tables else [])
    ]
    view.same(
        f"{path}, all",
        [(row["Name"].text, row["Version"].text, row["Environment"].text, row["Created"].text) for row in rows],
        [(one["name"], str(one["version"]), "Set at launch", ago(one["created_at"], oracle.now)) for one in revisions],
    )
    page = await view.console.page(f"{path}/new")
    numbers = [each.removesuffix(" (newest)") for each in versions]
    view.same(f"{path}/new, versions", page.choices("version"), numbers)
    name = oracle.applications[application]["name"]
    view.has(f"{path}/new, application", page.one("p", "sub").text, [f"of {name} "])
    for one in revisions:
        page = await view.console.page(f"/console/revisions/{one['id']}")
        view.same(
            f"revision {one['name']}",
            (page.one("h1").text, page.filled("name"), page.filled("version")),
            (one["name"], one["name"], str(one["version"])),
        )
        facts = f"Revision of {name}, created {ago(one['created_at'], oracle.now)}"
        view.same(f"revision {one['name']}, facts", page.one("p", "sub").text, facts)
        page = await view.console.page(f"/console/revisions/{one['id']}/delete")
        view.same(f"revision {one['name']}, deletion", page.one("h1").text, f"Delete {one['name']}?")


def _rules(view: View, where: str, page: Node, column: str, each: str) -> None:
    """Compare lifetimes and sleep windows in their forms."""
    rules: Row = next((row["rules"] for row in _own(view, "lifetime_rules", column, each)), {})
    shown = {name: page.filled(name) for name in ("default", "greatest", "extend", "grace", "idle", "extensions")}
    count = rules.get("extensions")
    view.same(
        f"{where}, lifetime",
        shown,
        {
            **{name: _length(rules.get(f"{name}_ms")) for name in ("default", "greatest", "extend", "grace", "idle")},
            "extensions": "" if count is None else str(count),
        },
    )
    sleep: Row = next((row["rules"] for row in _own(view, "sleep_rules", column, each)), {})
    windows = sleep.get("windows", [])
    for place, window in enumerate(windows):
        at = [page.all("input", id=f"{name}-{place}")[0].attributes["value"] for name in ("sleepAt", "wakeAt", "zone")]
        view.same(
            f"{where}, sleep {place}",
            (*at, page.filled(f"days-{place}")),
            (window["sleep_at"], window["wake_at"], window["zone"], window["days"]),
        )


@comparison
async def pages_of_environments(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    for each, row in oracle.environments.items():
        where, path = f"environment {row['name']}", f"/console/environments/{each}"
        page = await view.console.page(f"{path}/settings")
        view.same(f"{where}, settings", page.one("h1").text, row["name"])
        _rules(view, where, page, "environment_id", each)
        living = sum(one["environment_id"] == each for one in oracle.living.values())
        services = len(_own(view, "environment_services", "environment_id", each))
        meta = [span.text for span in page.one("p", "meta").all("span")]
        view.same(
            f"{where}, facts",
            meta[:2],
            [f"{living} instance{'' if living == 1 else 's'}", f"{services} service{'' if services == 1 else 's'}"],
        )
        answer = await view.console.client.get(f"{path}/delete")
        if row["is_default"]:
            continue  # it cannot be deleted
        page = await view.console.page(f"{path}/delete")
        view.same(f"{where}, deletion", (answer.status_code, page.one("h1").text), (200, f"Delete {row['name']}?"))


@comparison
async def pages_of_people(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    roles = {row["id"]: row for row in _own(view, "roles")}
    held = {
        each: sorted(
            roles[row["role_id"]]["name"]
            for row in oracle.tables["role_assignments"]
            if row["user_id"] == each and row["role_id"] in roles
        )
        for each in {row["user_id"] for row in _own(view, "memberships")}
    }
    for each in oracle.people:
        user = oracle.users[each]
        page = await view.console.page(f"{view.home}/users/{each}")
        meta = [one.text for one in page.one("p", "meta").all("span")]
        view.same(f"user {user['email']}", page.one("h1").text, user["name"])
        view.has(
            f"user {user['email']}, facts", " ".join(meta), [user["email"], each, ago(user["created_at"], oracle.now)]
        )
        ticked = page.filled("role")
        view.same(f"user {user['email']}, roles", sorted(ticked or []), held[each])
    for each, role in roles.items():
        page = await view.console.page(f"/console/roles/{each}")
        holders = [one for one in held if role["name"] in held[one]]
        view.same(f"role {role['name']}", page.one("h1").text, role["name"])
        section = next(one for one in page.all("section") if one.all(id="h-held"))
        view.same(
            f"role {role['name']}, how many", section.one("span", "count").text if holders else "0", str(len(holders))
        )
        shown = Counter((one.one("a").text, one.one("span", "soft").text) for one in section.all("li") if one.all("a"))
        so = Counter(
            (oracle.users[one]["name"], "Person" if oracle.users[one]["service_of"] is None else "Service account")
            for one in holders
        )
        view.same(f"role {role['name']}, who", shown, so)
        if role["kind"] != "custom":
            continue  # its text isn't for changing
        view.same(f"role {role['name']}, text", page.filled("permissions"), role["permissions"].strip())
    programs = {each: row for each, row in oracle.users.items() if row["service_of"] == oracle.organization}
    rows = await view.console.rows(f"{view.home}/serviceAccounts", "Service accounts")
    view.same_rows(
        "service accounts",
        [
            (
                row["Name"].id_after("serviceAccounts") or "",
                (
                    row["Name"].one("a").text,
                    row["Roles"].text,
                    row["Description"].text,
                    row["Access tokens"].text,
                    row["Last used"].text,
                ),
            )
            for row in rows
        ],
        {
            each: (row["name"], " ".join(held[each]), row["description"], "–", "Never used")
            for each, row in programs.items()
        },
    )
    for each, row in programs.items():
        page = await view.console.page(f"{view.home}/serviceAccounts/{each}")
        view.same(
            f"service account {row['name']}",
            (page.one("h1").text, page.filled("name"), page.filled("description")),
            (row["name"], row["name"], row["description"]),
        )
        view.has(f"service account {row['name']}, facts", page.one("p", "meta").text, [row["email"], each, *held[each]])


@comparison
async def pages_of_services(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    for row in _own(view, "services"):
        page = await view.console.page(f"/console/services/{row['id']}")
        where = f"service {row['name']}"
        places = [
            oracle.environments[one["environment_id"]]["name"]
            for one in _own(view, "environment_services", "service_id", row["id"])
        ]
        view.same(where, (page.one("h1").text, page.filled("name")), (row["name"], row["name"]))
        view.has(f"{where}, facts", page.one("p", "meta").text, [row["id"], *places])
        entries = _own(view, "vault_entries", "service_id", row["id"])
        if row["type_id"].endswith("secure_store"):
            shown = page.one("section", id="vault-secrets")
            view.same(f"{where}, number of secrets", shown.one("span", "count").text, str(len(entries)))
            view.has(f"{where}, secrets", shown.text, [one["name"] for one in entries])
        if row["type_id"].endswith("resource_pool"):
            resources = json.loads(row["parameters"])["configuration.resources"]
            view.has(f"{where}, resources", page.text, [*resources, *(one["ip"] for one in resources.values())])
        page = await view.console.page(f"/console/services/{row['id']}/secrets")
        kept = [one["name"] for one in [*entries, *_own(view, "service_secrets", "service_id", row["id"])]]
        view.same(f"{where}, of whom", page.one("h1").text, f"Secrets of {row['name']}")
        view.same(
            f"{where}, masked values", sorted(one.one("b").text for one in page.all("li", "r-broken")), sorted(kept)
        )


@comparison
async def pages_of_git_sources(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    sources = {row["id"]: row for row in _own(view, "git_sources")}
    rows = await view.console.rows(f"{view.home}/git-sources", "Git sources")
    view.same_rows(
        "Git sources",
        [
            (
                row["Source"].id_after("git-sources") or "",
                (
                    row["Source"].one("a").text,
                    row["Status"].status,
                    row["Repository"].text,
                    row["Branch"].text,
                    row["Applied"].text,
                ),
            )
            for row in rows
        ],
        {each: (row["name"], ("stop", "Paused"), row["settings"]["url"], "main", "–") for each, row in sources.items()},
    )
    programs = [row["name"] for row in oracle.users.values() if row["service_of"] == oracle.organization]
    page = await view.console.page(f"{view.home}/git-sources/new")
    view.same("new Git source, accounts", sorted(page.choices("account")), sorted(programs))
    names = [each.text for each in page.one("datalist", id="applications").all("option")]
    view.same("new Git source, applications", names, sorted(row["name"] for row in oracle.applications.values()))
    for each, row in sources.items():
        where, settings = f"Git source {row['name']}", row["settings"]
        page = await view.console.page(f"{view.home}/git-sources/{each}")
        view.same(where, (page.one("h1").text, page.one("div", "head").status), (row["name"], ("stop", "Paused")))
        view.has(f"{where}, branch", page.text, [f"main of {settings['url']}, at {settings['path']}"])
        page = await view.console.page(f"{view.home}/git-sources/{each}/settings")
        shown = {
            name: page.filled(name) for name in ("name", "url", "branch", "path", "interval", "account", "applies")
        }
        view.same(
            f"{where}, settings",
            shown,
            {
                "name": row["name"],
                "url": settings["url"],
                "branch": "main",
                "path": settings["path"],
                "interval": _length(settings["intervalMs"]),
                "account": row["account_id"],
                "applies": "at-once",
            },
        )
        page = await view.console.page(f"{view.home}/git-sources/{each}/delete")
        view.same(f"{where}, deletion", page.one("h1").text, f"Delete {row['name']}?")


_EVENTS = {"status": "Instance status", "job": "Runs"}


@comparison
async def pages_of_webhooks(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    hooks = {row["id"]: row for row in _own(view, "webhooks")}
    rows = await view.console.rows(f"{view.home}/webhooks", "Webhooks")
    view.same_rows(
        "webhooks",
        [
            (
                row["Address"].id_after("webhooks") or "",
                (row["Address"].text, row["Status"].status, [one.text for one in row["Events"].all("span", "chip")]),
            )
            for row in rows
        ],
        {
            each: (row["url"], ("stop", "Paused"), [_EVENTS[name] for name in row["events"]])
            for each, row in hooks.items()
        },
    )
    for each, row in hooks.items():
        page = await view.console.page(f"{view.home}/webhooks/{each}")
        sent = _own(view, "webhook_deliveries", "webhook_id", each)
        view.same(f"webhook {each}, events", page.filled("event"), row["events"])
        view.has(
            f"webhook {each}, facts", page.one("p", "meta").text, [f"Created {ago(row['created_at'], oracle.now)}"]
        )
        numbers = Counter(one["status"] for one in sent)
        section = page.one("section", id="deliveries")
        said = f"{numbers['delivered']} delivered, {numbers['failed']} failed, {numbers['pending']} pending in 24 h"
        view.same(f"webhook {each}, numbers", section.one("header").one("span", "soft").text, said)
        shown = [
            (
                line["Delivery"].text,
                line["Status"].status,
                line["About"].one("p").text,
                line["Attempts"].text,
                line["Created"].text,
            )
            for line in table_of(page, "Deliveries, newest first")
        ]
        view.same(
            f"webhook {each}, deliveries",
            shown,
            [
                (
                    one["id"][-6:],
                    ("fail", "Failed"),
                    one["last_error"],
                    str(one["attempts"]),
                    ago(one["created_at"], oracle.now),
                )
                for one in sorted(sent, key=lambda one: one["id"], reverse=True)
            ],
        )


@comparison
async def pages_of_recurring_schedules(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    page = await view.console.page(f"{view.home}/recurring/new")
    names = [each.text for each in page.one("datalist", id="applications").all("option")]
    view.same("new schedule, applications", names, sorted(row["name"] for row in oracle.applications.values()))
    for row in _own(view, "recurring_schedules"):
        where, path = f"schedule {row['name']}", f"{view.home}/recurring/{row['id']}"
        page = await view.console.page(path)
        state = ("stop", "Paused") if row["is_paused"] else ("ok", "Active")
        view.same(where, (page.one("h1").text, page.one("div", "head").status), (row["name"], state))
        owner = oracle.users[row["owner_id"]]["name"]
        facts = ["turn", oracle.instances[row["instance_id"]]["name"], row["cron"], row["zone"], owner]
        view.has(f"{where}, facts", page.one("p", "meta").text, facts)
        view.same(
            f"{where}, form",
            tuple(page.filled(name) for name in ("name", "cron", "zone")),
            (row["name"], row["cron"], row["zone"]),
        )
        view.has(f"{where}, starts", page.text, [f"{row['fired']} starts so far"])
        page = await view.console.page(f"{path}/delete")
        view.same(f"{where}, deletion", page.one("h1").text, f"Delete {row['name']}?")
    for row in _own(view, "change_sets"):
        page = await view.console.page(f"{view.home}/changes/{row['id']}/delete")
        view.same(f"change set {row['comment']}, deletion", page.one("h1").text, f"Delete {row['comment']}?")


@comparison
async def page_of_the_first_steps(view: View) -> None:
    if not _sees_all(view):
        return
    oracle = view.oracle
    page = await view.console.page(f"{view.home}/start")
    chosen = page.one("main").one("ol").all("li", "card")
    [name] = [row["name"] for row in oracle.tables["organizations"] if row["id"] == oracle.organization]
    default = next(row["name"] for row in oracle.environments.values() if row["is_default"])
    view.has("first steps, organization", chosen[0].text, [f"{name}, with the environment {default}."])
    names = [each.text for each in chosen[1].one("p").all("a")]
    view.same(
        "first steps, applications", names, sorted(row["name"] for row in oracle.applications.values())[: len(names)]
    )
    opened = chosen[-1].all("a")[-1]
    instance = oracle.instances[opened.attributes["href"].rpartition("/")[2]]
    view.same("first steps, instance", opened.text, f"Open {instance['name']}")


@comparison
async def entries_of_the_activity(view: View) -> None:
    """Compare entries of each operation with the row: when, by whom, how, and on what."""
    if not _sees_all(view):
        return
    rows = {row["operation"]: row for row in _own(view, "audit_entries")}
    for operation, row in rows.items():
        page = await view.console.page(f"{view.home}/audit/{row['id']:024x}")
        meta = page.one("p", "meta")
        stamp = meta.one("time").attributes["datetime"]
        view.same(f"activity {operation}, when", stamp, row["at"].isoformat(timespec="seconds"))
        view.has(f"activity {operation}, who", meta.text, [row["actor_email"], row["address"] or ""])
        technical = page.one("dl", "kv").text
        view.has(f"activity {operation}, what", technical, [operation, row["object"], f"{row['id']:024x}"])


@comparison
async def generations_and_comparisons(view: View) -> None:
    """Compare former configurations with what is stored, and two runs with their steps."""
    oracle = view.oracle
    stored: dict[str, list[Row]] = {}
    for row in oracle.tables["generations"]:
        stored.setdefault(row["instance_id"], []).append(row)
    chosen = [each for each in sorted(oracle.living) if len(stored.get(each, ())) > 1][:4]
    for each in chosen:
        path = f"/console/instances/{each}"
        for row in sorted(stored[each], key=lambda row: row["number"]):
            answer = await view.console.client.get(f"{path}/generations/{row['number']}")
            if answer.status_code != 200:
                view.same(f"{path}, generation {row['number']}", view.name, "member")
                continue
            page = await view.console.page(f"{path}/generations/{row['number']}")
            about = page.one("main").one("dl", "kv")
            facts = dict(zip((one.text for one in about.all("dt")), (one for one in about.all("dd")), strict=True))
            view.same(
                f"{path}, generation {row['number']}",
                (facts["Version"].text, facts["Took effect"].one("time").attributes["datetime"], facts["By"].text),
                (
                    str(row["version"]),
                    row["created_at"].isoformat(timespec="seconds"),
                    oracle.users[row["owner_id"]]["name"],
                ),
            )
            newest = max(stored[each], key=lambda one: one["number"])
            if row is newest:
                continue  # it is what there is now
            differs = [line["Setting"].text for line in table_of(page, "Settings that differ")]
            view.same(
                f"{path}, generation {row['number']}, version differs",
                "version" in differs,
                row["version"] != oracle.instances[each]["version"],
            )
        await _compared_runs(view, each)


@comparison
async def adoptions(view: View) -> None:
    """Compare what instances have adopted with what is stored, in the API and on pages."""
    oracle = view.oracle
    for row in oracle.tables["adoptions"]:
        each = row["instance_id"]
        if each not in oracle.instances:
            continue
        found = accepted(await view.caller.get(f"instances/{each}/adoption"))
        is_observed = oracle.instances[each]["is_observed"]
        view.same(f"adoption of {each}, managed", found["managed"], "observe" if is_observed else "full")
        names = ("component", "name", "lineage", "resources", "resourceCount")
        shown = [tuple(one[name] for name in names) for one in found["states"]]
        so = (row["component"], row["name"], row["identity"], json.loads(row["resources"]), row["resource_count"])
        view.same(f"adoption of {each}, states", shown, [so] if row["action"] == "opentofu" else [])
        listed = {"component": row["component"], "resources": so[3], "resourceCount": so[4]}
        about = json.loads(row["about"] or "{}")
        releases = [{**listed, **about}] if row["action"] == "helm" else []
        view.same(f"adoption of {each}, releases", found["releases"], releases)
        hosts = [{"component": row["component"], **about}] if row["action"] == "provisionVms" else []
        view.same(f"adoption of {each}, hosts", found["hosts"], hosts)
        when = (found["adoptedAt"], found["adoptedBy"])
        view.same(f"adoption of {each}, when", when, (ms(row["adopted_at"]), row["adopted_by"]))
        page = await view.console.page(f"/console/instances/{each}")
        view.same(f"adoption of {each}, page", "Observed" in page.one("main").text, is_observed)


async def _compared_runs(view: View, instance: str) -> None:
    oracle, jobs = view.oracle, view.oracle.history[instance][:2]
    if len(jobs) < 2:
        return
    later, earlier = jobs
    path = f"/console/instances/{instance}/jobs/{earlier['id']}/compare/{later['id']}"
    page = await view.console.page(path)
    heads = [each.one("header") for each in page.one("div", "split").all("section") if each.all("time")]
    view.same(
        f"{path}, runs",
        [(each.one("a").text, each.id_after("jobs"), each.one("time").attributes["datetime"]) for each in heads],
        [
            (f"#{job['number']}", job["id"], (job["started_at"] or job["created_at"]).isoformat(timespec="seconds"))
            for job in (earlier, later)
        ],
    )
    names = [
        {step["name"] for step in oracle.steps.get(job["id"], ()) if "/" in step["path"]} for job in (earlier, later)
    ]
    shown = {
        row["Step"].text.rpartition(" · ")[2]: row["Difference"].text for row in table_of(page, "Steps of both runs")
    }
    only = {
        name: f"only in the {which} run"
        for name, which in (
            *((name, "first") for name in names[0] - names[1]),
            *((name, "second") for name in names[1] - names[0]),
        )
    }
    view.same(
        f"{path}, steps of one run", {name: text for name, text in shown.items() if text.startswith("only")}, only
    )


@comparison
async def secrets_of_instances(view: View) -> None:
    if not _sees_all(view):
        return
    for each in sorted(view.oracle.living)[:3]:
        page = await view.console.page(f"/console/instances/{each}/secrets")
        view.same(f"secrets of {each}", page.one("h1").text, f"Secrets of {view.oracle.instances[each]['name']}")
        view.same(f"secrets of {each}, none", page.all("li", "r-broken"), [])
