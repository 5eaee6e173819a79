from launchbay.store.migrations.script import run

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run("0019_retention_at_size.sql")
