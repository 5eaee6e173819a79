"""Why an instance's work does not go on just now, in sentences for people. Pure."""

from datetime import UTC, datetime

import msgspec

from launchbay.model.approval import waiting_sentence, who_sentence


class Queued(msgspec.Struct, frozen=True, array_like=True):
    """The job has not begun: how many of the organization's jobs wait like it, and how many workers live."""

    waiting: int
    workers: int


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """A pending approval."""

    text: str
    permission: str | None
    role: str | None
    needed: int
    given: int


class InnerJob(msgspec.Struct, frozen=True, array_like=True):
    """A job on another instance that the running one waits for; `component` stands for that instance."""

    workflow: str
    component: str | None
    instance_id: str


class Launching(msgspec.Struct, frozen=True, array_like=True):
    """A service that the launch leans on and that is being launched itself."""

    component: str
    instance_id: str


class Due(msgspec.Struct, frozen=True, array_like=True):
    """Something due that waits for the end of the running job. `due_at_s` is in seconds since 1970, UTC."""

    kind: str
    workflow: str
    component: str
    due_at_s: float


class Waits(msgspec.Struct, frozen=True):
    """All that an instance's work waits for at one moment; `job` and `owner` say what runs, and for whom."""

    job: str | None = None
    owner: str | None = None
    queued: Queued | None = None
    approvals: list[Asked] | None = None
    inner: list[InnerJob] | None = None
    launching: list[Launching] | None = None
    due: list[Due] | None = None


def waiting_for(waits: Waits) -> str:
    """Return the sentences, "" when nothing waits. What keeps the running job comes before what it keeps itself."""
    sentences = [_asked(each) for each in waits.approvals or ()]
    if waits.queued is not None:
        sentences.append(_queued(waits.job, waits.queued))
    sentences += [
        f"Waits for {each.workflow!r} of {_standing_for(each.component)}instance {each.instance_id}."
        for each in waits.inner or ()
    ]
    if not sentences:
        sentences += [
            f"Waits for the launch of the service {each.component!r}, instance {each.instance_id}."
            for each in waits.launching or ()
        ]
    sentences += [_due(each, waits) for each in waits.due or ()]
    return " ".join(sentences)


def _asked(each: Asked) -> str:
    who = who_sentence(permission=each.permission, role=each.role)
    return waiting_sentence(each.text, who=who, needed=each.needed, given=each.given)


def _queued(job: str | None, queued: Queued) -> str:
    if queued.workers == 0:
        return f"{job!r} waits for a worker: none has given a sign of life lately. The operator must start one."
    others = queued.waiting - 1
    beside = f", as {others if others < 999 else 'many'} other jobs of the organization do"
    if others <= 1:
        beside = ", as another job of the organization does" if others == 1 else ""
    return f"{job!r} waits for a free place of a worker{beside}."


def _standing_for(component: str | None) -> str:
    return "" if component is None else f"{component!r}, "


def _due(each: Due, waits: Waits) -> str:
    behind = "what is due before it" if waits.job is None else f"the end of {waits.job!r}, run by {waits.owner}"
    if each.kind == "expiry":
        return f"Its destruction is due and waits for {behind}."
    if each.kind == "signals":
        return f"Changed signals of other instances wait for {behind}."
    where = f" of {each.component!r}" if each.component else ""
    at = datetime.fromtimestamp(each.due_at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    what = {"cron": "Scheduled", "trigger": "Triggered"}.get(each.kind, "Scheduled")
    return f"{what} {each.workflow!r}{where}, due since {at}, waits for {behind}."
