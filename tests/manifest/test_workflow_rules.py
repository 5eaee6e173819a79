from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.actions.approval import Approval
from launchbay.actions.contract import ActionParameter
from launchbay.actions.execution import Chef, ExecRun
from launchbay.actions.provision import Provision
from launchbay.actions.registry import BUILT_IN
from launchbay.actions.restcall import RestCall
from launchbay.manifest.compiler import check
from launchbay.manifest.graph import Workflow
from launchbay.manifest.paths import Scope
from launchbay.manifest.workflow_rules import deadlocked_steps
from launchbay.model.durations import parse_duration_s
from tests.support.manifests import ACTIONS, compiled, errors, findings, message, warnings, workflow_component

PINS = """
    result: {url: publish-signal(string)}
    actions: {}
"""


def workflow(text: str, name: str = "launch", **more: str) -> Workflow:
    return compiled(workflow_component(text, **more)).components["w"].workflows[name]


def launch(steps: str, pins: str = PINS, more: str = "") -> str:
    return workflow_component(f"launch: {{steps: {steps}}}", pins=pins, more=more)


# Steps


def test_steps_are_a_list_of_one_key_maps_or_a_map() -> None:
    as_list = workflow("launch: {steps: [{a: {action: wait}}, {b: {action: wait}}]}")
    as_map = workflow("launch: {steps: {a: {action: wait}, b: {action: wait}}}")
    assert [step.name for step in as_list.steps] == [step.name for step in as_map.steps] == ["a", "b"]


def test_a_step_has_what_stands_beside_its_parameters() -> None:
    [step] = workflow("""\
        launch:
          steps:
          - a:
              action: execrun
              phase: run
              precedingPhases: [prepare, x]
              parameters: {command: "ls {$.dir}", retryCount: 2, ignoreFail: "{$.flag}", phase: other}
              output: {text: stdout}
    """).steps
    assert (step.name, step.action, step.phase) == ("a", "execrun", "run")
    assert step.preceding_phases == ("prepare", "x")
    assert step.parameters.evaluate(Scope({"dir": "/"}, {})) == ({"command": "ls /"}, ())
    assert step.retry_count is not None
    assert step.retry_count.evaluate(Scope({}, {}))[0] == 2
    assert step.ignore_fail is not None
    assert step.ignore_fail.evaluate(Scope({"flag": True}, {}))[0] is True
    assert step.outputs == {"text": "stdout"}


def test_a_step_without_a_phase_is_its_own_phase() -> None:
    assert workflow("launch: {steps: [{a: {action: wait}}]}").steps[0].phase == "a"


def test_parameters_of_a_step_may_be_a_list_of_one_key_maps() -> None:
    [step] = workflow("launch: {steps: [{a: {action: wait, parameters: [{delay: 1}, {retryCount: 3}]}}]}").steps
    assert step.parameters.evaluate(Scope({}, {}))[0] == {"delay": 1}
    assert step.retry_count is not None


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ("[{a: {action: wait}}, {a: {action: wait}}]", "DuplicateStep"),
        ("[{a: {}}]", "MissingAction"),
        ("[{a: }]", "MissingAction"),
        ("[a]", "MissingAction"),
        ("[{a: {action: }}]", "MissingAction"),
        ("[{a: {action: [wait]}}]", "UnexpectedKind"),
        ("[{a: {action: wait}, b: {action: wait}}]", "UnexpectedKind"),
        ("[[a]]", "UnexpectedKind"),
        ("text", "UnexpectedKind"),
        ("[{a: wait}]", "UnexpectedKind"),
        ("[{a: {action: wait, precedingPhases: {b: c}}}]", "UnexpectedKind"),
        ("[{a: {action: wait, precedingPhases: [[b]]}}]", "UnexpectedKind"),
        ("[{a: {action: wait, parameters: text}}]", "UnexpectedKind"),
        ("[{a: {action: wait, output: {v: }}}]", "MissingOutput"),
        ("[{a: {action: wait, output: {v: [o]}}}]", "UnexpectedKind"),
        ("[{a: {action: wait, parameters: {retryCount: many}}}]", "MalformedRetryCount"),
        ("[{a: {action: wait, parameters: {retryCount: -1}}}]", "MalformedRetryCount"),
        ("[{a: {action: wait, parameters: {retryCount: 1.5}}}]", "MalformedRetryCount"),
        ("[{a: {action: wait, parameters: {retryCount: true}}}]", "MalformedRetryCount"),
        ("[{a: {action: wait, parameters: {retryCount: [1]}}}]", "MalformedRetryCount"),
        ("[{a: {action: wait, parameters: {ignoreFail: perhaps}}}]", "MalformedIgnoreFail"),
        ("[{a: {action: wait, parameters: {x: '{$.}'}}}]", "MalformedExpression"),
    ],
)
def test_a_malformed_step_is_an_error(steps: str, code: str) -> None:
    assert errors(launch(steps)) == [(code, 10)]


