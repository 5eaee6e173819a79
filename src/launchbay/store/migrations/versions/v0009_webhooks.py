from launchbay.store.migrations.script import run

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run("0009_webhooks.sql")
