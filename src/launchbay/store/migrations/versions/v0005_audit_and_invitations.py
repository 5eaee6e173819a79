from launchbay.store.migrations.script import run

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run("0005_audit_and_invitations.sql")