@pytest.mark.parametrize("retries", ["0", "3", "'3'", "'{$.n}'", "'${n}'", ""])
def test_retries_are_a_number_or_an_expression(retries: str) -> None:
    pins = "input: {n: configuration(int)}\nresult: {}"
    text = launch(f"[{{a: {{action: wait, parameters: {{retryCount: {retries}}}}}}}]", pins, "input.n: 1")
    assert warnings(text) == []


def test_more_retries_than_the_bound_are_a_warning() -> None:
    assert warnings(launch("[{a: {action: wait, parameters: {retryCount: 1000}}}]")) == [("MalformedRetryCount", 10)]


def test_unknown_keys_of_steps_and_workflows_are_warnings() -> None:
    text = workflow_component("launch: {stepps: [], steps: [{a: {action: wait, params: {}}}]}", pins=PINS)
    assert warnings(text) == [("UnknownKey", 10), ("UnknownKey", 10)]


def test_every_malformed_expression_of_a_step_is_reported_at_its_line() -> None:
    text = workflow_component(
        """
        launch:
          steps:
            - a:
                action: wait
                parameters:
                  one: "{$.}"
                  two: [fine, {deep: "x {$.a[}"}]
        """,
        pins=PINS,
    )
    assert errors(text) == [("MalformedExpression", 15), ("MalformedExpression", 16)]


# Actions


@pytest.mark.parametrize("action", ["execrun", ".macro", "other", "needs.run"])
def test_an_action_is_built_in_a_macro_a_workflow_or_a_command(action: str) -> None:
    text = workflow_component(
        f"launch: {{steps: [{{a: {{action: {action}}}}}]}}\n.macro: {{}}\nother: {{}}",
        pins="needs: {run: send-command(), see: consume-signal(int)}\nresult: {}",
    )
    assert warnings(text) == []


@pytest.mark.parametrize("action", ["exec-run", ".makro", "needs.see", "needs.walk", "actions.go", "'{$.x}'"])
def test_an_unknown_action_is_an_error_per_step(action: str) -> None:
    text = workflow_component(
        f"launch: {{steps: [{{a: {{action: {action}}}}}, {{b: {{action: {action}}}}}]}}\n.macro: {{}}\ngo: {{}}",
        pins="needs: {run: send-command(), see: consume-signal(int)}\nactions: {go: receive-command()}",
    )
    assert errors(text) == [("UnknownAction", 10), ("UnknownAction", 10)]


def test_an_unknown_action_comes_with_the_nearest_known_one() -> None:
    assert "Did you mean 'execrun'?" in message(launch("[{a: {action: exec-run}}]"))


# Expressions


def test_a_root_that_is_written_twice_is_a_warning_that_shows_what_it_means() -> None:
    text = launch("[{a: {action: wait, parameters: {delay: '{$.$.size} of {{$.$.x'}}}]")
    [doubled, scope] = findings(text)
    assert (doubled.code, doubled.line, scope.code) == ("DoubledRoot", 10, "VariableNotInScope")
    assert "{$.$.size} has the root twice. Launchbay reads it as {$.size}" in doubled.message


def test_the_message_of_an_invalid_expression_shows_it_whole() -> None:
    written = "{$.signals.database.connection.addresses[first].ip}"
    assert repr(written) in message(launch(f"[{{a: {{action: wait, parameters: {{delay: '{written}'}}}}}}]"))


# What actions take and give


@dataclass
class Shape:
    """What is known of an action."""

    parameters: Mapping[str, ActionParameter]
    outputs: Mapping[str, str]
    default_role: str | None = None
    extra_parameters: bool = False


