"""The language of rules about changes: YAML with expressions of the manifest. Pure.

    - name: quiet-friday
      when: $.environment.labels.tier == 'production' && $.time.weekday == 'FRI' && $.time.hour >= 14
      timeZone: Europe/Berlin
      deny: Nothing changes in {$.environment.name} on a Friday afternoon.

`parse` refuses what can't work, with line and column: also a fact that no change has. `ask` says what rules answer to
the facts of one change. A rule whose condition fails refuses the change, unless it would only have warned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from launchbay import limits
from launchbay.errors import ExpressionError, InvalidManifest
from launchbay.manifest.budget import EvaluationBudget
from launchbay.manifest.expressions import Template, Templates
from launchbay.manifest.paths import NOTHING, Path, Scope
from launchbay.manifest.reader import Bounds, read
from launchbay.manifest.source import Source
from launchbay.manifest.tree import (
    Node,
    ScalarNode,
    children_of,
    is_name,
    is_null,
    items_of,
    kind_of,
    names_of,
    report_kind,
    text_of,
)
from launchbay.model.findings import Findings

Outcome = Literal["deny", "warn", "require"]

# The facts of a change, by their names in expressions. A leaf is None, a list has the shape of its items, and anything
# may be in `OPEN`.
OPEN = ...
_LABELS = OPEN
FACTS: Mapping[str, Any] = {
    "operation": None,
    "kind": None,
    "workflow": None,
    "who": {"id": None, "email": None, "name": None, "roles": [None]},
    "credential": {"kind": None, "name": None, "origin": None},
    "application": {"id": None, "name": None, "labels": _LABELS},
    "revision": {"id": None, "name": None, "version": None},
    "environment": {"id": None, "name": None, "labels": _LABELS, "markers": [None], "properties": OPEN},
    "instance": {"id": None, "name": None, "labels": _LABELS, "status": None, "version": None},
    "parameters": OPEN,
    "lifetime": {"hours": None, "isForever": None},
    "changeSet": {
        "id": None,
        "author": None,
        "comment": None,
        "approvals": [{"email": None, "roles": [None]}],
    },
    "time": {
        "date": None,
        "clock": None,
        "weekday": None,
        "year": None,
        "month": None,
        "day": None,
        "hour": None,
        "minute": None,
        "ms": None,
    },
}
_HIDDEN = ("environment", "properties")  # who launches may not read them, so no refusal shows them
_KEYS = ("name", "when", "timeZone", "deny", "warn", "require", "because")
_OUTCOMES: tuple[Outcome, ...] = ("deny", "warn", "require")
_REQUIRED = ("changeSet", "approvals", "approvalsFrom")
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_ALWAYS = "true"
_SHOWN_FACTS = 10
_SHOWN_CHARS = 100
_BOUNDS = Bounds(bytes=limits.CHANGE_RULES_BYTES, nodes=limits.CHANGE_RULES_NODES)


class Requirement(NamedTuple):
    """What a change needs: a change set, and approvals of it.

    They count from others than its author.

    With roles, an approval counts only from somebody who has one of them.
    """

    approvals: int
    roles: tuple[str, ...]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of a text.

    `condition` is that of `when` as written. `requirement` is what one that requires something asks for.
    """

    name: str
    line: int
    condition: str
    when: Template
    outcome: Outcome
    sentence: Template
    zone: str
    requirement: Requirement | None


class Verdict(NamedTuple):
    """What a rule says to a change.

    `facts` are those that its condition read, as `name: value`. `failure` is why the condition couldn't be computed.
    `missing` are the approvals that it still needs, for a rule that requires something.
    """

    rule: Rule
    outcome: Outcome
    sentence: str
    facts: tuple[str, ...]
    failure: str | None = None
    missing: int = 0


