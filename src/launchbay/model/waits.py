"""What jobs and instances wait for: one sentence for API, console, command and tools.

The facts come from the database function `launchbay_awaited`. What rollouts, bulk runs, change sets and schedules wait
for is with them (`waiting_for` in their use cases).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from launchbay.model.job import Holders, StepWait, WaitKind, approver_message, owner_of

# A time in the sentences of this module, for those who show it in another form.
ISO_TIME = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z)")
TIME_IS_OVER = "The time is over."


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a job or an instance waits for.

    Times are in ms since the epoch. `ends_when` says what ends it. `position` is the job's place in the queue, `job`
    and `instance` are what to wait for.
    """

    kind: WaitKind
    text: str
    since: int
    ends_when: str
    until: int | None = None
    position: int | None = None
    job: str | None = None
    instance: str | None = None


class _Waits(msgspec.Struct, frozen=True):
    """What `launchbay_awaited` returns.

    `job` and `owner` are the names of what runs, None if nothing does.
    """

    since: int | None = None
    workers: int = 0
    queue: tuple[int, int] | None = None  # position, length; zeros outside of the queue
    approvals: list[tuple[str, str | None, str | None, int, int, int, int]] | None = None
    jobs: list[tuple[str, int, str, str, str, int]] | None = None
    steps: list[tuple[str, str, int | None, int]] | None = None  # name, path, start, end
    told: list[tuple[int, StepWait]] | None = None
    approvals_in_all: int = 0
    jobs_in_all: int = 0
    steps_in_all: int = 0
    told_in_all: int = 0
    places: list[tuple[str, int, int, int, int]] | None = None  # title, most, since, held, jobs before it
    launching: list[tuple[str, str]] | None = None  # component, instance
    due: list[tuple[str, str, str, int]] | None = None  # kind, workflow, component, time
    sleeping: tuple[int, int | None] | None = None  # since when, until when
    due_to_sleep: int | None = None  # since when, while something else runs
    destroying: tuple[int, int, bool] | None = None  # since when, when, whether by the rule for idle instances
    scheduled: tuple[int, int] | None = None  # since when, and for when a destroy is scheduled
    is_submodule: bool = False  # then the three are of the instance that it goes with
    destroy_at: int | None = None  # the end of its lifetime
    job: str | None = None
    owner: str | None = None


def read_waits(
    text: str, holders: Mapping[str, Holders], names: Mapping[str, str], *, of_instance: bool = False
) -> list[Wait]:
    """Return what a job waits for.

    For its instance, that includes what waits for the job. `text` is the JSON of `launchbay_awaited`, and `holders` are
    by the title of the group. `names` are those of other instances that the reader may know, by ID.
    """
    found = _decoder.decode(text)
    waits = [
        *_of_queue(found),
        *_of_places(found, holders),
        *_of_people(found),
        *_of_called_jobs(found, names),
        *_of_steps(found, names),
    ]
    if not waits:
        waits += [
            Wait(
                "service",
                f"Waiting for the launch of service {component!r}, instance {instance_id}.",
                found.since or 0,
                "That launch ends.",
                instance=instance_id,
            )
            for component, instance_id in found.launching or ()
        ]
    if of_instance:
        waits += [_due(each, found) for each in found.due or ()]
        if found.sleeping is not None:
            since, until = found.sleeping
            end = None if until is None else _time(until)
            sentence = sleeping_message(_time(since), end, _ends_of(found).first)
            waits.append(Wait("sleep", sentence, since, "The window ends, or somebody keeps it awake.", until))
        if found.due_to_sleep is not None:
            sentence = due_to_sleep_message(_time(found.due_to_sleep))
            waits.append(Wait("sleep", sentence, found.due_to_sleep, "Nothing else runs, or the window ends."))
        waits += _of_destroys(found)
    return waits


def has_places(text: str) -> bool:
    """Return whether a job waits for its place in a group."""
    return bool(_decoder.decode(text).places)


def other_instances(text: str) -> set[str]:
    """Return the IDs of the instances whose names `read_waits` needs."""
    found = _decoder.decode(text)
    of_steps = {wait.instance for _, wait in found.told or () if wait.instance is not None}
    return {instance_id for _, _, _, instance_id, _, _ in found.jobs or ()} | of_steps


