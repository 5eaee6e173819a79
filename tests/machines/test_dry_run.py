"""Dry-run machines: plausible, the same every time, as configured, and honest about it."""

import asyncio
from ipaddress import ip_address, ip_network
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.app.machines import read_answers_file
from launchbay.errors import ActionFailed, CannotStart
from launchbay.machines.contract import MachineProvider
from launchbay.machines.dry_run import Answer, Answers, DryRun, fits, of_policies
from launchbay.model.machine import ChefRun, MachineSpec, RemoteCommand
from tests.support.contexts import MACHINE, Log, context
from tests.support.machines import answer

RESERVED = [ip_network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "198.18.0.0/15")]
LINE = RemoteCommand(line="uptime")
CHEF = ChefRun(run_list=["recipe[haproxy]"], attributes={"haproxy": {"port": 80, "deep": {"a": 1}}})


def configured(*entries: object) -> DryRun:
    return DryRun(Answers(tuple(entries)))  # type: ignore[arg-type]  # `answer` makes them


def test_it_keeps_the_contract_of_providers() -> None:
    provider: MachineProvider = DryRun()
    assert provider.name == "dry-run"


@given(st.text("0123456789abcdef", min_size=24, max_size=24), st.integers(1, 1000))
def test_an_instance_has_no_address_twice_and_none_that_leads_anywhere(instance_id: str, count: int) -> None:
    numbers = range(1, count + 1)
    made = asyncio.run(DryRun().provision(context(instance_id=instance_id), "web", numbers, MachineSpec()))
    for addresses in ([machine.public_ip for machine in made], [machine.private_ip for machine in made]):
        assert len(set(addresses)) == count
        assert all(any(ip_address(address) in network for network in RESERVED) for address in addresses)
    assert len({machine.id for machine in made}) == count


async def test_the_same_machines_come_again_and_others_for_another_instance() -> None:
    first = await DryRun().provision(context(), "Web Tier", [1, 2], MachineSpec(login="ubuntu"))
    again = await DryRun().provision(context(tag="other"), "Web Tier", [1, 2], MachineSpec(login="ubuntu"))
    other = await DryRun().provision(context(instance_id="6a" * 12), "Web Tier", [1, 2], MachineSpec())
    assert list(first) == list(again)
    assert {machine.host for machine in first}.isdisjoint(machine.host for machine in other)
    assert [machine.host_name for machine in first] == ["web-tier-1.dry-run.example", "web-tier-2.dry-run.example"]
    assert {machine.login for machine in first} == {"ubuntu"}


async def test_a_machine_has_the_name_prefix_and_the_addresses_that_are_configured() -> None:
    provider = configured(answer("provisionVms", {"ips": ["192.0.2.200"], "privateips": ["10.1.1.1"]}, role="web"))
    spec = MachineSpec(name_prefix="Petclinic")
    first, second = await provider.provision(context(action="provisionVms"), "web", [1, 2], spec)
    assert (first.public_ip, first.private_ip) == ("192.0.2.200", "10.1.1.1")
    assert first.host_name == "petclinic-1.dry-run.example"
    assert second.public_ip != "192.0.2.200"


async def test_adopted_machines_keep_their_addresses_and_are_marked() -> None:
    [machine] = await DryRun().adopt(context(), "web", {4: "build.internal"}, MachineSpec(login="root"))
    assert (machine.host, machine.number, machine.adopted, machine.login) == ("build.internal", 4, True, "root")


