"""Rules of single component types."""

from launchbay.manifest.compiler import check
from launchbay.manifest.graph import BUILTIN, ComponentType
from tests.support.manifests import compiled, errors, findings, message, warnings

CONSTANTS = """\
application:
  components:
    c:
      type: cobalt.common.Constants
      interfaces: {out: {a: publish-signal(int), b: publish-signal(list<string>)}}
      configuration:
        configuration.values:
          out.a: 1
          out.b: [x]
"""


def test_constants_have_a_value_for_each_signal() -> None:
    assert findings(CONSTANTS) == []
    assert compiled(CONSTANTS).components["c"].configuration == {"configuration.values": {"out.a": 1, "out.b": ["x"]}}


def test_a_signal_without_a_value_and_a_value_without_a_signal_are_warnings() -> None:
    text = CONSTANTS.replace("out.b", "out.bb")
    assert warnings(text) == [("UnknownConfiguration", 9), ("MissingValue", 4)]


def test_a_constant_of_the_wrong_type_is_a_warning() -> None:
    assert warnings(CONSTANTS.replace("[x]", "x")) == [("ValueOfWrongType", 9)]


def test_values_that_are_no_map_are_an_error() -> None:
    text = CONSTANTS[: CONSTANTS.index("out.a: 1")] + "[1]\n"
    assert errors(text) == [("UnexpectedKind", 8)]


def test_a_submodule_without_a_locator_is_a_warning() -> None:
    text = "application:\n  components:\n    s: {type: reference.Submodule}\n"
    assert warnings(text) == [("MissingLocator", 3)]
    assert "__locator.application-id" in message(text)


REQUIRED = """\
application:
  interfaces: {}
  components:
    w:
      type: workflow.Instance
      required: [db]
      interfaces: {db: {host: consume-signal(string)}, input: {x: configuration(int)}}
"""


def test_a_required_interface_that_nothing_is_bound_to_is_a_warning() -> None:
    assert warnings(REQUIRED) == [("UnboundInterface", 6)]


def test_a_required_interface_that_is_only_exposed_needs_a_parent() -> None:
    assert warnings(REQUIRED.replace("interfaces: {}", "interfaces: {db: {host: bind(w#db.host)}}")) == [
        ("NeedsParent", 6)
    ]


def test_a_required_interface_without_needs_waits_for_nothing() -> None:
    assert warnings(REQUIRED.replace("[db]", "[input]")) == []


def test_a_required_interface_that_does_not_exist_is_a_warning() -> None:
    assert warnings(REQUIRED.replace("[db]", "[bd]")) == [("UnknownInterface", 6)]
    [found] = findings(REQUIRED.replace("[db]", "[bd]"))
    assert "'required' names the interface 'bd', which the component " in found.message
    assert "doesn't have. Its interfaces: " in found.message


def test_a_composite_requires_nothing() -> None:
    text = "application:\n  required: [x]\n  components: {w: {type: workflow.Instance}}\n"
    assert warnings(text) == [("UnknownKey", 2)]


def test_what_a_component_type_does_not_know_is_a_warning() -> None:
    text = """\
        application:
          components:
            m: {type: compute.Instance, configuration: {configuration.hardware: x}}
        """
    assert warnings(text) == [("UnknownConfiguration", 3)]
    assert "Did you mean 'configuration.hardwareId'?" in message(text)


def test_a_mistyped_section_of_workflows_is_named_at_its_key() -> None:
    text = """\
        application:
          components:
            w:
              type: workflow.Instance
              configuration:
                configuration.workflow:
                  launch: {steps: []}
        """
    (found,) = findings(text)
    assert (found.code, found.line, found.column) == ("UnknownConfiguration", 6, 9)
    assert "Did you mean 'configuration.workflows'?" in found.message


def test_a_plugged_in_type_brings_its_pins_and_settings() -> None:
    plugged = ComponentType(
        "my.Queue", {"queue": {"url": "publish-signal(string)"}}, settings=("configuration.engine",)
    )
    text = b"""\
application:
  interfaces: {i: {url: bind(q#queue.url)}}
  components: {q: {type: my.Queue, configuration: {configuration.engine: x}}}
"""
    assert check(text, known_actions=(), known_types={**BUILTIN, plugged.name: plugged}) == []
    assert [finding.code for finding in check(text, known_actions=())] == ["UnknownPin", "UnknownComponentType"]


def test_an_alias_repeats_no_finding() -> None:
    text = """\
launch:
  steps: &steps
    - a: {action: wait, parameters: {delay: 1, "{$.gone}": "{$.gone}", text: "{$.gone}"}, precedingPhases: [nowhere]}
  return: &returns {url: {value: x}}
other: {steps: *steps, return: *returns}
"""
    assert warnings(text) == [("UnknownPhase", 3), ("VariableNotInScope", 3)]
    with_errors = text.replace("action: wait", "action: wiat")
    assert errors(with_errors) == [("UnknownAction", 3)]
