"""Commands on machines that have little: only the required programs, a full disk, no execution."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.contract import OnData, OpenShell, Shell
from launchbay.machines.remote_commands import RemoteRun
from launchbay.model.machine import CommandResult, RemoteCommand
from tests.support.contexts import MACHINE, Log, context
from tests.support.machines import needs_isolated

pytestmark = [pytest.mark.slow, needs_isolated]
CHROOT = "/usr/sbin/chroot"
# As in docs/howto/machines.md.
REQUIRED = ["cat", "chmod", "date", "env", "head", "id", "mkdir", "mv", "printf", "rm", "sleep", "tail", "wc"]


class BareShell(Shell):
    """A shell that a command starts, with this home."""

    def __init__(self, command: list[str], home: str) -> None:
        self._command, self._home = command, home

    async def script(self, text: str, stdout: OnData, stderr: OnData) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"HOME": self._home, "PATH": "/bin:/usr/bin"},
            start_new_session=True,
        )
        out, err = await process.communicate(text.encode())
        stdout(out)
        stderr(err)
        assert process.returncode is not None
        return process.returncode

    async def put(self, name: str, content: bytes) -> None:
        raise AssertionError(f"a command needs no file: {name}")

    async def get(self, name: str, max_bytes: int) -> bytes:
        raise AssertionError(f"a command needs no file: {name}")


def opener(command: list[str], home: str) -> OpenShell:
    @asynccontextmanager
    async def open_shell() -> AsyncIterator[Shell]:
        yield BareShell(command, home)

    return open_shell


async def run(open_shell: OpenShell, command: RemoteCommand, tag: str, log: Log | None = None) -> CommandResult:
    """Run a command of a step that no other test has."""
    step = context(log, tag=tag, job_id="5f00000000000000000000dd")
    return await RemoteRun(step, MACHINE, open_shell).command(command)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty root directory."""
    for name in ("bin", "tmp", "root", "dev", "proc"):
        (tmp_path / name).mkdir()
    subprocess.run(["mknod", "-m", "666", str(tmp_path / "dev/null"), "c", "1", "3"], check=True)
    return tmp_path


def with_busybox(root: Path, *programs: str) -> None:
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin/.busybox")
    # The shell of busybox runs its other programs without a file. So each one here starts busybox under its name.
    shutil.copy("/bin/dash", root / "bin/sh")
    with_libraries(root, "/bin/dash")
    for name in programs:
        (root / "bin" / name).symlink_to(".busybox")


def with_coreutils(root: Path, *programs: str) -> None:
    for name in ("dash", *programs):
        path = shutil.which(name)
        assert path is not None
        shutil.copy(path, root / "bin" / ("sh" if name == "dash" else name))
        with_libraries(root, path)


def with_libraries(root: Path, program: str) -> None:
    shown = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for word in shown.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])


@pytest.mark.parametrize("furnish", [with_busybox, with_coreutils])
async def test_the_required_programs_are_enough_and_each_is_needed(root: Path, furnish: Callable[..., None]) -> None:
    """Without `setsid`, `find`, `grep` and `/proc`."""
    furnish(root, *REQUIRED)
    shell = opener([CHROOT, str(root), "/bin/sh", "-s"], "/root")
    command = RemoteCommand(line="echo out; echo err >&2; sleep 1; exit 3", keep_bytes=1000)
    result = await run(shell, command, "enough")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    result = await run(shell, RemoteCommand(line="cat", arguments=["/nowhere"]), "program")
    assert result.exit_code == 1
    for name in REQUIRED:
        (root / "bin" / name).rename(root / "bin" / f"no-{name}")
        if name == "printf":  # the shell has it
            continue
        with pytest.raises(ActionFailed, match=rf"lacks programs that Launchbay needs:.* {name}"):
            await run(shell, command, f"without {name}")


async def test_a_shell_of_busybox_needs_nothing_else(root: Path) -> None:
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin/busybox")
    subprocess.run([CHROOT, str(root), "/bin/busybox", "--install", "-s", "/bin"], check=True)
    shell = opener([CHROOT, str(root), "/bin/sh", "-s"], "/root")
    assert (await run(shell, RemoteCommand(line="echo out; exit 3"), "busybox")).exit_code == 3


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A home directory of 64 KiB that allows no execution."""
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,noexec", "tmpfs", str(home)], check=True)
    yield home
    subprocess.run(["umount", "-l", str(home)], check=True)


async def test_a_script_runs_from_a_home_without_execution(small: Path) -> None:
    shell = opener(["/bin/sh", "-s"], str(small))
    script = "#!/usr/bin/env perl\nprint 6 * 7, @ARGV;\n"
    result = await run(shell, RemoteCommand(line=script, arguments=["a b"]), "noexec")
    assert (result.stdout, result.stderr) == ("42a b", "")


async def test_a_command_that_fills_its_disk_keeps_its_exit_code(small: Path) -> None:
    shell, log = opener(["/bin/sh", "-s"], str(small)), Log()
    result = await run(shell, RemoteCommand(line="seq 1 100000; exit 7"), "fills", log)
    assert result.exit_code == 7
    assert "was full when the command ended" in result.note
    assert result.note in log


async def test_a_full_home_is_passed_over_for_another_place(small: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        (small / "big").write_bytes(b"x" * 100_000)
    shell = opener(["/bin/sh", "-s"], str(small))
    assert (await run(shell, RemoteCommand(line="echo out"), f"full {small}")).stdout == "out\n"
    assert not list((small / ".launchbay").glob("runs/*"))
