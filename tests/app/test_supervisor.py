"""Several server processes under a supervisor, as real processes (decision 0097)."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from launchbay.app.supervisor import Channel, Order
from tests.support.eventually import eventually
from tests.support.external_services import made_certificate
from tests.support.manifests import waits_in_a_row
from tests.support.servers import (
    EMAIL,
    PASSWORD,
    PATIENCE_S,
    Process,
    Remote,
    calling,
    cut_power_of_postgres,
    free_ports,
    is_alive,
    remove_postgres,
    server_directory,
)
from tests.support.service import accepted, basic

slow = pytest.mark.slow
# On a crowded machine each start of some processes takes half a minute, and a test has several.
pytestmark = pytest.mark.timeout(3 * PATIENCE_S)
TOKEN = "metrics-token"
SETTINGS = {"LAUNCHBAY_METRICS_TOKEN": TOKEN, "LAUNCHBAY_LOG_FORMAT": "json"}


def supervisor(place: Path, processes: int, settings: dict[str, str] | None = None, *, port: int = 0) -> Process:
    command = ["serve", "--processes", str(processes), "--port", str(port), "--data-dir", str(place / "data")]
    return Process(command, place, settings={**SETTINGS, **(settings or {})})


@pytest.fixture
def place() -> Iterator[Path]:
    with server_directory() as directory:
        yield directory


@asynccontextmanager
async def supervised(place: Path, processes: int) -> AsyncIterator[Process]:
    server = supervisor(place, processes)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.end)


def server_processes(server: Process) -> dict[int, int]:
    """Return the process ID of each server process, by its number."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if "serve_process" in (entry / "cmdline").read_text():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == server.pid:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    [number] = [each for each in variables if each.startswith(b"LAUNCHBAY_SERVER_PROCESS=")]
                    found[int(number.partition(b"=")[2])] = int(entry.name)
    return found


def logged(place: Path, start: int = 1) -> list[dict[str, Any]]:
    """Return the log of a start, in lines."""
    text = (place / f"serve-{start}.log").read_text("utf-8", "replace")
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


