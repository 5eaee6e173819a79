"""`opentofu` in live instances: what it made goes with them, and its state is sealed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launchbay.auth.secret_key import read_secret_key
from launchbay.store.instances import document_purpose
from tests.support.databases import Databases
from tests.support.external_services import MODULE, needs_tofu
from tests.support.service import Api, accepted, running_api

pytestmark = [needs_tofu, pytest.mark.slow]


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


def manifest(file: Path, more: str = "") -> str:
    # Braces of the module's own language are doubled in a manifest's parameters, and `$` is written twice.
    module = MODULE.replace("${", "$$${").replace("{", "{{").replace("}", "}}").replace("$$${{", "$${{")
    text = "\n".join(f"            {line}" for line in module.strip().splitlines())
    return f"""
launch:
  steps:
    - infra:
        action: opentofu
        parameters:
          name: shop
          variables: {{place: "{file}", size: 1}}
          module: |
{text}
        output: {{found: outputs, hidden: secrets}}
    - use:
        action: serialize
        precedingPhases: [infra]
        parameters: {{input: "{{$.hidden}}"}}
        output: {{text: serialized}}
  return:
    place: {{value: "{{$.found.place}}"}}
    text: {{value: "{{$.text}}"}}
{more}
"""


async def sealed_documents(api: Api, instance: str) -> list[tuple[str, bytes]]:
    statement = "SELECT id, sealed FROM kept_documents WHERE instance_id = %s"
    async with api.database.connection() as connection:
        rows = await (await connection.execute(statement, [instance])).fetchall()
    return [(row[0], bytes(row[1])) for row in rows]


async def test_what_a_launch_made_goes_with_the_instance_although_no_workflow_destroys_it(
    api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "made"

    instance = await api.running(manifest(file))

    assert file.read_text() == "1\n"
    document = await api.document(instance)
    assert document["returnValues"]["place"] == str(file)
    [(document_id, sealed)] = await sealed_documents(api, instance)
    assert b"terraform_data" not in sealed
    assert str(file).encode() not in sealed
    key = read_secret_key(api.settings.key_file())
    assert str(file).encode() in key.open(sealed, document_purpose(document_id))

    document = await api.run(instance, "destroy")

    assert document["status"] == "Destroyed", document["errorMessage"]
    assert not file.exists()
    assert await sealed_documents(api, instance) == []


async def test_a_sensitive_output_is_shown_nowhere(api: Api, tmp_path: Path) -> None:
    instance = await api.running(manifest(tmp_path / "made"))

    [job] = accepted(await api.get(f"instances/{instance}/jobs"))
    shown = (await api.get(f"instances/{instance}/jobs/{job['id']}")).text
    log = (await api.get(f"instances/{instance}/log")).text

    assert "Apply complete" in log
    assert "hunter22-1" not in shown + log, "its expression is part of the module, which is an input"
    assert "********" in shown


async def test_what_cannot_be_destroyed_leaves_the_instance_failed_and_is_tried_again(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "made"
    text = manifest(file).replace("rm -f", "test ! -e " + str(tmp_path / "stuck") + " && rm -f")
    instance = await api.running(text)
    (tmp_path / "stuck").touch()

    failed = await api.run(instance, "destroy")

    assert failed["status"] == "Failed"
    assert "Can't destroy 'shop' of opentofu" in failed["errorMessage"]
    assert file.exists()
    (tmp_path / "stuck").unlink()
    assert (await api.run(instance, "destroy"))["status"] == "Destroyed"
    assert not file.exists()


async def test_a_workflow_may_destroy_it_before(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "made"
    more = "destroy:\n  steps:\n    - down: {action: opentofu, parameters: {operation: destroy, name: shop}}\n"
    instance = await api.running(manifest(file, more))

    document = await api.run(instance, "destroy")

    assert document["status"] == "Destroyed", document["errorMessage"]
    assert not file.exists()
