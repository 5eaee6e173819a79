"""Fields made from what a manifest declares, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.console.fields import (
    Field,
    fill_fields,
    launch_fields,
    string_values,
    values,
    with_errors,
    workflow_fields,
)
from launchbay.console.forms import Form
from launchbay.model.types import BOOL, INT, OBJECT, STRING, Type
from tests.manifest.compiling import compiled

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
    assert "no default" in sent["input.title"].error
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


@given(st.text(), st.sampled_from([INT, BOOL, OBJECT, STRING, None]))
def test_whatever_is_typed_is_a_value_an_error_or_nothing(text: str, declared: Type | None) -> None:
    [field] = fill_fields([Field(name="n", label="n", declared=declared)], form(n=text), "p:")
    assert (field.name in values([field])) == (field.value != "" and not field.error)
    assert set(string_values([field])) <= {"n"}
