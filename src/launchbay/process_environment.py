"""What a process that is started here sees of the server's environment: nothing that could hold a secret.

The server's own environment has its settings in it, such as LAUNCHBAY_ADMIN_PASSWORD, and whatever the operator's shell
had. Everything that starts a process makes the environment for it here.
"""

import os
from collections.abc import Sequence
from pathlib import Path

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANGUAGE = "C.UTF-8"


def least_environment(
    home: Path | str | None = None, *, path: str = SYSTEM_PATH, keep: Sequence[str] = (), **given: str
) -> dict[str, str]:
    """Return PATH and LANG, HOME where there is one, and what is given.

    Variables of the server whose names begin with one of `keep` stay; those of its settings never do.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if keep and name.startswith(tuple(keep)) and not name.startswith("LAUNCHBAY_")
    }
    at_home = {} if home is None else {"HOME": str(home)}
    return {**kept, "PATH": path, "LANG": LANGUAGE, **at_home, **given}
