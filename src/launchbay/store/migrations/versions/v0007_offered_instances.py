from launchbay.store.migrations.script import run

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run("0007_offered_instances.sql")
