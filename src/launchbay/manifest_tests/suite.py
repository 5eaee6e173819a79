"""Reads files of manifest tests (docs/reference/manifest-tests.md) into values with line numbers."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from launchbay.machines.dry_run import Answers, read_answers
from launchbay.manifest.reader import read
from launchbay.manifest.tree import (
    MappingNode,
    Node,
    ScalarNode,
    children_of,
    is_null,
    items_of,
    plain,
    report_kind,
    text_of,
    written_data,
)
from launchbay.model.durations import parse_duration_s
from launchbay.model.environment import EnvironmentView
from launchbay.model.findings import Findings
from launchbay.model.instance import InstanceStatus

Services = Mapping[str, Mapping[str, Any]]  # interface → pin → a command's results, or a signal's value


class Verb(StrEnum):
    """The kinds of acts."""

    LAUNCH = "launch"
    RUN = "run"
    RECONFIGURE = "reconfigure"
    WAIT = "wait"
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected value, or a pattern with `*` and `?`."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStep:
    """A step that must have run. None and unnamed parameters match anything."""

    line: int
    step: str
    component: str | None = None
    action: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Expectations after an act. None expects nothing; without `status` and `error` the act must succeed."""

    status: Expected | None = None
    error: Expected | None = None
    values: Mapping[str, Expected] = field(default_factory=dict)
    like: Mapping[str, Expected] = field(default_factory=dict)
    steps: tuple[ExpectedStep, ...] = ()
    not_steps: tuple[Expected, ...] = ()
    workflows: Expected | None = None
    machines: Expected | None = None
    log: tuple[Expected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act on the instance and its expectations. `subject` is a workflow's name, or a manifest's path."""

    verb: Verb
    line: int
    subject: str = ""
    seconds: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    destroy_after_s: float | None = None
    answers: Answers = field(default_factory=Answers)
    expected: Expectation = field(default_factory=Expectation)


@dataclass(frozen=True, slots=True)
class Case:
    """One test: a sequence of acts on one instance."""

    name: str
    line: int
    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A file of tests. `applications` are manifests by the name that submodules use."""

    path: Path
    manifest: Path
    applications: Mapping[str, Path]
    environment: EnvironmentView
    services: Services
    answers: Answers
    cases: tuple[Case, ...]


_ENDINGS = (".test.yml", ".test.yaml")
_SUITE = ("manifest", "applications", "environment", "answers", "tests")
_ENVIRONMENT = ("markers", "properties", "policies", "services")
_OF_VERB: Mapping[Verb, tuple[str, ...]] = {
    Verb.LAUNCH: ("parameters", "destroyInterval"),
    Verb.RUN: ("parameters",),
    Verb.RECONFIGURE: ("parameters",),
    Verb.WAIT: (),
    Verb.DESTROY: (),
}
_EXPECTED = ("status", "error", "values", "like", "steps", "not-steps", "workflows", "machines", "log")
_STEP = ("step", "component", "action", "parameters")
_FINAL = (InstanceStatus.RUNNING, InstanceStatus.FAILED, InstanceStatus.DESTROYED)
_LONGEST_S = 10 * 366 * 86_400.0


def is_suite(path: Path) -> bool:
    return path.name.endswith(_ENDINGS)


def suite_of(manifest: Path) -> Path:
    """Return the test file of a manifest, in the same directory."""
    candidates = [manifest.with_name(manifest.stem + ending) for ending in _ENDINGS]
    return next((path for path in candidates if path.exists()), candidates[0])


def read_suite(path: Path, data: bytes) -> Suite:
    """Return the tests in `data`. Raises InvalidManifest with all findings."""
    findings = Findings()
    suite = _Reader(path, findings).suite(read(data))
    findings.raise_errors()
    return suite


class _Reader:
    def __init__(self, path: Path, findings: Findings) -> None:
        self._path = path
        self._findings = findings

    def suite(self, document: Node) -> Suite:
        parts = self._map(document, "the file", _SUITE)
        environment = self._map(parts.get("environment"), "'environment'", _ENVIRONMENT)
        services = self._map(environment.get("services"), "'services'")
        applications = self._map(parts.get("applications"), "'applications'")
        manifest = self._text(parts.get("manifest"), "'manifest'") or self._sibling_manifest()
        tests = self._map(parts.get("tests"), "'tests'")
        if not tests:
            self._findings.error("MissingKey", "No tests found. Add them to 'tests', each with a name.", document)
        return Suite(
            path=self._path,
            manifest=self._path.parent / manifest,
            applications={
                name: self._path.parent / (self._text(node, f"the application '{name}'") or "")
                for name, node in applications.items()
            },
            environment=EnvironmentView(
                policies=self._data(environment.get("policies"), "'policies'"),
                markers=[marker.value for marker in self._texts(environment.get("markers"), "'markers'")],
                properties=self._data(environment.get("properties"), "'properties'"),
            ),
            services={name: self._data(node, f"the service '{name}'") for name, node in services.items()},
            answers=read_answers(parts.get("answers"), self._findings),
            cases=tuple(self._case(name, node) for name, node in tests.items()),
        )

    def _sibling_manifest(self) -> str:
        """Return the manifest next to the file, with the same ending if it exists."""
        ending = next((each for each in _ENDINGS if self._path.name.endswith(each)), None)
        if ending is None:
            return self._path.name
        stem = self._path.name.removesuffix(ending)
        names = [stem + each.removeprefix(".test") for each in sorted(_ENDINGS, key=lambda each: each != ending)]
        return next((name for name in names if self._path.with_name(name).exists()), names[0])

    def _case(self, name: str, node: Node) -> Case:
        acts = items_of(node, f"the test '{name}'", self._findings)
        return Case(name, node.line, tuple(act for each in acts for act in self._act(each)))

    def _act(self, node: Node) -> Iterator[Act]:
        if isinstance(node, ScalarNode) and node.text in set(Verb):
            node = MappingNode({node.text: ScalarNode(None, "", node.line, node.column)}, {}, node.line, node.column)
        verbs = [verb for verb in Verb if isinstance(node, MappingNode) and verb in node]
        if len(verbs) != 1 or not isinstance(node, MappingNode):
            self._findings.error("MalformedAct", f"Invalid act. Use exactly one of: {', '.join(Verb)}.", node)
            return
        [verb] = verbs
        parts = self._map(node, f"'{verb}'", (verb, "answers", "expect", *_OF_VERB[verb]))
        interval = parts.get("destroyInterval")
        yield Act(
            verb=verb,
            line=node.line,
            subject=self._subject(verb, parts[verb]),
            seconds=self._seconds(parts[verb], "'wait'") if verb is Verb.WAIT else 0.0,
            parameters=self._parameters(parts.get("parameters")),
            destroy_after_s=None if interval is None else self._seconds(interval, "'destroyInterval'"),
            answers=read_answers(parts.get("answers"), self._findings),
            expected=self._expectation(parts.get("expect")),
        )

    def _subject(self, verb: Verb, node: Node) -> str:
        if verb is Verb.RUN:
            if is_null(node):
                report_kind(node, "'run'", "a string", self._findings)
            return self._text(node, "'run'") or ""
        if verb is Verb.RECONFIGURE:
            return self._text(node, "'reconfigure' (another manifest's path, or nothing)") or ""
        if verb is not Verb.WAIT and not is_null(node):
            message = f"'{verb}' has no value. Put 'parameters' and other keys on the same level as it."
            self._findings.error("UnexpectedKind", message, node)
        return ""

    def _expectation(self, node: Node | None) -> Expectation:
        parts = self._map(node, "'expect'", _EXPECTED)
        status = self._expected(parts.get("status"), "'status'")
        if status is not None and status.value not in _FINAL:
            message = f"Unknown status after an act. Use one of: {', '.join(_FINAL)}."
            self._findings.error("UnknownStatus", message, parts["status"])
        workflows = parts.get("workflows")
        machines = parts.get("machines")
        return Expectation(
            status=status,
            error=self._expected(parts.get("error"), "'error'"),
            values=self._each(parts.get("values"), "'values'"),
            like={
                name: Expected(self._text(child, f"'{name}'") or "", child.line)
                for name, child in self._map(parts.get("like"), "'like'").items()
            },
            steps=tuple(self._step(each) for each in items_of(parts.get("steps"), "'steps'", self._findings)),
            not_steps=tuple(self._texts(parts.get("not-steps"), "'not-steps'")),
            workflows=None
            if workflows is None
            else Expected([each.value for each in self._texts(workflows, "'workflows'")], workflows.line),
            machines=None if machines is None else Expected(self._data(machines, "'machines'"), machines.line),
            log=tuple(self._texts(parts.get("log"), "'log'")),
        )

    def _step(self, node: Node) -> ExpectedStep:
        if isinstance(node, ScalarNode):
            return ExpectedStep(line=node.line, step=node.text)
        parts = self._map(node, "a step", _STEP)
        return ExpectedStep(
            line=node.line,
            step=self._text(parts.get("step"), "'step'") or "*",
            component=self._text(parts.get("component"), "'component'"),
            action=self._text(parts.get("action"), "'action'"),
            parameters=self._parameters(parts.get("parameters")),
        )

    def _map(self, node: Node | None, what: str, known: Collection[str] | None = None) -> Mapping[str, Node]:
        children = children_of(node, what, self._findings)
        for key in children if known is not None else ():
            if key not in (known or ()):
                assert isinstance(node, MappingNode), "it has children"
                message = f"Unknown key '{key[:80]}' in {what}. Valid keys: {', '.join(known or ())}."
                self._findings.error("UnknownKey", message, node.place_of(key))
        return children

    def _data(self, node: Node | None, what: str) -> dict[str, Any]:
        return {name: plain(child) for name, child in self._map(node, what).items()}

    def _parameters(self, node: Node | None) -> dict[str, Any]:
        return {name: written_data(child) for name, child in self._map(node, "'parameters'").items()}

    def _each(self, node: Node | None, what: str) -> dict[str, Expected]:
        return {name: Expected(plain(child), child.line) for name, child in self._map(node, what).items()}

    def _expected(self, node: Node | None, what: str) -> Expected | None:
        text = self._text(node, what)
        return None if node is None or text is None else Expected(text, node.line)

    def _texts(self, node: Node | None, what: str) -> list[Expected]:
        """Return a list of strings; a single string is a list of one."""
        nodes = (node,) if isinstance(node, ScalarNode) and not is_null(node) else items_of(node, what, self._findings)
        return [Expected(self._text(each, what) or "", each.line) for each in nodes]

    def _text(self, node: Node | None, what: str) -> str | None:
        return text_of(node, what, self._findings)

    def _seconds(self, node: Node, what: str) -> float:
        try:
            return parse_duration_s(plain(node), longest_s=_LONGEST_S)
        except ValueError as error:
            self._findings.error("MalformedDuration", f"{what}: {error}", node)
            return 0.0