KNOWN = {
    "approval": Approval(),
    "wait": Shape({"delay": ActionParameter("", required=True, check=parse_duration_s)}, {}),
    "restcall": Shape(
        {
            "command": ActionParameter("", type="string", required=True),
            "method": ActionParameter("", type="string"),
            "expected": ActionParameter("", type="list<int>"),
        },
        {"content": "", "status": ""},
    ),
    "make": Shape({"roleName": ActionParameter("")}, {"ips": ""}, default_role="default"),
    "run": Shape({"roles": ActionParameter("", type="list<string>")}, {"stdout": ""}),
    "log": Shape({}, {}),
    "open": Shape({"targetQuantity": ActionParameter(""), "roleName": ActionParameter("")}, {}, extra_parameters=True),
}


def mistypes(steps: str) -> list[tuple[str, str]]:
    """The code and message of each warning about steps whose actions are known."""
    text = dedent(workflow_component(f"launch: {{parameters: {{size: }}, steps: {steps}}}", pins=PINS))
    return [(finding.code, finding.message) for finding in check(text.encode(), known_actions=KNOWN)]


@pytest.mark.parametrize(
    ("step", "code", "said"),
    [
        ("action: wait, parameters: {dealy: 3}", "UnknownStepParameter", "no parameter 'dealy'"),
        ("action: wait, parameters: {dealy: 3}", "UnknownStepParameter", "Did you mean 'delay'?"),
        ("action: open, parameters: {targetQuanity: 3}", "UnknownStepParameter", "Did you mean 'targetQuantity'?"),
        ("action: open, parameters: {rolename: web}", "UnknownStepParameter", "Did you mean 'roleName'?"),
        ("action: wait", "MissingStepParameter", "'wait' needs the parameter 'delay'"),
        ("action: wait, parameters: {delay: soon}", "WrongStepParameter", "'soon' is not a duration"),
        ("action: restcall, parameters: {metod: GET, command: x}", "UnknownStepParameter", "Did you mean 'method'?"),
        ("action: restcall, parameters: {method: GET}", "MissingStepParameter", "'command'"),
        ("action: restcall, parameters: {command: [x]}", "WrongStepParameter", "Parameter 'command'"),
        ("action: restcall, parameters: {command: x, expected: [many]}", "WrongStepParameter", "Parameter 'expected'"),
        ("action: restcall, parameters: {command: x}, output: {x: contnt}", "UnknownOutput", "Did you mean 'content'?"),
        ("action: approval, parameters: {who: Ann}", "MissingStepParameter", "'approval' needs the parameter 'text'"),
        ("action: run, parameters: {roles: [web]}", "UnknownMachineRole", "machines of the role 'web'"),
    ],
)
def test_what_an_author_mistypes_is_a_warning(step: str, code: str, said: str) -> None:
    found = mistypes(f"[{{a: {{{step}}}}}]")
    assert any(said in message for each, message in found if each == code), found


@pytest.mark.parametrize(
    ("action", "plan", "said"),
    [
        (ExecRun(), "[]", "Expected a list of strings"),
        (ExecRun(), "[{look: 1}]", "Expected a list of strings"),
        (Chef("chefsolo"), "['']", "Expected a list of strings"),
        (RestCall(), "https://a.example", "Expected a map with command"),
        (RestCall(), "{command: x, url: y}", "A request has no url"),
    ],
)
def test_what_cannot_say_what_a_step_would_do_is_a_warning_at_its_place(action: Any, plan: str, said: str) -> None:
    text = f"launch:\n  steps:\n    - a:\n        action: {action.name}\n        parameters:\n          plan: {plan}\n"
    found = check(text.encode(), known_actions={action.name: action})
    [finding] = [each for each in found if each.code == "WrongStepParameter"]
    assert (finding.line, finding.column) == (6, 17)
    assert f"Parameter 'plan': {said}" in finding.message


@pytest.mark.parametrize(
    ("jump", "place", "said"),
    [
        ("[ops@]", 17, "Invalid host 'ops@'"),
        ("[{adress: b}]", 17, "Unknown key 'adress' of a jump host"),
        ("[a, b, c, d, e, f, g, h, i]", 17, "There are 9 jump hosts in a row"),
    ],
)
def test_jump_hosts_that_lead_nowhere_are_a_warning_at_their_place(jump: str, place: int, said: str) -> None:
    text = f"launch:\n  steps:\n    - a:\n        action: provisionVms\n        parameters:\n          jump: {jump}\n"
    [finding] = check(text.encode(), known_actions={"provisionVms": Provision("provisionVms")})
    assert (finding.code, finding.line, finding.column) == ("WrongStepParameter", 6, place)
    assert f"Parameter 'jump': {said}" in finding.message


