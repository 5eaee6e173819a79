"""Findings for mistakes that a first manifest has: each is one finding, at its place, with what to write instead."""

import pytest

from launchbay.actions.registry import BUILT_IN
from launchbay.manifest.compiler import check
from launchbay.model.findings import Finding

_ACTIONS = {action.name: action for action in BUILT_IN}
_HEAD = """\
application:
  components:
    w:
      type: workflow.Instance
      interfaces:
        in: {{size: configuration(int), name: configuration(string)}}
        out: {{url: publish-signal(string)}}
        {pin}
      configuration:
        {value}
        configuration.workflows:
          launch: {{{launch}}}
"""


def found(text: str) -> list[Finding]:
    return check(text.encode(), known_actions=_ACTIONS)


def component(*, pin: str = "", value: str = "", launch: str = "steps: []") -> str:
    return _HEAD.format(pin=pin, value=value, launch=launch)


def codes(text: str) -> list[str]:
    return [finding.code for finding in found(text)]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (component(value="in.size: {$.x}"), 18),
        (component(value="in.name: {$= join($.a, $.b) }"), 18),
        (component(launch="return: {url: {value: {$.name}}}"), 42),
        (component(launch="steps: [{a: {action: provisionVms, parameters: {targetQuantity: {$.size}}}}]"), 84),
        (component(launch="steps: [{a: {action: provisionVms, parameters: {staticIps: [{$.size}]}}}]"), 80),
        (component(launch="steps: [], parameters: [{p: {default: {$.size ? 1 : 2}}}]"), 58),
    ],
)
def test_an_expression_without_quotes_is_one_warning_wherever_a_map_may_stand(text: str, column: int) -> None:
    [finding] = found(text)
    assert (finding.severity, finding.code, finding.column) == ("warning", "UnquotedExpression", column)
    assert finding.message.endswith("is a map and not an expression. Write it in double quotes.")


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            component(launch="steps: [{a: {action: wait, when: {$.size > 3}}}]"),
            "MalformedControl",
            "quote {$.size > 3}.",
        ),
        (component(launch="return: {url: {$.name}}"), "MissingValue", 'Write url: {value: "{$.name}"}.'),
        (component(value="in.name: {$.hosts[0]}"), "YamlSyntax", "in double quotes."),
        (component(value="in.name: {$.host}:8080"), "YamlSyntax", "in double quotes."),
        (component(value="in.name: [${name}]"), "YamlSyntax", "in double quotes."),
        (component(value="in.name: {{$.host}}"), "KeyNotText", "quote {$.host}."),
    ],
)
def test_where_an_expression_without_quotes_is_an_error_the_error_says_to_quote_it(
    text: str, code: str, says: str
) -> None:
    finding = next(each for each in found(text) if each.severity == "error")
    assert finding.code == code
    assert finding.message.endswith(says)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("in.name: {$.name}!", "{$.name}!"),
        ("in.name: {$.host}:8080  # of the server", "{$.host}:8080"),
        ("in.name: [{$.host}/x, {$.other}]", "{$.host}/x"),
        ("in.name: {a: {$.list[0]}/x}", "{$.list[0]}/x"),
    ],
)
def test_text_after_an_expression_without_quotes_is_named_with_its_place(value: str, written: str) -> None:
    text = component(value=value)
    [finding] = found(text)
    assert finding.message == f"Invalid YAML: {written} begins a map, because of its brace. Write it in double quotes."
    line = text.splitlines()[finding.line - 1]
    assert line[finding.column - 1 :].startswith(written)


@pytest.mark.parametrize(
    "value", ['in.name: "{$.x}"', "in.size: {$.x: 1}", 'in.size: {"$.x": null}', "in.size: {$ref: }", "in.size: {}"]
)
def test_what_is_no_expression_without_quotes_is_no_such_warning(value: str) -> None:
    assert "UnquotedExpression" not in codes(component(value=value))


def _script(scalar: str) -> list[tuple[str, int, int]]:
    text = f"""\
launch:
  steps:
    - machine: {{action: provisionVms, parameters: {{roleName: x}}}}
    - run:
        action: execrun
        precedingPhases: [machine]
        parameters:
          roles: [x]
          command:
            - {scalar}
"""
    return [(finding.message, finding.line, finding.column) for finding in found(text)]


