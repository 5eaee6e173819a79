"""`compute.Instance`: a machine of its own, whose consumers know it as a role of the interface's name."""

import base64
from typing import Any

import pytest

from launchbay.model.instance import InstanceStatus
from launchbay.model.machine import CommandResult
from launchbay.planning.plans import plan_launch, plan_run
from tests.support.machines import Lab, answer, dry, on_lab, roles
from tests.support.runtime import Case, Instance, check_records, instance

MIRROR = """
              compute:
                networks: consume-signal(map<string, map<string, string>>)
                exec: >-
                  send-command(string command, int timeout => string stdOut, string stdErr
                  => string stdOut, string stdErr, int exitCode)
                put-file: send-command(string filename, bytes payload)
                get-file: "send-command(string filename => bytes payload)"
"""
WEB = f"""
    application:
      configuration: {{size.hardwareId: m1.small, size.imageId: ami-1, size.login: ec2-user, size.locationId: here}}
      interfaces:
        size:
          hardwareId: bind(vm#configuration.hardwareId)
          imageId: bind(vm#configuration.imageId)
          login: bind(vm#configuration.login)
          locationId: bind(vm#configuration.locationId)
        out: {{"*": bind(web#result.*)}}
        do: {{"*": bind(web#actions.*)}}
        vm: {{networks: bind(vm#compute.networks)}}
      bindings: [[web, vm]]
      components:
        vm: {{type: compute.Instance}}
        web:
          type: workflow.Instance
          required: [compute]
          interfaces:{MIRROR}
              actions: {{ask: "receive-command(string line)", file: receive-command(), again: receive-command()}}
              result: {{ip: publish-signal(string), said: publish-signal(object), got: publish-signal(object)}}
          configuration:
            configuration.workflows:
              launch:
                steps:
                  - look: {{action: getSignals, output: {{s: result}}}}
                  - run:
                      action: execrun
                      precedingPhases: [look]
                      parameters: {{roles: [compute], command: [uptime]}}
                      output: {{o: stdout}}
                return: {{ip: {{value: "{{$.s.compute.networks.public.ip}}"}}, said: {{value: "{{$.o}}"}}}}
              ask:
                steps:
                  - call:
                      action: compute.exec
                      parameters: {{command: "{{$.line}}", timeout: 5, retryCount: 1}}
                      output: {{o: stdOut, e: stdErr, c: exitCode}}
                return: {{said: {{value: ["{{$.o}}", "{{$.e}}", "{{$.c}}"]}}}}
              file:
                steps:
                  - put: {{action: compute.put-file, parameters: {{filename: /tmp/x, payload: aGVsbG8=}}}}
                  - get:
                      action: compute.get-file
                      precedingPhases: [put]
                      parameters: {{filename: /tmp/x}}
                      output: {{p: payload}}
                return: {{got: {{value: "{{$.p}}"}}}}
              again:
                steps:
                  - one: {{action: compute.exec, parameters: {{command: one}}, output: {{a: stdOut}}}}
                  - two: {{action: compute.exec, precedingPhases: [one], parameters: {{command: two}}}}
                return: {{said: {{value: "{{$.a}}"}}}}
"""
RUNNING = InstanceStatus.RUNNING


async def launched(lab: Lab | None = None) -> Instance:
    live = on_lab(WEB, lab or Lab())
    assert await live.launch() is None
    return live


async def test_it_makes_one_machine_as_configured_and_publishes_its_networks() -> None:
    lab = Lab()
    live = await launched(lab)
    assert roles(live) == {"compute": ["10.0.0.0"]}
    assert live.results["vm.networks"] == {"public": {"ip": "10.0.0.0"}, "eth0": {"ip": "10.1.0.0"}}
    assert live.results["out.ip"] == "10.0.0.0"
    [(_, _, machine)] = lab.standing.values()
    assert machine.login == "ec2-user"
    assert lab.specs[0].hardware == "m1.small"
    assert (lab.specs[0].image, lab.specs[0].location) == ("ami-1", "here")


async def test_the_interface_of_the_consumer_is_a_role_of_its_steps() -> None:
    live = await launched()
    assert live.results["out.said"] == {"10.0.0.0": "10.0.0.0"}


async def test_a_role_of_the_component_itself_goes_before_an_interface_of_that_name() -> None:
    lab = Lab()
    own = "- own: {action: provisionVms, parameters: {roleName: compute}}\n                  - run:"
    text = WEB.replace("- run:", own).replace("precedingPhases: [look]", "precedingPhases: [look, own]")
    live = on_lab(text, lab)
    assert await live.launch() is None
    assert [host for host, _ in lab.ran] == ["10.0.0.1"]


