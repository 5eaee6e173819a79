from launchbay.store.migrations.script import run

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run("0020_stored_versions.sql")
