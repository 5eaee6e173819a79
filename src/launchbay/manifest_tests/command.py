"""`launchbay test FILE…`: runs the tests of manifests and tells how each went."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from launchbay.errors import InvalidManifest
from launchbay.machines.dry_run import fits
from launchbay.manifest_tests.reading import is_suite, read_suite, suite_of
from launchbay.manifest_tests.running import Outcome, UnusableManifest, Workbench

_UNREADABLE = 2


@click.command("test")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-k", "pattern", default="*", help="Only tests with a name like this; * and ? stand for anything.")
@click.option("--log", is_flag=True, help="Show the log of every test, not only of those that fail.")
def test(files: Sequence[Path], pattern: str, log: bool) -> None:  # noqa: FBT001 - click hands flags over so
    """Run the tests of manifests, in this process, on dry-run machines and a clock that jumps.

    FILES are files of tests, such as shop.test.yml, or manifests with such a file beside them.
    """
    workbench = Workbench()
    ran = failed = 0
    seconds = 0.0
    for path in dict.fromkeys(file if is_suite(file) else suite_of(file) for file in files):
        click.echo(str(path))
        try:
            for outcome in workbench.outcomes(read_suite(path, path.read_bytes()), lambda name: _fits(name, pattern)):
                ran += 1
                failed += bool(outcome.differences)
                seconds += outcome.seconds
                _tell(path, outcome, with_log=log)
        except (InvalidManifest, UnusableManifest) as error:
            where = error.path if isinstance(error, UnusableManifest) else path
            _refuse(*(f"{where}: {sentence.replace('The manifest is', 'The file is')}" for sentence in error.sentences))
        except OSError as error:
            _refuse(f"{error.filename or path}: {error.strerror}.")
    told = "all succeeded" if not failed else f"{failed} failed"
    click.echo(f"{ran} tests, {told}, {round(seconds * 1000)} ms")
    if failed:
        sys.exit(1)


def _fits(name: str, pattern: str) -> bool:
    return fits(f"*{pattern}*", name)


def _tell(path: Path, outcome: Outcome, *, with_log: bool) -> None:
    mark = click.style("failed", fg="red") if outcome.differences else click.style("ok", fg="green")
    click.echo(f"  {mark}  {outcome.case.name} ({round(outcome.seconds * 1000)} ms)")
    for difference in outcome.differences:
        click.echo(f"      {path}:{difference.line}: {difference.text}")
    if outcome.differences or with_log:
        for level, text in outcome.lines:
            click.echo(f"      {level}: {text}" if level != "info" else f"      {text}")


def _refuse(*sentences: str) -> None:
    for sentence in sentences:
        click.echo(sentence, err=True)
    sys.exit(_UNREADABLE)