async def test_a_command_runs_on_the_machine_and_does_not_fail_by_its_exit_code() -> None:
    lab = Lab(results={"10.0.0.0": CommandResult("out", "err", 3)})
    live = on_lab(WEB.replace("command: [uptime]", "command: [uptime], ignoreFail: true"), lab)
    assert await live.launch() is None
    assert await live.command("do.ask", line="ls | wc") is None
    assert live.results["out.said"] == ["out", "err", 3]
    assert lab.ran[-1] == ("10.0.0.0", "ls | wc")


async def test_files_go_and_come_as_bytes() -> None:
    lab = Lab()
    live = await launched(lab)
    assert await live.command("do.file") is None
    assert base64.b64decode(live.results["out.got"]) == b"/tmp/x of 10.0.0.0"
    assert lab.ran[-1] == ("10.0.0.0", "put /tmp/x")


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("exec, parameters: {command: 7}", "Argument 'command' must be a string"),
        ("exec, parameters: {command: ls, timeout: soon}", "Argument 'timeout': "),
        ("put-file, parameters: {filename: x, payload: no!}", "must be base64"),
        ("get-file", "Argument 'filename' must be a string"),
    ],
)
async def test_wrong_arguments_of_its_commands_are_told(step: str, said: str) -> None:
    live = on_lab(WEB.replace("action: compute.exec, parameters: {command: one}", f"action: compute.{step}"), Lab())
    assert await live.launch() is None
    assert said in (await live.command("do.again") or "")


async def test_a_refusal_of_the_provider_fails_the_launch_with_its_words() -> None:
    live = on_lab(WEB, Lab(refusals={"provision": {"*"}}))
    error = await live.launch() or ""
    assert "Component 'vm': the lab does not provision compute." in error
    assert roles(live) == {}


async def test_a_provider_that_breaks_fails_the_launch_and_not_the_worker() -> None:
    class Broken(Lab):
        async def provision(self, *args: Any) -> Any:
            raise ZeroDivisionError("oops")

    assert "provision failed: ZeroDivisionError: oops" in (await on_lab(WEB, Broken()).launch() or "")


async def test_without_a_provider_it_says_so() -> None:
    live = instance(WEB)
    error = await live.launch() or ""
    assert "Component 'vm' needs machines, but no machine provider is set." in error


async def test_a_repeated_launch_keeps_the_machine() -> None:
    lab = Lab(refusals={"run": {"*"}})
    live = on_lab(WEB, lab)
    assert await live.launch() is not None
    lab.refusals.clear()
    assert await live.launch() is None
    assert lab.made == 1


async def test_destroy_releases_it() -> None:
    lab = Lab()
    live = await launched(lab)
    assert await live.destroy() is None
    assert (roles(live), lab.standing) == ({}, {})


async def test_a_launch_cut_anywhere_makes_one_machine() -> None:
    lab = Lab()

    def make() -> Instance:
        nonlocal lab
        lab = Lab()
        return on_lab(WEB, lab)

    case = Case(make, plan_launch({}, InstanceStatus.REQUESTED))
    expected, whole = await case.undisturbed()
    assert whole.disk.writes > 3
    for number in range(whole.disk.writes):
        found, live, crashes = await case.cut_at(number)
        assert crashes
        assert found == expected, f"cut after write {number}"
        assert lab.made == 1
        check_records(live, crashes)


async def test_a_recorded_command_does_not_run_again() -> None:
    lab = Lab()
    live = await launched(lab)
    before = live.state
    plan = plan_run(live.manifest, "do.again", {}, RUNNING)
    assert await live.run(plan) is None
    writes = live.disk.writes
    for number in range(writes):
        lab.ran.clear()
        live.state = before
        found, _, crashes = await Case(lambda: live, plan).cut_at(number)
        assert crashes
        assert found.error is None
        for command in ("one", "two"):
            recorded = any(f"{command}>vm#compute.exec/exec" in path for path in crashes[0][0].steps)
            done = sum(line == command for _, line in lab.ran)
            assert done == 1 if not recorded else done <= 2


async def test_on_a_dry_run_it_has_a_documented_address_and_answers_as_configured() -> None:
    live = dry(WEB, answer("exec", {"stdout": "bay", "exitCode": 2}))
    assert await live.launch() is None
    assert live.results["out.ip"] == "192.0.2.1"
    told = "dry run: compute.Instance one machine for the role 'compute' (m1.small, ami-1, here): 192.0.2.1."
    assert told in live.disk.texts()
    assert await live.command("do.ask", line="hostname") is None
    assert live.results["out.said"] == ["bay", "", 2]
