import pytest

from launchbay.manifest.configuration import configure
from launchbay.manifest.graph import Target
from launchbay.manifest.paths import Scope
from tests.support.manifests import compiled, errors, findings, message, warnings

SHOP = """\
version: "1.1"
header:
  services:
    properties: {db-image: consume-signal(string)}
    mail: {send: "send-command(string to, string text)"}
launch:
  parameters:
    - size: {default: 1, description: How many}
    - zone: {enum: [east, west]}
    - kind: {type: int, default: 3, name: Kind, enum: {One: 1, Two: 2}}
  steps:
    - look: {action: getEnvironmentProperties, output: {props: result}}
    - tell: {action: mail.send, parameters: {to: me, text: "{$.size} {$.props.properties.db-image}"}}
  return:
    url: {value: "http://{$.zone}"}
destroy: {steps: []}
scale-up:
  parameters: {by: {default: 1}}
  steps: [{grow: {action: .grow, parameters: {by: "{$.by}"}, output: {ips: ips}}}]
  return: {ips: {value: "{$.ips}"}}
.grow: {steps: [], return: {ips: {value: []}}}
data.load: {}
"""


def test_an_empty_map_is_a_manifest_without_a_warning() -> None:
    assert findings("{}") == []
    manifest = compiled("{}")
    assert not manifest.is_component_manifest
    assert list(manifest.components) == ["workflow"]
    assert manifest.components["workflow"].workflows == {}


def test_the_default_manifest_has_no_warnings() -> None:
    assert findings("launch: {steps: []}\ndestroy: {steps: []}\n") == []


def test_a_whole_workflow_manifest_has_no_warnings() -> None:
    assert findings(SHOP) == []


def test_launch_parameters_are_shown_by_plain_names() -> None:
    manifest = compiled(SHOP)
    assert list(manifest.parameters) == ["size", "zone", "kind"]
    assert manifest.parameters["size"].targets == (Target("workflow", "input.size"),)
    assert str(manifest.parameters["size"].type) == "configuration(object)"
    assert str(manifest.parameters["kind"].type) == "configuration(int)"
    assert manifest.required_parameters == ("zone",)


def test_enum_is_suggestions_and_the_name_is_the_label() -> None:
    parameters = compiled(SHOP).parameters
    assert parameters["zone"].suggestions == {"east": "east", "west": "west"}
    assert parameters["kind"].suggestions == {"One": 1, "Two": 2}
    assert (parameters["size"].label, parameters["kind"].label) == ("How many", "Kind")


def test_what_launch_and_commands_return_is_shown_by_plain_names() -> None:
    manifest = compiled(SHOP)
    assert list(manifest.results) == ["url", "ips"]
    assert str(manifest.results["url"].type) == "publish-signal(object)"


def test_other_workflows_are_commands_but_macros_and_names_with_dots_are_not() -> None:
    manifest = compiled(SHOP)
    assert list(manifest.commands) == ["scale-up"]
    signature = manifest.commands["scale-up"].type.signature
    assert signature is not None
    assert list(signature.arguments) == ["by"]
    assert list(signature.results) == ["ips"]
    assert set(manifest.components["workflow"].workflows) == {"launch", "destroy", "scale-up", ".grow", "data.load"}


def test_services_in_the_header_are_bound_and_required() -> None:
    manifest = compiled(SHOP)
    workflow = manifest.components["workflow"]
    assert workflow.required == ("properties", "mail")
    for interface in workflow.required:
        [peer] = workflow.peers[interface]
        service = manifest.components[peer.component]
        assert service.type == "reference.Service"
        assert set(service.pins) == {f"{interface}.{pin}" for pin in peer.pins}
    assert manifest.order[-1] == "workflow"


def test_parameters_get_defaults_and_undeclared_ones_become_variables() -> None:
    configured = configure(compiled(SHOP), {"zone": "east", "colour": ["red"]})["workflow"]
    assert configured == {"input.size": 1, "input.zone": "east", "input.kind": 3, "input.colour": ["red"]}


def test_version_may_be_a_number_and_an_unknown_one_is_a_warning() -> None:
    assert warnings("version: 1.1\nlaunch: {}") == []
    assert warnings("version: 1.0\nlaunch: {}") == []
    assert warnings("launch: {}\nversion: 7\n") == [("UnknownVersion", 2)]


def test_anything_else_at_the_top_is_a_workflow() -> None:
    assert errors("launch: {}\nnotes: some text\n") == [("UnexpectedKind", 2)]
    assert message("launch: {}\nnotes: some text\n") == "notes: A workflow must be a map, not the string 'some text'."


def test_variables_and_actions_are_checked_as_in_component_manifests() -> None:
    text = "launch:\n  steps:\n    - a: {action: restcal}\n    - b: {action: wait, parameters: {delay: '{$.n}'}}\n"
    assert [finding.code for finding in findings(text)] == ["UnknownAction", "VariableNotInScope"]
    assert findings(text)[1].message == "launch: Variable 'n' isn't in scope."


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("launch: {steps: [{a: {action: wait, parameters: {x: '{$.'}}}]}\n", "MalformedExpression"),
        ("header: {services: {db: {size: configuration(int)}}}\nlaunch: {}\n", "UselessBinding"),
        ("header: {services: {db: {url: 'bind(a#b.c)'}}}\nlaunch: {}\n", "UnexpectedBind"),
        ("launch: {steps: [{a: {action: wait, precedingPhases: b}}]}\n", "UnknownPhase"),
    ],
)
def test_findings_do_not_name_the_component_that_the_rewriting_adds(text: str, code: str) -> None:
    found = findings(text)
    assert code in {finding.code for finding in found}
    assert not [finding for finding in found if "workflow'" in finding.message or "workflow " in finding.message]


def test_a_service_cannot_have_a_reserved_name() -> None:
    assert ("BadName", 1) in errors("header: {services: {input: {x: consume-signal(int)}}}\nlaunch: {}\n")


def test_a_header_without_services_is_valid() -> None:
    assert findings("header:\nlaunch: {}\n") == []
    assert warnings("header: {servises: {}}\nlaunch: {}\n") == [("UnknownKey", 1)]


def test_steps_run_with_their_parameters_as_in_component_manifests() -> None:
    [_, tell] = compiled(SHOP).components["workflow"].workflows["launch"].steps
    scope = Scope({"size": 2, "props": {"properties": {"db-image": "img"}}}, {})
    assert tell.parameters.evaluate(scope)[0] == {"to": "me", "text": "2 img"}
