"""Files that commands read."""

import sys
from pathlib import Path

import click


def file_text(name: str) -> str:
    """Return the text of `FILE` or `@FILE`; `-` is standard input.

    Raises UsageError if it can't be read.
    """
    if len(name) > 1:
        name = name.removeprefix("@")
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise click.UsageError(f"Can't read {name}: {reason}.") from error