async def metrics(server: Process) -> dict[str, float]:
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.get(
            f"http://127.0.0.1:{server.port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
        )
    assert answer.status_code == 200, answer.text
    lines = [line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def ask_all(server: Process, requests: int) -> None:
    """Send requests, each on a connection of its own."""
    for _ in range(requests):
        async with httpx.AsyncClient(timeout=30) as client:
            assert (await client.get(f"http://127.0.0.1:{server.port}/health/ready")).status_code == 200


LIVE_COUNT = 'launchbay_http_request_seconds_count{operation="health_ready",status="200"}'


@slow
async def test_processes_share_port_database_administrator_and_metrics(place: Path) -> None:
    async with supervised(place, 3) as server:
        processes = server_processes(server)
        assert sorted(processes) == [1, 2, 3]
        await ask_all(server, 12)
        seen = await metrics(server)
        assert seen[LIVE_COUNT] == 12
        asked = [line["process"] for line in logged(place) if line.get("operation") == "health_ready"]
        assert {number: asked.count(number) for number in set(asked)} == {1: 4, 2: 4, 3: 4}
        resident = {name: value for name, value in seen.items() if name.startswith("process_resident_memory_bytes")}
        assert len(resident) == 3
        assert all(value > 10_000_000 for value in resident.values())
        await eventually(lambda: metrics(server), lambda found: found["launchbay_workers"] == 3)
        text = (place / "serve-1.log").read_text("utf-8")
        assert text.count('"administrator.created"') == 1
        assert text.count('"server.started"') == 1
        other = supervisor(place, 3)
        other.name = "other"
        with pytest.raises(AssertionError, match="Another server already uses the data directory"):
            await asyncio.to_thread(other.start)
        postgres = int((place / "data" / "postgres" / "postmaster.pid").read_text().split()[0])
    assert server._child is not None
    assert server._child.returncode == 0
    assert not any(is_alive(pid) for pid in (*processes.values(), postgres))
    assert not [line for line in logged(place) if line["event"].startswith("server_process.")]


async def launched_until(remote: Remote, application: str, stop: asyncio.Event) -> list[str]:
    """Launch one instance after the other; return those whose launch was accepted."""
    launched = []
    while not stop.is_set():
        try:
            answer = await remote.post(f"applications/{application}/launch", {"destroyInterval": -1})
        except httpx.HTTPError:  # its process was killed: the answer is lost
            continue
        assert answer.status_code in {200, 503}, answer.text
        if answer.status_code == 200:
            launched.append(str(answer.json()["id"]))
    return launched


async def made_application(remote: Remote) -> str:
    instance = await remote.launch(waits_in_a_row(0.5, 0.5))
    document = await remote.settled(instance)
    assert document["status"] == "Running", document
    return str(document["applicationId"])


@slow
async def test_launches_are_answered_although_their_client_has_closed_its_sending_side(place: Path) -> None:
    async with supervised(place, 2) as server, calling(server) as remote:
        application = await made_application(remote)
        before = len(accepted(await remote.get(f"applications/{application}/instances")))
        head = (
            f"POST /api/1/applications/{application}/launch HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: {basic(EMAIL, PASSWORD)}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
        )
        ids = set()
        for requests in (1, 1, 2, 3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write((head.encode() + b"{}") * requests)
            writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                text = (await reader.read()).decode()
            writer.close()
            assert text.count("HTTP/1.1 200 OK") == requests
            ids.update(re.findall(r'{"id":"([0-9a-f]{24})"}', text))
        listed = accepted(await remote.get(f"applications/{application}/instances"))
        assert len(ids) == 7
        assert ids <= {each["id"] for each in listed}
        assert len(listed) == before + 7
        asked = {line["process"] for line in logged(place) if line.get("operation") == "launch_application"}
        assert asked == {1, 2}


@slow
async def test_a_killed_process_is_started_again_and_nothing_is_lost(place: Path) -> None:
    async with supervised(place, 2) as server, calling(server) as remote:
        application = await made_application(remote)
        await ask_all(server, 4)
        before = await metrics(server)
        stop = asyncio.Event()
        launching = [asyncio.create_task(launched_until(remote, application, stop)) for _ in range(4)]
        first = server_processes(server)
        await eventually(
            lambda: remote.read(f"applications/{application}/instances"), lambda found: len(found) >= 8
        )  # more than one launch of each client, whose connections are with both
        os.kill(first[1], signal.SIGKILL)
        await ask_all(server, 4)  # the other one answers meanwhile
        await eventually(lambda: server_processes(server).get(1, first[1]) != first[1], within_s=PATIENCE_S)
        await eventually(
            lambda: any(line["event"] == "server_process.started" for line in logged(place)), within_s=PATIENCE_S
        )
        assert server_processes(server)[2] == first[2]
        stop.set()
        launched = [instance for found in await asyncio.gather(*launching) for instance in found]
        assert len(launched) > 1
        for instance in launched:
            assert (await remote.settled(instance))["status"] == "Running"
        after = await metrics(server)
        assert after[LIVE_COUNT] == before[LIVE_COUNT] + 4  # counters continue
        again = server_processes(server)
        os.kill(again[1], signal.SIGKILL)
        await eventually(lambda: server_processes(server).get(1, again[1]) != again[1], within_s=PATIENCE_S)
        ends = [line for line in logged(place) if line["event"] == "server_process.ended"]
        assert [(line["process"], line["exit_code"], line["restart_in_s"]) for line in ends] == [
            (1, -9, 0.0),
            (1, -9, 0.5),
        ]


@slow
async def test_a_killed_supervisor_takes_its_processes_with_it_and_the_next_one_loses_nothing(place: Path) -> None:
    [port] = free_ports(1)
    server = supervisor(place, 2, port=port)
    await asyncio.to_thread(server.start)
    try:
        async with calling(server) as remote:
            application = await made_application(remote)
            instances = []
            for _ in range(10):
                answer = await remote.post(f"applications/{application}/launch", {"destroyInterval": -1})
                instances.append(str(answer.json()["id"]))
        processes = server_processes(server)
        server.kill()
        await eventually(lambda: not any(is_alive(pid) for pid in processes.values()))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
        cut_power_of_postgres(place / "data")
        await asyncio.to_thread(server.start)
        async with calling(server) as remote:
            for instance in instances:
                document = await remote.settled(instance)
                assert document["status"] == "Running"
                assert [step["status"] for step in document["workflowHistory"]] == ["Succeeded"]
    finally:
        await asyncio.to_thread(server.end)
        remove_postgres(place / "data")


@slow
async def test_a_process_that_does_not_react_is_killed_at_the_stop(place: Path) -> None:
    server = supervisor(place, 2, {"LAUNCHBAY_STOP_GRACE_S": "0.5"})
    await asyncio.to_thread(server.start)
    processes = server_processes(server)
    os.kill(processes[2], signal.SIGSTOP)
    os.kill(server.pid, signal.SIGTERM)
    await eventually(lambda: not server.lives(), within_s=PATIENCE_S)
    assert not any(is_alive(pid) for pid in processes.values())
    assert [line["process"] for line in logged(place) if line["event"] == "server_process.killed"] == [2]


@slow
def test_what_keeps_a_process_from_starting_is_reported_once_and_ends_the_command(place: Path) -> None:
    command = ["serve", "--processes", "3", "--port", "0", "--data-dir", str(place / "data")]
    given = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHBAY_")}
    run = subprocess.run(
        [sys.executable, "-m", "launchbay.cli.main", *command],
        check=False,
        capture_output=True,
        text=True,
        env={**given, "LAUNCHBAY_CONNECTIONS": "900000000"},
        timeout=120,
    )
    assert run.returncode == 1
    assert run.stderr.count("LAUNCHBAY_CONNECTIONS is 900000000") == 1
    assert "Server process 1 ended with exit code 1." in run.stderr


@slow
async def test_every_process_presents_a_renewed_certificate(place: Path) -> None:
    certificate, key = made_certificate(place)
    settings = {"LAUNCHBAY_TLS_CERTIFICATE": str(certificate), "LAUNCHBAY_TLS_KEY": str(key)}
    [port] = free_ports(1)
    command = ["serve", "--processes", "2", "--port", str(port), "--data-dir", str(place / "data")]
    log = place / "tls.log"
    with log.open("wb") as output:
        environment = Process(command, place, settings={**SETTINGS, **settings})._environment()
        started = subprocess.Popen(
            [sys.executable, "-m", "launchbay.cli.main", *command], stdout=output, stderr=output, env=environment
        )
    try:
        await eventually(lambda: '"address": "https://' in log.read_text("utf-8"), within_s=PATIENCE_S)
        (place / "new").mkdir()
        new_certificate, new_key = made_certificate(place / "new")
        new_key.rename(key)
        new_certificate.rename(certificate)
        reloaded = re.compile(r'\{"process": (\d).*"tls.reloaded"')
        await eventually(lambda: set(reloaded.findall(log.read_text("utf-8"))) == {"1", "2"}, within_s=PATIENCE_S)
        for _ in range(4):  # two of each
            async with httpx.AsyncClient(verify=str(certificate)) as client:
                assert (await client.get(f"https://127.0.0.1:{port}/health/live")).status_code == 200
    finally:
        started.terminate()
        await asyncio.to_thread(started.wait, PATIENCE_S)


def test_a_process_takes_passed_connections_as_a_listener_does() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(theirs.detach())
    with ours, socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        socket.send_fds(ours, [b"c"], [accepted.fileno()])
        accepted.close()
        passed, peer = channel.accept()
        assert peer == client.getsockname()
        client.sendall(b"hello")
        assert passed.recv(5) == b"hello"
        passed.close()
        client.close()
        ours.send(b"c")  # the kernel could give this process no descriptor
        with pytest.raises(ConnectionAbortedError):
            channel.accept()
        ours.close()
        with pytest.raises(ConnectionResetError):
            channel.accept()
    channel.close()


@pytest.mark.slow
def test_a_process_whose_supervisor_is_another_one_ends() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receive = "import sys; from launchbay.app.supervisor import Channel; Channel(int(sys.argv[1])).receive()"
    program = f"{receive}; print('started')"
    order = Order({}, 1, 1, ("127.0.0.1", 1), has_engine=True, counts=0)
    with ours, theirs:
        ours.send(msgspec.json.encode(order))
        run = subprocess.run(
            [sys.executable, "-c", program, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            check=False,
            capture_output=True,
            timeout=60,
        )
    assert (run.returncode, run.stdout) == (1, b"")


@slow
async def test_processes_count_requests_and_connections_together(place: Path) -> None:
    settings = {
        "LAUNCHBAY_RATE_LIMIT_ADDRESS_PER_S": "1",
        "LAUNCHBAY_RATE_LIMIT_BURST_S": "20",
        "LAUNCHBAY_CONNECTIONS_PER_ADDRESS": "5",
    }
    server = supervisor(place, 2, settings)
    await asyncio.to_thread(server.start)
    began_s = asyncio.get_running_loop().time()
    try:
        answers = []
        for number in range(40):
            path = "/api/1/organizations" if number % 4 < 2 else "/console/signIn"  # two processes in turn
            async with httpx.AsyncClient(timeout=30) as client:
                answers.append((await client.get(f"http://127.0.0.1:{server.port}{path}")).status_code)
        took_s = asyncio.get_running_loop().time() - began_s
        assert 20 <= len(answers) - answers.count(429) <= 20 + took_s + 1, answers
        lines = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(12)]
        async with asyncio.timeout(PATIENCE_S):
            while sum(not reader.at_eof() for reader, _ in lines) > 5:
                for reader, _ in lines:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(1), 0.05)
        for _, writer in lines:
            writer.close()
    finally:
        await asyncio.to_thread(server.end)
