"""The shell scripts that run on machines, written for POSIX `sh`.

Each gets its parameters as variables, quoted by `script`, and is sent to the standard input of `sh -s`. The shell of
the login never reads it, and no parameter is read as code.
"""

import shlex
from functools import cache
from importlib import resources


def script(*names: str, **variables: str | int) -> str:
    """Return the scripts in a row, after assignments of the variables.

    Raises ValueError as `quoted` does.
    """
    lines = [f"{name}={quoted(str(value))}" for name, value in variables.items()]
    return "\n".join((*lines, *map(text_of, names), ""))


def quoted(*words: str) -> str:
    """Return the words as POSIX `sh` reads them.

    Raises ValueError for what a program can't receive.
    """
    for word in words:
        if "\0" in word:
            raise ValueError("an argument can't contain a NUL character")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ValueError("an argument can't contain half of a surrogate pair") from None
    return " ".join(map(shlex.quote, words))


def framed(text: str, mark: str) -> str:
    """Return a script whose answers have this mark (`machines/answers.py`).

    It ends with a frame of its exit code.
    """
    half = len(mark) // 2
    # Options may come with the environment, from a start-up file that exports them.
    head = f"set +Cefux\nmark_begin={mark[:half]} mark_end={mark[half:]}\n{text_of('speak')}"
    return f"{head}(\n{text}\n)\nsay end $?\n"


@cache
def text_of(name: str) -> str:
    return resources.files(__name__).joinpath(f"{name}.sh").read_text("utf-8")
