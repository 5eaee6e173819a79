"""The page of services has every type with its parameters and commands, and nothing else."""

import re

import pytest

from launchbay.service_types.contract import ServiceCommand, ServiceType
from launchbay.service_types.registry import BUILT_IN
from tests.support.documentation import DOCS

PAGE = (DOCS / "reference" / "services.md").read_text("utf-8")
_PARAMETER = re.compile(r"^\| `([^`]+)` \| (\S+) \| (yes)? ?\| (yes)? ?\| ([^|]+) \|$", re.MULTILINE)
_ARGUMENT = re.compile(r"^\| `([^`]+)` \| (\S+) \| (yes)? ?\| ([^|]+) \|$", re.MULTILINE)
_RESULT = re.compile(r"`([^`]+)`: ([a-z<>,]+)( \(secret\))?[,.]")


def sections(text: str, marks: str) -> dict[str, str]:
    """Return the text under each heading of a level, by heading."""
    parts = re.split(rf"^{marks} (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


TYPES = sections(PAGE.partition("\n## Next steps")[0], "##")


def test_the_page_has_every_type() -> None:
    assert set(TYPES) == {f"{kind.name}: `{kind.id}`" for kind in BUILT_IN}


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: str(kind.id))
def test_a_type_is_shown_with_all_its_parameters(kind: ServiceType) -> None:
    rows = _PARAMETER.findall(TYPES[f"{kind.name}: `{kind.id}`"].partition("\n### ")[0])
    shown = {name: (type_, bool(needed), bool(secret), said) for name, type_, needed, secret, said in rows}
    assert shown == {
        name: (str(entry.type), entry.required, entry.secret, entry.description)
        for name, entry in kind.parameters.items()
    }


COMMANDS = [(kind, name) for kind in BUILT_IN for name in kind.commands]


def results(line: str, text: str) -> dict[str, tuple[str, bool]]:
    found = re.search(rf"^{line}: (.*)$", text, re.MULTILINE)
    return {} if found is None else {name: (type_, bool(secret)) for name, type_, secret in _RESULT.findall(found[1])}


@pytest.mark.parametrize(("kind", "name"), COMMANDS, ids=lambda each: getattr(each, "id", each))
def test_a_command_is_shown_with_its_arguments_and_results(kind: ServiceType, name: str) -> None:
    command: ServiceCommand = kind.commands[name]
    shown = sections(TYPES[f"{kind.name}: `{kind.id}`"], "###")
    alone = "" if any(name in pins for pins in kind.interfaces.values()) else ", for the API alone"
    section = shown[f"`{name}` (`{command.interface}`{alone})"]
    assert command.description in section
    arguments = {argument: (type_, bool(needed), said) for argument, type_, needed, said in _ARGUMENT.findall(section)}
    assert arguments == {
        argument: (str(entry.type), entry.required, entry.description) for argument, entry in command.arguments.items()
    }
    assert results("Results", section) == {
        result: (str(type_), result in command.secret_results) for result, type_ in command.results.items()
    }
    assert {result: type_ for result, (type_, _) in results("Intermediate results", section).items()} == {
        result: str(type_) for result, type_ in command.intermediate.items()
    }


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: str(kind.id))
def test_a_type_is_shown_with_no_command_that_it_does_not_have(kind: ServiceType) -> None:
    shown = sections(TYPES[f"{kind.name}: `{kind.id}`"], "###")
    assert {heading.split("`")[1] for heading in shown} == set(kind.commands)