@pytest.mark.parametrize(
    "steps",
    [
        "[{a: {action: wait, parameters: {delay: 3}}}, {b: {action: wait, parameters: {delay: '{$.size}'}}}]",
        "[{a: {action: wait, parameters: {delay: 2 minutes, retryCount: 2, ignoreFail: true}}}]",
        "[{a: {action: restcall, parameters: {command: x, expected: 200}, output: {x: status}}}]",
        "[{a: {action: restcall, parameters: {command: x, expected: ['{$.size}', '201']}}}]",
        "[{a: {action: approval, parameters: {message: Go on?}}}, {b: {action: approval, parameters: {text: Go?}}}]",
        "[{a: {action: make}}, {b: {action: run, parameters: {roles: [default]}}}]",
        "[{a: {action: make, parameters: {roleName: web}}}, {b: {action: run, parameters: {roles: web}}}]",
        "[{a: {action: make, parameters: {roleName: 'n{$.size}'}}}, {b: {action: run, parameters: {roles: [any]}}}]",
        "[{a: {action: run, parameters: {roles: ['{$.size}']}}}, {b: {action: run}}]",
        "[{a: {action: run, parameters: {roles: [result]}}}]",
        "[{a: {action: log, parameters: {path: /var/log}}}]",
    ],
)
def test_what_is_right_or_known_only_at_run_time_is_no_warning(steps: str) -> None:
    assert mistypes(steps) == []


# Phases


def test_an_unknown_preceding_phase_is_a_warning_per_step() -> None:
    step = "{action: wait, precedingPhases: [nowhere, neither]}"
    text = launch(f"[{{a: {step}}}, {{b: {step}}}]")
    assert warnings(text) == [("UnknownPhase", 10), ("UnknownPhase", 10)]


def test_the_phase_provision_needs_no_declaration() -> None:
    assert warnings(launch("[{a: {action: wait}}, {b: {action: wait, precedingPhases: [provision]}}]")) == []


def test_the_implicit_phase_means_the_steps_without_phases_unless_one_declares_it() -> None:
    steps = "{a: {action: wait}, b: {action: wait, phase: x}, c: {action: wait, precedingPhases: [provision, x]}}"
    assert workflow(f"launch: {{steps: {steps}}}").steps[2].preceding_phases == ("a", "x")
    declared = steps.replace("phase: x", "phase: provision")
    assert set(workflow(f"launch: {{steps: {declared}}}").steps[2].preceding_phases) == {"x", "provision"}


def test_a_preceding_phase_may_be_the_name_of_a_step_and_means_its_phase_unless_a_phase_has_that_name() -> None:
    both = "a: {action: wait, phase: x}, b: {action: wait, phase: x, precedingPhases: [a]}"
    steps = f"{{{both}, c: {{action: wait, precedingPhases: a}}}}"
    found = workflow(f"launch: {{steps: {steps}}}").steps
    assert [step.preceding_phases for step in found] == [(), ("x",), ("x",)]
    assert warnings(f"launch: {{steps: {steps}}}") == []
    with_phase = steps.replace("c: {action: wait,", "c: {action: wait, phase: a,")
    assert [step.preceding_phases for step in workflow(f"launch: {{steps: {with_phase}}}").steps] == [
        (),
        ("a",),
        ("a",),
    ]


def test_one_preceding_phase_may_stand_without_a_list() -> None:
    assert warnings(launch("[{a: {action: wait}}, {b: {action: wait, precedingPhases: a}}]")) == []


def test_steps_that_can_never_start_are_a_warning_that_names_them() -> None:
    text = launch("[{a: {action: wait, precedingPhases: [b]}}, {b: {action: wait, precedingPhases: [a]}}]")
    assert warnings(text) == [("StuckSteps", 10)]
    assert "'a', 'b'" in message(text)


# Parameters and returns


def test_parameters_of_a_workflow_are_a_map_or_a_list_of_one_key_maps() -> None:
    as_map = workflow("launch: {parameters: {a: {default: 1, description: A}, b: }}")
    as_list = workflow("launch: {parameters: [{a: {default: 1, description: A}}, {b: }]}")
    with_bare_name = workflow("launch: {parameters: [{a: {default: 1, description: A}}, b]}")
    assert as_map.parameters == as_list.parameters == with_bare_name.parameters
    assert (as_map.parameters["a"].has_default, as_map.parameters["a"].default) == (True, 1)
    assert not as_map.parameters["b"].has_default


