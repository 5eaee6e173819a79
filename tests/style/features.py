"""Proves that features stay features: `python tests/style/features.py`, from the project's root.

The kernel is what no list below names; the shell are programs over it (`SHELL`). Rules of lifetimes, sleep and limits
are tables of the kernel, since acceptance reads them. Audiences are one, since archives do.

1. No module of the kernel or of the shell imports a module of a feature, or names one in a string. The composition
   root `app/features.py` alone may import `features/<name>/feature.py`. The console's pages of the kernel's objects
   stand above features: they show what features know of an object (decision 0181). They import no rows of a feature.
2. A feature imports another one only if `FEATURES` says so, and that list has no circle.
3. Each feature has one registration: `features/<name>/feature.py` binds `FEATURE` to one call of `Feature`, and
   `app/features.py` names it once. The package's `__init__.py` is empty.
4. A statement names tables of the kernel, of its own feature, and of features that its feature may import.
5. A template of the frame, or of a feature, includes no template of another feature.

It needs the standard library alone.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path("src/launchbay")
SHELL = ("app/", "cli/", "client/", "console/", "demo/", "manifest_tests/", "mcp/", "pages/", "postgres/", "web/")
SHELL_FILES = {"documentation.py", "feature.py"}
# The composition root: it may know every feature.
ROOT_OF_ALL = "app/features.py"
PAGES = "pages/"
# Each is easier to read than what would turn it round.
EXCEPTIONS = {
    "cli/diff.py -> directories": "one of the things that the command compares is a directory",
}
used_exceptions: set[str] = set()
IN_STRINGS = {"cli/main.py"}  # commands are loaded by name when they are used


class Feature(NamedTuple):
    """The features that one may import, and the tables that it owns."""

    may_import: tuple[str, ...] = ()
    tables: str = ""


FEATURES: dict[str, Feature] = {
    "adoption": Feature(may_import=("drift", "plans"), tables="adoptions"),
    "bulk": Feature(
        may_import=(
            "change_sets",
            "directories",
        ),
        tables="bulk_runs bulk_instances",
    ),
    "change_rules": Feature(),
    "change_sets": Feature(
        may_import=(
            "directories",
            "generations",
            "plans",
        ),
        tables="change_sets change_set_instances change_set_answers",
    ),
    "concurrency_limits": Feature(),
    "directories": Feature(
        may_import=(
            "change_rules",
            "concurrency_limits",
            "freezes",
            "identities",
            "lifetimes",
            "sleep_windows",
        )
    ),
    "documentation": Feature(),
    "drift": Feature(
        may_import=("change_sets", "plans", "recurring"),
        tables="drift_reports drift_schedules check_times_to_read drift_mails put_back_rules put_backs",
    ),
    "freezes": Feature(),
    "generations": Feature(tables="generations rollbacks_due"),
    "git_sources": Feature(
        may_import=(
            "change_sets",
            "directories",
        ),
        tables="git_sources git_syncs git_previews git_events",
    ),
    "history": Feature(tables="instance_history"),
    "identities": Feature(),
    "impact": Feature(may_import=("freezes", "secret_providers")),
    "lifetimes": Feature(tables="idle_ends expiry_warnings instance_extensions"),
    "plans": Feature(tables="plans plan_artifacts refused_jobs"),
    "promotion": Feature(
        may_import=("change_sets", "directories", "generations"), tables="promotions promotion_attempts"
    ),
    "recurring": Feature(
        may_import=(
            "bulk",
            "directories",
        ),
        tables="recurring_schedules",
    ),
    "rollouts": Feature(may_import=("generations",), tables="rollouts rollout_instances"),
    "scim": Feature(tables="scim_users scim_groups scim_members scim_activity"),
    "secret_providers": Feature(
        may_import=("identities",), tables="secret_sessions needed_secret_sessions secret_reads secret_versions"
    ),
    "sleep_windows": Feature(may_import=("lifetimes",), tables="instance_sleeps"),
    "webhooks": Feature(may_import=("directories",), tables="webhooks webhook_deliveries webhook_failures"),
}


class Import(NamedTuple):
    """A name that a module takes from another one; `name` is "" for a name in a string."""

    path: str
    line: int
    target: str
    name: str


FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
MODULES = {("launchbay." + path[:-3].replace("/", ".")).removesuffix(".__init__"): path for path in FILES}
# Templates that all pages share. The others are of pages.
FRAME = {"layout.html", "macros.html", "parts.html", "controls.html", "error.html", "confirm.html", "conflict.html"}
TABLES = {table: name for name, feature in FEATURES.items() for table in feature.tables.split()}


def feature_of(path: str) -> str | None:
    """Return the feature that a file belongs to."""
    return path.split("/")[1] if path.startswith("features/") and path.count("/") > 1 else None


def area_of(path: str) -> str:
    if feature_of(path):
        return "features"
    return "shell" if path.startswith(SHELL) or path in SHELL_FILES else "kernel"


def imports(path: str) -> Iterator[Import]:
    """Yield every import of a module of this package, at any depth, and every module that a string names."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    attributes: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes[node.value.id].add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "launchbay":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in MODULES:
                    used = attributes[alias.asname or alias.name] or {"*"}
                    yield from (Import(path, node.lineno, MODULES[whole], name) for name in sorted(used))
                elif node.module in MODULES:
                    yield Import(path, node.lineno, MODULES[node.module], alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    yield Import(path, node.lineno, MODULES[alias.name], "*")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("launchbay."):
            named = node.value.partition(":")[0]
            if named in MODULES:
                yield Import(path, node.lineno, MODULES[named], "")


def check_imports() -> tuple[dict[str, list[Import]], Counter[tuple[str, str]]]:
    """Return what is not allowed, by "module -> feature", and how many names features take from features."""
    found: dict[str, list[Import]] = defaultdict(list)
    between: Counter[tuple[str, str]] = Counter()
    for path in FILES:
        for each in imports(path):
            mine, theirs = feature_of(path), feature_of(each.target)
            if theirs is not None and theirs != mine:
                if mine is None:
                    is_root = path == ROOT_OF_ALL and each.target == f"features/{theirs}/feature.py"
                    is_command = not each.name and path in IN_STRINGS
                    is_shown = (
                        path.startswith(PAGES)
                        and not each.target.endswith("/rows.py")
                        and not each.target.endswith("/rows.py")
                    )
                    is_exception = f"{path} -> {theirs}" in EXCEPTIONS
                    if is_exception:
                        used_exceptions.add(f"{path} -> {theirs}")
                    if not is_root and not is_command and not is_shown and not is_exception:
                        found[f"{path} -> {theirs}"].append(each)
                else:
                    between[mine, theirs] += 1
                    if theirs not in FEATURES.get(mine, Feature()).may_import:
                        found[f"{path} -> {theirs}"].append(each)
    return found, between


_MARK = re.compile(r"^-- name: (\w+)", re.MULTILINE)


def check_statements() -> tuple[dict[str, list[str]], int]:
    """Return the statements that name tables of strange features, and the number of all."""
    found: dict[str, list[str]] = defaultdict(list)
    count = 0
    words = re.compile(r"\b(" + "|".join(sorted(TABLES, key=len, reverse=True)) + r")\b")
    for file in sorted(ROOT.rglob("*.sql")):
        path = str(file.relative_to(ROOT))
        if "/migrations/" in path:
            continue  # one schema in one order; its functions are the ports of the database
        mine = feature_of(path)
        may = {mine, *FEATURES.get(mine or "", Feature()).may_import}
        parts = _MARK.split(file.read_text("utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            count += 1
            code = re.sub(r"--.*|'[^']*'", "", text)
            for theirs in sorted({TABLES[table] for table in words.findall(code)} - may):
                found[f"{path}:{name} -> {theirs}"].append(name)
    return found, count


def check_templates() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    names = re.compile(r"""\{%-?\s*(?:include|extends|import|from)\s+["']([^"']+)["']""")
    for file in sorted(ROOT.rglob("*.html")):
        path = str(file.relative_to(ROOT))
        mine = feature_of(path)
        for named in names.findall(file.read_text("utf-8")):
            theirs = named.partition("/")[0]
            is_of_page = mine is None and file.name not in FRAME
            if theirs in FEATURES and theirs != mine and not is_of_page:
                found[f"{path} -> {theirs}"].append(named)
    return found


def check_registrations() -> list[str]:
    """Return what is wrong with registrations."""
    wrong: list[str] = []
    listed = Counter(re.findall(r"launchbay\.features\.(\w+)\.feature\b", (ROOT / ROOT_OF_ALL).read_text("utf-8")))
    there = {path.name for path in (ROOT / "features").iterdir() if path.is_dir()} - {"__pycache__"}
    wrong += [f"features/{name} stands in no list: add it to FEATURES" for name in sorted(there - set(FEATURES))]
    for name in FEATURES:
        if name not in there:
            wrong.append(f"there is no features/{name}")
            continue
        body = ast.parse((ROOT / "features" / name / "__init__.py").read_text("utf-8")).body
        if any(not isinstance(node, ast.Expr) for node in body):
            wrong.append(f"features/{name}/__init__.py isn't empty")
        bound = [
            node
            for node in ast.parse((ROOT / "features" / name / "feature.py").read_text("utf-8")).body
            if isinstance(node, ast.Assign | ast.AnnAssign) and "FEATURE" in _bound(node)
        ]
        if len(bound) != 1 or not (isinstance(bound[0].value, ast.Call) and _called(bound[0].value) == "Feature"):
            wrong.append(f"features/{name}/feature.py doesn't bind FEATURE to one call of Feature")
        elif listed[name] != 1:
            wrong.append(f"{ROOT_OF_ALL} names features.{name}.feature {listed[name]} times")
    return wrong


def _bound(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def circle() -> list[str]:
    """Return features whose lists lead back to themselves."""
    done: set[str] = set()
    while more := {name for name in FEATURES if name not in done and set(FEATURES[name].may_import) <= done}:
        done |= more
    return sorted(set(FEATURES) - done)


def main() -> int:
    if not ROOT.is_dir():
        print(f"There is no {ROOT}: run this from the project's root.")
        return 2
    bad, between = check_imports()
    statements, statement_count = check_statements()
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path in FILES:
        lines[area_of(path)] += (ROOT / path).read_text("utf-8").count("\n")
        modules[area_of(path)] += not path.endswith("__init__.py")
    for area in ("kernel", "shell", "features"):
        print(f"{area:9} {modules[area]:4} modules {lines[area]:7} lines")
    print(f"{len(FEATURES)} features; {sum(between.values())} names between {len(between)} pairs of them")
    print(f"{statement_count} statements")
    found: dict[str, Sequence[object]] = {**bad, **statements, **check_templates()}
    problems = check_registrations()
    if lost := circle():
        problems.append(f"the lists of imports go in a circle: {', '.join(lost)}")
    for key in sorted(found):
        first = found[key][0]
        problems.append(f"{key} ({first.path}:{first.line} {first.name})" if isinstance(first, Import) else key)
    problems += [
        f"{key} isn't needed any more: strike it from EXCEPTIONS" for key in EXCEPTIONS if key not in used_exceptions
    ]
    for each in problems:
        print(each)
    return 1 if problems else 0


sys.exit(main())