def sentences(waits: list[Wait]) -> str | None:
    """Return the waits as one text, None without any."""
    return " ".join(each.text for each in waits) or None


def sleeping_message(since: datetime, until: datetime | None, ends_at: datetime | None = None) -> str:
    """Describe an instance that a sleep window has stopped.

    It may end at `ends_at`, before it wakes.
    """
    if ends_at is not None and (until is None or ends_at <= until):
        return f"Sleeping since {_moment(since)}. The instance is destroyed at {_moment(ends_at)}, before it wakes."
    wakes = "somebody keeps it awake" if until is None else _moment(until)
    return f"Sleeping since {_moment(since)}, until {wakes}."


def due_to_sleep_message(since: datetime) -> str:
    """Describe an instance that a sleep window stops as soon as it isn't busy."""
    return f"Due to sleep since {_moment(since)}. It is stopped as soon as nothing else runs on it."


def never_message(end: datetime) -> str:
    """Describe a schedule whose times are all after the end of its instance.

    That may be the end of its lifetime, or a destroy that can be taken back or is scheduled.
    """
    advice = "Set a later end, or none, and take back a destroy that comes before."
    return f"The instance is destroyed at {_moment(end)}, before this runs. {advice}"


class Ends(NamedTuple):
    """When an instance is destroyed though nobody acts, by what.

    `lifetime` is the end of its lifetime, `scheduled` the first destroy that is scheduled. `undoable` is a destroy that
    can be taken back; the rule for idle instances asked for it if `is_idle`. Of a submodule they are those of the
    instance that it goes with.
    """

    lifetime: datetime | None = None
    scheduled: datetime | None = None
    undoable: datetime | None = None
    is_idle: bool = False
    is_submodule: bool = False

    @property
    def first(self) -> datetime | None:
        """The end, None without one."""
        return min((each for each in (self.undoable, self.scheduled, self.lifetime) if each is not None), default=None)

    @property
    def message(self) -> str | None:
        """The sentences about a destroy, and what keeps the instance.

        None if nothing but its lifetime ends it.
        """
        first = self.first
        if first is None or (self.undoable is None and first != self.scheduled):
            return None
        idle = self.is_idle and first == self.undoable
        who = "The instance"
        if self.is_submodule:
            who = "The instance that this one belongs to"
        if idle:
            who = f"Nothing has run on {_decapitalized(who)} for as long as its rules allow: it"
        with_it = ", and this one with it" if self.is_submodule else ""
        return f"{who} is destroyed at {_moment(first)}{with_it}. {self.advice}"

    def first_before(self, at: datetime, idle_ends_at: datetime | None) -> str | None:
        """Return the sentence about what ends it before `at`, if anything does.

        `idle_ends_at` is when it ends if nothing runs on it.
        """
        first = min((each for each in (self.first, idle_ends_at) if each is not None), default=at)
        if first >= at:
            return None
        if first != self.first:
            return f"It is destroyed at {_moment(first)} if nothing runs on it until then."
        return self.message or f"Its lifetime still ends at {_moment(first)}."

    @property
    def advice(self) -> str:
        """What keeps an instance that a destroy ends, and what ends it then."""
        if self.undoable is None:
            then = "" if self.lifetime is None else f"; its lifetime still ends at {_moment(self.lifetime)}"
            return f"It is scheduled; to keep the instance, cancel that schedule{then}."
        is_scheduled = self.scheduled is not None and (self.lifetime is None or self.scheduled < self.lifetime)
        left = self.scheduled if is_scheduled else self.lifetime
        if left is None:
            return "Until then, undo-destroy takes this back."
        what, remedy = (
            ("A destroy is scheduled for", "cancel that schedule")
            if is_scheduled
            else ("Its lifetime ends", "set a later end")
        )
        if _moment(left) < _moment(self.undoable):
            waits = f"the destroy that waits until {_moment(self.undoable)}"
            return f"{what} then, before {waits}: to keep it, {remedy} and run undo-destroy."
        if left <= self.undoable:
            return f"{what} then too: to keep it, run undo-destroy and {remedy}."
        still = "a destroy is still scheduled for" if is_scheduled else "its lifetime still ends at"
        return f"Until then, undo-destroy takes this back; {still} {_moment(left)}."


