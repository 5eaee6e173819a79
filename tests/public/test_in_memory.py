"""The public manifests as tests of their own: all launch and go, in memory, as they do with a server."""

from pathlib import Path

import pytest

from launchbay.manifest.compiler import compile_manifest
from launchbay.manifest_tests.suite import read_suite
from tests.support.applications import (
    stand_ins,
)
from tests.support.manifests import (
    ACTIONS,
    PUBLIC,
    WORKBENCH,
)
from tests.support.public_manifests import (
    RUNS,
)

# What the environment must offer to some of them.
OFFERED = """
environment:
  markers: [test-marker]
  properties:
    sample-property-str: text
    sample-property-int: 42
    sample-property-obj: { aa: bb }
    s3-credentials: { access-key: AK, secret-key: SK }
  services: { foo: { stringValue: hello } }
"""
TESTS = """
tests:
  it launches and goes:
    - launch:
      expect: { status: Running }
    - destroy:
      expect: { status: Destroyed, machines: {} }
"""


@pytest.mark.parametrize("path", PUBLIC.values(), ids=PUBLIC)
def test_a_public_manifest_launches_and_goes(path: Path, tmp_path: Path) -> None:
    applications = stand_ins(compile_manifest(path.read_bytes(), known_actions=ACTIONS))
    for number, text in enumerate(applications.values()):
        (tmp_path / f"{number}.yml").write_text(text)
    named = "".join(f"  {name!r}: {number}.yml\n" for number, name in enumerate(applications))
    text = f"manifest: {path.resolve()}\napplications:\n{named}{OFFERED}{TESTS}"
    suite = read_suite(tmp_path / "a.test.yml", text.encode())
    [outcome] = WORKBENCH.results(suite, lambda _: True)
    assert outcome.differences == ()
    assert outcome.seconds < 5


@pytest.mark.parametrize("stem", RUNS)
def test_it_returns_what_a_server_returns(stem: str, tmp_path: Path) -> None:
    path = PUBLIC[stem]
    values = "".join(f"\n            {name}: {value}" for name, value in RUNS[stem].items()) or " {}"
    text = f"""
manifest: {path.resolve()}
tests:
  it returns it:
    - launch:
      expect:
          values:{values}
"""
    [outcome] = WORKBENCH.results(read_suite(tmp_path / "a.test.yml", text.encode()), lambda _: True)
    assert outcome.differences == ()
