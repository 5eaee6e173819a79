"""How what is there differs from what an instance is described as. Pure.

A check plans the launch again. What the plan would change differs, unless it was known right after the last change.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from launchbay import limits
from launchbay.features.plans.rules import PlannedStep, not_allowed
from launchbay.model.effect import AFTER_APPLY, ANSWER, NOT_SHOWN, Effect
from launchbay.model.redaction import REDACTED

_NO_VALUES = {REDACTED, AFTER_APPLY, NOT_SHOWN}
State = Literal["new", "ignored", "put back", "taken over", "gone"]
OPEN: frozenset[State] = frozenset({"new", "ignored"})
Learns = Literal["asked", "launch", "reconfigure"]
# Digests of what was found, by step, address and attribute. Of answers, it is the text itself.
Known = Mapping[str, Mapping[str, Mapping[str, str]]]
_ANSWER = "answer"  # its attribute
_DIGEST = "sha256:"  # what is known of an answer beyond the bytes that are kept of an instance


def id_of(step: str, address: str) -> str:
    """Return what names an address of a step in every check."""
    return hashlib.sha256(f"{step}\n{address}".encode()).hexdigest()[:24]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """How one address differs.

    `described` and `found` have the attributes that differ, or all of what is missing or should not be there. A value
    without attributes is under the name "".
    """

    step: str
    component: str
    address: str
    kind: Literal["changed", "missing", "extra"]
    described: dict[str, Any] = {}
    found: dict[str, Any] = {}
    note: str = ""

    @property
    def id(self) -> str:
        """What names it in every check."""
        return id_of(self.step, self.address)

    @property
    def is_answer(self) -> bool:
        """Whether a step's own plan says something else than it did."""
        return self.note == ANSWER

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.described) | frozenset(self.found) if self.kind == "changed" else frozenset({self.kind})

    def digests(self) -> dict[str, str]:
        """Return what is found, so that it is recognized without its values."""
        if self.kind != "changed" or not self.attributes:  # an action may say only that something differs
            return {"": self.kind}
        return {name: _digest(self.found.get(name)) for name in self.attributes}


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A difference with what people said to it.

    Times are in milliseconds since the Unix epoch.
    `accepted` are the attributes that somebody ignores. `answer` is what a change set is to make of it, and `remedy`
    what to do if none can.
    """

    difference: Difference
    state: State
    first_seen: int
    last_seen: int
    accepted: list[str] = []
    reason: str = ""
    until: int | None = None
    by: str = ""
    answer: Literal["", "put back", "taken over"] = ""
    change_set_id: str | None = None
    remedy: str = ""

    @property
    def id(self) -> str:
        return self.difference.id

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


class TakeOver(msgspec.Struct, frozen=True, kw_only=True):
    """The finding whose value a parameter is to get, and who wants it."""

    finding_id: str
    owner_id: str
    owner_email: str
    owner_name: str
    address: str
    method: str
    token_id: str | None


class Unchecked(msgspec.Struct, frozen=True):
    """A step about which the plan says nothing, and why."""

    step: str
    note: str


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check of the history: how many findings there were, or its problem."""

    at: int
    new: int = 0
    ignored: int = 0
    unchecked: int = 0
    learned: bool = False
    problem: str = ""


class PutBackDone(msgspec.Struct, frozen=True):
    """A finding that a rule has put back.

    `at` is in milliseconds since the Unix epoch.
    """

    finding_id: str
    at: int


read_done = msgspec.json.Decoder(list[PutBackDone]).decode
read_findings = msgspec.json.Decoder(list[Finding]).decode
read_take_overs = msgspec.json.Decoder(list[TakeOver]).decode
read_known = msgspec.json.Decoder(dict[str, dict[str, dict[str, str]]]).decode
read_unchecked = msgspec.json.Decoder(list[Unchecked]).decode
read_checks = msgspec.json.Decoder(list[Check]).decode


def differences(steps: Iterable[PlannedStep]) -> list[Difference]:
    """Return what a plan would change, each address of a step once.

    What is known only after a change, such as an output of what differs, isn't a difference of its own.
    """
    found: list[Difference] = []
    for step in steps:
        by_address: dict[str, list[Effect]] = {}
        for effect in step.effects:
            if effect.kind in {"create", "change", "delete"}:
                by_address.setdefault(effect.address, []).append(effect)
        found += filter(None, (_difference(step, address, effects) for address, effects in by_address.items()))
    return found


