"""How a version module runs its `.sql` file."""

from importlib import resources

from alembic import op


def run(file_name: str) -> None:
    """Execute the statements of a file of this package, in the migration's transaction."""
    text = (resources.files("launchbay.store.migrations") / file_name).read_bytes()
    connection = op.get_bind().connection.driver_connection
    assert connection is not None, "an upgrade has a connection; there is no offline mode"
    connection.execute(text)
