from launchbay.store.migrations.script import run

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run("0021_console_sessions.sql")
