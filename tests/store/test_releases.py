"""Data of each released version is served by this one. `old_versions/make` makes it with the released wheel."""

import asyncio
from pathlib import Path

import pytest

from launchbay.postgres.backup import restore
from launchbay.store.schema import revisions
from tests.support.databases import Databases
from tests.support.service import accepted, running_api

pytestmark = pytest.mark.slow  # each restores a database of its own, and upgrades it

BACKUPS = sorted((Path(__file__).parent / "old_versions").glob("release_*.dump"))


def test_each_release_left_its_data() -> None:
    assert "release_0.1.0.dump" in [backup.name for backup in BACKUPS]


@pytest.mark.parametrize("backup", BACKUPS, ids=[backup.stem for backup in BACKUPS])
def test_what_a_release_left_is_served_and_goes_on(databases: Databases, backup: Path, tmp_path: Path) -> None:
    url, key = databases.create(empty=True), tmp_path / "secret.key"
    assert restore(url, backup) in revisions()
    key.write_bytes(backup.with_suffix(".key").read_bytes())
    key.chmod(0o600)  # which git doesn't keep
    asyncio.run(_go_on(url, key))


async def _go_on(url: str, key: Path) -> None:
    # The administrator of the release signs in with the password that the release hashed.
    async with running_api(url, secret_key_file=str(key)) as api:
        instances = accepted(await api.get(f"organizations/{api.organization}/instances"))
        ids = {each["name"]: each["id"] for each in instances}
        runa = await api.document(ids["Runa"])
        assert (runa["status"], runa["returnValues"]["result.berth"]) == ("Running", "west")

        schedules = accepted(await api.get(f"instances/{ids['Runa']}/schedules"))["schedules"]
        assert [each["name"] for each in schedules] == ["manage.move"]

        jobs = accepted(await api.get(f"instances/{ids['Runa']}/jobs"))
        assert [(job["name"], job["status"]) for job in jobs] == [("manage.move", "Succeeded"), ("launch", "Succeeded")]
        assert [(step["name"], step["status"]) for step in jobs[0]["steps"]] == [("moor", "Succeeded")]

        # A secret that the release encrypted is read, and workflows of its manifests run.
        read = await api.run(ids["Runa"], "manage.read")
        assert (read["status"], read["errorMessage"]) == ("Running", None)
        shown = accepted(
            await api.post(f"instances/{ids['Runa']}/secrets/reveal", {"name": "result.password", "reason": "a test"})
        )
        assert shown["value"] == "north wind"

        moved = await api.run(ids["Runa"], "manage.move", berth="north")
        assert moved["returnValues"]["result.berth"] == "north"
        launched = await api.launch(runa["applicationId"])
        assert (await api.settled(launched))["status"] == "Running"
        destroyed = await api.run(ids["Runa"], "destroy")
        assert destroyed["status"] == "Destroyed"
