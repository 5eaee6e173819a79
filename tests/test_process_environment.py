"""Processes that are started here get no secret of the server's environment."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.processes.run import SYSTEM_PATH, minimal_environment

SOURCE = Path(__file__).parents[1] / "src" / "launchbay"
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
