"""Proves that features stay features: `python tests/style/features.py [--strict] [--open]`, from the project's root.

1. No module of the kernel or of the shell imports a module of a feature, or names one in a string. The composition
   root `app/features.py` alone may import `features/<name>/feature.py`. The console's pages of the kernel's objects
   stand above features: they show what features know of an object (decision 0181). They import no rows of a feature.
2. A feature imports another one only if `FEATURES` says so, and that list has no circle.
3. Each feature has one registration: `features/<name>/feature.py` binds `FEATURE` to one call of `Feature`, and
   `app/features.py` names it once. The package's `__init__.py` is empty.
4. A statement names tables of the kernel, of its own feature, and of features that its feature may import.
5. A template of the frame, or of a feature, includes no template of another feature.
6. Nothing imports a kit, except kits of the same package, and `app`.

It needs the standard library alone, and runs on every tree between today's and the final one: a module belongs to a
feature by its place below `features/`, or by the list `today` of its feature. What is not done yet stands in `OPEN`;
the check fails for what is new, and for an entry of `OPEN` that is done, so that the list only gets shorter.
`--strict` allows no open entries. `--open` prints the entries as they are now.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path("src/launchbay")
SHELL = ("app/", "cli/", "client/", "console/", "demo/", "manifest_tests/", "mcp/", "postgres/", "web/")
SHELL_FILES = {"documentation.py", "feature.py"}
# The composition root: it may know every feature and kit.
ROOT_OF_ALL = "app/features.py"
PAGES = "console/pages/"
# Each is easier to read than what would turn it round.
EXCEPTIONS = {
    "cli/diff.py -> directories": "one of the things that the command compares is a directory",
}
IN_STRINGS = {"cli/main.py"}  # commands are loaded by name when they are used


class Feature(NamedTuple):
    """What a feature may import, the tables that it owns, and the files that it has in today's tree."""

    may_import: tuple[str, ...] = ()
    tables: str = ""
    today: str = ""
    templates: str = ""


FEATURES: dict[str, Feature] = {
    "bulk": Feature(
        may_import=("change_sets",),
        tables="bulk_runs bulk_instances",
        today="""
            console/pages/bulk.py
            store/bulk.py
            store/queries/bulk.sql
            usecases/bulk.py
            web/api/bulk.py
        """,
        templates="bulk.html bulk_new.html bulk_runs.html",
    ),
    "change_sets": Feature(
        may_import=("directories",),
        tables="change_sets change_set_instances change_set_answers",
        today="""
            console/pages/change_sets.py
            store/change_sets.py
            store/queries/change_sets.sql
            usecases/change_sets.py
            web/api/change_sets.py
        """,
        templates="change_set.html change_sets.html",
    ),
    "concurrency_limits": Feature(
        may_import=(),
        tables="",
        today="""
            store/concurrency_limits.py
            store/queries/concurrency_limits.sql
            usecases/concurrency_limits.py
            web/api/concurrency_limits.py
        """,
        templates="",
    ),
    "directories": Feature(
        may_import=("concurrency_limits", "lifetimes", "sleep_windows"),
        tables="",
        today="""
            cli/directory.py
            directory/__init__.py
            directory/contents.py
            directory/plan.py
            model/archive.py
            usecases/archives.py
            usecases/directory.py
            usecases/directory_plans.py
            usecases/directory_objects.py
            web/api/directory.py
            web/api/archives.py
        """,
        templates="",
    ),
    "documentation": Feature(
        may_import=(),
        tables="",
        today="""
            console/pages/documentation.py
        """,
        templates="documentation.html",
    ),
    "generations": Feature(
        may_import=(),
        tables="generations rollbacks_due",
        today="""
            console/pages/generations.py
            store/generations.py
            store/queries/generations.sql
            usecases/generations.py
            web/api/generations.py
        """,
        templates="generation.html",
    ),
    "git_sources": Feature(
        may_import=("change_sets", "directories"),
        tables="git_sources git_syncs git_previews git_events",
        today="""
            console/pages/git_sources.py
            model/forge.py
            store/git_sources.py
            store/queries/git_sources.sql
            usecases/forges.py
            usecases/git_source_objects.py
            usecases/git_sources.py
            usecases/git_syncs.py
            web/api/git_sources.py
        """,
        templates="git_source.html git_source_form.html git_sources.html",
    ),
    "history": Feature(
        may_import=(),
        tables="instance_history",
        today="""
            store/history.py
            store/queries/history.sql
            usecases/history.py
            web/api/history.py
        """,
        templates="",
    ),
    "impact": Feature(
        may_import=(),
        tables="",
        today="""
            usecases/impact.py
            web/api/impact.py
        """,
        templates="impact.html manifest_impact.html",
    ),
    "lifetimes": Feature(
        may_import=(),
        tables="idle_ends expiry_warnings instance_extensions",
        today="""
            model/lifetimes.py
            store/lifetimes.py
            store/queries/lifetimes.sql
            usecases/idle_ends.py
            usecases/lifetimes.py
            web/api/lifetimes.py
        """,
        templates="",
    ),
    "recurring": Feature(
        may_import=("bulk", "directories"),
        tables="recurring_schedules",
        today="""
            console/pages/recurring.py
            store/queries/recurring.sql
            store/recurring.py
            usecases/recurring.py
            usecases/recurring_objects.py
            web/api/recurring.py
        """,
        templates="recurring.html recurring_list.html recurring_new.html recurring_next.html recurring_times.html",
    ),
    "rollouts": Feature(
        may_import=("generations",),
        tables="rollouts rollout_instances",
        today="""
            console/pages/rollouts.py
            store/queries/rollouts.sql
            store/rollouts.py
            usecases/rollouts.py
            web/api/rollouts.py
        """,
        templates="rollout.html rollout_new.html rollouts.html",
    ),
    "sleep_windows": Feature(
        may_import=("lifetimes",),
        tables="instance_sleeps",
        today="""
            model/sleep_windows.py
            store/queries/sleep_windows.sql
            store/sleep_windows.py
            usecases/sleep_windows.py
            web/api/sleep_windows.py
        """,
        templates="",
    ),
    "webhooks": Feature(
        may_import=("directories",),
        tables="webhooks webhook_deliveries",
        today="""
            console/pages/webhooks.py
            engine/chat_messages.py
            engine/webhooks.py
            store/queries/webhooks.sql
            store/webhooks.py
            usecases/webhooks.py
            web/api/webhooks.py
        """,
        templates="webhook.html webhook_fields.html webhooks.html",
    ),
}
# Names in a file of a feature that the kernel keeps when the file is split: to import them is no debt.
KERNEL_NAMES: dict[str, str] = {"usecases/generations.py": """FailurePolicy"""}
# Names that stand in a file of the kernel or of another feature, and go to this one.
LENT: dict[str, dict[str, str]] = {
    "console/pages/rules.py": {
        "lifetimes": """LENGTHS _texts save_lifetime _length""",
        "concurrency_limits": """_BLANK_LIMITS KEYS WHEN LimitRow _concerns _row _sent_rows save_limits""",
        "sleep_windows": """
        _TURNS _ZONES_SHOWN WindowRow SleepFields save_sleep _sleep_fields _sent_sleep _sleep_rules _zone
        _turns
    """,
    },
}
# What is not done yet: "module -> feature", "file:statement -> feature", or a registration.
OPEN = """

"""


