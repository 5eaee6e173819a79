"""What a manifest may let checks of drift run."""

import pytest

from launchbay.actions.registry import Registry
from launchbay.manifest.code_changes import compare_manifests
from launchbay.manifest.compiler import check
from tests.support.manifests import compiled, errors, message, warnings

MANIFEST = """\
application:
  components:
    web:
      type: workflow.Instance
      checks: { run: [plan, .look] }
      configuration:
        configuration.workflows:
          launch: {steps: []}
          .look:
            steps:
              - ask:
                  action: restcall
                  parameters: { command: "https://shop.example" }
                  output: { seen: content }
              - list: { action: .listed }
            return: { findings: { value: "{$.seen}" } }
          .listed: {steps: []}
"""
ACTIONS = Registry.load().by_name


def found(text: str) -> list[tuple[str, int, int]]:
    """Return the errors of a manifest for a server with the built-in actions: code, line and column."""
    return [
        (each.code, each.line, each.column)
        for each in check(text.encode(), known_actions=ACTIONS)
        if each.severity == "error"
    ]


def test_a_component_names_what_checks_run() -> None:
    assert found(MANIFEST) == []
    assert compiled(MANIFEST).components["web"].checks == ("plan", ".look")
    assert compiled(MANIFEST.replace("[plan, .look]", "[]")).components["web"].checks == ()
    assert compiled(MANIFEST.replace("      checks: { run: [plan, .look] }\n", "")).components["web"].checks is None


def test_a_workflow_manifest_names_it_in_its_header() -> None:
    text = "header: {checks: {run: [look]}}\nlaunch: {steps: []}\nlook: {steps: [], return: {findings: {value: []}}}\n"
    assert found(text) == []
    assert [each.checks for each in compiled(text).components.values()] == [("look",)]
    assert found(text.replace("[look]", "[lok]")) == [("UnknownWorkflow", 1, 25)]


@pytest.mark.parametrize(
    "step",
    [
        'action: restcall, parameters: { command: "https://shop.example", method: POST }',
        'action: restcall, parameters: { command: "https://shop.example", body: "drop" }',
        'action: restcall, parameters: { command: "https://shop.example", headers: { x-HTTP-Method-Override: PUT } }',
        "action: execrun, parameters: { command: [ls] }",
        "action: opentofu, parameters: { name: a, module: '' }",
        "action: wait, parameters: { delay: 1 }",
        "action: serviceCall, parameters: { service: a, command: b }",
    ],
)
def test_a_step_that_may_change_something_is_refused_at_its_place(step: str) -> None:
    text = MANIFEST.replace("action: .listed", step)
    line = text.splitlines()[14]
    assert found(text) == [("CheckMayChange", 15, line.index("action:") + len("action: ") + 1)]


def test_steps_of_called_workflows_and_of_all_lists_count() -> None:
    listed = ".listed: {steps: []}"
    called = MANIFEST.replace(listed, ".listed: {steps: [{a: {action: execrun, parameters: {command: x}}}]}")
    assert found(called) == [("CheckMayChange", 17, 42)]
    after = MANIFEST.replace(listed, ".listed: {steps: [], finally: [{a: {action: undeployEnv}}]}")
    assert [code for code, _, _ in found(after)] == ["CheckMayChange"]
    circle = MANIFEST.replace(listed, ".listed: {steps: [{a: {action: .look}}]}")
    assert found(circle) == []


def test_a_borrowed_secret_is_a_change() -> None:
    text = MANIFEST.replace("action: restcall", 'secrets: {a: "vault:a#b"}\n                  action: restcall')
    assert "CheckMayChange" in {code for code, _, _ in found(text)}


def test_a_method_that_is_known_only_at_run_time_is_asked_then() -> None:
    assert found(MANIFEST.replace('"https://shop.example"', '"https://shop.example", method: "{$.m}"')) == []


def test_names_and_keys_that_mean_nothing_are_refused_at_their_place() -> None:
    assert errors(MANIFEST.replace("[plan, .look]", "[plan, .loook]")) == [("UnknownWorkflow", 5)]
    assert "'.look'" in message(MANIFEST.replace("[plan, .look]", "[plan, .loook]"))
    assert errors(MANIFEST.replace("[plan, .look]", "[.listed]")) == [("CheckWithoutFindings", 5)]
    assert errors(MANIFEST.replace("[plan, .look]", "[plan], rum: 1")) == [("UnknownKey", 5)]


