from launchbay.store.migrations.script import run

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run("0014_approvals.sql")