class Approval(NamedTuple):
    """Somebody who approved a change set, with the names of their roles."""

    email: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What rules know of one change.

    `values` has the form of `FACTS`, without the time. `approvals` are those of others than the author of its change
    set, None without a change set.
    """

    values: Mapping[str, Any]
    at: datetime
    approvals: tuple[Approval, ...] | None = None


@lru_cache(maxsize=256)
def parse(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text; none of an empty one.

    Raises InvalidManifest with all findings.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limits.CHANGE_RULES_BYTES and all(
        not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()
    ):
        return ()
    findings = Findings()
    reader = _Reader(data, findings)
    rules = reader.rules(read(data, _BOUNDS, findings))
    findings.raise_errors()
    return rules


def problems_of(error: InvalidManifest) -> tuple[str, ...]:
    """Return the findings as sentences about rules: the reader speaks of manifests."""
    return tuple(
        each.replace("The manifest", "The text").replace("the manifest", "the text") for each in error.messages
    )


class _Reader:
    def __init__(self, data: bytes, findings: Findings) -> None:
        self._findings = findings
        self._source = Source(data)
        self._templates = Templates(self._source, limits.CHANGE_RULES_EXPRESSIONS)

    def rules(self, document: Node) -> tuple[Rule, ...]:
        items = items_of(document, "The file", self._findings)
        if len(items) > limits.CHANGE_RULES:
            message = f"There are {len(items)} rules. The limit is {limits.CHANGE_RULES}; the rest begins here."
            self._findings.error("MalformedRule", message, items[limits.CHANGE_RULES])
            return ()
        found: list[Rule] = []
        names: set[str] = set()
        for item in items:
            rule = self._rule(item)
            if rule is None:
                continue
            if rule.name in names:
                self._findings.error(
                    "MalformedRule", f"Another rule is named {rule.name!r}. Choose another name.", item
                )
            names.add(rule.name)
            found.append(rule)
        return tuple(found)

    def _rule(self, node: Node) -> Rule | None:
        if is_null(node) or isinstance(node, ScalarNode):
            report_kind(node, "A rule", "a map with 'name', 'when' and one of deny, warn, require", self._findings)
            return None
        parts = children_of(node, "A rule", self._findings, _KEYS, strict=True)
        name = text_of(parts.get("name"), "'name'", self._findings)
        if name is None:
            self._findings.error("MalformedRule", "A rule has a name. Add 'name'.", node)
            return None
        inner = self._findings.at(name[: limits.NAME_CHARS])
        is_name(name, "a rule", parts["name"], self._findings)
        outcomes: list[Outcome] = [each for each in _OUTCOMES if each in parts]
        if len(outcomes) != 1:
            inner.error("MalformedRule", "A rule has exactly one of deny, warn and require.", node)
            return None
        [outcome] = outcomes
        requirement = self._requirement(parts["require"], inner) if outcome == "require" else None
        if outcome != "require" and "because" in parts:
            inner.error(
                "MalformedRule", f"'because' goes with require: the message follows {outcome} itself.", parts["because"]
            )
        when = parts.get("when")
        sentence = parts.get("because" if outcome == "require" else outcome)
        return Rule(
            name=name,
            line=node.line,
            condition=" ".join(when.text.split()) if isinstance(when, ScalarNode) else _ALWAYS,
            when=self._condition(when, inner),
            outcome=outcome,
            sentence=self._sentence(sentence, node, inner),
            zone=self._zone(parts.get("timeZone"), inner),
            requirement=requirement,
        )

    def _condition(self, node: Node | None, findings: Findings) -> Template:
        if node is None:
            node = ScalarNode(_ALWAYS, _ALWAYS, 1, 1)  # a rule without a condition is about each change
        elif is_null(node) or not isinstance(node, ScalarNode) or not isinstance(node.value, str | bool):
            report_kind(node, "'when'", "an expression, such as $.kind == 'destroy'", findings)
        return self._checked(self._templates.of_condition(node, findings), node, findings)

    def _sentence(self, node: Node | None, rule: Node, findings: Findings) -> Template:
        if node is None or not isinstance(node, ScalarNode) or not node.text.strip():
            message = "Write the message for people after deny or warn, or as 'because'."
            findings.error("MalformedRule", message, rule if node is None else node)
            return self._templates.of(ScalarNode("", "", 1, 1), findings)
        if len(node.text) > limits.CHANGE_RULE_SENTENCE_CHARS:
            message = f"The message has {len(node.text)} characters. Use at most {limits.CHANGE_RULE_SENTENCE_CHARS}."
            findings.error("MalformedRule", message, node)
        text = ScalarNode(node.text, node.text, node.line, node.column)  # also of a number
        return self._checked(self._templates.of(text, findings), text, findings)

    def _checked(self, template: Template, node: Node, findings: Findings) -> Template:
        """Return the template, and report paths to facts that no change has."""
        for path in template.paths:
            problem = _unknown(path)
            if problem is not None:
                assert isinstance(node, ScalarNode), "maps and lists were refused"
                place = self._source.place(node, max(0, node.text.find(path.text)))
                findings.error("UnknownFact", problem, place)
        return template

    def _zone(self, node: Node | None, findings: Findings) -> str:
        name = text_of(node, "'timeZone'", findings)
        if node is None or name is None:
            return "UTC"
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            findings.error(
                "MalformedRule", f"There is no time zone {name[:80]!r}. Use one such as Europe/Berlin.", node
            )
            return "UTC"
        return name

    def _requirement(self, node: Node, findings: Findings) -> Requirement:
        parts = children_of(node, "'require'", findings, _REQUIRED, strict=True)
        roles = tuple(each.text for each in names_of(parts.get("approvalsFrom"), "'approvalsFrom'", findings))
        approvals = 1 if roles else 0
        given = parts.get("approvals")
        number = given.value if isinstance(given, ScalarNode) else None
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= limits.CHANGE_RULE_APPROVALS:
            approvals = number
        elif given is not None:
            message = f"'approvals' is a number from 1 to {limits.CHANGE_RULE_APPROVALS}, not {kind_of(given)}."
            findings.error("MalformedRule", message, given)
        wanted = parts.get("changeSet")
        if wanted is not None and not (isinstance(wanted, ScalarNode) and wanted.value is True):
            findings.error("MalformedRule", "'changeSet' is true. Leave it out otherwise.", wanted)
        if isinstance(node, ScalarNode) or not parts:
            findings.error("MalformedRule", "'require' names changeSet, approvals or approvalsFrom.", node)
        return Requirement(approvals, roles)


def _unknown(path: Path) -> str | None:
    """Return why a path leads to nothing that a change has."""
    _, macro_step, _, *steps = path.meaning
    if macro_step is not None:
        return f"{path.text[:80]}: a rule has no workflows. Facts start with $., such as $.kind."
    if any(kind == "descent" for kind, *_ in steps) or steps[0][0] == "wildcard":
        return f"{path.text[:80]}: a rule names each fact. Use $.{', $.'.join(FACTS)}."
    known: Any = FACTS
    said = "$"
    for kind, *rest in steps:
        # Anything may be in an open map, and the values of a map have many forms.
        if known is OPEN or (kind == "wildcard" and isinstance(known, Mapping)):
            return None
        problem = _wrong_step(known, said, kind, *rest)
        if problem is not None:
            return problem
        if isinstance(known, list):
            known = known[0]
        else:
            known = known[rest[0]]
            said += f".{rest[0]}"
    return None


def _wrong_step(known: Any, said: str, kind: str, part: Any = "*") -> str | None:
    """Return why a step of a path leads to nothing from such facts."""
    if isinstance(known, list):
        return f"{said} is a list, which has no field {part!r}. Use {said}.*.{part} or in." if kind == "key" else None
    if known is None:
        return f"{said} has no part {part!r}: it is a single value."
    if kind == "index":
        return f"{said} has no part {part!r}: it is a map."
    if part not in known:
        whole = f"There is no fact {part[:80]!r}." if said == "$" else f"{said} has no field {part[:80]!r}."
        return f"{whole} {'The facts are' if said == '$' else 'It has'} {', '.join(known)}."
    return None


def ask(rules: Sequence[Rule], facts: Facts) -> Iterator[Verdict]:
    """Yield what rules say that don't simply allow a change, in their order."""
    for rule in rules:
        scope = Scope({**facts.values, "time": time_facts(facts.at, rule.zone)}, now_s=int(facts.at.timestamp()))
        outcome: Outcome = rule.outcome
        applies, failure = _applies(rule, scope)
        if failure is not None and outcome == "require":
            outcome = "deny"
        if not applies:
            continue
        missing = 0
        if outcome == "require" and rule.requirement is not None:
            missing = _missing(rule.requirement, facts.approvals)
            if missing == 0 and facts.approvals is not None:
                continue
        decided_by = () if outcome == "warn" else tuple(_read_facts(rule, scope))  # a warning shows none
        yield Verdict(rule, outcome, _said(rule, scope), decided_by, failure, missing)


