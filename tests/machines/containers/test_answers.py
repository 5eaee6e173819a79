"""What real engines answer for a command in a container that doesn't run, as the page says, and that it ends steps."""

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from launchbay.errors import ActionFailed
from launchbay.machines.containers.engine_api import EngineApi
from launchbay.machines.containers.provider import ContainerMachines
from launchbay.model.machine import MachineSpec, RemoteCommand
from tests.support import containers
from tests.support.containers import ALLOWED, IMAGE, OUTGOING, Here, NoDocker, asked
from tests.support.contexts import Log, context
from tests.support.documentation import DOCS

PAGE = DOCS / "howto" / "containers.md"
pytestmark = pytest.mark.slow  # starts containers
_COMMAND = {"Cmd": ["true"], "AttachStdout": True}
_BEGIN = {"Detach": False, "Tty": False}


@dataclass
class Engine:
    """An engine that runs, and the name of its column on the page."""

    column: str
    socket: Path
    calls: httpx.Client

    def post(self, path: str, body: object = None) -> httpx.Response:
        return self.calls.post(path, json=body) if body is not None else self.calls.post(path)

    def made(self, container: str) -> str:
        """Make a command without beginning it, and return its ID."""
        answer = self.post(f"/containers/{container}/exec", _COMMAND)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["Id"])

    def begun(self, command: str) -> int:
        return self.post(f"/exec/{command}/start", _BEGIN).status_code


@pytest.fixture(scope="module", params=["Podman", "Docker"])
def real(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Both engines. The versions of others than those of the page may answer otherwise."""
    with tempfile.TemporaryDirectory(prefix="lb-docker-", ignore_cleanup_errors=True) as directory:
        try:
            if request.param == "Podman":
                yield from _engine("Podman", request.getfixturevalue("engine_of_session").socket)
            else:
                with containers.started_docker(Path(directory)) as socket:
                    yield from _engine("Docker", socket)
        except NoDocker as reason:
            pytest.skip(f"Docker can't run on this machine: {reason}")


def _engine(name: str, socket: Path) -> Iterator[Engine]:
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://engine/v1.41", timeout=30
    ) as calls:
        version = calls.get("/version").json()["Version"]
        column = f"{name} {'.'.join(version.split('.')[:2])}"
        if column not in PAGE.read_text("utf-8"):
            pytest.skip(f"the page has no column for {column}")
        yield Engine(column, socket, calls)


@pytest.fixture
async def provider(real: Engine) -> AsyncIterator[ContainerMachines]:
    api = EngineApi(str(real.socket))
    yield ContainerMachines(api, Here(), ALLOWED, OUTGOING)
    for known in await api.labelled({}):
        await api.remove(known.id)
    await api.aclose()


def stopped_before_it_is_made(engine: Engine, container: str) -> int:
    engine.post(f"/containers/{container}/kill")
    engine.post(f"/containers/{container}/wait")
    return engine.post(f"/containers/{container}/exec", _COMMAND).status_code


def stopped_before_it_begins(engine: Engine, container: str) -> int:
    command = engine.made(container)
    engine.post(f"/containers/{container}/kill")
    engine.post(f"/containers/{container}/wait")
    return engine.begun(command)


def removed_before_it_begins(engine: Engine, container: str) -> int:
    command = engine.made(container)
    engine.calls.delete(f"/containers/{container}", params={"force": "true"})
    return engine.begun(command)


def removed(engine: Engine, container: str) -> int:
    engine.calls.delete(f"/containers/{container}", params={"force": "true"})
    return engine.post(f"/containers/{container}/exec", _COMMAND).status_code


def paused(engine: Engine, container: str) -> int:
    answer = engine.post(f"/containers/{container}/pause")
    if answer.status_code != 204:
        pytest.skip(f"{engine.column} can't pause here: {answer.text.strip()}")
    return engine.post(f"/containers/{container}/exec", _COMMAND).status_code


CASES: dict[str, Callable[[Engine, str], int]] = {
    "the container doesn't exist": removed,
    "it was stopped before the command was made": stopped_before_it_is_made,
    "it was stopped before the command began": stopped_before_it_begins,
    "it was removed before the command began": removed_before_it_begins,
    "it is paused": paused,
}


@pytest.mark.parametrize("case", CASES)
async def test_the_page_has_the_codes_and_the_step_ends(real: Engine, provider: ContainerMachines, case: str) -> None:
    [machine] = await provider.provision(asked(), "web", [1], MachineSpec(image=IMAGE))
    found = CASES[case](real, machine.id)
    assert str(found) == shown(real.column, case)
    log = Log()
    with pytest.raises(ActionFailed, match="doesn't run"):
        await provider.run(context(log, job_id="5f0000000000000000000009"), machine, RemoteCommand(line="true"))
    assert not [text for text in log if "Lost the connection" in text]


def shown(column: str, case: str) -> str:
    """Return the code in the table of the page."""
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text("utf-8").splitlines() if "|" in line
    ]
    [heads] = [row for row in rows if column in row]
    [row] = [row for row in rows if row[0] == case]
    return row[heads.index(column)].partition(" ")[0]