async def test_a_command_prints_one_word_that_is_its_own_and_stays() -> None:
    result = await DryRun().run(context(), MACHINE, LINE)
    assert result == await DryRun().run(context(tag="later"), MACHINE, LINE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("dry-run-")
    assert " " not in result.stdout
    assert result.stdout != (await DryRun().run(context(path="web#launch/other"), MACHINE, LINE)).stdout


async def test_a_command_prints_and_ends_as_configured() -> None:
    given = {"stdout": {"value": ["http://192.0.2.7"]}, "stderr": "a warning", "exitCode": "3"}
    result = await configured(answer("execrun", given)).run(context(), MACHINE, LINE)
    assert (result.stdout, result.stderr, result.exit_code) == ('{"value":["http://192.0.2.7"]}', "a warning", 3)


@pytest.mark.parametrize(
    ("conditions", "fits"),
    [
        ({"step": "deploy"}, True),
        ({"step": "dep*", "component": "web", "role": "web", "host": "192.0.2.?", "command": "up*"}, True),
        ({"step": "other"}, False),
        ({"host": "192.0.2.8"}, False),
        ({"component": "db"}, False),
        ({"command": "*reboot*"}, False),
    ],
)
async def test_an_answer_counts_where_all_that_it_names_fits(conditions: dict[str, str], *, fits: bool) -> None:
    result = await configured(answer("exec*", {"stdout": "yes"}, **conditions)).run(context(), MACHINE, LINE)
    assert (result.stdout == "yes") is fits


async def test_the_first_answer_counts_for_each_output_and_a_policy_before_all() -> None:
    provider = configured(
        answer("execrun", {"stdout": "first"}), answer("*", {"stdout": "second", "stderr": "noise", "exitCode": 1})
    )
    result = await provider.run(context(policies={"dry-run.execrun.exitCode": 0}), MACHINE, LINE)
    assert (result.stdout, result.stderr, result.exit_code) == ("first", "noise", 0)


async def test_a_configured_error_fails_the_call_in_its_words() -> None:
    provider = configured(answer("provisionVms", {"error": "quota exceeded", "retryable": False}))
    with pytest.raises(ActionFailed, match="provisionVms fails, as configured: quota exceeded") as failed:
        await provider.provision(context(action="provisionVms"), "web", [1], MachineSpec())
    assert not failed.value.retryable


async def test_chef_gives_what_it_was_given_what_every_node_has_and_what_is_configured() -> None:
    given = {"chefState": {"haproxy": {"deep": {"b": 2}, "entry_urls": ["http://192.0.2.7"]}}}
    state = await configured(answer("chef*", given)).converge(context(action="chefsolo"), MACHINE, CHEF)
    assert state["haproxy"] == {"port": 80, "deep": {"a": 1, "b": 2}, "entry_urls": ["http://192.0.2.7"]}
    assert (state["hostname"], state["ipaddress"]) == ("web-1", "198.51.100.7")


async def test_policies_reach_into_maps_and_lists() -> None:
    policies = {
        "dry-run.chefsolo.chefState.haproxy.entry_urls.0": "http://a",
        "dry-run.chefsolo.chefState.haproxy.entry_urls.1": "http://b",
        "dry-run.chefrun.chefState.haproxy.entry_urls": "not asked for",
    }
    state = await DryRun().converge(context(action="chefsolo", policies=policies), MACHINE, CHEF)
    assert state["haproxy"]["entry_urls"] == ["http://a", "http://b"]


async def test_files_are_named_and_given_as_configured() -> None:
    log = Log()
    await DryRun().put_file(context(log, action="put-file"), MACHINE, "/etc/motd", b"hello")
    assert log == ["dry run: put-file puts 5 bytes into /etc/motd on 192.0.2.7, role 'web'."]
    assert await DryRun().get_file(context(), MACHINE, "/etc/motd") == b"dry run: /etc/motd of 192.0.2.7\n"
    provider = configured(answer("get-file", {"content": "hi"}, command="/etc/motd"))
    assert await provider.get_file(context(action="get-file"), MACHINE, "/etc/motd") == b"hi"


async def test_every_call_is_told_without_its_secrets_and_with_its_first_line() -> None:
    log = Log()
    script = RemoteCommand(line="mysql --password=geheim1\nsecond\nthird", sudo=True)
    await DryRun().run(context(log), MACHINE, script)
    await DryRun().converge(context(log, action="chefrun"), MACHINE, CHEF)
    await DryRun().provision(context(log, action="provisionVms"), "web", [1], MachineSpec(hardware="m1.small"))
    await DryRun().release(context(log, action="undeployEnv"), MACHINE)
    assert len(log) == 4
    assert all(line.startswith("dry run: ") for line in log)
    assert "with sudo" in log[0]
    assert "… (3 lines)" in log[0]
    assert "geheim1" not in log[0]
    assert "recipe[haproxy]" in log[1]
    assert "m1.small" in log[2]


@pytest.mark.parametrize("host", ["192.0.2.7:8080", "198.51.100.1", "[2001:db8::1]", "web-1.dry-run.example"])
async def test_a_call_to_an_address_that_leads_nowhere_is_answered(host: str) -> None:
    log = Log()
    outputs = DryRun().simulate(context(log, action="restcall"), {"command": f"http://{host}/x", "method": "post"})
    assert outputs == {"content": {}, "status": 200, "headers": {}}
    assert log == [f"dry run: restcall POST http://{host}/x is not sent; the response is 200."]


@pytest.mark.parametrize("url", ["https://api.example.org/x", "https://192.0.20.1", "http://[broken", 7, None])
async def test_a_call_to_anywhere_else_is_left_to_the_action(url: object) -> None:
    assert DryRun().simulate(context(action="restcall"), {"command": url}) is None


async def test_any_call_is_answered_where_a_policy_says_so_or_an_answer_fits() -> None:
    parameters = {"command": "https://api.example.org/x"}
    everything = context(action="restcall", policies={"dry-run.restcall": True})
    assert DryRun().simulate(everything, parameters) == {"content": {}, "status": 200, "headers": {}}
    one = configured(answer("restcall", {"content": {"id": 7}, "status": 201}, command="*/x"))
    assert one.simulate(context(action="restcall"), parameters) == {"content": {"id": 7}, "status": 201, "headers": {}}
    assert one.simulate(context(action="restcall"), {"command": "https://api.example.org/y"}) is None


async def test_an_answered_status_that_is_not_expected_fails_like_a_real_one() -> None:
    provider = configured(answer("restcall", {"status": 503}))
    with pytest.raises(ActionFailed, match="GET http://x returned 503") as failed:
        provider.simulate(context(action="restcall"), {"command": "http://x"})
    assert failed.value.retryable
    outputs = provider.simulate(context(action="restcall"), {"command": "http://x", "expectedStatus": [200, 503]})
    assert outputs is not None
    assert outputs["status"] == 503


async def test_it_stands_in_for_any_action_with_configured_outputs_and_for_no_other() -> None:
    provider = configured(answer("notify", {"sent": True}))
    assert provider.simulate(context(action="notify"), {}) == {"sent": True}
    assert provider.simulate(context(action="approval"), {}) is None


FILE = """
    answers:
      - action: execrun
        step: generate-db-password
        give: { stdout: 1.10, exitCode: 0 }
      - give: { chefState: { a: [1, { b: null }] } }
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "answers.yml"
    path.write_text(dedent(text))
    return str(path)


def test_a_file_is_read_in_its_order(tmp_path: Path) -> None:
    answers = read_answers_file(written(tmp_path, FILE))
    assert answers == Answers(
        (
            Answer({"action": "execrun", "step": "generate-db-password"}, {"stdout": 1.1, "exitCode": 0}),
            Answer({}, {"chefState": {"a": [1, {"b": None}]}}),
        )
    )


def test_without_a_file_there_are_no_answers() -> None:
    assert read_answers_file("") == Answers()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("answers: {a: 1}", "Line 1, column 10: 'answers' must be a list"),
        ("answers: [7]", "An answer must be a map, not the number 7"),
        ("answers:\n  - {give: {}, setp: x}", "Line 2, column 16: Unknown key 'setp' of an answer"),
        ("answers:\n  - {step: x}", "'give' must be a map of outputs, but it is missing"),
        ("answers:\n  - {step: x, give: [1]}", "'give' must be a map of outputs, not a list"),
        ("answers:\n  - {step: [x], give: {}}", "'step' must be a string, not a list"),
        ("rules: []", "Unknown key 'rules'"),
        ("- 1", "The document must be a map"),
        ("a: [", "Invalid YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CannotStart, match=r"answers\.yml: ") as refused:
        read_answers_file(written(tmp_path, text))
    assert said in " ".join(refused.value.messages)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"can't read .*nothing-here\.yml"):
        read_answers_file(str(tmp_path / "nothing-here.yml"))


def test_a_policy_and_one_below_it_do_not_mix() -> None:
    policies = {"dry-run.execrun.stdout": "word", "dry-run.execrun.stdout.deep": "lost", "dry-run.execrun.n.x.0": 1}
    assert of_policies(policies, "execrun") == {"stdout": "word", "n": {"x": [1]}}


def test_policies_of_an_action_with_a_dot_are_found() -> None:
    assert of_policies({"dry-run.compute.shrink-all.error": "no"}, "compute.shrink-all") == {"error": "no"}


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "a\nb", True),
        ("a*c", "abbc", True),
        ("a**c", "ac", True),
        ("a*c", "abd", False),
        ("?", "a", True),
        ("?", "", False),
        ("?", "ab", False),
        ("[a]", "a", False),
        ("[[ -f x ]]*", "[[ -f x ]] && exit", True),
        ("a.c", "abc", False),
        ("", "", True),
        ("", "a", False),
        ("exec*", "execrun", True),
    ],
)
def test_only_stars_and_question_marks_are_special(pattern: str, text: str, *, expected: bool) -> None:
    assert fits(pattern, text) is expected


@given(st.text(), st.text())
def test_a_text_fits_itself_and_what_is_around_it(text: str, more: str) -> None:
    assert fits(text.replace("*", "?"), text)
    assert fits(f"*{text.replace('*', '?')}*", f"{more}{text}{more}")
