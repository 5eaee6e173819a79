"""The page of the architecture shows the tree as it is, in the layers that the import rules check."""

import configparser
import re
from collections.abc import Iterator

from tests.support.documentation import DOCS, ROOT, blocks

MODULES = DOCS / "contribute" / "modules.md"
PAGE = DOCS / "explain" / "architecture.md"
SOURCE = ROOT / "src" / "launchbay"


def shown_layers() -> list[set[str]]:
    """Return the names in each line of the tree that the page draws."""
    (block,) = (block for block in blocks(PAGE) if block.text.startswith("app\n"))
    return [set(line.split()) for line in block.text.splitlines()]


def checked_layers() -> Iterator[set[str]]:
    """Yield the names in each layer of the import rules, without those that are not there yet."""
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    for line in rules["importlinter:contract:layers"]["layers"].split("\n"):
        names = set(re.findall(r"launchbay\.(\w+)", line))
        there = {name for name in names if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()}
        if there:
            yield there


def test_the_page_shows_every_part_of_the_package_and_no_other() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert set().union(*shown_layers()) == folders | modules


def test_every_folder_is_explained_in_the_table() -> None:
    explained = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), flags=re.MULTILINE))
    assert explained == {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    assert shown_layers() == list(checked_layers())


def test_every_module_has_one_line() -> None:
    listed = re.findall(r"^\| `([\w/]+\.py)` \| \S", MODULES.read_text("utf-8"), flags=re.MULTILINE)
    modules = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    registrations = {f"features/{name}/feature.py" for name in features()}  # the section names them
    assert sorted(listed) == sorted(modules - registrations)


def test_every_feature_has_a_section() -> None:
    sections = re.findall(r"^### `features/(\w+)/`$", MODULES.read_text("utf-8"), flags=re.MULTILINE)
    assert sections == features()


def features() -> list[str]:
    return sorted(path.parent.name for path in SOURCE.glob("features/*/feature.py"))
