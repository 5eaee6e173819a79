from launchbay.store.migrations.script import run

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run("0016_clouds.sql")
