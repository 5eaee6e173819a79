"""Suites of tests from texts, and how their cases went."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from launchbay.manifest_tests.runner import CaseResult, SuiteRunner
from launchbay.manifest_tests.suite import read_suite

WORKBENCH = SuiteRunner()


def outcomes(folder: Path, manifest: str, tests: str, others: Mapping[str, str] | None = None) -> list[CaseResult]:
    """Write a manifest, its tests and other files into a folder, and run the tests."""
    for name, text in {"app.yml": manifest, **(others or {})}.items():
        (folder / name).write_text(dedent(text))
    path = folder / "app.test.yml"
    path.write_text(dedent(tests))
    WORKBENCH.compiled.cache_clear()
    return list(WORKBENCH.results(read_suite(path, path.read_bytes()), lambda _: True))


def told(folder: Path, manifest: str, tests: str, others: Mapping[str, str] | None = None) -> list[str]:
    """Return what differs, each with its line."""
    return [
        f"{difference.line}: {difference.text}"
        for outcome in outcomes(folder, manifest, tests, others)
        for difference in outcome.differences
    ]
