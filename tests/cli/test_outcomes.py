"""Every verb that begins work, with every outcome: its exit code, what it prints, and the error."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launchbay.client import Basic, Client
from tests.support.manifests import FERRY
from tests.support.servers import Bay, served
from tests.support.service import EMAIL, PASSWORD
from tests.support.shell import Shell

pytestmark = pytest.mark.slow  # forty jobs, some of which wait for a second

Words = tuple[str, ...]
GOOD, BAD, LONG = "0", "whenever", "10 minutes"
OUTCOMES = ("success", "failure", "refused", "cancelled", "timeout")
DELAYS = {"success": GOOD, "failure": BAD, "cancelled": LONG, "timeout": LONG}


@pytest.fixture(scope="module")
def ferry(server: Bay, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of an application whose workflows take as long as their parameters say, or fail."""
    directory = tmp_path_factory.mktemp("outcomes")
    (directory / "manifest.yaml").write_text(FERRY, "utf-8")
    cli = Shell.of(server, directory)
    cli.good("application", "create", "all outcomes")
    cli.good("manifest", "upload", "all outcomes", str(directory / "manifest.yaml"))
    return "all outcomes"


def launched(cli: Shell, ferry: str, *words: str) -> str:
    instance = cli.good("launch", ferry, *words).strip()
    cli.good("instance", "wait", instance)
    return instance


def launch(_: Shell, ferry: str, delay: str | None) -> Words:
    return ("launch", ferry, "-p", "input.at-sea=1" if delay is None else f"input.at-launch={delay}")


def run(cli: Shell, ferry: str, delay: str | None) -> Words:
    return ("run", launched(cli, ferry), "manage.move", "speed=3" if delay is None else f"delay={delay}")


def destroy(cli: Shell, ferry: str, delay: str | None) -> Words:
    instance = launched(cli, ferry, "-p", f"input.at-destroy={delay or GOOD}")
    if delay is None:
        cli.good("destroy", instance, "--yes", "--wait")
    return ("destroy", instance, "--yes")


def configure(cli: Shell, ferry: str, delay: str | None) -> Words:
    change = "input.at-sea=1" if delay is None else f"input.at-change={delay}"
    # The trigger of the changed value must be a change.
    return ("instance", "reconfigure", launched(cli, ferry, "-p", "input.at-change=0.1"), "-p", change)


def schedule(cli: Shell, ferry: str, delay: str | None) -> Words:
    workflow = "manage.sail" if delay is None else "manage.move"
    return ("instance", "schedule", launched(cli, ferry), workflow, "0", "-p", f"delay={delay}")


def resume(cli: Shell, ferry: str, delay: str | None) -> Words:
    instance = launched(cli, ferry)
    cli.bad(1, "run", instance, "manage.move", f"delay={BAD}", "--wait")
    return ("job", "resume", instance, "last", "-p", "speed=3" if delay is None else f"delay={delay}")


def retry(cli: Shell, ferry: str, delay: str | None) -> Words:
    told = cli.run("launch", ferry, "-p", f"input.at-launch={BAD}", "--wait", "-o", "json")
    assert told.exit_code == 1
    change = "input.at-sea=1" if delay is None else f"input.at-launch={delay}"
    return ("job", "resume", json.loads(told.stdout)["id"], "last", "-p", change)


def bulk(cli: Shell, ferry: str, delay: str | None) -> Words:
    instance = launched(cli, ferry)
    words = ("bulk", "create", "run", "--instance", instance, "-p", f"delay={delay}")
    if delay is None:
        return (*words, "--workflow", "manage.sail")
    return ("bulk", "wait", cli.document(*words, "--workflow", "manage.move")["id"])


VERBS: dict[str, Callable[[Shell, str, str | None], Words]] = {
    each.__name__: each for each in (launch, run, destroy, configure, schedule, resume, retry, bulk)
}
WITH_RESULTS = {"run", "schedule", "resume"}
REFUSALS = {"destroy": "InstanceDestroyed", "schedule": "UnknownWorkflow", "bulk": "UnknownWorkflow"}


@contextmanager
def cancelling(server: Bay, *, at_once: bool) -> Iterator[None]:
    """Cancel each job that runs, from now on or at the end of the block."""
    over = threading.Event()

    def cancel(client: Client) -> None:
        for job in client.list_organization_jobs(server.organization, status="Executing"):
            client.cancel_job(job.instance_id, job.id)

    def work() -> None:
        with Client(server.url, Basic(EMAIL, PASSWORD)) as client:
            while at_once and not over.wait(0.2):
                cancel(client)
            while client.list_organization_jobs(server.organization, status="Executing"):
                cancel(client)
                time.sleep(0.1)

    thread = threading.Thread(target=work)
    if at_once:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if not at_once:
            thread.start()
        thread.join()


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_ends_with_the_outcome_of_its_job(
    cli: Shell, server: Bay, ferry: str, verb: str, outcome: str
) -> None:
    words = VERBS[verb](cli, ferry, DELAYS.get(outcome))
    if words[:2] != ("bulk", "wait") and verb != "bulk":
        words = (*words, "--wait")
    if outcome == "timeout":
        words = (*words, "--timeout", "1s")
    with cancelling(server, at_once=outcome == "cancelled"):
        told = cli.run(*words, "-o", "json")
    CHECKS[outcome](verb, told.exit_code, told.stdout, told.stderr)


