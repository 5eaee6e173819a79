"""Second factors with their recovery codes, and sign-ins that wait for one."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("second_factors")


class FactorKind(StrEnum):
    """What somebody proves to have, in addition to the password."""

    TOTP = "totp"  # an application with a shared secret, which shows a code for each half minute (RFC 6238)
    PASSKEY = "passkey"


class Purpose(StrEnum):
    """What the correct password allows next."""

    SIGN_IN = "sign in"
    SET_UP = "set up"


class FactorRow(NamedTuple):
    """A second factor.

    `secret` is sealed, and only of a TOTP; the two columns after it are only of a passkey.
    """

    id: str
    kind: str
    name: str
    secret: bytes | None
    credential_id: bytes | None
    public_key: bytes | None
    used_count: int
    created_at: datetime
    last_used_at: datetime | None


class StepRow(NamedTuple):
    """Who has entered the password."""

    id: str
    email: str
    name: str
    access_stamp: int


list_by_user = _sql.rows("list_by_user", FactorRow)
insert = _sql.change("insert")
use = _sql.change("use")
delete = _sql.change("delete")
delete_all = _sql.change("delete_all")
count_recovery_codes = _sql.value("count_recovery_codes", int)
insert_recovery_codes = _sql.change("insert_recovery_codes")
delete_recovery_codes = _sql.change("delete_recovery_codes")
redeem_recovery_code = _sql.change("redeem_recovery_code")
insert_step = _sql.change("insert_step")
get_step = _sql.row("get_step", StepRow)
delete_step = _sql.change("delete_step")
count_attempt = _sql.value("count_attempt", int)
forget_attempts = _sql.change("forget_attempts")
is_required = _sql.value("is_required", bool)
get_requirement = _sql.value("get_requirement", bool)
set_requirement = _sql.change("set_requirement")
end_other_sessions = _sql.change("end_other_sessions")
