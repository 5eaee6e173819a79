"""The fields of submodules on the forms of a launch and a reconfiguration."""

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.console.fields import (
    Field,
    field_text,
    fill_fields,
    launch_fields,
    string_values,
    values,
    with_errors,
    workflow_fields,
)
from launchbay.console.forms import Form
from launchbay.model.scalars import same
from launchbay.model.types import BOOL, INT, OBJECT, STRING, Type
from tests.support.manifests import DEPOT, SHELF, SHOP, compiled
from tests.support.pages import browser
from tests.support.service import EMAIL, PASSWORD, Api, accepted, person

MANIFEST = """\
application:
  configuration: { input.size: 3 }
  interfaces:
    input: { size: bind(web#input.size), title: bind(web#input.title), password: bind(web#input.password) }
    actions: { grow: bind(web#actions.grow) }
  components:
    web:
      type: workflow.Instance
      interfaces:
        input:
          size: configuration(int)
          title: { type: configuration(string), name: The title, suggestions: { Short: a, Long: aaaa } }
          password: configuration(string)
        actions: { grow: receive-command(int count) }
      configuration:
        input.password: not for everybody
        configuration.workflows:
          launch: { steps: [] }
          grow: { parameters: [ { count: { default: 2, description: How many } } ], steps: [] }
"""


def by_name(fields: list[Field]) -> dict[str, Field]:
    return {field.name: field for field in fields}


def form(**fields: str) -> Form:
    return Form({f"p:{name.replace('__', '.')}": [text] for name, text in fields.items()})


def test_a_field_knows_its_type_its_default_and_whether_it_is_required() -> None:
    fields = by_name(launch_fields(compiled(MANIFEST)))
    size, title = fields["input.size"], fields["input.title"]
    assert (size.control, size.required, size.default_text) == ("number", False, "3")
    assert (title.label, title.required, title.options) == ("The title", True, [("a", "Short"), ("aaaa", "Long")])


def test_the_default_of_a_secret_is_not_shown() -> None:
    password = by_name(launch_fields(compiled(MANIFEST)))["input.password"]
    assert password.is_secret
    assert password.default_text == password.placeholder == ""


def test_a_secret_that_was_given_is_kept_where_its_field_is_left_empty() -> None:
    given = {"input.password": "hidden", "input.title": "t"}
    fields = launch_fields(compiled(MANIFEST), given)
    assert by_name(fields)["input.password"].value == ""
    sent = fill_fields(fields, form(input__title="t"), "p:")
    assert values(sent, given) == given


def test_a_required_field_without_a_value_and_one_that_does_not_fit_say_so() -> None:
    sent = by_name(fill_fields(launch_fields(compiled(MANIFEST)), form(input__size="three"), "p:"))
    assert "Missing required parameter" in sent["input.title"].error
    assert "Expected" in sent["input.size"].error
    assert "three" not in sent["input.size"].error


def test_arguments_of_a_command_come_with_their_descriptions() -> None:
    manifest = compiled(MANIFEST)
    [count] = workflow_fields(manifest, "actions.grow")
    assert (count.description, count.default_text, str(count.declared)) == ("How many", "2", "int")
    assert workflow_fields(manifest, "launch") == []


def test_a_sentence_goes_to_the_field_that_it_names() -> None:
    fields = [Field(name="input.a", label="a", declared=STRING), Field(name="input.ab", label="b", declared=STRING)]
    placed, rest = with_errors(fields, ["Parameter 'input.ab' is wrong.", "Something else."])
    assert [field.error for field in placed] == ["", "Parameter 'input.ab' is wrong."]
    assert rest == ["Something else."]


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [(INT, " 7 ", 7), (BOOL, "true", True), (OBJECT, '{"a": [1]}', {"a": [1]}), (STRING, "x", "x")],
)
def test_what_was_typed_becomes_a_value_of_the_type(declared: Type, text: str, value: object) -> None:
    fields = fill_fields([Field(name="n", label="n", declared=declared)], form(n=text), "p:")
    assert values(fields) == {"n": value}


