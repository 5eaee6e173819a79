"""Commands for logins with other shells than `sh`, on real OpenSSH servers: what a program receives, and what start-up
files write.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.answers import quoted
from launchbay.machines.contract import ProviderContext
from launchbay.machines.ssh import SshMachines
from launchbay.model.machine import Machine, RemoteCommand
from tests.support.contexts import Log, context
from tests.support.machines import Host, Hosts, needs_isolated, needs_sshd, parts

pytestmark = [pytest.mark.slow, needs_sshd, needs_isolated]
SHELLS = {
    "bash": "/bin/bash",
    "dash": "/bin/dash",
    "zsh": "/usr/bin/zsh",
    "mksh": "/bin/mksh",
    "ash": "",  # busybox, which goes by its name: a link on the host
    "fish": "/usr/bin/fish",
    "tcsh": "/bin/tcsh",
    "rc": "/usr/bin/rc.byron",
}
MARK = "MARK"  # stands for a file that must not come to be
AWKWARD = (
    *("", " ", "  two  spaces  ", "\t", "a\nb", "ends with a line break\n", "\n\n", "a\r\nb", "\r"),
    *("'", '"', "it's", "'\"'\"'", "\\", "\\\\", "\\n", "ends with \\", "\\'", "a\\'b", "'\\''"),
    *("$HOME", "${HOME}", "$0", "$argv", "$*", "$#", "$$", f"$(touch {MARK})", f"`touch {MARK}`"),
    *(f"`{{touch {MARK}}}", f"; touch {MARK}", f"& touch {MARK}", f"| touch {MARK}", f"\ntouch {MARK}\n", f"> {MARK}"),
    *(f">({MARK})", f"(touch {MARK})", f"'; touch {MARK}; '", f"\\'; touch {MARK}; \\'", f'" (touch {MARK}) "'),
    *(f"{{touch,{MARK}}}", "*", "/*", "?", "[a-z]*", "{a,b}", "~", "~root", "=ls", "!!", "!$", "^a^b^", "a=b"),
    *("#", "# no comment", "%", "%1", "-n", "--", "-e \\t", "@", "@x = 1", "end", "fi", "exit 3"),
    *("é", "日本語", "\N{GRINNING FACE}", "e\u0301", "\u0081", "\u200b", "\x01", "\x1b[31m", "\x7f", "x" * 100_000),
)
RECORD = """#!/usr/bin/python3 -S
import os, sys
with open(sys.argv[1], "wb") as file:
    file.write(b"\\0".join(map(os.fsencode, sys.argv[2:])))
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    links = tmp_path_factory.mktemp("shells")
    for directory in (links, *links.parents[:3]):
        directory.chmod(0o755)
    busybox = shutil.which("busybox")
    assert busybox is not None
    (links / "ash").symlink_to(busybox)
    shells = SHELLS | {"ash": str(links / "ash"), "nobody-in": "/usr/sbin/nologin", "bound": "/bin/rbash"}
    with Hosts.start(1, network=7, shells=shells) as started:
        record = started[0].work / "record"
        record.write_text(RECORD)
        record.chmod(0o755)
        yield started


@pytest.fixture
def host(hosts: Hosts) -> Host:
    return hosts[0]


@pytest.fixture
def ssh(hosts: Hosts, tmp_path: Path) -> SshMachines:
    return SshMachines(parts(hosts, tmp_path))


def on(host: Host, login: str) -> Machine:
    return Machine(
        id=host.address, role="web", provider="static", number=1, public_ip=host.address, port=host.port, login=login
    )


def asked(tag: str, log: Log | None = None, **more: object) -> ProviderContext:
    return context(log, tag=tag, job_id="5f00000000000000000000cc", **more)


def with_marks(host: Host, login: str) -> list[str]:
    """The values, whose markers name a file that the login can write."""
    return [value.replace(MARK, f"{host.work}/mark-{login}") for value in AWKWARD]


@pytest.mark.parametrize("login", SHELLS)
async def test_a_program_receives_its_arguments_byte_for_byte(ssh: SshMachines, host: Host, login: str) -> None:
    values, received = with_marks(host, login), host.work / f"received-{login}"
    for name, line in {"program": f"{host.work}/record", "line": f"true 'a b'; {host.work}/record"}.items():
        command = RemoteCommand(line=line, arguments=[str(received), *values])
        result = await ssh.run(asked(f"{login} {name}"), on(host, login), command)
        assert (result.stderr, result.exit_code) == ("", 0)
        assert received.read_bytes().split(b"\0") == [value.encode() for value in values]
        received.unlink()
    assert not list(host.work.glob("mark-*"))


