"""`ansible`: a real ansible-playbook, on this host and on real OpenSSH servers."""

import asyncio
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from launchbay.actions.ansible import Ansible, AnsibleEvents
from launchbay.actions.contract import ActionCall
from launchbay.actions.plan import plan_action
from launchbay.egress.http import EgressClient
from launchbay.errors import ActionFailed, NotApproved
from launchbay.machines.ssh import SshMachines
from launchbay.model.machine import ChefRun, CommandResult, JumpHost, Machine, MachineSpec, RemoteCommand, SshAccess
from launchbay.model.price import Price
from launchbay.processes.run import Programs
from launchbay.telemetry.tracing import trace_parent
from tests.support.contexts import RecordingContext, context, run
from tests.support.eventually import eventually
from tests.support.machines import LOGIN, Host, Hosts, needs_sshd, parts
from tests.support.network import answer, loopback_server, packed
from tests.support.outgoing_proxies import outgoing_proxy, squid
from tests.support.servers import is_alive, pids

ANSIBLE = Ansible()
ALLOWED = Programs(["ansible"])
PLAIN: dict[str, Any] = {"hosts": "all", "gather_facts": False}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Private directories are made here, so that a test sees what is left of them.

    The test's own directory is asked for, so that pytest has made it before: it would lie here otherwise.
    """
    with tempfile.TemporaryDirectory(prefix="lb") as directory:  # short: the sockets of SSH lie in it
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


@dataclass
class ReachedMachines:
    """The machines of a component: those of a test, reached by the real SSH of the product."""

    ssh: SshMachines
    machines: list[Machine]
    asked: list[Sequence[str] | None] = field(default_factory=list)

    provider_name = "local"

    def price_of(self, size: str) -> Price:
        return Price()

    def of_role(self, role: str) -> Sequence[Machine]:
        return [machine for machine in self.machines if machine.role == role]

    def own(self) -> Sequence[Machine]:
        return self.machines

    def targets(self, roles: Sequence[str] | None) -> Sequence[Machine]:
        self.asked.append(roles)
        return [machine for machine in self.machines if roles is None or machine.role in roles]

    async def ssh_access(self, machine: Machine) -> SshAccess:
        return await self.ssh.ssh_access(context(), machine)

    async def provision(self, role: str, count: int, spec: MachineSpec) -> Sequence[Machine]:
        return []

    async def adopt(self, role: str, addresses: Sequence[str], spec: MachineSpec) -> Sequence[Machine]:
        return []

    async def release(self, machines: Sequence[Machine]) -> None:
        return None

    async def run(self, machine: Machine, command: RemoteCommand) -> CommandResult:
        return await self.ssh.run(context(), machine, command)

    async def converge(self, machine: Machine, chef: ChefRun) -> Mapping[str, Any]:
        return {}


@dataclass
class OnMachines(RecordingContext):
    reached: ReachedMachines | None = None

    @property
    def machines(self) -> ReachedMachines:
        assert self.reached is not None
        return self.reached


def here() -> RecordingContext:
    return RecordingContext(programs=ALLOWED)


def play(*tasks: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{**PLAIN, "tasks": list(tasks), **more}]


def said(context: RecordingContext) -> str:
    return "\n".join(text for _, text in context.lines)


async def refusal(context: RecordingContext, **parameters: Any) -> ActionFailed:
    with pytest.raises(ActionFailed) as caught:
        await run(ANSIBLE, context, **parameters)
    return caught.value


@pytest.mark.slow
async def test_a_playbook_runs_and_gives_its_statistics_and_data(places: Path) -> None:
    context = here()
    variables = {"who": "$(touch pwned) '\"; {{ 6 * 7 }}", "deep": {"list": [1, 2]}}

    outputs = await run(
        ANSIBLE,
        context,
        onServer=True,
        variables=variables,
        playbook=play(
            {"name": "greet", "ansible.builtin.debug": {"msg": "hello {{ deep.list[1] }}"}},
            {"ansible.builtin.command": {"argv": ["printf", "%s", "{{ who }}"]}, "register": "printed"},
            {"ansible.builtin.set_stats": {"data": {"answer": 42, "printed": "{{ printed.stdout }}"}}},
        ),
    )

    assert outputs["stats"]["localhost"] == {
        "ok": 3,
        "changed": 1,
        "failed": 0,
        "unreachable": 0,
        "skipped": 0,
        "rescued": 0,
        "ignored": 0,
    }
    assert outputs["data"]["answer"] == 42
    assert outputs["data"]["printed"] == "$(touch pwned) '\"; {{ 6 * 7 }}"
    assert "TASK [greet]" in said(context)
    assert "hello 2" in said(context)
    assert context.percents == sorted(context.percents)
    assert list(places.iterdir()) == [], "nothing is left behind"


@pytest.mark.slow
async def test_a_playbook_that_matches_no_host_warns_because_ansible_calls_that_a_success() -> None:
    misspelled, untagged = here(), here()
    task = {"name": "greet", "ansible.builtin.debug": {"msg": "hello"}, "tags": ["hello"]}

    outputs = await run(ANSIBLE, misspelled, onServer=True, playbook=play(task, hosts="web-server"))
    await run(ANSIBLE, untagged, onServer=True, playbook=play(task), tags=["helo"])

    assert outputs["stats"] == {}
    assert (
        "warning",
        "The playbook ran no task on any host. The 'hosts' of its plays may match none of all.",
    ) in misspelled.lines
    assert "match none of all, or no task has one of the tags helo." in said(untagged)
    assert "ran no task" not in said(await _ran(play(task)))


async def _ran(playbook: list[dict[str, Any]]) -> RecordingContext:
    context = here()
    await run(ANSIBLE, context, onServer=True, playbook=playbook)
    return context


HOSTILE: dict[str, Any] = {
    "comment": "pa{#ss#}word",
    "expression": "{{ 7*7 }}",
    "open": "pass{{word",
    "lookup": "{{ lookup('pipe', 'touch pwned') }}",
    "statement": "{% raw %}",
    "tag": "!!python/object:os.system",
    "texts": ["2020-01-01", "1.10", "0400", "no", "1e3", "~", "", " x ", "&a *a"],
    "lines": "a\nb\r\n\t\u0085\u2028\ufeff\x7f\U0001f600",
    "deep": {"k{{ 1 + 1 }}": [{"again": "{{ 8*8 }}"}], "numbers": [9007199254740993, -(2**63), 1e16, 1.5, 1e-7]},
    "others": [True, None, {}, []],
}


@pytest.mark.slow
async def test_variables_arrive_as_they_are(tmp_path: Path) -> None:
    """Jinja2 in a value is data: Ansible doesn't evaluate it, at any depth."""
    written = tmp_path / "written"
    everything = " ".join(f"'{name}': {name}," for name in HOSTILE)
    command = {
        "ansible.builtin.command": {"argv": ["printf", "%s|%s|%s", "{{ comment }}", "{{ expression }}", "{{ open }}"]}
    }

    outputs = await run(
        ANSIBLE,
        here(),
        onServer=True,
        variables=HOSTILE,
        playbook=play(
            {"ansible.builtin.copy": {"content": f"{{{{ {{{everything}}} | to_json }}}}", "dest": str(written)}},
            {**command, "register": "printed"},
            {
                "ansible.builtin.set_stats": {
                    "data": {"printed": "{{ printed.stdout }}", "all": f"{{{{ {{{everything}}} }}}}"}
                }
            },
        ),
    )

    assert json.loads(written.read_text()) == HOSTILE
    assert outputs["data"] == {"printed": "pa{#ss#}word|{{ 7*7 }}|pass{{word", "all": HOSTILE}


