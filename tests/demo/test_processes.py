"""Processes in the background, told apart by locks and not by numbers."""

import os
import signal
import sys
from pathlib import Path

import pytest

from launchbay.demo.processes import BackgroundProcess
from tests.support.shell import await_true

SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
)


@pytest.fixture
def background(tmp_path: Path) -> BackgroundProcess:
    return BackgroundProcess(tmp_path / "process.pid", tmp_path / "process.log")


def is_up(background: BackgroundProcess) -> bool:
    return "up" in background.log.read_text("utf-8")


def test_a_process_runs_from_its_start_until_it_is_stopped(background: BackgroundProcess) -> None:
    assert not background.is_running()
    process = background.start(SLEEP, {})
    assert background.is_running()
    assert background.stop(within_s=10)
    assert not background.is_running()
    assert process.wait(timeout=10) == -signal.SIGTERM
    assert not background.stop(within_s=10)


def test_a_process_that_ignores_the_polite_order_is_ended_by_force(background: BackgroundProcess) -> None:
    process = background.start(STUBBORN, {})
    await_true(lambda: is_up(background))
    assert background.stop(within_s=0.2)
    assert process.wait(timeout=10) == -signal.SIGKILL


def test_a_process_that_was_killed_counts_as_gone(background: BackgroundProcess) -> None:
    process = background.start(SLEEP, {})
    process.kill()
    process.wait(timeout=10)
    assert not background.is_running()


def test_another_process_with_the_number_in_the_file_is_left_alone(background: BackgroundProcess) -> None:
    background.pid_file.write_text(str(os.getpid()), "utf-8")
    assert not background.is_running()
    assert not background.stop(within_s=10)


def test_a_process_can_be_stopped_the_moment_it_is_started(background: BackgroundProcess) -> None:
    for _ in range(10):
        process = background.start(SLEEP, {})
        assert background.stop(within_s=10)
        assert process.wait(timeout=10) == -signal.SIGTERM


def test_a_second_start_beside_a_running_process_is_refused(background: BackgroundProcess) -> None:
    background.start(SLEEP, {})
    with pytest.raises(RuntimeError, match="already running"):
        background.start(SLEEP, {})
    assert background.stop(within_s=10)


def test_settings_of_the_caller_do_not_reach_the_process(
    background: BackgroundProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHBAY_DATABASE_URL", "postgresql://production")
    show = "import os; print(sorted(n for n in os.environ if n.startswith('LAUNCHBAY_')))"
    process = background.start((sys.executable, "-c", show), {"LAUNCHBAY_PORT": "0"})
    assert process.wait(timeout=10) == 0
    assert background.log.read_text("utf-8") == "['LAUNCHBAY_PORT']\n"
