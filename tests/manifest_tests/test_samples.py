"""The manifests of tests/samples launch and go in memory, as they do with a server."""

from pathlib import Path

import pytest

from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest_tests.suite import read_suite
from tests.support.applications import stand_ins
from tests.support.manifests import ACTIONS, SAMPLES, WORKBENCH

# What the environment must offer to some of them.
OFFERED = """
environment:
  markers: [licence]
  properties: { name: Alexandria, readers: 42, address: { street: Canopic Way } }
  services: { lending: { motto: read more, lend: { place: a shelf } } }
"""
TESTS = """
tests:
  it launches and goes:
    - launch:
      expect: { status: Running }
    - destroy:
      expect: { status: Destroyed, machines: {} }
"""


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_launches_and_goes(name: str, tmp_path: Path) -> None:
    applications = stand_ins(compile_manifest(SAMPLES[name].read_bytes(), known_actions=ACTIONS))
    for number, text in enumerate(applications.values()):
        (tmp_path / f"{number}.yml").write_text(text)
    named = "".join(f"  {each!r}: {number}.yml\n" for number, each in enumerate(applications))
    text = f"manifest: {SAMPLES[name].resolve()}\napplications:\n{named}{OFFERED}{TESTS}"
    [outcome] = WORKBENCH.results(read_suite(tmp_path / "a.test.yml", text.encode()), lambda _: True)
    assert outcome.differences == ()
