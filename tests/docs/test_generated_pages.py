"""The pages of the reference that follow from the code have everything that there is."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from generators.limits_page import limit_value
from generators.pages import pages
from generators.words import ROOT, described
from launchbay import limits
from launchbay.app.features import ENDPOINTS
from launchbay.auth.permissions import ALIASES, Permission
from launchbay.cli.exit_codes import MEANINGS, ExitCode
from launchbay.cli.main import SECTIONS
from launchbay.cli.verbs import nouns
from tests.support.documentation import DOCS

REFERENCE = DOCS / "reference"


def text(page: str) -> str:
    return (REFERENCE / page).read_text("utf-8")


@cache
def folder(name: str) -> str:
    """Return the pages of a folder, one after another."""
    return "\n".join(path.read_text("utf-8") for path in sorted((REFERENCE / name).glob("*.md")))


def test_every_operation_is_on_the_page_of_the_api() -> None:
    sections, index = folder("api"), text("api/index.md")
    for row in ENDPOINTS:
        assert f"## {row.operation_id}\n\n`{row.method} {row.path}`\n" in sections, row.operation_id
        assert f'<a id="{row.operation_id}"></a>' in index, row.operation_id


def commands() -> Iterator[str]:
    for entries in SECTIONS.values():
        for name in entries:
            verbs = nouns().get(name)
            yield from [f"{name} {verb}" for verb in verbs] if verbs else [name]


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = folder("cli")
    assert [name for name in commands() if f"## launchbay {name}" not in page] == []
    assert "```sh\nlaunchbay diff shop@3 shop@4\nlaunchbay diff shop@newest" in page, (
        "lines that a help keeps stay lines"
    )
    assert not [each for each in page if not each.isprintable() and each != "\n"]


@pytest.mark.parametrize("name", ["api", "cli"])
def test_no_page_of_a_generated_folder_is_left_over(name: str) -> None:
    found = {path.relative_to(ROOT) for path in (REFERENCE / name).glob("*.md")}
    assert found == {path for path in pages(described()) if path.is_relative_to(f"docs/reference/{name}")}


def test_every_limit_is_on_its_page_with_its_value() -> None:
    page = text("limits.md")
    names = [name for name in vars(limits) if name.isupper() and name not in {"KIB", "MIB"}]
    assert len(names) > 100
    assert [name for name in names if f"| `{name}` | " not in page] == []
    assert f"| `LIST_LIMIT_MAX` | {limits.LIST_LIMIT_MAX:,} |" in page


@pytest.mark.parametrize(
    ("page", "sentence", "names"),
    [
        ("findings.md", "The manifest is larger than {}.", ["MANIFEST_BYTES"]),
        ("findings.md", "Nesting is deeper than {} levels.", ["MANIFEST_DEPTH"]),
        ("findings.md", "More than {} values, with aliases expanded.", ["MANIFEST_NODES"]),
        ("findings.md", "More than {} bound pins.", ["MANIFEST_BOUND_PINS"]),
        ("findings.md", "`parallel` a number from 1 to {},", ["EACH_PARALLEL_MAX"]),
        ("findings.md", "Above {} it is a warning", ["STEP_RETRIES_MAX"]),
        (
            "manifest/structure.md",
            "{}, {} levels, {} values with aliases expanded.",
            ["MANIFEST_BYTES", "MANIFEST_DEPTH", "MANIFEST_NODES"],
        ),
    ],
)
def test_sentences_with_limits_of_manifests_have_their_values(page: str, sentence: str, names: list[str]) -> None:
    assert sentence.format(*map(limit_value, names)) in text(page)


def test_every_limit_bounds_something() -> None:
    folder = ROOT / "src" / "launchbay"
    used = Counter(word for path in folder.rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8")))
    assert [name for name in vars(limits) if name.isupper() and used[name] < 2] == []


def test_every_permission_is_on_its_page_in_all_spellings() -> None:
    page = text("permissions.md")
    assert [each for each in [*Permission, *ALIASES] if f"`{each}`" not in page] == []


def test_every_exit_code_is_on_its_page_and_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)
    page = text("exit-codes.md")
    assert [code for code in ExitCode if f"| `{int(code)}` | {code.name} |" not in page] == []


def test_the_variables_of_the_command_line_are_on_its_page() -> None:
    folder = ROOT / "src" / "launchbay" / "cli"
    source = "".join(path.read_text("utf-8") for path in folder.rglob("*.py"))
    page = text("cli/index.md")
    names = set(re.findall(r'"(LAUNCHBAY_[A-Z_]+)"', source))
    assert len(names) > 5
    assert [name for name in names if f"`{name}" not in page] == []
