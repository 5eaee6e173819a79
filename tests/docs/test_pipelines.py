"""The script for any pipeline, as it stands on its page and with the scope of the token that the page asks for."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.documentation import DOCS, ROOT, blocks
from tests.support.eventually import eventually_blocking
from tests.support.servers import Bay

MANIFEST = """\
application:
  interfaces:
    result: {url: bind(shop#result.url)}
  components:
    shop:
      type: workflow.Instance
      interfaces: {result: {url: publish-signal(string)}}
      configuration:
        configuration.workflows:
          launch:
            steps: [STEP]
            return: {url: {value: "https://shop.example"}}
"""
QUICK = "settle: {action: wait, parameters: {delay: 0}}"
HANGING = "hang: {action: wait, parameters: {delay: 86400}}"
FAILING = "fail: {action: restcall, parameters: {command: 'ftp://nowhere.example'}}"

pytestmark = [
    pytest.mark.slow,  # each starts the command several times
    pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed"),
]


@pytest.fixture
def shop(bay: Bay) -> str:
    """Return the application; each test uploads the manifest that it needs."""
    listed = bay.call("GET", f"organizations/{bay.organization}/applications")
    if not listed:
        bay.environment("lab", {})
    return next((each["id"] for each in listed if each["name"] == "shop"), "") or bay.application(
        "shop", MANIFEST.replace("STEP", QUICK)
    )


def begun(bay: Bay, directory: Path, number: str, smoke_test: str = "true", **environ: str) -> "subprocess.Popen[str]":
    """Start the script of the page in a group of its own, as a runner does."""
    [script] = [block.text for block in blocks(DOCS / "howto" / "pipelines.md") if block.language == "sh"]
    [asked] = [block.text for block in blocks(DOCS / "howto" / "ci.md") if "--scope" in block.text]
    body = {"name": "pipeline", "days": 1, "scope": re.findall(r"--scope '([^']+)'", asked)}
    token = bay.call("POST", f"organizations/{bay.organization}/accessTokens", body)["token"]
    for name, text in (
        ("launchbay", f'echo "$1" >>called\nexec {sys.executable} -m launchbay.cli.main "$@"'),
        ("smoke-test", f'echo tested "$1"\n{smoke_test}'),
    ):
        (directory / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        (directory / name).chmod(0o755)
    (directory / "test-shop.sh").write_text(script, "utf-8")
    own = {
        "PATH": f"{directory}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(directory),
        "LANG": "C.UTF-8",
        "LAUNCHBAY_KEYRING": "off",
        "LAUNCHBAY_URL": bay.url,
        "LAUNCHBAY_TOKEN": token,
        "BUILD_NUMBER": number,
    }
    return subprocess.Popen(
        ["sh", "test-shop.sh"],
        cwd=directory,
        env={**own, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def instance(bay: Bay, number: str) -> Any:
    """Return the instance of a run, which may be destroyed, or None."""
    listed = bay.call("GET", f"organizations/{bay.organization}/instances?namePart=shop-ci-{number}")
    return next((each for each in listed if each["name"] == f"shop-ci-{number}"), None)


@pytest.mark.parametrize(
    ("number", "step", "environ", "smoke_test", "code"),
    [
        ("1", QUICK, {}, "true", 0),
        ("2", QUICK, {}, "exit 42", 42),
        ("3", FAILING, {}, "true", 1),
        ("4", HANGING, {"LAUNCH_TIMEOUT": "1s"}, "true", 8),
    ],
    ids=["success", "a failed test", "a failed launch", "a launch that hangs"],
)
def test_the_script_ends_with_the_code_of_what_failed_and_destroys_the_instance(
    bay: Bay, shop: str, tmp_path: Path, number: str, step: str, environ: dict[str, str], smoke_test: str, code: int
) -> None:
    bay.call("PUT", f"applications/{shop}/manifest", MANIFEST.replace("STEP", step))
    run = begun(bay, tmp_path, number, smoke_test, **environ)
    shown, told = run.communicate(timeout=120)
    assert run.returncode == code, told
    assert shown == ("tested https://shop.example\n" if code in {0, 42} else "")
    assert instance(bay, number)["status"] == "Destroyed"


def test_a_cancelled_run_destroys_its_instance(bay: Bay, shop: str, tmp_path: Path) -> None:
    bay.call("PUT", f"applications/{shop}/manifest", MANIFEST.replace("STEP", HANGING))
    run = begun(bay, tmp_path, "5")
    called = tmp_path / "called"
    eventually_blocking(lambda: called.exists() and "wait" in called.read_text("utf-8"))
    os.killpg(run.pid, signal.SIGTERM)
    told = run.communicate(timeout=120)[1]
    assert run.returncode == 143, told
    assert instance(bay, "5")["status"] == "Destroyed"


def test_a_launch_that_is_refused_leaves_nothing_to_destroy(bay: Bay, shop: str, tmp_path: Path) -> None:
    bay.call("PUT", f"applications/{shop}/manifest", MANIFEST.replace("STEP", QUICK))
    run = begun(bay, tmp_path, "6", LAUNCHBAY_TOKEN="wrong")
    told = run.communicate(timeout=120)[1]
    assert run.returncode == 4, told
    assert instance(bay, "6") is None