def test_types_of_parameters_count_where_they_are_types() -> None:
    parameters = workflow("launch: {parameters: {a: {type: int}, b: {type: map}, c: {type: list<string>}}}").parameters
    assert [str(parameter.type) for parameter in parameters.values()] == ["int", "None", "list<string>"]


def test_a_parameter_declared_twice_is_an_error() -> None:
    text = workflow_component("launch: {parameters: [{a: }, {a: }]}", pins=PINS)
    assert errors(text) == [("DuplicateParameter", 10)]


def test_returns_are_a_map_or_a_list_of_one_key_maps() -> None:
    as_map = workflow("launch: {return: {url: {value: x, description: d}}}", pins=PINS)
    as_list = workflow("launch: {return: [{url: {value: x}}]}", pins=PINS)
    assert as_map.returns["url"].evaluate(Scope({}, {})) == as_list.returns["url"].evaluate(Scope({}, {})) == ("x", ())


@pytest.mark.parametrize("value", ["{url: }", "{url: text}", "{url: {description: d}}", "{url: [a]}"])
def test_a_return_without_a_value_is_an_error(value: str) -> None:
    assert errors(workflow_component(f"launch: {{return: {value}}}", pins=PINS)) == [("MissingValue", 10)]


def test_a_value_returned_twice_is_an_error() -> None:
    text = workflow_component("launch: {return: [{url: {value: 1}}, {url: {value: 2}}]}", pins=PINS)
    assert errors(text) == [("DuplicateReturn", 10)]


def test_a_return_name_that_is_no_pin_is_a_warning() -> None:
    text = workflow_component("launch: {return: {urll: {value: 1}}}", pins=PINS)
    assert warnings(text) == [("ReturnWithoutPin", 10)]
    assert "Did you mean 'url'?" in message(text)


def test_results_of_the_command_may_be_returned() -> None:
    text = workflow_component(
        "go: {return: {answer: {value: 1}}}\nlaunch: {return: {answer: {value: 1}}}",
        pins="actions: {go: receive-command(=> int answer)}\nresult: {}",
    )
    assert warnings(text) == [("ReturnWithoutPin", 11)]


def test_macros_and_called_workflows_may_return_anything() -> None:
    text = workflow_component(
        "launch: {steps: [{a: {action: other}}]}\nother: {return: {x: {value: 1}}}\n.macro: {return: {y: {value: 1}}}",
        pins=PINS,
    )
    assert warnings(text) == []


def test_a_command_without_a_workflow_is_a_warning() -> None:
    text = workflow_component("launch: {}", pins="actions: {go: receive-command()}\nresult: {}")
    assert warnings(text) == [("CommandWithoutWorkflow", 6)]


# Triggers, schedule, status

TRIGGERS = """
    input: {a: configuration(int), b: configuration(int), c: publish-signal(int)}
    seen: {x: consume-signal(int)}
"""


def test_triggers_name_pins_or_whole_interfaces_and_the_single_pin_wins() -> None:
    manifest = compiled(
        workflow_component(
            "launch: {}\nupdate: {}\nother: {}",
            pins=TRIGGERS,
            more="configuration.triggers: {input.b: other, input.*: update, seen.x: update}",
        )
    )
    assert manifest.components["w"].triggers == {"input.a": "update", "input.b": "other", "seen.x": "update"}


@pytest.mark.parametrize("key", ["input.z", "input.c", "other.*", "input"])
def test_a_trigger_on_what_cannot_change_is_a_warning(key: str) -> None:
    more = f"configuration.triggers: {{'{key}': launch}}"
    assert warnings(workflow_component("launch: {}", pins=TRIGGERS, more=more)) == [("UnknownPin", 9)]


@pytest.mark.parametrize(
    "more", ["configuration.triggers: {input.a: lunch}", "configuration.schedule: {lunch: '0 0 0 * * ?'}"]
)
def test_a_trigger_or_schedule_for_an_unknown_workflow_is_an_error(more: str) -> None:
    text = workflow_component("launch: {}", pins=TRIGGERS, more=more)
    assert errors(text) == [("UnknownWorkflow", 9)]
    assert "Did you mean 'launch'?" in message(text)


def test_a_trigger_without_a_workflow_is_an_error() -> None:
    more = "configuration.triggers: {input.a: }"
    assert errors(workflow_component("launch: {}", pins=TRIGGERS, more=more)) == [("MissingValue", 9)]


