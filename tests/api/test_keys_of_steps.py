"""What receivers see as the same request: keys of retries, rounds and restored schedules (decision 0151)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from launchbay.postgres.backup import back_up, restore
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.network import Answer, LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

# `order` is a sub-workflow, a command of a peer, and a command of a submodule, by how it is called.
ORDER = """
steps:
  - pay: {action: restcall, parameters: {command: "LEDGER/pay", method: post}}
  - ship: {action: restcall, precedingPhases: [pay], parameters: {command: "LEDGER/ship", method: post}}
"""
STEPS = ORDER.replace("\n", "\n            ")
BY_WORKFLOW = f"""
launch:
  steps: [{{order: {{action: .order, parameters: {{retryCount: 2}}}}}}]
.order:
{ORDER.replace(chr(10), chr(10) + "  ")}
"""
SHOP = f"""
      type: workflow.Instance
      interfaces: {{actions: {{order: receive-command()}}}}
      configuration:
        configuration.workflows:
          launch: {{steps: []}}
          order:{STEPS}
"""
CALLER = """
    caller:
      type: workflow.Instance
      required: [shop]
      interfaces: {shop: {order: send-command()}}
      configuration:
        configuration.workflows:
          launch: {steps: [{order: {action: shop.order, parameters: {retryCount: 2}}}]}
"""
BY_COMMAND = f"application:\n  bindings: [[caller, shop]]\n  components:{CALLER}    shop:{SHOP}"
CHILD = "application:\n  interfaces: {actions: {order: bind(shop#actions.order)}}\n  components:\n    shop:" + SHOP
BY_SUBMODULE = f"""
application:
  bindings: [[caller, child]]
  components:{CALLER}
    child:
      type: reference.Submodule
      configuration: {{__locator.application-id: CHILD}}
      interfaces: {{actions: {{order: receive-command()}}}}
"""


def failing_first(server: LoopbackServer, times: int) -> Answer:
    """Answer 503 to the first requests of a path."""

    async def write(received: Any, writer: Any) -> None:
        so_many = sum(each.target == received.target for each in server.received)
        await answer(503 if so_many <= times else 200)(received, writer)

    return write


def keys(server: LoopbackServer, target: str) -> list[str]:
    return [each.headers["idempotency-key"] for each in server.received if each.target == target]


@pytest.fixture
async def bay(databases: Databases) -> AsyncIterator[Api]:
    async with running_api(databases.create(), outgoing_allow="127.0.0.1") as api:
        yield api


@pytest.fixture
async def ledger() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        server.routes["/ship"] = failing_first(server, 2)
        yield server


@pytest.mark.parametrize("manifest", [BY_WORKFLOW, BY_COMMAND, BY_SUBMODULE], ids=["workflow", "command", "submodule"])
async def test_a_retry_of_a_call_sends_the_same_keys_again(bay: Api, ledger: LoopbackServer, manifest: str) -> None:
    child = await bay.application(CHILD.replace("LEDGER", ledger.url("").rstrip("/")))
    await bay.running(manifest.replace("LEDGER", ledger.url("").rstrip("/")).replace("CHILD", child))
    paid, shipped = keys(ledger, "/pay"), keys(ledger, "/ship")
    assert (len(paid), len(shipped)) == (3, 3), "each attempt runs all steps"
    assert (len(set(paid)), len(set(shipped))) == (1, 1)
    assert paid[0] != shipped[0]


async def test_each_round_of_until_has_new_keys_and_its_retries_the_same(bay: Api, ledger: LoopbackServer) -> None:
    counted = Counter[str]()

    async def state(received: Any, writer: Any) -> None:
        counted["state"] += 1
        await answer(503 if counted["state"] == 2 else 200, b"done" if counted["state"] == 4 else b"open")(
            received, writer
        )

    ledger.routes["/state"] = state
    await bay.running(f"""
launch:
  steps:
    - ask:
        action: restcall
        until: "{{$.output.content == 'done'}}"
        delay: 0
        parameters: {{command: "{ledger.url("/state")}", method: post, retryCount: 1}}
""")
    first, failed, again, last = keys(ledger, "/state")
    assert failed == again, "a retry"
    assert len({first, failed, last}) == 3


def workflows(ledger: LoopbackServer, *names: str, schedule: str = "") -> str:
    """A component with a command for each name, which posts to the ledger."""
    shown = ", ".join(f"{name}: bind(web#actions.{name})" for name in names)
    pins = ", ".join(f"{name}: receive-command()" for name in names)
    runs = "".join(
        f"\n          {name}: {{steps: [{{post: {{action: restcall, parameters: "
        f"{{command: '{ledger.url('/' + name)}', method: post}}}}}}]}}"
        for name in names
    )
    return f"""
application:
  interfaces: {{actions: {{{shown}}}}}
  components:
    web:
      type: workflow.Instance
      interfaces: {{actions: {{{pins}}}}}
      configuration:
        configuration.schedule: {{{schedule}}}
        configuration.workflows:
          launch: {{steps: []}}{runs}
"""


async def called(ledger: LoopbackServer, targets: Sequence[str]) -> dict[str, str]:
    """Wait for a request to each target; return the key of each first one."""
    await eventually(lambda: all(keys(ledger, target) for target in targets))
    return {target: keys(ledger, target)[0] for target in targets}


@pytest.mark.slow
def test_what_was_due_since_a_backup_runs_again_with_the_keys_that_it_had(databases: Databases, tmp_path: Path) -> None:
    url, copy = databases.create(), databases.create(empty=True)
    settings: dict[str, Any] = {"outgoing_allow": "127.0.0.1", "secret_key_file": str(tmp_path / "secret.key")}
    targets = ["/once", "/own", "/regular", "/bulk"]
    soon = f"{(datetime.now(UTC) + timedelta(seconds=10)).second} * * * * ?"

    async def before(ledger: LoopbackServer) -> None:
        async with running_api(url, **settings) as api:
            names = [target[1:] for target in targets]
            ids = {
                name: await api.running(
                    workflows(ledger, name, schedule=f'{name}: "{soon}"' if name == "own" else ""),
                    labels={"of": name},
                )
                for name in names
            }
            regular = {"name": "Regular", "cron": soon}
            made = f"organizations/{api.organization}/recurring-schedules"
            accepted(await api.post(f"instances/{ids['once']}/actions.once/schedule", {"interval": "6000"}))
            accepted(await api.post(made, {**regular, "instanceId": ids["regular"], "workflow": "actions.regular"}))
            act = {"act": "run", "workflow": "actions.bulk", "select": {"labels": "of=bulk"}}
            accepted(await api.post(made, {**regular, "name": "All", "bulk": act}))
            ledger.received.clear()
            await asyncio.to_thread(back_up, url, tmp_path / "b.dump")
            assert not {each.target for each in ledger.received} & set(targets), "the backup came too late"
            first.update(await called(ledger, targets))

    async def after(ledger: LoopbackServer) -> None:
        ledger.received.clear()
        async with running_api(copy, **settings):
            again.update(await called(ledger, targets))

    async def whole() -> None:
        async with loopback_server() as ledger:
            await before(ledger)
            await asyncio.to_thread(restore, copy, tmp_path / "b.dump")
            await after(ledger)

    first: dict[str, str] = {}
    again: dict[str, str] = {}
    asyncio.run(whole())
    assert again == first
    assert len(set(first.values())) == len(targets)
