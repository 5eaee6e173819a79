"""A disk without room: changes are refused with 503, nothing is lost, and room is all that it takes (promise 12)."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.servers import EMAIL, PASSWORD, Process, remove_postgres

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
SIZE = "400m"
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
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)

            not_ready = await client.get(ready)
            assert (not_ready.status_code, "out of space" in not_ready.text) == (503, True)

            filler.unlink()
            async with asyncio.timeout(90):
                while (answer := await launched(client, application)) is None or answer.status_code != 200:
                    await asyncio.sleep(0.2)
            async with asyncio.timeout(30):
                while (await client.get(ready)).status_code != 200:
                    await asyncio.sleep(0.2)
            accepted.add(answer.json()["id"])
            async with asyncio.timeout(90):
                while True:
                    listed = (await client.get(f"applications/{application}/instances")).json()
                    if {each["status"] for each in listed} == {"Running"}:
                        break
                    await asyncio.sleep(0.2)
            assert accepted <= {each["id"] for each in listed}
        os.kill(server.pid, 0)  # the same process all the time
        log = (logs / "serve-1.log").read_text()
        assert 1 <= log.count("database.disk_full") <= log.count("database.disk_has_room") <= 3, log
    finally:
        await asyncio.to_thread(server.end)
        remove_postgres(data)
