"""Orders of environments, what is in each, and change sets that promote."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load
from launchbay.store.users import traces_in

_sql = load("features.promotion")


class OrderRow(NamedTuple):
    """An order, and on whose behalf it promotes. `stages` is JSON.

    `hidden_stages` are those of the organization that an application's own order hides. Email and name are None if the
    account was deleted.
    """

    hidden_stages: str | None
    application_id: str | None
    stages: str
    author_id: str
    method: str
    token_id: str | None
    created_at: datetime
    author_email: str | None
    author_name: str | None


class EnvironmentRow(NamedTuple):
    """An environment of an order."""

    id: str
    name: str


class PlacedRow(NamedTuple):
    """An instance with what brought its version. `ran` is JSON."""

    id: str
    name: str
    environment_id: str
    status: str
    version: int
    revision: str | None
    since: datetime | None
    by_email: str | None
    change_set_id: str | None
    ran: str


class PromotionRow(NamedTuple):
    """A change set that promotes a version.

    `needed` is how many others have to approve it.
    """

    change_set_id: str
    version: int
    needed: int
    status: str


class AttemptRow(NamedTuple):
    """A place of automatic promotion, locked."""

    application_id: str
    environment_id: str
    organization_id: str


get_order = _sql.row("get_order", OrderRow)
get_own_order = _sql.row("get_own_order", OrderRow)
put_order = _sql.change("put_order")
delete_order = _sql.change("delete_order")
lock_orders = _sql.value("lock_orders", bool)
forget_attempts = _sql.change("forget_attempts")
list_environments = _sql.rows("list_environments", EnvironmentRow)
list_placed = _sql.rows("list_placed", PlacedRow)
had_version = _sql.value("had_version", bool)
get_approvals = _sql.value("get_approvals", int)
lock_promotion = _sql.value("lock_promotion", bool)
get_newest = _sql.row("get_newest", PromotionRow)
insert = _sql.change("insert")
get_message = _sql.value("get_message", str)
wake = _sql.change("wake")
list_older = _sql.column("list_older", str)
list_due = _sql.column("list_due", str)
begin_attempts = _sql.change("begin_attempts")
try_lock_organization = _sql.value("try_lock_organization", str)
take = _sql.row("take", AttemptRow)
note_attempt = _sql.change("note_attempt")
traces = (traces_in(_sql, "automatic promotions", "promotion_attempts"),)
