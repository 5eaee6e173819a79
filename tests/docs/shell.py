"""Runs the commands of a page in one shell, as its reader would, and keeps what each of them printed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import Block

WITHIN_S = 100.0
_SAVE_AS = re.compile(r"\b[Ss]ave (?:this|it) as `([^`]+)`")
_MARK = "@@@ tutorial @@@"
_AFTER_EACH = f"_status=$?; echo; echo '{_MARK}' $_status; [ $_status = 0 ] || exit"
_JOB_NOTICE = re.compile(r"^\S+ line \d+: +\d+ Killed .*\n", re.MULTILINE)  # of the shell, at some later command
_ID = re.compile(r"\b[0-9a-f]{24}\b")


@dataclass(frozen=True)
class Command:
    """A command of the page with the output that the page shows, or a file to be saved."""

    text: str
    shown: str
    line: int


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    command: Command
    status: int
    printed: str


def commands_of(blocks: Sequence[Block], replaced: Mapping[str, str]) -> list[Command]:
    """Return the commands of `console` blocks, and of blocks under "Save this as `name`" the saving of the file."""
    commands: list[Command] = []
    for block in blocks:
        text = block.text
        for old, new in replaced.items():
            text = text.replace(old, new)
        saved = _SAVE_AS.search(block.before)
        if block.language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                commands.append(Command(command, shown.strip(), block.line))
        elif saved:
            commands.append(Command(f"cat > {saved[1]} <<'END OF FILE'\n{text}END OF FILE", "", block.line))
    return commands


def run(commands: Sequence[Command], *, cwd: Path, home: Path) -> list[Outcome]:
    """Run the commands in one shell up to the first that fails; end every process that is left."""
    marked = (f"{command.text}\n{_AFTER_EACH}" for command in commands)
    script = home.parent / "script.sh"
    script.write_text("exec 2>&1\n" + "\n".join(marked), "utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", str(script)],
        cwd=cwd,
        env={**os.environ, "HOME": str(home), "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed = shell.communicate(timeout=WITHIN_S)[0]
    except subprocess.TimeoutExpired:
        _end_all(shell.pid)
        printed = shell.communicate()[0]
    finally:
        _end_all(shell.pid)
    parts = re.split(rf"^{_MARK} (\d+)\n", printed, flags=re.MULTILINE)
    outcomes = [
        Outcome(command, int(status), _JOB_NOTICE.sub("", text).strip())
        for command, text, status in zip(commands, parts[0::2], parts[1::2], strict=False)
    ]
    has_failed = bool(outcomes) and outcomes[-1].status != 0
    assert has_failed or len(outcomes) == len(commands), (
        f"{commands[len(outcomes)]} did not end; it printed: {parts[-1]}"
    )
    return outcomes


def agrees(shown: str, printed: str) -> bool:
    """Tell whether an output is the one shown: all ids are alike, and an ellipsis stands for anything."""
    pieces = [re.escape(piece) for piece in _ID.sub("ID", shown).split("…")]
    return re.fullmatch(".*".join(pieces), _ID.sub("ID", printed), flags=re.DOTALL) is not None


def _end_all(group: int) -> None:
    """End the shell's processes, politely at first."""
    for order, within_s in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 1.0)):
        deadline = time.monotonic() + within_s
        with suppress(ProcessLookupError):
            os.killpg(group, order)
            while time.monotonic() < deadline:
                os.killpg(group, 0)
                time.sleep(0.05)
