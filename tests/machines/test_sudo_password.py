"""sudo that asks for a password, by the real sudo of real OpenSSH servers."""

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.contract import ProviderContext
from launchbay.machines.ssh import SshMachines
from launchbay.machines.static import StaticMachines
from launchbay.model.machine import Machine, RemoteCommand
from launchbay.processes.run import Programs
from tests.support.contexts import Log, context
from tests.support.eventually import eventually
from tests.support.machines import ADOPT, Bench, Host, Hosts, Keys, needs_sshd, needs_sudo, parts, workflow
from tests.support.runtime import SUCCEEDED

pytestmark = [needs_sshd, needs_sudo]
PASSWORD = 'it\'s a \\n "pass" $word'
SUDOERS = """
asks ALL=(ALL:ALL) ALL
Defaults:forgets timestamp_timeout=0
forgets ALL=(ALL:ALL) ALL, NOPASSWD: /usr/bin/cat
partly ALL=(ALL:ALL) /usr/bin/id
"""
LOGINS = ("asks", "forgets", "partly")


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(1, network=10, shells=dict.fromkeys(LOGINS, "/bin/bash")) as hosts:
        found = hosts[0]
        shadow = found.directory / "shadow"
        stored = subprocess.run(
            ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD, check=True, capture_output=True, text=True
        ).stdout.strip()
        lines = [line.split(":") for line in shadow.read_text().splitlines()]
        for line in lines:
            line[1] = stored if line[0] in LOGINS else line[1]
        shadow.write_text("".join(f"{':'.join(line)}\n" for line in lines))
        sudoers = found.directory / "sudoers"
        sudoers.write_text(sudoers.read_text() + SUDOERS)
        yield hosts


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return hosts[0]


@pytest.fixture
def ssh(hosts: Hosts, tmp_path: Path) -> SshMachines:
    keys = Keys({"": hosts.private_key}, {"right": PASSWORD, "wrong": "something else"})
    return SshMachines(replace(parts(hosts, tmp_path), keys=keys))


def asked(tag: str, secret: str = "right", log: Log | None = None) -> ProviderContext:
    policies = {"machines.sudo-password": secret} if secret else {}
    return context(log, tag=tag, job_id="5f00000000000000000000ee", policies=policies)


def on(host: Host, login: str, sudo_secret: str = "") -> Machine:
    return Machine(
        id=login,
        role="web",
        provider="static",
        number=1,
        public_ip=host.address,
        port=host.port,
        login=login,
        sudo_secret=sudo_secret,
    )


@pytest.mark.parametrize("login", ["asks", "forgets", "ops"])
async def test_sudo_gets_the_password_that_the_policy_names(ssh: SshMachines, host: Host, login: str) -> None:
    command = RemoteCommand(line="id -un; cat; exit 3", sudo=True)
    result = await ssh.run(asked(f"right {login}"), on(host, login), command)
    assert (result.stdout, result.stderr, result.exit_code) == ("root\n", "", 3)


@pytest.mark.parametrize("login", ["asks", "forgets", "ops"])
async def test_a_command_never_reads_the_password(ssh: SshMachines, host: Host, login: str) -> None:
    command = RemoteCommand(line="/usr/bin/cat", arguments=["-"], sudo=True)
    result = await ssh.run(asked(f"cat {login}"), on(host, login), command)
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


async def test_a_login_that_may_run_one_program_runs_it(ssh: SshMachines, host: Host) -> None:
    result = await ssh.run(asked("one"), on(host, "partly"), RemoteCommand(line="id", arguments=["-u"], sudo=True))
    assert (result.stdout, result.exit_code) == ("0\n", 0)
    refused = await ssh.run(asked("two"), on(host, "partly"), RemoteCommand(line="ls", arguments=["/"], sudo=True))
    assert refused.exit_code == 1
    assert "not allowed to execute" in refused.stderr