def unchecked(steps: Iterable[PlannedStep]) -> list[Unchecked]:
    """Return the steps of which a plan doesn't know all."""
    return [
        Unchecked(step.path, next(each.note for each in step.effects if each.kind == "unknown"))
        for step in steps
        if step.is_open
    ]


def _difference(step: PlannedStep, address: str, effects: Sequence[Effect]) -> Difference | None:
    """Return how an address differs; None if that only follows from what else differs."""
    kinds = {each.kind: each for each in effects}
    note = "; ".join(dict.fromkeys(each.note for each in effects if each.note))
    if "change" in kinds:
        change = kinds["change"]
        described, found = _attributes(change.after), _attributes(change.before)
        names = [
            name
            for name in dict.fromkeys((*found, *described))
            if described.get(name) != found.get(name) or found.get(name) == REDACTED
        ]
    elif "delete" in kinds and "create" in kinds:
        described, found = _attributes(kinds["create"].after), _attributes(kinds["delete"].before)
        names = [name for name in dict.fromkeys((*found, *described)) if described.get(name) != found.get(name)]
    else:
        kind, effect = ("missing", kinds["create"]) if "create" in kinds else ("extra", kinds["delete"])
        value = _attributes(effect.after if kind == "missing" else effect.before)
        return Difference(
            step=step.path,
            component=step.component,
            address=address,
            kind="missing" if kind == "missing" else "extra",
            described=value if kind == "missing" else {},
            found={} if kind == "missing" else value,
            note=note,
        )
    decided = [name for name in names if described.get(name) != AFTER_APPLY]
    if names and not decided:
        return None
    return Difference(
        step=step.path,
        component=step.component,
        address=address,
        kind="changed",
        described={name: described.get(name) for name in decided},
        found={name: found.get(name) for name in decided},
        note=note,
    )


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(name): item for name, item in value.items()}
    return {} if value is None else {"": value}


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def learned(found: Iterable[Difference], before: Known | None, ran: Collection[str] | None) -> Known:
    """Return the new baseline: updated for steps that `ran`, unchanged for others.

    None stands for all steps. A step that ran would have changed what differs, so what is left is noise, or somebody
    has changed it since. So what wasn't noise `before` doesn't become it; without any baseline before, all does.
    """
    old = before or {}
    known = {} if ran is None else {step: noted for step, noted in old.items() if step not in ran}
    for each in found:
        if ran is None or each.step in ran:
            noise = old.get(each.step, {}).get(each.address, {})
            digests = {name: digest for name, digest in each.digests().items() if before is None or name in noise}
            if digests:
                known[each.step] = {**known.get(each.step, {}), each.address: digests}
    return known


def without_known(found: Iterable[Difference], known: Known) -> list[Difference]:
    """Return the differences that weren't there after the last change.

    What an attribute should be may be another value each time, such as the present time. It is known as long as it is
    what it was.
    """
    left: list[Difference] = []
    for each in found:
        before = known.get(each.step, {}).get(each.address, {})
        names = {name for name, digest in each.digests().items() if before.get(name) != digest}
        if each.kind != "changed" or not each.attributes:
            left += [each] if names else []
        elif names:
            left.append(
                msgspec.structs.replace(
                    each,
                    described={name: value for name, value in each.described.items() if name in names},
                    found={name: value for name, value in each.found.items() if name in names},
                )
            )
    return left


def with_answers(known: Known, steps: Iterable[PlannedStep], ran: Collection[str] | None) -> Known:
    """Return what is known with the answers of steps that `ran`; None stands for all."""
    size, result = 0, dict(known)
    for step in steps:
        for address, text in _answers(step) if ran is None or step.path in ran else ():
            size += len(text.encode())
            kept = text if size <= limits.DRIFT_ANSWER_BYTES else _DIGEST + _digest(text)
            result[step.path] = {**result.get(step.path, {}), address: {_ANSWER: kept}}
    return result


def other_answers(steps: Iterable[PlannedStep], known: Known) -> list[Difference]:
    """Return the answers that aren't those of the baseline, with the lines that only one of both has.

    Of an answer that the baseline doesn't have, nobody knows whether it is another one.
    """
    found: list[Difference] = []
    for step in steps:
        for address, text in _answers(step):
            before = known.get(step.path, {}).get(address, {}).get(_ANSWER)
            if before is None or before in {text, _DIGEST + _digest(text)}:
                continue
            was = NOT_SHOWN if before.startswith(_DIGEST) else _lines_without(before, text)
            now = text if was == NOT_SHOWN else _lines_without(text, before)
            values = {"described": {_ANSWER: was}, "found": {_ANSWER: now}}
            component = step.component
            found.append(
                Difference(step=step.path, component=component, address=address, kind="changed", note=ANSWER, **values)
            )
    return found