def _decapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]


def waiting_message(text: str, *, who: str, needed: int, given: int) -> str:
    """Describe a pending approval; `who` comes from `approver_message`."""
    count = "approval" if needed == 1 else f"{needed} approvals ({given} given)"
    return f"Waiting for {count} by {who}: {text}"


def place_message(title: str, *, most: int, held: int, before: int, holders: Holders | None = None) -> str:
    """Describe why a job waits for a place in a group.

    `title` names the group, such as `lock 'db'`. `held` is the number of jobs that have a place, and `before` of those
    that wait longer. `holders` name jobs that have one.
    """
    bound = "1 job" if most == 1 else f"{most} jobs"
    running = "1 has started" if held == 1 else f"{held} have started"
    earlier = "" if before == 0 else f", and {before} {'is' if before == 1 else 'are'} before it"
    sentence = f"Waiting for its turn: at most {bound} at a time for {title}; {running}{earlier}."
    if holders is None or not holders.shown:
        return sentence
    names = [
        f"job {each.number}, {each.workflow!r}, of {each.instance!r} since {_moment(_time(each.since_ms))}"
        for each in holders.shown
    ]
    return f"{sentence} Held by {'; '.join(names)}{'; and others' if holders.more else ''}."


def turns_message(
    *, running: int, busy: int = 0, frozen: int = 0, freeze: str | None = None, waiting: int = 0, most: int = 0
) -> str:
    """Describe what work on many instances that has not ended waits for.

    `running` instances have a job of it, `busy` ones are held up by other work, `frozen` ones by a freeze, such as
    `freeze`, and `waiting` ones follow, at most `most` at a time.
    """
    parts = []
    if running:
        parts.append("1 job under way" if running == 1 else f"{running} jobs under way")
    if busy:
        which = "1 busy instance, which gets its turn" if busy == 1 else f"{busy} busy instances, which get their turns"
        parts.append(f"{which} when other work allows it")
    if frozen:
        parts.append("the end of a freeze of " + ("1 instance" if frozen == 1 else f"{frozen} instances"))
    if not parts:
        parts.append("its next turn")
    follow = "1 instance follows" if waiting == 1 else f"{waiting} instances follow"
    rest = f"; {follow}, at most {most} at a time" if waiting else ""
    named = f" {freeze}" if frozen and freeze else ""
    return f"Waiting for {' and '.join(parts)}{rest}.{named}"


def _of_queue(found: _Waits) -> list[Wait]:
    position, length = found.queue or (0, 0)
    if not length:
        return []
    since = found.since or 0
    if not found.workers:
        sentence = "The job is waiting for a worker; none has sent a heartbeat recently."
        return [Wait("worker", sentence, since, "A worker is started.", position=position)]
    sentence = f"The job is number {position} of {length} in the organization's queue for a free job slot."
    return [Wait("worker", sentence, since, "The jobs before it have started.", position=position)]


def _of_places(found: _Waits, holders: Mapping[str, Holders]) -> list[Wait]:
    waits: list[Wait] = []
    for title, most, since, held, before in found.places or ():
        known = holders.get(title, Holders())
        sentence = place_message(title, most=most, held=held, before=before, holders=known)
        first = next(iter(known.shown), None)
        job, instance = (None, None) if first is None else (first.job_id, first.instance_id)
        end = "A job of the group ends."
        waits.append(Wait("limit", sentence, since, end, position=before + 1, job=job, instance=instance))
    return waits


def _of_people(found: _Waits) -> list[Wait]:
    waits: list[Wait] = []
    for question, permission, role, needed, given, since, until in found.approvals or ():
        who = approver_message(permission=permission, role=role)
        sentence = waiting_message(question, who=who, needed=needed, given=given)
        end = f"The approval of {who}, or its expiry."
        first = _first_ms(found)
        if first is not None and first < until:
            end += f" The instance expires before that, at {_moment(_time(first))}, and is destroyed after it."
        waits.append(Wait("approval", sentence, since, end, until))
    more = found.approvals_in_all - len(waits)
    return [*waits, *_more("approval", more, "approval", "The approvals, or their expiry.", found)]