def scheduled(cron: str) -> str:
    return workflow_component("launch: {}", pins=TRIGGERS, more=f"configuration.schedule: {{launch: '{cron}'}}")


@pytest.mark.parametrize("cron", ["0 0 12 * * ?", "0 15 10 ? * 6#3", "0 0/5 14,18 * * ? 2030", "0 0 4 ? * mon-fri"])
def test_a_schedule_is_a_quartz_expression(cron: str) -> None:
    assert warnings(scheduled(cron)) == []


def test_a_schedule_that_may_not_mean_what_its_author_thinks_is_a_warning() -> None:
    assert warnings(scheduled("0 0 4 13 * FRI")) == [("UnusualSchedule", 9)]
    assert "match either of them" in message(scheduled("0 0 4 13 * FRI"))
    assert warnings(scheduled("0 */90 4 * * ?")) == [("UnusualSchedule", 9)]


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("* * * * *", "6 or 7 fields"),
        ("", "6 or 7 fields"),
        ("61 * * * * *", "Bad second"),
        ("0 0 0 ? * 8", "Bad day-of-week"),
        ("0 0 0 1 * ? 99999", "year"),
        ("0 " * 300, "at most 400 characters, found 600"),
    ],
)
def test_a_malformed_schedule_is_an_error_that_says_why(cron: str, problem: str) -> None:
    assert errors(scheduled(cron)) == [("MalformedSchedule", 9)]
    assert problem in message(scheduled(cron))


def test_a_schedule_and_status_are_compiled() -> None:
    more = "configuration.schedule: {grow: '0 0 4 * * ?'}\nconfiguration.propagateStatus: [grow]"
    component = compiled(workflow_component("launch: {}\ngrow: {}", pins=TRIGGERS, more=more)).components["w"]
    assert component.schedule == {"grow": "0 0 4 * * ?"}
    assert component.propagate_status == {"launch", "grow"}


def test_propagating_workflows_may_have_values_that_do_not_count() -> None:
    more = "configuration.propagateStatus:\n  - update: [result]\n  - grow"
    text = workflow_component("launch: {}\nupdate: {}\ngrow: {}", pins=TRIGGERS, more=more)
    assert warnings(text) == [("IgnoredValue", 10)]
    found = [finding for finding in findings(text) if finding.code == "IgnoredValue"]
    assert "'update'" in found[0].message


def test_an_unknown_workflow_whose_status_would_propagate_is_a_warning() -> None:
    more = "configuration.propagateStatus: [grow]"
    assert warnings(workflow_component("launch: {}", pins=TRIGGERS, more=more)) == [("UnknownWorkflow", 9)]


# Variables


def scope(expression: str, workflows: str = "", pins: str = PINS, more: str = "", own: str = "") -> list[str]:
    text = workflow_component(
        f"go: {{{own} steps: [{{a: {{action: wait, parameters: {{x: '{expression}'}}}}}}]}}\n{workflows}",
        pins=pins,
        more=more,
    )
    assert not errors(text), findings(text)
    return [finding.message for finding in findings(text) if finding.code == "VariableNotInScope"]


def test_a_variable_that_nothing_sets_is_a_warning_with_the_known_sentence() -> None:
    [sentence] = scope("{$.x}")
    assert sentence == "w › go: Variable 'x' isn't in scope."


@pytest.mark.parametrize("form", ["{$.x.y[0]}", "${x}", "text {$.x} text", '["{$.x}"]', "{$.x['a']}"])
def test_every_form_of_expression_is_looked_at(form: str) -> None:
    assert len(scope(form.replace("'", "''"))) == 1


def test_one_variable_is_reported_once_per_workflow() -> None:
    steps = "[{a: {action: wait, parameters: {x: '{$.v} {$.v}', y: '{$.v} {$.w}'}}}]"
    returned = "return: {url: {value: '{$.v}'}}"
    text = workflow_component(f"go: {{steps: {steps}, {returned}}}\nlaunch: {{{returned}}}", pins=PINS)
    assert warnings(text) == [("VariableNotInScope", 10), ("VariableNotInScope", 10), ("VariableNotInScope", 11)]


def test_the_place_is_the_text_that_names_the_variable() -> None:
    text = workflow_component(
        "go:\n  steps:\n    - a:\n        action: wait\n        parameters:\n          l:\n            - fine\n"
        "            - '{$.v}'",
        pins=PINS,
    )
    assert warnings(text) == [("VariableNotInScope", 17)]


