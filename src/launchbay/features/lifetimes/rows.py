"""Rules for lifetimes, extensions, and warnings before the end of instances."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.lifetimes")


class DueMail(NamedTuple):
    """A warning of an email to the owner of an instance."""

    user_id: str
    organization_id: str
    instance_id: str
    destroy_at: datetime
    ahead_s: int


class EndingInstance(NamedTuple):
    """An instance in an email. `cause` is `idle`, `lifetime` or `schedule`."""

    instance_id: str
    name: str
    destroy_at: datetime
    cause: str


# Rules are JSON texts, as `features/lifetimes/rules.py` reads them.
list_rules = _sql.column("list_rules", str)
set_application_rules = _sql.change("set_application_rules")
set_environment_rules = _sql.change("set_environment_rules")
remove_rules = _sql.change("remove_rules")

# Extensions are counted for each instance from its launch on,
# and go with it.
get_extensions = _sql.value("get_extensions", int)
count_extension = _sql.change("count_extension")

# A warning is a row: it is given in the transaction that writes it.
# Its email may arrive twice, with the same message ID.
warn = _sql.value("warn", int)
list_due_mails = _sql.column("list_due_mails", str)
take_mail = _sql.rows("take_mail", DueMail)
list_for_mail = _sql.rows("list_for_mail", EndingInstance)
mail_is_done = _sql.change("mail_is_done")

# Ends of instances on which nothing runs. A row is moved when its time is near, so that a run costs nothing here.
lock_rules = _sql.value("lock_rules", bool)
set_idle_ends = _sql.change("set_idle_ends")
add_idle_ends = _sql.change("add_idle_ends")
move_idle_ends = _sql.change("move_idle_ends")
list_idle_as_expiring = _sql.change("list_idle_as_expiring")
list_idle = _sql.column("list_idle", str)
take_idle = _sql.value("take_idle", datetime)
get_idle_end = _sql.value("get_idle_end", datetime)
extend_idle_end = _sql.change("extend_idle_end")
begin_idle_again = _sql.change("begin_idle_again")
is_idle_by_environment = _sql.value("is_idle_by_environment", bool)
postpone_idle_end = _sql.change("postpone_idle_end")
remove_idle_end = _sql.change("remove_idle_end")
