"""The language of rules about changes: what is refused when it is saved, and what rules say to facts."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from launchbay import limits
from launchbay.errors import InvalidManifest
from launchbay.features.change_rules.rules import Approval, Facts, Verdict, ask, parse, problems_of
from launchbay.features.change_rules.suite import read_suite

_LEVELS = zip("abcdef", "bcdefg", strict=True)
ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in _LEVELS
)
FRIDAY = datetime(2026, 12, 4, 13, 30, tzinfo=UTC)


def facts(approvals: tuple[Approval, ...] | None = None, **given: Any) -> Facts:
    """Return the facts of a change, with nothing known but what is given."""
    data = b"facts: {}\ntests: { one: { expect: allow } }"
    nothing = read_suite(data).cases[0].facts.values
    return Facts({**nothing, **given}, FRIDAY, approvals)


def said(text: str, found: Facts) -> list[Verdict]:
    return list(ask(parse(text), found))


def problems(text: str) -> str:
    with pytest.raises(InvalidManifest) as caught:
        parse(text)
    return "\n".join(problems_of(caught.value))


def rule(when: str, then: str = "deny: No.") -> str:
    return f"- name: one\n  when: {when}\n  {then}\n"


@pytest.mark.parametrize("text", ["", " \n", "# nothing\n", "[]\n"])
def test_a_text_without_rules_allows_everything(text: str) -> None:
    assert parse(text) == ()


def test_a_rule_without_a_condition_is_about_each_change() -> None:
    [verdict] = said("- name: never\n  deny: Nothing changes here", facts())
    assert verdict.outcome == "deny"
    assert verdict.sentence == "Nothing changes here."


def test_a_rule_says_its_sentence_with_facts_and_names_those_that_decided() -> None:
    text = rule(
        "$.kind == 'launch' && $.who.email in ['ann@example.org']", "deny: Not {$.who.email} on {$.time.weekday}."
    )
    [verdict] = said(text, facts(kind="launch", who={"email": "ann@example.org"}))
    assert verdict.sentence == "Not ann@example.org on FRI."
    assert verdict.facts == ('kind: "launch"', 'who.email: "ann@example.org"')
    assert said(text, facts(kind="destroy", who={"email": "ann@example.org"})) == []


def test_the_time_is_that_of_the_rule_s_zone() -> None:
    text = rule("$.time.clock == '14:30' && $.time.date == '2026-12-04'") + "  timeZone: Europe/Berlin\n"
    assert [each.outcome for each in said(text, facts())] == ["deny"]
    assert said(rule("$.time.hour == 14"), facts()) == []


@pytest.mark.parametrize(
    ("require", "approvals", "missing"),
    [
        ("changeSet: true", None, 0),
        ("approvals: 2", None, 2),
        ("approvals: 2", (Approval("a", ()),), 1),
        ("approvalsFrom: [Ops]", (Approval("a", ("Dev",)),), 1),
        ("approvals: 2, approvalsFrom: [Ops, Sec]", (Approval("a", ("Ops",)), Approval("b", ())), 1),
    ],
)
def test_a_requirement_that_is_not_met_says_how_many_approvals_are_missing(
    require: str, approvals: tuple[Approval, ...] | None, missing: int
) -> None:
    text = f"- name: one\n  require: {{{require}}}\n  because: Ask first.\n"
    [verdict] = said(text, facts(approvals))
    assert (verdict.outcome, verdict.missing) == ("require", missing)


@pytest.mark.parametrize(
    ("require", "approvals"),
    [
        ("changeSet: true", ()),
        ("approvals: 2", (Approval("a", ()), Approval("b", ()))),
        ("approvals: 2, approvalsFrom: [Ops, Sec]", (Approval("a", ("Ops",)), Approval("b", ("Sec",)))),
    ],
)
def test_a_requirement_that_is_met_says_nothing(require: str, approvals: tuple[Approval, ...]) -> None:
    text = f"- name: one\n  require: {{{require}}}\n  because: Ask first.\n"
    assert said(text, facts(approvals)) == []


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("- name: a\n  deny: {", "Line 3, column 1", "Invalid YAML"),
        ("name: a", "Line 1, column 1", "must be a list"),
        ("- deny", "Line 1, column 3", "must be a map"),
        ("- when: true\n  deny: No.", "Line 1, column 3", "A rule has a name"),
        ("- name: a\n  deny: No.\n- name: a\n  deny: No.", "Line 3, column 3", "Another rule is named 'a'"),
        ("- name: a\n  denies: No.", "Line 2, column 3", "Did you mean 'deny'"),
        ("- name: a\n  deny: No.\n  warn: No.", "Line 1, column 3", "exactly one of deny, warn and require"),
        ("- name: a\n  require: { changeSet: true }", "Line 1, column 3", "Write the message for people"),
        ("- name: a\n  require: { approvals: 0 }\n  because: x", "Line 2, column 25", "a number from 1 to"),
        ("- name: a\n  require: { approvals: many }\n  because: x", "Line 2, column 25", "a number from 1 to"),
        ("- name: a\n  require: {}\n  because: x", "Line 2, column 12", "changeSet, approvals or approvalsFrom"),
        ("- name: a\n  require: { teams: [x] }\n  because: x", "Line 2, column 14", "Unknown key 'teams'"),
        ("- name: a\n  deny: No.\n  timeZone: Mars/Base", "Line 3, column 13", "no time zone 'Mars/Base'"),
        ("- name: a\n  when: [true]\n  deny: No.", "Line 2, column 9", "must be an expression"),
        ("- name: a\n  when: $.kind = 'x'\n  deny: No.", "Line 2, column 16", "expected an operator"),
        ("- name: a\n  when: $.kin == 'x'\n  deny: No.", "Line 2, column 9", "There is no fact 'kin'"),
        ("- name: a\n  when: true && $.who.mail == 'x'\n  deny: No.", "Line 2, column 17", "no field 'mail'"),
        ("- name: a\n  deny: No {$.instance.owner}.", "Line 2, column 12", "$.instance has no field 'owner'"),
        ("- name: a\n  when: $.who.roles.name == 'x'\n  deny: No.", "Line 2, column 9", "is a list"),
        ("- name: a\n  when: $.kind.x == 'x'\n  deny: No.", "Line 2, column 9", "it is a single value"),
        ("- name: a\n  when: $..email == 'x'\n  deny: No.", "Line 2, column 9", "a rule names each fact"),
        ("- name: a\n  when: $.* == 'x'\n  deny: No.", "Line 2, column 9", "a rule names each fact"),
        ("- name: a\n  when: size($.kind) > 1\n  deny: No.", "Line 2, column 9", "unknown function"),
        ("- name: !!python/object:os.system a\n  deny: No.", "Line 1, column 9", "tag"),
    ],
)
def test_an_error_is_refused_with_its_line_and_column(text: str, place: str, problem: str) -> None:
    found = problems(text)
    assert place in found
    assert problem in found


@pytest.mark.parametrize(
    "when",
    [
        "$.who.roles[0] == 'x'",
        "'x' in $.who.roles",
        "$.parameters['input.size'] == 3",
        "$.changeSet.approvals.*.email == []",
        "$.environment.properties.anything.below == 1",
    ],
)
def test_parts_of_known_facts_are_accepted(when: str) -> None:
    assert len(parse(rule(f'"{when}"'))) == 1


@pytest.mark.parametrize(
    "text",
    [
        ALIASES,
        "- name: a\n  deny: " + "x" * limits.CHANGE_RULES_BYTES,
        "[" * 100_000,
        "".join(f"- {{name: r{number}, deny: No.}}\n" for number in range(limits.CHANGE_RULES + 1)),
        rule("(" * 5_000 + "true" + ")" * 5_000),
        rule("true", f"deny: {'x' * (limits.CHANGE_RULE_SENTENCE_CHARS + 1)}"),
        "- name: \ud800\n  deny: No.",
        "# nothing\n" * limits.CHANGE_RULES_BYTES,
    ],
    ids=["aliases", "long", "deep", "many", "nested expression", "long sentence", "half a character", "comments"],
)
def test_what_is_too_large_is_refused_soon(text: str) -> None:
    began_s = time.process_time()
    assert "Line " in problems(text)
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    ("when", "given"),
    [
        ("$.parameters.servers > 5", {"servers": "6"}),
        ("$.parameters.servers > 5", {}),
        ("$.parameters.size", {"size": "small"}),
        ("matches($.parameters.text, '(a|b|ab)*c')", {"text": "ab" * 200_000}),
        ("$.parameters.list == $.parameters.list", {"list": [[1] * 100] * 100}),
    ],
    ids=["a text", "nothing", "not true or false", "a long search", "a large comparison"],
)
def test_a_rule_that_fails_refuses_with_its_sentence(when: str, given: Mapping[str, Any]) -> None:
    began_s = time.process_time()
    [verdict] = said(rule(when), facts(parameters=given))
    assert time.process_time() - began_s < 1
    assert (verdict.outcome, verdict.sentence) == ("deny", "No.")
    assert verdict.failure


def test_a_requirement_that_fails_refuses_and_a_warning_that_fails_warns() -> None:
    [verdict] = said(rule("$.parameters.x > 1", "require: { changeSet: true }\n  because: Ask."), facts())
    assert (verdict.outcome, verdict.sentence) == ("deny", "Ask.")
    [verdict] = said(rule("$.parameters.x > 1", "warn: Many."), facts())
    assert verdict.outcome == "warn"
    assert verdict.failure


def test_properties_of_environments_are_not_shown() -> None:
    environment = {"name": "test", "properties": {"secret": "s3cr3t", "limit": 3}}
    text = rule("$.environment.properties.limit == 3 && $.environment.name == 'test'")
    [verdict] = said(text, facts(environment=environment))
    assert verdict.facts == ("environment.properties.limit: a value that is not shown", 'environment.name: "test"')


@pytest.mark.parametrize(
    "when",
    [
        "$.environment == 1",
        "$.environment.* == 1",
        "$['environment']['properties'] == 1",
        "$.environment.*.secret == 1",
    ],
)
def test_what_contains_properties_is_not_shown(when: str) -> None:
    environment = {"name": "test", "properties": {"secret": "s3cr3t"}}
    [verdict] = said(rule(f'"!({when})"'), facts(environment=environment))
    assert verdict.failure is None
    assert "s3cr3t" not in " ".join(verdict.facts)


def test_a_sentence_that_cannot_be_computed_is_shown_as_written() -> None:
    [verdict] = said(rule("true", 'deny: "It is {$= $.parameters.x + 1}."'), facts())
    assert verdict.sentence == "It is {$= $.parameters.x + 1}."