@pytest.mark.slow
async def test_the_cause_is_the_last_failure_that_ended_the_play() -> None:
    def fail(text: str, **more: Any) -> dict[str, Any]:
        return {"name": text, "ansible.builtin.fail": {"msg": f"because of {text}"}, **more}

    items = {
        "name": "items",
        "ansible.builtin.fail": {"msg": "ignored item {{ item }}"},
        "loop": list(range(25)),
        "ignore_errors": True,
    }
    rescued = {"block": [fail("rescued")], "rescue": [{"ansible.builtin.debug": {"msg": "saved"}}]}
    ending = {"block": [fail("first")], "rescue": [fail("last")]}

    error = await refusal(here(), onServer=True, playbook=play(items, rescued, ending))

    assert error.messages == ("localhost: the task 'last' failed: because of last",)


@pytest.mark.slow
async def test_the_items_that_failed_are_named() -> None:
    task = {
        "name": "check",
        "ansible.builtin.fail": {"msg": "bad {{ item }}"},
        "loop": list(range(6)),
        "when": "item % 3 != 0",
    }

    error = await refusal(here(), onServer=True, playbook=play(task))

    assert error.messages == ("localhost: the task 'check' failed: bad 1; bad 2; bad 4 (1 more items failed)",)


@pytest.mark.slow
async def test_a_huge_result_hides_neither_the_cause_nor_the_log() -> None:
    context = here()
    huge = {"name": "talk", "ansible.builtin.shell": "head -c 5000000 /dev/zero | tr '\\0' x; echo broken >&2; exit 3"}

    error = await refusal(context, onServer=True, playbook=play(huge))

    assert error.messages == ("localhost: the task 'talk' failed: non-zero return code: broken",)
    assert "(A result of Ansible with more than 4 MiB isn't in this log.)" in said(context)
    assert "PLAY RECAP" in said(context)
    assert '"uuid"' not in said(context)