class Import(NamedTuple):
    """A name that a module takes from another one; `name` is "" for a name in a string."""

    path: str
    line: int
    target: str
    name: str


FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))
MODULES = {("launchbay." + path[:-3].replace("/", ".")).removesuffix(".__init__"): path for path in FILES}
OF_TODAY = {path: name for name, feature in FEATURES.items() for path in feature.today.split()}
TEMPLATES = {path: name for name, feature in FEATURES.items() for path in feature.templates.split()}
# Templates that all pages share. The others are of pages.
FRAME = {"layout.html", "macros.html", "parts.html", "controls.html", "error.html", "confirm.html", "conflict.html"}
TABLES = {table: name for name, feature in FEATURES.items() for table in feature.tables.split()}


def feature_of(path: str, name: str = "") -> str | None:
    """Return the feature that a file, or a name in it, belongs to."""
    if path.startswith("features/") and path.count("/") > 1:
        return path.split("/")[1]
    if name and name in KERNEL_NAMES.get(path, "").split():
        return None
    for feature, names in LENT.get(path, {}).items():
        if name in names.split():
            return feature
    return OF_TODAY.get(path)


def kit_of(path: str) -> str | None:
    return path.split("/")[1] if path.startswith("kits/") and path.count("/") > 1 else None


def area_of(path: str) -> str:
    if feature_of(path):
        return "features"
    if kit_of(path):
        return "kits"
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
    """Return what is not allowed, by entry of OPEN, and how many names features take from features."""
    found: dict[str, list[Import]] = defaultdict(list)
    between: Counter[tuple[str, str]] = Counter()
    for path in FILES:
        for each in imports(path):
            mine, theirs = feature_of(path), feature_of(each.target, each.name)
            if theirs is not None and theirs != mine:
                if mine is None:
                    is_root = path == ROOT_OF_ALL and each.target == f"features/{theirs}/feature.py"
                    is_command = not each.name and path in IN_STRINGS
                    is_shown = (
                        path.startswith(PAGES)
                        and not each.target.startswith("store/")
                        and not each.target.endswith("/rows.py")
                    )
                    is_exception = f"{path} -> {theirs}" in EXCEPTIONS
                    if not is_root and not is_command and not is_shown and not is_exception:
                        found[f"{path} -> {theirs}"].append(each)
                else:
                    between[mine, theirs] += 1
                    if theirs not in FEATURES.get(mine, Feature()).may_import:
                        found[f"{path} -> {theirs}"].append(each)
            kit = kit_of(each.target)
            if kit is not None and kit != kit_of(path) and not path.startswith("app/") and each.name:
                found[f"{path} -> kit {kit}"].append(each)
    return found, between