def _answers(step: PlannedStep) -> Iterator[tuple[str, str]]:
    for each in step.effects:
        if each.kind == "run" and each.note == ANSWER and each.after != NOT_SHOWN:
            text = each.after if isinstance(each.after, str) else _pretty(each.after)
            yield each.address, text


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic")).decode()


def _lines_without(text: str, other: str) -> str:
    """Return the lines of a text that another one lacks; all of it if only their order differs."""
    left = Counter(other.splitlines())
    lines = []
    for line in text.splitlines():
        if left[line]:
            left[line] -= 1
        else:
            lines.append(line)
    return "\n".join(lines) if lines or Counter(text.splitlines()) != Counter(other.splitlines()) else text


def merged(
    before: Sequence[Finding],
    found: Sequence[Difference],
    open_steps: Iterable[str],
    now_ms: int,
    applied: Collection[str] = (),
) -> list[Finding]:
    """Return the findings after a check, those to look at first.

    What isn't found any more is closed, unless its step is open: a plan that doesn't know says nothing. `applied` are
    the change sets that did what they were made for.
    """
    old = {each.id: each for each in before}
    seen = {each.id: _seen(old.get(each.id), each, now_ms) for each in found}
    not_planned = set(open_steps)
    result = list(seen.values())
    for each in before:
        if each.id not in seen:
            keeps = not each.is_open or each.difference.step in not_planned
            result.append(each if keeps else closed(each, now_ms, applied))
    result.sort(key=lambda each: (not each.is_open, each.state != "new", -each.last_seen, each.difference.address))
    shown = [each for each in result if each.is_open][: limits.DRIFT_FINDINGS]
    shown += [each for each in result if not each.is_open][: limits.DRIFT_CLOSED]
    return _bounded(shown)


def _seen(old: Finding | None, found: Difference, now_ms: int) -> Finding:
    if old is None or not old.is_open:
        return Finding(difference=found, state="new", first_seen=now_ms, last_seen=now_ms)
    is_ignored = (
        old.state == "ignored"
        and old.until is not None
        and old.until > now_ms
        and found.attributes <= frozenset(old.accepted)
    )
    if old.state == "ignored" and not is_ignored:
        old = msgspec.structs.replace(old, state="new", accepted=[], reason="", until=None, by="")
    return msgspec.structs.replace(old, difference=found, last_seen=now_ms)


def closed(finding: Finding, now_ms: int, applied: Collection[str] = ()) -> Finding:
    """Return a finding that isn't found any more."""
    state: State = finding.answer if finding.answer and finding.change_set_id in applied else "gone"
    return msgspec.structs.replace(finding, state=state, last_seen=now_ms)


def answered(finding: Finding, answer: Literal["put back", "taken over"], change_set_id: str) -> Finding:
    """Return a finding that a change set deals with once it is applied."""
    return msgspec.structs.replace(finding, answer=answer, change_set_id=change_set_id, remedy="")


class Candidate(NamedTuple):
    """A parameter that may decide a finding, with the value that it would get."""

    parameter: str
    value: Any


def candidates(parameters: Mapping[str, Any], difference: Difference) -> list[Candidate]:
    """Return the parameters whose value is what an attribute is described as."""
    return [
        Candidate(name, found)
        for attribute, described in difference.described.items()
        if isinstance(found := difference.found.get(attribute), str | int | float) and found not in _NO_VALUES
        for name, value in parameters.items()
        if isinstance(value, str | int | float) and str(value) == str(described)
    ]


def put_back_with(taken: Finding, findings: Iterable[Finding]) -> list[Finding]:
    """Return the other findings of the same component, also ignored ones.

    The step that takes a value over does all that its module says, so it puts them back.
    """
    component = taken.difference.step.partition("#")[0]
    return [
        each
        for each in findings
        if each.is_open and each.id != taken.id and each.difference.step.partition("#")[0] == component
    ]


def is_decided(
    difference: Difference, before: Iterable[PlannedStep], after: Iterable[PlannedStep], known: Known
) -> bool:
    """Return whether another parameter makes a difference go away, but for noise.

    The plan must touch nothing else then.
    What follows from the difference, such as an output, may follow from the parameter too.
    """
    left = {each.id for each in without_known(differences(after), known)}
    return difference.id not in left and left <= _touched(before)


def _touched(steps: Iterable[PlannedStep]) -> set[str]:
    return {id_of(step.path, effect.address) for step in steps for effect in step.effects}


