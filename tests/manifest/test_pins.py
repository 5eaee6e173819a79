import pytest

from launchbay.model.types import parse_pin_type
from tests.manifest.compiling import compiled, errors, findings, message, warnings


def one_pin(pin: str) -> str:
    return (
        f"application:\n  components:\n    a:\n      type: workflow.Instance\n      interfaces: {{i: {{p: {pin}}}}}\n"
    )


@pytest.mark.parametrize(
    "type_text",
    ["configuration(int)", "publish-signal(map<string, list<int>>)", "consume-signal(unit)", "receive-command()",
     "send-command(string a => int b => int b, string c)", "receive-command( => )", "receive-command(=> string own)"],
)  # fmt: skip
def test_a_pin_is_a_type_or_a_map_with_a_type(type_text: str) -> None:
    short = compiled(one_pin(f'"{type_text}"')).components["a"].pins["i.p"]
    long = compiled(one_pin(f'{{type: "{type_text}"}}')).components["a"].pins["i.p"]
    assert short == long
    assert short.type == parse_pin_type(type_text)


def test_the_map_form_has_a_label_and_suggestions() -> None:
    pin = compiled(one_pin("{type: configuration(string), name: Size, suggestions: {Small: s, Large: l}}"))
    found = pin.components["a"].pins["i.p"]
    assert (found.key, found.label, found.suggestions) == ("i.p", "Size", {"Small": "s", "Large": "l"})


def test_labels_of_arguments_are_accepted() -> None:
    text = one_pin("{type: send-command(int a => int b), arguments: {a: {name: A}}, results: {b: {name: B}}}")
    assert warnings(text) == []


@pytest.mark.parametrize(
    "pin", ["configuration", "configuration(strin)", "signal(int)", "null", "[a]", "{name: x}", "{}"]
)
def test_a_malformed_pin_is_an_error(pin: str) -> None:
    assert errors(one_pin(pin)) == [("MalformedPin", 5)]
    assert "Component 'a': the pin 'i.p'" in message(one_pin(pin))


def test_an_unknown_key_of_a_pin_is_a_warning() -> None:
    assert warnings(one_pin("{type: configuration(int), defualt: 5}")) == [("UnknownKey", 5)]


def test_suggestions_that_are_neither_map_nor_list_are_an_error() -> None:
    assert errors(one_pin("{type: configuration(int), suggestions: 5}")) == [("UnexpectedKind", 5)]


def test_a_component_that_holds_no_others_cannot_bind() -> None:
    assert errors(one_pin("bind(b#i.p)")) == [("UnexpectedBind", 5)]


def test_only_a_bind_can_stand_for_all_pins() -> None:
    assert errors(one_pin("x").replace("p: x", "'*': configuration(int)")) == [("MalformedPin", 5)]


def test_the_application_binds_its_pins() -> None:
    assert errors("application:\n  interfaces: {i: {p: configuration(int)}}\n") == [("MissingBind", 2)]


def test_a_type_that_yaml_cut_at_a_comma_is_refused_with_a_hint_to_quote_it() -> None:
    found = findings(one_pin("send-command(int a, int b)"))
    assert "must stand in quotes" in found[0].message