async def test_the_password_is_in_no_argument_no_file_and_no_log(ssh: SshMachines, host: Host) -> None:
    log, mark = Log(), host.work / "seen"
    line = f"""
    for each in /proc/[0-9]*; do tr '\\0' ' ' <$each/cmdline; echo; done >{mark}
    cat /proc/[0-9]*/environ {host.home_of("asks")}/.launchbay/runs/*/[!b]* >>{mark}
    """
    result = await ssh.run(asked("hidden", log=log), on(host, "asks"), RemoteCommand(line=line, sudo=True))
    assert result.exit_code == 0
    seen = mark.read_bytes()
    assert PASSWORD.encode() not in seen
    assert b"sudo -n -- sh" in seen
    assert b"asks" in seen
    assert not any(PASSWORD in text for text in log)


async def test_a_wrong_password_is_told_and_the_command_never_runs(ssh: SshMachines, host: Host) -> None:
    mark = host.work / "never"
    result = await ssh.run(asked("wrong", "wrong"), on(host, "asks"), RemoteCommand(line=f"touch {mark}", sudo=True))
    assert result.exit_code == 1
    assert "sudo refused the password. Check the secret that the policy machines.sudo-password names." in result.stderr
    assert not mark.exists()


async def test_without_a_password_sudo_says_that_it_needs_one(ssh: SshMachines, host: Host) -> None:
    result = await ssh.run(asked("none", ""), on(host, "asks"), RemoteCommand(line="id", sudo=True))
    assert "password is required" in result.stderr


async def test_the_secret_of_a_machine_precedes_the_policy(ssh: SshMachines, host: Host) -> None:
    machine = on(host, "asks", sudo_secret="right")
    assert (await ssh.run(asked("own", "wrong"), machine, RemoteCommand(line="id -u", sudo=True))).stdout == "0\n"


async def test_a_secret_that_no_vault_has_is_told_before_anything_runs(ssh: SshMachines, host: Host) -> None:
    with pytest.raises(ActionFailed, match="There is no secret 'gone'"):
        await ssh.run(asked("gone", "gone"), on(host, "asks"), RemoteCommand(line="id", sudo=True))


@pytest.mark.parametrize("login", ["asks", "forgets"])
async def test_a_cancelled_command_behind_the_password_dies(ssh: SshMachines, host: Host, login: str) -> None:
    mark = host.work / f"dies-{login}"
    command = RemoteCommand(line=f"echo $$ >{mark}.new; mv {mark}.new {mark}; exec sleep 300", sudo=True)
    task = asyncio.create_task(ssh.run(asked(f"dies {login}"), on(host, login), command))
    await eventually(mark.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    look = RemoteCommand(line=f"[ ! -d /proc/{mark.read_text().strip()} ] && echo gone")
    assert (await ssh.run(asked(f"look {login}"), on(host, "ops"), look)).stdout == "gone\n"


@pytest.mark.slow
@pytest.mark.parametrize(("secret", "outcome"), [("right", ""), ("", "Missing sudo password")])
async def test_ansible_becomes_the_superuser_with_it(hosts: Hosts, tmp_path: Path, secret: str, outcome: str) -> None:
    bench = Bench(hosts, tmp_path)
    bench.provider = StaticMachines(replace(bench.parts, keys=Keys({"": hosts.private_key}, {"right": PASSWORD})))
    play = (
        "become: {action: ansible, parameters: {playbook: [{hosts: web, gather_facts: false, become: true, tasks:"
        " [{ansible.builtin.command: 'test -r /etc/shadow'}]}]}}"
    )
    policies = {"machines__login": "asks", **({"machines__sudo-password": secret} if secret else {})}
    live = bench.instance(workflow(ADOPT, play), **policies)
    live.surroundings = replace(live.surroundings, programs=Programs(["ansible"]))
    error = await live.launch()
    assert (error == SUCCEEDED) if not outcome else outcome in str(error)