@pytest.mark.parametrize(
    ("scalar", "line", "column"),
    [
        ("|\n              set -e\n\n              echo $${HOME} ${HOME}", 13, 29),
        (">-\n              set -e\n              echo ${HOME} again", 12, 20),
        ("| # not ${HOME}\n              ${HOME}", 11, 15),
        ("'it''s ${HOME}'", 10, 22),
        ("plain\n              ${HOME}", 11, 15),
    ],
)
def test_a_variable_of_the_shell_is_found_at_its_own_place_in_a_text(scalar: str, line: int, column: int) -> None:
    message = "launch: Variable 'HOME' isn't in scope. If the shell is to replace it, write $${HOME}."
    assert _script(scalar) == [(message, line, column)]


def test_a_place_that_the_source_writes_otherwise_is_that_of_the_scalar() -> None:
    assert [place[1:] for place in _script(r'"a \x24{HOME}"')] == [(10, 15)]


def test_a_malformed_expression_is_found_at_its_own_place_in_a_text() -> None:
    [(message, line, column)] = _script("|\n              first\n              then {$.a b}")
    assert "Invalid expression '{$.a b}'" in message
    assert (line, column) == (12, 25)


@pytest.mark.parametrize("wrong", ["string", "configration(string)", "publish-signal(strnig)", "{}", "[a]"])
@pytest.mark.parametrize(
    ("value", "launch"),
    [
        ("p.a: 3", "steps: []"),
        ("configuration.triggers: {p.a: launch}", "steps: []"),
        ("", "return: {a: {value: 1}}"),
        ("", "return: {url: {value: '{$.a}'}}"),
        ("", "steps: [{b: {action: p.a}}]"),
    ],
)
def test_a_pin_of_a_wrong_type_is_one_finding(wrong: str, value: str, launch: str) -> None:
    assert codes(component(pin=f"p: {{a: {wrong}}}", value=value, launch=launch)) == ["MalformedPin"]


@pytest.mark.parametrize("other", ["consume-signal(string)", "publish-signal(string)", "send-command()"])
def test_a_pin_of_a_wrong_type_may_be_bound(other: str) -> None:
    text = f"""
application:
  interfaces:
    i: {{a: bind(w#p.a)}}
    all: {{"*": bind(w#p.*)}}
  components:
    w: {{type: workflow.Instance, interfaces: {{p: {{a: strnig}}}}}}
    v: {{type: workflow.Instance, interfaces: {{p: {{a: {other}}}}}}}
  bindings: [[w#p, v#p]]
"""
    assert codes(text) == ["MalformedPin"]


def test_a_pin_of_a_wrong_type_of_a_service_is_one_finding() -> None:
    assert codes("header: {services: {s: {a: strnig}}}\nlaunch: {steps: []}") == ["MalformedPin"] * 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{launch:, b: }", "Write a space after the colon."),
        ('{"launch": {"%s": 1}}' % ("k" * 1_025), "Shorten the key before this colon to at most 1,024 characters."),
        ('{"launch": {"a\\"%s": 1}}' % ("k" * 1_025), "Shorten the key before this colon to at most 1,024 characters."),
        (f"launch: {{{'k' * 1_025}: 1}}", "Shorten the key before this colon to at most 1,024 characters."),
        (f"launch:\n  {'k' * 1_025}: 1", "Shorten the key before this colon to at most 1,024 characters."),
    ],
)
def test_what_yaml_refuses_of_keys_comes_with_what_to_write(text: str, says: str) -> None:
    [finding] = found(text)
    assert finding.code == "YamlSyntax"
    assert finding.message.endswith(says)


@pytest.mark.parametrize(
    ("parameters", "others", "expected"),
    [
        ("{}", ["v", "u"], ["OnePeerOfSeveral"]),
        ("{multi: true}", ["v", "u"], []),
        ("{multi: false}", ["v", "u"], []),
        ("{}", ["v"], []),
    ],
)
def test_signals_of_several_peers_without_multi_are_a_warning(
    parameters: str, others: list[str], expected: list[str]
) -> None:
    constants = (
        "{type: cobalt.common.Constants, interfaces: {o: {s: publish-signal(int)}},"
        " configuration: {configuration.values: {o.s: 1}}}"
    )
    text = f"""
application:
  components:
    w:
      type: workflow.Instance
      interfaces: {{i: {{s: consume-signal(int)}}}}
      configuration:
        configuration.workflows: {{launch: {{steps: [{{a: {{action: getSignals, parameters: {parameters}}}}}]}}}}
    v: {constants}
    u: {constants}
  bindings: [{", ".join(f"[w, {other}]" for other in others)}]
"""
    assert codes(text) == expected
