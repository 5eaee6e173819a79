"""Which programs actions may start on this server: the operator says so, because they can do what its account can."""

import shutil
from collections.abc import Iterable

from launchbay.errors import ActionFailed
from launchbay.programs.program import search_path


class Programs:
    """The operator's choice (setting `server_programs`)."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(allowed)

    def require(self, name: str, *files: str, remedy: str) -> str:
        """Return the path of the first of a program's files that is there.

        Raises ActionFailed where the operator does not allow the program, and with the remedy where it is missing.
        """
        if name not in self._allowed:
            raise ActionFailed(
                f"Actions may not start {name} on this server, where it could do what the server's account can.",
                f"The operator allows it with LAUNCHBAY_SERVER_PROGRAMS={name}.",
                retryable=False,
            )
        for file in files:
            found = shutil.which(file, path=search_path())
            if found is not None:
                return found
        raise ActionFailed(f"There is no {' or '.join(files)} on this server.", remedy, retryable=False)
