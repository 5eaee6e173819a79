"""One of everything that pages are about, and the addresses of the pages."""

import re

from launchbay.console.request import PageRoute
from tests.support.eventually import eventually
from tests.support.served import PAGES
from tests.support.service import Api, accepted, fresh_name, person

MANIFEST = """\
launch: {steps: []}
linger: {steps: [{rest: {action: wait, parameters: {delay: 600}}}]}
ask: {steps: [{sign-off: {action: approval, parameters: {text: "Go on?"}}}]}
fall: {steps: [{fall: {action: serialize, parameters: {input: 1, format: NOTHING}}}]}
"""
GETS = [
    page
    for page in PAGES
    if page.method == "GET" and not page.public and not page.path.endswith(("events", "explanation", "jump", "{token}"))
]


async def one_of_everything(api: Api) -> dict[str, str]:
    """Make one of everything that a page is about, and return the ids by the names that stand in `address`."""
    within = f"organizations/{api.organization}"
    application = await api.application(MANIFEST)
    accepted(await api.put_yaml(f"applications/{application}/manifest", MANIFEST + "extra: {steps: []}\n"))
    running, busy, failed, asking = [await api.launch(application) for _ in range(4)]
    for instance in (running, busy, failed, asking):
        await api.settled(instance)
    # A generation that it can go back to.
    accepted(await api.put(f"instances/{running}/configuration", {"manifestVersion": 2}))
    await api.settled(running)
    accepted(await api.post(f"instances/{busy}/linger", {}))
    await api.run(failed, "fall")
    accepted(await api.post(f"instances/{asking}/ask", {}))
    approvals = await eventually(lambda: api.read(f"instances/{asking}/approvals"))
    schedule = accepted(await api.post(f"instances/{running}/fall/schedule", {"interval": 9_000_000}))
    # The manifest has no commands that stop and start: nothing sleeps, whatever the hour.
    night = {"windows": [{"sleepAt": "20:00", "wakeAt": "07:00"}]}
    accepted(await api.put(f"applications/{application}/sleep", night))
    role = accepted(await api.post(f"{within}/roles", {"name": fresh_name("role"), "permissions": "[]"}))
    revision = accepted(await api.post(f"applications/{application}/revisions", {"name": "r", "version": 1}))
    vault = {"name": fresh_name("vault"), "typeId": "builtin:cobalt_secure_store", "parameters": {}}
    service = accepted(await api.post(f"{within}/services", vault))
    environment = accepted(await api.post(f"{within}/environments", {"name": fresh_name("environment")}))
    hook = accepted(await api.post(f"{within}/webhooks", {"url": "https://hooks.example/", "events": ["status"]}))
    someone = await person(api, "Guest")
    account = accepted(await api.post(f"{within}/serviceAccounts", {"name": "Robot", "roles": ["Guest"]}))
    token = accepted(await api.post(f"{within}/accessTokens", {"owner": account["id"]}))
    git = {"name": fresh_name("source"), "accountId": account["id"], "url": "https://git.example.org/x", "paused": True}
    source = accepted(await api.post(f"{within}/git-sources", git))
    planned = "UPDATE git_sources SET planned = %s, is_paused = false WHERE id = %s"
    async with api.database.transaction() as connection:
        await connection.execute(planned, ["5f" * 20, source["id"]])
    lasting = {"act": "run", "workflow": "linger", "ids": [busy]}
    bulk = accepted(await api.post(f"{within}/bulk", lasting))
    # Of its own: the other environment becomes the default one of all tests.
    strict = accepted(await api.post(f"{within}/environments", {"name": fresh_name("strict")}))["id"]
    accepted(await api.put(f"environments/{strict}/changePolicy", {"approvals": 1, "roleId": None}))
    launch = {"act": "launch", "applicationId": application, "launch": {"environmentId": strict}}
    pending = accepted(await api.post(f"{within}/change-sets", launch))
    ready = accepted(await api.post(f"{within}/change-sets", {"act": "destroy", "ids": [running]}))
    slow = {"applicationId": application, "version": 2, "ids": [asking], "waves": [1]}
    rollout = accepted(await api.post(f"{within}/rollouts", slow))
    nightly = {"name": "Nightly", "cron": "0 2 * * *", "instanceId": running, "workflow": "linger"}
    recurring = accepted(await api.post(f"{within}/recurring-schedules", nightly))
    jobs = {each: (await api.document(each))["workflowHistory"][0]["id"] for each in (busy, failed)}
    return {
        "organizations": api.organization,
        "applications": application,
        "instances": running,
        "roles": role["id"],
        "revisions": revision["id"],
        "services": service["id"],
        "environments": environment["id"],
        "approvals": approvals[0]["id"],
        "{user}": someone.id,
        "{account}": account["id"],
        "{token}": token["id"],
        "{webhook}": hook["id"],
        "{source}": source["id"],
        "{schedule}": schedule["id"],
        "{instance}": running,
        "{bulk}": bulk["id"],
        "{change}": ready["id"],
        "{rollout}": rollout["id"],
        "{failure}": "00" * 12,
        "{finding}": "00" * 12,
        "{scope}": "environment",
        "{number}": "1",
        "{organization}": api.organization,
        "{recurring}": recurring["id"],
        "answer": pending["id"],
        "{version}": "1",
        "{entry}": accepted(await api.get(f"{within}/audit", sort="-at", limit=1))[0]["id"],
        "{environment}": environment["id"],
        "cancel": f"/console/instances/{busy}/jobs/{jobs[busy]}",
        "resume": f"/console/instances/{failed}/jobs/{jobs[failed]}",
    }


def address(page: PageRoute, world: dict[str, str]) -> str:
    """Return the address of a page about the objects of a world."""
    if "{job}" in page.path:
        kind = page.path.rpartition("/")[2]
        rest = page.path.partition("{job}")[2].replace("{other}", world["cancel"].rpartition("/")[2])
        return world.get(kind, world["cancel"]) + rest
    if page.path.endswith("/answer"):
        world = {**world, "{change}": world["answer"]}
    kind = (page.path.split("/") + [""] * 3)[2]
    path = page.path.replace("{id}", world.get(kind, ""))
    return re.sub(r"\{\w+\}", lambda found: world[found[0]], path)


def pages_of(world: dict[str, str]) -> list[str]:
    """Return the addresses of the pages about the objects."""
    paths = [address(page, world) for page in GETS] + [world["resume"]]
    paths.append(f"/console/organizations/{world['organizations']}/services?type=builtin:workflow_service")
    paths.append(f"/console/organizations/{world['organizations']}/bulk/new?act=label&id={world['{instance}']}")
    paths.append(f"/console/organizations/{world['organizations']}/changes/{world['answer']}")
    paths.append(f"/console/organizations/{world['organizations']}/schedules?view=list")
    paths.append(f"/console/organizations/{world['organizations']}/recurring/new?instance={world['{instance}']}")
    return [*paths, *(world[kind].partition("/jobs")[0] for kind in ("cancel", "resume"))]
