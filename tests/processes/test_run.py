"""Programs on this server: their environment, their output, and that they end with what they are for."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.errors import ActionFailed
from launchbay.processes.run import SYSTEM_PATH, Command, ProcessResult, minimal_environment, run_program
from tests.support.eventually import eventually
from tests.support.servers import is_alive, pids

# Starts a child in a session of its own, which starts another one and leaves it alone.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 2:
    print(os.getpid(), file=open(sys.argv[1], "a"), flush=True)
    for left in range(int(sys.argv[2])):
        subprocess.Popen([sys.executable, "-c", sys.orig_argv[2], sys.argv[1], str(left)], start_new_session=True)
time.sleep(600)
"""


def command(directory: Path, *argv: str, **more: object) -> Command:
    return Command(argv=argv, directory=directory, **more)  # type: ignore[arg-type] # what tests give fits


async def run(directory: Path, *argv: str, **more: object) -> tuple[ProcessResult, list[tuple[str, str]]]:
    lines: list[tuple[str, str]] = []
    ended = await run_program(command(directory, *argv, **more), lambda stream, line: lines.append((stream, line)))
    return ended, lines


async def test_a_program_gives_its_exit_code_and_its_lines_as_they_come(tmp_path: Path) -> None:
    ended, lines = await run(tmp_path, "sh", "-c", "echo one; echo two >&2; printf three; exit 7")

    assert ended == ProcessResult(7, "one\nthree", "two\n")
    assert sorted(lines) == [("stderr", "two"), ("stdout", "one"), ("stdout", "three")]


async def test_a_program_that_a_signal_ends_gives_128_and_the_signal(tmp_path: Path) -> None:
    ended, _ = await run(tmp_path, "sh", "-c", "kill -SEGV $$")

    assert ended.exit_code == 128 + signal.SIGSEGV


async def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    hostile = ["$(touch here)", "; touch here", "`id`", "a b", "*", "-n", "'\"\\", "\n"]

    ended, _ = await run(tmp_path, sys.executable, "-c", "import sys; print(sys.argv[1:])", *hostile)

    assert ended.stdout == f"{hostile}\n"
    assert list(tmp_path.iterdir()) == []


async def test_a_program_sees_nothing_of_the_servers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHBAY_ADMIN_PASSWORD", "hunter2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter3")

    ended, _ = await run(tmp_path, "env", environment={"MINE": "1"})

    seen = dict(line.split("=", 1) for line in ended.stdout.splitlines())
    assert set(seen) == {"PATH", "HOME", "TMPDIR", "LANG", "MINE"}
    assert seen["HOME"] == seen["TMPDIR"] == str(tmp_path)


async def test_it_reads_nothing_and_starts_where_it_is_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()

    ended, _ = await run(tmp_path, "sh", "-c", "cat; pwd", work=work)

    assert ended.stdout == f"{work}\n"


async def test_a_missing_program_is_told(tmp_path: Path) -> None:
    ended, _ = await run(tmp_path, "no-such-program")

    assert ended.exit_code == 127
    assert "no-such-program cannot be started" in ended.stderr


async def test_a_long_line_is_cut_and_of_much_output_the_end_is_kept(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('a' * 5_000_000 + '\\nbcd\\n' + '\\xe9' * 40)"

    ended, lines = await run(tmp_path, sys.executable, "-c", code, line_chars=10, keep_bytes=100)

    assert lines == [("stdout", "a" * 10), ("stdout", "bcd"), ("stdout", "\xe9" * 10)]
    assert ended.stdout == "a" * 15 + "\nbcd\n" + "\xe9" * 40


async def test_much_output_takes_little_memory(tmp_path: Path) -> None:
    before = _resident_kib()
    seen = 0

    def count(_: str, line: str) -> None:
        nonlocal seen
        seen += len(line) + 1

    await run_program(command(tmp_path, "sh", "-c", "yes $(printf %01000d 7) | head -c 100000000"), count)

    assert seen >= 100_000_000
    assert _resident_kib() - before < 20 * 1024


def _resident_kib() -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


async def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}, sys.argv[1], '0'])"
    file = tmp_path / "pids"

    await run(tmp_path, sys.executable, "-c", code + "; import time; time.sleep(0.5)", str(file))

    assert not any(map(is_alive, pids(file)))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["cancelled", "too long"])
async def test_a_program_ends_with_everything_that_it_started_wherever_that_hides(tmp_path: Path, way: str) -> None:
    file = tmp_path / "pids"
    argv = (sys.executable, "-c", STUBBORN, str(file), "2")
    running = asyncio.create_task(run(tmp_path, *argv, timeout_s=2.0 if way == "too long" else 600.0))
    await eventually(lambda: len(pids(file)) >= 4 or running.done())

    if way == "cancelled":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        with pytest.raises(ActionFailed, match="took longer than 2 s"):
            await running

    assert not any(map(is_alive, pids(file)))


@pytest.mark.slow
async def test_a_program_ends_when_the_server_is_killed_and_its_directory_goes(tmp_path: Path) -> None:
    private, file = tmp_path / "private", tmp_path / "pids"
    private.mkdir()
    (private / "key").write_text("secret")
    code = (
        "import asyncio; from pathlib import Path; from launchbay.processes.run import *\n"
        f"argv = ({sys.executable!r}, '-c', {STUBBORN!r}, {str(file)!r}, '2')\n"
        f"asyncio.run(run_program(Command(argv=argv, directory=Path({str(private)!r})), print))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        await eventually(lambda: len(pids(file)) >= 4)
    finally:
        server.kill()
        server.wait()

    await eventually(lambda: not any(map(is_alive, pids(file))))
    await eventually(lambda: not private.exists())


SOURCE = Path(__file__).parents[2] / "src" / "launchbay"
STARTS = {"Popen", "run", "call", "check_call", "check_output", "create_subprocess_exec", "create_subprocess_shell"}
# The guard has the least environment itself, and its program inherits it. `run_as` has the environment in it.
INHERITS = {"processes/guard.py"}


def test_there_is_nothing_in_it_but_what_every_program_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAUNCHBAY_ADMIN_PASSWORD", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert minimal_environment() == {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}
    assert minimal_environment(tmp_path, SHELL="/bin/sh") == {
        "PATH": SYSTEM_PATH,
        "LANG": "C.UTF-8",
        "HOME": str(tmp_path),
        "SHELL": "/bin/sh",
    }


def starts(path: Path) -> Iterator[ast.Call]:
    """Yield the calls in a file that start a process."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess" | "asyncio"), attr=name)) if name in STARTS:
                if ast.unparse(node.func) != "asyncio.run":
                    yield node


@pytest.mark.slow
def test_everything_that_starts_a_process_says_what_it_sees() -> None:
    silent: list[str] = []
    count = 0
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        for call in starts(path):
            count += 1
            given = {keyword.arg for keyword in call.keywords}
            unpacked = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None]
            if name not in INHERITS and "env" not in given and not any("run" in each for each in unpacked):
                silent.append(f"{name}:{call.lineno}")
    assert count >= 8
    assert silent == []
