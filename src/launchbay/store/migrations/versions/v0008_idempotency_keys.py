from launchbay.store.migrations.script import run

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run("0008_idempotency_keys.sql")
