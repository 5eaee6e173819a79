"""`launchbay adopt --hosts` against a server that reaches real SSH servers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.cli.commands import answer
from launchbay.cli.connection import Connection
from launchbay.cli.exit_codes import ExitCode
from launchbay.client.core import Call
from launchbay.client.errors import Refusal, ServerFailed
from tests.support.machines import LOGIN, Hosts, needs_sshd
from tests.support.servers import Bay, served
from tests.support.service import fresh_name
from tests.support.services import TYPE
from tests.support.shell import Shell

pytestmark = [needs_sshd, pytest.mark.slow]  # servers of SSH, and one of ours
MANIFEST = """
application:
  components:
    db:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - hosts: {{action: provisionVms, parameters: {{roleName: db, staticIps: [{hosts}]}}}}
              - configure:
                  action: execrun
                  precedingPhases: [hosts]
                  parameters: {{roles: [db], plan: [{plan}], command: ["false"]}}
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(2, network=37) as started:
        yield started


@pytest.fixture(scope="module")
def bay(hosts: Hosts) -> Iterator[Bay]:
    """A server whose default environment reaches the hosts."""
    with served(LAUNCHBAY_MACHINES="static", LAUNCHBAY_OUTGOING_ALLOW="127.0.0.0/8") as bay:
        made = {"name": "vault", "typeId": TYPE}
        vault = bay.call("POST", f"organizations/{bay.organization}/services", made)["id"]
        key = {"arguments": {"name": "deploy", "privateKey": hosts.private_key}}
        bay.call("POST", f"services/{vault}/import-keypair", key)
        [environment] = bay.call("GET", f"organizations/{bay.organization}/environments")
        offered = bay.call("GET", f"environments/{environment['id']}/services")["services"]
        ids = [*(row["id"] for row in offered if row["typeId"] != TYPE), vault]
        bay.call("PUT", f"environments/{environment['id']}/services", {"services": ids})
        policies = f"policies:\n  machines.login: {LOGIN}\n  machines.ssh-port: {hosts[0].port}\n"
        bay.call("PUT", f"environments/{environment['id']}", policies)
        yield bay


@pytest.fixture
def cli(bay: Bay, tmp_path: Path) -> Shell:
    return Shell.of(bay, tmp_path / "config")


def application(bay: Bay, hosts: Hosts, plan: str = "echo as it should be", *more: str) -> str:
    name = fresh_name("db").replace(" ", "-")
    listed = ", ".join([*(host.static_ip for host in hosts.hosts), *more])
    bay.application(name, MANIFEST.format(hosts=listed, plan=plan))
    return name


def test_hosts_are_shown_adopted_and_observed(bay: Bay, hosts: Hosts, cli: Shell) -> None:
    name = application(bay, hosts)

    trial = cli.good("adopt", name, "--hosts", "db", "--dry-run")

    assert "Would adopt for db 2 hosts, reached and with the right keys:\n" in trial
    for host in hosts.hosts:
        assert re.search(rf"{LOGIN}@{re.escape(host.address)}\S*  db\n", trial)
    assert "Nothing is done." in trial
    assert cli.document("instance", "list") == []
    made = cli.good("adopt", name, "--hosts", "db", "--name", name)
    assert "is observed: nothing changes what runs." in made
    assert "The first plan changes nothing" in made
    instance = cli.document("status", name)
    assert (instance["status"], instance["isObserved"]) == ("Running", True)
    shown = cli.document("instance", "adoption", name)["hosts"]
    assert [(each["component"], each["role"]) for each in shown] == [("db", "db")] * 2
    cli.good("destroy", name, "--yes", "--wait")


def test_a_host_that_is_down_adopts_none(bay: Bay, hosts: Hosts, cli: Shell) -> None:
    name = application(bay, hosts, "true", f'"{LOGIN}@127.0.37.9:1"')

    result = cli.run("adopt", name, "--hosts", "db")

    assert result.exit_code == ExitCode.REFUSED, result.output
    assert "127.0.37.9" in result.stderr
    assert [each for each in cli.document("instance", "list") if each["application"] == name] == []


def test_a_component_without_hosts_says_what_is_missing(bay: Bay, hosts: Hosts, cli: Shell) -> None:
    result = cli.run("adopt", application(bay, hosts), "--hosts", "web")

    assert result.exit_code == ExitCode.REFUSED, result.output
    assert "web" in result.stderr


def test_a_check_that_fails_exits_with_1_after_what_is_adopted(bay: Bay, hosts: Hosts, cli: Shell) -> None:
    name = application(bay, hosts, "exit 3")

    result = cli.run("adopt", name, "--hosts", "db", "--name", name)

    assert result.exit_code == ExitCode.FAILED, result.output
    assert "is observed: nothing changes what runs." in result.stdout
    assert "Check again when that is fixed: launchbay drift check" in result.stderr


def test_a_look_that_takes_long_is_joined_until_the_time_is_over(
    bay: Bay, hosts: Hosts, cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = application(bay, hosts)
    answers = iter([503, 503])
    pauses: list[float] = []
    monkeypatch.setattr("launchbay.cli.adopt.time.sleep", pauses.append)

    def slow(connection: Connection, call: Call[Any]) -> Any:
        if next(answers, None):
            told = Refusal(status=503, code="LookUnderWay", messages=["The check continues."], retry_after_s=5)
            raise ServerFailed(told)
        return answer(connection, call)

    monkeypatch.setattr("launchbay.cli.adopt.answer", slow)

    assert "Nothing is done." in cli.good("adopt", name, "--hosts", "db", "--dry-run")

    assert pauses == [5, 5]
    answers = iter([503])
    result = cli.run("adopt", name, "--hosts", "db", "--dry-run", "--timeout", "4")
    assert (result.exit_code, "The check continues." in result.stderr) == (ExitCode.UNAVAILABLE, True)
