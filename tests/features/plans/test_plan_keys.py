"""A new secret key seals what plans keep."""

import asyncio

import pytest
from click.testing import CliRunner

from launchbay.auth.secret_key import KeyFile, SecretKey
from launchbay.cli.main import main
from launchbay.features.plans.rows import artifact_purpose, request_purpose
from launchbay.usecases import sealing
from tests.support.changes import Stage
from tests.support.databases import Databases
from tests.support.service import Api, running_api


def newest_key(api: Api) -> SecretKey:
    return SecretKey(KeyFile(api.settings.key_file()).lines()[0][1])


@pytest.mark.slow  # it waits for the server to use the new key
async def test_requests_and_artifacts_are_sealed_with_the_new_key(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LOOK_S", 0.1)
    url = databases.create()
    async with running_api(url, engine=False, secret_key_file="") as api:
        plan = await Stage(api, None).plan()  # type: ignore[arg-type]  # nothing here loads a manifest
        former = newest_key(api)
        sealed = former.seal(b"kept", artifact_purpose(plan, "web#launch/infra"))
        async with api.database.transaction() as connection:
            statement = "INSERT INTO plan_artifacts (plan_id, path, sealed) VALUES (%s, 'web#launch/infra', %s)"
            await connection.execute(statement, [plan, sealed])
        where = ["--data-dir", str(api.settings.data_dir), "--database-url", api.settings.database_url]
        for options in ([], ["--finish"]):
            done = await asyncio.to_thread(CliRunner().invoke, main, ["rotate-secret-key", *where, *options])
            assert done.exit_code == 0, done.output
        async with api.database.connection() as connection:
            statement = "SELECT request, sealed FROM plans JOIN plan_artifacts ON plan_id = id WHERE id = %s"
            [[request, sealed]] = await (await connection.execute(statement, [plan])).fetchall()
        key = newest_key(api)
        assert key.open(bytes(sealed), artifact_purpose(plan, "web#launch/infra")) == b"kept"
        assert b"destroy" in key.open(bytes(request), request_purpose(plan))
    databases.drop(url)
