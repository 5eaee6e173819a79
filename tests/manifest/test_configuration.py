from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.errors import BadRequest
from launchbay.manifest.configuration import configure
from tests.support.manifests import compiled, findings, warnings

SHOP = """\
application:
  configuration: {input.port: 1}
  interfaces:
    input: {"*": "bind(box#face.*)", shared: "bind(box.w#input.n, other#input.n)"}
  components:
    box:
      configuration: {face.port: 2, face.name: from the composite}
      interfaces: {face: {"*": "bind(w#input.*)"}}
      components:
        w:
          type: workflow.Instance
          interfaces:
            input:
              port: configuration(int)
              name: configuration(string)
              own: configuration(list<string>)
              by-default: configuration(object)
              n: configuration(int)
          configuration:
            input.port: 3
            input.name: from the component
            input.own: [a, b]
            configuration.workflows:
              launch: {parameters: {by-default: {default: {x: 1}}, own: {default: never}}}
    other:
      type: workflow.Instance
      interfaces: {input: {n: configuration(int), unbound: configuration(string)}}
"""


def refused(given: dict[str, object], text: str = SHOP) -> tuple[str, ...]:
    with pytest.raises(BadRequest) as caught:
        configure(compiled(text), given)
    return caught.value.messages


def test_the_first_value_that_exists_counts() -> None:
    configured = configure(compiled(SHOP), {"input.n": 7, "input.shared": 8})
    assert configured["box.w"] == {
        "input.port": 1,  # the application before the composite before the component
        "input.name": "from the composite",
        "input.own": ["a", "b"],  # the component before the parameter of launch
        "input.by-default": {"x": 1},
        "input.n": 8,  # bound twice: the first pin of the application counts
    }


def test_a_given_value_is_before_all_defaults() -> None:
    configured = configure(compiled(SHOP), {"input.port": 80, "input.own": [], "input.n": 0, "input.shared": 0})
    assert configured["box.w"]["input.port"] == 80
    assert configured["box.w"]["input.own"] == []


def test_one_value_goes_to_every_target() -> None:
    configured = configure(compiled(SHOP), {"input.shared": "42", "input.n": 1})
    assert configured["box.w"]["input.n"] == configured["other"]["input.n"] == 42


def test_a_pin_that_nothing_gives_a_value_is_absent() -> None:
    assert set(configure(compiled(SHOP), {"input.shared": 1, "input.n": 1})["other"]) == {"input.n"}


def test_every_missing_parameter_is_named() -> None:
    assert compiled(SHOP).required_parameters == ("input.shared", "input.n")
    [sentence] = refused({})
    assert "input.shared, input.n" in sentence


def test_every_unknown_parameter_is_named() -> None:
    sentences = refused({"input.shared": 1, "input.n": 1, "port": 1, "input.prot": 2})
    assert [sentence.split("'")[1] for sentence in sentences] == ["port", "input.prot"]


def test_values_that_do_not_fit_are_named_with_their_type() -> None:
    sentences = refused({"input.shared": "many", "input.n": 1, "input.own": {"a": 1}})
    assert sentences == (
        ("The value of parameter 'input.shared' doesn't match its type. Expected an integer (int), not other text."),
        "The value of parameter 'input.own' doesn't match its type. Expected list<string>, not a map.",
    )


def test_everything_that_is_wrong_is_said_at_once() -> None:
    assert len(refused({"input.n": "x", "unknown": 1})) == 3


def test_literals_are_coerced_where_nothing_is_lost() -> None:
    manifest = compiled(SHOP)
    configured = configure(manifest, {"input.port": "8080", "input.n": 3.0, "input.name": 7, "input.shared": 1})
    assert configured["box.w"]["input.port"] == 8080
    assert configured["box.w"]["input.name"] == "7"


def test_lists_and_maps_may_come_as_json_texts() -> None:
    configured = configure(compiled(SHOP), {"input.own": '["x"]', "input.n": 1, "input.shared": 1})
    assert configured["box.w"]["input.own"] == ["x"]


def test_the_values_belong_to_the_caller() -> None:
    manifest = compiled(SHOP)
    given = {"input.n": 1, "input.shared": 1, "input.by-default": {"l": [1]}}
    first = configure(manifest, given)
    first["box.w"]["input.own"].append("changed")
    first["box.w"]["input.by-default"]["l"].append(2)
    assert configure(manifest, given)["box.w"]["input.own"] == ["a", "b"]
    assert given["input.by-default"] == {"l": [1]}


def test_a_default_of_the_wrong_type_is_a_warning_and_refused_at_launch_unless_another_is_given() -> None:
    text = SHOP.replace("{input.port: 1}", "{input.port: abc}")
    assert warnings(text) == [("ValueOfWrongType", 2)]
    [sentence] = refused({"input.n": 1, "input.shared": 1}, text)
    assert sentence.startswith("The value of parameter 'input.port' (its default) doesn't match its type.")
    assert configure(compiled(text), {"input.n": 1, "input.shared": 1, "input.port": 5})["box.w"]["input.port"] == 5


def test_a_null_in_the_configuration_is_no_value() -> None:
    text = SHOP.replace("{input.port: 1}", "{input.port: }")
    assert findings(text) == []
    assert configure(compiled(text), {"input.n": 1, "input.shared": 1})["box.w"]["input.port"] == 2


def test_a_number_for_a_text_keeps_its_digits() -> None:
    text = SHOP.replace("face.name: from the composite", "face.name: 1.10")
    assert configure(compiled(text), {"input.n": 1, "input.shared": 1})["box.w"]["input.name"] == "1.10"


def test_defaults_are_literals_and_not_expressions() -> None:
    text = SHOP.replace("from the composite", '"{$.port}"')
    assert configure(compiled(text), {"input.n": 1, "input.shared": 1})["box.w"]["input.name"] == "{$.port}"


def test_a_parameter_that_goes_to_a_submodule_is_not_required_here() -> None:
    manifest = compiled("""\
        application:
          interfaces: {i: {p: bind(s#input.p)}}
          components:
            s:
              type: reference.Submodule
              configuration: {__locator.application-id: x}
              interfaces: {input: {p: configuration(int)}}
        """)
    assert manifest.required_parameters == ()
    assert configure(manifest, {}) == {"s": {"__locator.application-id": "x"}}
    assert configure(manifest, {"i.p": 1})["s"]["input.p"] == 1


def test_configured_keys_that_are_no_pins_are_warnings() -> None:
    text = SHOP.replace("{input.port: 1}", "{input.prot: 1}").replace("input.own: [a, b]", "input.won: [a, b]")
    assert warnings(text) == [("UnknownConfiguration", 2), ("UnknownConfiguration", 22)]
    assert "Did you mean 'input.port'?" in findings(text)[0].message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_SHOP = compiled(SHOP)


@given(st.dictionaries(st.sampled_from([*_SHOP.parameters, "unknown"]), VALUES))
def test_any_parameters_are_taken_or_refused(given: dict[str, object]) -> None:
    configured = None
    with suppress(BadRequest):
        configured = configure(_SHOP, given)
    if configured is not None:
        assert set(_SHOP.required_parameters) <= set(given) <= set(_SHOP.parameters)
        assert isinstance(configured["box.w"]["input.port"], int)
