"""Steps that work on machines: provision, commands, Chef, release. They run in real workflows, on machines of a lab."""

from typing import Any

import pytest

from launchbay.model.machine import CommandResult
from tests.support.machines import Lab, on_lab, roles, workflow
from tests.support.runtime import Instance, instance

WEB = (
    "web: {action: provisionVms, parameters: {roleName: web, targetQuantity: 3}, output: {ips: ips, inner: privateips}}"
)
RUN = 'run: {action: execrun, parameters: {roles: [web], command: ["uptime"]}, output: {out: stdout, code: exitCode}}'
ALL_OUT = '{out: {value: "{$.out}"}, code: {value: "{$.code}"}}'
IPS = '{ips: {value: "{$.ips}"}}'


async def launched(text: str, lab: Lab | None = None, **more: Any) -> Instance:
    live = on_lab(text, lab or Lab(), **more)
    assert await live.launch() is None
    return live


async def failing(text: str, lab: Lab | None = None, **more: Any) -> str:
    error = await on_lab(text, lab or Lab(), **more).launch()
    assert error is not None
    return error


@pytest.mark.parametrize(
    "step",
    [
        "provisionVms, parameters: {roleName: web}",
        "provisionAmazonVm",
        "provisionVmsWithLogging, parameters: {registerLogs: true}",
        "compute.grow, parameters: {quantity: 2}",
    ],
)
async def test_without_a_provider_a_step_says_why_it_cannot_run(step: str) -> None:
    live = instance(workflow(f"s: {{action: {step}}}"))
    error = await live.launch()
    action = step.partition(",")[0]
    assert error is not None
    assert f"'{action}' in step " in error
    assert "needs machines, but no machine provider is set." in error
    assert "LAUNCHBAY_MACHINES" in error


async def test_a_target_quantity_is_reached_once_and_never_undercut() -> None:
    live = await launched(
        workflow(
            WEB,
            "again: {action: provisionVms, parameters: {roleName: web, targetQuantity: '3'}, output: {a: ips}}",
            "less: {action: provisionAmazonVm, parameters: {roleName: web, targetQuantity: 1}, output: {b: ips}}",
            "more: {action: provisionVms, parameters: {roleName: web, targetQuantity: 4}, output: {c: ips}}",
            returns='{a: {value: "{$.a}"}, b: {value: "{$.b}"}, c: {value: "{$.c}"}, inner: {value: "{$.inner}"}}',
        )
    )
    three = ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    assert live.results["a"] == live.results["b"] == three
    assert live.results["c"] == [*three, "10.0.0.3"]
    assert live.results["inner"] == ["10.1.0.0", "10.1.0.1", "10.1.0.2"]
    assert any("has 3 machines, more than the minimum of 1" in line for line in live.disk.texts("info"))


async def test_a_quantity_adds_and_nothing_at_all_adds_one() -> None:
    live = await launched(
        workflow(
            "a: {action: provisionVms, parameters: {roleName: web, quantity: 2}}",
            "b: {action: provisionVms, parameters: {roleName: web, quantity: 1}}",
            "c: {action: provisionVms, parameters: {roleName: web}, output: {ips: ips}}",
            "d: {action: provisionVms}",
            returns=IPS,
        )
    )
    assert len(live.results["ips"]) == 4
    assert {role: len(found) for role, found in roles(live).items()} == {"web": 4, "default": 1}


async def test_static_addresses_are_adopted_once_and_nothing_is_made() -> None:
    lab = Lab()
    adopt = "{action: provisionVms, parameters: {roleName: web, hardwareId: '', staticIps: [192.0.2.9, 192.0.2.8]}"
    single = "{action: provisionVms, parameters: {roleName: web, staticIps: 192.0.2.7}, output: {ips: ips}}"
    live = await launched(workflow(f"a: {adopt}}}", f"b: {adopt}}}", f"c: {single}", returns=IPS), lab)
    assert live.results["ips"] == ["192.0.2.9", "192.0.2.8", "192.0.2.7"]
    assert lab.made == 0


