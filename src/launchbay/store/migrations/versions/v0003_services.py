from launchbay.store.migrations.script import run

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run("0003_services.sql")
