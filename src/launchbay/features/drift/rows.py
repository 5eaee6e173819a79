"""Reports of how instances differ from what they are described as."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.drift")


class ReportRow(NamedTuple):
    """The report of one instance.

    Texts but `problem` and `put_back_message` are JSON: the latter is what keeps a rule from putting it back.
    """

    instance_id: str
    organization_id: str
    findings: str
    known: str | None
    known_since: datetime | None
    unchecked: str
    checks: str
    checked_at: datetime | None
    problem: str | None
    problem_at: datetime | None
    waiting_since: datetime | None
    is_begun: bool
    put_back_message: str | None


class TakenCheck(NamedTuple):
    """A check that this process makes. `learns` says why it notes what is known.

    `ran` are the steps of reconfigurations since the one before. `take_overs` is JSON."""

    instance_id: str
    organization_id: str
    learns: str | None
    ran: list[str]
    take_overs: str
    attempts: int
    fence: int


class HeldReport(NamedTuple):
    """What a check continues from, as JSON."""

    findings: str
    known: str | None
    checks: str


class DriftedRow(NamedTuple):
    """An instance with findings or a problem.

    `new` and `ignored` count its findings now.
    """

    instance_id: str
    name: str
    status: str
    new: int
    ignored: int
    checked_at: datetime | None
    problem: str | None


class ScheduleRow(NamedTuple):
    """When the instances of an object are checked, and on whose behalf.

    `problem` says why it stopped, or what it left out the last time. One `of_manifest` is the default of an instance,
    which one of its application or environment replaces.
    """

    object_id: str
    kind: str
    organization_id: str
    cron: str
    zone: str
    jitter_ms: int
    due_at: datetime | None
    fires_at: datetime | None
    owner_id: str | None
    owner_email: str
    owner_name: str
    method: str
    token_id: str | None
    problem: str | None
    is_paused: bool
    mail: bool
    of_manifest: bool
    is_replaced: bool


class DueMail(NamedTuple):
    """An email to the owner of instances in an organization.

    `sent_at` is when they got the one before, and `noted_at` when a check found something last.
    """

    user_id: str
    organization_id: str
    organization: str
    noted_at: datetime
    sent_at: datetime | None

    @property
    def key(self) -> str:
        """What no other email to the same person has."""
        return f"{self.organization_id} {self.sent_at}"


class MailedInstance(NamedTuple):
    """An instance in an email with its findings.

    Nobody ignores these. `total` counts such instances.
    """

    instance_id: str
    name: str
    new: int
    total: int


class CheckTimesToRead(NamedTuple):
    """An instance whose manifest may say when it is checked.

    `is_launched`: no job came between a launch and this.
    """

    instance_id: str
    is_launched: bool


class Scheduled(NamedTuple):
    """Instances of a schedule: how many run, may be checked, and don't wait."""

    running: int
    allowed: int
    unasked: int


class PutBackRule(NamedTuple):
    """Which addresses a rule puts back in the instances of an object.

    It does so for its owner. `addresses` and `allow_deletes` are patterns. `problem` says why it has stopped.
    """

    object_id: str
    kind: str
    organization_id: str
    addresses: list[str]
    allow_deletes: list[str]
    most_per_day: int
    owner_id: str
    owner_email: str
    owner_name: str
    method: str
    token_id: str | None
    problem: str | None


class PutBackRuleInUse(NamedTuple):
    """A rule with what it has done within a day, in instances on which no nearer one acts.

    `acted` counts what it put back there, and `waiting` the instances that it doesn't put back and says why. One that
    `is_replaced` isn't the nearest one of the instance that was asked for.
    """

    object_id: str
    kind: str
    addresses: list[str]
    allow_deletes: list[str]
    most_per_day: int
    owner_email: str
    problem: str | None
    acted: int
    waiting: int
    is_replaced: bool


class PutBackRow(NamedTuple):
    """An instance to put back, or to wait with. `done` and `findings` are JSON."""

    instance_id: str
    organization_id: str
    change_set_id: str | None
    done: str
    findings: str
    checked_at: datetime | None


get = _sql.row("get", ReportRow)
get_new_findings = _sql.value("get_new_findings", int)
lock = _sql.value("lock", str)
count_waiting = _sql.value("count_waiting", int)
ask = _sql.change("ask")
want = _sql.change("want")
end_take_over = _sql.change("end_take_over")
list_applied = _sql.column("list_applied", str)
list_due = _sql.column("list_due", str)
take = _sql.row("take", TakenCheck)
renew = _sql.change("renew")
hold = _sql.row("hold", HeldReport)
finish = _sql.change("finish")
fail = _sql.change("fail")
put_findings = _sql.change("put_findings")
get_newest_change = _sql.value("get_newest_change", str)
is_asleep = _sql.value("is_asleep", bool)
list_by_organization = _sql.rows("list_by_organization", DriftedRow)
list_schedules = _sql.rows("list_schedules", ScheduleRow)
put_schedule = _sql.change("put_schedule")
put_schedule_of_manifest = _sql.change("put_schedule_of_manifest")
delete_schedule = _sql.change("delete_schedule")
delete_schedule_of_manifest = _sql.change("delete_schedule_of_manifest")
read_check_times = _sql.change("read_check_times")
list_check_times = _sql.column("list_check_times", str)
take_check_times = _sql.row("take_check_times", CheckTimesToRead)
delete_check_times = _sql.change("delete_check_times")
ask_for_first_baseline = _sql.change("ask_for_first_baseline")
list_due_schedules = _sql.column("list_due_schedules", str)
lock_schedule = _sql.value("lock_schedule", str)
count_scheduled = _sql.row("count_scheduled", Scheduled)
count_queue = _sql.value("count_queue", int)
count_ahead = _sql.value("count_ahead", int)
ask_all = _sql.change("ask_all")
set_next = _sql.change("set_next")
get_put_back_rule = _sql.row("get_put_back_rule", PutBackRule)
get_put_back_rule_of = _sql.row("get_put_back_rule_of", PutBackRule)
list_put_back_rules = _sql.rows("list_put_back_rules", PutBackRuleInUse)
put_put_back_rule = _sql.change("put_put_back_rule")
delete_put_back_rule = _sql.change("delete_put_back_rule")
stop_put_back_rule = _sql.change("stop_put_back_rule")
look_again = _sql.change("look_again")
list_due_put_backs = _sql.column("list_due_put_backs", str)
list_open = _sql.column("list_open", str)
count_unapplied = _sql.value("count_unapplied", int)
wake = _sql.change("wake")
begin_put_back = _sql.change("begin_put_back")
take_put_back = _sql.row("take_put_back", PutBackRow)
note_put_back = _sql.change("note_put_back")
list_due_mails = _sql.column("list_due_mails", str)
take_mail = _sql.row("take_mail", DueMail)
list_for_mail = _sql.rows("list_for_mail", MailedInstance)
mail_is_done = _sql.change("mail_is_done")
