from launchbay.store.migrations.script import run

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run("0018_follow_up_of_deleted.sql")
