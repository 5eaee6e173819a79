"""Charts of Helm, fetched here and not by the program: from addresses that the rules allow."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from launchbay.actions.contract import ActionCall
from launchbay.actions.parameters import optional_text, required_text
from launchbay.actions.safe_yaml import read_documents
from launchbay.egress.archives import fetched
from launchbay.errors import ActionFailed

_CHART = "the URL of a chart (tgz), or with repository its name there"
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


async def fetch_chart(call: ActionCall, directory: Path) -> Path:
    """Fetch the chart that the parameters name and return its file. Raises ActionFailed."""
    chart = required_text(call.parameters, "chart", _CHART)
    repository = optional_text(call.parameters, "repository", "the URL of a chart repository")
    if repository is not None:
        chart = await _address(call, repository.rstrip("/") + "/", chart)
    if not chart.startswith(("https://", "http://")):
        raise ActionFailed(
            f"The parameter 'chart' is wrong: expected {_CHART}; registries (oci://) are not supported.",
            retryable=False,
        )
    file = directory / "chart.tgz"
    await asyncio.to_thread(file.write_bytes, await fetched(call.context.outgoing, chart))
    return file


async def _address(call: ActionCall, repository: str, name: str) -> str:
    """Return the address of a chart in a repository: of the version that is asked for, or of the newest."""
    version = optional_text(call.parameters, "version", "a version of the chart")
    try:
        [index] = read_documents((await fetched(call.context.outgoing, f"{repository}index.yaml")).decode("utf-8"))
        entries = index["entries"][name]
        found = [entry for entry in entries if version is None or str(entry["version"]) == version]
        newest = max(found, key=_order, default=None)
        if newest is not None:
            return urljoin(repository, str(newest["urls"][0]))
    except (KeyError, IndexError, TypeError, ValueError):
        found = []
    wanted = name if version is None else f"{name} {version}"
    raise ActionFailed(f"The repository's index.yaml has no chart {wanted!r} that can be read.", retryable=False)


def _order(entry: Mapping[str, Any]) -> tuple[bool, tuple[int, ...]]:
    """Return what orders versions: those without a suffix, such as -rc.1, come after all that have one."""
    text = str(entry["version"]).partition("+")[0]
    numbers = _NUMBERS.match(text)
    return "-" not in text, tuple(map(int, numbers.groups())) if numbers else ()
