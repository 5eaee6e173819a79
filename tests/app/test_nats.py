"""A server with the setting `dispatch_url`, and one without."""

import sys

import pytest

from launchbay.app.build import lifespan
from launchbay.errors import CannotStart
from launchbay.settings import Settings
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.nats_server import nats_servers, url_of
from tests.support.service import METRICS_TOKEN, Api, running_api

WITHIN_S = 20.0


async def dispatch_is(api: Api, wanted: str) -> None:
    """Wait until the server is ready with this dispatch."""
    path = str(api.client.base_url.join("/health/ready"))
    await eventually(
        lambda: api.read(path), lambda found: found == {"status": "ready", "dispatch": wanted}, within_s=WITHIN_S
    )


async def connected_by_metrics(api: Api) -> bool:
    caller = api.caller(f"Bearer {METRICS_TOKEN}")
    text = (await caller.client.get(caller.client.base_url.join("/metrics"))).text
    return 'launchbay_dispatch_connected{way="nats"} 1.0' in text


async def test_a_server_whose_nats_comes_and_goes_is_ready_and_says_so(databases: Databases) -> None:
    with nats_servers() as [server]:
        async with running_api(databases.create(), dispatch_url=url_of([server])) as api:
            await dispatch_is(api, "nats")
            assert await connected_by_metrics(api)
            await api.running("launch: {steps: []}")
            server.kill()
            await dispatch_is(api, "postgresql")
            assert not await connected_by_metrics(api)
            await api.running("launch: {steps: []}")
            server.start()
            await dispatch_is(api, "nats")


async def test_without_the_client_library_the_start_says_what_to_install(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "launchbay.engine.jetstream", raising=False)
    with pytest.raises(CannotStart) as refused:
        async with lifespan(Settings(database_url=databases.create(), dispatch_url="nats://127.0.0.1:1")):
            pass
    assert refused.value.code == "NatsMissing"
    assert "pip install 'launchbay[nats]'" in str(refused.value)


@pytest.mark.parametrize(
    "url", ["redis://one", "nats://", "nats://one two", "nats://one/path", "one:4222", "nats://one,,two"]
)
def test_an_address_that_is_none_of_nats_is_refused_without_its_account(url: str) -> None:
    with pytest.raises(CannotStart) as refused:
        Settings(dispatch_url=url.replace("://", "://user:hidden@"))
    assert "LAUNCHBAY_DISPATCH_URL must be" in str(refused.value)
    assert "hidden" not in str(refused.value)
