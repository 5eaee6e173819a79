"""The published types, as mypy and pyright see them: right calls pass, wrong ones are found.

`make check` runs mypy over `typed.py` too; the quick test here asks the signatures themselves.
"""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from launchbay.client import AsyncClient, Client, Operations
from launchbay.client.core import Call
from launchbay.client.types import InstanceDocument

ROOT = Path(__file__).parents[2]
RIGHT = ROOT / "tests" / "client" / "typed.py"
WRONG = """
from launchbay.client import AsyncClient, Client

def wrong(client: Client) -> None:
    client.launch_application()  # ✗
    client.launch_application("a", instance_nam="demo")  # ✗
    client.rename_application("a", name=3)  # ✗
    client.read_instance("a").state  # ✗
    client.list_applications.each(3)  # ✗
    client.no_such_operation()  # ✗
    client.read_instance("a").status

async def wrong_too(client: AsyncClient) -> None:
    client.read_instance("a").status  # ✗
    (await client.wait("a", unti="Running")).status  # ✗
    (await client.read_instance("a")).status
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG, "utf-8")
    return path


def mypy(path: Path) -> set[int]:
    """Return the lines that mypy complains of."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
    told = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT).stdout
    return {int(line) for line in re.findall(r"^[^:\n]+:(\d+): error", told, flags=re.MULTILINE)}


def pyright(path: Path, settings: Path) -> set[int]:
    """Return the lines that pyright complains of, in its strict mode."""
    project = {
        "include": [str(path)],
        "typeCheckingMode": "strict",
        "venvPath": str(ROOT),
        "venv": ".venv",
        "extraPaths": [str(ROOT / "src")],
    }
    settings.write_text(json.dumps(project), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(settings)]
    told = json.loads(subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT).stdout)
    assert told["summary"]["filesAnalyzed"] == 1
    return {entry["range"]["start"]["line"] + 1 for entry in told["generalDiagnostics"]}


def marked() -> set[int]:
    return {number for number, line in enumerate(WRONG.splitlines(), 1) if "✗" in line}


def hints(operation: Any) -> dict[str, Any]:
    return get_type_hints(operation.function)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_signatures_themselves_say_which_calls_are_right(kind: type[Client] | type[AsyncClient]) -> None:
    client = kind("http://launchbay.example.org")
    launch = inspect.signature(client.launch_application)
    launch.bind("a", instance_name="demo")
    for arguments, named in ((), {}), (("a",), {"instance_nam": "demo"}):
        with pytest.raises(TypeError):
            launch.bind(*arguments, **named)
    assert not hasattr(client, "no_such_operation")
    assert hints(Operations.rename_application)["name"] is str
    assert hints(Operations.read_instance)["return"] == Call[InstanceDocument]
    assert "status" in get_type_hints(InstanceDocument)
    assert "state" not in get_type_hints(InstanceDocument)


@pytest.mark.slow
def test_mypy_takes_right_calls_and_finds_wrong_ones(wrong: Path) -> None:
    assert mypy(RIGHT) == set()
    assert mypy(wrong) == marked()


@pytest.mark.slow
def test_pyright_takes_right_calls_and_finds_wrong_ones(wrong: Path, tmp_path: Path) -> None:
    assert pyright(RIGHT, tmp_path / "right.json") == set()
    assert pyright(wrong, tmp_path / "wrong.json") == marked()
