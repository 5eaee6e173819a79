"""The modules of the product and of the tests depend on each other as the architecture page says."""

import ast
import builtins
import configparser
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.sources import nodes_of, tree_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
SMALL_LINES = 40
BUILT_IN = {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
# An import of a folder of tests, and whether it is of tests in there.
FROM_TESTS = re.compile(r"\bfrom\s+(tests(?:\.\w+)?)\b(?:[.\w]*\.(test_|conftest))?")
SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\s", re.DOTALL)

# Packages whose names users import, though other modules define them.
PUBLIC = {"launchbay.client": "the documented import path of the Python client"}
# Modules under 40 lines with a single importer.
SMALL: dict[str, str] = {}
# Imports that lead up (decision 0181).
CLIMBS = {
    "launchbay.cli.diff imports launchbay.features.directories.cli": "one of the things that it compares is a directory"
}
# Public exceptions outside of the tree in errors.py.
OWN_ROOTS = {
    "ClientError": "people use the client package without the server",
    "TooExpensive": "it ends an attempt in place, and no caller of the evaluation sees it",
    "RuleBusy": "who never waits asks again later, and no caller sees it",
    "WrongDocument": "what reads a value raises ValueError, and this one knows the place in the document",
    "Omitted": "a list of what a directory can't hold takes its text, and no caller sees it",
    "JsonLimitExceeded": "parse_json raises ValueError for every string that it rejects, and this is one kind of it",
}
# Files of tests that are neither tests nor shared helpers.
PROGRAMS = {
    "tests/actions/stand_ins/helm.py": "a program that tests copy and start",
    "tests/client/typed.py": "source text for the type checkers that test_typing.py starts",
    "tests/durability/probe/launchbay_probe.py": "a package that tests install",
    "tests/style/features.py": "a command, which test_features.py starts",
    "tests/style/prose.py": "the command of `make prose`",
}


@pytest.fixture(scope="module")
def modules() -> Mapping[str, ast.Module]:
    """Each module of the product by its dotted name."""
    read = {}
    for path in sorted((SOURCE / "launchbay").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        read[name.removesuffix(".__init__")] = tree_of(path)
    return read


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import from the product, wherever it stands."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "launchbay":
            for alias in node.names:
                yield node.module or "", alias.name


def imported_modules(name: str, modules: Mapping[str, ast.Module]) -> set[str]:
    """Return the modules of the product that a module imports."""
    pairs = imported_names(modules[name])
    return {f"{module}.{each}" if f"{module}.{each}" in modules else module for module, each in pairs}


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names that a module defines at its top level, also under conditions."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return found


def reexports(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield imports of a name from a module that only imports it itself."""
    defined = {name: defined_names(tree) for name, tree in modules.items()}
    for name, tree in modules.items():
        for module, each in imported_names(tree):
            if module not in PUBLIC and f"{module}.{each}" not in modules and each not in defined.get(module, ()):
                yield f"{name} imports {each} from {module}"


def cycle(modules: Mapping[str, ast.Module]) -> list[str]:
    """Return the modules that are in or behind a cycle of imports."""
    left = {name: imported_modules(name, modules) & set(modules) - {name} for name in modules}
    while free := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def layers() -> list[list[str]]:
    """Return the layers of the import rules, top first."""
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    lines = rules["importlinter:contract:layers"]["layers"].splitlines()
    return [found for line in lines if (found := re.findall(r"launchbay\.(\w+)", line))]


def climbs(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield imports that lead up, or to another package of the same layer."""
    place = {name: number for number, names in enumerate(layers()) for name in names}
    for name in modules:
        for other in imported_modules(name, modules):
            here, there = (f"{each}.".split(".")[1] for each in (name, other))
            if here and there and here != there and place[there] <= place[here]:
                yield f"{name} imports {other}"


def small_modules(modules: Mapping[str, ast.Module], lines: Mapping[str, int]) -> Iterator[str]:
    """Yield short modules that only one other module imports: they belong there. Registrations are to be short."""
    users = Counter(needed for name in modules for needed in imported_modules(name, modules) - {name})
    return (
        name for name in modules if lines[name] < SMALL_LINES and users[name] == 1 and not name.endswith(".feature")
    )


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the strings of a module that are no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode("latin-1")


def drawn_tree(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name in a picture of a tree with the name above it."""
    above = ["LaunchbayError"]
    for indent, name in re.findall(r"^((?:│   |    )*)[├└]── (\w+)", text, re.MULTILINE):
        depth = len(indent) // 4 + 1
        above[depth:] = [name]
        yield name, above[depth - 1]


def exception_bases(trees: Iterable[ast.Module]) -> dict[str, str]:
    """Return the base class of each exception, by name: what derives from a built-in exception, and so on down."""
    bases = {
        node.name: ast.unparse(node.bases[0]).rpartition(".")[2]
        for tree in trees
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef) and node.bases
    }
    found: dict[str, str] = {}
    while (
        more := {each: base for each, base in bases.items() if base in BUILT_IN | found.keys()}.items() - found.items()
    ):
        found.update(more)
    return found


def foreign_helpers(path: Path, text: str) -> Iterator[str]:
    """Yield imports of a test file from other tests than the shared helpers."""
    own = path.relative_to(ROOT).parts[:2]
    near = {"tests.support", ".".join(own)}
    if all(found[1] in near and found[2] is None for found in FROM_TESTS.finditer(text)):
        return  # parsing all tests takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests":
            parts = tuple((node.module or "").split("."))
            if parts[:2] not in (("tests", "support"), own) or parts[-1].startswith(("test_", "conftest")):
                yield f"{path.relative_to(ROOT)} imports from {node.module}"


def test_no_imports_form_a_cycle(modules: Mapping[str, ast.Module]) -> None:
    assert cycle(modules) == []


def test_imports_point_down_the_layers(modules: Mapping[str, ast.Module]) -> None:
    assert {name.split(".")[1] for name in modules if "." in name} == {name for names in layers() for name in names}
    assert list(climbs(modules)) == list(CLIMBS)


def test_each_name_has_one_import_path(modules: Mapping[str, ast.Module]) -> None:
    assert list(reexports(modules)) == []


def test_no_small_module_has_a_single_importer(modules: Mapping[str, ast.Module]) -> None:
    files = {name: SOURCE.joinpath(*name.split(".")) for name in modules}
    single = {name: tree for name, tree in modules.items() if not files[name].is_dir()}
    lines = {name: files[name].with_suffix(".py").read_text("utf-8").count("\n") for name in single}
    assert set(small_modules(single, lines)) == set(SMALL)


def test_only_the_store_contains_sql(modules: Mapping[str, ast.Module]) -> None:
    with_sql = {name for name, tree in modules.items() if any(SQL.search(text) for text in texts(tree))}
    others = {name for name in with_sql if not name.startswith("launchbay.store.")}
    assert others == {"launchbay.documentation"}  # which has its pages in an SQLite in memory


def test_every_exception_is_in_the_tree_or_has_a_reason(modules: Mapping[str, ast.Module]) -> None:
    bases = exception_bases(modules.values())
    roots = {name for name, base in bases.items() if base in BUILT_IN and not name.startswith("_")}
    assert roots == {"LaunchbayError", *OWN_ROOTS}


def test_the_picture_of_the_tree_is_complete(modules: Mapping[str, ast.Module]) -> None:
    bases = exception_bases(modules.values())
    inside = {"LaunchbayError"}
    while more := {name for name, base in bases.items() if base in inside} - inside:
        inside |= more
    shown = ast.get_docstring(modules["launchbay.errors"]) or ""
    assert dict(drawn_tree(shown)) == {name: bases[name] for name in inside - {"LaunchbayError"}}


def test_shared_helpers_of_tests_are_in_one_place() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in TESTS.rglob("*.py")}
    others = {name for name in files if not re.search(r"(^tests/support/.*|/test_\w+|/conftest|/__init__)\.py$", name)}
    assert others == set(PROGRAMS)


def test_tests_import_shared_helpers_only() -> None:
    assert [
        each for path in sorted(TESTS.rglob("*.py")) for each in foreign_helpers(path, path.read_text("utf-8"))
    ] == []


@pytest.mark.parametrize(
    ("sources", "findings"),
    [
        ({"launchbay.web": "from launchbay.store import x", "launchbay.store": "x = 1"}, 0),
        ({"launchbay.web": "from launchbay.store import x", "launchbay.store": "from os import x"}, 1),
        ({"launchbay.store": "from launchbay.web import x", "launchbay.web": "x = 1"}, 1),
        ({"launchbay.web": "from launchbay.console import x", "launchbay.console": "x = 1"}, 1),
        ({"launchbay.a": "from launchbay import b", "launchbay.b": "from launchbay import a"}, 2),
    ],
)
def test_the_rules_find_what_breaks_them(sources: dict[str, str], findings: int) -> None:
    modules = {name: ast.parse(text) for name, text in sources.items()}
    known = not modules.keys() & {"launchbay.a"}
    found = [*reexports({"launchbay": ast.parse(""), **modules}), *(climbs(modules) if known else ()), *cycle(modules)]
    assert len(found) == findings


def test_a_helper_of_another_folder_is_found() -> None:
    path = TESTS / "api" / "test_x.py"
    assert (
        list(foreign_helpers(path, "from tests.support.clock import HandClock\nfrom tests.web.sample import x\n")) != []
    )
    assert list(foreign_helpers(path, "from tests.support.clock import HandClock\n")) == []


def test_an_exception_outside_of_the_tree_is_found() -> None:
    trees = [ast.parse("class A(OSError): pass\nclass B(A): pass\nclass C: pass\nclass D(C): pass\n")]
    assert exception_bases(trees) == {"A": "OSError", "B": "A"}
    assert dict(drawn_tree("R\n├── A  x\n│   └── B\n└── C\n")) == {
        "A": "LaunchbayError",
        "B": "A",
        "C": "LaunchbayError",
    }


def finders(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the modules that find an object with its `LookupQuery` themselves, and so without the gate."""
    queries = {
        target.id
        for tree in modules.values()
        for node in nodes_of(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "LookupQuery"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for name, tree in modules.items():
        found = [node.value for node in nodes_of(tree) if isinstance(node, ast.Attribute) and node.attr == "find"]
        if any(ast.unparse(each).rpartition(".")[2] in queries for each in found):
            yield name


def test_only_the_lookup_finds_objects(modules: Mapping[str, ast.Module]) -> None:
    assert list(finders(modules)) == []


def test_a_module_that_finds_an_object_itself_is_found() -> None:
    tree = {"a": ast.parse("rollout = LookupQuery(s, Rollout)"), "b": ast.parse("rows.rollout.find(connection, id=1)")}
    assert list(finders(tree)) == ["b"]
