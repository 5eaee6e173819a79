from launchbay.store.migrations.script import run

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run("0004_live_instances.sql")