@pytest.mark.parametrize(
    "step",
    [
        "execrun, parameters: {command: [uptime]}",
        "execrun, parameters: {roles: [windows], command: [dir]}",
        "chefsolo, parameters: {runList: [a]}",
        "destroyVms, parameters: {roleName: web}",
        "destroyVms, parameters: {ips: '{$.ips}'}",
        "compute.shrink, parameters: {quantity: 1}",
        "compute.shrink-all",
        "undeployEnv",
    ],
)
@pytest.mark.parametrize("has_provider", [True, False])
async def test_without_machines_there_is_nothing_to_do_and_nothing_fails(step: str, has_provider: bool) -> None:
    lab = Lab()
    text = workflow(f"s: {{action: {step}, output: {{c: exitCode}}}}", returns='{c: {value: "{$.c}"}}')
    live = await launched(text, lab) if has_provider else instance(text)
    if not has_provider:
        assert await live.launch() is None
    assert any("no machines" in line and "nothing" in line for line in live.disk.texts("info"))
    assert lab.ran == []
    if step.startswith("execrun"):
        assert live.results["c"] == {}


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ("staticIps: ", "staticIps is given, but has no value."),
        ('staticIps: ""', "staticIps is given, but has no value."),
        ('staticIps: "{$.props.vms.ips}"', "staticIps is given, but has no value: {$.props.vms.ips}."),
    ],
)
async def test_hosts_without_value_create_no_machine(parameter: str, said: str) -> None:
    lab = Lab()
    assert said in await failing(workflow(f"a: {{action: provisionVms, parameters: {{{parameter}}}}}"), lab)
    assert lab.made == 0


async def test_an_empty_list_of_hosts_creates_and_adopts_none() -> None:
    lab = Lab()
    live = await launched(workflow("a: {action: provisionVms, parameters: {roleName: web, staticIps: []}}", RUN), lab)
    assert (lab.made, lab.ran, roles(live)) == (0, [], {})


@pytest.mark.parametrize("parameter", ["targetQuantity", "quantity", "roleName", "ec2SecurityGroup", "jcloudsIdentity"])
async def test_other_parameters_without_value_have_their_default(parameter: str) -> None:
    lab = Lab()
    live = await launched(workflow(f"a: {{action: provisionVms, parameters: {{{parameter}: '{{$.gone}}'}}}}"), lab)
    assert roles(live) == {"default": ["10.0.0.0"]}


@pytest.mark.parametrize("chosen", ["[]", '[""]', '""', '["{$.gone}"]'])
async def test_roles_of_nothing_are_no_machine_and_not_all(chosen: str) -> None:
    lab = Lab()
    await launched(workflow(WEB, RUN.replace("[web]", chosen)), lab)
    assert lab.ran == []


@pytest.mark.parametrize(
    "parameter", ['ips: "{$.gone}"', 'roleName: "{$.gone}"', 'roleName: web, quantity: "{$.gone}"']
)
async def test_a_parameter_without_value_releases_no_machine(parameter: str) -> None:
    lab = Lab()
    step = f"z: {{action: destroyVms, parameters: {{{parameter}}}}}"
    assert "is given, but has no value: {$.gone}." in await failing(workflow(WEB, step), lab)
    assert len(lab.standing) == 3


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("roleName: web, quantity: -1", "'quantity' is wrong: expected a whole number from 0"),
        ("roleName: web, targetQuantity: many", "'targetQuantity' is wrong"),
        ("roleName: web, targetQuantity: 1001", "expected a whole number from 0 to 1000"),
        ("roleName: [web]", "'roleName' is wrong"),
        ("staticIps: {a: b}", "'staticIps' is wrong: expected a list of addresses"),
        ("staticIps: [null]", "Item 1 of staticIps has no value. Give it one, or remove it."),
        ("imageId: {a: b}", "'imageId' is wrong"),
    ],
)
async def test_wrong_parameters_of_a_provision_are_told(parameters: str, said: str) -> None:
    lab = Lab()
    assert said in await failing(workflow(f"s: {{action: provisionVms, parameters: {{{parameters}}}}}"), lab)
    assert lab.made == 0


async def test_a_failed_provision_leaves_the_role_as_it_was_and_may_be_tried_again() -> None:
    lab = Lab(refusals={"provision": {"web"}})
    text = workflow("s: {action: provisionVms, parameters: {roleName: web, retryCount: 1}}")
    live = on_lab(text, lab)
    assert "the lab does not provision web" in (await live.launch() or "")
    assert roles(live) == {}
    lab.refusals.clear()
    assert await live.launch() is None
    assert roles(live) == {"web": ["10.0.0.0"]}


