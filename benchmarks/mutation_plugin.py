"""The part of `benchmarks.mutations` inside pytest: runs the collected tests once for each mutant, in a fork.

Everything is imported and collected once. A fork gives the mutated function new code, or a module a new value, so that
a run costs no more than its tests; nothing is written beside the sources. MUTANTS names the file with the mutants and
RESULTS the one for what came of them.
"""

import ast
import importlib
import inspect
import itertools
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import psycopg
import pytest

_failed: list[str] = []
_server: list[Any] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what failed first."""
    if report.failed:
        _failed.append(f"{report.nodeid} timed out" if "Timeout (>" in report.longreprtext else report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests unchanged, and then for each mutant."""
    _share_postgres()
    source = Path(os.environ["SOURCE"])
    results = Path(os.environ["RESULTS"])
    with results.open("a", encoding="utf-8") as told:
        for mutant in [None, *json.loads(Path(os.environ["MUTANTS"]).read_text("utf-8"))]:
            result = _forked(session, source, mutant)
            print(json.dumps(result), file=told, flush=True)
            if mutant is None and result["outcome"] != "survived":
                break
    _server[0].__exit__(None, None, None)
    return True


def _share_postgres() -> None:
    """Start the server of the tests here, and let the fixtures of the forks join it."""
    module = importlib.import_module("tests.support.databases")
    kept = module.Databases.start()
    _server.append(kept)
    held = vars(kept)
    url = held["_server"].url
    held["_admin"].close()  # a connection must not be shared by forks

    class Joined(module.Databases):  # type: ignore[name-defined,misc]  # the module is found when the tests are
        def __init__(self) -> None:
            self._server = held["_server"]
            self._worker = f"fork{os.getpid()}"  # a fork that fails leaves its databases behind
            self._numbers = itertools.count(1)
            self._shared = None
            self._admin = psycopg.connect(url, autocommit=True)

        def __exit__(self, *_: object) -> None:
            if self._shared is not None:
                self._shared.close()
            self._admin.close()

    module.Databases.start = lambda **_: Joined()


def _forked(session: pytest.Session, source: Path, mutant: dict[str, Any] | None) -> dict[str, Any]:
    """Run the tests in a fork and return the outcome: survived, killed, timeout, or refused by Python."""
    reading, writing = os.pipe()
    began_s = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        answer = ["refused", ""]
        try:
            if mutant is not None:
                apply(source, mutant)
            answer = _outcome(session)
        except BaseException:
            answer[1] = traceback.format_exc(limit=-1)
        finally:
            os.write(writing, json.dumps(answer).encode()[:4000])
            os._exit(0)
    os.close(writing)
    deadline_s = began_s + float(os.environ["TIMEOUT_S"])
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline_s:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.02)
    with os.fdopen(reading, "rb") as pipe:
        outcome, test = json.loads(pipe.read() or b'["timeout", ""]')
    return {"outcome": outcome, "test": test, "seconds": round(time.monotonic() - began_s, 2)}


def _outcome(session: pytest.Session) -> list[str]:
    try:
        for item, following in itertools.zip_longest(session.items, session.items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if _failed:
                return ["timeout" if _failed[0].endswith(" timed out") else "killed", _failed[0]]
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
        return ["killed", repr(error)]
    return ["survived", ""]


def apply(source: Path, mutant: dict[str, Any]) -> None:
    """Put a mutant into the module that is loaded, in this process alone."""
    file = Path(mutant["file"])
    original = (source / "launchbay" / file).read_bytes()
    start, end = mutant["span"]
    text = original[:start] + mutant["after"].encode() + original[end:]
    module = importlib.import_module(".".join(("launchbay", *file.with_suffix("").parts)))
    owner: Any = module
    for depth, name in enumerate(path := mutant["function"].split(".")):
        found = inspect.getattr_static(owner, name)
        if isinstance(found, type):
            owner = found
            continue
        function = _function(found)
        if function is None:
            _replace_value(module, name, text)
        else:
            function.__code__ = _code(compile(text, str(source / "launchbay" / file), "exec"), path[: depth + 1])
        return
    raise LookupError(f"{mutant['function']} is no function")


def _function(found: Any) -> FunctionType | None:
    """Return the function below a property, a class method or a decorator."""
    for name in ("fget", "__func__", "func"):
        found = getattr(found, name, None) or found
    found = inspect.unwrap(found) if callable(found) else found
    return found if isinstance(found, FunctionType) else None


def _code(code: CodeType, path: list[str]) -> CodeType:
    for name in path:
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)
    return code


def _replace_value(module: ModuleType, name: str, text: bytes) -> None:
    """Assign a value of a module anew, wherever it was imported to."""
    old = vars(module)[name]
    for statement in ast.parse(text).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            # Our own source, changed by ourselves.
            exec(compile(ast.Module([statement], []), module.__file__ or "", "exec"), vars(module))
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").partition(".")[0] in {"launchbay", "tests"} and vars(other).get(name) is old:
            setattr(other, name, vars(module)[name])
