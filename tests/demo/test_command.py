"""`launchbay demo` from the outside: real processes, a real terminal, free ports, and nothing left behind."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from launchbay.demo.processes import HOST, is_free
from tests.support import shell
from tests.support.servers import place, prepare


@pytest.fixture
def directory() -> Iterator[Path]:
    """A data directory, whose demo is stopped after the test."""
    with place() as parent:
        yield parent / "demo"
        shell.run_demo("--data-dir", str(parent / "demo"), "--stop")
        assert shell.processes_of(parent) == [], "a stopped demo leaves nothing running"


def notes(directory: Path) -> dict[str, str]:
    loaded: dict[str, str] = json.loads((directory / "demo.json").read_text("utf-8"))
    return loaded


def started_until(text: str, *arguments: str) -> "tuple[subprocess.Popen[str], str]":
    """Start the command and return it, with what it said, as soon as a line has this text."""
    process = shell.start(*arguments)
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if text in line:
            return process, said
    raise AssertionError(f"It ended without {text!r}: {said}")


def in_a_shell(script: str, settings: dict[str, str]) -> str:
    """Run a script that must succeed, and return its standard output."""
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_demo_runs_twice_with_and_without_a_terminal_and_its_hints_work(directory: Path) -> None:
    status, drawn = shell.run_in_terminal("--data-dir", str(directory), "--port", "0", columns=50)
    first = shell.plain(drawn)
    assert status == 0, first
    assert "\x1b[" in drawn, "a terminal gets colours"
    assert "Shop 1: Running" in first
    assert "shop.replicas │ 5" in first
    lines = [line.strip() for line in first.splitlines()]
    assert f"Password  {notes(directory)['password']}" in lines, "a narrow terminal cuts nothing that is to be copied"

    second = shell.run_demo("--data-dir", str(directory))
    assert second.returncode == 0, second.stdout + second.stderr
    assert f"Launchbay is already running at {notes(directory)['url']}" in second.stdout
    assert "Shop 2: Running" in second.stdout
    assert "\x1b[" not in second.stdout, "a file gets no colours"

    commands = second.stdout.partition("Try next:\n")[2].partition("The same with curl:\n")[0]
    *try_next, stop = commands.strip().splitlines()
    config = {"LAUNCHBAY_CONFIG_DIR": str(directory.parent / "config"), "LAUNCHBAY_KEYRING": "off"}
    done = in_a_shell("\n".join(try_next), config)
    assert re.search(r"^status +Running$", done, flags=re.MULTILINE)
    assert re.search(r"Job \d+, 'destroy', succeeded", done)

    third = shell.run_demo("--data-dir", str(directory))
    done = in_a_shell(third.stdout.partition("The same with curl:\n")[2].replace("\ncurl", "\nsleep 1; curl"), config)
    assert '"status":"Running"' in done
    assert '"errors"' not in done
    assert in_a_shell(stop, config).rstrip().endswith("Stopped the demo. Its data remains.")
    assert shell.processes_of(directory) == []


@pytest.mark.slow
def test_a_demo_that_lost_one_process_starts_again_with_its_data(directory: Path) -> None:
    prepare(directory)
    shell.interrupt(started_until("is ready at", "--data-dir", str(directory), "--port", "0")[0])
    before = notes(directory)
    os.kill(int((directory / "platform.pid").read_text("utf-8")), signal.SIGKILL)

    again = shell.run_demo("--data-dir", str(directory), "--port", "0")

    assert again.returncode == 0, again.stdout + again.stderr
    assert "Launchbay is ready at" in again.stdout
    assert notes(directory)["password"] == before["password"]
    assert notes(directory)["platform_url"] == before["platform_url"], "shops launched before can reach the platform"


@pytest.mark.slow
def test_an_interrupt_while_starting_leaves_nothing_running(directory: Path) -> None:
    process = shell.start("--data-dir", str(directory), "--port", "0")
    shell.await_true(lambda: any(" serve " in command for command in shell.processes_of(directory)))
    status, rest = shell.interrupt(process)
    assert status == 130
    assert "Traceback" not in rest
    assert shell.processes_of(directory) == []


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused_at_once_when_it_was_asked_for(directory: Path) -> None:
    with closing(socket.create_server((HOST, 0))) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        refused = shell.run_demo("--data-dir", str(directory), "--port", str(port))
    assert refused.returncode == 1
    assert f"Port {port} is in use by another program" in refused.stderr
    assert "--port 0" in refused.stderr
    assert shell.processes_of(directory) == []


@pytest.mark.slow
def test_the_usual_port_is_replaced_where_it_is_taken_and_an_interrupt_leaves_the_demo_running(directory: Path) -> None:
    prepare(directory)
    listener = socket.create_server((HOST, 8080)) if is_free(8080) else None
    try:
        process, said = started_until("Launched", "--data-dir", str(directory))
        status, rest = shell.interrupt(process)
    finally:
        if listener is not None:
            listener.close()
    url = notes(directory)["url"]
    assert "Port 8080 is in use by another program" in said
    assert url != f"http://{HOST}:8080"
    assert status == 130
    assert f"Launchbay keeps running in the background at {url}" in rest
    assert f"demo --stop --data-dir {directory}" in rest
    assert "Traceback" not in rest
    assert httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = shell.run_demo("--data-dir", str(tmp_path / "file" / "demo"), "--port", "0")
    assert refused.returncode == 1
    assert f"Can't use the directory {tmp_path}/file/demo" in refused.stderr


@pytest.mark.slow
def test_a_server_that_cannot_start_shows_the_end_of_its_log(directory: Path) -> None:
    (directory / "postgres").mkdir(parents=True)
    (directory / "postgres" / "surprise").touch()
    begin = time.monotonic()
    failed = shell.run_demo("--data-dir", str(directory), "--port", "0")
    assert failed.returncode == 1
    assert f"End of {directory}/launchbay.log" in failed.stderr
    assert time.monotonic() - begin < shell.WITHIN_S
    assert shell.processes_of(directory) == []


def test_stopping_where_nothing_runs_says_so_and_makes_nothing(tmp_path: Path) -> None:
    stopped = shell.run_demo("--data-dir", str(tmp_path / "demo"), "--stop")
    assert (stopped.returncode, stopped.stdout) == (0, "No demo is running.\n")
    assert not (tmp_path / "demo").exists()
