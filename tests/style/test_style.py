"""The rules of shape that no linter knows (architecture, "Rules of shape")."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.sources import nodes_of, tree_of

ROOT = Path(__file__).parents[2]
NOT_A_NAME = {"manager", "helper", "helpers", "util", "utils", "common", "base"}
LEFT_OPEN = re.compile(r"\b(TODO|FIXME|XXX)\b")
# A comment that silences a check says why, after the check's name.
SILENCED = re.compile(r"#\s*(?:noqa|type:\s*ignore)\b(?::\s*[A-Z0-9, ]+|\[[\w, -]+\])?(?P<reason>.*)")

PRODUCT = sorted((ROOT / "src").rglob("*.py"))
ALL = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


def _product_rules(tree: ast.Module) -> Iterator[str]:
    """Yield imports inside functions, unfinished work and names that say nothing."""
    nodes = nodes_of(tree)
    has_inner = any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset > 0 for node in nodes)
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if has_inner:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        yield f"{inner.lineno}: an import inside {node.name}"
            case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))) if name == "NotImplementedError":
                yield f"{node.lineno}: NotImplementedError"
            case ast.ClassDef(name=name):
                for word in {found.lower() for found in re.findall(r"[A-Z][a-z]+", name)} & NOT_A_NAME:
                    yield f"{node.lineno}: the class {name} is called {word}"


def _comment_rules(text: str) -> Iterator[str]:
    """Yield comments that promise work, or silence a check without a reason."""
    if not LEFT_OPEN.search(text) and not SILENCED.search(text):
        return  # taking all files apart takes seconds
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if LEFT_OPEN.search(token.string):
                yield f"{token.start[0]}: {token.string}"
            silenced = SILENCED.search(token.string)
            if silenced and len(re.sub(r"\W", "", silenced["reason"])) < 8:
                yield f"{token.start[0]}: silences a check and gives no reason beside it: {token.string}"


def _breaches(paths: Iterable[Path], rules: Callable[[Path], Iterable[str]]) -> list[str]:
    """Return what the rules find in the files, each with its place."""
    return [f"{path.relative_to(ROOT)}:{found}" for path in paths for found in rules(path)]


def test_comments_keep_no_promises_and_give_reasons() -> None:
    assert len(ALL) > len(PRODUCT) > 0
    assert _breaches(ALL, lambda path: _comment_rules(path.read_text("utf-8"))) == []


def test_the_product_follows_the_rules_of_shape() -> None:
    assert _breaches(PRODUCT, lambda path: _product_rules(tree_of(path))) == []


def test_no_two_migrations_have_the_same_number() -> None:
    numbers = Counter(path.name[:4] for path in (ROOT / "src/launchbay/store/migrations").glob("*.sql"))
    assert [number for number, count in numbers.items() if count > 1] == [], "one of two would never be applied"


def test_no_two_decisions_have_the_same_number() -> None:
    numbers = Counter(path.name[:4] for path in (ROOT / "docs/contribute/decisions").glob("[0-9]*.md"))
    assert [number for number, count in numbers.items() if count > 1] == [], "others cite a decision by its number"


def test_the_name_of_a_module_says_what_is_in_it() -> None:
    parts = {part for path in PRODUCT for part in path.relative_to(ROOT / "src").parts}
    assert {part for part in parts if NOT_A_NAME.intersection(Path(part).stem.split("_"))} == set()


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("x = 1  # TO" + "DO: later\n", 1),
        ("x = 1  # no" + "qa: S603\n", 1),
        ("x = 1  # no" + "qa: S603 - our own program\n", 0),
        ("x = 1  # type: ig" + "nore[arg-type]\n", 1),
        ("x = 1  # type: ig" + "nore[arg-type] # libpq takes bytes too\n", 0),
        ("def f():\n    import os\n", 1),
        ("raise NotImplementedError\n", 1),
        ("class JobManager: pass\n", 1),
        ("class Jobs: pass\n", 0),
    ],
)
def test_the_rules_find_what_breaks_them(text: str, findings: int) -> None:
    assert len([*_comment_rules(text), *_product_rules(ast.parse(text))]) == findings


# Who reads or writes YAML: the reader, the writer, and the roles, whose texts have no values but names and patterns.
YAML_LIBRARY = {"manifest/reader.py", "model/yaml_text.py", "auth/gate.py"}
OTHER_READERS = re.compile(
    r"\byaml\.\w*(?:load|dump|compose|construct|represent|Resolver)|\b(?:safe_load|safe_dump|ruamel)\b"
    r"|\w*(?:Dumper|Constructor|Resolver)\b|\badd_(?:implicit_resolver|constructor|representer)\b"
)


# Any way to get at a library of YAML, also inside of a function, by another name or through msgspec.
_LIBRARY_USE = re.compile(
    r"^\s*import\s[^\n#]*\byaml\b|^\s*from\s+yaml\b(?! import YAMLError$)|\bruamel\b|\b(?:strict|o|ry|hyper)yaml\b"
    r"|\bmsgspec\.yaml\b|\bfrom\s+msgspec\s+import\b[^\n]*\byaml\b|(?:import_module|__import__)\(\s*[\"']yaml",
    re.MULTILINE,
)


def test_one_module_reads_yaml_and_one_writes_it() -> None:
    texts = {str(path.relative_to(ROOT / "src" / "launchbay")): path.read_text("utf-8") for path in PRODUCT}
    uses = {name: text for name, text in texts.items() if _LIBRARY_USE.search(text)}
    assert uses.keys() == YAML_LIBRARY
    assert {name for name in uses if OTHER_READERS.search(uses[name])} == {"model/yaml_text.py"}
    tagged = {
        str(path.relative_to(ROOT / "src" / "launchbay")) for path in PRODUCT if "tag:yaml.org" in path.read_text()
    }
    assert tagged == {"model/scalars.py", "model/yaml_text.py"}, "another table of YAML's scalars"


@pytest.mark.parametrize(
    ("text", "is_use"),
    [
        ("import yaml\n", True),
        ("import yaml as y\n", True),
        ("import json, yaml\n", True),
        ("def read():\n    import yaml\n", True),
        ("from yaml import safe_load\n", True),
        ("from yaml import YAMLError, load\n", True),
        ("from ruamel.yaml import YAML\n", True),
        ("import msgspec\nmsgspec.yaml.decode(b'')\n", True),
        ("from msgspec import json, yaml\n", True),
        ("importlib.import_module('yaml')\n", True),
        ("from yaml import YAMLError\n", False),
        ("from launchbay.model.yaml_text import yaml_text\n", False),
        ("import json  # as yaml\n", False),
    ],
)
def test_no_second_reader_of_yaml_gets_past_the_search(text: str, is_use: bool) -> None:
    assert bool(_LIBRARY_USE.search(text)) is is_use
