"""Every manifest of the cookbook is launched by the real engine, and returns what its page shows."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.registry import BUILT_IN
from launchbay.manifest.compiler import check
from tests.support.containers import IMAGE, NoPodman, started
from tests.support.databases import Databases
from tests.support.documentation import DOCS, ROOT, Block, blocks
from tests.support.external_services import needs_tofu
from tests.support.network import packed
from tests.support.scripted_server import Answer, Script, scripted
from tests.support.servers import Bay, served
from tests.support.service import serving

PAGES = sorted(page for page in (DOCS / "cookbook").glob("*.md") if page.stem != "index")
ACTIONS = frozenset(name for action in BUILT_IN for name in (action.name, *action.aliases))
JSON = {"Content-Type": "application/json"}
BUSY = Answer(503, {"state": "starting"}, JSON)
# What the addresses of a page answer, in their order.
ANSWERS = {
    "call-an-api": [Answer(201, {"id": 7, "address": "10.0.0.7"}, JSON)],
    "wait-until-ready": [BUSY, BUSY, Answer(200, {"state": "up"}, JSON)],
    "try-again": [BUSY, BUSY, Answer(200, {"number": "1.4"}, JSON)],
    "use-a-secret": [Answer(200, {"state": "migrated"}, JSON)],
}
HOSTS = re.compile(r"https://(?:registry|shop|flaky|db)\.example(?=/)")
# Pages whose programs run outside of this process; each has a test of its own below.
WITH_PROGRAMS = {"run-ansible", "run-opentofu", "install-a-chart", "run-a-container", "keep-a-process-running"}
PLAIN = [page for page in PAGES if page.stem not in WITH_PROGRAMS]
PASSWORD = "a-password-of-the-cookbook"
_GIVEN = re.compile(r"[Gg]iven `(\{.*\})`:$")
_ENVIRONMENT = re.compile(r"In the environment `(\{.*\})`:$", re.DOTALL)
_NAMED = re.compile(r"The application `(\w+)`:$")
_AFTER = re.compile(r"After `([^`]+)` with `(\{.*\})`(?:, a moment later)?:$")


def of(page: Path, language: str) -> list[Block]:
    return [block for block in blocks(page) if block.language == language]


@pytest.fixture(scope="module")
def bay(databases: Databases) -> Iterator[Bay]:
    """A service that may reach the servers of tests."""
    with serving(databases, outgoing_allow="127.0.0.1") as server:
        yield Bay(server.url)


@pytest.fixture
def script(page: Path) -> Iterator[Script]:
    """What the addresses of a page lead to."""
    with scripted(*ANSWERS.get(page.stem, [Answer()])) as serving_script:
        yield serving_script


def launched(bay: Bay, page: Path, change: Callable[[str], str] = str) -> str:
    """Launch the last manifest of a page after those that it names, compare what it returns, return the instance."""
    *others, manifest = of(page, "yaml")
    for other in others:
        named = _NAMED.search(other.before)
        assert named is not None, "a page has one manifest, and applications that it names"
        bay.application(named[1], other.text)
    application = bay.application(page.stem, change(manifest.text))
    given = _GIVEN.search(manifest.before)
    request: dict[str, Any] = {"parameters": json.loads(given[1]) if given else {}}
    offers = _ENVIRONMENT.search(manifest.before)
    if offers is not None:
        request["environmentId"] = bay.environment(page.stem, json.loads(offers[1]))
    instance = str(bay.call("POST", f"applications/{application}/launch", request)["id"])
    if page.stem in PREPARED_AFTER:
        PREPARED_AFTER[page.stem](bay, instance)
    first, *more = of(page, "json")
    seen = bay.settled(instance)
    assert seen["status"] == "Running", seen["errorMessage"]
    if "a moment later" in manifest.before:
        bay.returning(instance, json.loads(first.text))
    else:
        assert seen["returnValues"] == json.loads(first.text)
    for block in more:
        after = _AFTER.search(block.before)
        assert after is not None, f"line {block.line}: these values follow no act"
        name, parameters = after[1], json.loads(after[2])
        method, path = ("PUT", "configuration") if name == "PUT configuration" else ("POST", name)
        bay.call(method, f"instances/{instance}/{path}", parameters)
        bay.returning(instance, json.loads(block.text))
    return instance


def keep_secret(bay: Bay, _: Script) -> None:
    services = bay.call("GET", f"organizations/{bay.organization}/services")
    [vault] = [row["id"] for row in services if row["typeId"] == "builtin:cobalt_secure_store"]
    bay.call("POST", f"services/{vault}/set-secret", {"arguments": {"name": "db-password", "value": PASSWORD}})


def listen(bay: Bay, script: Script) -> None:
    body = {"url": f"{script.url}/hook", "events": ["notification"]}
    bay.call("POST", f"organizations/{bay.organization}/webhooks", body)


def approve(bay: Bay, instance: str) -> None:
    while not (asked := bay.call("GET", f"instances/{instance}/approvals")):
        pass  # the job has begun, and asks within its first step
    bay.call("POST", f"approvals/{asked[0]['id']}/approve", {"comment": "Go ahead"})


PREPARED = {"use-a-secret": keep_secret, "tell-people": listen}
PREPARED_AFTER = {"ask-for-approval": approve}


def test_the_index_of_the_cookbook_lists_each_page_and_the_front_page_counts_them() -> None:
    listed = re.findall(r"\]\(([\w-]+)\.md\)", (DOCS / "cookbook" / "index.md").read_text("utf-8"))
    assert sorted(listed) == [page.stem for page in PAGES]
    assert f"{len(PAGES)} whole manifests" in (DOCS / "index.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_a_manifest_of_the_cookbook_has_no_findings(page: Path) -> None:
    assert [check(block.text.encode(), known_actions=ACTIONS) for block in of(page, "yaml")] == [[]] * len(
        of(page, "yaml")
    )


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: str(page.stem))
def test_a_manifest_of_the_cookbook_returns_what_its_page_shows(bay: Bay, page: Path, script: Script) -> None:
    if page.stem in PREPARED:
        PREPARED[page.stem](bay, script)
    instance = launched(bay, page, lambda text: HOSTS.sub(script.url, text))
    asked = [each for each in script.asked if each.target != "/hook"]
    assert len(asked) == len(ANSWERS.get(page.stem, ()))
    if page.stem == "use-a-secret":
        assert asked[0].headers["authorization"].startswith("Basic ")
        assert PASSWORD not in bay.request("GET", f"instances/{instance}/log").text


@pytest.mark.slow
def test_a_playbook_and_a_chart_run_as_their_pages_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "tests" / "actions" / "stand_ins" / "helm.py", tmp_path / "helm.py")
    helm = tmp_path / "helm"
    helm.write_text(f'#!/bin/sh\nexec {sys.executable} -S "{tmp_path}/helm.py" "$@"\n', "utf-8")
    helm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    def nearer(text: str) -> str:
        text = text.replace("https://charts.example/shop-1.4.0.tgz", f"{charts.url}/shop-1.4.0.tgz")
        return text.replace("https://k8s.example:6443", "https://localhost:6443")

    with (
        scripted(Answer(text=packed({"shop/Chart.yaml": b"name: shop\n"}))) as charts,
        served(LAUNCHBAY_SERVER_PROGRAMS="ansible, helm", LAUNCHBAY_OUTGOING_ALLOW="127.0.0.1, localhost") as bay,
    ):
        launched(bay, DOCS / "cookbook" / "run-ansible.md")
        launched(bay, DOCS / "cookbook" / "install-a-chart.md", nearer)


@needs_tofu
@pytest.mark.slow
def test_a_module_is_applied_as_its_page_shows() -> None:
    with served(LAUNCHBAY_SERVER_PROGRAMS="opentofu") as bay:
        launched(bay, DOCS / "cookbook" / "run-opentofu.md")


@pytest.mark.slow
def test_a_command_runs_in_a_container_as_its_page_shows(tmp_path: Path) -> None:
    try:
        with (
            started(tmp_path) as podman,
            served(
                LAUNCHBAY_MACHINES="container",
                LAUNCHBAY_CONTAINER_SOCKET=str(podman.socket),
                LAUNCHBAY_CONTAINER_NETWORKS="none",
            ) as bay,
        ):
            launched(bay, DOCS / "cookbook" / "run-a-container.md", lambda text: text.replace("shop:1.4", IMAGE))
    except NoPodman as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_a_process_keeps_running_as_its_page_shows_until_it_is_stopped(databases: Databases, tmp_path: Path) -> None:
    def lives() -> bool:
        command = Path(f"/proc/{process}/cmdline")  # empty if it has ended and nobody has asked for its exit code
        return command.exists() and command.read_bytes() != b""

    with serving(databases, machines="local", local_environments="*", data_dir=tmp_path) as server:
        bay = Bay(server.url)
        instance = launched(bay, DOCS / "cookbook" / "keep-a-process-running.md")
        [written] = tmp_path.rglob("queue.pid")
        process = int(written.read_text())
        assert lives()
        bay.call("POST", f"instances/{instance}/check", {})
        bay.returning(instance, {"last": "ready"})
        bay.call("POST", f"instances/{instance}/launch", {})
        assert bay.settled(instance)["status"] == "Running"
        assert int(written.read_text()) == process, "a repeated step starts no second process"
        assert lives()
        bay.call("POST", f"instances/{instance}/destroy", {})
        assert bay.settled(instance)["status"] == "Destroyed"
        assert not lives()
