"""Emails to owners about drift, at most one a day (decision 0243)."""

from launchbay.auth.gate import visible
from launchbay.auth.permissions import Permission
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import DueMail
from launchbay.store.database import Connection
from launchbay.usecases.context import Work
from launchbay.usecases.owner_mails import PAUSE_S, Letter, OwnerMails, in_subject, in_text

POLL_S = 60.0
_NAMED = 50  # instances in one email


class DriftMails(OwnerMails[DueMail]):
    """Emails about findings that are new since the email before."""

    kind = "drift"

    async def take(self, connection: Connection, turns: list[str]) -> DueMail | None:
        return await store.take_mail(connection, pause_s=PAUSE_S, turns=turns)

    async def write(self, work: Work, organization_id: str, due: DueMail) -> Letter | None:
        found = await store.list_for_mail(
            work.connection,
            user_id=due.user_id,
            organization_id=organization_id,
            count=_NAMED,
            **visible(work.lookup.grants(organization_id), Permission.READ),
        )
        if not found:
            return None
        total = found[0].total
        lines = [
            f"- {in_text(each.name)}: {each.new} {'finding' if each.new == 1 else 'findings'}"
            f"{f', {self.base_url}/console/instances/{each.instance_id}/drift' if self.base_url else ''}"
            for each in found
        ]
        if total > len(found):
            lines.append(f"- and {total - len(found)} more")
        text = (
            f"Checks found drift in your instances in {in_text(due.organization)}:",
            "",
            *lines,
            "",
            "The Drift page of an instance shows what differs. Put it back, take it over, or ignore it with a reason.",
            "You get this email at most once a day, and only after a check found something new.",
        )
        what = f"{in_subject(found[0].name)} has" if total == 1 else f"{total} instances have"
        return Letter(f"{what} drifted", "\n".join(text) + "\n")

    async def done(self, connection: Connection, due: DueMail, *, is_sent: bool) -> None:
        await store.mail_is_done(
            connection,
            user_id=due.user_id,
            organization_id=due.organization_id,
            noted_at=due.noted_at,
            is_sent=is_sent,
        )
