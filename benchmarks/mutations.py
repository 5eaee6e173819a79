"""Do the tests notice a wrong comparison? Changes one expression at a time and runs the tests that cover it.

python -m benchmarks.mutations [TARGET …] [--count 40] [--root DIR] [--like FILE] [--renamed OLD=NEW …] [--json FILE]

No file is changed: `mutation_plugin` puts a mutant into a fork of the tests' process. A mutant is known by its
function, the text of what it changes and what stands there then, without its file: `--like` takes those of an earlier
result again after functions have moved, wherever in the sources they are now. Before the first mutant the tests run
unchanged, and a seeded mutant shows that the runner notices: tests that cover it kill it, and it survives tests that
do not reach it.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

SEED = "launchbay"
TIMEOUT_S = 300  # for all tests of a stage; the machine may be busy
PLUGIN = "mutation_plugin"


@dataclass(frozen=True)
class Target:
    """What is mutated, and the tests for it: a later stage runs when the stages before it have noticed nothing."""

    sources: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]


TARGETS = {
    "permissions": Target(
        ("auth/gate.py",),
        (
            ("tests/auth/test_gate.py", "tests/auth/test_authentication.py"),
            ("tests/api/test_roles.py",),
        ),
    ),
    "bindings": Target(
        ("manifest/bindings.py",),
        (
            ("tests/manifest/test_bindings.py", "tests/manifest/test_layout.py"),
            ("tests/manifest/test_layout.py", "tests/manifest/test_scaling.py"),
        ),
    ),
    "statuses": Target(
        ("model/instance.py", "model/job.py", "model/job.py"),
        (("tests/model/test_instance.py", "tests/model/test_job.py"), ("tests/api/test_approvals.py",)),
    ),
    "ending": Target(
        ("engine/ending.py",),
        (("tests/engine/test_runner.py",), ("tests/api/test_workflows.py",)),
    ),
}

_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Each becomes another one that the same kinds of statuses have, so that the mutant can be imported.
_STATUSES = {
    "REQUESTED": "EXECUTING",
    "EXECUTING": "FAILED",
    "RUNNING": "FAILED",
    "FAILED": "EXECUTING",
    "SUCCEEDED": "FAILED",
    "DESTROYING": "DESTROYED",
    "DESTROYED": "DESTROYING",
    "LAUNCH_STARTED": "WORK_ACCEPTED",
    "WORK_ACCEPTED": "LAUNCH_STARTED",
    "WORK_SUCCEEDED": "WORK_FAILED",
    "WORK_FAILED": "WORK_SUCCEEDED",
    "DESTROY_ACCEPTED": "DESTROY_FAILED",
    "DESTROY_SUCCEEDED": "DESTROY_FAILED",
    "DESTROY_FAILED": "DESTROY_SUCCEEDED",
}


@dataclass(frozen=True)
class Mutant:
    """One change. `nth` counts equal changes in one function; `file` and `line` are where it is now."""

    function: str
    kind: str
    before: str
    after: str
    nth: int = 0
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    span: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)  # bytes of the file

    @property
    def rank(self) -> str:
        """Return what orders the mutants: a number that depends on nothing but the change."""
        return hashlib.sha256(
            "\0".join([SEED, self.function, self.before, self.after, str(self.nth)]).encode()
        ).hexdigest()


def changes_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield kind and new text of what can be changed in a node, without what is below it."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=right):
            for at, operator in enumerate(operators):
                swapped = [*operators[:at], _COMPARISONS[type(operator)](), *operators[at + 1 :]]
                yield "comparison", ast.unparse(ast.Compare(left, swapped, right))
        case ast.BoolOp(op=operator, values=values):
            yield "and/or", ast.unparse(ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", ast.unparse(operand)
        case ast.Constant(value=bool(value)):
            yield "constant", str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", repr(value + 1)
            yield "constant", repr(value - 1)
        case ast.Attribute(value=ast.Name(), attr=name) if name in _STATUSES:
            yield "status", ast.unparse(ast.Attribute(node.value, _STATUSES[name]))
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None", "return None"
        case ast.Raise() | ast.Continue() | ast.Break():
            yield "removed", "pass"
        case ast.Expr(value=ast.Call() | ast.Await()) if not re.match(r"_?log\.", ast.unparse(node)):
            yield "removed", "pass"


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes with the function that they are in, but for annotations, decorators and texts for people."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "args"} and not isinstance(
            node, ast.Call
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            inner = function
            match child:
                case ast.FunctionDef(name=called) | ast.AsyncFunctionDef(name=called) | ast.ClassDef(name=called):
                    inner = f"{function}.{called}" if function else called
                case ast.Assign(targets=[ast.Name(id=called)]) | ast.AnnAssign(target=ast.Name(id=called)):
                    inner = function or called
            is_class_body = isinstance(node, ast.ClassDef) and not isinstance(child, _DEFINITIONS)
            if is_class_body or (isinstance(node, ast.Module) and not inner):
                continue  # a class would have to be made anew, and statements between definitions have no name
            yield inner, child
            yield from _nodes(child, inner)


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of the file."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    met: Counter[Mutant] = Counter()
    for function, node in _nodes(ast.parse(source), ""):
        changed = list(changes_of(node))
        if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
            changed = [("not", f"not ({ast.unparse(node.test)})")]
        for kind, after in changed:
            place = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else node
            assert isinstance(place, ast.expr | ast.stmt), "only these have changes"
            text = f"({after})" if isinstance(place, ast.expr) and kind != "status" else after
            plain = Mutant(function, kind, ast.unparse(place), text)
            span = (
                starts[place.lineno - 1] + place.col_offset,
                starts[(place.end_lineno or place.lineno) - 1] + (place.end_col_offset or 0),
            )
            found.append(replace(plain, nth=met[plain], file=file, line=place.lineno, span=span))
            met[plain] += 1
    return found


def sampled(mutants: Iterable[Mutant], count: int) -> list[Mutant]:
    """Return as many as wanted, the same ones whatever else the files hold."""
    return sorted(
        sorted(mutants, key=lambda each: each.rank)[:count], key=lambda each: (each.file, each.line, each.rank)
    )


def found_again(wanted: Sequence[Mutant], source: Path) -> list[Mutant]:
    """Return those of an earlier result that the sources have; where two files fit, that with more of them."""
    fitting: dict[str, dict[Mutant, Mutant]] = {}
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        if any(mutant.function.rpartition(".")[2] in text for mutant in wanted):
            here = {each: each for each in mutants_of(text, str(path.relative_to(source)))}
            fitting[str(path)] = {mutant: here[mutant] for mutant in wanted if mutant in here}
    by_count = sorted(fitting.values(), key=len)
    chosen: dict[Mutant, Mutant] = {}
    for each in by_count:
        chosen |= each
    return [chosen[mutant] for mutant in wanted if mutant in chosen]


def judged(root: Path, mutants: Sequence[Mutant], stages: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Run the stages against the mutants: each stage those that survived the ones before it."""
    results = [{name: value for name, value in asdict(each).items() if name != "span"} for each in mutants]
    left = list(range(len(mutants)))
    for tests in stages:
        for at, result in zip(left, run(root, [mutants[at] for at in left], tests), strict=True):
            results[at] |= result | {"seconds": round(results[at].get("seconds", 0) + result["seconds"], 2)}
        left = [at for at in left if results[at]["outcome"] == "survived"]
        print(f"{' '.join(tests)}: {len(left)} mutants left", flush=True)
    return results


