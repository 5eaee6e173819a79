"""The order in which test processes get files."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.scheduling import ByDuration


class Process:
    """A test process, as the scheduler sees it."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self) -> None:
        self.got: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.got += indices


@pytest.fixture
def got(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a process gets, file after file, of folders of which one shares a service."""
    files = {
        "tests/features/a": 9,
        "tests/web/b": 8,
        "tests/features/c": 7,
        "tests/api/d": 6,
        "tests/web/e": 5,
        "tests/model/f": 30,
    }
    monkeypatch.setattr(json, "loads", lambda _: {f"{file}.py": seconds for file, seconds in files.items()})
    config: Any = SimpleNamespace(getvalue=lambda _: ["popen"], option=SimpleNamespace(loadscopereorder=True))
    scheduler, process = ByDuration(config, None), Process()
    tests = [f"{file}.py::test" for file in files]
    scheduler.add_node(process)
    scheduler.add_node_collection(process, tests)
    scheduler.schedule()
    while len(process.got) < len(tests):
        scheduler.mark_test_complete(process, process.got[0])
        scheduler._assign_work_unit(process)
    return [tests[index].removesuffix(".py::test").removeprefix("tests/") for index in process.got]


def test_a_process_stays_where_files_share_a_service_once_no_long_file_is_left(got: list[str]) -> None:
    assert got == ["model/f", "features/a", "features/c", "web/b", "api/d", "web/e"]
