from launchbay.store.migrations.script import run

revision = "0001"
down_revision = None


def upgrade() -> None:
    run("0001_initial.sql")
