"""The shell scripts that run on machines, written for POSIX `sh`.

Each gets its parameters as variables, quoted by `script`, and is sent through the standard input of `sh -s`: so no
shell of the login reads them, and a parameter is never read as code.
"""

import shlex
from functools import cache
from importlib import resources


def script(*names: str, **variables: str | int) -> str:
    """Return these scripts one after the other, with the variables set before them. Raises ValueError for a NUL."""
    if any("\0" in str(value) for value in variables.values()):
        raise ValueError("a shell script cannot hold a NUL character")
    lines = [f"{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    return "\n".join((*lines, *map(text_of, names), ""))


@cache
def text_of(name: str) -> str:
    """Return the text of a script by its name."""
    return resources.files(__package__).joinpath(f"{name}.sh").read_text("utf-8")