def ignored(finding: Finding, reason: str, until_ms: int, by: str) -> Finding:
    """Return a finding that is ignored as long as no other attribute differs."""
    return msgspec.structs.replace(
        finding,
        state="ignored",
        accepted=sorted(finding.difference.attributes),
        reason=reason,
        until=until_ms,
        by=by,
    )


def count_new(findings: Iterable[Finding], now_ms: int) -> int:
    """Return how many findings nobody ignores now."""
    return sum(each.is_open and not is_ignored_at(each, now_ms) for each in findings)


def is_ignored_at(finding: Finding, now_ms: int) -> bool:
    return finding.state == "ignored" and finding.until is not None and finding.until > now_ms


def _bounded(findings: list[Finding]) -> list[Finding]:
    """Leave values out beyond the bytes that are kept of one instance."""
    size, result = 0, list[Finding]()
    for each in findings:
        size += len(msgspec.json.encode(each))
        result.append(each if size <= limits.DRIFT_BYTES else _without_values(each))
    return result


def _without_values(finding: Finding) -> Finding:
    values = dict.fromkeys(finding.difference.attributes, NOT_SHOWN)
    difference = msgspec.structs.replace(finding.difference, described={}, found=values)
    return msgspec.structs.replace(finding, difference=difference)


DAY_MS = 24 * 3_600_000


class Held(NamedTuple):
    """Why a rule doesn't put an instance back.

    It says so until a time in milliseconds since the Unix epoch, or without one until the next check.
    """

    message: str
    until_ms: int | None = None


def to_put_back(findings: Iterable[Finding], addresses: Sequence[str], now_ms: int) -> list[Finding]:
    """Return the findings that a rule names, and that nobody ignores."""
    found = [each for each in findings if each.is_open and not is_ignored_at(each, now_ms)]
    return [each for each in found if not not_allowed([each.difference.address], addresses)]


def why_held(
    findings: Iterable[Finding],
    named: Sequence[Finding],
    done: Iterable[PutBackDone],
    rule: Sequence[str],
    most: int,
    now_ms: int,
) -> Held | None:
    """Return why a rule must not put back what it names.

    Another launch puts all back, so the rule must name all of it, and nobody may ignore any. Nothing is put back more
    often than `most` times a day.
    """
    still = [each for each in findings if each.is_open]
    others = not_allowed([each.difference.address for each in still], rule)
    if others:
        text = first_of(others)
        return Held(f"A launch would also put back what the rule doesn't name: {text}. Put it back yourself.")
    left = [each for each in still if is_ignored_at(each, now_ms)]
    if left:
        text = first_of([each.difference.address for each in left])
        return Held(
            f"A launch would also put back what somebody ignores: {text}. Put it back yourself, or watch that again.",
            max(each.until for each in left if each.until is not None),
        )
    times: dict[str, list[int]] = {}
    for each in done:
        times.setdefault(each.finding_id, []).append(each.at)
    often = [each for each in named if len(times.get(each.id, ())) >= most]
    if often:
        until_ms = max(sorted(times[each.id])[-most] for each in often) + DAY_MS
        text = first_of([each.difference.address for each in often])
        return Held(
            f"The rule has put this back {most} times within a day, and stops for the rest of that: {text}. Something "
            "changes it again and again. Find out what, or take its value over.",
            until_ms,
        )
    return None


def within_a_day(done: Iterable[PutBackDone], now_ms: int) -> list[PutBackDone]:
    """Return what counts for the limit of a day."""
    return [each for each in done if each.at > now_ms - DAY_MS]


def not_named(steps: Iterable[PlannedStep], addresses: Sequence[str], allow_deletes: Sequence[str] | None) -> str:
    """Return why a plan does more than a rule names; "" if it doesn't.

    Steps whose effects are unknown have their paths as addresses. `allow_deletes` is None if others have approved the
    deletions.
    """
    effects = [each for step in steps for each in step.effects]
    others = not_allowed(dict.fromkeys(each.address for each in effects), addresses)
    if others:
        text = first_of(others)
        return f"Its plan also touches what the rule doesn't name: {text}. Name that too, or put it back yourself."
    gone = not_allowed([each.address for each in effects if each.kind == "delete"], allow_deletes or ())
    if gone and allow_deletes is not None:
        text = first_of(gone)
        return f"Its plan deletes what the rule doesn't allow it to: {text}. Allow that, or put it back yourself."
    return ""


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """Return the first texts as a list, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{', '.join(texts[:most])}{more}"
