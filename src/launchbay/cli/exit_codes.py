"""What the exit code of a command says (docs/reference/exit-codes.md)."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of `launchbay`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_AUTHENTICATED = 4
    NOT_ALLOWED = 5
    CONFLICT = 6
    UNAVAILABLE = 7
    TIMED_OUT = 8
    REFUSED = 9
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: ("It is done.", "Nothing."),
    ExitCode.FAILED: (
        "What was asked for failed: a launch, a job, a test, a bad manifest, or something inside of the server.",
        "Read the message; `launchbay instance log` and `launchbay job show` tell about jobs.",
    ),
    ExitCode.USAGE: ("The command line is wrong, or no profile says which server is meant.", "See `--help`."),
    ExitCode.NOT_FOUND: ("There is no object with this name or id.", "List the objects of that kind."),
    ExitCode.NOT_AUTHENTICATED: ("The credentials are missing, wrong, expired or revoked.", "`launchbay login`."),
    ExitCode.NOT_ALLOWED: (
        "The caller lacks the permission.",
        "`launchbay permission explain` tells which role would allow it; ask an administrator for that role.",
    ),
    ExitCode.CONFLICT: (
        "The object is busy with a job, or was changed meanwhile.",
        "Wait for its end: `launchbay instance wait`.",
    ),
    ExitCode.UNAVAILABLE: ("The server does not answer, or says that it cannot now.", "Try again later."),
    ExitCode.TIMED_OUT: (
        "What was waited for did not happen in the time of `--timeout`; it may still happen.",
        "Wait again.",
    ),
    ExitCode.REFUSED: ("The server refused what was sent as wrong.", "Change what the message names."),
    ExitCode.INTERRUPTED: ("The command was interrupted with Ctrl-C; what runs on the server goes on.", "Nothing."),
}
