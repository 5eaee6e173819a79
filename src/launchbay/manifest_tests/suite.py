"""What a file of manifest tests says (docs/reference/manifest-tests.md). Each thing knows its line."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from launchbay.machines.dry_run import Answers
from launchbay.model.environment import EnvironmentView

Services = Mapping[str, Mapping[str, Any]]  # interface → pin → a command's results, or a signal's value


class Verb(StrEnum):
    """What can be done to the instance of a test."""

    LAUNCH = "launch"
    RUN = "run"
    RECONFIGURE = "reconfigure"
    WAIT = "wait"
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True)
class Expected:
    """A value that is expected, or a text that may have `*` and `?` in it."""

    value: Any
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStep:
    """A step that is expected to have run: what is None, and parameters that are not named, may be anything."""

    line: int
    step: str
    component: str | None = None
    action: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What shall be so after an act. None expects nothing; without a status and an error the act shall succeed."""

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
    """Something that is done, with what is expected of it. `subject` is a workflow's name, or a manifest's path."""

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
    """One test: acts on one instance, one after the other."""

    name: str
    line: int
    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A whole file. `applications` are manifests by the name that submodules know them by."""

    path: Path
    manifest: Path
    applications: Mapping[str, Path]
    environment: EnvironmentView
    services: Services
    answers: Answers
    cases: tuple[Case, ...]
