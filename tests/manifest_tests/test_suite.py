"""Files of tests: what they say, and the place of everything that is wrong with them."""

from pathlib import Path
from textwrap import dedent

import pytest

from launchbay.errors import InvalidManifest
from launchbay.machines.dry_run import Answer
from launchbay.manifest_tests.suite import Suite, Verb, is_suite, read_suite, suite_of

PATH = Path("/bay/shop.test.yml")
WHOLE = """
    manifest: ../shop.yml
    applications: { Database: db.yml }
    environment:
      markers: [gpu]
      properties: { zone: bay.example }
      policies: { execrun.ignoreFail: true }
      services: { keypair-store: { get-keypair: { privateKey: x } } }
    answers: [{ action: execrun, give: { stdout: bay } }]
    tests:
      the first:
        - launch:
          parameters: { in.size: 2 }
          destroyInterval: 2 hours
          expect:
            status: Running
            values: { out.n: 2 }
            like: { out.url: "http://*" }
            steps: [a, { step: b, component: web, action: execrun, parameters: { command: [x] } }]
            not-steps: c
            workflows: [launch, update]
            machines: { web: 2 }
            log: "dry run"
        - run: grow
          parameters: { by: 1 }
          answers: [{ give: { error: full } }]
          expect: { error: full }
        - reconfigure: ../other.yml
        - wait: 90
        - destroy
"""


def suite(text: str) -> Suite:
    return read_suite(PATH, dedent(text).encode())


def test_a_whole_file_is_read() -> None:
    found = suite(WHOLE)
    assert found.manifest == Path("/bay/../shop.yml")
    assert found.applications == {"Database": Path("/bay/db.yml")}
    assert found.environment.markers == ["gpu"]
    assert found.environment.properties == {"zone": "bay.example"}
    assert found.environment.policies == {"execrun.ignoreFail": True}
    assert found.services == {"keypair-store": {"get-keypair": {"privateKey": "x"}}}
    assert found.answers.entries == (Answer({"action": "execrun"}, {"stdout": "bay"}),)
    [case] = found.cases
    assert case.name == "the first"
    assert [act.verb for act in case.acts] == [Verb.LAUNCH, Verb.RUN, Verb.RECONFIGURE, Verb.WAIT, Verb.DESTROY]
    launch, run, reconfigure, wait, _ = case.acts
    assert (launch.parameters, launch.destroy_after_s, launch.line) == ({"in.size": 2}, 7200.0, 12)
    assert (run.subject, run.parameters, run.answers.entries[0].give) == ("grow", {"by": 1}, {"error": "full"})
    assert (reconfigure.subject, wait.seconds) == ("../other.yml", 90.0)
    expected = launch.expected
    assert expected.status is not None
    assert (expected.status.value, expected.status.line) == ("Running", 16)
    assert (expected.values["out.n"].value, expected.like["out.url"].value) == (2, "http://*")
    assert [(step.step, step.component, step.action) for step in expected.steps] == [
        ("a", None, None),
        ("b", "web", "execrun"),
    ]
    assert [each.value for each in (*expected.not_steps, *expected.log)] == ["c", "dry run"]
    assert expected.workflows is not None
    assert expected.machines is not None
    assert (expected.workflows.value, expected.machines.value) == (["launch", "update"], {"web": 2})


@pytest.mark.parametrize(("name", "manifest"), [("shop.test.yml", "shop.yml"), ("shop.test.yaml", "shop.yaml")])
def test_without_a_name_the_manifest_is_the_one_beside(name: str, manifest: str) -> None:
    found = read_suite(Path("/bay") / name, b"tests: {a: [launch]}")
    assert found.manifest == Path("/bay") / manifest


def test_files_of_tests_are_known_by_their_names(tmp_path: Path) -> None:
    assert is_suite(Path("a.test.yml"))
    assert not is_suite(Path("test.yml"))
    assert suite_of(tmp_path / "a.yml") == tmp_path / "a.test.yml"
    (tmp_path / "a.test.yaml").touch()
    assert suite_of(tmp_path / "a.yml") == tmp_path / "a.test.yaml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "Line 1, column 1: No tests found"),
        ("[]", "the file must be a map, not a list"),
        ("tests: {a: {launch: null}}", "the test 'a' must be a list"),
        (
            "tests:\n  a:\n    - lunch",
            "Line 3, column 7: Invalid act. Use exactly one of: launch, run, reconfigure, wait, destroy",
        ),
        ("tests: {a: [{launch: null, run: x}]}", "Invalid act."),
        ("tests: {a: [{launch: {in.size: 2}}]}", "'launch' has no value"),
        ("tests: {a: [{run: null}]}", "'run' must be a string, not null"),
        ("tests: {a: [{wait: soon}]}", "'wait': 'soon' is not a duration"),
        ("tests: {a: [{wait: 1, parameters: {}}]}", "Unknown key 'parameters' in 'wait'"),
        ("tests: {a: [{launch: null, destroyInterval: -1}]}", "'destroyInterval': -1 is negative"),
        (
            "tests: {a: [{launch: null, expect: {statsu: x}}]}",
            "Unknown key 'statsu' in 'expect'. Valid keys: status, error",
        ),
        (
            "tests: {a: [{launch: null, expect: {status: Executing}}]}",
            "Unknown status after an act. Use one of: Running, Failed, Destroyed",
        ),
        ("tests: {a: [{launch: null, expect: {steps: [{name: x}]}}]}", "Unknown key 'name' in a step"),
        ("tests: {a: [{launch: null, expect: {values: [1]}}]}", "'values' must be a map"),
        ("answers: [{}]\ntests: {a: [launch]}", "'give' must be a map of outputs"),
        ("tests: {a: [launch], a: [launch]}", "Duplicate key 'a'"),
        ("environment: {service: {}}\ntests: {a: [launch]}", "Unknown key 'service' in 'environment'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        suite(text)
    assert said in " ".join(refused.value.messages)
