"""One run of schemathesis, as a process of its own, against a served description."""

import asyncio
import importlib.util
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.served import ENDPOINTS
from tests.support.worlds import Target

WORDS_FILE = "LAUNCHBAY_FUZZING_WORDS"  # the variable that names the file with noun → values
_NOUNS = {
    "orgId": "organizations",
    "userId": "users",
    "roleId": "roles",
    "appId": "applications",
    "revId": "revisions",
    "envId": "environments",
    "jobId": "jobs",
    "otherJobId": "jobs",
    "workflow": "workflow",
    "commandname": "commandname",
}


def noun_of(path: str, parameter: str) -> str | None:
    """Return what a path parameter is one of; `{id}` says it together with the word before it."""
    if parameter in _NOUNS:
        return _NOUNS[parameter]
    before = path.partition("{" + parameter + "}")[0].rstrip("/")
    return before.rpartition("/")[2] or None


ROOT = Path(__file__).parents[2]
IS_INSTALLED = importlib.util.find_spec("schemathesis") is not None
OFTEN = 0.8
_CASES = re.compile(r"^\s*(\d+) generated", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """What a run found: its cases, its findings (0: none), and its whole text."""

    cases: int
    findings: int
    text: str


def settings(target: Target, *, max_time_s: int | None = None) -> str:
    """Return the settings of a run, as TOML."""
    lines = [
        f"hooks = {json.dumps('tests.support.schemathesis_hooks')}",
        "request-timeout = 30",
        "max-stream-events = 2",
        *([] if max_time_s is None else [f"max-time = {max_time_s}"]),
        # Whatever method a path lacks, the router refuses it in the same way.
        *_table("phases.coverage", {"unexpected-methods": ["PATCH"]}),
        *_table("auth.openapi.bearer", {"bearer": target.token}),
    ]
    for name, values in target.words.items():
        lines += _table(f"dictionaries.{name}", {"values": values})
    for row in ENDPOINTS:
        nouns = {name: noun_of(row.path, name) for name in row.parameters()}
        known = {f"path.{name}": noun for name, noun in nouns.items() if noun in target.words}
        if row.operation_id == "explain_permission":
            known = {"query.path": "paths", "query.user": "users"}
        if known:
            lines += ["[[operations]]", f"include-operation-id = {json.dumps(row.operation_id)}"]
            lines += ["[operations.parameters]", *(_binding(name, noun) for name, noun in known.items() if noun)]
    return "\n".join(lines) + "\n"


async def run(target: Target, directory: Path, *options: str, max_time_s: int | None = None) -> Report:
    """Let schemathesis try the service with all checks, and return what it found."""
    config = directory / "schemathesis.toml"
    config.write_text(settings(target, max_time_s=max_time_s), "utf-8")
    words = directory / "words.json"
    words.write_text(json.dumps(target.words), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"),
        *(f"http://127.0.0.1:{target.port}/api/1/openapi.json", "--checks", "all", "--continue-on-failure", *options),
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), WORDS_FILE: str(words)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    text = output.decode("utf-8", "replace")
    cases = _CASES.search(text)
    return Report(int(cases[1]) if cases else 0, process.returncode or 0, text)


def _table(name: str, values: Mapping[str, object]) -> list[str]:
    return [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]


def _binding(parameter: str, words: str) -> str:
    return f'"{parameter}" = {{ dictionary = "{words}", probability = {OFTEN} }}'