@pytest.mark.slow
async def test_data_that_no_step_can_keep_fails_the_step() -> None:
    huge = {"ansible.builtin.set_stats": {"data": {"huge": "{{ 'x' * 5000000 }}"}}}

    error = await refusal(here(), onServer=True, playbook=play(huge))

    assert re.search(r"The data of set_stats has 5000\d\d\d bytes. Limit: 4194304 bytes", str(error))
    assert not error.retryable


@pytest.mark.slow
async def test_set_stats_adds_up_over_tasks_and_is_kept_per_host() -> None:
    def stats(data: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"ansible.builtin.set_stats": {"data": data, **more}}

    tasks = (
        stats({"count": 1, "names": ["a"], "map": {"x": 1}, "text": "a", "last": 1}),
        stats({"count": 2, "names": ["b"], "map": {"y": 2}, "text": "b"}),
        stats({"last": 2}, aggregate=False),
        stats({"own": "{{ inventory_hostname }}", "count": 5}, per_host=True),
        stats({"count": 6}, per_host=True),
    )

    outputs = await run(ANSIBLE, here(), onServer=True, playbook=play(*tasks))

    assert outputs["data"] == {"count": 3, "names": ["a", "b"], "map": {"x": 1, "y": 2}, "text": "ab", "last": 2}
    assert outputs["hostData"] == {"localhost": {"own": "localhost", "count": 11}}


@pytest.mark.slow
async def test_a_text_is_a_playbook_too_and_tags_choose_tasks() -> None:
    text = """
    - hosts: all
      gather_facts: false
      tasks:
        - ansible.builtin.set_stats: {data: {one: 1}}
          tags: first
        - ansible.builtin.set_stats: {data: {two: 2}}
          tags: second
    """

    outputs = await run(ANSIBLE, here(), onServer=True, playbook=text, tags="second")

    assert outputs["data"] == {"two": 2}


@pytest.mark.slow
async def test_a_failed_task_fails_the_step_with_its_host_and_words_and_an_ignored_one_does_not() -> None:
    ignored = {"name": "shrug", "ansible.builtin.fail": {"msg": "not this"}, "ignore_errors": True}
    failing = {"name": "deploy it", "ansible.builtin.fail": {"msg": "no room, password=hunter22"}}

    error = await refusal(here(), onServer=True, playbook=play(ignored, failing))

    assert "localhost: the task 'deploy it' failed: no room" in str(error)
    assert "not this" not in str(error)
    assert "hunter22" not in str(error)
    assert error.retryable


@pytest.mark.slow
async def test_a_task_that_keeps_its_secrets_is_not_in_the_log() -> None:
    context = here()
    hidden = {
        "name": "quiet",
        "ansible.builtin.command": "echo very-secret-thing && false",
        "no_log": True,
        "ignore_errors": True,
    }
    loud = {"name": "loud", "ansible.builtin.debug": {"msg": "heard"}}

    await run(ANSIBLE, context, onServer=True, playbook=play(hidden, loud))

    assert "heard" in said(context)
    assert "very-secret-thing" not in said(context)