@pytest.mark.parametrize(
    ("workflows", "pins", "more", "own"),
    [
        ("", PINS, "", "parameters: [x],"),
        ("launch: {steps: [{s: {action: go, parameters: {x: 1}}}]}", PINS, "", ""),
        ("launch: {return: {x: {value: 1}}}", "result: {x: publish-signal(int)}\ninput: {}", "", ""),
        ("", "actions: {go: receive-command(int x)}\ninput: {}", "", ""),
        ("", "input: {x: configuration(int)}\nresult: {}", "input.x: 5", ""),
        ("launch: {parameters: {x: {default: 5}}}", "input: {x: configuration(int)}\nresult: {}", "", ""),
    ],
    ids=["parameter", "argument of a caller", "returned", "argument of the command", "configured", "default"],
)
def test_what_is_in_scope_is_no_warning(workflows: str, pins: str, more: str, own: str) -> None:
    assert scope("{$.x}", workflows, pins, more, own) == []


def test_outputs_of_steps_are_in_scope() -> None:
    text = workflow_component(
        "go: {steps: [{a: {action: wait, output: {v: out}}}], return: {url: {value: '{$.v}'}}}", pins=PINS
    )
    assert warnings(text) == []


def test_consumed_signals_are_not_in_scope() -> None:
    assert len(scope("{$.x}", pins="seen: {x: consume-signal(int)}\nresult: {}")) == 1


def test_a_configuration_pin_that_nothing_gives_a_value_is_not_in_scope() -> None:
    [sentence] = scope("{$.x}", pins="input: {x: configuration(int)}\nresult: {}")
    assert "Configuration pin 'input.x' has no value." in sentence


def test_variables_inside_of_a_called_macro_are_in_scope() -> None:
    macro = ".m: {steps: [{in: {action: wait, output: {hosts: ips}}}]}"
    own = "return: {url: {value: '{$.s~hosts[0]} {$.s~nothing} {$.t~hosts}'}}"
    text = workflow_component(f"go: {{steps: [{{s: {{action: .m}}}}], {own}}}\n{macro}", pins=PINS)
    sentences = [finding.message for finding in findings(text)]
    assert [sentence.split("'")[1] for sentence in sentences] == ["s~nothing", "t~hosts"]


Steps = list[tuple[str, str, list[str]]]


def test_steps_that_precede_each_other_can_never_start() -> None:
    assert deadlocked_steps([("a", "a", ["b"]), ("b", "b", ["a"]), ("c", "c", [])]) == ["a", "b"]


def test_what_waits_for_stuck_steps_is_stuck_too() -> None:
    assert deadlocked_steps([("a", "a", ["b"]), ("b", "b", ["a"]), ("c", "c", ["a"])]) == ["a", "b", "c"]


def test_an_unknown_phase_holds_nothing_up() -> None:
    assert deadlocked_steps([("a", "a", ["nowhere"])]) == []


def test_a_step_does_not_wait_for_itself() -> None:
    assert deadlocked_steps([("a", "p", ["p"]), ("b", "p", [])]) == []


def test_two_steps_that_wait_for_their_common_phase_wait_for_each_other() -> None:
    assert deadlocked_steps([("a", "p", ["p"]), ("b", "p", ["p"]), ("c", "p", [])]) == ["a", "b"]


def simulated(steps: Steps) -> list[str]:
    """Start whatever may start, until nothing more does: the rule of the language, taken literally."""
    unfinished = {name: (phase, preceding) for name, phase, preceding in steps}
    while True:
        ready = [
            name
            for name, (_, preceding) in unfinished.items()
            if not any(other != name and phase in preceding for other, (phase, _) in unfinished.items())
        ]
        if not ready:
            return list(unfinished)
        for name in ready:
            del unfinished[name]


@given(
    st.lists(
        st.tuples(st.sampled_from("pqrst"), st.lists(st.sampled_from("pqrstu"), max_size=3)),
        max_size=8,
    )
)
def test_the_stuck_steps_are_those_that_a_run_never_reaches(drawn: list[tuple[str, list[str]]]) -> None:
    steps = [(str(number), phase, preceding) for number, (phase, preceding) in enumerate(drawn)]
    assert deadlocked_steps(steps) == simulated(steps)


