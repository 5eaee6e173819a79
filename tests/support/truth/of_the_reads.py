"""What the endpoints show of single objects, and of an organization besides its instances."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import yaml

from tests.support.service import accepted
from tests.support.truth.comparisons import View, comparison
from tests.support.truth.oracle import Row, ms
from tests.support.truth.surfaces import listed


def _stored(row: Row, names: Iterable[str], **others: Any) -> dict[str, Any]:
    """Return columns as the API names them, with times in milliseconds. `others` have another name, or are computed."""
    found = {}
    for name in names:
        if name in others:
            continue
        value = row["".join(f"_{each.lower()}" if each.isupper() else each for each in name)]
        found[name] = ms(value) if isinstance(value, datetime) else value
    return {**found, **others}


def _shown(document: Mapping[str, Any], so: Mapping[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in so}


def _of(view: View, table: str, column: str = "organization_id", value: str = "") -> list[Row]:
    wanted = value or view.oracle.organization
    return [row for row in view.oracle.tables[table] if row[column] == wanted]


async def _read(view: View, path: str, so: Any) -> None:
    """Compare an answer with what is stored; of an object only the fields that are given."""
    shown = accepted(await view.caller.get(path))
    view.same(path, _shown(shown, so) if isinstance(so, dict) and isinstance(shown, dict) else shown, so)


async def _list(view: View, path: str, so: Mapping[str, Mapping[str, Any]], key: str = "id") -> None:
    """Compare all pages of a list with rows by their IDs."""
    rows, _ = await listed(view.caller, path)
    names = next(iter(so.values()), {})
    view.same_rows(path, [(row[key], _shown(row, names)) for row in rows], dict(so))


@comparison
async def organizations_and_places(view: View) -> None:
    oracle = view.oracle
    [own] = [row for row in oracle.tables["organizations"] if row["id"] == oracle.organization]
    await _list(view, "organizations", {own["id"]: _stored(own, ("id", "name"))})
    await _read(view, view.root, _stored(own, ("id", "name")))
    if oracle.only is not None:
        return
    await _list(view, f"{view.root}/zones", {row["id"]: _stored(row, ("id", "name")) for row in _of(view, "zones")})
    await _read(view, f"{view.root}/signInPolicy", {"secondFactorRequired": own["requires_second_factor"]})
    await _read(view, f"{view.root}/views", {"views": []})
    for name in ("groupRoles", "signInBlocks", "hostKeys"):
        await _read(view, f"{view.root}/{name}", [])
    await _list(
        view,
        f"{view.root}/environments",
        {each: _stored(row, ("id", "name", "isDefault")) for each, row in oracle.environments.items()},
    )
    for each, row in oracle.environments.items():
        path = f"environments/{each}"
        await _read(view, f"{path}/name", _stored(row, ("id", "name")))
        await _read(view, f"{path}/markers", _stored(row, ("markers",)))
        await _read(view, f"{path}/properties", _stored(row, ("properties",)))
        await _read(view, f"{path}/labels", row["labels"])
        bound = sorted(one["service_id"] for one in _of(view, "environment_services", "environment_id", each))
        found = accepted(await view.caller.get(f"{path}/services"))
        view.same(f"{path}/services", sorted(one["id"] for one in found["services"]), bound)
        policy = row["change_policy"] or {}
        await _read(view, f"{path}/changePolicy", {"approvals": policy.get("approvals", 0)})
        answer = await view.caller.get(path)
        view.same(path, (yaml.safe_load(answer.text) or {}).get("policies") or {}, row["policies"])
        await _rules(view, path, "environment_id", each)
        rule: Row = next(iter(_of(view, "identity_audiences", "environment_id", each)), {})
        await _read(view, f"{path}/audiences", {"audiences": rule.get("audiences", [])})
        await _read(view, f"{path}/offers", [])
        shown = accepted(await view.caller.get(f"{path}/impact"))
        view.same(f"{path}/impact, without a change", (shown["changes"], shown["fails"]), (0, 0))


async def _rules(view: View, path: str, column: str, each: str) -> None:
    """Compare the rules of an application or an environment."""
    life: Row = next((row["rules"] for row in _of(view, "lifetime_rules", column, each)), {})
    await _read(
        view,
        f"{path}/lifetime",
        {
            "defaultMs": life.get("default_ms"),
            "greatestMs": life.get("greatest_ms"),
            "extendMs": life.get("extend_ms"),
            "extensions": life.get("extensions"),
            "graceMs": life.get("grace_ms"),
            "idleMs": life.get("idle_ms"),
        },
    )
    sleep: Row = next((row["rules"] for row in _of(view, "sleep_rules", column, each)), {})
    shown = accepted(await view.caller.get(f"{path}/sleep"))
    view.same(
        f"{path}/sleep",
        [(one["sleepAt"], one["wakeAt"], one["zone"]) for one in shown["windows"] or ()],
        [(one["sleep_at"], one["wake_at"], one["zone"]) for one in sleep.get("windows") or ()],
    )
    limits: list[Row] = next((row["limits"] for row in _of(view, "concurrency_limits", column, each)), [])
    shown = accepted(await view.caller.get(f"{path}/concurrency"))
    view.same(
        f"{path}/concurrency",
        [(one["key"], one["limit"]) for one in shown["limits"]],
        [(one["key"], one["limit"]) for one in limits],
    )


@comparison
async def applications_and_versions(view: View) -> None:
    oracle = view.oracle
    await _list(
        view,
        f"{view.root}/applications",
        {each: _stored(row, ("id", "name")) for each, row in oracle.applications.items()},
    )
    if oracle.only is not None:
        return
    for each, row in oracle.applications.items():
        path = f"applications/{each}"
        names = ("id", "name", "organizationId", "sourceUrl", "createdAt")
        await _read(view, path, _stored(row, names, version=row["latest_version"]))
        await _read(view, f"{path}/labels", row["labels"])
        await _read(view, f"{path}/failurePolicy", _stored(row, ("onFailure",)))
        await _rules(view, path, "application_id", each)
        versions = {one["version"]: one for one in _of(view, "manifests", "application_id", each)}
        answer = await view.caller.get(f"{path}/manifest")
        view.same(f"{path}/manifest", answer.text, versions[row["latest_version"]]["content"])
        await _versions(view, path, versions)
        named = [one for one in _of(view, "revisions", "application_id", each) if one["name"]]
        await _list(view, f"{path}/revisions", {one["id"]: _stored(one, ("id", "name")) for one in named})
        for one in named:
            fields = ("id", "name", "applicationId", "version", "environmentId", "createdAt")
            await _read(view, f"revisions/{one['id']}", _stored(one, fields))
            shown = accepted(await view.caller.get(f"revisions/{one['id']}/impact"))
            using = sum(row["revision_id"] == one["id"] for row in oracle.living.values())
            view.same(f"revisions/{one['id']}/impact", shown["present"], using)
        await _impact(view, each, row["latest_version"])


async def _versions(view: View, path: str, versions: Mapping[int, Row]) -> None:
    oracle, application = view.oracle, path.rpartition("/")[2]
    rows, _ = await listed(view.caller, f"{path}/manifests")
    view.same(
        f"{path}/manifests",
        [(row["version"], row["createdAt"], row["authorId"], row["message"]) for row in rows],
        [
            (number, ms(versions[number]["created_at"]), versions[number]["author_id"], versions[number]["message"])
            for number in sorted(versions, reverse=True)
        ],
    )
    used = {row["version"]: 0 for row in oracle.living.values() if row["application_id"] == application}
    for row in oracle.living.values():
        if row["application_id"] == application:
            used[row["version"]] += 1
    shown = accepted(await view.caller.get(f"{path}/manifests/used"))
    view.same(f"{path}/manifests/used", {row["version"]: row["instances"] for row in shown["used"]}, used)
    if len(versions) > 1:
        newest = max(versions)
        query = {"version": newest, "against": newest - 1}
        shown = accepted(await view.caller.get(f"{path}/manifests/difference", **query))
        view.same(f"{path}/manifests/difference", _shown(shown, query), query)
        if shown["difference"] is not None:
            texts = [oracle.texts[application, number] for number in (newest - 1, newest)]
            _same_code(view, f"{path}/manifests/difference", shown["difference"], texts)


async def _impact(view: View, application: str, newest: int) -> None:
    """Compare how many instances a version would reach: living ones that are no submodules."""
    living = [row for row in view.oracle.living.values() if row["application_id"] == application]
    path = f"applications/{application}/impact"
    shown = accepted(await view.caller.get(path))
    view.same(f"{path}, version", shown["version"], newest)
    numbers = shown["keeps"] + shown["changes"] + shown["fails"]
    view.same(f"{path}, numbers", numbers, sum(row["version"] != newest for row in living))


@comparison
async def people_and_roles_of_the_api(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return
    roles = {row["id"]: row for row in _of(view, "roles")}
    held = {
        each: sorted(
            roles[row["role_id"]]["name"]
            for row in oracle.tables["role_assignments"]
            if row["user_id"] == each and row["role_id"] in roles
        )
        for each in oracle.users
    }
    rows = accepted(await view.caller.get(f"{view.root}/users"))
    view.same_rows(
        "users",
        [(row["id"], (row["name"], row["email"], sorted(row["roles"]))) for row in rows],
        {each: (oracle.users[each]["name"], oracle.users[each]["email"], held[each]) for each in oracle.people},
    )
    for each in oracle.people:
        await _read(
            view, f"{view.root}/users/{each}", _stored(oracle.users[each], ("name", "email", "enabled", "createdAt"))
        )
    await _list(view, f"{view.root}/invitations", {})
    await _list(view, f"{view.root}/roles", {each: _stored(row, ("id", "name")) for each, row in roles.items()})
    for each, row in roles.items():
        shown = accepted(await view.caller.get(f"roles/{each}"))
        view.same(f"roles/{each}", yaml.safe_load(shown["permissions"]), yaml.safe_load(row["permissions"]))
    programs = {each: row for each, row in oracle.users.items() if row["service_of"] == oracle.organization}
    names = ("id", "name", "email", "description", "enabled", "createdAt")
    so = {each: _stored(row, names, roles=held[each]) for each, row in programs.items()}
    await _list(view, f"{view.root}/serviceAccounts", so)
    for each, program in so.items():
        await _read(view, f"{view.root}/serviceAccounts/{each}", program)
    await _read(view, f"{view.root}/accessTokens", [])
    [me] = [row["id"] for row in oracle.users.values() if row["email"] == view.email]
    tokens = [row for row in oracle.tables["refresh_tokens"] if row["user_id"] == me]
    await _list(
        view,
        "tokens",
        {row["id"]: _stored(row, ("id", "label", "createdAt", "expiresAt", "lastUsedAt")) for row in tokens},
    )
    for name in ("secondFactors", "invitations"):
        await _read(view, f"users/me/{name}", [])
    query = {"permission": "Read", "path": f"/environments/{next(iter(oracle.environments))}"}
    shown = accepted(await view.caller.get("permissions/explain", organization=oracle.organization, **query))
    view.same("permissions/explain", (shown["allowed"], shown["role"]), (True, "Administrator"))


@comparison
async def services_webhooks_and_sources(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return
    services = {row["id"]: row for row in _of(view, "services")}
    zones = {row["id"]: row["name"] for row in _of(view, "zones")}
    await _list(
        view, f"{view.root}/services", {each: _stored(row, ("id", "name", "typeId")) for each, row in services.items()}
    )
    types = {row["id"] for row in accepted(await view.caller.get(f"{view.root}/serviceTypes"))}
    used = {row["type_id"] for row in services.values()}
    view.same("service types that are used", types & used, used)
    for each, row in services.items():
        names = ("id", "name", "typeId", "zoneId", "organizationId")
        status = {"name": row["status"], "pending": row["status_pending"]}
        await _read(view, f"services/{each}", _stored(row, names, zoneName=zones[row["zone_id"]], status=status))
        kept = [one["name"] for one in _of(view, "service_secrets", "service_id", each)]
        shown = accepted(await view.caller.get(f"services/{each}/secrets"))
        view.same(f"services/{each}/secrets", [*shown["parameters"]], kept)
    for row in _of(view, "webhooks"):
        shown_fields = ("id", "url", "events", "enabled", "disabledReason", "createdAt", "format")
        await _read(view, f"webhooks/{row['id']}", _stored(row, shown_fields))
        sent = {one["id"]: one for one in _of(view, "webhook_deliveries", "webhook_id", row["id"])}
        fields = ("id", "event", "status", "attempts", "createdAt", "finishedAt", "lastStatus", "lastError")
        await _list(
            view, f"webhooks/{row['id']}/deliveries", {each: _stored(one, fields) for each, one in sent.items()}
        )
        for each, one in sent.items():
            await _read(view, f"webhooks/{row['id']}/deliveries/{each}", _stored(one, fields))
    hooks = {row["id"]: _stored(row, ("id", "url", "events", "enabled", "createdAt")) for row in _of(view, "webhooks")}
    await _list(view, f"{view.root}/webhooks", hooks)
    sources = {}
    for row in _of(view, "git_sources"):
        settings = row["settings"]
        own_fields = ("id", "name", "accountId", "applicationId", "createdAt")
        more = {"url": settings["url"], "path": settings["path"], "paused": row["is_paused"], "status": "Paused"}
        sources[row["id"]] = _stored(row, own_fields, intervalMs=settings["intervalMs"], **more)
    await _list(view, f"{view.root}/git-sources", sources)
    for each, source in sources.items():
        await _read(view, f"git-sources/{each}", source)
        for name in ("syncs", "previews"):
            await _read(view, f"git-sources/{each}/{name}", [])


@comparison
async def recurring_schedules_of_the_api(view: View) -> None:
    oracle = view.oracle
    rows = [row for row in _of(view, "recurring_schedules") if row["instance_id"] in oracle.instances]
    if oracle.only is not None:
        return
    names = ("id", "name", "kind", "cron", "zone", "startsAt", "endsAt", "whenBusy", "jitterMs", "instanceId")
    so = {
        row["id"]: _stored(
            row,
            (*names, "applicationId", "fired", "ownerId", "ownerEmail", "createdAt"),
            status="Paused" if row["is_paused"] else "Active",
            workflow="turn",
        )
        for row in rows
    }
    await _list(view, f"{view.root}/recurring-schedules", so)
    for each, document in so.items():
        await _read(view, f"recurring-schedules/{each}", document)


@comparison
async def activity_of_the_api(view: View) -> None:
    oracle = view.oracle
    if oracle.only is not None:
        return
    rows, _ = await listed(view.caller, f"{view.root}/audit")
    so = {f"{row['id']:024x}": row for row in _of(view, "audit_entries")}
    shown = {row["id"]: row for row in rows}
    view.same("activity, entries that are missing", sorted(so.keys() - shown.keys()), [])
    view.same("activity, entries that are there twice", len(rows), len(shown))
    names = {
        row["id"]: row["name"]
        for table, rows in oracle.tables.items()
        for row in rows
        if row.keys() >= {"id", "name"} and table != "organizations"
    }
    for row in _of(view, "webhooks"):  # the rest of an address may be a secret
        names[row["id"]] = f"{row['url'].rpartition('/')[0]}/…"
    for each, row in so.items():
        view.same(f"activity {each}", shown.get(each), _entry(each, row, names))


_MISSING = object()


def _entry(each: str, row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    """Return an entry as the API shows it: what was before and after, and in which fields that differs."""
    before, after = (_fields(row[which] or {}) for which in ("before", "after"))
    actor = {"id": row["actor_id"], "email": row["actor_email"], "method": row["method"]}
    return {
        "id": each,
        **_stored(row, ("at", "address", "operation", "object", "before", "after")),
        "actor": {**actor, **({"name": names[row["actor_id"]]} if row["actor_id"] in names else {})},
        "names": {part: names[part] for part in row["object"].split("/") if part in names},
        "changes": [
            {"field": field, "before": before.get(field), "after": after.get(field)}
            for field in dict.fromkeys((*before, *after))
            if before.get(field, _MISSING) != after.get(field, _MISSING)
        ],
    }


def _fields(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested objects, by their names with dots."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        found |= _fields(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


@comparison
async def single_instances(view: View) -> None:
    """Compare what there is of an instance of each kind: its history, log, components, and differences."""
    oracle = view.oracle
    chosen: dict[Any, str] = {}
    for each, row in sorted(oracle.instances.items()):
        chosen.setdefault((row["status"], row["application_id"], len(oracle.history.get(each, ())) > 1), each)
    generations: dict[str, list[Row]] = {}
    for row in oracle.tables["generations"]:
        generations.setdefault(row["instance_id"], []).append(row)
    for each in chosen.values():
        row, path = oracle.instances[each], f"instances/{each}"
        await _read(view, f"{path}/labels", row["labels"])
        names = ("number", "version", "ownerId", "jobId", "createdAt")
        shown, _ = await listed(view.caller, f"{path}/generations")
        own = sorted(generations.get(each, ()), key=lambda one: one["number"], reverse=True)
        so = [_stored(one, names) for one in own]
        view.same(f"{path}/generations", [_shown(one, so[0]) for one in shown] if so else shown, so)
        for one in own[:2]:
            await _read(view, f"{path}/generations/{one['number']}", _stored(one, names))
        jobs = {job["id"]: job for job in oracle.history.get(each, ())}
        timeline, _ = await listed(view.caller, f"{path}/timeline")
        told = {(one["jobId"], one["jobNumber"], one["workflow"]) for one in timeline if one["jobId"] in jobs}
        view.same(f"{path}/timeline", told <= {(job["id"], job["number"], job["name"]) for job in jobs.values()}, True)
        ended = {(job["id"], job["number"], job["name"]) for job in jobs.values() if job["finished_at"]}
        view.same(f"{path}/timeline, runs that are missing", sorted(ended - told), [])
        lines = accepted(await view.caller.get(f"{path}/log"))
        view.same(f"{path}/log, jobs of others", sorted({one["job"] for one in lines if one["job"]} - jobs.keys()), [])
        _same_lines(view, f"{path}/log", lines, _of(view, "log_lines", "instance_id", each))
        if row["status"] != "Destroyed":
            await _previews(view, each)


@comparison
async def secrets_of_the_api(view: View) -> None:
    for each in sorted(view.oracle.living)[:20] if view.oracle.only is None else ():
        found = accepted(await view.caller.get(f"instances/{each}/secrets"))
        view.same(f"secrets of {each}", ([*found["parameters"]], [*found["returnValues"]]), ([], []))


@comparison
async def changed_secrets_of_the_api(view: View) -> None:
    oracle = view.oracle
    some = oracle.with_changed_secrets | {*sorted(oracle.living)[:5]}
    for each in sorted(some) if oracle.only is None else ():
        found = accepted(await view.caller.get(f"instances/{each}/secrets/changed"))
        view.same(f"instances/{each}/secrets/changed", sorted(map(_read_of, found)), oracle.changed_reads(each))


def _read_of(found: dict[str, Any]) -> tuple[str, str, str, int, str]:
    return found["secret"], found["component"], found["step"], found["readAt"], found["job"]


def _same_lines(view: View, where: str, lines: list[Any], rows: list[Row]) -> None:
    """Compare lines of a log, and that none is missing before the last of them."""
    names = ("at", "level", "step", "text", "attempt", "stream")
    last = max((one["id"] for one in lines), default=0)
    so = {row["id"]: {**_stored(row, names), "job": row["job_id"]} for row in rows if row["id"] <= last}
    view.same_rows(where, [(one["id"], _shown(one, {**dict.fromkeys(names), "job": None})) for one in lines], so)


async def _previews(view: View, each: str) -> None:
    """Compare what would change by a version that an instance has: nothing; and where it lives."""
    oracle, row, path = view.oracle, view.oracle.instances[each], f"instances/{each}"
    if oracle.only is None:
        found = accepted(await view.caller.get(f"{path}/environments"))
        view.same(f"{path}/environments", found["environments"], [])
        await _components(view, each)
        shown, _ = await listed(view.caller, f"{path}/jobs")
        view.same(
            f"{path}/jobs",
            [(job["id"], job["number"], job["status"]) for job in shown],
            [(job["id"], job["number"], job["status"]) for job in oracle.history.get(each, [])],
        )
        jobs = view.oracle.history.get(each, [])
        if len(jobs) > 1:
            await _compared(view, jobs[1], jobs[0])
        for twin in (each, next(other for other in oracle.living if other != each)):
            shown = accepted(await view.caller.get(f"{path}/diff", otherId=twin))
            ids = (shown["from"]["instanceId"], shown["to"]["instanceId"])
            view.same(f"{path}/diff", ids, (each, twin))
            if twin == each:
                view.same(f"{path}/diff, with itself", shown["differences"], [])
            else:
                other = oracle.instances[twin]
                _same_differences(view, f"{path}/diff", shown, (row, other))
                texts = [oracle.texts[one["application_id"], one["version"]] for one in (row, other)]
                if texts[0] != texts[1]:
                    _same_code(view, f"{path}/diff", shown["manifest"], texts)
        if row["status"] != "Running":
            return  # what has never been launched would be launched
        shown = accepted(await view.caller.get(f"{path}/configuration/preview", version=row["version"]))
        changed = [one["path"] for one in shown["components"] if one["change"] not in {"keeps", "unchanged"}]
        needs = (oracle.environments[row["environment_id"]]["change_policy"] or {}).get("approvals", 0)
        is_refused = needs > 0 or oracle.is_frozen(row["application_id"], row["environment_id"])
        view.same(f"{path}/configuration/preview, refused", shown["refused"], is_refused)
        view.same(f"{path}/configuration/preview, of its version", changed, [])


# What is stored in other tables, encrypted, or part of an environment.
_ELSEWHERE = ("parameters.", "userData.", "environment.", "returnValues.", "components.", "machines.")


def _same_differences(view: View, where: str, shown: Mapping[str, Any], rows: tuple[Row, Row]) -> None:
    """Compare what differs between two instances: what they were given, and what they have become."""
    given, own = (
        [_stored(row, names) for row in rows]
        for names in (("applicationId", "environmentId", "version", "status"), ("name", "errorMessage", "destroyAt"))
    )
    labels = [{f"labels.{name}": value for name, value in row["labels"].items()} for row in rows]
    so = _different(*({**one, **more} for one, more in zip(given, labels, strict=True)))
    its_own = _different(*own)
    found = [[one for one in shown[of] if not one["path"].startswith(_ELSEWHERE)] for of in ("differences", "own")]
    if any(one["path"] == "version" for one in found[1]):  # of manifests that mean the same
        same_code = view.oracle.texts[rows[0]["application_id"], rows[0]["version"]]
        view.same(f"{where}, code", view.oracle.texts[rows[1]["application_id"], rows[1]["version"]], same_code)
        its_own["version"] = so.pop("version")
    view.same_rows(where, [(one["path"], one) for one in found[0]], so)
    view.same_rows(f"{where}, own", [(one["path"], one) for one in found[1]], its_own)


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the paths with other values, as the API shows them."""
    return {
        path: {
            "path": path,
            "change": "changed" if path in one and path in other else "removed" if path in one else "added",
            "from": one.get(path),
            "to": other.get(path),
        }
        for path in {**one, **other}
        if one.get(path, _MISSING) != other.get(path, _MISSING)
    }


