"""A server is killed while commands run on a machine: each of them runs exactly once, and the job comes to its end."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually_blocking
from tests.support.machines import LOGIN, Hosts, needs_sshd
from tests.support.servers import EMAIL, PASSWORD, Process, remove_postgres

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300), needs_sshd]
PATIENCE_S = 90.0
SETTINGS = {
    "LAUNCHBAY_MACHINES": "static",
    "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.0/8",
    "LAUNCHBAY_BASE_URL": "https://launchbay.example.org",
}

ONE = """
launch:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: [HOSTS]}}
    - run:
        action: execrun
        precedingPhases: [hosts]
        parameters:
          roles: [web]
          command: ["echo begin >> LEDGER; until [ -e LEDGER.go ]; do sleep 0.1; done; echo end >> LEDGER; echo done"]
        output: {out: stdout}
  return: {out: {value: "{$.out}"}}
"""
STEPS = 8
STEP = """
    - p{phase}:
        action: execrun
        precedingPhases: [p{step}]
        parameters:
          roles: [web]
          command:
            - |
              set -- $$SSH_CONNECTION
              echo "$$3 {step}" >> {ledger}
              sleep 0.4
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(3, network=3) as started:
        yield started


class Bay:
    """A server process on a directory of its own, and its API."""

    def __init__(self, directory: Path, hosts: Hosts, seed: str | None = None) -> None:
        self.directory = directory
        command = ["serve", "--port", "0", "--data-dir", str(directory / "data")]
        self.server = Process(command, directory, seed=seed, settings=SETTINGS)
        self.server.start()
        self.http = httpx.Client(auth=(EMAIL, PASSWORD), timeout=20)
        self.organization = self.call("GET", "organizations")[0]["id"]
        [environment] = self.call("GET", f"organizations/{self.organization}/environments")
        vault = self.call(
            "POST",
            f"organizations/{self.organization}/services",
            {"name": "keys", "typeId": "builtin:cobalt_secure_store"},
        )["id"]
        self.call("PUT", f"environments/{environment['id']}/services", {"services": [vault]})
        key = {"arguments": {"name": "deploy", "privateKey": hosts.private_key}}
        self.call("POST", f"services/{vault}/import-keypair", key)
        self.call("PUT", f"environments/{environment['id']}/audiences", {"audiences": ["vault"]})
        policies = f"policies:\n  machines.login: {LOGIN}\n  machines.ssh-port: {hosts[0].port}\n"
        self.call("PUT", f"environments/{environment['id']}", content=policies)

    def launch(self, manifest: str) -> str:
        made = self.call("POST", f"organizations/{self.organization}/applications", {"name": f"app{time.monotonic()}"})
        self.call("PUT", f"applications/{made['id']}/manifest", content=manifest)
        return str(self.call("POST", f"applications/{made['id']}/launch", {})["id"])

    def settled(self, instance: str) -> Any:
        document: Any = {}

        def is_settled() -> bool:
            nonlocal document
            document = self.call("GET", f"instances/{instance}")
            return document["status"] not in ("Requested", "Executing", "Destroying")

        until(is_settled)
        return document

    def call(self, method: str, path: str, body: Any = None, content: str | None = None) -> Any:
        url = f"http://127.0.0.1:{self.server.port}/api/1/{path}"
        headers = {} if content is None else {"Content-Type": "application/x-yaml"}
        given = {"content": content} if content is not None else {} if body is None else {"json": body}
        answer = self.http.request(method, url, headers=headers, **given)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json() if answer.content else None

    def log(self, instance: str) -> list[str]:
        """All lines of the instance's log."""
        return [line["text"] for line in self.call("GET", f"instances/{instance}/log")]

    def end(self) -> None:
        self.http.close()
        self.server.end()
        remove_postgres(self.directory / "data")


def until(condition: Callable[[], bool]) -> None:
    eventually_blocking(condition, within_s=PATIENCE_S)


@pytest.fixture
def bays(tmp_path: Path, hosts: Hosts) -> Iterator[Callable[..., Bay]]:
    made: list[Bay] = []

    def make(seed: str | None = None) -> Bay:
        made.append(Bay(tmp_path, hosts, seed))
        return made[-1]

    yield make
    for bay in made:
        bay.end()


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


@pytest.mark.parametrize(
    ("stops", "ends_meanwhile"),
    [("kill", False), ("kill", True), ("end", False)],
    ids=["killed", "killed, and it ended meanwhile", "stopped in order"],
)
def test_a_server_that_comes_back_finds_the_command_that_it_began(
    bays: Callable[..., Bay], hosts: Hosts, stops: str, ends_meanwhile: bool
) -> None:
    bay = bays()
    ledger = hosts[0].work / f"ledger-{stops}-{ends_meanwhile}"
    instance = bay.launch(ONE.replace("LEDGER", str(ledger)).replace("HOSTS", f'"{hosts[0].address}"'))
    until(lambda: lines(ledger) == ["begin"])
    getattr(bay.server, stops)()
    if ends_meanwhile:
        ledger.with_name(f"{ledger.name}.go").touch()
        until(lambda: lines(ledger) == ["begin", "end"])
    bay.server.start()
    time.sleep(1.0)
    ledger.with_name(f"{ledger.name}.go").touch()
    document = bay.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    assert lines(ledger) == ["begin", "end"]
    assert document["returnValues"]["out"] == {hosts[0].address: "done"}


