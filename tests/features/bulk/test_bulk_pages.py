"""One act on many instances, from the list of instances to the result of each."""

import re
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.pages import ORIGIN, Page, browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person

BREAKS = """\
launch: {steps: []}
break:
  steps: [{call: {action: restcall, parameters: {command: "not a URL"}}}]
"""
CONVERTS = """\
application:
  interfaces: {actions: {convert: bind(web#actions.convert)}}
  components:
    web:
      type: workflow.Instance
      interfaces: {actions: {convert: "receive-command(string format, int delay)"}}
      configuration:
        configuration.workflows:
          launch: {steps: []}
          convert:
            parameters: [{format: {default: XLS}}, {delay: {default: 1}}]
            steps:
              - write: {action: serialize, parameters: {input: 1, format: "{$.format}"}}
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def _instances(api: Api, number: int) -> list[str]:
    application = await api.application(BREAKS)
    found = [await api.launch(application, instanceName=fresh_name("boat")) for _ in range(number)]
    for instance in found:
        await api.settled(instance)
    return found


async def _sent(visitor: httpx.AsyncClient, path: str, page: Page, **fields: Any) -> httpx.Response:
    form = {"formToken": page.fields["formToken"], **fields}
    return await visitor.post(path, data=form, headers={"Origin": ORIGIN})


async def _ended(visitor: httpx.AsyncClient, path: str) -> Page:
    return await eventually(lambda: get(visitor, path), lambda page: "Finished" in page.text)


@pytest.mark.slow
async def test_rows_are_selected_and_their_workflow_runs_with_one_reason_for_all_failures(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instances = await _instances(api, 2)
    home = f"/console/organizations/{api.organization}"
    listed = await get(visitor, f"{home}/instances")
    for instance in instances:
        assert f'<input type="checkbox" name="id" value="{instance}"' in listed.answer.text
    chosen = "&".join(f"id={each}" for each in instances)
    form = await get(visitor, f"{home}/bulk/new?act=run&{chosen}")
    assert "Run 2 instances" in form.text
    begun = await _sent(visitor, f"{home}/bulk", form, act="run", id=instances, workflow="break", do="begin")
    assert begun.status_code == 303, begun.text
    page = await _ended(visitor, begun.headers["location"])
    assert "2 failed for one reason:" in page.text
    assert "Try 2 again" in page.text
    for instance in instances:
        [job] = [each["id"] for each in (await api.document(instance))["workflowHistory"] if each["name"] == "break"]
        assert f"/console/instances/{instance}/jobs/{job}#log" in page.links
    again = await get(visitor, next(link for link in page.links if "bulk/new?from=" in link))
    assert again.fields["workflow"] == "break"
    assert re.findall(r'name="id" value="(\w+)"', again.answer.text) == instances
    assert "Run break on 2 instances" in (await get(visitor, f"{home}/bulk")).text
    only_failed = await get(visitor, f"{begun.headers['location']}?status=Succeeded")
    assert f"/console/instances/{instances[0]}" not in only_failed.answer.text.partition('aria-label="Instances"')[2]


async def test_labels_are_shown_before_and_after_for_all_that_match_a_query(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instances = await _instances(api, 2)
    crew = fresh_name("crew").replace(" ", "-")
    for instance in instances:
        accepted(await api.put(f"instances/{instance}/labels", {"crew": crew, "old": "yes"}))
    home = f"/console/organizations/{api.organization}"
    form = await get(visitor, f"{home}/bulk/new?act=label&all=1&q=label:crew={crew}")
    assert "Label 2 instances" in form.text
    fields = {"act": "label", "all": "1", "q": f"label:crew={crew}", "labels": "tier=db\n-old"}
    preview = Page(await _sent(visitor, f"{home}/bulk", form, **fields, do="preview"))
    assert preview.status == 200
    table = preview.answer.text.partition('id="preview"')[2]
    assert ">old=yes<" in table.partition("After")[2]
    assert ">tier=db<" in table
    assert accepted(await api.get(f"instances/{instances[0]}/labels")) == {"crew": crew, "old": "yes"}
    begun = await _sent(visitor, f"{home}/bulk", form, **fields, do="begin")
    page = await _ended(visitor, begun.headers["location"])
    assert "2 of 2 done" in page.text
    for instance in instances:
        assert accepted(await api.get(f"instances/{instance}/labels")) == {"crew": crew, "tier": "db"}


async def _failed(api: Api, manifest: str, workflow: str) -> str:
    instance = await api.running(manifest)
    await api.run(instance, workflow)
    return instance


async def test_failed_runs_are_resumed_with_fields_which_say_what_workflow_takes_them(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    converts, breaks = await _failed(api, CONVERTS, "actions.convert"), await _failed(api, BREAKS, "break")
    home = f"/console/organizations/{api.organization}"
    form = await get(visitor, f"{home}/bulk/new?act=resume&id={converts}&id={breaks}")
    assert {name for name in form.fields if name.startswith("argument:")} == {"argument:format", "argument:delay"}
    assert "format string" in " ".join(form.text.split())
    assert "Default: XLS" in form.text
    assert "Only for actions.convert of " in form.text
    alone = await get(visitor, f"{home}/bulk/new?act=resume&id={converts}")
    assert "argument:format" in alone.fields
    assert "Only for" not in alone.text
    none = await get(visitor, f"{home}/bulk/new?act=resume&id={breaks}")
    assert (none.status, [name for name in none.fields if name.startswith("argument:")]) == (200, [])
    fields = {"act": "resume", "id": [converts, breaks], "argument:format": "JSON"}
    wrong = Page(await _sent(visitor, f"{home}/bulk", form, **{**fields, "argument:delay": "soon"}, do="begin"))
    assert (wrong.status, wrong.fields["argument:format"], wrong.fields["argument:delay"]) == (400, "JSON", "soon")
    assert "Fix the highlighted field: " in wrong.text
    unknown = Page(await _sent(visitor, f"{home}/bulk", form, **{**fields, "argument:size": "3"}, do="begin"))
    assert unknown.status == 400
    assert "None of these runs takes a parameter 'size'" in unknown.text
    begun = await _sent(visitor, f"{home}/bulk", form, **fields, do="begin")
    page = await _ended(visitor, begun.headers["location"])
    assert "2 of 2 done" in page.text
    [converted] = [each["status"] for each in accepted(await api.get(f"instances/{converts}/jobs?limit=1"))]
    assert converted == "Succeeded"
    # The other run failed for its own reason: the parameter wasn't sent to it.
    assert "has no parameter" not in page.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"act": "run", "workflow": ""}, "needs a workflow"),
        ({"act": "label", "labels": " "}, "Enter one per line"),
        ({"act": "extend", "lifetime": "other", "minutes": "soon"}, "Enter a number of minutes"),
        ({"act": "reconfigure", "version": "newest"}, "Expected a whole number"),
        ({"act": "sink"}, "Choose what to do"),
    ],
)
async def test_a_wrong_field_shows_the_form_again_and_begins_nothing(
    api: Api, visitor: httpx.AsyncClient, fields: dict[str, str], message: str
) -> None:
    [instance] = await _instances(api, 1)
    home = f"/console/organizations/{api.organization}"
    before = accepted(await api.get(f"organizations/{api.organization}/bulk"))
    form = await get(visitor, f"{home}/bulk/new?act=resume&id={instance}")
    page = Page(await _sent(visitor, f"{home}/bulk", form, id=instance, do="begin", **fields))
    assert page.status == 400
    assert message in page.text
    assert page.fields["id"] == instance, "the selection is kept"
    assert "of 1 instance." in page.text
    assert accepted(await api.get(f"organizations/{api.organization}/bulk")) == before


async def test_a_bulk_run_is_paused_continued_and_cancelled_by_who_may(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(
        "launch: {steps: []}\nrest: {steps: [{rest: {action: wait, parameters: {delay: 600}}}]}\n"
    )
    instances = [await api.launch(application) for _ in range(2)]
    for instance in instances:
        await api.settled(instance)
    body = {"act": "run", "workflow": "rest", "ids": instances, "maxParallel": 1}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]
    path = f"/console/organizations/{api.organization}/bulk/{bulk}"
    page = await get(visitor, path)
    for act, status in (("pause", "Paused"), ("continue", "Running"), ("cancel", "Cancelled")):
        assert (await _sent(visitor, path, page, do=act)).status_code == 303
        assert accepted(await api.get(f"bulk/{bulk}"))["status"] == status
    ended = await get(visitor, path)
    assert "Cancelled by" in ended.text
    for instance in instances:
        for job in (await api.document(instance))["workflowHistory"]:
            if job["status"] == "Executing":
                accepted(await api.delete(f"instances/{instance}/jobs/{job['id']}"))


async def test_nothing_can_be_selected_by_who_may_only_read(api: Api) -> None:
    someone = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/organizations/{api.organization}/instances")
        assert page.status == 200
        assert 'name="id"' not in page.answer.text
        assert "data-bulk" not in page.answer.text


@pytest.mark.slow
async def test_messages_of_failed_jobs_hide_the_secrets_of_the_instance(api: Api) -> None:
    secret = "quay-side-pass-phrase"
    manifest = """\
application:
  interfaces:
    input: { secret-password: bind(web#input.secret-password) }
    actions: { break: bind(web#actions.break) }
  components:
    web:
      type: workflow.Instance
      interfaces:
        input: { secret-password: configuration(string) }
        actions: { break: receive-command() }
      configuration:
        input.secret-password: none
        configuration.workflows:
          launch: { steps: [] }
          break: { steps: [ { call: { action: wait, parameters: { delay: "{$.secret-password}" } } } ] }
"""
    instance = await api.running(manifest, parameters={"input.secret-password": secret})
    body = {"act": "run", "workflow": "actions.break", "ids": [instance]}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]
    await eventually(lambda: api.read(f"bulk/{bulk}"), lambda found: found["finishedAt"] is not None)
    [outcome] = accepted(await api.get(f"bulk/{bulk}/instances"))
    assert outcome["status"] == "Failed"
    assert "********" in outcome["message"]
    assert secret not in outcome["message"]
