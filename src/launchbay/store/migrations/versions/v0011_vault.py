from launchbay.store.migrations.script import run

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run("0011_vault.sql")
