"""Emails to owners about instances that end soon."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from launchbay.auth.gate import visible
from launchbay.auth.permissions import Permission
from launchbay.features.lifetimes import rows as store
from launchbay.features.lifetimes.rows import DueMail, EndingInstance
from launchbay.features.lifetimes.rules import WARNINGS_S
from launchbay.model.expiry import duration
from launchbay.store.database import Connection
from launchbay.usecases.context import Work
from launchbay.usecases.owner_mails import PAUSE_S, Letter, OwnerMails, in_subject, in_text

POLL_S = 10.0
_NAMED = 50  # warnings in one email
_ADVICE = {
    "lifetime": "Extend its life if you still need it.",
    "idle": "Nothing has run on it for long. Each run makes it live on.",
    "schedule": "Cancel the schedule of its destroy if you still need it.",
}


@dataclass(frozen=True, slots=True)
class EndingMail:
    """Warnings that became due together, for one owner in one organization."""

    warnings: Sequence[DueMail]

    @property
    def user_id(self) -> str:
        return self.warnings[0].user_id

    @property
    def organization_id(self) -> str:
        return self.warnings[0].organization_id

    @property
    def key(self) -> str:
        """The warnings, which stay together until they are sent."""
        return "\n".join(sorted(f"{row.instance_id} {row.destroy_at} {row.ahead_s}" for row in self.warnings))


class EndingMails(OwnerMails[EndingMail]):
    """Emails for warnings that were given."""

    kind = "lifetimes"

    async def take(self, connection: Connection, turns: list[str]) -> EndingMail | None:
        rows = await store.take_mail(connection, pause_s=PAUSE_S, turns=turns, count=_NAMED)
        for row in rows:  # a run may have moved the end of an idle one since the last round of warnings
            await store.move_idle_ends(connection, ahead_s=max(WARNINGS_S), instance_id=row.instance_id)
        return EndingMail(rows) if rows else None

    async def write(self, work: Work, organization_id: str, due: EndingMail) -> Letter | None:
        found = await store.list_for_mail(
            work.connection,
            user_id=due.user_id,
            organization_id=organization_id,
            instance_ids=[row.instance_id for row in due.warnings],
            ends=[row.destroy_at for row in due.warnings],
            **visible(work.lookup.grants(organization_id), Permission.READ),
        )
        if not found:
            return None
        now = self.app.clock.now()
        if len(found) == 1:
            [only] = found
            text = f"The instance {in_text(only.name)!r} will be destroyed at {_at(only)}. {_ADVICE[only.cause]}\n"
            return Letter(f"{in_subject(only.name)} ends in {left(only.destroy_at - now)}", text + self._link(only))
        lines = [f"- {in_text(each.name)}: {_at(each)}. {_ADVICE[each.cause]}\n  {self._link(each)}" for each in found]
        text = f"These instances will be destroyed:\n\n{''.join(each.rstrip(' ') for each in lines)}"
        return Letter(f"{len(found)} instances end, the first in {left(found[0].destroy_at - now)}", text)

    def _link(self, each: EndingInstance) -> str:
        return f"{self.base_url}/console/instances/{each.instance_id}\n" if self.base_url else ""

    async def done(self, connection: Connection, due: EndingMail, *, is_sent: bool) -> None:  # noqa: ARG002 - none is given twice
        for row in due.warnings:
            await store.mail_is_done(
                connection, instance_id=row.instance_id, destroy_at=row.destroy_at, ahead_s=row.ahead_s
            )


def left(time: timedelta) -> str:
    """Return how long it is until the end of an instance, rounded to hours or minutes."""
    minutes = max(1, round(time.total_seconds() / 60))
    return duration((minutes if minutes < 60 else round(minutes / 60) * 60) * 60_000)


def _at(each: EndingInstance) -> str:
    at: datetime = each.destroy_at
    return at.strftime("%Y-%m-%d %H:%M UTC")
