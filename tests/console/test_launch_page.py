"""The launch form: what it asks, what the environment gives, and what would start."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any

import httpx
import pytest

from launchbay.demo.command import sample_manifest
from launchbay.pages.launch import first_schedule, needs_of
from tests.support.manifests import compiled
from tests.support.pages import get
from tests.support.second_factors import post, shown
from tests.support.service import Api, accepted

FORM = {"lifetime": "-1"}
SHOP = """\
application:
  configuration: { input.size: 3 }
  interfaces:
    input:
      title: bind(web#input.title)
      size: bind(web#input.size)
      token: bind(web#input.token)
  components:
    web:
      type: workflow.Instance
      interfaces:
        input:
          title: { type: configuration(string), name: The title }
          size: configuration(int)
          token: configuration(string)
      configuration:
        input.token: a default
        configuration.schedule: { tidy: "0 30 3 * * ?" }
        configuration.workflows:
          launch:
            steps:
              - prepare: { action: wait, parameters: { delay: 0 } }
          tidy: { steps: [] }
          sweep: { steps: [] }
"""
PLACE = """\
application:
  components:
    place:
      type: reference.Service
      interfaces:
        gpu: { gpu: publish-signal(unit) }
        properties: { region: publish-signal(string), api-token: publish-signal(string) }
    web:
      type: workflow.Instance
      required: [properties]
      interfaces: { properties: { region: consume-signal(string), api-token: consume-signal(string) } }
      configuration: { configuration.workflows: { launch: { steps: [] } } }
  bindings: [[web, place]]
"""


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, since these tests launch."""
    return working_service


async def test_the_form_says_what_is_missing_and_previews_what_would_start(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    application = await api.application(SHOP)
    path = f"/console/applications/{application}/launch"
    page = await get(visitor, path)
    assert "1 required, 2 optional" in page.text
    assert "Missing: The title." in page.text
    assert "field-error" not in page.answer.text, "nobody has sent anything yet"

    filled = await shown(visitor, path, **FORM, do="preview", **{"parameter:input.title": "Quay"})
    assert filled.status == 200
    assert re.search(r"<dt>Components</dt><dd>1 new</dd>\s*<dt>Steps</dt><dd>1 in 1 workflow</dd>", filled.answer.text)
    assert "<dt>Approvals</dt><dd>None</dd>" in filled.answer.text
    assert "<dt>First schedule</dt><dd>tidy in " in filled.answer.text

    wrong = await shown(
        visitor, path, **FORM, do="preview", **{"parameter:input.title": "Quay", "parameter:input.size": "many"}
    )
    assert "input.size: Expected" in wrong.text
    assert "<dt>Components</dt>" not in wrong.answer.text


async def test_the_command_line_says_what_the_form_says_without_secrets(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP, "Harbour shop of the command")
    path = f"/console/applications/{application}/launch"
    given = {
        "instanceName": "It's one",
        "parameter:input.title": "Old quay",
        "parameter:input.size": "7",
        "parameter:input.token": "nobody-may-read-this",
    }
    page = await shown(visitor, path, **FORM, do="preview", **given)
    [command] = re.findall(r"<pre [^>]*>(.*?)</pre>", page.answer.text)
    assert unescape(command) == (
        "launchbay launch 'Harbour shop of the command' --version 2 --destroy-interval never"
        """ --name 'It'"'"'s one' -p 'input.title=Old quay' -p input.size:=7 -p 'input.token=********'"""
    )
    assert "nobody-may-read-this" not in unescape(command)


async def test_the_form_says_what_to_do_if_the_name_exists(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application("launch: {steps: []}\n", "Harbour shop of the name")
    instance = await api.launch(application, instanceName="One and only")
    await api.settled(instance)
    path, sent = f"/console/applications/{application}/launch", {**FORM, "instanceName": "One and only"}

    refused_page = await shown(visitor, path, **sent, do="launch", ifExists="fail")
    assert refused_page.status == 400
    assert "'One and only' is the name of a living instance of 'Harbour shop of the name'" in refused_page.text
    assert instance in refused_page.text
    assert re.search('<option value="fail" selected>Refuse the launch', refused_page.answer.text)
    page = await shown(visitor, path, **sent, do="preview", ifExists="return")
    assert "Nothing is launched, and the instance stays as it is." in page.text
    assert "--if-exists return" in page.answer.text
    answer = await post(visitor, path, **sent, do="launch", ifExists="return")
    assert isinstance(answer, httpx.Response)
    assert answer.headers["location"] == f"/console/instances/{instance}"
    assert "Nothing was launched." in (await get(visitor, f"/console/instances/{instance}")).text


async def test_a_launch_says_how_long_the_last_ones_took(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP)
    path = f"/console/applications/{application}/launch"
    assert "Ready in about" not in (await get(visitor, path)).text
    answer = await post(visitor, path, **FORM, do="launch", **{"parameter:input.title": "Quay"})
    assert isinstance(answer, httpx.Response)
    instance = answer.headers["location"].rpartition("/")[2]
    assert (await api.settled(instance))["status"] == "Running"
    assert re.search(r"Ready in about \d.*from 1 launch, nine of ten within", (await get(visitor, path)).text)
    body = {"parameters": {"input.title": "Quay"}}
    preview = accepted(await api.post(f"applications/{application}/launch/preview", body))
    assert (preview["steps"], preview["approvals"], preview["estimate"]["launches"]) == (1, 0, 1)
    assert 0 <= preview["estimate"]["usualDurationMs"] <= preview["estimate"]["slowDurationMs"]


async def test_the_values_of_an_instance_fill_the_form_except_its_secrets(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP)
    given = {"input.title": "North quay", "input.token": "secret-of-the-first"}
    instance = await api.launch(application, parameters=given, instanceName="The first")
    path = f"/console/applications/{application}/launch"
    assert "Fill from The first" in (await get(visitor, path)).text
    page = await get(visitor, f"{path}?from={instance}")
    assert page.fields["parameter:input.title"] == "North quay"
    assert page.fields["from"] == instance
    assert "secret-of-the-first" not in page.answer.text
    answer = await post(visitor, path, **{**FORM, **page.fields, "do": "launch"})
    assert isinstance(answer, httpx.Response)
    second = answer.headers["location"].rpartition("/")[2]
    async with api.database.connection() as connection:
        statement = "SELECT parameters FROM instances WHERE id = %s"
        [stored] = await (await connection.execute(statement, [second])).fetchone() or ("",)
    assert "North quay" in stored
    assert "secret-of-the-first" not in stored


async def test_an_instance_of_another_application_fills_nothing(api: Api, visitor: httpx.AsyncClient) -> None:
    other = await api.launch(await api.application())
    page = await get(visitor, f"/console/applications/{await api.application(SHOP)}/launch?from={other}")
    assert page.status == 400
    assert "another application" in page.text


async def test_a_revision_and_an_older_version_are_chosen_in_one_place(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(SHOP)
    accepted(await api.put_yaml(f"applications/{application}/manifest", SHOP.replace("size", "width")))
    body = {"name": "spring", "version": 2, "parameters": {"input.title": "In spring"}}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    path = f"/console/applications/{application}/launch"
    page = await get(visitor, path)
    assert "parameter:input.width" in page.fields
    chosen = await shown(visitor, path, **FORM, do="fields", source=":2")
    assert "parameter:input.size" in chosen.fields
    assert '<option value=":2" selected>2</option>' in chosen.answer.text
    kept = await shown(visitor, path, **FORM, do="fields", source=f"{revision}:")
    assert f'<option value="{revision}:" selected>spring (revision)</option>' in kept.answer.text
    both = await get(visitor, f"{path}?revision={revision}&version=3")
    assert f'<option value="{revision}:3" selected>spring (revision) with version 3</option>' in both.answer.text
    assert both.fields["parameter:input.title"] == "In spring"


async def test_the_environment_shows_what_it_gives_and_what_it_lacks(api: Api, visitor: httpx.AsyncClient) -> None:
    properties: list[Mapping[str, Any]] = [
        {"name": "region", "type": "string", "value": "eu-north"},
        {"name": "api-token", "type": "string", "value": "not-for-anybody"},
    ]
    environment = await api.offer(properties=properties)
    application = await api.application(PLACE)
    path = f"/console/applications/{application}/launch"
    page = await shown(visitor, path, **FORM, do="preview", environmentId=environment)
    assert "<code>eu-north</code>" in page.answer.text
    assert "not-for-anybody" not in page.answer.text
    assert re.search(r"gpu</code></dt><dd>.*?Missing.*?marker, which this application needs", page.answer.text)
    assert "needs marker &#39;gpu&#39;" in page.answer.text


def test_a_need_that_nobody_requires_is_optional() -> None:
    needs = needs_of(compiled(PLACE.replace("required: [properties]", "required: []")), ["gpu"], {})
    assert [(need.name, need.value, need.is_required) for need in needs] == [
        ("gpu", "set", False),
        ("region", None, False),
        ("api-token", None, False),
    ]


def test_the_first_of_the_schedules_is_shown() -> None:
    manifest = compiled(SHOP.replace('tidy: "0 30 3 * * ?"', 'tidy: "0 30 3 * * ?", sweep: "0 0 2 * * ?"'))
    assert first_schedule(manifest, datetime(2026, 1, 1, tzinfo=UTC)) == (
        "sweep",
        datetime(2026, 1, 1, 2, tzinfo=UTC),
    )


async def test_the_application_of_the_demo_launches_with_defaults(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(sample_manifest("http://127.0.0.1:9"))
    page = await get(visitor, f"/console/applications/{application}/launch")
    assert "0 required, 2 optional" in page.text
    assert "<dt>Components</dt><dd>3 new</dd>" in page.answer.text