def _same_code(view: View, where: str, shown: Mapping[str, Any], texts: list[Any]) -> None:
    """Compare which commands and components only one of two manifests has."""
    named = {
        "commands": [{*text} - {"application", "header", "launch", "destroy"} for text in texts],
        "components": [{*text.get("application", {}).get("components", ["workflow"])} for text in texts],
    }
    for kind, (one, other) in named.items():
        found = {which: {*shown[kind][which]} for which in ("added", "removed")}
        view.same(f"{where}, {kind}", found, {"added": other - one, "removed": one - other})
    before, after = (text.get("application", {}).get("checks") for text in texts)
    view.same(f"{where}, times of checks", shown["checks"], before != after)


async def _components(view: View, each: str) -> None:
    oracle, path = view.oracle, f"instances/{each}/components"
    rows, _ = await listed(view.caller, path)
    words = {"InProgress": "busy", "Destroying": "busy", "NeedsApproval": "waiting", "NotStarted": "notStarted"}
    counts = Counter(words.get(row["status"], row["status"].lower()) for row in rows)
    view.same(path, counts, oracle.components(each))
    children = {row["path"]: row["instanceId"] for row in rows if row["instanceId"]}
    view.same(f"{path}, submodules", children, oracle.children(each))
    steps = [step for job in oracle.history[each] for step in oracle.steps.get(job["id"], ())]
    named = sorted({step["path"].partition("#")[0] for step in steps if "/" in step["path"]})
    view.has(f"{path}, names", " ".join(row["path"] for row in rows), named)


async def _compared(view: View, one: Row, other: Row) -> None:
    path = f"jobs/{one['id']}/compare/{other['id']}"
    shown = accepted(await view.caller.get(path, everyStep=True))
    names = ("id", "number", "status", "instanceId")
    for which, job in (("one", one), ("other", other)):
        so = {**_stored(job, names), "workflow": job["name"]}
        view.same(f"{path}, {which}", _shown(shown[which], so), so)
        has = {step["path"] for step in shown["steps"] if step[which] is not None}
        stored = {step["path"] for step in view.oracle.steps.get(job["id"], ()) if "/" in step["path"]}
        view.same(f"{path}, steps of {which} that are missing", sorted(stored - has), [])
    took = [{step["path"]: _took_ms(step) for step in view.oracle.steps.get(job["id"], ())} for job in (one, other)]
    for step in shown["steps"]:
        first, second = (each.get(step["path"]) for each in took)
        is_longer = None if first is None or second is None else second - first
        view.same(f"{path}, {step['path']} took longer", step["differenceMs"], is_longer)


def _took_ms(row: Row) -> int | None:
    begin, end = ms(row["started_at"]), ms(row["finished_at"])
    return None if begin is None or end is None else end - begin