def _applies(rule: Rule, scope: Scope) -> tuple[bool, str | None]:
    """Return whether the condition of a rule is true, and why it failed.

    One that failed counts as true.
    """
    budget = EvaluationBudget(limits.CHANGE_RULE_NS, limits.CHANGE_RULE_MEMORY_BYTES)
    try:
        value, _ = rule.when.evaluate(scope, budget)
    except ExpressionError as error:
        return True, str(error)
    if isinstance(value, bool):
        return value, None
    return True, "The condition is neither true nor false. Compare it, or use default()."


def _missing(requirement: Requirement, approvals: tuple[Approval, ...] | None) -> int:
    wanted = set(requirement.roles)
    counted = [each for each in approvals or () if not wanted or wanted.intersection(each.roles)]
    return max(0, requirement.approvals - len(counted))


def _said(rule: Rule, scope: Scope) -> str:
    """Return the sentence of a rule.

    One that can't be computed is shown as written.
    """
    try:
        budget = EvaluationBudget(limits.CHANGE_RULE_NS, limits.CHANGE_RULE_MEMORY_BYTES)
        said, _ = rule.sentence.evaluate(scope, budget)
    except ExpressionError:
        said = rule.sentence.written
    text = ", ".join(map(str, said)) if isinstance(said, list) else str(said)
    text = " ".join(text.split())[: limits.CHANGE_RULE_SENTENCE_CHARS]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _read_facts(rule: Rule, scope: Scope) -> Iterator[str]:
    seen: set[str] = set()
    for path in rule.when.paths:
        name = path.text.strip("{}").removeprefix("$").removeprefix(".").removeprefix("=").strip()
        if name in seen or len(seen) == _SHOWN_FACTS:
            continue
        seen.add(name)
        _, _, _, *steps = path.meaning
        is_hidden = _holds_hidden(steps)
        try:
            value = path.resolve(scope, EvaluationBudget(limits.CHANGE_RULE_NS, limits.CHANGE_RULE_MEMORY_BYTES))
        except ExpressionError:
            continue
        shown = msgspec.json.encode(None if value is NOTHING else value).decode()
        shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
        yield f"{name}: {'a value that is not shown' if is_hidden else shown}"


def _holds_hidden(steps: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether a path leads to hidden facts, or to what contains them."""
    begins = [rest[0] if kind == "key" else None for kind, *rest in steps[: len(_HIDDEN)]]
    return all(name in (None, hidden) for name, hidden in zip(begins, _HIDDEN, strict=False))


def time_facts(at: datetime, zone: str) -> dict[str, Any]:
    """Return the facts of a moment on the clock of a time zone."""
    local = at.astimezone(UTC if zone == "UTC" else ZoneInfo(zone))
    return {
        "date": f"{local:%Y-%m-%d}",
        "clock": f"{local:%H:%M}",
        "weekday": _WEEKDAYS[local.weekday()],
        "year": local.year,
        "month": local.month,
        "day": local.day,
        "hour": local.hour,
        "minute": local.minute,
        "ms": round(at.timestamp() * 1000),
    }