def succeeded(verb: str, code: int, out: str, error: str) -> None:
    assert code == 0, error
    document = json.loads(out)
    if verb == "bulk":
        assert (document["status"], document["counts"]["succeeded"]) == ("Finished", 1)
        return
    assert (document["jobStatus"], "error" in document) == ("Succeeded", False)
    assert document["status"] == ("Destroyed" if verb == "destroy" else "Running")
    assert document.get("results") == ({"moved": "after 0"} if verb in WITH_RESULTS else None)


def failed(verb: str, code: int, out: str, error: str) -> None:
    assert code == 1, error
    document = json.loads(out)
    if verb == "bulk":
        assert document["counts"]["failed"] == 1
        assert "1 instance failed" in error
        return
    assert document["jobStatus"] == "Failed"
    assert BAD in document["error"]
    assert BAD in error


def refused(verb: str, code: int, out: str, error: str) -> None:
    assert (code, out) == (9, ""), (code, error)
    assert REFUSALS.get(verb, "Parameter") in error


def cancelled(verb: str, code: int, out: str, error: str) -> None:
    assert code == 1, error
    document: Any = json.loads(out)
    if verb == "bulk":
        assert document["counts"]["failed"] == 1
        return
    assert document["jobStatus"] == "Failed"
    assert f"Cancelled by {EMAIL}" in error


def timed_out(verb: str, code: int, out: str, error: str) -> None:
    assert code == 8, error
    assert ("hasn't ended within 1 s" if verb == "bulk" else "is still running after 1 s") in error
    assert json.loads(out)["status" if verb == "bulk" else "jobStatus"] in {"Running", "Executing"}


CHECKS = {
    "success": succeeded,
    "failure": failed,
    "refused": refused,
    "cancelled": cancelled,
    "timeout": timed_out,
}


READS_FILE = """
launch:
  steps:
    - read:
        action: restcall
        secrets: {wanted: files/password}
        parameters: {command: URL, headers: {X-Password: "{$.secrets.wanted}"}}
"""


def test_a_provider_of_secrets_is_tested_with_an_exit_code_and_its_readers_are_a_table(tmp_path: Path) -> None:
    secrets = tmp_path / "mount"
    secrets.mkdir()
    (secrets / "password").write_text("canary-of-a-file")
    manifest = tmp_path / "manifest.yaml"
    allowed = {"LAUNCHBAY_SECRET_DIRECTORIES": f"{secrets}@*", "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.1"}
    with served(**allowed) as server:
        manifest.write_text(READS_FILE.replace("URL", f"{server.url}/docs/"))
        cli = Shell.of(server, tmp_path / "config")
        cli.good("service", "create", "files", "builtin:server_files", "-p", f"configuration.directory={secrets}")
        cli.good("environment", "set-services", "default", "files")
        test = ("service", "test-provider", "files", "default", "--paths")
        assert "readable" in cli.good(*test, "password")
        result = cli.run(*test, "password", "--paths", "none")
        assert (result.exit_code, "A job can't read 1 of 2 paths." in result.stderr) == (1, True)
        assert "missing" in result.stdout
        wrong = cli.bad(9, "service", "create", "vault", "builtin:openbao", "-p", "configuration.kv-mounts=kv")
        assert "write it as NAME:=JSON" in wrong
        cli.good("application", "create", "reader")
        cli.good("manifest", "upload", "reader", str(manifest))
        cli.good("launch", "reader", "--name", "first", "--wait")
        shown = cli.good("service", "provider-use", "files")
        for text in ("secret", "instance", "application", "environment", "first", "reader", "default", "password"):
            assert text in shown
        (secrets / "password").write_text("canary-of-the-next")
        cli.good("launch", "reader", "--name", "second", "--wait")
        for verb in (("instance", "list"), ("ps",)):
            assert [each["name"] for each in cli.document(*verb, "--secrets-changed")] == ["first"]
        assert "Running, secret changed" in cli.good("instance", "list")
        status = cli.good("status", "first")
        for text in ("Running, secret changed", "files/password, read by read"):
            assert text in status
        assert "files/password" in cli.good("instance", "changed-secrets", "first")
        assert "secret changed" not in cli.good("status", "second")
        cli.good("bulk", "create", "destroy", "--secrets-changed", "--wait")
        assert [each["name"] for each in cli.document("ps")] == ["second"]
