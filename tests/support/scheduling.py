"""Which test process gets which tests: whole files, those that take longest first.

    python -m tests.support.scheduling build/junit.xml

writes down how long each file took in a run with `--junitxml=build/junit.xml`. A file that was never measured counts
by its number of tests.
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
TOGETHER = ("tests/browser/", "tests/cli/", "tests/truth/")  # folders whose files share what starts slowly


class ByDuration(LoadScopeScheduling):  # type: ignore[misc]  # the package ships no type hints
    """Gives each process the longest file that is left, so that none ends long after the others."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._durations_s: Mapping[str, float] = json.loads(DURATIONS.read_text("utf-8"))

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._seconds), last=False)
        super()._assign_work_unit(node)

    def _seconds(self, scope: str) -> float:
        tests: Collection[str] = self.workqueue[scope]
        return self._durations_s.get(scope, GUESS_S * len(tests))


def scope(nodeid: str) -> str:
    """Return the file of a test, or the folder if all of its files go to one process."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def durations_s(junit: Path) -> dict[str, int]:
    """Return the seconds of each file or folder in pytest's report."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(junit).getroot().iter("testcase"):
        file = f"{case.attrib['classname'].replace('.', '/')}.py"
        found[scope(file)] += float(case.attrib["time"])
    return {file: round(seconds) for file, seconds in sorted(found.items()) if seconds >= LEAST_S}


if __name__ == "__main__":
    DURATIONS.write_text(json.dumps(durations_s(Path(sys.argv[1])), indent=1) + "\n", "utf-8")