def _of_called_jobs(found: _Waits, names: Mapping[str, str]) -> list[Wait]:
    waits: list[Wait] = []
    for job_id, number, workflow, instance_id, _, since in found.jobs or ():
        name = names.get(instance_id)
        if name is None:
            text = "Waiting for a job of an instance that you can't see."
            waits.append(Wait("job", text, since, "That job ends.", instance=instance_id))
        else:
            text = f"Waiting for job {number}, {workflow!r}, of the instance {name!r}."
            waits.append(Wait("job", text, since, "That job ends.", job=job_id, instance=instance_id))
    return [*waits, *_more("job", found.jobs_in_all - len(waits), "job", "Those jobs end.", found)]


def _more(kind: WaitKind, number: int, what: str, ends_when: str, found: _Waits) -> Iterator[Wait]:
    """Yield a wait that counts those that aren't listed."""
    if number > 0:
        text = f"And for {number} more {what}{'' if number == 1 else 's'}."
        yield Wait(kind, text, found.since or 0, ends_when)


def _of_steps(found: _Waits, names: Mapping[str, str]) -> list[Wait]:
    waits: list[Wait] = []
    for since, told in found.told or ():
        text, job = told.text, told.job
        if told.instance is not None:
            name = names.get(told.instance)
            text, job = (text, None) if name is None else (f"{text} It is {name!r}.", job)
        waits.append(Wait(told.kind, text, since, told.ends_when, told.until, told.position, job, told.instance))
    if waits:
        waits += _more(waits[-1].kind, found.told_in_all - len(waits), "step", "What they wait for comes.", found)
    said = {wait.text for wait in waits}
    for name, path, started, ends in found.steps or ():
        sentence = time_message(name, path)
        if started is not None and sentence not in said:
            waits.append(Wait("time", sentence, started, TIME_IS_OVER, ends))
    more = found.steps_in_all - len(found.steps or ())
    return [*waits, *_more("time", more, "step", TIME_IS_OVER, found)]


def time_message(name: str, path: str) -> str:
    """Describe a step that waits for a time."""
    return f"Step {name!r} of {owner_of(path)!r} waits for its time."


def _due(each: tuple[str, str, str, int], found: _Waits) -> Wait:
    kind, workflow, component, due_at = each
    behind = "earlier due work" if found.job is None else f"the end of {found.job!r}, run by {found.owner}"
    if kind == "expiry":
        sentence = f"The instance's destruction is due and waiting for {behind}."
    elif kind == "signals":
        sentence = f"Changed signals of other instances are waiting for {behind}."
    else:
        where = f" of {component!r}" if component else ""
        what = "Triggered" if kind == "trigger" else "Scheduled"
        sentence = f"{what} {workflow!r}{where}, due since {_moment(_time(due_at))}, is waiting for {behind}."
    return Wait("schedule", sentence, due_at, "The job before it ends.")


def _ends_of(found: _Waits) -> Ends:
    ends = (found.destroy_at, found.scheduled and found.scheduled[1], found.destroying and found.destroying[1])
    lifetime, scheduled, undoable = (None if each is None else _time(each) for each in ends)
    is_idle = found.destroying is not None and found.destroying[2]
    return Ends(lifetime, scheduled, undoable, is_idle, found.is_submodule)


def _first_ms(found: _Waits) -> int | None:
    """Return the end of the instance, in ms as it is stored."""
    ends = (found.destroy_at, found.scheduled and found.scheduled[1], found.destroying and found.destroying[1])
    return min((at for at in ends if at is not None), default=None)


def _of_destroys(found: _Waits) -> Iterator[Wait]:
    message, asked = _ends_of(found).message, found.destroying or found.scheduled
    if asked is not None and message is not None:
        yield Wait("destroy", message, asked[0], TIME_IS_OVER, _first_ms(found))


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC)


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_decoder = msgspec.json.Decoder(_Waits)
