"""A package brings a provider of its own, as `docs/howto/write-a-secret-provider.md` shows it."""

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.service_types.contract import ENTRY_POINT_GROUP, SecretProblem
from launchbay.service_types.registry import ServiceTypes
from tests.support.databases import Databases
from tests.support.documentation import DOCS
from tests.support.network import LoopbackServer, answer, loopback_server
from tests.support.service import Api, accepted, running_api

CANARY = "canary-5512-of-the-safe"
READ = """
launch: {steps: []}
read:
  parameters: [url: {default: ""}, secret: {default: safe/shop#password}]
  steps:
    - send:
        action: restcall
        secrets: {wanted: "{$.secret}"}
        parameters: {command: "{$.url}", headers: {X-Password: "{$.secrets.wanted}"}, retryCount: 2}
        output: {said: content}
  return: {said: {value: "{$.said}"}}
"""


def install(folder: Path, source: str) -> None:
    """Make the package visible as an installer would: its module and its metadata on the path."""
    (folder / "example_safe.py").write_text(source)
    metadata = folder / "example_safe-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: example-safe\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\nsafe = example_safe:Safe\n")


def example() -> str:
    page = (DOCS / "howto" / "write-a-secret-provider.md").read_text("utf-8")
    [source] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Safe" in block]
    return str(source)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "example_safe", raising=False)
    return tmp_path


@pytest.fixture
async def api(databases: Databases, folder: Path) -> AsyncIterator[Api]:
    install(folder, example())
    url = databases.create()
    async with running_api(url, outgoing_allow="127.0.0.1") as api:
        yield api
    databases.drop(url)
    sys.modules.pop("example_safe", None)


async def provider(api: Api, address: str) -> None:
    given = {"configuration.address": address, "configuration.token": "token-of-the-safe"}
    body = {"name": "safe", "typeId": "example:safe", "parameters": given}
    service = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    accepted(await api.put(f"environments/{api.environment}/services", {"services": [service]}))


@pytest.fixture
async def safe() -> AsyncIterator[LoopbackServer]:
    async with loopback_server() as server:
        yield server


async def stored(api: Api, table: str) -> list[Any]:
    async with api.database.connection() as connection:
        return await (await connection.execute(f"SELECT each::text FROM {table} AS each")).fetchall()


async def test_a_step_reads_from_the_provider_of_a_package(api: Api, safe: LoopbackServer) -> None:
    await provider(api, safe.url().rstrip("/"))
    safe.routes["/shop"] = answer(200, f'{{"password": "{CANARY}"}}'.encode())
    safe.routes["/"] = answer(200, CANARY.encode(), [("Content-Type", "text/plain")])
    instance = await api.running(READ)
    await api.ran(instance, "read", url=safe.url())
    asked, sent = safe.received
    assert asked.headers["authorization"] == "Bearer token-of-the-safe"
    assert sent.headers["x-password"] == CANARY
    assert (await api.document(instance))["returnValues"]["said"] == "********"
    assert await stored(api, "secret_sessions") == [], "nobody revokes it"
    assert CANARY not in (await api.get(f"instances/{instance}/log")).text


@pytest.mark.parametrize(
    ("status", "said", "times"),
    [
        (404, "'safe' has no secret at 'shop'.", 1),
        (403, "'safe' refuses 'shop'.", 1),
        (503, "'safe' can't answer now.", 3),
    ],
)
async def test_a_failure_is_repeated_only_where_that_can_help(
    api: Api, safe: LoopbackServer, status: int, said: str, times: int
) -> None:
    await provider(api, safe.url().rstrip("/"))
    safe.routes["/shop"] = answer(status)
    document = await api.run(await api.running(READ), "read", url=safe.url())
    assert said in document["errorMessage"]
    assert len(safe.received) == times


async def test_a_text_without_keys_says_so(api: Api, safe: LoopbackServer) -> None:
    await provider(api, safe.url().rstrip("/"))
    safe.routes["/plain"] = answer(200, b"only a text")
    instance = await api.running(READ)
    document = await api.run(instance, "read", url=safe.url(), secret="safe/plain#password")
    assert "has a string without keys in 'plain'. Leave out #password" in document["errorMessage"]
    safe.routes["/none"] = answer(200, b"")
    document = await api.run(instance, "read", url=safe.url(), secret="safe/none")
    assert "has an empty string in 'none'" in document["errorMessage"]
    safe.routes["/"] = answer(200)
    await api.ran(instance, "read", url=safe.url(), secret="safe/plain")
    assert safe.received[-1].headers["x-password"] == "only a text"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("async def read", "async def read_all"), "it gives secrets, and its 'read' is not an async function"),
        (
            ("    async def read", "    async def renew(self): ...\n\n    async def read"),
            "it gives secrets, and its 'revoke' is not an async function",
        ),
    ],
)
def test_a_provider_that_lacks_a_part_is_named_at_the_start(folder: Path, change: tuple[str, str], said: str) -> None:
    install(folder, example().replace(*change))
    types = ServiceTypes.load()
    assert types.find("example:safe") is None
    [problem] = types.problems
    assert said in problem


def test_the_page_says_of_each_problem_whether_another_attempt_can_help() -> None:
    page = (DOCS / "howto" / "write-a-secret-provider.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| `([A-Z]+)` \| [^|]+ \| (yes|no) \|$", page, re.MULTILINE))
    assert shown == {each.name: "yes" if each.retryable else "no" for each in SecretProblem}
