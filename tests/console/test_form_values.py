"""Forms keep values as somebody wrote them: typed ones, and stored ones that are saved without a change."""

import json
from typing import Any

import httpx
import pytest

from launchbay.model.types import DOUBLE, INT, OBJECT, STRING, Type
from launchbay.model.values import CoercionError, coerce_text
from tests.support.forms import form_to, open_form
from tests.support.service import Api, accepted, fresh_name

MANIFEST = """\
application:
  interfaces:
    input:
      text: bind(worker#input.text)
      whole: bind(worker#input.whole)
      real: bind(worker#input.real)
      truth: bind(worker#input.truth)
      any: bind(worker#input.any)
      many: bind(worker#input.many)
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input:
          text: configuration(string)
          whole: configuration(int)
          real: configuration(double)
          truth: configuration(bool)
          any: configuration(object)
          many: configuration(list<string>)
      configuration:
        input.text: default
        input.whole: 5
        input.real: 5.5
        input.truth: true
        input.any: {}
        input.many: []
        configuration.workflows: {launch: {steps: []}}
"""
VERSION = 2  # the first one is empty
TEXTS = {
    "fraction": "1.10",
    "exponent": "1e3",
    "octal": "0400",
    "whole fraction": "7.0",
    "no": "no",
    "commit": "81e3421",
    "long digits": "12345678901234567890",
    "beyond a double": "1e400",
    "null": "~",
    "merge": "<<",
    "equals": "=",
    "date": "2026-01-01",
    "spaces": "  both sides  ",
    "spaces around a number": " 3 ",
    "only spaces": "   ",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u200f!",
    "markup": "</textarea><b>\"'&amp;",
    "large": "x" * 200_000,
}
LINES = {
    "lines": "one\ntwo\n",
    "first line empty": "\n\none",
    "only a line end": "\n",
}
NUMBERLIKE = ["1.10", "1e3", "0400", "7.0", "no", "81e3421", "12345678901234567890", "1e400"]
SOME = ["fraction", "exponent", "octal", "spaces", "only spaces", "large", "lines", "only a line end"]
PARAMETERS: dict[str, Type] = {
    "input.text": STRING,
    "input.whole": INT,
    "input.real": DOUBLE,
    "input.any": OBJECT,
}


@pytest.fixture(scope="module")
async def application(api: Api) -> str:
    return await api.application(MANIFEST)


async def _revision(api: Api, application: str, parameters: dict[str, Any]) -> str:
    body = {"name": fresh_name("spring"), "version": VERSION, "parameters": parameters}
    return str(accepted(await api.post(f"applications/{application}/revisions", body))["id"])


async def _parameters(api: Api, revision: str) -> Any:
    return accepted(await api.get(f"revisions/{revision}"))["parameters"]


@pytest.mark.parametrize("text", TEXTS | LINES)
async def test_a_revision_holds_what_was_typed_or_the_form_names_each_field(
    api: Api, visitor: httpx.AsyncClient, application: str, text: str
) -> None:
    revision = await _revision(api, application, {})
    page = f"/console/revisions/{revision}"
    form = await open_form(visitor, page, page)
    wanted: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name, declared in PARAMETERS.items():
        sent = form.fill(f"parameter:{name}", (TEXTS | LINES)[text]).value(f"parameter:{name}")
        try:
            wanted |= {name: coerce_text(declared, sent)} if sent.strip() else {}
        except CoercionError:
            wrong[name] = sent
    answer = await form.send(visitor)
    if wrong:
        assert answer.status_code == 400
        form = form_to(answer, page)
        assert await _parameters(api, revision) == {}
        for name, sent in wrong.items():
            assert form.value(f"parameter:{name}") == sent
            assert f'id="parameter:{name}-error"' in answer.text
            form.fill(f"parameter:{name}", "")
        answer = await form.send(visitor)
    assert answer.status_code == 303, answer.text
    assert await _parameters(api, revision) == wanted


STORED: dict[str, Any] = {
    **TEXTS,
    **LINES,
    "empty": "",
    "line ends of Windows": "one\r\ntwo\r\n",
    "text of a number": "7",
    "text of JSON": '{"a": 1.10}',
    "text of null": "null",
    "text of a boolean": "true",
}


@pytest.mark.parametrize("text", STORED)
async def test_a_revision_that_is_saved_without_a_change_stays(
    api: Api, visitor: httpx.AsyncClient, application: str, text: str
) -> None:
    value = STORED[text]
    given = {"input.text": value, "input.any": value, "input.many": [value], "input.truth": False, "input.whole": -0}
    revision = await _revision(api, application, given)
    before = accepted(await api.get(f"revisions/{revision}"))
    page = f"/console/revisions/{revision}"
    answer = await (await open_form(visitor, page, page)).send(visitor)
    assert answer.status_code == 303, answer.text
    assert accepted(await api.get(f"revisions/{revision}")) == before
    assert before["parameters"] == given


