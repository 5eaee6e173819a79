from launchbay.store.migrations.script import run

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run("0012_retention.sql")
