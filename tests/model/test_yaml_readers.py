"""What Launchbay writes as YAML, and what real readers of 1.1 and 1.2 see."""

import random
from pathlib import Path
from typing import Any

import pytest

from launchbay.manifest.reader import read
from launchbay.manifest.tree import plain
from launchbay.model.yaml_text import yaml_text
from tests.support.yaml_readers import Reader, helm, js_yaml, npm_yaml, pyyaml, ruamel_yaml

pytestmark = pytest.mark.slow  # Node and Helm start, and ruamel.yaml takes a while

# Texts that some reader takes for a number, a time, a boolean, null, a merge key or syntax.
_WORDS = """
1e3 1E3 1e+3 1e-3 81e3421 1234e56 12345678e9 -1e3 +1e3 1.e3 .5e3 .5 5. +.5 -.5 1.10 1.00 0.00 7.0 -0 -0.0 +1 1e 1e+ 1.e
0400 0o400 0x1F 0x1f 0b11 0X1F 0B11 0O17 00 007 08 09 -0400 -0x1F +0x1F 0o8 0xg 0b2 0x 0o 0b _1 1_ 1_000 1__0 1_0.5
0x_1F 1:30 190:20:30 190:20:30.15 -1:30 1:2:3:4 12:30:45 1:60 0:0 00:00 2001-01-01 2001-1-1 2001-01-01T00:00:00Z
2001-12-14t21:59:43.10-05:00 2001-01-01x 20010101 2001-13-45 ~ null Null NULL nULL true True TRUE tRUE false False FALSE
yes Yes YES yEs no No NO on On ON oN off Off OFF y Y n N = << < > . .. ... - -- --- ? : :: , [ ] { } # & * ! | ' " % @ `
.inf .Inf .INF -.inf +.inf .nan .NaN .NAN nan NaN inf Infinity .inF 0x1.8p1 1e400 9007199254740993 12345678901234567890
123456789012345678901234567890 1,000 1.2.3 10.0.0.1 1-2 1+1 v1 a:b a: :a a# #a key:value {a} [a] {{a}} ${a} {$.a} *a &a
!a !!str @a `a %a |a >a -a ?a ?- \\ \\n 'a' "a" '' "" a' 'a yes: 1:1 é ß 日本 😀 None none nil ½ ² ١٢
"""
_LINES = [
    *("", " ", "  a", "a  ", "\ta", "a\t", "a\tb", "\n", "a\n", "a\n\n", "\na", " a\nb", "a\n b", "a \nb", "a\r\nb"),
    *("a\rb", "a\x85b", "a\u2028b", "a\u2029b", "\ufeffa", "a\xa0b", "\x7f", "\x1b[0m", "a: b\nc: d", "- a\n- b"),
    *("a #b", "2001-12-14 21:59:43.10 -5", "2001-01-01 00:00:00", "a: b", "? a", "- a", "# a", "--- a", "...\n"),
    *("---\n", "%YAML 1.1", "x" * 200, "x " * 200, "word " * 300 + "end", "\U000e0001", "\ufffd", "a\n# b\n"),
    *("a\n---\nb", "a\n...\nb", "\u200b"),
]
HOSTILE = _WORDS.split() + _LINES
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    7,
    2**31,
    2**53,
    -(2**53),
    0.0,
    -0.0,
    1.0,
    1.5,
    1e16,
    1e-7,
    1e22,
    1.7976931348623157e308,
]
NUMBERS += [5e-324, 0.1, 123456.789, 1e15, True, False, None]
BIG = [2**53 + 1, 2**63 - 1, -(2**63), 1234567890123456789]
DOCUMENTS = 2_000


def values(chance: random.Random, numbers: list[Any], depth: int = 3) -> Any:
    """Return a random value of any type."""
    kind = chance.random()
    if depth and kind < 0.2:
        return [values(chance, numbers, depth - 1) for _ in range(chance.randrange(4))]
    if depth and kind < 0.45:
        return {text(chance): values(chance, numbers, depth - 1) for _ in range(chance.randrange(4))}
    return chance.choice(numbers) if kind < 0.6 else text(chance)


def text(chance: random.Random) -> str:
    """Return a hostile text, two of them joined, or characters that numbers and syntax are made of."""
    kind = chance.random()
    if kind < 0.5:
        return chance.choice(HOSTILE)
    if kind < 0.65:
        return chance.choice(HOSTILE) + chance.choice(["", " ", "\n", ":", "_", "."]) + chance.choice(HOSTILE)
    syntax = "0123456789abexoEXOTZ_.:-+~=<#,[]{}&*!|>'\"%@` \n\t\\n\x85é日😀"
    alphabet = syntax if kind < 0.75 else "0123456789_.:-+eExob"
    return "".join(chance.choices(alphabet, k=chance.randrange(1, 9)))


def corpus(numbers: list[Any]) -> list[Any]:
    chance = random.Random(33)
    hostile = [{"v": each} for each in HOSTILE] + [{"v": {each: [each]}} for each in HOSTILE if each != "<<"]
    return hostile + [{"v": each} for each in numbers] + [{"v": values(chance, numbers)} for _ in range(DOCUMENTS)]


def is_read(value: Any, seen: Any) -> bool:
    """Return whether a reader sees the value; those of JavaScript and Go have one kind of number."""
    if isinstance(value, dict):
        return (
            isinstance(seen, dict)
            and value.keys() == seen.keys()
            and all(is_read(value[key], seen[key]) for key in value)
        )
    if isinstance(value, list):
        return isinstance(seen, list) and len(value) == len(seen) and all(map(is_read, value, seen))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return isinstance(seen, int | float) and not isinstance(seen, bool) and value == seen
    return type(value) is type(seen) and bool(value == seen)


def ours(texts: Any) -> list[Any]:
    return [plain(read(each.encode())) for each in texts]


def _check(reader: Reader, numbers: list[Any]) -> None:
    written = corpus(numbers)
    texts = [yaml_text(each) for each in written]
    wrong = [
        (value, document, seen)
        for value, document, seen in zip(written, texts, reader(texts), strict=True)
        if not is_read(value, seen)
    ]
    assert len(written) > DOCUMENTS
    assert not wrong, (len(wrong), wrong[:5])


@pytest.mark.parametrize("reader", [ours, pyyaml, ruamel_yaml, npm_yaml], ids=lambda each: each.__name__)
def test_what_is_written_is_read_as_the_same_values(reader: Reader) -> None:
    _check(reader, NUMBERS + BIG)


def test_js_yaml_reads_the_same_values_within_the_integers_of_javascript() -> None:
    _check(js_yaml, NUMBERS)


def test_helm_reads_the_same_values_within_the_integers_of_a_double(tmp_path: Path) -> None:
    _check(helm(tmp_path), NUMBERS)
