"""Machines are part of an instance's state: kept between jobs, the same after every crash, released at the end."""

import pytest

from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Plan
from launchbay.planning.plans import plan_destroy, plan_launch
from tests.support.machines import Lab, answer, dry, on_lab, roles, workflow
from tests.support.runtime import Case, Instance, check_records

LAUNCH = plan_launch({}, InstanceStatus.REQUESTED)
RUNNING = InstanceStatus.RUNNING

WHOLE_LIFE = """
    launch:
      steps:
        - web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 3}, output: {ips: ips}}
        - run: {action: execrun, precedingPhases: [web], parameters: {roles: [web], command: [x]}, output: {o: stdout}}
        - less: {action: destroyVms, precedingPhases: [run], parameters: {roleName: web, quantity: 1}, output: {l: ips}}
        - more: {action: .grow, precedingPhases: [less], output: {ips: ips}}
        - last: {action: execrun, precedingPhases: [more], parameters: {command: [y]}, output: {p: stdout}}
      return: {ips: {value: "{$.ips}"}, out: {value: "{$.p}"}}
    .grow:
      steps:
        - db: {action: provisionVms, parameters: {roleName: db, quantity: 1}}
        - two: {action: provisionVms, precedingPhases: [db], parameters: {roleName: web, quantity: 2}, output: {i: ips}}
      return: {ips: {value: "{$.i}"}}
    grow:
      steps:
        - more: {action: provisionVms, parameters: {roleName: web, quantity: 1}, output: {ips: ips}}
      return: {ips: {value: "{$.ips}"}}
"""
PARALLEL = """
    launch:
      steps:
        - a: {action: provisionVms, parameters: {roleName: web, quantity: 2}}
        - b: {action: provisionVms, parameters: {roleName: web, quantity: 1}}
        - c: {action: provisionVms, parameters: {roleName: db}}
        - d: {action: execrun, precedingPhases: [a, b, c], parameters: {command: [x]}}
"""
TRIED_AGAIN = """
    launch:
      steps:
        - web: {action: provisionVms, parameters: {roleName: web}}
        - bad: {action: execrun, precedingPhases: [web], parameters: {command: [x], retryCount: 1, ignoreFail: true}}
        - late: {action: destroyVms, precedingPhases: [bad], parameters: {roleName: web}}
"""


class Bench:
    """Cuts a job on a lab at every write of its journal, and looks at the machines that stand afterwards."""

    def __init__(self, text: str, plan: Plan = LAUNCH, launched: str = "{}", **lab: object) -> None:
        self.text, self.plan, self.launched, self.lab_is = text, plan, launched, lab
        self.lab = Lab()

    def make(self) -> Instance:
        self.lab = Lab(**self.lab_is)  # type: ignore[arg-type]  # a test names fields by their names
        return on_lab(self.text, self.lab, state=self.launched)

    def standing(self) -> set[str]:
        return {machine.host for _, _, machine in self.lab.standing.values()}

    async def cut_everywhere(self, *, in_order: bool = True) -> int:
        case = Case(self.make, self.plan)
        expected, whole = await case.undisturbed()
        made = self.lab.made
        for number in range(whole.disk.writes):
            found, live, crashes = await case.cut_at(number)
            assert crashes
            assert found.error == expected.error
            if in_order:
                assert found == expected, f"cut after write {number}"
            assert {role: len(hosts) for role, hosts in roles(live).items()} == {
                role: len(hosts) for role, hosts in roles(whole).items()
            }
            assert self.lab.made == made, f"cut after write {number}: machines were made twice"
            known = {host for hosts in roles(live).values() for host in hosts}
            assert self.standing() == known, f"cut after write {number}: machines that no record tells of"
            check_records(live, crashes)
        return int(whole.disk.writes)


@pytest.mark.parametrize("text", [WHOLE_LIFE, TRIED_AGAIN])
async def test_a_job_cut_anywhere_has_made_and_released_the_same_machines(text: str) -> None:
    assert await Bench(text).cut_everywhere() > 0


async def test_parallel_steps_cut_anywhere_have_made_as_many_machines() -> None:
    assert await Bench(PARALLEL).cut_everywhere(in_order=False) > 0


async def test_a_command_that_fails_and_is_ignored_cut_anywhere_leaves_no_machine() -> None:
    assert await Bench(TRIED_AGAIN, refusals={"run": {"*"}}).cut_everywhere() > 0


async def test_a_recorded_provision_is_not_asked_of_the_provider_again() -> None:
    case = Case(Bench(WHOLE_LIFE).make, LAUNCH)
    _, whole = await case.undisturbed()
    bench = Bench(WHOLE_LIFE)
    await Case(bench.make, LAUNCH).cut_at(whole.disk.writes - 1)
    assert len(bench.lab.tags) == len(set(bench.lab.tags)) == 3


async def test_an_interrupted_provision_comes_again_with_its_tag() -> None:
    bench = Bench("launch: {steps: [{s: {action: provisionVms}}]}")
    _, live, _ = await Case(bench.make, LAUNCH).cut_at(1)
    assert len(bench.lab.tags) == 2
    assert len(set(bench.lab.tags)) == 1
    assert bench.lab.made == 1
    assert roles(live) == {"default": ["10.0.0.0"]}


