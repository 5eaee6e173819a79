"""What a process that is started here sees of the server's environment: nothing that could hold a secret.

The server's own environment has its settings in it, such as LAUNCHBAY_ADMIN_PASSWORD, and whatever the operator's shell
had. Everything that starts a process makes the environment for it here.
"""

from pathlib import Path

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANGUAGE = "C.UTF-8"


def least_environment(home: Path | str | None = None, *, path: str = SYSTEM_PATH, **given: str) -> dict[str, str]:
    """Return PATH and LANG, HOME where there is one, and what is given."""
    at_home = {} if home is None else {"HOME": str(home)}
    return {"PATH": path, "LANG": LANGUAGE, **at_home, **given}
