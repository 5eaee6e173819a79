"""Runs tests in a crowd, and those that failed there once more alone (decision 0102): `python -m tests.support.twice`.

Arguments are those of pytest. Its cache isn't asked what failed: it can be off, or its directory read-only.
"""

import subprocess
import sys

import pytest

# A third of what tests do is waiting: two processes for each of two cores.
CROWD = ["-n", "4", "--dist", "loadscope"]
# So many are no accident.
MOST_FAILED = 10


class Failures:
    """Notes the tests that fail, in order, each once."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test whose setup, call or teardown failed."""
        if report.failed:
            self.ids[report.nodeid] = None


def main(arguments: list[str]) -> int:
    """Run the tests; return 0 if each passed in the crowd or alone, else the exit code of pytest."""
    failures = Failures()
    code = pytest.main([*CROWD, "--maxfail", str(MOST_FAILED), *arguments], plugins=[failures])
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failures.ids) < MOST_FAILED:
        return code
    print(f"\n{len(failures.ids)} tests failed among others. They run once more, alone.", flush=True)
    # A report that was asked for stays that of the whole run.
    return subprocess.run([sys.executable, "-m", "pytest", "--junitxml=", *failures.ids], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
