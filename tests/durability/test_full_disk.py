"""A disk without room: changes are refused with 503, nothing is lost, and room is all that it takes (promise 12)."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import httpx
import psycopg
import pytest

from launchbay.postgres import cluster
from tests.support.eventually import eventually
from tests.support.servers import EMAIL, PASSWORD, Process, remove_postgres

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
SIZE = "400m"
OUTAGE_S = 10.0
MANIFEST = "launch: {steps: []}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own for the data, in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    tmp_path.chmod(0o711)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0711", "launchbay-test", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room there is, and return what takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        while True:
            try:
                if stream.write(bytes(1 << 16)) == 0:
                    break
            except OSError:
                break
    return filler


async def launched(client: httpx.AsyncClient, application: str) -> httpx.Response | None:
    try:
        return await client.post(f"applications/{application}/launch", json={})
    except httpx.HTTPError:
        return None


def use_up_log(data: Path) -> None:
    """Write into PostgreSQL's log until it can't go on, and stops."""
    found = cluster.running(data / "postgres")
    assert found is not None
    sockets = quote(str(found.socket_dir), safe="")
    url = f"postgresql://{cluster.ROLE}@/{cluster.DATABASE}?host={sockets}&port={found.port}"
    connection = psycopg.connect(url, autocommit=True)
    with suppress(psycopg.Error):
        while True:
            connection.execute("SELECT pg_logical_emit_message(true, 'x', repeat('y', 1000000))")
    assert connection.closed, "it didn't only refuse the message"


async def test_a_postgresql_that_a_full_disk_has_stopped_is_called_out_of_space_in_one_line_of_the_log(
    small_disk: Path,
) -> None:
    data, logs = small_disk / "data", small_disk.parent
    server = Process(["serve", "--data-dir", str(data), "--port", "0"], logs, settings={"LAUNCHBAY_LOG_FORMAT": "json"})
    try:
        await asyncio.to_thread(server.start)
        root = f"http://127.0.0.1:{server.port}/"
        async with httpx.AsyncClient(base_url=root, auth=(EMAIL, PASSWORD), timeout=15) as client:
            assert (await client.get("api/1/organizations")).status_code == 200
            filler = fill(small_disk)
            await asyncio.to_thread(use_up_log, data)
            answers: Counter[tuple[str, int, str]] = Counter()
            until_s = time.monotonic() + OUTAGE_S

            async def ask(path: str) -> None:
                while time.monotonic() < until_s:
                    answer = await client.get(path)
                    answers[path, answer.status_code, answer.json().get("code")] += 1
                    assert "out of space" in answer.text, answer.text

            await asyncio.gather(*map(ask, ["api/1/organizations"] * 6 + ["health/ready"]))
            assert {key[1:] for key in answers} == {(503, "DatabaseFull")}, answers
            told = await asyncio.to_thread(
                subprocess.run,
                [str(Path(sys.executable).with_name("launchbay")), "doctor", "--data-dir", str(data)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert told.returncode == 1
            assert "the database is out of space" in told.stdout

            filler.unlink()
            for path in ("api/1/organizations", "health/ready"):
                await eventually(partial(client.get, path), lambda found: found.status_code == 200, within_s=90)
        lines = [json.loads(line) for line in (logs / "serve-1.log").read_text().splitlines() if line.startswith("{")]
        told_of = [line["event"] for line in lines if line.get("level", "info") not in {"debug", "info"}]
        assert told_of == ["database.disk_full", "postgres.restarted"]
        assert not [line for line in lines if "exception" in line]
    finally:
        await asyncio.to_thread(server.end)
        remove_postgres(data)


async def test_a_full_disk_refuses_changes_and_is_forgotten_when_there_is_room_again(small_disk: Path) -> None:
    data = small_disk / "data"
    logs = small_disk.parent
    server = Process(["serve", "--data-dir", str(data), "--port", "0"], logs)
    try:
        await asyncio.to_thread(server.start)
        root = f"http://127.0.0.1:{server.port}/api/1/"
        ready = f"http://127.0.0.1:{server.port}/health/ready"
        async with httpx.AsyncClient(base_url=root, auth=(EMAIL, PASSWORD), timeout=15) as client:
            [organization] = (await client.get("organizations")).json()
            made = await client.post(f"organizations/{organization['id']}/applications", json={"name": "a"})
            application = made.json()["id"]
            put = await client.put(
                f"applications/{application}/manifest", content=MANIFEST, headers={"Content-Type": "application/x-yaml"}
            )
            assert put.status_code == 200, put.text
            accepted = {(await client.post(f"applications/{application}/launch", json={})).json()["id"]}

            filler = fill(small_disk)
            refused: list[httpx.Response] = []
            async with asyncio.timeout(120):  # until the room that PostgreSQL had set aside is used up
                while len(refused) < 5:
                    answer = await launched(client, application)
                    if answer is not None and answer.status_code == 200:
                        accepted.add(answer.json()["id"])
                    elif answer is not None:
                        refused.append(answer)
            assert {answer.status_code for answer in refused} == {503}, [answer.text for answer in refused]
            assert {answer.json()["code"] for answer in refused} == {"DatabaseFull"}
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)

            not_ready = await client.get(ready)
            assert (not_ready.status_code, "out of space" in not_ready.text) == (503, True)

            filler.unlink()
            answer = await eventually(
                lambda: launched(client, application),
                lambda answer: answer is not None and answer.status_code == 200,
                within_s=90,
            )
            await eventually(lambda: client.get(ready), lambda found: found.status_code == 200)
            assert answer is not None
            accepted.add(answer.json()["id"])
            listed = await eventually(
                lambda: client.get(f"applications/{application}/instances"),
                lambda answer: {each["status"] for each in answer.json()} == {"Running"},
                within_s=90,
            )
            assert accepted <= {each["id"] for each in listed.json()}
        os.kill(server.pid, 0)  # the same process all the time
        log = (logs / "serve-1.log").read_text()
        assert 1 <= log.count("database.disk_full") <= log.count("database.disk_has_room") <= 3, log
    finally:
        await asyncio.to_thread(server.end)
        remove_postgres(data)