@pytest.mark.parametrize("login", ["fish", "tcsh", "rc"])
async def test_these_shells_read_otherwise_what_is_quoted_for_sh(ssh: SshMachines, host: Host, login: str) -> None:
    """The values and markers above would show it."""
    values, received = with_marks(host, f"quoted-{login}"), host.work / f"quoted-{login}"
    changed = 0
    for number, value in enumerate(values[:-1]):
        received.unlink(missing_ok=True)
        line = f"{host.work}/record {received} {quoted(value)}"
        await ssh.run(asked(f"q {login} {number}"), on(host, login), RemoteCommand(line=line, shell=SHELLS[login]))
        changed += not received.exists() or received.read_bytes() != value.encode()
        if changed > 1:
            break
    assert changed
    for mark in host.work.glob("mark-quoted-*"):
        mark.unlink()


@pytest.mark.parametrize("login", ["mksh", "zsh"])
async def test_a_program_is_not_a_builtin_of_its_name(ssh: SshMachines, host: Host, login: str) -> None:
    command = RemoteCommand(line="echo", arguments=["a\\tb", "-n"])
    assert (await ssh.run(asked(f"echo {login}"), on(host, login), command)).stdout == "a\\tb -n\n"
    builtin = RemoteCommand(line="exit", arguments=["7"])
    assert (await ssh.run(asked(f"exit {login}"), on(host, login), builtin)).exit_code == 7


async def test_a_shell_that_the_step_names_finds_the_arguments_as_its_own(ssh: SshMachines, host: Host) -> None:
    for shell, line in {
        "fish": "echo $argv[2]",
        "tcsh": "echo $argv[2]:q",
        "rc.byron": "echo $2",
        "sh": 'echo "$2"',
    }.items():
        command = RemoteCommand(line=line, arguments=["a", "b c"], shell=shell)
        assert (await ssh.run(asked(f"named {shell}"), on(host, "dash"), command)).stdout == "b c\n"


NOISE = "echo NOISE; echo ERRORS >&2; "
STARTUP = {
    "bash": (
        ".bashrc",
        f"{NOISE}set -e; shopt -s expand_aliases; cat() {{ echo no; }}; export -f cat; alias sh='echo no'",
    ),
    "zsh": (".zshenv", f"{NOISE}set -e; alias sh='echo no'; alias cat='echo no'; PATH=/nowhere:$PATH"),
    "fish": (".config/fish/config.fish", f"{NOISE}alias sh 'echo no'; function cat; echo no; end"),
    "tcsh": (".tcshrc", "echo NOISE; sh -c 'echo ERRORS >&2'; alias sh 'echo no'; alias cat 'echo no'"),
    "dash": (".ssh/rc", f"{NOISE}set -e"),  # run by the SSH server for every login
}


@pytest.fixture
def startup(host: Host) -> Iterator[dict[str, Path]]:
    """The start-up file of each login, which the test may write."""
    files = {login: host.home_of(login) / name for login, (name, _) in STARTUP.items()}
    yield files
    for file in files.values():
        file.unlink(missing_ok=True)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
    for each in (file, file.parent):
        each.chmod(0o755)


@pytest.mark.parametrize("login", STARTUP)
async def test_what_start_up_files_write_is_skipped_and_told_once(
    ssh: SshMachines, host: Host, startup: dict[str, Path], login: str
) -> None:
    write(startup[login], STARTUP[login][1])
    ledger, log, seen = host.work / f"noise-{login}", Log(), []
    line = f"echo x >> {ledger}; echo out; echo err >&2; exit 3"
    command = RemoteCommand(line=line, sink=lambda stream, text: seen.append((stream, text)))
    result = await ssh.run(asked(f"noise {login}", log), on(host, login), command)
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert sorted(seen) == [("stderr", "err"), ("stdout", "out")]
    assert ledger.read_text() == "x\n"
    told = [text for text in log if "NOISE" in text]
    assert len(told) == 1, log
    assert not any("Lost the connection" in text for text in log)