_MARK = re.compile(r"^-- name: (\w+)", re.MULTILINE)


def check_statements() -> tuple[dict[str, list[str]], int]:
    """Return the statements that name tables of strange features, by entry of OPEN, and the number of all."""
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
        mine = feature_of(path) or TEMPLATES.get(file.name)
        for named in names.findall(file.read_text("utf-8")):
            theirs = named.partition("/")[0] if "/" in named else TEMPLATES.get(named)
            is_of_page = mine is None and file.name not in FRAME
            if theirs in FEATURES and theirs != mine and not is_of_page:
                found[f"{path} -> {theirs}"].append(named)
    return found


def check_registrations() -> tuple[list[str], int]:
    """Return what is wrong with registrations, and how many features have one."""
    wrong: list[str] = []
    registered = 0
    root = ROOT / ROOT_OF_ALL
    listed = (
        Counter(re.findall(r"launchbay\.features\.(\w+)\.feature\b", root.read_text("utf-8")))
        if root.exists()
        else Counter()
    )
    there = (
        {path.name for path in (ROOT / "features").iterdir() if path.is_dir()}
        if (ROOT / "features").is_dir()
        else set()
    )
    there.discard("__pycache__")
    wrong += [f"features/{name} stands in no list: add it to FEATURES" for name in sorted(there - set(FEATURES))]
    for name in FEATURES:
        file = ROOT / "features" / name / "feature.py"
        if name not in there:
            wrong.append(f"{name} has no package yet")
            continue
        face = ROOT / "features" / name / "__init__.py"
        body = ast.parse(face.read_text("utf-8")).body if face.exists() else []
        if any(not isinstance(node, ast.Expr) for node in body):
            wrong.append(f"features/{name}/__init__.py isn't empty")
        bound = [
            node
            for node in (ast.parse(file.read_text("utf-8")).body if file.exists() else [])
            if isinstance(node, ast.Assign | ast.AnnAssign) and "FEATURE" in _bound(node)
        ]
        if len(bound) != 1 or not (isinstance(bound[0].value, ast.Call) and _called(bound[0].value) == "Feature"):
            wrong.append(f"features/{name}/feature.py doesn't bind FEATURE to one call of Feature")
        elif listed[name] != 1:
            wrong.append(f"{ROOT_OF_ALL} names features.{name}.feature {listed[name]} times")
        else:
            registered += 1
    return wrong, registered


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
    missing = [f"{name}: {path}" for path, name in OF_TODAY.items() if not (ROOT / path).exists()]
    bad, between = check_imports()
    statements, statement_count = check_statements()
    templates = check_templates()
    registrations, registered = check_registrations()
    now: dict[str, Sequence[object]] = {**bad, **statements, **templates}
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path in FILES:
        lines[area_of(path)] += (ROOT / path).read_text("utf-8").count("\n")
        modules[area_of(path)] += not path.endswith("__init__.py")
    if "--open" in sys.argv:
        print("\n".join(sorted(now) + sorted(registrations)))
        return 0
    for area in ("kernel", "shell", "features", "kits"):
        print(f"{area:9} {modules[area]:4} modules {lines[area]:7} lines")
    inside = sum(path.startswith("features/") for path in FILES)
    print(f"{inside} modules stand below features/, {len(OF_TODAY) - len(missing)} files of features elsewhere")
    print(f"{registered} of {len(FEATURES)} features have their registration")
    names = sum(map(len, bad.values()))
    print(f"{names} names in {len(bad)} forbidden imports")
    print(f"{sum(between.values())} names between {len(between)} pairs of features")
    print(f"{statement_count} statements, {len(statements)} of them with tables of a strange feature")
    print(f"{len(templates)} includes of a strange template")
    known = set(filter(None, map(str.strip, OPEN.splitlines())))
    is_strict = "--strict" in sys.argv
    problems: list[str] = []
    if found := circle():
        problems.append(f"the lists of imports go in a circle: {', '.join(found)}")
    allowed = set() if is_strict else known
    for key in sorted(set(now) - allowed):
        first = now[key][0]
        at = f"{first.path}:{first.line} {first.name}" if isinstance(first, Import) else key
        problems.append(f"new: {key} ({at})")
    problems += [f"new: {each}" for each in registrations if each not in allowed]
    if not is_strict:
        problems += [f"done, strike it from OPEN: {key}" for key in sorted(known - set(now) - set(registrations))]
    print(f"{len((set(now) | set(registrations)) & known)} entries are open")
    for each in problems:
        print(each)
    return 1 if problems else 0


sys.exit(main())