def placed(text: str) -> list[tuple[str, int, int]]:
    return [(each.code, each.line, each.column) for each in check(dedent(text).encode(), known_actions=ACTIONS)]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("lanch", "launch"),
        ("luanch", "launch"),
        ("Launch", "launch"),
        ("destory", "destroy"),
        ("destroyy", "destroy"),
        ("aplication", "application"),
    ],
)
def test_a_workflow_that_nothing_calls_with_nearly_a_known_name_is_a_warning(name: str, wanted: str) -> None:
    text = f"nothing: {{}}\n{name}:\n  steps: []\n"
    assert placed(text) == [("UnusedWorkflow", 2, 1)]
    assert f"Did you mean '{wanted}'?" in message(text)


@pytest.mark.parametrize("name", ["relaunch", "re-launch", "deploy", "launched", "lunches", "destroyed", ".lanch.all"])
def test_other_names_of_workflows_are_right(name: str) -> None:
    assert placed(f"{name}: {{steps: []}}\n") == []


def test_a_workflow_that_is_called_or_exposed_may_have_any_name() -> None:
    assert placed("update: {steps: [{s: {action: lanch}}]}\nlanch: {steps: []}\n") == []
    assert placed("launch: {steps: []}\nlanch: {steps: []}\n") == []
    exposed = workflow_component("lanch: {steps: []}", pins="    actions: {lanch: receive-command()}\n")
    assert placed(exposed) == []
    assert [code for code, _, _ in placed(exposed.replace("receive-command()", "send-command()"))] == ["UnusedWorkflow"]


def test_unknown_keys_and_types_of_parameters_and_return_values_are_warnings() -> None:
    text = """\
        launch:
          parameters:
            size: {type: integer, defualt: 3}
            tags: {type: list}
          steps: []
          return:
            out: {value: 1, descripton: x}
        """
    assert placed(text) == [("UnknownKey", 3, 27), ("UnknownType", 3, 18), ("UnknownKey", 7, 21)]
    found = [each.message for each in findings(text)]
    for each, meant in zip(found, ("default", "int", "description"), strict=True):
        assert f"Did you mean '{meant}'?" in each


def test_a_mistyped_value_of_a_return_value_is_named() -> None:
    text = "launch: {steps: [], return: {out: {vlaue: 1}}}\n"
    assert tuple(each.code for each in findings(text)) == ("MissingValue", "UnknownKey")
    assert "Did you mean 'value'?" in findings(text)[1].message


def test_an_exposed_signal_that_no_workflow_returns_is_a_warning() -> None:
    text = """\
        application:
          interfaces: {result: {url: "bind(w#result.url)"}}
          components:
            w:
              type: workflow.Instance
              interfaces: {result: {url: publish-signal(string), own: publish-signal(string)}}
              configuration:
                configuration.workflows: {launch: {steps: [], return: {urll: {value: x}}}}
        """
    assert [each[0] for each in placed(text)] == ["ReturnWithoutPin", "SignalWithoutReturn"]
    assert ("SignalWithoutReturn", 6, 34) in placed(text)
    assert "Did you mean 'urll'?" in findings(text)[1].message
    assert placed(text.replace("urll", "url")) == []


@pytest.mark.parametrize(
    ("action", "name", "wrong", "right"),
    [
        ("serialize", "format", "CVS", "CSV"),
        ("serialize", "format", "Yml", "yaml"),
        ("opentofu", "operation", "aply", "apply"),
        ("helm", "operation", "unintsall", "uninstall"),
    ],
)
def test_a_literal_that_is_none_of_the_choices_is_a_warning(action: str, name: str, wrong: str, right: str) -> None:
    known = {each.name: each for each in BUILT_IN}

    def told(value: str) -> list[str]:
        text = f"launch: {{steps: [{{s: {{action: {action}, parameters: {{input: 1, {name}: {value}}}}}}}]}}\n"
        return [each.message for each in check(text.encode(), known_actions=known) if f"'{name}'" in each.message]

    (said,) = [each for each in told(wrong) if "one of" in each]
    assert f"Did you mean '{right.upper() if action == 'serialize' else right}'?" in said
    assert not [each for each in told(right) if "one of" in each]
    assert not [each for each in told('"{$.x}"') if "one of" in each]


def test_what_is_unknown_is_placed_at_its_key() -> None:
    text = """\
        launch:
          steps:
            - a:
                action: restcall
                parameters:
                  command: x
                  metod:
                    GET
                output:
                  x: contnt
        """
    found = [(each.code, each.line, each.column) for each in check(dedent(text).encode(), known_actions=KNOWN)]
    assert found == [("UnknownStepParameter", 7, 11), ("UnknownOutput", 10, 14)]
