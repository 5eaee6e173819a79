import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.errors import CannotStart
from launchbay.service_types.contract import ENTRY_POINT_GROUP
from launchbay.service_types.registry import BUILT_IN, ServiceTypes
from tests.support.services import Oracle

WORKING = """
class Clock:
    id = "example:clock"
    name = "Clock"
    parameters = {}
    commands = {}
    interfaces = {}

    async def check(self, scope, parameters):
        return {}

    async def run(self, command, call):
        return {}
"""


class Packages:
    """Makes packages with service types visible, as an installer would: a module and its metadata on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, package: str, source: str) -> None:
        module = package.replace("-", "_")
        (self.folder / f"{module}.py").write_text(source)
        metadata = self.folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\nclock = {module}:Clock\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield Packages(tmp_path)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(
    "type_id",
    ["workflow_service", "cobalt_secure_store", "shared_instances_catalog", "static_resource_pool", "cloud_account"],
)
def test_every_type_of_the_language_is_known(type_id: str) -> None:
    found = ServiceTypes.load().find(f"builtin:{type_id}")
    assert found is not None
    assert found.id == f"builtin:{type_id}"


def test_an_unknown_id_finds_nothing() -> None:
    assert ServiceTypes.load().find("builtin:nothing") is None


def test_types_are_listed_by_id() -> None:
    ids = [kind.id for kind in ServiceTypes([("p", kind) for kind in (Oracle(), *BUILT_IN)]).all()]
    assert ids == sorted(ids)
    assert len(ids) == len(BUILT_IN) + 1


def test_a_package_brings_a_type(packages: Packages) -> None:
    packages.install("clock-package", WORKING)
    types = ServiceTypes.load()
    found = types.find("example:clock")
    assert found is not None
    assert found.name == "Clock"
    assert types.problems == ()


def test_two_types_of_one_id_keep_the_server_from_starting(packages: Packages) -> None:
    packages.install("clock-package", WORKING.replace("example:clock", "builtin:cloud_account"))
    with pytest.raises(CannotStart, match="Packages launchbay and clock-package both provide"):
        ServiceTypes.load()


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ('id = "example:clock"', "id = 5", "its 'id' is not a non-empty string"),
        ('name = "Clock"', 'name = ""', "its 'name' is not a non-empty string"),
        ("parameters = {}", "parameters = []", "its 'parameters' is not a map from names to ServiceParameter"),
        ("commands = {}", "commands = {'a': 1}", "its 'commands' is not a map from names to ServiceCommand"),
        ("interfaces = {}", "interfaces = {'a': 1}", "its 'interfaces' is not a map from names to Mapping"),
        ("async def run", "def run", "its 'run' is not an async function"),
        ("async def check", "def check", "its 'check' is not an async function"),
        ("class Clock:", "class Clock(Missing):", "NameError"),
    ],
)
def test_a_type_that_breaks_the_contract_is_left_out_with_the_reason(
    packages: Packages, was: str, now: str, says: str
) -> None:
    packages.install("clock-package", WORKING.replace(was, now))
    types = ServiceTypes.load()
    assert types.find("example:clock") is None
    [problem] = types.problems
    assert problem.startswith("Can't load service type 'clock' of package clock-package (clock_package:Clock)")
    assert says in problem
    assert len(types.all()) == len(BUILT_IN)