@pytest.mark.parametrize("stored", [12, "12", 1.5, None, "null", True, "1.10", "a\nb", {"a": [1]}])
def test_a_field_that_stays_as_it_is_keeps_a_value_of_any_type(stored: Any) -> None:
    shown = Field(name="n", label="n", declared=OBJECT, value=field_text(stored), given=(stored,))
    assert same(values(fill_fields([shown], form(n=field_text(stored)), "p:")), {"n": stored})
    new = Field(name="n", label="n", declared=OBJECT)
    assert values(fill_fields([new], form(n="1.10"), "p:")) == {"n": "1.10"}


@given(st.text(), st.sampled_from([INT, BOOL, OBJECT, STRING, None]))
def test_whatever_is_typed_is_a_value_an_error_or_nothing(text: str, declared: Type | None) -> None:
    [field] = fill_fields([Field(name="n", label="n", declared=declared)], form(n=text), "p:")
    assert (field.name in values([field])) == (field.value != "" and not field.error)
    assert set(string_values([field])) <= {"n"}


SHELF_FIELD = "submodule:depot/shelf:parameter:"
LAUNCH = {"lifetime": "-1", "do": "launch", "parameter:input.shelves": "4"}


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service with an engine, since these tests run jobs."""
    return working_service


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """The administrator, signed in to the console."""
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        yield client


@pytest.fixture
async def shop(api: Api) -> dict[str, str]:
    """A shop with a depot with a shelf: the applications by their names."""
    shelf = await api.application(SHELF)
    depot = await api.application(DEPOT % shelf)
    return {"shelf": shelf, "depot": depot, "shop": await api.application(SHOP % depot)}


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    """Send the form of a page with these fields changed, and everything else as it stands there."""
    page = (await client.get(path)).text
    return await client.post(path, data={**controls(page), **fields})


def controls(page: str) -> dict[str, str]:
    """Return what a browser would send of the last form of a page, which is the one that changes something."""
    form = re.findall(r'<form method="post" id="\w+-form".*?</form>', page, re.DOTALL)[0]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        name, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if name is not None:
            found[unescape(name[1])] = unescape(value[1]) if value else ""
    for name, text in re.findall(r'<textarea [^>]*name="([^"]*)"[^>]*>(.*?)</textarea>', form, re.DOTALL):
        found[unescape(name)] = unescape(text)
    for name, options in re.findall(r'<select [^>]*?name="([^"]*)".*?>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)"[^>]* selected', options)
        found[unescape(name)] = unescape(chosen[1]) if chosen else ""
    return found


async def launched(api: Api, client: httpx.AsyncClient, shop: dict[str, str], **fields: str) -> str:
    answer = await sent(client, f"/console/applications/{shop['shop']}/launch", **{**LAUNCH, **fields})
    assert answer.status_code == 303, answer.text
    instance: str = answer.headers["location"].rpartition("/")[2]
    assert (await api.settled(instance))["status"] == "Running"
    return instance


async def told(api: Api, instance: str) -> str:
    return str((await api.document(instance))["returnValues"]["result.told"])


async def test_each_level_has_its_own_fields_with_types_suggestions_and_defaults(
    visitor: httpx.AsyncClient, shop: dict[str, str]
) -> None:
    page = (await visitor.get(f"/console/applications/{shop['shop']}/launch")).text
    fields = controls(page)
    assert {name for name in fields if name.startswith(SHELF_FIELD)} == {
        f"{SHELF_FIELD}{name}" for name in ("input.wood", "input.label", "input.password")
    }
    assert "submodule:depot:parameter:input.shelves" not in fields
    assert "is set by <code>input.shelves</code>" in page
    assert "is set by <code>input.size</code>" not in page
    assert '<option value="pine">Pine</option>' in page
    assert "Default: <code>oak</code>" in page


async def test_what_is_given_goes_to_the_submodule_that_it_was_given_to(
    api: Api, visitor: httpx.AsyncClient, shop: dict[str, str]
) -> None:
    given = {f"{SHELF_FIELD}input.label": "Tea", f"{SHELF_FIELD}input.wood": "pine"}
    assert await told(api, await launched(api, visitor, shop, **given)) == "Tea: 4 of pine, none"


async def test_a_field_of_a_submodule_that_is_missing_or_wrong_says_so(
    visitor: httpx.AsyncClient, shop: dict[str, str]
) -> None:
    answer = await sent(visitor, f"/console/applications/{shop['shop']}/launch", **LAUNCH)
    assert answer.status_code == 400
    assert f'id="{SHELF_FIELD}input.label-error"' in answer.text
    # Asking for the fields alone is no attempt to launch.
    answer = await sent(visitor, f"/console/applications/{shop['shop']}/launch", **{**LAUNCH, "do": "fields"})
    assert answer.status_code == 200
    assert "-error" not in answer.text


async def test_another_version_of_a_submodule_brings_its_fields(
    api: Api, visitor: httpx.AsyncClient, shop: dict[str, str]
) -> None:
    newer = SHELF.replace("label", "caption")
    accepted(await api.put_yaml(f"applications/{shop['shelf']}/manifest", newer))
    path = f"/console/applications/{shop['shop']}/launch"
    assert f"{SHELF_FIELD}input.caption" in controls((await visitor.get(path)).text)
    answer = await sent(visitor, path, **{**LAUNCH, "do": "fields", "submodule:depot/shelf:version": "2"})
    assert f"{SHELF_FIELD}input.label" in controls(answer.text)
    older = {"submodule:depot/shelf:version": "2", f"{SHELF_FIELD}input.label": "Old"}
    assert await told(api, await launched(api, visitor, shop, **older)) == "Old: 4 of oak, none"


async def test_a_reconfiguration_leaves_submodules_as_they_are_but_for_what_is_changed(
    api: Api, visitor: httpx.AsyncClient, shop: dict[str, str]
) -> None:
    given = {f"{SHELF_FIELD}input.label": "Tea", f"{SHELF_FIELD}input.password": "hidden-in-the-shelf"}
    instance = await launched(api, visitor, shop, **given)
    path = f"/console/instances/{instance}/configuration"
    page = (await visitor.get(path)).text
    assert controls(page)[f"{SHELF_FIELD}input.label"] == "Tea"
    assert "hidden-in-the-shelf" not in page
    changed = {**controls(page), "do": "preview", f"{SHELF_FIELD}input.wood": "pine"}
    preview = await visitor.post(path, data=changed)
    mark = re.search(r'value="(apply \w+)"', preview.text)
    assert mark is not None, preview.text
    assert "hidden-in-the-shelf" not in preview.text
    answer = await visitor.post(path, data={**changed, "do": mark[1]})
    assert answer.status_code == 303, answer.text
    await api.settled(instance)
    [depot] = (await api.document(instance))["components"]
    [shelf] = (await api.document(depot["instanceId"]))["components"]
    given = (await api.document(shelf["instanceId"]))["parameters"]
    assert (given["input.label"], given["input.wood"], given["input.size"]) == ("Tea", "pine", 4)
    async with api.database.connection() as connection:
        statement = "SELECT parameters FROM instances WHERE id = %s"
        [stored] = await (await connection.execute(statement, [shelf["instanceId"]])).fetchone() or ("",)
    assert "hidden-in-the-shelf" in stored, "a secret that is not shown stays"


async def test_an_application_that_the_person_may_not_see_is_not_looked_into(api: Api, shop: dict[str, str]) -> None:
    entries = [f"{name}: [/applications/{shop['shop']}, /environments/*]" for name in ("Read", "CreateInstance")]
    role = accepted(
        await api.post(
            f"organizations/{api.organization}/roles",
            {"name": "Shopkeeper", "permissions": "".join(f"- {entry}\n" for entry in entries)},
        )
    )
    who = await person(api, role["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": who.email, "password": who.password})
        page = await client.get(f"/console/applications/{shop['shop']}/launch")
    assert page.status_code == 200
    assert "You need the permission Read" in page.text
    assert SHELF_FIELD not in page.text


TYPED = ("1.10", "1e3", "0400", "7.0", "no", "81e3421", "12345678901234567890", "1e400", "~", "<<", "=", " a ", "שלום")


@pytest.mark.parametrize("text", TYPED)
def test_a_string_of_a_form_is_what_was_typed(text: str) -> None:
    fields = fill_fields(launch_fields(compiled(MANIFEST)), form(input__title=text), "p:")
    assert values(fields)["input.title"] == text
    fields = fill_fields([Field(name="x", label="x", declared=None)], form(x=text), "p:")
    assert (values(fields), string_values(fields)) == ({"x": text}, {"x": text})


def test_spaces_around_a_number_of_a_form_are_only_spelling() -> None:
    assert values(fill_fields(launch_fields(compiled(MANIFEST)), form(input__size=" 3 "), "p:"))["input.size"] == 3
