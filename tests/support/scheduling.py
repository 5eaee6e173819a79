"""Which test process gets which tests: whole files, long ones first, then those of the folder where it is.

    python -m tests.support.scheduling build/junit.xml

writes down how long each file took in a run with `--junitxml=build/junit.xml`, and keeps what it knows of others. A
file that was never measured counts by its number of tests.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from xdist.scheduler import LoadScopeScheduling

DURATIONS = Path(__file__).with_name("durations.json")
LEAST_S = 1  # what takes less is not written down
GUESS_S = 0.1  # a test of a file that was never measured
LONG_S = 10  # such a file is begun early wherever it is, so that it isn't what all wait for at the end
SHARING = {"tests/features"}  # folders whose files share a service (decision 0259)
TOGETHER = ("tests/browser/", "tests/cli/", "tests/truth/")  # folders whose files share what starts slowly


class ByDuration(LoadScopeScheduling):  # type: ignore[misc]  # the package ships no type hints
    """Gives each process the longest file that is left, or the longest in its folder if all are short and these share.

    What the files of a folder share, such as a running service, ends when a process goes to another folder.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._durations_s: Mapping[str, float] = json.loads(DURATIONS.read_text("utf-8"))

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(self._next(node), last=False)
        super()._assign_work_unit(node)

    def _next(self, node: Any) -> str:
        longest: str = max(self.workqueue, key=self._seconds)
        folders = {folder(scope) for scope in list(self.assigned_work.get(node, ()))[-1:]} & SHARING
        near: list[str] = [scope for scope in self.workqueue if folder(scope) in folders]
        return max(near, key=self._seconds) if near and self._seconds(longest) < LONG_S else longest

    def _seconds(self, scope: str) -> float:
        tests: Collection[str] = self.workqueue[scope]
        return self._durations_s.get(scope, GUESS_S * len(tests))


def scope(nodeid: str) -> str:
    """Return the file of a test, or the folder if all of its files go to one process."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def folder(scope: str) -> str:
    """Return the folder below `tests` that a file is in, at whatever depth."""
    return "/".join(scope.split("/")[:2])


def durations_s(junit: Path) -> dict[str, int]:
    """Return the seconds of each file or folder in pytest's report."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(junit).getroot().iter("testcase"):
        file = f"{case.attrib['classname'].replace('.', '/')}.py"
        found[scope(file)] += float(case.attrib["time"])
    return {file: round(seconds) for file, seconds in sorted(found.items()) if seconds >= LEAST_S}


if __name__ == "__main__":
    before: Mapping[str, int] = json.loads(DURATIONS.read_text("utf-8"))
    known = {file: seconds for file, seconds in before.items() if (DURATIONS.parents[2] / file).exists()}
    DURATIONS.write_text(json.dumps(known | durations_s(Path(sys.argv[1])), indent=1, sort_keys=True) + "\n", "utf-8")
