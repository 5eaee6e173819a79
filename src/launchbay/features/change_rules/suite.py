"""Tests of rules: cases with facts of a change, and the expected answer. Pure.

rules: production.yml
facts: { environment: { name: production } }
tests:
  nobody launches on a Friday afternoon:
    facts: { kind: launch, time: "2026-12-04T15:00+01:00" }
    expect: { deny: quiet-friday }
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from launchbay.features.change_rules.rules import FACTS, OPEN, Approval, Facts, Outcome, Rule, Verdict, ask
from launchbay.manifest.reader import read
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, children_of, is_null, names_of, plain, text_of
from launchbay.model.findings import Findings

ENDINGS = (".test.yml", ".test.yaml")
_SUITE = ("rules", "facts", "tests")
_CASE = ("facts", "expect")
_EXPECTED: tuple[Outcome, ...] = ("deny", "warn", "require")
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)  # the time of a case that says none: a Thursday


class Case(NamedTuple):
    """One test.

    `names` are the rules that should say so, and `sentence` a part of what they say.
    """

    name: str
    line: int
    facts: Facts
    outcome: Outcome | None  # None: allowed
    names: tuple[str, ...]
    sentence: str


class RuleSuite(NamedTuple):
    """A file of tests.

    `rules` is the path of the rules, relative to it, and None for the file with its name.
    """

    rules: str | None
    cases: tuple[Case, ...]


def read_suite(data: bytes) -> RuleSuite:
    """Return the tests in `data`. Raises InvalidManifest with all findings."""
    findings = Findings()
    parts = children_of(read(data), "The file", findings, _SUITE, strict=True)
    tests = children_of(parts.get("tests"), "'tests'", findings)
    if not tests:
        findings.error("MalformedRuleTest", "No tests found. Add them to 'tests', each with a name.", read(data))
    shared = _facts(parts.get("facts"), findings)
    cases = [_case(name, node, shared, findings) for name, node in tests.items()]
    findings.raise_errors()
    return RuleSuite(text_of(parts.get("rules"), "'rules'", findings), tuple(cases))


def _case(name: str, node: Node, shared: Mapping[str, Any], findings: Findings) -> Case:
    inner = findings.at(name)
    parts = children_of(node, "A test", inner, _CASE, strict=True)
    given = _merged(shared, _facts(parts.get("facts"), inner))
    wanted = parts.get("expect")
    outcome: Outcome | None = None
    names: tuple[str, ...] = ()
    sentence = ""
    if wanted is None or is_null(wanted):
        inner.error("MalformedRuleTest", "A test says what it expects: allow, or a map such as {deny: RULE}.", node)
    elif not isinstance(wanted, ScalarNode) or wanted.value != "allow":
        expected = children_of(wanted, "'expect'", inner, (*_EXPECTED, "message"), strict=True)
        outcomes = [each for each in _EXPECTED if each in expected]
        if len(outcomes) != 1:
            inner.error("MalformedRuleTest", "Expect allow, or exactly one of deny, warn and require.", wanted)
        else:
            [outcome] = outcomes
            names = tuple(each.text for each in names_of(expected[outcome], f"'{outcome}'", inner))
        sentence = text_of(expected.get("message"), "'message'", inner) or ""
    return Case(name, node.line, _assembled(given, node, inner), outcome, names, sentence)


def _facts(node: Node | None, findings: Findings) -> dict[str, Any]:
    """Return facts that a file gives, checked by name."""
    if node is None or is_null(node):
        return {}
    if not isinstance(node, MappingNode):
        children_of(node, "'facts'", findings)
        return {}
    _check(node, FACTS, "", findings)
    found: dict[str, Any] = plain(node)
    return found


def _check(node: MappingNode, known: Mapping[str, Any], said: str, findings: Findings) -> None:
    for name, child in node.items():
        if name not in known:
            message = f"There is no fact '{said}{name[:80]}'. Known: {', '.join(known)}."
            findings.error("UnknownFact", message, node.place_of(name))
            continue
        inner = known[name]
        if said == "" and name == "time":
            if not isinstance(child, ScalarNode):
                message = "'time' is a time, such as '2026-12-04T15:00+01:00'."
                findings.error("MalformedRuleTest", message, child)
        elif isinstance(inner, Mapping):
            if isinstance(child, MappingNode):
                _check(child, inner, f"{said}{name}.", findings)
            elif not is_null(child):
                findings.error("MalformedRuleTest", f"'{said}{name}' is a map of {', '.join(inner)}.", child)


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(shared)
    for name, value in own.items():
        before = found.get(name)
        found[name] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return found


def _assembled(given: Mapping[str, Any], node: Node, findings: Findings) -> Facts:
    at = _BEGIN
    if "time" in given:
        try:
            at = datetime.fromisoformat(str(given["time"]))
        except ValueError:
            findings.error("MalformedRuleTest", "'time' is a time, such as '2026-12-04T15:00+01:00'.", node)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
    values = _merged(_nothing(FACTS), {name: value for name, value in given.items() if name != "time"})
    approvals = None
    if given.get("changeSet"):
        found = values["changeSet"]["approvals"]
        rows = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        approvals = tuple(Approval(str(each.get("email")), tuple(each.get("roles") or ())) for each in rows)
    return Facts(values, at, approvals)


def _nothing(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a change about which nothing is known."""
    found: dict[str, Any] = {}
    for name, inner in known.items():
        if name == "time":
            continue
        if inner is OPEN:
            found[name] = {}
        else:
            found[name] = [] if isinstance(inner, list) else _nothing(inner) if isinstance(inner, Mapping) else None
    return found


def verdicts_of(rules: Sequence[Rule], facts: Facts) -> tuple[Outcome | None, tuple[Verdict, ...]]:
    """Return what rules say to a change as a whole, and which say it.

    None: they allow it.
    """
    found = tuple(ask(rules, facts))
    for outcome in ("deny", "require", "warn"):
        of_it = tuple(each for each in found if each.outcome == outcome)
        if of_it:
            return outcome, of_it[:1] if outcome == "deny" else of_it
    return None, ()


def differences(rules: Sequence[Rule], case: Case) -> Iterator[str]:
    """Yield how the answer of rules differs from the expected one."""
    outcome, verdicts = verdicts_of(rules, case.facts)
    names = tuple(each.rule.name for each in verdicts)
    failures = "".join(f" The rule failed: {each.failure}" for each in verdicts if each.failure is not None)
    found = "allow" if outcome is None else f"{outcome} by {', '.join(names)}"
    if outcome != case.outcome or (case.names and not set(case.names) <= set(names)):
        wanted = "allow" if case.outcome is None else f"{case.outcome} by {', '.join(case.names) or 'some rule'}"
        yield f"expected {wanted}, found {found}.{failures}"
    elif case.sentence and not any(case.sentence in each.sentence for each in verdicts):
        said = " ".join(each.sentence for each in verdicts)
        yield f"expected a message with {case.sentence!r}, found {said!r}."
