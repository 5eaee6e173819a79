"""Manifest tests at work: every kind of act, and of expectation, that holds and that does not."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner, Result

from launchbay import plugins
from launchbay.actions.contract import ENTRY_POINT_GROUP, ActionCall, ActionParameter
from launchbay.cli.main import main
from launchbay.manifest_tests.runner import SuiteRunner
from launchbay.manifest_tests.suite import read_suite
from tests.support.manifests import outcomes, told

MANIFEST = "launch: {steps: [{s: {action: registerLogPath}}], return: {x: {value: 1}}}"
GOOD = "tests: {it works: [{launch: null, expect: {values: {x: 1}}}], it works too: [launch]}"
BAD = "tests:\n  it fails:\n    - launch:\n      expect: {values: {x: 2}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.yml").write_text(MANIFEST)
    (tmp_path / "app.test.yml").write_text(GOOD)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["test", *map(str, arguments)])


def test_all_that_succeeds_ends_with_0(folder: Path) -> None:
    result = run(folder / "app.test.yml")
    assert result.exit_code == 0
    assert "  ok  it works (" in result.output
    assert "2 tests, all succeeded, " in result.output


def test_a_manifest_means_the_tests_beside_it_and_each_file_runs_once(folder: Path) -> None:
    result = run(folder / "app.yml", folder / "app.test.yml")
    assert (result.exit_code, "2 tests" in result.output) == (0, True)


@pytest.mark.parametrize(("manifest", "suite"), [("app.yaml", "app.test.yml"), ("app.yml", "app.test.yaml")])
def test_a_test_file_finds_its_manifest_with_the_other_ending(tmp_path: Path, manifest: str, suite: str) -> None:
    (tmp_path / manifest).write_text(MANIFEST)
    (tmp_path / suite).write_text(GOOD)
    assert "2 tests, all succeeded, " in run(tmp_path / suite).output
    assert "2 tests, all succeeded, " in run(tmp_path / manifest).output


def test_a_failure_ends_with_1_and_is_told_with_file_and_line(folder: Path) -> None:
    (folder / "app.test.yml").write_text(BAD)
    result = run(folder / "app.test.yml")
    assert result.exit_code == 1
    assert f"{folder}/app.test.yml:4: expected x to be 2, found 1." in result.output
    assert "1 test, 1 failed" in result.output


def test_names_choose_tests(folder: Path) -> None:
    assert "1 test, " in run(folder / "app.test.yml", "-k", "too").output
    assert "0 tests, all succeeded" in run(folder / "app.test.yml", "-k", "nothing").output


def test_the_log_is_shown_when_it_is_asked_for(folder: Path) -> None:
    assert "registerLogPath" not in run(folder / "app.test.yml").output
    assert "The action 'registerLogPath' has no effect here" in run(folder / "app.test.yml", "--log").output


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("app.test.yml", "tests: {a: [lunch]}", "app.test.yml: Line 1, column 13: Invalid act."),
        ("app.test.yml", "", "app.test.yml: Line 1, column 1: The file is empty"),
        ("app.yml", "launch: {steps: [{s: {action: nonsense}}]}", "app.yml: Line 1, column"),
        ("app.test.yml", "manifest: gone.yml\ntests: {a: [launch]}", "gone.yml: No such file or directory."),
    ],
)
def test_what_cannot_be_read_ends_with_2(folder: Path, name: str, text: str, said: str) -> None:
    (folder / name).write_text(text)
    result = run(folder / "app.yml")
    assert result.exit_code == 2
    assert said in result.output


def test_a_manifest_without_tests_beside_it_is_told(folder: Path) -> None:
    (folder / "app.test.yml").unlink()
    result = run(folder / "app.yml")
    assert result.exit_code == 2
    assert "app.test.yml: No such file or directory." in result.output


SHOP = """
    application:
      configuration: { in.size: 2 }
      interfaces:
        in: { size: bind(web#input.size) }
        out: { "*": bind(web#result.*) }
        do: { "*": bind(web#actions.*) }
      components:
        web:
          type: workflow.Instance
          interfaces:
            input: { size: configuration(int) }
            actions: { grow: receive-command(int by), slow: receive-command(), call: receive-command() }
            result: { ips: publish-signal(list<string>), n: publish-signal(int), got: publish-signal(object) }
          configuration:
            configuration.triggers: { input.size: launch }
            configuration.schedule: { tick: "0 0 * * * ?" }
            configuration.workflows:
              launch:
                steps:
                  - make:
                      action: provisionVms
                      parameters: { roleName: web, targetQuantity: "{$.size}" }
                      output: { ips: ips }
                  - install:
                      action: execrun
                      precedingPhases: [make]
                      parameters: { roles: [web], command: [install], retryCount: 1 }
                return: { ips: { value: "{$.ips}" }, n: { value: 0 } }
              grow:
                steps:
                  - more:
                      action: provisionVms
                      parameters: { roleName: web, quantity: "{$.by}" }
                      output: { ips: ips }
                return: { ips: { value: "{$.ips}" } }
              slow:
                steps: [{ nap: { action: wait, parameters: { delay: 3 hours } } }]
                return: { n: { value: 99 } }
              call:
                steps:
                  - ask: { action: restcall, parameters: { command: "https://x.example/a" }, output: { c: content } }
                return: { got: { value: "{$.c}" } }
              tick:
                steps: [{ clean: { action: execrun, parameters: { roles: [web], command: [clean] } } }]
                return: { n: { value: 1 } }
              destroy:
                steps: [{ bye: { action: execrun, parameters: { roles: [web], command: [bye] } } }]
"""
HOLDS = """
    tests:
      a launch gives addresses, and a command adds to them:
        - launch:
          expect:
            status: Running
            values: { out.ips: [192.0.2.1, 192.0.2.2] }
            like: { out.ips: "*192.0.2.2*" }
            steps:
              - { step: make, component: web, action: provisionVms, parameters: { targetQuantity: 2 } }
              - { step: install, parameters: { command: [install] } }
            not-steps: [bye, clean]
            workflows: [launch]
            machines: { web: 2 }
            log: ["dry run: execrun on 192.0.2.1"]
        - run: do.grow
          parameters: { by: 1 }
          expect: { values: { out.ips: [192.0.2.1, 192.0.2.2, 192.0.2.3] }, machines: { web: 3 } }
        - destroy:
          expect: { status: Destroyed, steps: [bye], machines: {} }
      a parameter counts, and so does a reconfiguration:
        - launch:
          parameters: { in.size: 1 }
          expect: { machines: { web: 1 } }
        - reconfigure:
          parameters: { in.size: 4 }
          expect: { machines: { web: 4 }, workflows: [reconfigure] }
      schedules and the end of life come by themselves:
        - launch:
          destroyInterval: 5 hours
        - wait: 30 minutes
          expect: { workflows: [], values: { out.n: 0 } }
        - wait: 2 hours
          expect: { workflows: [tick, tick], steps: [clean, clean], values: { out.n: 1 } }
        - wait: 3 hours
          expect: { status: Destroyed, workflows: [tick, tick, tick, destroy] }
      without a word an instance lives one hour:
        - launch:
        - wait: 61 minutes
          expect: { status: Destroyed }
      waiting takes no time:
        - launch:
          destroyInterval: 10 hours
        - run: do.slow
          expect: { values: { out.n: 99 } }
      a call is answered:
        - launch:
        - run: do.call
          answers: [{ action: restcall, command: "*/a", give: { content: { id: 7 } } }]
          expect: { values: { out.got: { id: 7 } }, steps: [{ step: ask, action: restcall }] }
      a failure is expected:
        - launch:
          answers: [{ step: install, give: { exitCode: 3, stderr: no space } }]
          expect:
            status: Failed
            error: "exit code 3: no space"
            steps: [install, install]
        - launch:
          expect: { status: Running }
"""


def test_what_is_so_holds(tmp_path: Path) -> None:
    found = outcomes(tmp_path, SHOP, HOLDS)
    assert [(outcome.case.name, outcome.differences) for outcome in found if outcome.differences] == []
    assert len(found) == 7


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ("status: Failed", "5: expected status Failed, found Running."),
        ("error: full", "5: expected an error like 'full', but the act succeeded."),
        ("values: { out.n: 1 }", "5: expected out.n to be 1, found 0."),
        ("values: { out.m: 1 }", "5: unknown return value out.m. Return values: out.ips, out.n."),
        ("like: { out.ips: x* }", '5: expected out.ips to be like \'x*\', found ["192.0.2.1","192.0.2.2"].'),
        ("like: { out.m: x* }", "5: unknown return value out.m."),
        ("steps: [install, make]", "5: expected step 'make' after the previous one, but these ran: none."),
        ("steps: [mace]", "5: expected step 'mace', but these ran: web#make, web#install."),
        (
            "steps: [{ step: make, action: execrun }]",
            "5: expected step 'make' with action execrun, but these ran",
        ),
        ("steps: [{ step: make, component: db }]", "5: expected step 'make' of 'db'"),
        (
            "steps: [{ step: make, parameters: { targetQuantity: 3 } }]",
            "with {\"targetQuantity\":3}, but 'make' of 'web' ran as provisionVms with {\"targetQuantity\":2}.",
        ),
        ("not-steps: [inst*]", "5: step 'install' of 'web' ran, but must not."),
        ("workflows: [launch, update]", "5: expected workflows launch, update to run, but these ran: launch."),
        ("machines: { web: 3 }", '5: expected machines {"web":3}, found {"web":2}.'),
        ("machines: {}", 'found {"web":2}.'),
        ("log: [nothing like this]", "5: no log line is like 'nothing like this'."),
    ],
)
def test_what_is_not_so_is_told_with_its_line(tmp_path: Path, expect: str, said: str) -> None:
    [found] = told(tmp_path, SHOP, f"tests:\n  a:\n    - launch:\n      expect:\n        {expect}\n")
    assert said in found


@pytest.mark.parametrize(
    ("acts", "said"),
    [
        ("[{run: do.grow}]", "1: the act failed: Can't run before a launch. Launch the instance first."),
        (
            "[launch, {run: do.grove}]",
            "Command is not supported: do.grove. Did you mean 'do.grow'? Available: launch, do.grow",
        ),
        ("[launch, destroy, {run: do.grow, parameters: {by: 1}}]", "The instance is destroyed"),
        ("[{launch: null, parameters: {in.sice: 2}}]", "Unknown parameter 'in.sice'"),
        ("[{launch: null, answers: [{step: make, give: {error: quota}}]}]", "the act failed: Component 'web'"),
        ("[launch, {reconfigure: null, parameters: {in.size: x}}]", "doesn't match its type"),
    ],
)
def test_a_refusal_or_failure_that_nobody_expects_fails_the_test(tmp_path: Path, acts: str, said: str) -> None:
    [found] = told(tmp_path, SHOP, f"tests: {{a: {acts}}}")
    assert said in found


def test_a_refusal_may_be_expected(tmp_path: Path) -> None:
    acts = "[{launch: null, parameters: {in.sice: 2}, expect: {error: Unknown parameter}}]"
    assert told(tmp_path, SHOP, f"tests: {{a: {acts}}}") == []


def test_each_case_begins_anew(tmp_path: Path) -> None:
    one = "[{launch: null, expect: {values: {out.ips: [192.0.2.1, 192.0.2.2]}}}]"
    assert told(tmp_path, SHOP, f"tests: {{a: {one}, b: {one}}}") == []


def test_the_first_act_that_differs_ends_its_case(tmp_path: Path) -> None:
    acts = "[{launch: null, expect: {machines: {}}}, {run: nonsense}]"
    assert len(told(tmp_path, SHOP, f"tests: {{a: {acts}}}")) == 1


def test_cases_take_milliseconds(tmp_path: Path) -> None:
    found = outcomes(tmp_path, SHOP, HOLDS)
    assert min(outcome.seconds for outcome in found) < 0.1


PARENT = """
    application:
      interfaces:
        in: { size: bind(db#in.size) }
        out: { hosts: bind(db#out.ips), seen: bind(user#result.seen) }
        do: { grow: bind(db#do.grow) }
      bindings: [[user, db]]
      components:
        db:
          type: reference.Submodule
          configuration: { __locator.application-id: Database }
          interfaces:
            in: { size: configuration(int) }
            out: { ips: publish-signal(list<string>) }
            do: { grow: receive-command(int by) }
        user:
          type: workflow.Instance
          required: [hosts]
          interfaces: { hosts: { ips: consume-signal(list<string>) }, result: { seen: publish-signal(object) } }
          configuration:
            configuration.triggers: { hosts.ips: launch }
            configuration.workflows:
              launch:
                steps: [{ s: { action: getSignals, output: { s: result } } }]
                return: { seen: { value: "{$.s.hosts.ips}" } }
"""
SUBMODULES = """
    applications: { Database: db.yml }
    tests:
      submodules launch, tell, grow, change and go with their parent:
        - launch:
          parameters: { in.size: 1 }
          expect:
            values: { out.hosts: [192.0.2.17], out.seen: [192.0.2.17] }
            workflows: [launch, db.launch]
            machines: { web: 1 }
        - run: do.grow
          parameters: { by: 1 }
          expect:
            values: { out.seen: [192.0.2.17, 192.0.2.18] }
            workflows: [do.grow, db.do.grow, launch]
        - reconfigure:
          parameters: { in.size: 3 }
          expect: { machines: { web: 3 }, values: { out.seen: [192.0.2.17, 192.0.2.18, 192.0.2.19] } }
        - wait: 2 hours
          expect: { status: Destroyed, machines: {}, workflows: [db.tick, db.tick, destroy, db.destroy] }
"""


def test_submodules_are_instances_of_their_own(tmp_path: Path) -> None:
    tests = SUBMODULES.replace("[db.tick, db.tick, destroy, db.destroy]", "[db.tick, destroy, db.destroy]")
    assert told(tmp_path, PARENT, tests, {"db.yml": SHOP}) == []


def test_a_submodule_whose_manifest_is_not_named_is_told(tmp_path: Path) -> None:
    [found] = told(tmp_path, PARENT, "tests: {a: [launch]}")
    assert "Add 'Database: path/to/manifest.yml' to 'applications'" in found


ENVIRONMENT = """
    application:
      interfaces: { out: { "*": bind(user#result.*) } }
      bindings: [[user, offered], [user, keys], [user, notes]]
      components:
        offered:
          type: reference.Service
          interfaces: { gpu: { gpu: publish-signal(unit) }, properties: { zone: publish-signal(string) } }
        keys:
          type: reference.Service
          interfaces: { keypair-store: { get-keypair: "receive-command(string id => object privateKey)" } }
        notes:
          type: reference.Service
          interfaces: { notes: { add: "receive-command(string text => int id)", url: publish-signal(string) } }
        user:
          type: workflow.Instance
          required: [marks, zone, keypair-store, notes]
          interfaces:
            marks: { gpu: consume-signal(unit) }
            zone: { zone: consume-signal(string) }
            keypair-store: { get-keypair: "send-command(string id => object privateKey)" }
            notes: { add: "send-command(string text => int id)", url: consume-signal(string) }
            result:
              zone: publish-signal(string)
              key: publish-signal(object)
              id: publish-signal(int)
              url: publish-signal(string)
          configuration:
            configuration.workflows:
              launch:
                steps:
                  - s: { action: getSignals, output: { s: result } }
                  - k: { action: keypair-store.get-keypair, parameters: { id: a }, output: { k: privateKey } }
                  - n: { action: notes.add, parameters: { text: a }, output: { i: id } }
                return:
                  zone: { value: "{$.s.zone.zone}" }
                  key: { value: "{$.k}" }
                  id: { value: "{$.i}" }
                  url: { value: "{$.s.notes.url}" }
"""


def test_an_environment_gives_markers_properties_and_services(tmp_path: Path) -> None:
    tests = """
        environment:
          markers: [gpu]
          properties: { zone: bay.example }
          services: { notes: { add: { id: 7 }, url: "http://notes.example" } }
        tests:
          a:
            - launch:
              expect: { values: { out.zone: bay.example, out.key: {}, out.id: 7, out.url: "http://notes.example" } }
    """
    assert told(tmp_path, ENVIRONMENT, tests) == []


def test_what_the_environment_lacks_is_told_in_one_sentence_each(tmp_path: Path) -> None:
    [found] = told(tmp_path, ENVIRONMENT, "tests: {a: [launch]}")
    for said in ("needs marker 'gpu'", "needs property 'zone'", "Component 'notes' needs a service with notes"):
        assert said in found


NEEDY = """
    application:
      interfaces: EXPOSED
      components:
        web:
          type: workflow.Instance
          required: [db]
          interfaces: { db: { host: consume-signal(string) } }
          configuration: { configuration.workflows: { launch: { steps: [] } } }
"""
NEEDED = NEEDY.replace("EXPOSED", "{ db: { host: bind(web#db.host) } }")
AROUND = """
    application:
      components:
        child:
          type: reference.Submodule
          interfaces: { db: { host: consume-signal(string) } }
          configuration: { __locator.application-id: child }
"""


def test_a_required_interface_without_a_binding_refuses_the_launch_unless_only_a_parent_can_bind_it(
    tmp_path: Path,
) -> None:
    [found] = told(tmp_path, NEEDY.replace("EXPOSED", "{}"), "tests: {a: [launch]}")
    assert "Component 'web' requires the interface 'db' (host), but nothing is bound to it." in found
    assert told(tmp_path, NEEDED, "tests: {a: [launch]}") == []
    tests = "applications: {child: child.yml}\ntests: {a: [launch]}"
    [found] = told(tmp_path, AROUND, tests, {"child.yml": NEEDED})
    assert "Submodule child: Component 'web' requires the interface 'db' (host)" in found


def test_a_policy_of_the_environment_counts(tmp_path: Path) -> None:
    tests = """
        environment: { policies: { provisionVms.targetQuantity: 5, dry-run.execrun.stdout: bay } }
        tests: { a: [{ launch: null, expect: { machines: { web: 5 } } }] }
    """
    assert told(tmp_path, SHOP, tests) == []


ENDLESS = """
    application:
      bindings: [[a, b]]
      components:
        a:
          type: workflow.Instance
          interfaces: { in: { xb: consume-signal(object) }, out: { xa: publish-signal(object) } }
          configuration:
            configuration.triggers: { in.xb: swap }
            configuration.workflows:
              launch: { steps: [], return: { xa: { value: [1, 2] } } }
              swap:
                steps: [{ look: { action: getSignals, output: { s: result } } }]
                return: { xa: { value: ["{$.s.in.xb[1]}", "{$.s.in.xb[0]}"] } }
        b:
          type: workflow.Instance
          required: [in]
          interfaces: { in: { xa: consume-signal(object) }, out: { xb: publish-signal(object) } }
          configuration:
            configuration.triggers: { in.xa: launch }
            configuration.workflows:
              launch:
                steps: [{ look: { action: getSignals, output: { s: result } } }]
                return: { xb: { value: "{$.s.in.xa}" } }
"""


def test_workflows_that_trigger_each_other_for_ever_are_told(tmp_path: Path) -> None:
    [found] = told(tmp_path, ENDLESS, "tests: {a: [launch]}")
    assert "The triggers don't settle: after 50 rounds, a › swap, b › launch still change the signals" in found


class Post:
    """An action of a package, which no test may run."""

    name = "post"
    aliases: tuple[str, ...] = ()
    pure = False
    parameters: Mapping[str, ActionParameter] = {}
    outputs: Mapping[str, str] = {"id": "Of what was posted."}

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        raise AssertionError("it ran")


def test_an_action_of_a_package_needs_an_answer_and_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("post", "tests.manifest_tests.test_runner:Post", ENTRY_POINT_GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == ENTRY_POINT_GROUP else [])
    (tmp_path / "app.yml").write_text(
        "launch: {steps: [{s: {action: post, output: {i: id}}}], return: {i: {value: '{$.i}'}}}"
    )
    text = """
        tests:
          without: [launch]
          with:
            - launch:
              answers: [{ action: post, give: { id: 7 } }]
              expect: { values: { i: 7 }, steps: [s] }
    """
    path = tmp_path / "app.test.yml"
    suite = read_suite(path, dedent(text).encode())
    without, given = SuiteRunner().results(suite, lambda _: True)
    [difference] = without.differences
    assert "Action 'post' has no answer. Add '- { action: post, give:" in difference.text
    assert given.differences == ()