@pytest.mark.slow
async def test_a_broken_playbook_says_what_ansible_says() -> None:
    error = await refusal(here(), onServer=True, playbook="- hosts: all\n  tasks: [{no_such_module: {}}]\n")

    assert "no_such_module" in str(error)


@pytest.mark.slow
async def test_a_role_and_a_playbook_come_from_an_archive() -> None:
    files = {
        "p/roles/web/tasks/main.yml": b"- ansible.builtin.set_stats: {data: {role: '{{ size }}'}}\n",
        "p/plays/site.yml": b"- hosts: all\n  gather_facts: false\n  tasks:\n    - set_stats: {data: {site: true}}\n",
    }
    async with loopback_server() as server:
        server.routes["/p.tar.gz"] = answer(body=packed(dict(files)))
        url = server.url("/p.tar.gz")

        of_role = await run(ANSIBLE, here(), onServer=True, url=url, role="web", variables={"size": 3})
        of_site = await run(ANSIBLE, here(), onServer=True, url=url, playbook="plays/site.yml")

    assert of_role["data"] == {"role": 3}
    assert of_site["data"] == {"site": True}


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({}, "'playbook' or 'role'"),
        ({"playbook": "x", "role": "web"}, "'playbook' or 'role'"),
        ({"role": "web"}, "'role' is wrong"),
        ({"playbook": "x", "variables": [1]}, "'variables' is wrong"),
        ({"playbook": "x", "timeout": "2 days"}, "'timeout' is wrong"),
        ({"playbook": float("nan")}, "'playbook' is wrong"),
    ],
)
async def test_a_wrong_parameter_is_named(parameters: dict[str, Any], named: str) -> None:
    error = await refusal(here(), onServer=True, **parameters)

    assert named in str(error)
    assert not error.retryable


@pytest.mark.parametrize("playbook", ["../../etc/site.yml", "/etc/site.yml", "--syntax-check", "", 7])
async def test_a_playbook_of_an_archive_lies_in_it(playbook: object) -> None:
    async with loopback_server() as server:
        server.routes["/p"] = answer(body=packed({"p/a.yml": b""}))

        error = await refusal(here(), onServer=True, url=server.url("/p"), playbook=playbook)

    assert "'playbook' is wrong" in str(error)


async def test_nothing_runs_where_the_operator_does_not_allow_it() -> None:
    error = await refusal(RecordingContext(), onServer=True, playbook=play())

    assert "LAUNCHBAY_SERVER_PROGRAMS=ansible" in str(error)
    assert not error.retryable


@pytest.mark.slow
async def test_cancelling_ends_the_playbook_and_what_it_started(tmp_path: Path, places: Path) -> None:
    file = tmp_path / "pids"
    task = {"ansible.builtin.shell": f"echo $$ >> {file}; setsid sh -c 'echo $$ >> {file}; sleep 600'"}
    running = asyncio.create_task(
        ANSIBLE.run(ActionCall({"onServer": True, "playbook": play(task), "timeout": 600}, here()))
    )
    await eventually(lambda: len(pids(file)) == 2 or running.done())

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert not any(map(is_alive, pids(file)))
    assert list(places.iterdir()) == []


def test_lines_that_are_no_events_are_words_of_the_program() -> None:
    lines: list[str] = []
    events = AnsibleEvents(lines.append, lambda _: None)

    for line in ("", "\x1b[35m[WARNING]: old\x1b[0m", "[1, 2]", '{"event": 3}', '{"event": "x", "event_data": []}'):
        events.handle_line(line)

    assert lines == ["[WARNING]: old", "[1, 2]", '{"event": 3}']


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2, network=4) as started:
        yield started