def run(root: Path, mutants: Sequence[Mutant], tests: Sequence[str]) -> list[dict[str, Any]]:
    """Run tests in one process of pytest that forks for each mutant. Exits when they fail without a mutant."""
    with tempfile.TemporaryDirectory(prefix="mut") as name:
        directory = Path(name)
        shutil.copy(Path(__file__).with_name(f"{PLUGIN}.py"), directory)
        (directory / "mutants.json").write_text(json.dumps([asdict(each) for each in mutants]), "utf-8")
        environ = {
            **os.environ,
            "PYTHONPATH": str(directory),
            "SOURCE": str(root / "src"),
            "MUTANTS": str(directory / "mutants.json"),
            "RESULTS": str(directory / "results"),
            "TIMEOUT_S": str(TIMEOUT_S),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, *tests]
        with (directory / "output").open("w+", encoding="utf-8") as output:
            subprocess.run(command, cwd=root, env=environ, stdout=output, stderr=subprocess.STDOUT, check=False)
            output.seek(0)
            told = output.read()[-2000:]
        if not (directory / "results").exists():
            sys.exit(f"pytest did not begin: {told}")
        unchanged, *results = map(json.loads, (directory / "results").read_text("utf-8").splitlines())
    if unchanged["outcome"] != "survived" or len(results) != len(mutants):
        sys.exit(f"{' '.join(tests)} without a mutant: {unchanged}; {len(results)} results. {told}")
    return results