async def test_a_login_that_ends_before_the_command_is_sent_is_no_lost_connection(
    ssh: SshMachines, host: Host, startup: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(startup["bash"], "echo bye; exit 0")
    create = asyncssh.SSHClientConnection.create_process

    async def create_and_be_late(self: asyncssh.SSHClientConnection, *words: Any, **more: Any) -> Any:
        process = await create(self, *words, **more)
        await process.channel.wait_closed()
        return process

    monkeypatch.setattr(asyncssh.SSHClientConnection, "create_process", create_and_be_late)
    log = Log()
    with pytest.raises(ActionFailed, match="never ran /bin/sh"):
        await ssh.run(asked("ends early", log), on(host, "bash"), RemoteCommand(line="echo x"))
    assert list(log) == []


@pytest.mark.parametrize(
    "startup_text",
    ["exec cat", "echo bye; exit 0", "exec tcsh", "exec fish", "exec zsh -c 'echo other'", "exec rc.byron"],
)
async def test_a_login_that_never_runs_sh_fails_at_once_and_says_what_to_change(
    ssh: SshMachines, host: Host, startup: dict[str, Path], startup_text: str
) -> None:
    write(startup["bash"], startup_text)
    ledger, log = host.work / "never", Log()
    command = RemoteCommand(line=f"echo x >> {ledger}")
    told = r"never ran /bin/sh.*Look for an exit or exec in the start-up files"
    with pytest.raises(ActionFailed, match=f"(?s){told}") as error:
        await ssh.run(asked(f"never {startup_text}", log), on(host, "bash"), command)
    assert not error.value.retryable
    assert list(log) == []
    assert not ledger.exists()
    with pytest.raises(ActionFailed, match="never ran /bin/sh"):
        await ssh.wait_until_reachable(asked("never"), on(host, "bash"), within_s=60)


async def test_noise_in_the_background_does_not_hold_up_a_command(
    ssh: SshMachines, host: Host, startup: dict[str, Path]
) -> None:
    write(startup["bash"], "(sleep 0.1; echo late; exec sleep 300) &")
    result = await ssh.run(asked("late"), on(host, "bash"), RemoteCommand(line="sleep 0.5; echo out"))
    assert (result.stdout, result.exit_code) == ("out\n", 0)


async def test_noise_that_never_ends_is_not_taken_for_output(
    ssh: SshMachines, host: Host, startup: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(startup["bash"], "(for i in 1 2 3 4 5 6 7 8 9; do timeout 0.5 yes; done) &")
    told = r"ended with exit code 3, but something else writes into its output\. Look in the start-up files"
    with pytest.raises(ActionFailed, match=told):
        await ssh.run(asked("endless noise"), on(host, "bash"), RemoteCommand(line="seq 100000; exit 3"))


@pytest.mark.parametrize(
    ("login", "told"),
    [
        ("nobody-in", "runs no commands for it.*its shell is nologin"),
        ("bound", "its shell is restricted, such as rbash"),
    ],
)
async def test_shells_that_run_nothing_are_named(ssh: SshMachines, host: Host, login: str, told: str) -> None:
    with pytest.raises(ActionFailed, match=f"(?s){told}.*usermod --shell /bin/sh"):
        await ssh.run(asked(login), on(host, login), RemoteCommand(line="true"))


async def test_a_forced_command_that_runs_what_is_asked_may_write_before(host: Host, ssh: SshMachines) -> None:
    keys = host.directory / "authorized_keys"
    before = keys.read_text()
    try:
        keys.write_text(f'command="echo welcome; $SHELL -c \\"$SSH_ORIGINAL_COMMAND\\"" {before}')
        log = Log()
        result = await ssh.run(asked("forced", log), on(host, "dash"), RemoteCommand(line="echo out"))
        assert result.stdout == "out\n"
        assert any("'welcome'" in line for line in log)
        keys.write_text(f'command="echo welcome" {before}')
        with pytest.raises(ActionFailed, match=r"'welcome'.*forced command"):
            await ssh.run(asked("only forced"), on(host, "dash"), RemoteCommand(line="echo out"))
    finally:
        keys.write_text(before)


async def test_a_time_limit_counts_over_all_connections(
    ssh: SshMachines, host: Host, startup: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if each answer says that the command has just begun."""
    monkeypatch.setattr(limits, "COMMAND_STOP_S", 0.2)
    write(startup["bash"], "(sleep 0.3; kill $PPID) &")  # ends each connection
    log = Log()
    with pytest.raises(ActionFailed, match=r"took longer than 2 s"):
        await ssh.run(asked("limit", log), on(host, "bash"), RemoteCommand(line="sleep 60", timeout_s=2.0))
    assert any("Lost the connection" in line for line in log)
