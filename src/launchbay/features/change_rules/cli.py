"""`launchbay rule test`: runs tests of rules about changes, without a server."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from launchbay.cli.lazy import HELP_OPTIONS, HelpfulGroup
from launchbay.errors import InvalidManifest
from launchbay.features.change_rules.rules import Rule, parse, problems_of
from launchbay.features.change_rules.suite import ENDINGS, RuleSuite, differences, read_suite

_FAILED = 1
_UNREADABLE = 2


@click.command("test")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def test(files: Sequence[Path]) -> None:
    """Run tests of rules about changes, without a server.

    FILES are test files, such as production.test.yml, or rules with a test file in the same directory.
    """
    ran = failed = 0
    for path in dict.fromkeys(map(_suite_of, files)):
        click.echo(str(path))
        suite, rules = _read(path)
        for case in suite.cases:
            found = list(differences(rules, case))
            ran += 1
            failed += bool(found)
            mark = click.style("failed", fg="red") if found else click.style("ok", fg="green")
            click.echo(f"  {mark}  {case.name}")
            for each in found:
                click.echo(f"      {path}:{case.line}: {each}")
    outcomes = "all succeeded" if not failed else f"{failed} failed"
    click.echo(f"{ran} {'test' if ran == 1 else 'tests'}, {outcomes}")
    if failed:
        sys.exit(_FAILED)


def _suite_of(path: Path) -> Path:
    """Return the test file of rules, in the same directory."""
    if path.name.endswith(ENDINGS):
        return path
    candidates = [path.with_name(path.stem + ending) for ending in ENDINGS]
    return next((each for each in candidates if each.exists()), candidates[0])


def _read(path: Path) -> tuple[RuleSuite, tuple[Rule, ...]]:
    """Return the tests of a file, and their rules.

    Ends the command if one can't be read.
    """
    at = path
    try:
        suite = read_suite(path.read_bytes())
        at = path.parent / suite.rules if suite.rules is not None else _rules_of(path)
        return suite, parse(at.read_text("utf-8"))
    except InvalidManifest as error:
        for message in problems_of(error):
            click.echo(f"{at}: {message}", err=True)
    except OSError as error:
        click.echo(f"{error.filename or at}: {error.strerror}.", err=True)
    except UnicodeDecodeError:
        click.echo(f"{at}: The file isn't UTF-8.", err=True)
    sys.exit(_UNREADABLE)


def _rules_of(path: Path) -> Path:
    """Return the rules next to a test file, if possible with the same ending."""
    ending = next(each for each in ENDINGS if path.name.endswith(each))
    stem = path.name.removesuffix(ending)
    names = [stem + each.removeprefix(".test") for each in sorted(ENDINGS, key=lambda each: each != ending)]
    return next((path.with_name(name) for name in names if path.with_name(name).exists()), path.with_name(names[0]))


rule = HelpfulGroup(
    "rule", help="Test rules about changes, without a server.", commands={"test": test}, context_settings=HELP_OPTIONS
)
