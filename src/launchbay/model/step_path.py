"""The path of a step in its job's plan: the key of its record, and of its idempotency key (architecture, rule 7).

    web#launch/deploy                      the step `deploy` of the workflow `launch` of the component `web`
    web#launch/deploy/copy                 a step of the macro that `deploy` calls
    web#launch/ask>db#actions.grow/grow    a step of the workflow that the command `actions.grow` runs at the peer `db`
    web#launch/deploy~2/copy               the same as the second one, in the second attempt of `deploy`

Different places have different paths, whatever the names in a manifest are: the marks above are escaped in names.
"""

import hashlib
import re

PATH_CHARS = 600  # with four bytes each still less than a key of an index may have
_HEAD_CHARS = 120

_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_MARK = re.compile(r"[%/#>~\x00-\x1f\x7f]")


def segment(name: str) -> str:
    """Return a name as it stands in a path."""
    return _MARK.sub(lambda mark: f"%{ord(mark[0]):02X}", name)


def workflow_path(component: str, workflow: str) -> str:
    """Return the path of a workflow that the job itself runs."""
    return _bounded(f"{segment(component)}#{segment(workflow)}")


def step_path(workflow: str, step: str) -> str:
    """Return the path of a step in the run of a workflow with this path."""
    return _bounded(f"{workflow}/{segment(step)}")


def command_path(step: str, component: str, pin: str) -> str:
    """Return the path of the workflow that a step's command runs at the pin `interface.pin` of another component."""
    return _bounded(f"{step}>{segment(component)}#{segment(pin)}")


def attempt_path(step: str, attempt: int) -> str:
    """Return what a step's calls have before theirs in one of its attempts, the first being 1."""
    return step if attempt == 1 else _bounded(f"{step}~{attempt}")


def component_of(path: str) -> str:
    """Return the component, as `segment` writes it, whose workflow the job itself runs on this path."""
    return path.partition("#")[0]


def is_own_step(path: str) -> bool:
    """Tell whether the path is that of a step in a workflow that the job itself runs, not of one inside of a call."""
    return path.count("/") == 1 and ">" not in path and "~" not in path


def step_name(path: str) -> str:
    """Return the name of the step with this path."""
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), path.rpartition("/")[2])


def _bounded(path: str) -> str:
    """Return the path, or for a very long one its head with a digest of the whole."""
    if len(path) <= PATH_CHARS:
        return path
    return f"{path[:_HEAD_CHARS]}%{hashlib.sha256(path.encode()).hexdigest()}"