async def test_machines_live_on_between_jobs_in_the_order_of_their_making() -> None:
    lab = Lab()
    live = on_lab(WHOLE_LIFE, lab)
    assert await live.launch() is None
    assert live.results["ips"] == ["10.0.0.0", "10.0.0.1", "10.0.0.4", "10.0.0.5"]
    assert await live.command("grow") is None
    assert live.results["ips"] == ["10.0.0.0", "10.0.0.1", "10.0.0.4", "10.0.0.5", "10.0.0.6"]


async def test_a_failed_launch_keeps_its_machines_for_the_destroy() -> None:
    lab = Lab(refusals={"run": {"*"}})
    live = on_lab(WHOLE_LIFE, lab)
    assert await live.launch() is not None
    assert roles(live) == {"web": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]}
    assert await live.destroy() is None
    assert (roles(live), lab.standing) == ({}, {})


@pytest.mark.parametrize("more", ["", "    destroy: {steps: [{bad: {action: execrun, parameters: {command: [x]}}}]}\n"])
async def test_destroy_releases_everything_whatever_the_manifest_does(more: str) -> None:
    lab = Lab()
    live = on_lab(WHOLE_LIFE + more, lab)
    assert await live.launch() is None
    lab.refusals["run"] = {"*"}
    error = await live.destroy()
    assert (error is None) == (not more)
    assert (roles(live), lab.standing) == ({}, {})


async def test_destroy_names_what_it_could_not_release_and_can_be_run_again() -> None:
    lab = Lab()
    live = on_lab(WHOLE_LIFE, lab)
    assert await live.launch() is None
    lab.refusals = {"release": {"10.0.0.1"}}
    error = await live.destroy()
    assert error == ("Can't release machine 10.0.0.1 (vm1, role 'web'): the lab does not release 10.0.0.1.")
    assert roles(live) == {"web": ["10.0.0.1"]}
    lab.refusals = {}
    assert await live.destroy() is None
    assert lab.standing == {}


async def test_destroy_finds_machines_that_no_record_tells_of() -> None:
    lab = Lab()
    live = on_lab("launch: {steps: [{s: {action: provisionVms, parameters: {quantity: 2}}}]}", lab)
    assert await live.launch() is None
    live.state = "{}"
    assert await live.destroy() is None
    assert lab.standing == {}


async def test_destroy_cut_anywhere_leaves_nothing() -> None:
    lab = Lab()
    live = on_lab(WHOLE_LIFE + "    destroy: {steps: [{u: {action: undeployEnv}}]}\n", lab)
    assert await live.launch() is None
    before, standing = live.state, dict(lab.standing)
    assert await live.run(plan_destroy(RUNNING)) is None
    for number in range(live.disk.writes):
        lab.standing = dict(standing)
        live.state = before
        case = Case(lambda: live, plan_destroy(RUNNING))
        found, _, crashes = await case.cut_at(number)
        assert crashes
        assert found.error is None
        assert (roles(live), lab.standing) == ({}, {})


async def test_a_machine_is_released_by_the_provider_that_made_it_though_another_one_is_chosen_now() -> None:
    lab = Lab()
    live = on_lab(WHOLE_LIFE, lab)
    assert await live.launch() is None
    before = live.state
    live = dry(WHOLE_LIFE, state=before)
    error = await live.destroy()
    assert error is not None
    assert "Unknown machine provider 'lab'. This installation has dry-run, none." in error
    assert len(roles(live)["web"]) == 4


async def test_a_policy_of_the_environment_chooses_the_provider() -> None:
    lab = Lab()
    live = on_lab("launch: {steps: [{s: {action: provisionVms}}]}", lab)
    live.environment.policies["machines.provider"] = "none"
    assert "no machine provider is set" in (await live.launch() or "")
    live.environment.policies["machines.provider"] = "moon"
    assert "Unknown machine provider 'moon'" in (await live.launch() or "")


async def test_a_dry_run_says_so_in_the_log_of_the_step_and_makes_the_same_machines_every_time() -> None:
    live = dry(WHOLE_LIFE)
    assert await live.launch() is None
    assert live.results["ips"] == ["192.0.2.1", "192.0.2.2", "192.0.2.5", "192.0.2.6"]
    told = [text for path, _, text in live.disk.lines if path == "workflow#launch/web"]
    assert told == [
        "dry run: provisionVms 3 machines for the role 'web' (unspecified): 192.0.2.1, 192.0.2.2, 192.0.2.3."
    ]
    assert await live.destroy() is None
    assert any("dry run: release releases 192.0.2.1" in text for text in live.disk.texts())


async def test_a_dry_run_answers_calls_to_its_machines_and_configured_actions() -> None:
    text = workflow(
        "web: {action: provisionVms, output: {ips: ips}}",
        'call: {action: restcall, parameters: {command: "http://{$.ips[0]}:8080/x"}, output: {c: content, s: status}}',
        "do: {action: effect, parameters: {value: real}, output: {v: value}}",
        returns='{c: {value: "{$.c}"}, s: {value: "{$.s}"}, v: {value: "{$.v}"}}',
    )
    live = dry(text, answer("restcall", {"content": [1]}), answer("effect", {"value": "configured"}))
    assert await live.launch() is None
    assert live.results == {"c": [1], "s": 200, "v": "configured"}
    assert live.world.effects == []


async def test_a_step_on_dry_run_machines_tells_its_mistakes_as_on_real_ones() -> None:
    assert "'command' is wrong" in (
        await dry(workflow("s: {action: execrun, parameters: {roles: [web], command: ['']}}")).launch() or ""
    )
