"""The exit codes of `launchbay`, and what they mean."""

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
    DIFFERS = 10
    WAITS_FOR_PERSON = 11
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: ("The command succeeded.", "Nothing."),
    ExitCode.FAILED: (
        "A launch, job, test or manifest check failed, or the server had an internal error.",
        "Read the message. For a job, run `launchbay job show` and `launchbay instance log`.",
    ),
    ExitCode.USAGE: (
        "The command line is invalid, it names a missing file or several objects, or no server is configured.",
        "See `--help`. Of several objects, use the ID of one: the message lists them.",
    ),
    ExitCode.NOT_FOUND: ("No object has this name or ID.", "List the objects of that kind."),
    ExitCode.NOT_AUTHENTICATED: ("The credentials are missing, wrong, expired or revoked.", "Run `launchbay login`."),
    ExitCode.NOT_ALLOWED: (
        "You lack the permission.",
        "Run `launchbay permission explain`. Ask an administrator for a role that grants it.",
    ),
    ExitCode.CONFLICT: (
        "A job runs on the object, or another request changed it.",
        "Wait for the job with `launchbay wait`, then retry.",
    ),
    ExitCode.UNAVAILABLE: ("The server doesn't respond, or is temporarily unavailable.", "Retry later."),
    ExitCode.TIMED_OUT: ("The time of `--timeout` is over. The job keeps running.", "Wait again."),
    ExitCode.REFUSED: (
        "The server rejected the request, or a change set as it is. Rules would refuse `launchbay apply --dry-run`.",
        "Change what the message names.",
    ),
    ExitCode.DIFFERS: (
        "With `--detailed-exitcode` or `--check`: the command succeeded, and there are differences.",
        "Apply them with `launchbay apply`, or write them into the files with `launchbay export`.",
    ),
    ExitCode.WAITS_FOR_PERSON: (
        "A change set waits for an approval. With `--no-wait-approval`, a job does.",
        "Answer it with `launchbay change-set approve` or `launchbay approval approve`, or wait again.",
    ),
    ExitCode.INTERRUPTED: ("You interrupted the command with Ctrl-C. Jobs on the server keep running.", "Nothing."),
}
