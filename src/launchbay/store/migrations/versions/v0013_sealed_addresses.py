from launchbay.store.migrations.script import run

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run("0013_sealed_addresses.sql")
