"""Which files aren't collected: those without anything that a marker expression asks for, and no others."""

from pathlib import Path

import pytest

from tests.support.selection import nothing_in

SLOW = "slow and not packages and not faults and not load"
QUICK = "not slow and not faults and not load"
MIXED = "import pytest\n\n@pytest.mark.slow\ndef test_a(): ...\n\ndef test_b(): ...\n"
QUICK_ONLY = "def test_slowly(): ...\n"
SLOW_ONLY = "import pytest\n\npytestmark = [pytest.mark.slow, pytest.mark.timeout(9)]\n\ndef test_a(): ...\n"
IN_PART = "class TestSome:\n    pytestmark = pytest.mark.slow\n    def test_a(self): ...\n\ndef test_b(): ...\n"


@pytest.mark.parametrize(
    ("text", "slow", "quick"),
    [(MIXED, False, False), (QUICK_ONLY, True, False), (SLOW_ONLY, False, True), (IN_PART, False, False)],
)
def test_a_file_is_left_out_where_all_of_its_tests_would_be(tmp_path: Path, text: str, slow: bool, quick: bool) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(text, "utf-8")
    assert nothing_in(file, SLOW) is slow
    assert nothing_in(file, QUICK) is quick
    for expression in ("", "hypothesis and not faults", "slow or faults", "not (slow)"):
        assert not nothing_in(file, expression)


def test_a_mark_that_the_folder_gives_counts(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(QUICK_ONLY, "utf-8")
    (tmp_path / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items): items[0].add_marker(pytest.mark.slow)\n"
    )
    assert not nothing_in(file, SLOW)
