"""One of everything that the console shows, each with something in every text that would run if it were let to."""

import json
import time
from dataclasses import dataclass
from typing import Any

from tests.browser.site import Site

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
    user = site.ask("POST", f"{within}/users", {"email": "evil<b>@example.org", "name": NAME, "password": "a password"})
    role = site.ask("POST", f"{within}/roles", {"name": NAME, "permissions": f"- Read: [/*]\n# {EVIL}\n"})
    application = site.ask("POST", f"{within}/applications", {"name": NAME})["id"]
    site.replace_manifest(application, json.dumps(_MANIFEST))
    environment = site.ask("POST", f"{within}/environments", {"name": NAME})["id"]
    site.ask("PUT", f"environments/{environment}/markers", {"markers": [{"name": NAME}]})
    properties = [{"name": name, "type": "string", "value": EVIL} for name in (NAME, "password")]
    site.ask("PUT", f"environments/{environment}/properties", {"properties": properties})
    vault = "builtin:cobalt_secure_store"
    service = site.ask("POST", f"{within}/services", {"name": NAME, "typeId": vault, "parameters": {}})["id"]
    hook = site.ask("POST", f"{within}/webhooks", {"url": "http://127.0.0.1:9/x?<script>", "events": ["status", "job"]})
    instance = _instance(site, application, environment)
    asking = _asking(site, within, application, environment)
    revision = site.ask("POST", f"applications/{application}/revisions", {"name": NAME, "instanceId": instance})
    job = site.ask("GET", f"instances/{instance}")["workflowHistory"][0]["id"]
    family = site.ask("POST", f"{within}/applications", {"name": f"Family of {NAME}"[:255]})["id"]
    site.replace_manifest(family, json.dumps(_family(application)))
    root = f"/console/{within}"
    paths = {
        "sign in": "/console/signIn",
        "organizations": "/console/organizations",
        "overview": root,
        "instances": f"{root}/instances",
        "no instance": f"{root}/instances?name=nothing%3Cb%3E&status=Failed",
        "instance": f"/console/instances/{instance}",
        "job": f"/console/instances/{instance}/jobs/{job}",
        "reconfigure": f"/console/instances/{instance}/configuration",
        "extend or destroy": f"/console/instances/{instance}/end",
        "asking instance": f"/console/instances/{asking}",
        "approvals": f"{root}/approvals",
        "applications": f"{root}/applications",
        "application": f"/console/applications/{application}",
        "manifest": f"/console/applications/{application}/manifest",
        "launch": f"/console/applications/{application}/launch?revision={revision['id']}",
        "launch with submodules": f"/console/applications/{family}/launch",
        "delete application": f"/console/applications/{application}/delete",
        "environments": f"{root}/environments",
        "environment": f"/console/environments/{environment}",
        "delete environment": f"/console/environments/{environment}/delete",
        "services": f"{root}/services?type=builtin:static_resource_pool",
        "service": f"/console/services/{service}",
        "roles": f"{root}/roles?permission=Read&path=/applications/{application}",
        "role": f"/console/roles/{role['id']}",
        "users": f"{root}/users",
        "user": f"{root}/users/{user['id']}",
        "webhooks": f"{root}/webhooks",
        "webhook": f"{root}/webhooks/{hook['id']}",
        "audit": f"{root}/audit",
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
    deadline = time.monotonic() + 40
    while not site.ask("GET", f"{within}/approvals"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
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
