"""Machines that are directories of the server, through the API: chosen by a policy, allowed by the operator alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launchbay.app.machines import local_environments
from tests.support.databases import Databases
from tests.support.service import Api, accepted, fresh_name, running_api

MANIFEST = """
launch:
  steps:
    - made: {action: provisionVms, parameters: {roleName: web, quantity: 2}}
    - run:
        action: execrun
        precedingPhases: [made]
        parameters: {roles: [web], command: ["pwd; env | grep -c LAUNCHBAY; id -un > name"], ignoreFail: true}
        output: {out: stdout}
    - read:
        action: execrun
        precedingPhases: [run]
        parameters: {roles: [web], command: [pwd]}
        output: {place: stdout}
  return: {place: {value: "{$.place}"}}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url) as made:
        named = made.environment
    async with running_api(url, local_environments=f"{named}, 5f0000000000000000000abc") as api:
        yield api
    databases.drop(url)


@pytest.mark.slow
async def test_an_environment_that_the_operator_named_chooses_local_machines(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHBAY_ADMIN_PASSWORD", "hidden")
    accepted(await api.put_yaml(f"environments/{api.environment}", "policies: {machines.provider: local}"))
    instance = await api.running(MANIFEST)
    places = [Path(text) for text in (await api.document(instance))["returnValues"]["place"].values()]
    assert len(places) == 2
    for place in places:
        assert place.is_relative_to(api.settings.data_dir.resolve() / "machines" / "local")
        assert (place / "name").read_text().strip()
    document = await api.run(instance, "destroy")
    assert document["status"] == "Destroyed"
    assert not any(place.exists() for place in places)


async def test_any_other_environment_is_told_who_may_allow_it(api: Api) -> None:
    other = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name()}))["id"]
    accepted(await api.put_yaml(f"environments/{other}", "policies: {machines.provider: local}"))
    document = await api.settled(await api.launch(await api.application(MANIFEST), environmentId=other))
    assert document["status"] == "Failed"
    assert f"an administrator adds {other} to the setting LOCAL_ENVIRONMENTS." in document["errorMessage"]


@pytest.mark.slow
async def test_a_data_directory_that_is_named_from_here_is_found_from_there(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = databases.create()
    async with running_api(url, machines="local", local_environments="*", data_dir=Path("data")) as api:
        document = await api.document(await api.running(MANIFEST))
        places = [Path(text) for text in document["returnValues"]["place"].values()]
        assert sorted(path.name for path in places[0].iterdir()) == [".launchbay", "name"]
    databases.drop(url)


async def test_an_environment_turns_off_what_the_operator_allowed(api: Api) -> None:
    policies = "policies: {machines.provider: local, machines.local: false}"
    accepted(await api.put_yaml(f"environments/{api.environment}", policies))
    document = await api.settled(await api.launch(await api.application(MANIFEST)))
    assert "Local machines are not allowed in this environment" in document["errorMessage"]


SPEAKING = """
launch:
  steps:
    - made: {action: provisionVms, parameters: {roleName: web, quantity: 1}}
    - say:
        action: execrun
        precedingPhases: [made]
        parameters: {roles: [web], command: ["echo fine; echo careful >&2"]}
"""


@pytest.mark.slow
async def test_log_lines_name_the_stream_of_the_command_that_wrote_them(databases: Databases, tmp_path: Path) -> None:
    url = databases.create()
    async with running_api(url, machines="local", local_environments="*", data_dir=tmp_path / "data") as api:
        instance = await api.running(SPEAKING)
        lines = accepted(await api.get(f"instances/{instance}/log", step="workflow#launch/say"))
    told = {line["stream"]: (line["text"].partition("] ")[2], line["attempt"]) for line in lines}
    assert (told["stdout"], told["stderr"]) == (("fine", 1), ("careful", 1))
    assert {line["stream"] for line in lines} == {"system", "stdout", "stderr"}


async def test_an_environment_is_named_while_no_other_organization_can_have_its_name(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as made:
        organization = made.organization
    async with running_api(url, local_environments=f"workshop floor, quay, {organization}/crane") as api:
        application = await api.application(MANIFEST)

        async def outcome(name: str) -> str:
            made = accepted(await api.post(f"organizations/{organization}/environments", {"name": name}))
            accepted(await api.put_yaml(f"environments/{made['id']}", "policies: {machines.provider: local}"))
            document = await api.settled(await api.launch(application, environmentId=made["id"]))
            return str(document["errorMessage"] or document["status"])

        assert await outcome("workshop floor") == "Running"
        assert "LOCAL_ENVIRONMENTS" in await outcome("workshop")
        accepted(await api.post("organizations", {"name": fresh_name()}))
        assert "LOCAL_ENVIRONMENTS" in await outcome("quay")
        assert await outcome("crane") == "Running"
    databases.drop(url)


def test_names_with_blanks_stand_between_commas_and_ids_between_blanks() -> None:
    first, second = "5f8d04b3c2a1908e7f6d5c4b", "5f8d04b3c2a1908e7f6d5c4c"
    assert local_environments(f"{first} {second}, workshop floor , *") == [first, second, "workshop floor", "*"]
    assert local_environments("") == []