@pytest.mark.parametrize("value", [7, 1.1, 1e16, 2**53 + 1, True, None, [], {}, {"a": [1.0, "1.10", None]}])
async def test_a_value_of_any_type_keeps_its_type_when_it_is_saved_without_a_change(
    api: Api, visitor: httpx.AsyncClient, application: str, value: Any
) -> None:
    revision = await _revision(api, application, {"input.any": value})
    page = f"/console/revisions/{revision}"
    assert (await (await open_form(visitor, page, page)).send(visitor)).status_code == 303
    assert json.dumps(await _parameters(api, revision)) == json.dumps({"input.any": value})


async def test_a_launch_from_a_revision_has_its_values(api: Api, visitor: httpx.AsyncClient, application: str) -> None:
    given = {"input.text": "one\n\ntwo\n", "input.any": "7", "input.many": ["\n1.10"]}
    revision = await _revision(api, application, given)
    page = f"/console/applications/{application}/launch"
    answer = await (await open_form(visitor, f"{page}?revision={revision}", page)).send(visitor, do="launch")
    assert answer.status_code == 303, answer.text
    instance = answer.headers["location"].rpartition("/")[2]
    made = accepted(await api.get(f"instances/{instance}"))
    assert {name: made["parameters"][name] for name in given} == given
    # A reconfiguration that changes nothing finds no difference.
    page = f"/console/instances/{instance}/configuration"
    form = await open_form(visitor, page, page)
    assert form.value("parameter:input.text") == given["input.text"]


@pytest.mark.parametrize("text", SOME)
async def test_a_property_holds_what_was_typed_and_stays_when_saved_without_a_change(
    api: Api, visitor: httpx.AsyncClient, text: str
) -> None:
    typed = (TEXTS | LINES)[text]
    body = {"name": fresh_name("Quay")}
    made = accepted(await api.post(f"organizations/{api.organization}/environments", body))["id"]
    page = f"/console/environments/{made}"
    form = await open_form(visitor, page, f"{page}/properties")
    form.fill("name", "as string").fill("value", typed)
    form.fill("name", "as any", 1).fill("type", "object", 1).fill("value", typed, 1)
    one_line = form.value("value")
    answer = await form.send(visitor)
    assert answer.status_code == 303, answer.text
    kept = {"as string": one_line, "as any": coerce_text(OBJECT, one_line)}
    assert await _properties(api, made) == kept
    stored: list[dict[str, Any]] = [
        {"name": "as string", "type": "string", "value": typed},
        {"name": "as any", "type": "object", "value": typed},
        {"name": "text of a number", "type": "object", "value": "7"},
        {"name": "listed", "type": "list<string>", "value": [typed, "1.10"]},
    ]
    accepted(await api.put(f"environments/{made}/properties", {"properties": stored}))
    form = await open_form(visitor, page, f"{page}/properties")
    assert (await form.send(visitor)).status_code == 303
    assert await _properties(api, made) == {each["name"]: each["value"] for each in stored}


async def _properties(api: Api, environment: str) -> dict[str, Any]:
    found = accepted(await api.get(f"environments/{environment}/properties"))["properties"]
    return {each["name"]: each["value"] for each in found}


