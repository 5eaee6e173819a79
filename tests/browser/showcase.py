"""An installation as people have it: something on every page, instances in every status; for pictures of them."""

import time
from typing import Any

import httpx

from tests.browser.site import BUSY, EMAIL, Site
from tests.browser.site import PASSWORD as ADMINISTRATORS

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
              - roll-out: { action: wait, precedingPhases: [fetch], parameters: { delay: 0 } }
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


def showcase(site: Site) -> dict[str, str]:
    """Make everything through the API, and return the address of each page by the name of its pictures."""
    root = f"organizations/{site.organization}"
    site.ask("PUT", root, {"name": "Harbour Works"})
    _created(site, "organizations", name="Lighthouse Trust")
    places = _places(site, root)
    people = _people(site, root, places)
    hook = _created(site, f"{root}/webhooks", url="http://127.0.0.1:9/launchbay", events=["status", "job"])
    _created(site, f"{root}/webhooks", url="http://127.0.0.1:9/chat", events=["status"])
    shop, ids = _instances(site, places)
    pool = {"configuration.resources": {"crane-1": {"ip": "192.0.2.11"}, "crane-2": {"ip": "192.0.2.12"}}}
    service = _created(site, f"{root}/services", name="Cranes", typeId="builtin:static_resource_pool", parameters=pool)
    vault = _created(site, f"{root}/services", name="Team vault", typeId="builtin:cobalt_secure_store", parameters={})
    site.ask("PUT", f"environments/{places['production']}/services", {"services": [service, vault]})
    site.ask("POST", f"instances/{ids['quiet']}/manage.deploy/schedule", {"interval": 3_600_000, "parameters": {}})
    at, here = f"/console/{root}", "/console"
    return {
        "sign-in": f"{here}/signIn",
        "organizations": f"{here}/organizations",
        "organization": at,
        "applications": f"{at}/applications",
        "application": f"{here}/applications/{shop}",
        "manifest": f"{here}/applications/{shop}/manifest",
        "launch": f"{here}/applications/{shop}/launch",
        "delete-application": f"{here}/applications/{shop}/delete",
        "instances": f"{at}/instances",
        "instance": f"{here}/instances/{ids['busy']}",
        "job": f"{here}/instances/{ids['stumbled']}/jobs/{ids['job']}",
        "configuration": f"{here}/instances/{ids['quiet']}/configuration",
        "end": f"{here}/instances/{ids['quiet']}/end",
        "approvals": f"{at}/approvals",
        "environments": f"{at}/environments",
        "environment": f"{here}/environments/{places['production']}",
        "delete-environment": f"{here}/environments/{places['staging']}/delete",
        "services": f"{at}/services?type=builtin:static_resource_pool",
        "service": f"{here}/services/{service}",
        "roles": f"{at}/roles?permission=CreateInstance&path=/applications/{shop}&user={people['ada']}",
        "role": f"{here}/roles/{people['operators']}",
        "users": f"{at}/users",
        "user": f"{at}/users/{people['ada']}",
        "webhooks": f"{at}/webhooks",
        "webhook": f"{at}/webhooks/{hook}",
        "audit": f"{at}/audit",
        "account": f"{here}/account",
        "refresh-token": "/refreshToken",
        "refusal": f"{here}/applications/000000000000000000000000",
    }


def _places(site: Site, root: str) -> dict[str, str]:
    found = {name: _created(site, f"{root}/environments", name=name) for name in ("production", "staging")}
    site.ask(
        "PUT", f"environments/{found['production']}/markers", {"markers": [{"name": "gpu"}, {"name": "fast disk"}]}
    )
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
    site.ask("POST", f"instances/{ids['busy']}/manage.deploy", {"version": "1.4.3"})
    site.settled(ids["busy"])
    site.ask("POST", f"instances/{ids['busy']}/manage.back-up", {})
    site.ask("POST", f"applications/{shop}/revisions", {"name": "spring", "instanceId": ids["quiet"]})
    site.settled(gone)
    assert site.ask("GET", f"instances/{going}")["status"] in BUSY
    _until_asked(site)
    for label in ("build server", "laptop"):
        form = {"email": EMAIL, "password": ADMINISTRATORS, "label": label}
        assert httpx.post(f"{site.url}/refreshToken", data=form, trust_env=False).status_code == 200
    return shop, ids


def _until_asked(site: Site, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not site.ask("GET", f"organizations/{site.organization}/approvals"):
        assert time.monotonic() < deadline, "nobody was asked for an approval"
        time.sleep(0.1)


def _created(site: Site, path: str, **body: Any) -> str:
    created: str = site.ask("POST", path, body)["id"]
    return created
