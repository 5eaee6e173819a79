"""Rules that warn: every door shows the warning, and the change happens."""

import re
from html import unescape
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.forms import open_form
from tests.support.pages import get, words_of
from tests.support.service import Api, accepted

SAID = "Think twice. (rule 'think', version 1 of the rules of the environment"
RULES = "- name: think\n  when: true\n  warn: Think twice.\n"
MANIFEST = """
smoke: { steps: [] }
launch:
  parameters: { servers: { type: int, default: 1 } }
  steps: []
destroy: { steps: [] }
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def warned(api: Api) -> tuple[str, str, str]:
    """Return an application, an environment whose rule warns, and an instance that was there before."""
    environment, application = await api.offer(), await api.application(MANIFEST)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": RULES}))
    return application, environment, instance


def warning_of(answer: httpx.Response) -> str:
    accepted(answer)
    return str(answer.headers.get("launchbay-warnings", ""))


async def test_the_api_warns_of_a_launch_a_reconfiguration_a_schedule_and_a_change_set(api: Api) -> None:
    application, environment, instance = await warned(api)
    launch = {"environmentId": environment}
    assert SAID in warning_of(await api.post(f"applications/{application}/launch", launch))
    changed = await api.put(f"instances/{instance}/configuration", {"parameters": {"servers": 2}})
    assert SAID in warning_of(changed)
    await api.settled(instance)
    assert SAID in warning_of(await api.post(f"instances/{instance}/smoke/schedule", {"interval": "3600000"}))
    body = {"act": "launch", "applicationId": application, "launch": launch}
    made = await api.post(f"organizations/{api.organization}/change-sets", body)
    assert SAID in str(accepted(made)) or SAID in warning_of(made)
    assert SAID in warning_of(await api.post(f"change-sets/{accepted(made)['id']}/apply"))


async def test_the_console_warns_after_a_form(api: Api, visitor: httpx.AsyncClient) -> None:
    application, environment, _ = await warned(api)
    page = f"/console/applications/{application}/launch"
    form = (await open_form(visitor, page, page)).fill("environmentId", environment)
    sent = await form.send(visitor, do="launch")
    assert sent.status_code == 303, words_of(sent.text)
    shown = (await get(visitor, sent.headers["location"])).answer.text
    [toast] = re.findall(r"data-toast><span>(.*?)</span>", shown)
    assert unescape(toast).startswith(f"Launch started. Warning: {SAID}")


ODD = "launch: {steps: [{one: {action: wait, parameters: {dealy: 1, delay: 0}}}]}"


async def test_an_upload_says_what_rules_warn_of_as_findings_without_a_place(api: Api) -> None:
    application = await api.application(MANIFEST)
    path = f"applications/{application}/manifest"
    plain = accepted(await api.put_yaml(f"{path}?include=warnings", MANIFEST))
    assert set(plain) == {"version"}
    accepted(await api.put(f"applications/{application}/change-rules", {"rules": RULES}))
    answer = await api.put_yaml(f"{path}?include=warnings", ODD)
    assert "Think twice. (rule 'think'" in warning_of(answer)
    document = accepted(answer)
    finding, said = document["warnings"]
    assert finding["code"] == "UnknownStepParameter"
    assert said["message"].startswith("Think twice. (rule 'think'")
    assert (said["line"], said["column"], said["code"]) == (0, 0, "RequestWarning")
    assert set(accepted(await api.put_yaml(path, MANIFEST))) == {"version"}


async def recorded(api: Api, instance: str) -> list[dict[str, Any]]:
    """Return what the audit log says of warnings about an instance."""
    path = f"organizations/{api.organization}/audit?object={instance}&action=receive_rule_warning"
    return [each["after"] for each in accepted(await api.get(path))]


async def test_activity_keeps_what_rules_warned_of_also_what_nobody_sees_at_the_time(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    _, environment, instance = await warned(api)
    rules = "- name: runs\n  when: $.kind == 'run'\n  warn: Mind the runs.\n"
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": rules}))
    accepted(await api.post(f"instances/{instance}/smoke"))
    await api.settled(instance)
    body = {"act": "run", "workflow": "smoke", "parameters": {}, "select": {"environment": environment}}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]
    await eventually(lambda: api.read(f"bulk/{bulk}"), lambda found: found["finishedAt"] is not None)
    later, at_once = await recorded(api, instance)
    assert later == at_once
    assert at_once["operation"] == "run_workflow"
    assert at_once["warnings"][0].startswith("Mind the runs. (rule 'runs'")
    page = (await get(visitor, f"/console/organizations/{api.organization}/audit?object={instance}")).answer.text
    assert words_of(page).count("was warned by a rule about") == 2
    assert "Mind the runs." in words_of(page)


async def test_an_entry_keeps_the_first_of_many_warnings(api: Api) -> None:
    _, environment, instance = await warned(api)
    rules = "".join(f"- name: r{n}\n  when: true\n  warn: Reason {n}.\n" for n in range(25))
    accepted(await api.put(f"environments/{environment}/change-rules", {"rules": rules}))
    accepted(await api.post(f"instances/{instance}/smoke"))
    [entry] = await recorded(api, instance)
    assert entry["warnings"][0].startswith("Reason 0.")
    assert (len(entry["warnings"]), entry["warnings"][-1]) == (20, "and 6 others")


async def test_a_change_of_a_service_that_many_environments_offer_has_one_entry(api: Api) -> None:
    body: dict[str, Any] = {"name": "pool", "typeId": "builtin:static_resource_pool"}
    body["parameters"] = {"configuration.resources": ["a"]}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    for each in ("One.", "Two."):
        environment = await api.offer()
        accepted(await api.put(f"environments/{environment}/services", {"services": [service]}))
        text = f"- name: pool\n  when: $.kind == 'service'\n  warn: {each}\n"
        accepted(await api.put(f"environments/{environment}/change-rules", {"rules": text}))
    both = "- name: all\n  when: $.kind == 'service'\n  warn: Both.\n"
    home = f"organizations/{api.organization}/change-rules"
    accepted(await api.put(home, {"rules": both}))
    accepted(await api.put(f"services/{service}", {"parameters": {"configuration.resources": ["b"]}}))
    accepted(await api.put(home, {"rules": ""}))
    path = f"organizations/{api.organization}/audit?object=/services/{service}&action=receive_rule_warning"
    [entry] = accepted(await api.get(path))
    assert sorted(each.split()[0] for each in entry["after"]["warnings"]) == ["Both.", "One.", "Two."]
