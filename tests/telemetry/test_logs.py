"""Log lines of the process: one form for everybody's, with the ids of what made them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from launchbay.actions.builtin import Wait
from launchbay.actions.contract import ActionCall
from tests.support.service import Api

SCRIPT = """
import logging
import structlog
from structlog.contextvars import bound_contextvars
from launchbay.telemetry.logs import configure_logs
configure_logs("info", "{form}")
with bound_contextvars(job="j1", step="workflow#launch/s"):
    structlog.get_logger("ours").info("ours.happened", count=3)
    logging.getLogger("library").warning("theirs %s", "happened")
    logging.getLogger("library").info("of no interest")
    try:
        secret = "hidden in a local variable"
        raise ValueError("broke")
    except ValueError:
        logging.getLogger("library").exception("failed")
"""


def lines(form: str) -> list[str]:
    run = subprocess.run([sys.executable, "-c", SCRIPT.format(form=form)], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    return run.stderr.splitlines()


def test_json_lines_of_libraries_have_the_form_and_the_ids_of_our_own() -> None:
    ours, theirs, failed = (json.loads(line) for line in lines("json"))
    assert (ours["event"], ours["count"], ours["level"]) == ("ours.happened", 3, "info")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("theirs happened", "library", "warning")
    assert "ValueError: broke" in failed["exception"]
    for line in (ours, theirs, failed):
        assert (line["job"], line["step"]) == ("j1", "workflow#launch/s")
        assert line["timestamp"].endswith("Z")


def test_the_console_shows_no_local_variables() -> None:
    text = "\n".join(lines("console"))
    assert "theirs happened" in text
    assert "ValueError: broke" in text
    assert "hidden in a local variable" not in text.replace('secret = "hidden in a local variable"', "")


OUTAGE = """
import time
import structlog
from launchbay.telemetry.logs import configure_logs
configure_logs("info", "json")
log = structlog.get_logger("ours")
now_s = 1000.0
time.monotonic = lambda: now_s
for round in range(130):  # a second each
    log.warning("loop.postponed", error="It is away.", task=f"t{round % 7}", repeats=True)
    log.warning("heart.lost", error="It is away.", repeats=True)
    now_s += 1.0
log.warning("loop.postponed", error="It is slow.", repeats=True)
log.warning("loop.postponed", error="It is slow.")
"""


OF_DATABASE = """
import structlog
from launchbay.telemetry.logs import configure_logs
configure_logs("info", "json")
log = structlog.get_logger("ours")
for begin, end in (("database.away", "database.returned"), ("database.disk_full", "database.disk_has_room")):
    log.warning(begin)
    log.warning("loop.postponed", error=begin, repeats=True)
    log.warning("other")
    log.warning(end)
    log.warning("loop.postponed", error=end, repeats=True)
"""


def test_an_outage_of_the_database_is_one_line_and_not_one_of_everything_that_waits_for_it() -> None:
    run = subprocess.run([sys.executable, "-c", OF_DATABASE], capture_output=True, text=True, check=True)
    found = [json.loads(line)["event"] for line in run.stderr.splitlines()]
    away, full = (
        ["database.away", "other", "database.returned"],
        ["database.disk_full", "other", "database.disk_has_room"],
    )
    assert found == [*away, "loop.postponed", *full, "loop.postponed"]


def test_what_is_tried_again_and_again_is_a_line_at_first_and_one_each_minute() -> None:
    run = subprocess.run([sys.executable, "-c", OUTAGE], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in run.stderr.splitlines()]
    assert all("repeats" not in line for line in found)
    of_loop = [(line["error"], line.get("repeated")) for line in found if line["event"] == "loop.postponed"]
    away, slow = "It is away.", "It is slow."
    assert of_loop == [(away, None), (away, 60), (away, 60), (slow, None), (slow, None)]
    assert [line.get("repeated") for line in found if line["event"] == "heart.lost"] == [None, 60, 60]


async def test_what_a_step_logs_names_its_job_instance_and_step(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    run = Wait.run

    async def watched(self: Wait, call: ActionCall) -> Mapping[str, Any]:
        seen.append(dict(get_contextvars()))
        return await run(self, call)

    monkeypatch.setattr(Wait, "run", watched)
    instance = await api.running("launch: {steps: [{rest: {action: wait, parameters: {delay: 0 sec}}}]}")
    [job] = (await api.document(instance))["workflowHistory"]
    [found] = seen
    assert (found["job"], found["instance"], found["step"]) == (job["id"], instance, "workflow#launch/rest")
