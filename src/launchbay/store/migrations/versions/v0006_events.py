from launchbay.store.migrations.script import run

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run("0006_events.sql")
