"""`launchbay adopt` on a server without the program: the adoption is there, and the first plan fails."""

import json
import re
from pathlib import Path

import pytest

from launchbay.cli.exit_codes import ExitCode
from tests.support.adoption import STEADY, state_text
from tests.support.drift import boxes
from tests.support.helm_cluster import HelmCluster
from tests.support.releases import manifest_of
from tests.support.service import fresh_name
from tests.support.shell import Shell


@pytest.fixture
def command(cli: Shell, tmp_path: Path) -> tuple[str, ...]:
    """The command that adopts a state of 250 resources."""
    application, manifest, state = fresh_name("shop"), tmp_path / "manifest.yaml", tmp_path / "shop.tfstate"
    manifest.write_text(boxes(STEADY))
    state.write_text(state_text(fresh_name("lineage"), *(f"box{number:03}" for number in range(250))))
    cli.good("application", "create", application)
    cli.good("manifest", "upload", application, str(manifest))
    return "adopt", application, "--state", f"web={state}"


def test_a_first_plan_that_fails_exits_with_1_after_the_document(cli: Shell, command: tuple[str, ...]) -> None:
    result = cli.run(*command, "--output", "json")

    assert result.exit_code == ExitCode.FAILED, result.output
    document = json.loads(result.stdout)
    assert document["drift"]["problem"] in result.stderr
    [state] = document["states"]
    assert (len(state["resources"]), state["resources"][-1]) == (200, "terraform_data.box199")
    assert state["resourceCount"] == 250
    stored = cli.document("instance", "adoption", document["instanceId"])
    assert stored["states"] == document["states"]


def test_status_and_lists_say_next_to_the_status_that_it_is_observed(cli: Shell, command: tuple[str, ...]) -> None:
    instance = json.loads(cli.run(*command, "--output", "json").stdout)["instanceId"]

    assert re.search(r"status +Running, observed\n", cli.good("status", instance))
    document = cli.document("status", instance)
    assert (document["status"], document["isObserved"], document["isDrifted"]) == ("Running", True, False)
    for words in (("instance", "list"), ("ps",)):
        [row] = [line for line in cli.good(*words).splitlines() if instance in line]
        assert "Running, observed" in row


def test_a_first_plan_that_takes_too_long_leaves_a_document_too(cli: Shell, command: tuple[str, ...]) -> None:
    result = cli.run(*command, "--output", "json", "--timeout", "0")

    status = json.loads(result.stdout)["drift"]["status"]
    assert result.exit_code == (ExitCode.TIMED_OUT if status in {"Waiting", "Checking"} else ExitCode.FAILED)


def test_a_release_on_a_server_without_the_program_says_what_the_operator_can_do(cli: Shell, tmp_path: Path) -> None:
    application, manifest = fresh_name("shop"), tmp_path / "manifest.yaml"
    cluster = HelmCluster(port=9)
    manifest.write_text(manifest_of(cluster, "https://charts.example.org/shop.tgz", "shop"))
    cli.good("application", "create", application)
    cli.good("manifest", "upload", application, str(manifest))

    result = cli.run("adopt", application, "--helm-release", "web")

    assert result.exit_code == ExitCode.REFUSED, result.output
    assert "releases: 'web' adopts nothing." in result.stderr
    assert "LAUNCHBAY_SERVER_PROGRAMS=helm" in result.stderr


@pytest.mark.parametrize("options", [(), ("--helm-release", "web=shop"), ("--helm-release", "=default/shop")])
def test_what_names_nothing_to_adopt_is_a_usage_error(cli: Shell, options: tuple[str, ...]) -> None:
    result = cli.run("adopt", "shop", *options)

    assert result.exit_code == ExitCode.USAGE
    assert "COMPONENT" in result.stderr


def test_a_table_counts_what_it_leaves_out(cli: Shell, command: tuple[str, ...]) -> None:
    shown = cli.good(*command, "--dry-run")

    assert "  terraform_data.box019\n  and 230 more\n" in shown
