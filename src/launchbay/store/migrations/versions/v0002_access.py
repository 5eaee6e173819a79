from launchbay.store.migrations.script import run

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run("0002_access.sql")