async def test_a_command_runs_on_every_machine_of_its_roles_and_gives_its_output_by_address() -> None:
    lab = Lab(results={"10.0.0.1": CommandResult('{"a": [1]}\n', "", 0)})
    live = await launched(workflow(WEB, RUN, returns=ALL_OUT), lab)
    assert live.results["out"] == {"10.0.0.0": "10.0.0.0", "10.0.0.1": {"a": [1]}, "10.0.0.2": "10.0.0.2"}
    assert live.results["code"] == {"10.0.0.0": 0, "10.0.0.1": 0, "10.0.0.2": 0}
    assert sorted(lab.ran) == [(f"10.0.0.{n}", "uptime") for n in range(3)]


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("text\n", "text"),
        ("two\nlines\n\n", "two\nlines"),
        ("12345678901234567890\n", "12345678901234567890"),
        ("true", "true"),
        ("null", "null"),
        ('  ["a"]\n', ["a"]),
        ("{not json}", "{not json}"),
        ("", ""),
    ],
)
async def test_only_maps_and_lists_are_parsed(printed: str, seen: object) -> None:
    lab = Lab(results={"10.0.0.0": CommandResult(printed, printed, 0)})
    one = "one: {action: provisionVms, parameters: {roleName: web}}"
    both = RUN.replace("out: stdout", "out: stdout, err: stderr")
    live = await launched(workflow(one, both, returns='{o: {value: "{$.out}"}, e: {value: "{$.err}"}}'), lab)
    assert live.results == {"o": {"10.0.0.0": seen}, "e": {"10.0.0.0": seen}}


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ('["service iptables stop"]', "service iptables stop"),
        ('"ls | wc -l"', "ls | wc -l"),
        ('[bash, "-c", "echo $$HOME; it\'s"]', "bash -c 'echo $HOME; it'\"'\"'s'"),
        ("[echo, 7, true]", "echo 7 true"),
        ('["echo \\"x\\" | ruby -e", "p ARGF.read; exit"]', "echo \"x\" | ruby -e 'p ARGF.read; exit'"),
    ],
)
async def test_one_element_is_shell_and_more_are_quoted_arguments(command: str, line: str) -> None:
    lab = Lab()
    one = "one: {action: provisionVms, parameters: {roleName: web}}"
    await launched(workflow(one, f"s: {{action: execrun, parameters: {{roles: web, command: {command}}}}}"), lab)
    assert [found for _, found in lab.ran] == [line]


@pytest.mark.parametrize("command", ["[]", "[[a]]", "[null]", '[" "]', "{a: b}"])
async def test_what_is_no_command_is_refused(command: str) -> None:
    text = workflow(WEB, f"s: {{action: execrun, parameters: {{roles: [web], command: {command}}}}}")
    assert "The parameter 'command' is" in await failing(text)


async def test_an_exit_code_that_is_not_0_fails_the_step_with_what_was_written() -> None:
    lab = Lab(results={"10.0.0.1": CommandResult("", "no such service, password=geheim77\n", 4)})
    error = await failing(workflow(WEB, RUN), lab)
    assert "The command on 10.0.0.1 ended with exit code 4: no such service" in error
    assert "geheim77" not in error
    assert len(lab.ran) == 3


async def test_batches_follow_each_other_and_stop_at_a_failure() -> None:
    lab = Lab(refusals={"run": {"10.0.0.3"}})
    many = WEB.replace("3", "6")
    text = workflow(many, RUN.replace("roles: [web]", "roles: [web], batchSize: 2"))
    assert "the lab does not run 10.0.0.3" in await failing(text, lab)
    assert sorted(host for host, _ in lab.ran) == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    assert lab.most_at_once == 2


async def test_without_a_batch_size_machines_work_at_the_same_time_within_a_bound() -> None:
    lab = Lab()
    await launched(workflow(WEB.replace("3", "60"), RUN), lab)
    assert len(lab.ran) == 60
    assert 40 <= lab.most_at_once <= 50


async def test_without_roles_every_role_is_meant_and_each_address_once() -> None:
    lab = Lab()
    await launched(
        workflow(
            WEB.replace("3", "2"),
            'same: {action: provisionVms, parameters: {roleName: single, staticIps: ["{$.ips[0]}"]}}',
            "db: {action: provisionVms, parameters: {roleName: db}}",
            "s: {action: execrun, parameters: {command: [uptime]}}",
        ),
        lab,
    )
    assert sorted(host for host, _ in lab.ran) == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]


async def test_roles_without_machines_are_skipped_and_logged_with_those_that_have_some() -> None:
    lab = Lab()
    live = await launched(workflow(WEB, RUN.replace("[web]", "[windows, web]")), lab)
    assert len(lab.ran) == 3
    [line] = [text for text in live.disk.texts("info") if "windows" in text]
    assert line == "The role 'windows' has no machines; nothing to do there. Roles with machines: web."


async def test_chef_gives_the_attributes_of_each_node() -> None:
    lab = Lab()
    chef = (
        "c: {action: chefsolo, parameters: {roles: [web], runList: ['recipe[a]', 'recipe[b]'], recipeUrl: http://x,"
        " jattrs: {port: 80}}, output: {state: chefState}}"
    )
    live = await launched(workflow(WEB.replace("3", "2"), chef, returns='{s: {value: "{$.state[*][0].port}"}}'), lab)
    assert live.results == {"s": 80}
    assert sorted(lab.ran) == [("10.0.0.0", "recipe[a],recipe[b]"), ("10.0.0.1", "recipe[a],recipe[b]")]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("roles: [web]", "The parameter 'runList' is missing"),
        ("roles: [web], runList: [a], jattrs: [1]", "'jattrs' is wrong"),
        ("roles: [web], runList: [a], isSudo: perhaps", "'isSudo' is wrong"),
    ],
)
async def test_wrong_parameters_of_chef_are_told(parameters: str, said: str) -> None:
    assert said in await failing(workflow(WEB, f"c: {{action: chefrun, parameters: {{{parameters}}}}}"))


