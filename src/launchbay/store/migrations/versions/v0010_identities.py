from launchbay.store.migrations.script import run

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run("0010_identities.sql")
