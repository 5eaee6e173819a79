"""An installation as people have it: something on every page, instances in every status; for pictures of them."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.browser import BUSY, EMAIL, Site
from tests.support.browser import PASSWORD as ADMINISTRATORS
from tests.support.eventually import eventually_blocking

PAYMENTS = """\
application:
  configuration: { input.currency: EUR }
  interfaces:
    input: { currency: bind(gateway#input.currency), retries: bind(gateway#input.retries) }
    payments: { pay-url: bind(gateway#payments.pay-url) }
  components:
    gateway:
      type: workflow.Instance
      interfaces:
        input:
          currency: { type: configuration(string), name: Currency, suggestions: { Euro: EUR, Pound: GBP, Krone: NOK } }
          retries: configuration(int)
        payments: { pay-url: publish-signal(string) }
      configuration:
        input.retries: 3
        configuration.workflows:
          launch:
            steps: [ { open-account: { action: wait, parameters: { delay: 0 } } } ]
            return: { pay-url: { value: "https://pay.harbour.example/{$.currency}" } }
"""
SHOP = """\
# A shop: its database and cache beside it, payments as an application of its own.
application:
  configuration: { input.title: Harbour Shop }
  interfaces:
    input:
      title: bind(web#input.title)
      visitors: bind(web#input.visitors)
      settings: bind(web#input.settings)
      open: bind(web#input.open)
    result: { url: bind(web#result.url), version: bind(web#result.version) }
    manage:
      deploy: bind(web#manage.deploy)
      back-up: bind(database#manage.back-up)
      release: bind(web#manage.release)
      import: bind(web#manage.import)
  bindings: [[web, database], [web, cache], [web, payments]]
  components:
    web:
      type: workflow.Instance
      required: [db, payments]
      interfaces:
        input:
          title: { type: configuration(string), name: Title of the shop }
          visitors: { type: configuration(int), name: Visitors at once, suggestions: { A village: 50, A town: 2000 } }
          settings: configuration(object)
          open: configuration(bool)
        db: { host: consume-signal(string), port: consume-signal(int) }
        cache: { address: consume-signal(string) }
        payments: { pay-url: consume-signal(string) }
        result: { url: publish-signal(string), version: publish-signal(string) }
        manage:
          deploy: "receive-command(string version => string version)"
          release: receive-command()
          import: receive-command()
      configuration:
        input.settings: { theme: quay, languages: [en, nb] }
        input.open: true
        configuration.workflows:
          launch:
            steps:
              - read-signals: { action: getSignals, output: { seen: result } }
              - install: { action: wait, precedingPhases: [read-signals], parameters: { delay: 0 } }
              - warm-up: { action: wait, precedingPhases: [install], parameters: { delay: 0 } }
            return:
              url: { value: "https://shop.harbour.example/" }
              version: { value: "1.4.2" }
          deploy:
            parameters:
              - version: { description: The version to deploy, default: "1.4.3" }
            steps:
              - fetch: { action: wait, parameters: { delay: 0 } }
              - rollout: { action: wait, precedingPhases: [fetch], parameters: { delay: 0 } }
            return: { version: { value: "{$.version}" } }
          release:
            steps:
              - sign-off: { action: approval, parameters: { text: "Release 1.5 to production before the weekend?" } }
              - announce: { action: wait, precedingPhases: [sign-off], parameters: { delay: 0 } }
          import:
            steps:
              - read-file: { action: wait, parameters: { delay: 0 } }
              - convert: { action: serialize, precedingPhases: [read-file], parameters: { input: 1, format: XLS } }
              - store: { action: wait, precedingPhases: [convert], parameters: { delay: 0 } }
    database:
      type: workflow.Instance
      interfaces:
        db: { host: publish-signal(string), port: publish-signal(int) }
        manage: { back-up: receive-command() }
      configuration:
        configuration.schedule: { back-up: "0 30 3 * * ?" }
        configuration.workflows:
          launch:
            steps: [ { create-volume: { action: wait, parameters: { delay: 0 } } } ]
            return: { host: { value: db-1.harbour.example }, port: { value: 5432 } }
          back-up:
            steps:
              - freeze: { action: wait, parameters: { delay: 0 } }
              - copy: { action: wait, precedingPhases: [freeze], parameters: { delay: 3600 } }
              - thaw: { action: wait, precedingPhases: [copy], parameters: { delay: 0 } }
    cache:
      type: cobalt.common.Constants
      interfaces: { cache: { address: publish-signal(string) } }
      configuration: { configuration.values: { cache.address: "cache.harbour.example:6379" } }
    payments:
      type: reference.Submodule
      configuration: { __locator.application-id: "%s" }
      interfaces: { payments: { pay-url: publish-signal(string) } }
"""
MILL = """\
launch:
  parameters: [ { month: { default: May } } ]
  steps:
    - gather: { action: wait, parameters: { delay: 0 } }
    - print: { action: serialize, precedingPhases: [gather], parameters: { input: 1, format: PAPER } }
destroy: { steps: [] }
"""
TIDES = """\
application:
  configuration: { input.release: %d }
  interfaces:
    input: { release: bind(tables#input.release), pace: bind(tables#input.pace) }
    actions: { check: bind(tables#actions.check) }
  components:
    tables:
      type: workflow.Instance
      interfaces:
        input: { release: configuration(int), pace: configuration(int) }
        actions: { check: receive-command() }
      configuration:
        input.pace: 0
        configuration.triggers: { input.release: update }
        configuration.propagateStatus: [update]
        configuration.workflows:
          launch: { steps: [] }
          update: { steps: [ { compute: { action: wait, parameters: { delay: "{$.pace}" } } } ] }
          check: { steps: [ { look: { action: wait, parameters: { delay: 0 } } } ] }
"""
SLOW = """\
launch: { steps: [] }
destroy: { steps: [ { drain: { action: wait, parameters: { delay: 3600 } } } ] }
"""
OPERATORS = """\
# May run what is there, anywhere but in production.
- Read: [/*]
- CreateInstance: [/applications/*, /environments/%s]
- RunInstanceWorkflow: [/applications/*, /environments/%s]
- ScheduleInstanceWorkflow: [/applications/*, /environments/%s]
"""
PASSWORD = "correct horse battery"


_OF_A_RUN = "/console/instances/{id}/jobs/{job}"
# What the console serves beyond pages.
NO_PAGES = {
    "/console",  # a redirect
    *("/console/instances/{id}/events", "/console/organizations/{id}/runs/events", f"{_OF_A_RUN}/events"),  # streams
    *("/console/organizations/{id}/explanation", "/console/organizations/{id}/jump", f"{_OF_A_RUN}/log"),  # fragments
    *("/console/instances/{id}/components/card", "/console/instances/{id}/menu"),
    *(f"{_OF_A_RUN}/log/failure", f"{_OF_A_RUN}/compare", "/console/instances/{id}/rollback"),  # redirects
    "/console/instances/{id}/runs/compare",  # a redirect
    *(f"{_OF_A_RUN}/log/text", f"{_OF_A_RUN}/export", "/console/organizations/{id}/archive"),  # files
    *(f"/console/organizations/{{id}}/{each}/export" for each in ("instances", "runs", "audit")),
    # One is for a link that only its reader has, the other for a sign-in that isn't complete.
    *("/console/invitations/{token}", "/console/newPassword"),
    # The documentation shows the same to everybody, and nothing that is stored.
    *("/docs", "/docs/search", "/docs/{path:path}", "/docs/api/{operation}", "/docs/codes/{name}"),
}


def showcase(site: Site) -> dict[str, str]:
    """Make everything through the API, and return the address of each page by the name of its pictures."""
    root = f"organizations/{site.organization}"
    site.ask("PUT", root, {"name": "Harbour Works"})
    trust = _created(site, "organizations", name="Lighthouse Trust")
    places = _places(site, root)
    people = _people(site, root, places)
    hook = _created(site, f"{root}/webhooks", url="http://127.0.0.1:9/launchbay", events=["status", "job"])
    _created(site, f"{root}/webhooks", url="http://127.0.0.1:9/chat", events=["status"])
    shop, ids = _instances(site, places)
    pool = {"configuration.resources": {"crane-1": {"ip": "192.0.2.11"}, "crane-2": {"ip": "192.0.2.12"}}}
    service = _created(site, f"{root}/services", name="Cranes", typeId="builtin:static_resource_pool", parameters=pool)
    vault = _created(site, f"{root}/services", name="Team vault", typeId="builtin:cobalt_secure_store", parameters={})
    account = {
        "configuration.provider": "aws-ec2",
        "configuration.identity": "harbour",
        "configuration.credential": "not shown",
    }
    cloud = _created(site, f"{root}/services", name="Harbour cloud", typeId="builtin:cloud_account", parameters=account)
    catalog = _created(
        site, f"{root}/services", name="Shared shops", typeId="builtin:shared_instances_catalog", parameters={}
    )
    site.ask("PUT", f"environments/{places['production']}/services", {"services": [service, vault, catalog, cloud]})
    for name, value in (("mail-relay", "Lantern-4412-quay"), ("payments", "Harbour-0091-tide")):
        _command(site, vault, "set-secret", {"name": name, "value": value})
    _command(site, vault, "generate-keypair", {"name": "deploy"})
    site.ask("POST", f"services/{vault}/secrets/reveal", {"name": "mail-relay", "reason": "The relay asks for it."})
    _command(site, catalog, "add", {"revisionId": ids["revision"], "instanceId": ids["quiet"]})
    site.ask("POST", f"instances/{ids['quiet']}/manage.deploy/schedule", {"interval": 3_600_000, "parameters": {}})
    program = _created(
        site, f"{root}/serviceAccounts", name="Release pipeline", description="Launches releases", roles=["Operators"]
    )
    git = {"name": "Shop", "accountId": program, "url": "https://git.example.org/harbour/shop.git", "paused": True}
    git_source = site.ask("POST", f"{root}/git-sources", {**git, "path": "deploy", "intervalMs": 300_000})["id"]
    everywhere = {"act": "run", "workflow": "manage.import", "ids": [ids["quiet"], ids["stumbled"]]}
    bulk = _created(site, f"{root}/bulk", **everywhere)
    _created(site, f"{root}/bulk", act="label", labels={"team": "quay"}, ids=list(ids.values())[:4])
    _until_ended(site, bulk)
    tides, rollout = _rollout(site)
    lights = _ordered(site, places)
    recurring = _recurring(site, ids["quiet"], shop)
    _rules(site, shop, places["production"])  # its policy comes after: it would ask for change sets
    change = _change_set(site, places["production"], ids["quiet"])
    changed = _changed(site, tides)
    at, here = f"/console/{root}", "/console"
    return {
        "sign-in": f"{here}/signIn",
        "organizations": f"{here}/organizations",
        "organization": at,
        "applications": f"{at}/applications",
        "application": f"{here}/applications/{shop}",
        "versions": f"{here}/applications/{shop}/versions",
        "version": f"{here}/applications/{shop}/versions/1",
        "start": f"{here}/organizations/{trust}/start",
        "application-revisions": f"{here}/applications/{shop}/revisions",
        "revision": f"{here}/revisions/{ids['revision']}",
        "revision-new": f"{here}/applications/{shop}/revisions/new",
        "delete-revision": f"{here}/revisions/{ids['revision']}/delete",
        "application-settings": f"{here}/applications/{shop}/settings",
        "manifest": f"{here}/applications/{shop}/manifest",
        "launch": f"{here}/applications/{shop}/launch",
        "delete-application": f"{here}/applications/{shop}/delete",
        "instances": f"{at}/instances",
        "bulk-new": f"{at}/bulk/new?act=label&all=1&q=app:%22Harbour+shop%22",
        "bulk-runs": f"{at}/bulk",
        "bulk": f"{at}/bulk/{bulk}",
        "instance": f"{here}/instances/{ids['busy']}",
        "components": f"{here}/instances/{ids['stumbled']}/components",
        "job": f"{here}/instances/{ids['stumbled']}/jobs/{ids['job']}",
        "runs": f"{at}/runs",
        "compare": f"{here}/instances/{ids['busy']}/jobs/{ids['compared']}?show=all",
        "instance-runs": f"{here}/instances/{ids['busy']}/runs",
        "configuration": f"{here}/instances/{ids['quiet']}/configuration",
        "generation": f"{here}/instances/{changed}/generations/1",
        "drift": f"{here}/instances/{_checked(site, changed)}/drift",
        "instance-schedules": f"{here}/instances/{ids['quiet']}/schedules",
        "instance-signals": f"{here}/instances/{ids['quiet']}/signals",
        "instance-activity": f"{here}/instances/{ids['busy']}/activity",
        "instance-settings": f"{here}/instances/{ids['busy']}/settings",
        "instance-run": f"{here}/instances/{ids['busy']}/run?workflow=manage.deploy",
        "end": f"{here}/instances/{ids['quiet']}/end",
        "schedules": f"{at}/schedules",
        "approvals": f"{at}/approvals",
        "promotion": f"{here}/applications/{lights}/promotion",
        "rollouts": f"{here}/applications/{tides}/rollouts",
        "rollout-new": f"{here}/applications/{tides}/rollouts/new?waves=1,50%25",
        "rollout": f"{here}/applications/{tides}/rollouts/{rollout}",
        "recurring-schedules": f"{at}/recurring",
        "recurring-new": f"{at}/recurring/new?instance={ids['quiet']}",
        "recurring": f"{at}/recurring/{recurring}",
        "delete-recurring": f"{at}/recurring/{recurring}/delete",
        "change-sets": f"{at}/changes",
        "change-set": f"{at}/changes/{change}",
        "delete-change-set": f"{at}/changes/{change}/delete",
        "environments": f"{at}/environments",
        "environment": f"{here}/environments/{places['production']}",
        "environment-settings": f"{here}/environments/{places['production']}/settings",
        "delete-environment": f"{here}/environments/{places['staging']}/delete",
        "services": f"{at}/services?type=builtin:static_resource_pool",
        "service": f"{here}/services/{service}",
        "service-vault": f"{here}/services/{vault}",
        "service-cloud": f"{here}/services/{cloud}",
        "service-catalog": f"{here}/services/{catalog}",
        "service-secrets": f"{here}/services/{cloud}/secrets?name=configuration.credential",
        "instance-secrets": f"{here}/instances/{ids['quiet']}/secrets",
        "roles": f"{at}/roles?permission=CreateInstance&path=/applications/{shop}&user={people['ada']}",
        "role": f"{here}/roles/{people['operators']}",
        "users": f"{at}/users",
        "user": f"{at}/users/{people['ada']}",
        "git-sources": f"{at}/git-sources",
        "git-source": f"{at}/git-sources/{git_source}",
        "git-source-new": f"{at}/git-sources/new",
        "git-source-settings": f"{at}/git-sources/{git_source}/settings",
        "delete-git-source": f"{at}/git-sources/{git_source}/delete",
        "rules": f"{at}/change-rules",
        "application-rules": f"{here}/applications/{shop}/change-rules",
        "environment-rules": f"{here}/environments/{places['production']}/change-rules?version=2",
        "webhooks": f"{at}/webhooks",
        "webhook": f"{at}/webhooks/{hook}",
        "audit": f"{at}/audit",
        "activity-entry": f"{at}/audit/{_entry(site, root, places['production'])}",
        "usage": f"{at}/usage",
        "access-tokens": f"{here}/account/accessTokens",
        "service-accounts": f"{at}/serviceAccounts",
        "service-account": f"{at}/serviceAccounts/{program}",
        "account": f"{here}/account",
        "refresh-token": "/refreshToken",
        "refusal": f"{here}/applications/000000000000000000000000",
    }


def _places(site: Site, root: str) -> dict[str, str]:
    found = {name: _created(site, f"{root}/environments", name=name) for name in ("production", "staging")}
    frozen = _created(site, f"{root}/environments", name="demo")
    site.ask("PUT", f"environments/{frozen}/freeze", {"reason": "The fair: the demo stays as it is until Friday."})
    site.ask(
        "PUT", f"environments/{found['production']}/markers", {"markers": [{"name": "gpu"}, {"name": "fast disk"}]}
    )
    for hour in (14, 12):
        when = f"$.kind != 'run' && $.time.weekday == 'FRI' && $.time.hour >= {hour}"
        text = f"- name: quiet-friday\n  when: {when}\n  warn: It is Friday, and after {hour}:00.\n"
        site.ask("PUT", f"environments/{found['production']}/change-rules", {"rules": text})
    properties = [
        {"name": "region", "type": "string", "value": "eu-north"},
        {"name": "zones", "type": "list<string>", "value": ["a", "b"]},
        {"name": "api-token", "type": "string", "value": "not shown"},
    ]
    site.ask("PUT", f"environments/{found['production']}/properties", {"properties": properties})
    policies = "policies:\n  restcall.ignoreFail: false\n  execrun.batchSize: 5\n  wait.retryCount: 2\n"
    headers = {"Content-Type": "application/x-yaml"}
    assert site.api.put(f"environments/{found['production']}", content=policies, headers=headers).status_code == 200
    return found


def _people(site: Site, root: str, places: dict[str, str]) -> dict[str, str]:
    text = OPERATORS % ((places["staging"],) * 3)
    operators = _created(site, f"{root}/roles", name="Operators", permissions=text)
    _created(
        site, f"{root}/roles", name="Release managers", permissions="- ApproveInstanceWorkflow: [/*]\n- Read: [/*]\n"
    )
    found = {"operators": operators}
    for name, roles in (
        ("Ada Lovelace", ["Operators"]),
        ("Grace Hopper", ["Administrator"]),
        ("Jens Olsen", ["Guest"]),
    ):
        first = name.split()[0].lower()
        body = {"email": f"{first}@harbour.example", "name": name, "password": PASSWORD, "roles": roles}
        found[first] = site.ask("POST", f"{root}/users", body)["id"]
    site.ask("POST", f"{root}/users", {"email": "mia@harbour.example", "name": "Mia Berg", "roles": ["Operators"]})
    return found


def _command(site: Site, service: str, name: str, arguments: dict[str, str]) -> None:
    site.ask("POST", f"services/{service}/{name}", {"arguments": arguments})


def _rules(site: Site, application: str, environment: str) -> None:
    hour = 3_600_000
    lifetime = {"defaultMs": 8 * hour, "extendMs": 24 * hour, "extensions": 3, "graceMs": hour // 2, "mail": True}
    site.ask("PUT", f"applications/{application}/lifetime", lifetime)
    site.ask("PUT", f"environments/{environment}/lifetime", {"greatestMs": 60 * 24 * hour})
    # The application doesn't sleep with its environment, so that no picture depends on the hour.
    night = {"sleepAt": "20:00", "wakeAt": "07:00", "days": ["MON", "TUE", "WED", "THU"], "zone": "Europe/Berlin"}
    weekend = {"sleepAt": "0 20 * * FRI", "wakeAt": "0 7 * * MON", "zone": "Europe/Berlin"}
    site.ask("PUT", f"environments/{environment}/sleep", {"windows": [night, weekend]})
    site.ask("PUT", f"applications/{application}/sleep", {"windows": []})
    lock = {"key": "lock:database", "limit": 1, "when": "queue"}
    site.ask("PUT", f"applications/{application}/concurrency", {"limits": [lock, {"limit": 20}]})
    site.ask("PUT", f"environments/{environment}/concurrency", {"limits": [{"limit": 30}]})
    jubilee = {"reason": "Jubilee", "firstDay": "2190-12-20", "lastDay": "2191-01-04", "zone": "Europe/Berlin"}
    site.ask("PUT", f"environments/{environment}/freeze-windows", {"windows": [jubilee]})


def _instances(site: Site, places: dict[str, str]) -> tuple[str, dict[str, str]]:
    payments = site.application(PAYMENTS, "Payments")
    shop = site.application(SHOP % payments, "Harbour shop")
    mill, slow = site.application(MILL, "Report mill"), site.application(SLOW, "Ferry timetable")

    def launched(application: str, name: str, **more: Any) -> str:
        instance = site.launch(application, instanceName=name, **more)
        site.settled(instance)
        return instance

    given: dict[str, Any] = {"parameters": {"input.visitors": 2000}, "environmentId": places["production"]}
    ids = {
        "quiet": launched(shop, "Shop", destroyInterval=-1, **given),
        "stumbled": launched(shop, "Shop (import)", destroyInterval=86_400_000, **given),
        "asking": launched(shop, "Shop (release 1.5)", destroyInterval=604_800_000, **given),
        "busy": launched(shop, "Shop (with a back-up running)", destroyInterval=-1, **given),
    }
    launched(mill, "Reports of May")
    going, gone = launched(slow, "Timetable, winter"), launched(mill, "Reports of April")
    site.ask("POST", f"instances/{going}/destroy", {})
    site.ask("POST", f"instances/{gone}/destroy", {})
    site.ask("PUT", f"instances/{ids['busy']}/userData", {"owner": "Team Quay", "ticket": ["HW-12", "HW-31"]})
    site.ask("PUT", f"instances/{ids['busy']}/environments", {"environments": [places["production"]]})
    site.ask("POST", f"instances/{ids['stumbled']}/manage.import", {})
    site.settled(ids["stumbled"])
    ids["job"] = site.ask("GET", f"instances/{ids['stumbled']}")["workflowHistory"][0]["id"]
    site.ask("POST", f"instances/{ids['asking']}/manage.release", {})
    for version in ("1.4.2", "1.4.3"):
        site.ask("POST", f"instances/{ids['busy']}/manage.deploy", {"version": version})
        site.settled(ids["busy"])
    later, earlier = (each["id"] for each in site.ask("GET", f"instances/{ids['busy']}")["workflowHistory"][:2])
    ids["compared"] = f"{earlier}/compare/{later}"
    site.ask("POST", f"instances/{ids['busy']}/manage.back-up", {})
    spring = {"name": "spring", "instanceId": ids["quiet"]}
    ids["revision"] = site.ask("POST", f"applications/{shop}/revisions", spring)["id"]
    site.settled(gone)
    assert site.ask("GET", f"instances/{going}")["status"] in BUSY
    _until_asked(site)
    for label in ("build server", "laptop"):
        form = {"email": EMAIL, "password": ADMINISTRATORS, "label": label}
        assert httpx.post(f"{site.url}/refreshToken", data=form, trust_env=False).status_code == 200
    return shop, ids


def _rollout(site: Site) -> tuple[str, str]:
    """Return an application, and a rollout that a failure has stopped."""
    application = site.application(TIDES % 1, "Tide tables")
    for number, pace in enumerate((0, 0, -1, 0, 0), 1):
        site.settled(site.launch(application, instanceName=f"Tides {number}", parameters={"input.pace": pace}))
    site.replace_manifest(application, TIDES % 2)
    body = {"applicationId": application, "version": 3, "waves": [1, 2], "healthWorkflow": "actions.check"}
    rollout = _created(site, f"organizations/{site.organization}/rollouts", **body)
    eventually_blocking(lambda: site.ask("GET", f"rollouts/{rollout}")["status"] == "Stopped", within_s=60)
    return application, rollout


def _changed(site: Site, application: str) -> str:
    """Return an instance of the application that was changed, and so has two generations."""
    instance = site.launch(application, instanceName="Tides of the strait", parameters={"input.pace": 1})
    site.settled(instance)
    site.ask("PUT", f"instances/{instance}/configuration", {"parameters": {"input.pace": 3, "input.release": 3}})
    site.settled(instance)
    return instance


def _ordered(site: Site, places: dict[str, str]) -> str:
    """Return an application with a newer version in the first of two environments."""
    application = site.application("check: { steps: [] }\nlaunch: { steps: [] }\n", "Harbour lights")
    lamps = "launch: { parameters: { lamps: { type: int, default: 2 } }, steps: [] }\n"
    site.replace_manifest(application, f"check: {{ steps: [] }}\n{lamps}")
    for name, version in (("staging", 3), ("production", 2)):
        called = f"Lights of {name}"
        site.settled(site.launch(application, environmentId=places[name], version=version, instanceName=called))
    gates = {"soak": 86_400_000, "workflows": ["check"], "approvals": 1}
    stages = [{"environmentId": places["staging"]}, {"environmentId": places["production"], **gates}]
    site.ask("PUT", f"applications/{application}/promotion-order", {"stages": stages})
    return application


def _checked(site: Site, instance: str) -> str:
    """Return the instance when a check of its drift is done."""
    site.ask("POST", f"instances/{instance}/drift/check", {})
    eventually_blocking(
        lambda: site.ask("GET", f"instances/{instance}/drift/report")["status"] not in {"Waiting", "Checking"},
        within_s=60,
    )
    return instance


def _recurring(site: Site, instance: str, shop: str) -> str:
    """Return a recurring schedule of a workflow; make others beside it."""
    root = f"organizations/{site.organization}/recurring-schedules"
    common = {"zone": "Europe/Oslo"}
    launch = {"parameters": {"input.visitors": 50}}
    launches = _created(
        site, root, name="Demonstration", cron="0 9 * * MON", applicationId=shop, launch=launch, **common
    )
    site.ask("POST", f"recurring-schedules/{launches}/pause", {})
    query = {"act": "resume", "select": {"lastStatus": "Failed"}}
    _created(site, root, name="Try failed ones again", cron="*/30 * * * *", bulk=query, **common)
    return _created(
        site,
        root,
        name="Nightly deployment",
        cron="30 2 * * *",
        instanceId=instance,
        workflow="manage.deploy",
        **common,
    )


def _change_set(site: Site, production: str, instance: str) -> str:
    """Return a change set of somebody else that two people have to approve."""
    root = f"organizations/{site.organization}"
    site.ask("PUT", f"environments/{production}/changePolicy", {"approvals": 2})
    acts: list[dict[str, Any]] = [
        {"act": "destroy", "ids": [instance], "comment": "After the season"},
        {
            "act": "reconfigure",
            "ids": [instance],
            "configuration": {"parameters": {"input.visitors": 8000, "input.open": False}},
            "comment": "More room for the winter sale",
            "onFailure": "rollback",
        },
    ]
    auth = ("grace@harbour.example", PASSWORD)
    with httpx.Client(base_url=f"{site.url}/api/1/", auth=auth, trust_env=False, timeout=30) as grace:
        answers = [grace.post(f"{root}/change-sets", json=each) for each in acts]
    assert {each.status_code for each in answers} == {200}, answers[-1].text
    return str(answers[-1].json()["id"])


def _entry(site: Site, root: str, about: str) -> str:
    """Return the newest entry of the audit log about an object."""
    newest: str = site.ask("GET", f"{root}/audit?sort=-at&limit=1&object={about}")[0]["id"]
    return newest


def _until_asked(site: Site, within_s: float = 60.0) -> None:
    eventually_blocking(lambda: site.ask("GET", f"organizations/{site.organization}/approvals"), within_s=within_s)


def _until_ended(site: Site, bulk: str, within_s: float = 60.0) -> None:
    eventually_blocking(lambda: site.ask("GET", f"bulk/{bulk}")["finishedAt"] is not None, within_s=within_s)


def _created(site: Site, path: str, **body: Any) -> str:
    created: str = site.ask("POST", path, body)["id"]
    return created


# What breaks out of a text, of an attribute in either kind of quotes, of a script, a style, a comment, a template.
CORPUS = (
    "<script>window.__ran=1</script>",
    '"><img src=x onerror=window.__ran=2>',
    "' onfocus=window.__ran=3 autofocus x='",
    "</title></textarea></script></style><svg onload=window.__ran=4>",
    "javascript:window.__ran=5",
    "{{ 7 * 191 }}{% raw %}${7*191}<!-- -->",
    "<iframe srcdoc='<script>parent.__ran=6</script>'></iframe>",
    "<a hx-get=/console/account hx-trigger=load href=javascript:window.__ran=7>x</a>",
    "]]><x data-graph='[]' style=\"background:url(//evil.example)\">\u202e",
)
EVIL = " ".join(CORPUS)
NAME = EVIL[:255].strip()
# Nothing in it is a place to break a line.
UNBROKEN = "W" * 200
# The message of the error may quote it.
_WRONG = {"input": "{$.who}", "format": "{$.who}"}
_MANIFEST = {
    "application": {
        "interfaces": {
            "input": {"who": "bind(web#input.who)", "secret-password": "bind(web#input.secret-password)"},
            "result": {"said": "bind(web#result.said)", "link": "bind(web#result.link)"},
            "actions": {
                "greet": "bind(web#actions.greet)",
                "fail": "bind(web#actions.fail)",
                "ask": "bind(web#actions.ask)",
            },
        },
        "components": {
            "web": {
                "type": "workflow.Instance",
                "interfaces": {
                    "input": {
                        "who": {"type": "configuration(string)", "name": NAME, "suggestions": {NAME: EVIL}},
                        "secret-password": "configuration(string)",
                    },
                    "result": {"said": "publish-signal(string)", "link": "publish-signal(string)"},
                    "actions": {
                        "greet": "receive-command(string name)",
                        "fail": "receive-command()",
                        "ask": "receive-command()",
                    },
                },
                "configuration": {
                    "input.who": EVIL.replace("{", "(").replace("$", "S"),
                    "input.secret-password": "the-hidden-word",
                    "configuration.workflows": {
                        "launch": {
                            "steps": [
                                {EVIL.replace("/", "_")[:255].strip(): {"action": "wait", "parameters": {"delay": 0}}}
                            ],
                            "return": {"said": {"value": "{$.who}"}, "link": {"value": "javascript:window.__ran=8"}},
                        },
                        "greet": {
                            "parameters": [{"name": {"description": EVIL, "default": EVIL.replace("{", "(")}}],
                            "steps": [{"rest": {"action": "wait", "parameters": {"delay": 0}}}],
                        },
                        "ask": {
                            "steps": [
                                {
                                    "sign": {
                                        "action": "approval",
                                        "parameters": {"text": EVIL.replace("{", "(").replace("$", "S")},
                                    }
                                }
                            ]
                        },
                        "fail": {"steps": [{"say": {"action": "serialize", "parameters": _WRONG}}]},
                    },
                },
            }
        },
    }
}


@dataclass(frozen=True)
class World:
    """The ids of what there is; `paths` are all pages, by a name."""

    paths: dict[str, str]


def made(site: Site) -> World:
    """Make one of everything through the API."""
    organization = site.ask("POST", "organizations", {"name": NAME})["id"]
    within = f"organizations/{organization}"
    user = site.ask(
        "POST", f"{within}/users", {"email": "evil<b>@example.org", "name": NAME, "password": "a good password"}
    )
    role = site.ask("POST", f"{within}/roles", {"name": NAME, "permissions": f"- Read: [/*]\n# {EVIL}\n"})
    application = site.ask("POST", f"{within}/applications", {"name": NAME})["id"]
    site.replace_manifest(application, json.dumps(_MANIFEST))
    environment = site.ask("POST", f"{within}/environments", {"name": NAME})["id"]
    site.ask("PUT", f"environments/{environment}/markers", {"markers": [{"name": NAME}]})
    for kind in ("environments", "roles"):
        site.ask("POST", f"{within}/{kind}", {"name": UNBROKEN, **({"permissions": ""} if kind == "roles" else {})})
    properties = [{"name": name, "type": "string", "value": EVIL} for name in (NAME, "password")]
    site.ask("PUT", f"environments/{environment}/properties", {"properties": properties})
    long = site.ask("POST", f"{within}/applications", {"name": UNBROKEN})["id"]
    site.replace_manifest(long, "launch: {steps: []}\n")
    site.settled(longest := site.launch(long, instanceName=UNBROKEN))
    vault = "builtin:cobalt_secure_store"
    service = site.ask("POST", f"{within}/services", {"name": NAME, "typeId": vault, "parameters": {}})["id"]
    cloud = {
        "configuration.provider": "aws-ec2",
        "configuration.identity": NAME,
        "configuration.credential": "the-hidden-word",
    }
    account = site.ask(
        "POST", f"{within}/services", {"name": NAME[:200] + "2", "typeId": "builtin:cloud_account", "parameters": cloud}
    )["id"]
    _command(site, service, "set-secret", {"name": NAME, "value": "the-hidden-word"})
    _command(site, service, "generate-keypair", {"name": NAME})
    held = {"name": f"{NAME[:200]}3", "typeId": "builtin:static_resource_pool"}
    pool = site.ask(
        "POST", f"{within}/services", {**held, "parameters": {"configuration.resources": {NAME: {"about": EVIL}}}}
    )["id"]
    listed = {"name": f"{NAME[:200]}4", "typeId": "builtin:shared_instances_catalog", "parameters": {}}
    catalog = site.ask("POST", f"{within}/services", listed)["id"]
    robot = site.ask("POST", f"{within}/serviceAccounts", {"name": NAME, "description": EVIL, "roles": [NAME]})["id"]
    site.ask("POST", f"{within}/accessTokens", {"name": NAME, "owner": robot, "scope": ["Read: [/*]"]})
    git = {"name": NAME, "accountId": robot, "url": "https://git.example.org/<script>", "branch": "<b>", "paused": True}
    git_source = site.ask("POST", f"{within}/git-sources", git)["id"]
    hook = site.ask("POST", f"{within}/webhooks", {"url": "http://127.0.0.1:9/x?<script>", "events": ["status", "job"]})
    instance = _instance(site, application, environment)
    asking = _asking(site, within, application, environment)
    revision = site.ask("POST", f"applications/{application}/revisions", {"name": NAME, "instanceId": instance})
    _command(site, catalog, "add", {"revisionId": revision["id"], "instanceId": instance})
    job, asked = (site.ask("GET", f"instances/{each}")["workflowHistory"][0]["id"] for each in (instance, asking))
    family = site.ask("POST", f"{within}/applications", {"name": f"Family of {NAME}"[:255]})["id"]
    site.replace_manifest(family, json.dumps(_family(application)))
    bulk = site.ask("POST", f"{within}/bulk", {"act": "run", "workflow": "actions.fail", "ids": [instance]})["id"]
    _until_ended(site, bulk)
    doing = {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": {"input.who": f"{EVIL} too"}}}
    change = site.ask("POST", f"{within}/change-sets", {**doing, "comment": EVIL})["id"]
    site.replace_manifest(application, json.dumps(_MANIFEST).replace("__ran=8", "__ran=10"))
    rolled = {"applicationId": application, "version": 3, "ids": [asking], "waves": [1], "comment": EVIL}
    rollout = site.ask("POST", f"{within}/rollouts", rolled)["id"]
    often = {"name": NAME, "cron": "0 3 * * *", "instanceId": instance, "workflow": "actions.greet"}
    recurring = site.ask("POST", f"{within}/recurring-schedules", {**often, "parameters": {"name": EVIL}})["id"]
    # Names that the console shows on settings and beside instances.
    window = {"sleepAt": "0 20 29 2 *", "wakeAt": "0 7 1 3 *"}
    sleep = {"windows": [window], "stop": NAME, "start": f"{NAME[:200]} start"}
    locked = {"limits": [{"key": "lock:database", "limit": 3}, {"key": "label:team", "limit": 3}]}
    for kind, owner in (("applications", application), ("environments", environment)):
        rule = f"- name: odd\n  when: 'false'\n  deny: {json.dumps(EVIL.replace('{', '('))}\n"
        site.ask("PUT", f"{kind}/{owner}/change-rules", {"rules": rule})
        site.ask("PUT", f"{kind}/{owner}/sleep", sleep)
        site.ask("PUT", f"{kind}/{owner}/concurrency", locked)
    root = f"/console/{within}"
    tested = site.ask("POST", f"webhooks/{hook['id']}/test")["delivery"]
    paths = {
        "sign in": "/console/signIn",
        "organizations": "/console/organizations",
        "overview": root,
        "first start": f"{root}/start",
        "instances": f"{root}/instances",
        "no instance": f"{root}/instances?name=nothing%3Cb%3E&status=Failed",
        "bulk runs": f"{root}/bulk",
        "bulk run": f"{root}/bulk/{bulk}",
        "act on many": f"{root}/bulk/new?act=label&id={instance}",
        "instance": f"/console/instances/{instance}",
        "instance of a long name": f"/console/instances/{longest}",
        "runs": f"{root}/runs",
        "runs of an instance": f"/console/instances/{instance}/runs?q=odd:%3Cb%3E+{job}",
        "job": f"/console/instances/{instance}/jobs/{job}",
        "resume": f"/console/instances/{instance}/jobs/{job}?do=resume",
        "log": f"/console/instances/{instance}/jobs/{job}?q=%3Cb%3Ea&tab=log",
        "parameters of a job": f"/console/instances/{instance}/jobs/{job}?tab=parameters",
        "compare": f"/console/instances/{instance}/jobs/{job}/compare/{job}?show=all",
        "reconfigure": f"/console/instances/{instance}/configuration",
        "generation": f"/console/instances/{instance}/generations/1",
        "drift": f"/console/instances/{instance}/drift",
        "components": f"/console/instances/{instance}/components?focus=web",
        "list of components": f"/console/instances/{instance}/components?view=list",
        "run a workflow": f"/console/instances/{instance}/run",
        "signals of an instance": f"/console/instances/{instance}/signals?q=%3Cb%3E",
        "schedules of an instance": f"/console/instances/{instance}/schedules",
        "activity of an instance": f"/console/instances/{instance}/activity",
        "settings of an instance": f"/console/instances/{instance}/settings",
        "destroy": f"/console/instances/{instance}/end",
        "asking instance": f"/console/instances/{asking}",
        "approvals": f"{root}/approvals",
        "open approvals": f"{root}/approvals?view=open",
        "decided approvals": f"{root}/approvals?view=decided",
        "schedules": f"{root}/schedules",
        "list of schedules": f"{root}/schedules?view=list",
        "applications": f"{root}/applications",
        "application": f"/console/applications/{application}",
        "versions": f"/console/applications/{application}/versions",
        "version": f"/console/applications/{application}/versions/1",
        "revisions": f"/console/applications/{application}/revisions",
        "revision": f"/console/revisions/{revision['id']}",
        "new revision": f"/console/applications/{application}/revisions/new",
        "delete revision": f"/console/revisions/{revision['id']}/delete",
        "settings of application": f"/console/applications/{application}/settings",
        "manifest": f"/console/applications/{application}/manifest",
        "launch": f"/console/applications/{application}/launch?revision={revision['id']}",
        "launch with submodules": f"/console/applications/{family}/launch",
        "delete application": f"/console/applications/{application}/delete",
        "promotion": f"/console/applications/{application}/promotion",
        "rollouts": f"/console/applications/{application}/rollouts",
        "new rollout": f"/console/applications/{application}/rollouts/new?q=odd:%3Cb%3E&comment=%3Cb%3E",
        "rollout": f"/console/applications/{application}/rollouts/{rollout}",
        "recurring schedules": f"{root}/recurring",
        "new recurring schedule": f"{root}/recurring/new",
        "new recurring run": f"{root}/recurring/new?instance={instance}",
        "new recurring launch": f"{root}/recurring/new?application={application}",
        "new recurring bulk run": f"{root}/recurring/new?bulk=1",
        "recurring schedule": f"{root}/recurring/{recurring}",
        "delete recurring schedule": f"{root}/recurring/{recurring}/delete",
        "change sets": f"{root}/changes",
        "change set": f"{root}/changes/{change}",
        "delete change set": f"{root}/changes/{change}/delete",
        "environments": f"{root}/environments",
        "environment": f"/console/environments/{environment}",
        "settings of an environment": f"/console/environments/{environment}/settings",
        "delete environment": f"/console/environments/{environment}/delete",
        "services": f"{root}/services?type=builtin:static_resource_pool",
        "service": f"/console/services/{service}",
        "cloud account": f"/console/services/{account}",
        "catalog": f"/console/services/{catalog}",
        "pool": f"/console/services/{pool}",
        "secrets of a vault": f"/console/services/{service}/secrets?kind=secret&name={quote(NAME)}",
        "secrets of a service": f"/console/services/{account}/secrets?name=configuration.credential",
        "secrets of an instance": f"/console/instances/{instance}/secrets",
        "plan of a run": f"/console/instances/{instance}/jobs/{job}?tab=plan",
        "cancel": f"/console/instances/{asking}/jobs/{asked}?do=cancel",
        "invite": f"{root}/users?do=invite",
        "service accounts": f"{root}/serviceAccounts",
        "service account": f"{root}/serviceAccounts/{robot}",
        "access tokens": "/console/account/accessTokens",
        "roles": f"{root}/roles?permission=Read&path=/applications/{application}",
        "role": f"/console/roles/{role['id']}",
        "users": f"{root}/users",
        "user": f"{root}/users/{user['id']}",
        "git sources": f"{root}/git-sources",
        "git source": f"{root}/git-sources/{git_source}",
        "new git source": f"{root}/git-sources/new",
        "settings of a git source": f"{root}/git-sources/{git_source}/settings",
        "delete git source": f"{root}/git-sources/{git_source}/delete",
        "rules": f"{root}/change-rules",
        "rules of an application": f"/console/applications/{application}/change-rules",
        "rules of an environment": f"/console/environments/{environment}/change-rules?version=1",
        "webhooks": f"{root}/webhooks",
        "webhook": f"{root}/webhooks/{hook['id']}",
        "audit": f"{root}/audit",
        "activity entry": f"{root}/audit/{_entry(site, within, application)}",
        "delivery": f"{root}/webhooks/{hook['id']}?delivery={tested}",
        "usage": f"{root}/usage",
        "account": "/console/account",
        "refusal": "/console/applications/%3Cscript%3Ewindow.__ran=9%3C%2Fscript%3E",
    }
    return World(paths)


def _family(application: str) -> dict[str, Any]:
    """Return the manifest of an application that has this one as a submodule."""
    child = {
        "type": "reference.Submodule",
        "configuration": {"__locator.application-id": application},
        "interfaces": {"result": {"said": "publish-signal(string)"}},
    }
    faces = {"result": {"said": "bind(child#result.said)"}}
    return {"application": {"interfaces": faces, "components": {"child": child}}}


def _asking(site: Site, within: str, application: str, environment: str) -> str:
    """Return an instance one of whose steps waits for an approval."""
    instance = site.launch(application, environmentId=environment, instanceName=NAME)
    site.settled(instance)
    site.ask("POST", f"instances/{instance}/actions.ask", {})
    eventually_blocking(lambda: site.ask("GET", f"{within}/approvals"), within_s=40)
    return instance


def _instance(site: Site, application: str, environment: str) -> str:
    launch: dict[str, Any] = {"environmentId": environment, "instanceName": NAME, "parameters": {"input.who": EVIL}}
    instance = site.launch(application, **launch)
    assert site.settled(instance)["status"] == "Running"
    site.ask("PUT", f"instances/{instance}/userData", {NAME: EVIL, "password": "the-hidden-word"})
    site.ask("PUT", f"instances/{instance}/environments", {"environments": [environment]})
    site.ask("POST", f"instances/{instance}/actions.greet/schedule", {"interval": 3_600_000, "parameters": {}})
    site.ask("POST", f"instances/{instance}/actions.fail", {})
    site.settled(instance)
    return instance
