"""Runs commands of `launchbay` in this process, with a configuration directory of their own."""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from launchbay.cli.main import main
from tests.support.documentation import Block
from tests.support.eventually import eventually_blocking
from tests.support.servers import Bay
from tests.support.service import EMAIL, PASSWORD

_ONE_AT_A_TIME = threading.Lock()  # commands of one process share its streams


@dataclass
class Shell:
    """A user's environment."""

    config: Path
    environ: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(server: Bay, config: Path) -> "Shell":
        """Return one whose variables name a server and its administrator."""
        names = {"LAUNCHBAY_URL": server.url, "LAUNCHBAY_EMAIL": EMAIL, "LAUNCHBAY_PASSWORD": PASSWORD}
        return Shell(config, {**names, "LAUNCHBAY_ORGANIZATION": server.organization})

    def run(self, *words: str, stdin: str = "") -> Result:
        """Run a command and return what came of it."""
        environ: dict[str, str | None] = {"LAUNCHBAY_CONFIG_DIR": str(self.config), "LAUNCHBAY_KEYRING": "off"}
        with _ONE_AT_A_TIME:
            result = CliRunner().invoke(main, list(words), input=stdin, env={**environ, **self.environ})
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def good(self, *words: str, stdin: str = "") -> str:
        """Run a command that must succeed, and return its standard output."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def document(self, *words: str) -> Any:
        """Run a command with JSON as output, and return the document."""
        return json.loads(self.good(*words, "-o", "json"))

    def bad(self, code: int, *words: str, stdin: str = "") -> str:
        """Run a command that must end with this code, and return what it told."""
        result = self.run(*words, stdin=stdin)
        assert result.exit_code == code, result.output
        return result.stderr


WITHIN_S = 200.0
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
        env={
            **os.environ,
            "HOME": str(home),
            "PATH": path,
            "LAUNCHBAY_CONFIG_DIR": str(home / ".config"),
            "LAUNCHBAY_KEYRING": "off",
        },
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


# Programs that hear SIGINT, however the tests were started.
#
# A shell that runs them in the background has them, and all that they start, ignore it.

_HEAR = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def interruptible(*command: str) -> list[str]:
    """Return the command that runs this one, whose program is named by its path, with SIGINT as it is by default."""
    return [sys.executable, "-c", _HEAR, *command]


COMMAND = (sys.executable, "-m", "launchbay.cli.main", "demo")
DEMO_WITHIN_S = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run_demo(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end, without a terminal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEMO_WITHIN_S,
        env={**os.environ, "COLUMNS": "120", **settings},
    )


def start(*arguments: str) -> "subprocess.Popen[str]":
    """Start the command without a terminal, its output to be read from `stdout`."""
    return subprocess.Popen(
        interruptible(*COMMAND, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )


def run_in_terminal(
    *arguments: str, columns: int, command: Sequence[str] = COMMAND, settings: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a terminal of this width; return the exit status and everything that was drawn."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [*command, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color", **(settings or {})},
        start_new_session=True,
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 65536):
            drawn += chunk
    except OSError:  # the last one with the terminal open has closed it
        pass
    os.close(ours)
    return process.wait(timeout=DEMO_WITHIN_S), drawn.decode()


def plain(drawn: str) -> str:
    """Return the text without colours and movements of the cursor."""
    return _ESCAPES.sub("", drawn).replace("\r", "")


def interrupt(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Press Ctrl-C; return the exit status and the rest of the output."""
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=DEMO_WITHIN_S)
    return process.returncode, rest


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of all processes that name the directory or work in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            works_in = str((entry / "cwd").readlink())
        except OSError:  # it has just ended
            continue
        if str(directory) in command or works_in.startswith(str(directory)):
            found.append(command)
    return found


def await_true(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    eventually_blocking(holds, within_s=DEMO_WITHIN_S)


def editor(cli: Shell, tmp_path: Path, program: str) -> Path:
    """Make a Python program the editor: `path` is the file, `runs` counts the runs from 1."""
    script, count = tmp_path / "editor.py", tmp_path / "runs"
    script.write_text(
        "import pathlib, sys\n"
        f"path, count = pathlib.Path(sys.argv[-1]), pathlib.Path({str(count)!r})\n"
        "runs = int(count.read_text() or 0) + 1 if count.exists() else 1\n"
        "count.write_text(str(runs))\n" + program,
        "utf-8",
    )
    cli.environ["EDITOR"] = f"{sys.executable} {script}"
    return count


def _leaves(context: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command that isn't a group."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found = click.Context(command, parent=context, info_name=name, **command.context_settings)
        if isinstance(command, click.Group):
            yield from _leaves(found)
        else:
            yield found


ROOT = click.Context(main, info_name="launchbay", **main.context_settings)
COMMANDS: Mapping[str, click.Context] = {each.command_path: each for each in _leaves(ROOT)}  # by path, without groups