@pytest.mark.parametrize("other", ["true", "[http]", "{ http: { port: 80 } }", "3"])
def test_what_older_manifests_have_under_the_key_still_means_nothing(other: str) -> None:
    text = MANIFEST.replace("{ run: [plan, .look] }", other)
    assert (errors(text), warnings(text)) == ([], [("MalformedChecks", 5)])


def test_checks_of_a_component_without_workflows_have_no_effect() -> None:
    text = "application:\n  components:\n    c: {type: cobalt.common.Constants, checks: {run: [plan]}}\n"
    assert warnings(text) == [("IgnoredValue", 3)]


def test_a_version_with_other_checks_is_another_one_and_says_so() -> None:
    without = compiled(MANIFEST.replace("[plan, .look]", "[plan]"))
    [change] = compare_manifests(without, compiled(MANIFEST)).code
    assert (change.path, change.parts, change.sentence) == ("web", ["checks"], "checks")


APPLICATION = MANIFEST.replace("application:\n", "application:\n  checks: { cron: 0 3 * * *, zone: Europe/Berlin }\n")


def test_an_application_says_when_its_instances_are_checked() -> None:
    assert found(APPLICATION) == []
    assert compiled(APPLICATION).checks == ("0 3 * * *", "Europe/Berlin")
    assert compiled(APPLICATION.replace(", zone: Europe/Berlin", "")).checks == ("0 3 * * *", "UTC")
    assert compiled(MANIFEST).checks is None
    header = compiled('header: {checks: {cron: "@daily"}}\nlaunch: {steps: []}\n')
    assert (header.checks, [each.checks for each in header.components.values()]) == (("@daily", "UTC"), [None])


@pytest.mark.parametrize(
    ("times", "place", "says"),
    [
        ("cron: often", (2, 19), "expected 5 fields"),
        ('cron: "* * * * * *"', (2, 19), "more often than every 10 seconds"),
        ("cron: 0 0 3 * * ? 2020", (2, 19), "never fires again"),
        ("cron: 0 3 * * *, zone: Atlantis", (2, 36), "Unknown time zone"),
        ("zone: Europe/Berlin", (2, 19), "has no 'cron'"),
    ],
)
def test_times_that_cannot_be_are_refused_at_their_place(times: str, place: tuple[int, int], says: str) -> None:
    text = APPLICATION.replace("cron: 0 3 * * *, zone: Europe/Berlin", times)
    assert found(text) == [("MalformedSchedule", *place)]
    assert says in message(text)


def test_times_stand_at_the_application_since_a_check_is_of_the_whole_instance() -> None:
    text = MANIFEST.replace("run: [plan, .look]", "run: [plan, .look], cron: 0 3 * * *")
    assert found(text) == [("UnknownKey", 5, 37)]
    assert "Write it at the application" in message(text)


def test_what_an_application_lets_checks_run_counts_for_components_that_say_nothing() -> None:
    other = MANIFEST.replace("      checks: { run: [plan, .look] }\n", "")
    text = other.replace("application:\n", "application:\n  checks: { run: [.look] }\n")
    text += "    db: {type: workflow.Instance, configuration: {configuration.workflows: {launch: {steps: []}}}}\n"
    text += "    own: {type: workflow.Instance, checks: {run: [plan]}}\n"
    assert found(text) == []
    checks = {path: each.checks for path, each in compiled(text).components.items()}
    assert checks == {"web": (".look",), "db": (), "own": ("plan",)}
    assert found(text.replace("[.look] }\n", "[.lok] }\n", 1)) == [("UnknownWorkflow", 2, 19)]
    assert found(text.replace("action: restcall", "action: undeployEnv"))[0][0] == "CheckMayChange"


def test_a_version_with_other_times_of_checks_is_another_one_and_says_so() -> None:
    assert compare_manifests(compiled(MANIFEST), compiled(APPLICATION)).checks
    assert not compare_manifests(compiled(APPLICATION), compiled(APPLICATION))