RELEASES = {
    "destroyVms, parameters: {roleName: web}": [],
    "destroyVms, parameters: {roleName: web, quantity: 2}": ["10.0.0.0"],
    "destroyVms, parameters: {roleName: web, quantity: '9', phase: destroy}": [],
    "destroyVms, parameters: {roleName: web, quantity: 0}": ["10.0.0.0", "10.0.0.1", "10.0.0.2"],
    "destroyVms, parameters: {quantity: 0}": ["10.0.0.0", "10.0.0.1", "10.0.0.2"],
    "destroyVms, parameters: {ips: []}": ["10.0.0.0", "10.0.0.1", "10.0.0.2"],
    "destroyVms, parameters: {roleName: web, ips: [], quantity: 0}": ["10.0.0.0", "10.0.0.1", "10.0.0.2"],
    "destroyVms, parameters: {ips: [10.0.0.1]}": ["10.0.0.0", "10.0.0.2"],
    "destroyVms, parameters: {ips: [10.1.0.1, 10.9.9.9]}": ["10.0.0.0", "10.0.0.2"],
    "compute.shrink-all, parameters: {roleName: web, ips: [10.0.0.0]}": ["10.0.0.1", "10.0.0.2"],
    "compute.shrink-all": [],
    "undeployEnv": [],
}


@pytest.mark.parametrize("action", RELEASES)
async def test_machines_are_released_by_role_number_or_address(action: str) -> None:
    lab = Lab()
    step = f"s: {{action: {action}, output: {{left: ips}}}}"
    live = await launched(workflow(WEB, step, returns='{left: {value: "{$.left}"}}'), lab)
    assert live.results["left"] == RELEASES[action]
    assert roles(live).get("web", []) == RELEASES[action]
    assert sorted(machine.host for _, _, machine in lab.standing.values()) == RELEASES[action]


async def test_a_release_without_a_choice_is_refused_and_a_role_without_machines_is_not() -> None:
    assert "Set 'roleName' or 'ips'" in await failing(workflow(WEB, "s: {action: destroyVms}"))
    await launched(workflow("s: {action: destroyVms, parameters: {roleName: gone}}"))


async def test_a_release_that_fails_names_each_machine_that_is_left() -> None:
    lab = Lab(refusals={"release": {"10.0.0.0", "10.0.0.2"}})
    error = await failing(workflow(WEB, "s: {action: undeployEnv}"), lab)
    for host in ("10.0.0.0", "10.0.0.2"):
        assert f"Can't release machine {host} (vm{host[-1]}, role 'web'): the lab does not release {host}." in error
    assert list(lab.standing) == ["vm0", "vm2"]


async def test_adopted_machines_are_let_go_and_not_taken_down() -> None:
    lab = Lab()
    adopt = "a: {action: provisionVms, parameters: {roleName: web, staticIps: [192.0.2.9]}}"
    live = await launched(workflow(adopt, "s: {action: undeployEnv}"), lab)
    assert roles(live) == {}


async def test_macros_share_the_roles_of_their_component_and_parallel_steps_lose_nothing() -> None:
    text = """
        launch:
          steps:
            - a: {action: .grow, parameters: {role: web, n: 2}}
            - b: {action: .grow, parameters: {role: web, n: 2}}
            - c: {action: .grow, parameters: {role: db, n: 1}}
            - d:
                action: execrun
                precedingPhases: [a, b, c]
                parameters: {roles: [web, db], command: [x]}
                output: {o: stdout}
          return: {o: {value: "{$.o}"}}
        .grow:
          steps:
            - make: {action: provisionVms, parameters: {roleName: "{$.role}", quantity: "{$.n}"}, output: {ips: ips}}
          return: {ips: {value: "{$.ips}"}}
    """
    live = await launched(text)
    assert len(live.results["o"]) == 5
    assert {role: len(found) for role, found in roles(live).items()} == {"web": 4, "db": 1}


async def test_roles_of_one_component_are_not_those_of_another() -> None:
    component = (
        "{type: workflow.Instance, configuration: {configuration.workflows: {launch: {steps: "
        "[{p: {action: provisionVms, parameters: {roleName: web}}}]}}}}"
    )
    other = component.replace(
        "provisionVms, parameters: {roleName: web}", "execrun, parameters: {roles: [web], command: [x]}"
    )
    lab = Lab()
    await launched(f"application: {{components: {{a: {component}, b: {other}}}}}", lab)
    assert lab.made == 1
    assert lab.ran == []
