"""Parameters without a type on each form of the console: the field says what it takes, and JSON becomes its value."""

import json

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.pages import Page, get, words_of
from tests.support.second_factors import post
from tests.support.service import Api, accepted, fresh_name

# Texts by parameters without a type, and their values.
TEXTS = {
    "text": "quiet quay",
    "map": '{"a": [1, null]}',
    "list": "[]",
    "number": "7",
    "truth": "true",
    "version": "1.10",
    "large": "1e3",
    "agent": "007",
    "quoted": '"7"',
}
VALUES = {
    "text": "quiet quay",
    "map": {"a": [1, None]},
    "list": [],
    "number": 7,
    "truth": True,
    "version": "1.10",
    "large": "1e3",
    "agent": "007",
    "quoted": '"7"',
}
_PARAMETERS = ", ".join(f"{{{name}: {{default: calm}}}}" for name in TEXTS)
_RETURNED = ", ".join(f'{name}: {{value: "{{$.{name}}}"}}' for name in TEXTS)
MANIFEST = f"""\
launch: {{parameters: [{_PARAMETERS}], steps: [], return: {{{_RETURNED}}}}}
take: {{parameters: [{_PARAMETERS}], steps: [], return: {{{_RETURNED}}}}}
"""
_BOUND = ", ".join(f"{name}: bind(web#input.{name})" for name in (*TEXTS, "tag"))
_TYPES = ", ".join(f"{name}: configuration(object)" for name in TEXTS)
TYPED = f"""\
application:
  interfaces: {{input: {{{_BOUND}}}}}
  components:
    web:
      type: workflow.Instance
      interfaces: {{input: {{{_TYPES}, tag: configuration(string)}}}}
      configuration:
        input.tag: "1.0"
        configuration.triggers: {{input.text: update}}
        configuration.workflows: {{launch: {{steps: []}}, update: {{steps: []}}}}
"""
CALM = {f"input.{name}": "calm" for name in TEXTS}
# A schedule and a bulk run have one field for all parameters.
JSON = '{"input.map": {"a": 1.10}, "input.tag": 1.10, "input.number": 7}'
OF_JSON = {"input.map": {"a": 1.1}, "input.tag": "1.10", "input.number": 7}
TAKES = "Takes text or JSON"


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


def hint(page: Page, name: str) -> str:
    """Return what the page says below a field, which names it as its description."""
    assert f'aria-describedby="{name}-hint' in page.answer.text
    return words_of(page.answer.text.partition(f'<p class="hint" id="{name}-hint">')[2].partition("</p>")[0])


def fields(prefix: str) -> dict[str, str]:
    """Return the texts as a form sends them."""
    return {f"{prefix}{name}": text for name, text in TEXTS.items()}


async def sent(visitor: httpx.AsyncClient, path: str, **fields: str) -> str:
    """Send a form that is accepted, and return where it leads."""
    answer = await post(visitor, path, **fields)
    assert isinstance(answer, httpx.Response), answer.text
    return str(answer.headers["location"])


async def test_a_launch_takes_text_or_json(api: Api, visitor: httpx.AsyncClient) -> None:
    path = f"/console/applications/{await api.application(MANIFEST)}/launch"
    page = await get(visitor, path)
    assert all(TAKES in hint(page, f"parameter:{name}") for name in TEXTS)
    target = await sent(visitor, path, lifetime="-1", do="launch", **fields("parameter:"))
    assert (await api.settled(target.rpartition("/")[2]))["returnValues"] == VALUES


async def test_a_workflow_takes_text_or_json(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(MANIFEST)
    path = f"/console/instances/{instance}/run"
    page = await get(visitor, path)
    assert all(TAKES in hint(page, f"argument:take:{name}") for name in TEXTS)
    await sent(visitor, path, workflow="take", do="run", **fields("argument:take:"))
    assert (await api.settled(instance))["returnValues"] == VALUES


async def test_a_revision_takes_text_or_json(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(MANIFEST)
    base = f"/console/applications/{application}/revisions"
    page = await get(visitor, f"{base}/new")
    assert all(TAKES in hint(page, f"parameter:{name}") for name in TEXTS)
    await sent(visitor, base, name="spring", version="2", **fields("parameter:"))
    [made] = accepted(await api.get(f"applications/{application}/revisions"))
    assert accepted(await api.get(f"revisions/{made['id']}"))["parameters"] == VALUES


async def test_a_reconfiguration_takes_text_or_json(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(TYPED, parameters=CALM)
    path = f"/console/instances/{instance}/configuration"
    preview = await post(visitor, path, do="preview", **fields("parameter:input."))
    assert isinstance(preview, Page)
    assert all(TAKES in hint(preview, f"parameter:input.{name}") for name in TEXTS)
    shown = preview.answer.text.partition('value="apply ')[2].partition('"')[0]
    await sent(visitor, path, do=f"apply {shown}", **fields("parameter:input."))
    await api.settled(instance)
    changed = {f"input.{name}": value for name, value in VALUES.items()}
    assert (await api.document(instance))["parameters"] == changed | {"input.tag": "1.0"}


@pytest.mark.features("bulk")
async def test_json_for_many_instances_keeps_how_a_number_is_written(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running(TYPED, parameters=CALM)
    home = f"/console/organizations/{api.organization}/bulk"
    assert "A JSON object" in hint(await get(visitor, f"{home}/new?act=reconfigure&id={instance}"), "parameters")
    begun = await sent(visitor, home, act="reconfigure", id=instance, parameters=JSON, do="begin")
    await eventually(lambda: get(visitor, begun), lambda found: "Finished" in found.text)
    await api.settled(instance)
    assert (await api.document(instance))["parameters"] == CALM | OF_JSON


@pytest.mark.slow  # no schedule fires more often than every ten seconds
async def test_json_of_a_schedule_keeps_how_a_number_is_written(api: Api, visitor: httpx.AsyncClient) -> None:
    application = await api.application(TYPED)
    home = f"/console/organizations/{api.organization}/recurring"
    assert "A JSON object" in hint(await get(visitor, f"{home}/new?application={application}"), "parameters")
    given = json.dumps(CALM | {"input.tag": 0}).replace('"input.tag": 0', '"input.tag": 1.10')
    form = {"application": application, "lifetime": "-1", "cron": "*/10 * * * * ?", "zone": "UTC", "do": "create"}
    made = await sent(visitor, home, name=fresh_name("often"), parameters=given, **form)
    firings = (await eventually(lambda: api.read(f"recurring-schedules/{made[-24:]}"), lambda found: found["firings"]))[
        "firings"
    ]
    accepted(await api.post(f"recurring-schedules/{made[-24:]}/pause"))
    assert (await api.settled(firings[0]["instanceId"]))["parameters"] == CALM | {"input.tag": "1.10"}
