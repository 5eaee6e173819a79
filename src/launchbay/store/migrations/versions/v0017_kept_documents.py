from launchbay.store.migrations.script import run

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run("0017_kept_documents.sql")
