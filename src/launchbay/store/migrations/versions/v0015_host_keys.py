from launchbay.store.migrations.script import run

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run("0015_host_keys.sql")