@pytest.mark.slow
@needs_sshd
class TestOnMachines:
    def context(self, hosts: Hosts, tmp_path: Path) -> OnMachines:
        machines = [
            Machine(
                id=host.address,
                role=role,
                provider="static",
                number=number,
                public_ip=host.address,
                port=host.port,
                login=LOGIN,
            )
            for number, (host, role) in enumerate(zip(hosts.hosts, ("web", "data base"), strict=True), 1)
        ]
        return OnMachines(programs=ALLOWED, reached=ReachedMachines(SshMachines(parts(hosts, tmp_path)), machines))

    async def test_the_hosts_are_the_machines_of_the_roles(self, hosts: Hosts, tmp_path: Path, places: Path) -> None:
        context = self.context(hosts, tmp_path)
        seen = {"ansible.builtin.set_stats": {"data": {"groups": "{{ groups }}"}}}
        note = {"ansible.builtin.shell": "echo $SSH_CONNECTION > {{ place }}/{{ inventory_hostname }}"}
        variables = {"place": str(hosts[0].work)}

        outputs = await run(
            ANSIBLE, context, playbook=play({"ansible.builtin.ping": {}}, note, seen), variables=variables
        )

        assert {host: stats["ok"] for host, stats in outputs["stats"].items()} == {
            hosts[0].address: 3,
            hosts[1].address: 3,
        }
        for host in hosts.hosts:
            assert host.address in (hosts[0].work / host.address).read_text()
        groups = outputs["data"]["groups"]
        assert groups["web"] == [hosts[0].address]
        assert groups["data_base"] == [hosts[1].address]
        assert list(places.iterdir()) == []

    async def test_a_host_gets_the_trace_only_of_a_playbook_that_passes_it_on(
        self, hosts: Hosts, tmp_path: Path
    ) -> None:
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        seen: dict[str, Any] = {"ansible.builtin.shell": "echo ${TRACEPARENT-none}"}
        passed = {"TRACEPARENT": "{{ lookup('ansible.builtin.env', 'TRACEPARENT') }}"}
        tasks = [{**seen, "register": "bare"}, {**seen, "register": "traced", "environment": passed}]
        told = {"ansible.builtin.set_stats": {"data": {"said": ["{{ bare.stdout }}", "{{ traced.stdout }}"]}}}
        token = trace_parent.set(parent)
        try:
            outputs = await run(ANSIBLE, self.context(hosts, tmp_path), roles="web", playbook=play(*tasks, told))
        finally:
            trace_parent.reset(token)
        assert outputs["data"]["said"] == ["none", parent]

    async def test_only_the_roles_that_are_named_are_reached(self, hosts: Hosts, tmp_path: Path) -> None:
        context = self.context(hosts, tmp_path)

        outputs = await run(ANSIBLE, context, roles="web", playbook=play({"ansible.builtin.ping": {}}))

        assert list(outputs["stats"]) == [hosts[0].address]

    async def test_a_plan_says_of_each_host_what_would_change_and_holds_the_run_to_it(
        self, hosts: Hosts, tmp_path: Path, places: Path
    ) -> None:
        context = self.context(hosts, tmp_path)
        files = [host.work / "settings" for host in hosts.hosts]
        files[0].write_text("size=1\n")
        place = {host.address: str(file) for host, file in zip(hosts.hosts, files, strict=True)}
        copy = {"dest": "{{ place[inventory_hostname] }}", "content": "size=2\n"}
        given = {
            "playbook": play({"name": "Write settings", "ansible.builtin.copy": copy}),
            "variables": {"place": place},
        }

        made = await plan_action(ANSIBLE, ActionCall(given, context), "web#launch/configure")

        assert {(each.kind, each.address, each.before) for each in made.effects} == {
            ("change", f"{hosts[0].address}: Write settings", "size=1\n"),
            ("change", f"{hosts[1].address}: Write settings", None),
        }
        assert [file.exists() for file in files] == [True, False]
        files[1].write_text("by hand\n")
        with pytest.raises(NotApproved) as refused:
            await ANSIBLE.run(ActionCall(given, context, approved=made.artifact))
        assert f"on {hosts[1].address}, the task 'Write settings' would do something else" in str(refused.value)
        assert [file.read_text() for file in files] == ["size=1\n", "by hand\n"]
        files[1].unlink()

        await ANSIBLE.run(ActionCall(given, context, approved=made.artifact))

        assert [file.read_text() for file in files] == ["size=2\n", "size=2\n"]
        assert list(places.iterdir()) == []

    async def test_a_host_that_is_not_reached_fails_the_plan(self, hosts: Hosts, tmp_path: Path) -> None:
        context = self.context(hosts, tmp_path)
        broken = play({"ansible.builtin.ping": {}, "vars": {"ansible_port": 1}})
        with pytest.raises(ActionFailed, match=f"{hosts[0].address}: the task .* failed"):
            await plan_action(ANSIBLE, ActionCall({"playbook": broken}, context), "web#launch/configure")

    async def test_keys_are_readable_for_the_server_alone(self, hosts: Hosts, tmp_path: Path, places: Path) -> None:
        context = self.context(hosts, tmp_path)
        go_on = tmp_path / "go-on"
        waiting = {"ansible.builtin.wait_for": {"path": str(go_on)}, "delegate_to": "localhost"}
        running = asyncio.create_task(
            ANSIBLE.run(ActionCall({"playbook": play(waiting, connection="local"), "roles": "web"}, context))
        )
        await eventually(lambda: bool(list(places.glob("*/keys/launchbay-0"))) or running.done())
        [key] = places.glob("*/keys/launchbay-0")
        await eventually(lambda: key.stat().st_size > 0)

        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.parent.stat().st_mode) == 0o700
        assert key.read_text() == hosts.private_key
        assert key.stat().st_uid == os.geteuid()
        go_on.touch()
        await running
        assert not key.exists()

    async def test_two_jump_hosts_lead_to_a_host_and_their_keys_are_checked(
        self, hosts: Hosts, tmp_path: Path, places: Path
    ) -> None:
        def hop(host: Host, key_name: str) -> JumpHost:
            return JumpHost(address=host.address, port=host.port, login=LOGIN, key_name=key_name)

        def sign_ins() -> list[int]:
            return [(host.directory / "sshd.log").read_text().count("Accepted publickey") for host in hosts.hosts]

        context = self.context(hosts, tmp_path)
        way = (hop(hosts[0], "deploy"), hop(hosts[1], ""))
        before = sign_ins()
        context.machines.machines[0] = msgspec.structs.replace(context.machines.machines[0], jump=way)
        access = await context.machines.ssh_access(context.machines.machines[0])
        assert [each.address for each in (*access.jump, access)] == [hosts[number].address for number in (0, 1, 0)]

        outputs = await run(ANSIBLE, context, roles="web", playbook=play({"ansible.builtin.ping": {}}))

        assert {host: stats["ok"] for host, stats in outputs["stats"].items()} == {hosts[0].address: 1}
        first, second = (after - known for after, known in zip(sign_ins(), before, strict=True))
        assert second == 3  # the access above, the one of the step, and Ansible
        assert first >= 5  # the same, as jump host and as the host itself; two accesses may share a connection
        assert list(places.iterdir()) == []

    async def test_a_host_that_shows_another_key_is_not_let_near(self, hosts: Hosts, tmp_path: Path) -> None:
        context = self.context(hosts, tmp_path)
        await context.machines.ssh_access(context.machines.machines[0])
        hosts[0].new_host_key()

        error = await refusal(context, roles="web", playbook=play({"ansible.builtin.ping": {}}))

        assert "key" in str(error)


@pytest.mark.slow
async def test_a_playbook_on_the_server_uses_the_proxy_of_the_settings() -> None:
    """Its targets are unknown beforehand, so it gets the proxy in its environment."""
    async with loopback_server() as server:
        with outgoing_proxy(squid, credentials="ops:pass-w0rd") as proxy:
            context = here()
            context.egress = EgressClient(proxy=proxy.setting())
            url = server.url("/facts", host="api.launchbay.test")
            task = {"ansible.builtin.uri": {"url": url, "return_content": True}, "register": "found"}
            near = [{"ansible.builtin.uri": {"url": server.url("/near", host=host)}} for host in ("127.0.0.1", "[::1]")]
            shown = {"ansible.builtin.set_stats": {"data": {"content": "{{ found.content }}"}}}

            outputs = await run(ANSIBLE, context, onServer=True, playbook=play(task, *near, shown))

            assert outputs["data"] == {"content": "hello"}
            assert [each.target for each in server.received] == ["/facts", "/near", "/near"]
            assert "/near" not in proxy.carried()
            assert f"GET {url} ops" in proxy.carried()
            assert ["pass-w0rd", "pass-w0rd"] in context.learned
