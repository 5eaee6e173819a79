"""What another version changes in the code of components: which workflows and steps, and their source lines."""

from typing import Any

from launchbay.manifest.code_changes import code_changes, step_lines
from launchbay.model.code_change import CodeChange
from tests.support.manifests import compiled

BEFORE = """
application:
  interfaces:
    input: {size: bind(shop#input.size)}
    actions: {stop: bind(shop#actions.stop)}
  components:
    shop:
      type: workflow.Instance
      interfaces:
        input: {size: configuration(int)}
        actions: {stop: receive-command()}
      configuration:
        input.size: 1
        configuration.workflows:
          launch:
            steps:
              - look:
                  action: restcall
                  parameters:
                    url: https://a.example

              - rest: {action: wait, parameters: {delay: 0}}
          stop: {steps: []}
"""


def changes(*replaced: tuple[str, str]) -> dict[str, CodeChange]:
    after = BEFORE
    for old, new in replaced:
        assert old in after
        after = after.replace(old, new, 1)
    return code_changes(compiled(BEFORE), compiled(after), (BEFORE, after))


def the_change(*replaced: tuple[str, str]) -> Any:
    [change] = changes(*replaced).values()
    return change


def test_a_step_whose_address_changes_is_shown_with_its_lines() -> None:
    change = the_change(("https://a.example", "https://b.example"))
    assert (change.path, change.sentence) == ("shop", "workflow launch (step look)")
    [step] = change.workflows[0].steps
    assert (step.name, step.change, step.from_line, step.to_line) == ("look", "changed", 17, 17)
    assert step.diff == [
        "  - look:",
        "      action: restcall",
        "      parameters:",
        "-       url: https://a.example",
        "+       url: https://b.example",
    ]


def test_values_of_configuration_pins_and_comments_are_no_code() -> None:
    assert changes(("input.size: 1", "input.size: 2  # more")) == {}


def test_workflows_come_and_go() -> None:
    assert the_change(("          stop: {steps: []}\n", "")).sentence == "workflow stop removed"
    more = the_change(("          stop: {steps: []}\n", "          stop: {steps: []}\n          .more: {steps: []}\n"))
    assert more.sentence == "workflow .more added"


def test_steps_come_go_and_move() -> None:
    rest = "              - rest: {action: wait, parameters: {delay: 0}}\n"
    gone = the_change((rest, ""))
    assert [(step.name, step.change) for step in gone.workflows[0].steps] == [("rest", "removed")]
    assert gone.workflows[0].steps[0].diff == ["- - rest: {action: wait, parameters: {delay: 0}}"]
    moved = the_change((rest, ""), ("            steps:\n", f"            steps:\n{rest}"))
    assert {step.change for step in moved.workflows[0].steps} == {"moved"}


def test_timeouts_triggers_and_needs_are_named() -> None:
    assert the_change(("stop: {steps: []}", "stop: {timeout: 60, steps: []}")).sentence == "workflow stop (timeout)"
    triggers = "        configuration.triggers: {input.size: launch}\n        configuration.workflows:\n"
    assert the_change(("        configuration.workflows:\n", triggers)).sentence == "triggers"
    typed = the_change(("size: configuration(int)", "size: configuration(double)"))
    assert typed.sentence == "interfaces"


def test_the_lines_of_a_step_end_where_the_next_one_begins() -> None:
    lines = BEFORE.splitlines()
    assert step_lines(lines, 22) == ["- rest: {action: wait, parameters: {delay: 0}}"]
    assert step_lines(lines, 100) == []


def scripted(count: int, word: str) -> str:
    """Return the manifest with a script of so many lines in its first step."""
    lines = [f"                        {word} {number}" for number in range(count)]
    body = "\n".join(("                    body: |", *lines))
    return BEFORE.replace(
        "                    url: https://a.example", f"                    url: https://a.example\n{body}"
    )


def test_long_steps_are_compared_and_shown_within_bounds() -> None:
    def diff(count: int) -> list[str]:
        one, other = scripted(count, "line"), scripted(count, "another line")
        [change] = code_changes(compiled(one), compiled(other), (one, other)).values()
        return change.workflows[0].steps[0].diff

    assert diff(2_000) == ["  … 2005 lines before, 2005 lines after"]
    assert (len(diff(300)), diff(300)[-1]) == (61, "  …")