SEEDED = Mutant("decide", "comparison", "pattern is not None", "(pattern is None)")


def check_runner(root: Path) -> list[dict[str, Any]]:
    """Run one mutant under tests that cover it, and under others. Exits unless just the former notice it."""
    mutants = found_again([SEEDED], root / "src" / "launchbay")
    results = [judged(root, mutants, TARGETS[name].stages[:1]) for name in ("permissions", "statuses")]
    if [[each["outcome"] for each in rows] for rows in results] != [["killed"], ["survived"]]:
        sys.exit(f"The runner is wrong, or its seeded mutant is not in the sources: {results}")
    return [*results[0], *results[1]]


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return the text with whole words replaced."""
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)


def chosen(name: str, arguments: argparse.Namespace) -> tuple[list[Mutant], list[Mutant]]:
    """Return the mutants to run for a target, and those of the earlier result that are nowhere any more."""
    package = arguments.root / "src" / "launchbay"
    if arguments.like is None:
        everything = [
            mutant for file in TARGETS[name].sources for mutant in mutants_of((package / file).read_text("utf-8"), file)
        ]
        return sampled(everything, arguments.count), []
    names = dict(pair.split("=") for pair in arguments.renamed)
    wanted = [
        Mutant(
            renamed(row["function"], names),
            row["kind"],
            renamed(row["before"], names),
            renamed(row["after"], names),
            row["nth"],
        )
        for row in json.loads(arguments.like.read_text("utf-8"))["targets"][name]["mutants"]
    ]
    again = found_again(wanted, package)
    return again, [mutant for mutant in wanted if mutant not in again]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="*", default=list(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--like", type=Path)
    parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD=NEW")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.root = arguments.root.resolve()
    result: dict[str, Any] = {"seed": SEED, "targets": {}}
    result["seeded"] = check_runner(arguments.root)
    print("The seeded mutants came out as they must.", flush=True)
    for name in arguments.target:
        mutants, missing = chosen(name, arguments)
        rows = judged(arguments.root, mutants, TARGETS[name].stages)
        result["targets"][name] = {"mutants": rows, "missing": [asdict(mutant) for mutant in missing]}
        for row in rows:
            print(f"{row['outcome']:8} {row['function']}: {row['before']} → {row['after']}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"\n{'target':14}{'mutants':>8}{'killed':>8}{'timeout':>8}{'survived':>9}{'missing':>8}")
    for name, found in result["targets"].items():
        count = Counter(row["outcome"] for row in found["mutants"])
        print(
            f"{name:14}{count.total():8}{count['killed']:8}{count['timeout']:8}{count['survived']:9}"
            f"{len(found['missing']):8}"
        )


if __name__ == "__main__":
    main()