SAYING = """
launch:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: [HOSTS]}}
    - run:
        action: execrun
        identity: {audience: vault}
        precedingPhases: [hosts]
        parameters:
          roles: [web]
          command:
            - 'printf %s "$LAUNCHBAY_IDENTITY_TOKEN" > LEDGER.new; mv LEDGER.new LEDGER;
              until [ -e LEDGER.go ]; do sleep 0.1; done; echo "said $LAUNCHBAY_IDENTITY_TOKEN"'
        output: {out: stdout}
    - again:
        action: execrun
        precedingPhases: [run]
        parameters: {roles: [web], command: ["echo later $(cat LEDGER)"]}
  return: {out: {value: "{$.out}"}}
"""


def test_what_a_command_was_given_is_masked_though_another_process_reads_it(
    bays: Callable[..., Bay], hosts: Hosts
) -> None:
    bay = bays()
    ledger = hosts[0].work / "ledger-saying"
    instance = bay.launch(SAYING.replace("LEDGER", str(ledger)).replace("HOSTS", f'"{hosts[0].address}"'))
    until(ledger.exists)
    bay.server.kill()
    bay.server.start()
    # The step has a new token by then, and waits for the command that has the old one.
    until(lambda: any("started before" in line for line in bay.log(instance)))
    ledger.with_name(f"{ledger.name}.go").touch()
    document = bay.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    token = ledger.read_text()
    assert token.count(".") == 2, "a real one"
    assert document["returnValues"]["out"] == {hosts[0].address: "said ********"}
    said = bay.log(instance)
    assert f"[{hosts[0].address}] said ********" in said
    assert f"[{hosts[0].address}] later ********" in said
    assert not any(token in line for line in said)


LINES = 1_500
TALKATIVE = """
launch:
  steps:
    - hosts: {action: provisionVms, parameters: {roleName: web, staticIps: [HOSTS]}}
    - run:
        action: execrun
        precedingPhases: [hosts]
        parameters:
          roles: [web]
          command: ["i=0; while [ $i -lt LINES ]; do i=$((i+1)); echo line $i; [ $((i % 5)) != 0 ] || sleep 0.04; done"]
"""


def test_the_log_has_every_line_of_a_command_once_however_often_the_server_is_killed(
    bays: Callable[..., Bay], hosts: Hosts
) -> None:
    bay = bays()
    text = TALKATIVE.replace("HOSTS", f'"{hosts[0].address}"').replace("LINES", str(LINES))
    instance = bay.launch(text)
    for _ in range(3):
        time.sleep(2.0)
        bay.server.kill()
        bay.server.start()
    document = bay.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    expected = [f"[{hosts[0].address}] line {number}" for number in range(1, LINES + 1)]
    assert [text for text in bay.log(instance) if "] line " in text] == expected


def test_kills_at_any_moment_leave_every_command_run_exactly_once(bays: Callable[..., Bay], hosts: Hosts) -> None:
    assert _runs(bays(), hosts, "any", kills=6) == {
        (host.address, step): 1 for host in hosts.hosts for step in range(STEPS)
    }


def test_a_server_that_adopts_nothing_is_found_out(bays: Callable[..., Bay], hosts: Hosts) -> None:
    bay = bays(seed="no-adoption")
    ledger = hosts[0].work / "ledger-seeded"
    instance = bay.launch(ONE.replace("LEDGER", str(ledger)).replace("HOSTS", f'"{hosts[0].address}"'))
    until(lambda: lines(ledger) == ["begin"])
    bay.server.kill()
    bay.server.start()
    until(lambda: len(lines(ledger)) > 1)
    ledger.with_name(f"{ledger.name}.go").touch()
    bay.settled(instance)
    assert lines(ledger).count("begin") == 2


def _runs(bay: Bay, hosts: Hosts, name: str, *, kills: int) -> dict[tuple[str, int], int]:
    """Run many short commands while the server is killed again and again, and count how often each of them ran."""
    chance = random.Random(20)
    ledger = hosts[0].work / f"ledger-{name}"
    addresses = ", ".join(f'"{host.address}"' for host in hosts.hosts)
    adopt = f"{{action: provisionVms, parameters: {{roleName: web, staticIps: [{addresses}]}}}}"
    text = f"launch:\n  steps:\n    - p0: {adopt}\n"
    text += "".join(STEP.format(step=step, phase=step + 1, ledger=ledger) for step in range(STEPS))
    instance = bay.launch(text)
    for _ in range(kills):
        time.sleep(chance.uniform(0.2, 2.5))
        bay.server.kill()
        bay.server.start()
    document = bay.settled(instance)
    assert document["status"] == "Running", document["errorMessage"]
    counts: dict[tuple[str, int], int] = {}
    for line in ledger.read_text().splitlines():
        address, _, number = line.partition(" ")
        counts[address, int(number)] = counts.get((address, int(number)), 0) + 1
    return counts