async def test_a_property_that_is_a_list_of_strings_keeps_the_texts_of_numbers(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    body = {"name": fresh_name("Quay")}
    made = accepted(await api.post(f"organizations/{api.organization}/environments", body))["id"]
    page = f"/console/environments/{made}"
    form = await open_form(visitor, page, f"{page}/properties")
    form.fill("name", "versions").fill("type", "list<string>").fill("value", '[1.10, 1e3, "0400"]')
    assert (await form.send(visitor)).status_code == 303
    assert await _properties(api, made) == {"versions": ["1.10", "1e3", "0400"]}
    # What can't be a value of the type is refused, and stays in the form.
    form = await open_form(visitor, page, f"{page}/properties")
    form.fill("name", "size", 1).fill("type", "int", 1).fill("value", "1.10", 1)
    answer = await form.send(visitor)
    assert answer.status_code == 400
    assert "property &#39;size&#39;" in answer.text
    assert form_to(answer, f"{page}/properties").value("value", 1) == "1.10"
    assert await _properties(api, made) == {"versions": ["1.10", "1e3", "0400"]}


async def test_policies_and_notes_that_are_saved_without_a_change_stay(
    api: Api, visitor: httpx.AsyncClient, application: str
) -> None:
    body = {"name": fresh_name("Quay")}
    made = accepted(await api.post(f"organizations/{api.organization}/environments", body))["id"]
    policies = {f"restcall.p{place}": text for place, text in enumerate(NUMBERLIKE)}
    accepted(await api.put_yaml(f"environments/{made}", json.dumps({"policies": policies})))
    before = (await api.get(f"environments/{made}")).text
    page = f"/console/environments/{made}"
    assert (await (await open_form(visitor, page, f"{page}/policies")).send(visitor)).status_code == 303
    assert (await api.get(f"environments/{made}")).text == before
    instance = await api.launch(application)
    notes = {**STORED, "large": "x" * 1_000, "number": 1.0, "whole": 2**53 + 1, "none": None, "list": [1.1, {}]}
    accepted(await api.put(f"instances/{instance}/userData", notes))
    page = f"/console/instances/{instance}"
    form = await open_form(visitor, f"{page}/settings", f"{page}/userData")
    assert (await form.send(visitor)).status_code == 303
    assert json.dumps((await api.document(instance))["userData"]) == json.dumps(notes)


@pytest.mark.parametrize("text", NUMBERLIKE)
async def test_policies_and_labels_hold_what_was_typed(
    api: Api, visitor: httpx.AsyncClient, application: str, text: str
) -> None:
    body = {"name": fresh_name("Quay")}
    made = accepted(await api.post(f"organizations/{api.organization}/environments", body))["id"]
    page = f"/console/environments/{made}"
    form = (await open_form(visitor, page, f"{page}/policies")).fill(
        "policies", f"policies:\n  restcall.mark: {text}\n"
    )
    assert (await form.send(visitor)).status_code == 303
    found = (await api.get(f"environments/{made}")).text
    assert found in {f"policies:\n  restcall.mark: {quote}{text}{quote}\n" for quote in ("'", '"', "")}
    again = await open_form(visitor, page, f"{page}/policies")
    assert (await again.send(visitor)).status_code == 303
    assert (await api.get(f"environments/{made}")).text == found
    instance = await api.launch(application)
    page = f"/console/instances/{instance}"
    form = (await open_form(visitor, f"{page}/settings", f"{page}/labels")).fill("labels", f"mark={text} bare")
    assert (await form.send(visitor)).status_code == 303
    labels = accepted(await api.get(f"instances/{instance}/labels"))
    assert labels == {"mark": text, "bare": ""}
    assert (await (await open_form(visitor, f"{page}/settings", f"{page}/labels")).send(visitor)).status_code == 303
    assert accepted(await api.get(f"instances/{instance}/labels")) == labels


async def test_a_manifest_keeps_the_empty_lines_at_its_beginning(api: Api, visitor: httpx.AsyncClient) -> None:
    text = "\n\n" + MANIFEST + "\n\n"
    application = await api.application(text)
    stored = (await api.get(f"applications/{application}/manifest")).text
    page = f"/console/applications/{application}/manifest"
    form = await open_form(visitor, page, page)
    assert (await form.send(visitor)).status_code == 303
    assert (await api.get(f"applications/{application}/manifest")).text == stored


@pytest.mark.features("git_sources")
async def test_parameters_of_previews_keep_their_numbers(api: Api, visitor: httpx.AsyncClient) -> None:
    organization = f"organizations/{api.organization}"
    account = {"name": fresh_name("robot"), "roles": ["Administrator"]}
    vault = {"name": fresh_name("vault"), "typeId": "builtin:cobalt_secure_store", "parameters": {}}
    kept = accepted(await api.post(f"{organization}/services", vault))["id"]
    accepted(await api.post(f"services/{kept}/set-secret", {"arguments": {"name": "hook", "value": "hush-hush-1"}}))
    body = {
        "name": fresh_name("shop"),
        "accountId": accepted(await api.post(f"{organization}/serviceAccounts", account))["id"],
        "applicationId": await api.application(MANIFEST),
        "url": "https://git.example.org/x",
        "path": "m.yaml",
        "forge": "gitea",
        "vault": kept,
        "webhookSecret": "hook",
        "previews": {"environmentId": api.environment, "lifetimeMs": 86_400_000},
    }
    source = accepted(await api.post(f"{organization}/git-sources", body))["id"]
    page = f"/console/{organization}/git-sources/{source}/settings"
    form = await open_form(visitor, page, page)
    form.fill("preview_parameters", '{"input.text": 1.10, "input.any": "1.10", "input.real": 1e3}')
    assert (await form.send(visitor)).status_code == 303
    before = (await api.get(f"git-sources/{source}")).text.partition('"previews"')[2].partition("}")[0]
    assert '"input.any":"1.10"' in before
    assert (await (await open_form(visitor, page, page)).send(visitor)).status_code == 303
    assert before in (await api.get(f"git-sources/{source}")).text


@pytest.mark.parametrize("text", SOME)
async def test_a_service_holds_what_was_typed_and_stays_when_saved_without_a_change(
    api: Api, visitor: httpx.AsyncClient, text: str
) -> None:
    typed = (TEXTS | LINES)[text]
    given = {"configuration.provider": "aws-ec2", "configuration.identity": "me", "configuration.credential": "key"}
    body = {"typeId": "builtin:cloud_account", "name": fresh_name("cloud"), "parameters": given}
    made = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    page, name = f"/console/services/{made}", "configuration.legacy-security-group"
    form = (await open_form(visitor, page, page)).fill(f"parameter:{name}", typed)
    one_line = form.value(f"parameter:{name}")
    assert (await form.send(visitor)).status_code == 303
    found = accepted(await api.get(f"services/{made}"))["parameters"]
    assert found.get(name) == (one_line if one_line.strip() else None)
    accepted(await api.put(f"services/{made}", {"parameters": {name: typed}}))
    before = accepted(await api.get(f"services/{made}"))
    assert before["parameters"][name] == typed
    assert (await (await open_form(visitor, page, page)).send(visitor)).status_code == 303
    assert accepted(await api.get(f"services/{made}")) == before
