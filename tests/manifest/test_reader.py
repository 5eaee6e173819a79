import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.errors import InvalidManifest
from launchbay.manifest.reader import read
from launchbay.manifest.tree import (
    MappingNode,
    ScalarNode,
    SequenceNode,
    children_of,
    is_null,
    items_of,
    kind_of,
    plain,
    text_of,
)
from launchbay.model.findings import Findings
from tests.support.manifests import MANIFESTS


def mapping(node: object) -> MappingNode:
    assert isinstance(node, MappingNode)
    return node


def sequence(node: object) -> SequenceNode:
    assert isinstance(node, SequenceNode)
    return node


# Each repeated to 60 KB and to the largest size that is looked at; some crash or hang YAML loaders.
HOSTILE = '[·{·- ·? ·[{·{a: ·a: [·[?·&a [·? - ·a:\n- ·[\n·"\\u·%TAG !a! b\n'


def data_of(text: str | bytes) -> Any:
    return plain(read(text.encode() if isinstance(text, str) else text))


def findings_of(text: str | bytes) -> list[tuple[str, int, int]]:
    with pytest.raises(InvalidManifest) as caught:
        read(text.encode() if isinstance(text, str) else text)
    return [(f["code"], f["line"], f["column"]) for f in caught.value.findings]


def message_of(text: str | bytes) -> str:
    with pytest.raises(InvalidManifest) as caught:
        read(text.encode() if isinstance(text, str) else text)
    return str(caught.value)


# Scalars


def test_the_source_text_of_a_scalar_is_kept() -> None:
    node = mapping(read(b"version: 1.10")).get("version")
    assert node == ScalarNode(1.1, "1.10", 1, 10)
    assert text_of(node, "The version", Findings()) == "1.10"


def test_quoted_and_block_scalars_are_strings() -> None:
    assert data_of("a: '1'\nb: \"true\"\nc: |\n  1\nd: >\n  null\ne: ''") == {
        "a": "1",
        "b": "true",
        "c": "1\n",
        "d": "null\n",
        "e": "",
    }


# Tags


def test_a_bare_tag_makes_a_string_even_over_several_lines() -> None:
    assert data_of("- ! 12\n- !\n    cd /tmp;\n    ls\n- ! true") == ["12", "cd /tmp; ls", "true"]


def test_standard_tags_are_understood() -> None:
    text = "- !!str 1\n- !!int '7'\n- !!float 1\n- !!bool 'true'\n- !!null ''\n- !!map {}\n- !!seq []\n- ! {}\n- ! []"
    assert data_of(text) == ["1", 7, 1.0, True, None, {}, [], {}, []]
    assert type(data_of("!!float 1")) is float


def test_unknown_tags_are_errors_with_their_places() -> None:
    text = "a: !secret x\nb: !!binary aGk=\nc: !!set {}\nd: [!python/object:os.system {}]\n"
    text += "e: !!seq {}\nf: !!map []\ng: !!map x"
    assert findings_of(text) == [("UnknownTag", n, 5 if n == 4 else 4) for n in range(1, 8)]


@pytest.mark.parametrize(
    "text", ["!!int x", "!!int 1.5", "!!int true", "!!bool yes", "!!float x", "!!null x", "!!float .inf"]
)
def test_a_text_that_does_not_fit_its_standard_tag_is_an_error(text: str) -> None:
    assert findings_of(f"a: {text}") == [("ImpossibleValue", 1, 4)]


# Anchors and aliases


def test_an_anchor_may_be_defined_again_and_an_alias_means_the_latest() -> None:
    assert data_of("a: &x 1\nb: *x\nc: &x [2]\nd: *x\ne: *x") == {"a": 1, "b": 1, "c": [2], "d": [2], "e": [2]}


def test_an_anchor_that_is_defined_again_inside_of_its_own_node_is_the_inner_one() -> None:
    assert data_of("launch: &u {steps: &u [1]}\nb: *u") == {"launch": {"steps": [1]}, "b": [1]}
    assert data_of("a: &u {b: &u [1], c: *u}\nd: *u") == {"a": {"b": [1], "c": [1]}, "d": [1]}


def test_aliased_data_is_copied_never_shared() -> None:
    data = data_of("a: &x {l: [1]}\nb: *x")
    data["a"]["l"].append(2)
    assert data["b"] == {"l": [1]}


def test_two_calls_of_plain_share_nothing() -> None:
    node = read(b"a: [{b: []}]")
    plain(node)["a"][0]["b"].append(1)
    assert plain(node) == {"a": [{"b": []}]}


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: {c: *x}}", "a: &x 1\nb: &x [*x]", "&x {*x : 1}"])
def test_an_alias_inside_of_its_own_anchor_is_an_error(text: str) -> None:
    assert [code for code, _, _ in findings_of(text)] == ["SelfReference"]


def test_an_alias_without_an_anchor_before_it_is_an_error_with_its_place() -> None:
    assert findings_of("a: 1\nb: *x\nc: &x 1") == [("UnknownAnchor", 2, 4)]


def test_an_alias_may_be_a_key_when_it_is_a_scalar() -> None:
    assert data_of("a: &k name\n*k : 1") == {"a": "name", "name": 1}
    assert findings_of("a: &k [name]\n*k : 1") == [("KeyNotText", 2, 1)]


# Keys


def test_a_duplicate_key_is_an_error_with_both_places() -> None:
    text = "application:\n  components: {}\n  interfaces: {}\n  components: {}\n"
    assert findings_of(text) == [("DuplicateKey", 4, 3)]
    assert "Duplicate key 'components'" in message_of(text)
    assert "line 2, column 3" in message_of(text)


def test_all_duplicate_keys_are_reported_at_once_and_the_rest_is_counted() -> None:
    assert findings_of("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3") == [
        ("DuplicateKey", n, c) for n, c in ((2, 1), (3, 11), (4, 1))
    ]
    many = findings_of("a: 1\n" * (limits.MANIFEST_FINDINGS + 8))
    assert len(many) == limits.MANIFEST_FINDINGS + 1
    assert many[-1][0] == "MoreFindings"
    assert "7 more" in message_of("a: 1\n" * (limits.MANIFEST_FINDINGS + 8))


def test_a_text_that_is_wrong_everywhere_is_given_up() -> None:
    lines = 5_000
    many = findings_of("- !!int x\n" * lines)
    assert len(many) == limits.MANIFEST_FINDINGS + 1
    told = message_of("- !!int x\n" * lines)
    assert f"{limits.MANIFEST_ERRORS - limits.MANIFEST_FINDINGS} more" in told
    assert "Checking stopped" in told


def test_findings_before_a_syntax_error_are_reported_with_it() -> None:
    assert findings_of("a: 1\na: 2\nb: @") == [("DuplicateKey", 2, 1), ("YamlSyntax", 3, 4)]


def test_keys_that_are_no_strings_become_their_text() -> None:
    assert data_of("3: a\n1.50: b\ntrue: c\nnull: d\n~: e\n0x1F: f\n'': g") == {
        "3": "a",
        "1.50": "b",
        "true": "c",
        "null": "d",
        "~": "e",
        "0x1F": "f",
        "": "g",
    }
    assert findings_of("3: a\n'3': b") == [("DuplicateKey", 2, 1)]


@pytest.mark.parametrize(
    ("text", "code"), [("? [a]\n: b", "KeyNotText"), ("? {a: b}\n: c", "KeyNotText"), ("?\n: c", "KeyMissing")]
)
def test_keys_that_are_no_text_are_errors(text: str, code: str) -> None:
    assert [found for found, _, _ in findings_of(text)] == [code]


# Merge keys


def test_merge_keys_take_over_what_the_map_does_not_have_itself() -> None:
    data = data_of(
        "base: &b {x: 1, y: 1}\nmore: &m {y: 2, z: 2}\na:\n  y: 0\n  <<: [*b, *m]\nb: {<<: {q: 1}}\nc: {'<<': 1}"
    )
    assert data["a"] == {"x": 1, "y": 0, "z": 2}
    assert list(data["a"]) == ["x", "y", "z"]
    assert data["b"] == {"q": 1}
    assert data["c"] == {"<<": 1}


def test_merged_keys_point_to_where_they_stand() -> None:
    root = mapping(read(b"base: &b {x: 1}\na: {<<: *b, w: 2}"))
    merged = mapping(root.children["a"])
    assert (merged.place_of("x").line, merged.place_of("x").column) == (1, 11)
    assert merged.place_of("absent") is merged


def test_a_merge_key_that_takes_no_map_is_an_error() -> None:
    assert findings_of("a: {<<: 1}\nb:\n  <<: [{}, x]") == [("MergeNotMap", 1, 5), ("MergeNotMap", 3, 3)]


def test_merge_keys_cannot_blow_up() -> None:
    lines = ["x0: &x0 {k: v}"]
    lines += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 9)}], k{n}: v}}" for n in range(1, 30)]
    start = time.process_time()
    assert findings_of("\n".join(lines))[0][0] == "TooManyNodes"
    assert time.process_time() - start < 10  # 9 to the power of 30 maps would take for ever


# Places


def test_every_node_and_key_has_its_place() -> None:
    root = mapping(read("# é\nä: 1\nb:\n- 😀: [x, y]\n".encode()))
    assert (root.line, root.column) == (2, 1)
    assert (root.keys["b"].line, root.keys["b"].column) == (3, 1)
    items = sequence(root.children["b"])
    assert (items.line, items.column) == (4, 1)
    pair = sequence(mapping(items.children[0]).children["😀"])
    assert [(node.line, node.column) for node in pair.children] == [(4, 7), (4, 10)]


def test_a_node_of_another_kind_is_refused_by_name_and_place() -> None:
    root = mapping(read(b"a: 1\nb: [x]\nc:\nd: {}\ne: yes"))
    assert [kind_of(root.children[key]) for key in "abcde"] == [
        "the number 1",
        "a list",
        "null",
        "a map",
        "the string 'yes'",
    ]
    assert is_null(root.children["c"])
    findings = Findings()
    children_of(root.children["a"], "The thing", findings)
    items_of(root.children["d"], "The thing", findings.at("web", "launch"))
    text_of(root.children["b"], "The thing", findings)
    for nothing in (children_of, items_of, text_of):
        assert not nothing(root.children["c"], "The thing", findings)
    assert [(found.message, found.line, found.column) for found in findings.errors] == [
        ("The thing must be a map, not the number 1.", 1, 4),
        ("web › launch: The thing must be a list, not a map.", 4, 4),
        ("The thing must be a string, not a list.", 2, 4),
    ]


# The document as a whole


def test_json_is_read() -> None:
    document = {"a": [1, -2.5, True, None, 'x\ty/"\\ \u2603 😀'], "b": {"": [[], {}]}, "u": "\\ud83d\\ude00"}
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False), json.dumps(document, indent="\t")):
        assert data_of(text) == document


def test_an_empty_map_is_a_document_and_nothing_is_none() -> None:
    assert data_of("{}") == {}
    for text in ("", "   \n", "# only a comment\n"):
        assert findings_of(text) == [("EmptyManifest", 1, 1)]


def test_a_bare_scalar_is_a_node_for_the_next_stage() -> None:
    assert read(b"  hello") == ScalarNode("hello", "hello", 1, 3)
    assert read(b"---\n") == ScalarNode(None, "", 2, 1)


def test_a_second_document_is_an_error_with_its_place() -> None:
    assert findings_of("a: 1\n---\nb: 2\n") == [("SecondDocument", 2, 1)]
    assert data_of("%YAML 1.2\n---\na: 1\n...\n") == {"a": 1}


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (b"a: 1\nb: \xffx", ("NotUtf8", 2, 4)),
        ("é: é".encode() + b"\xc3", ("NotUtf8", 1, 5)),
        (b"\xed\xa0\x80", ("NotUtf8", 1, 1)),
        ("a: 1".encode("utf-16"), ("NotUtf8", 1, 1)),
        ("a: 1".encode("utf-16-be"), ("ForbiddenCharacter", 1, 1)),
        ("a: 1".encode("utf-32"), ("NotUtf8", 1, 1)),
        (b"a: 1\r\nb: x\x00", ("ForbiddenCharacter", 2, 5)),
        (b"a: \x1b[0m", ("ForbiddenCharacter", 1, 4)),
        (b"a: \x7f", ("ForbiddenCharacter", 1, 4)),
        ("é: \x9f".encode(), ("ForbiddenCharacter", 1, 4)),
        ("a: \ufeff".encode(), ("ForbiddenCharacter", 1, 4)),
        ("a: \uffff".encode(), ("ForbiddenCharacter", 1, 4)),
        (b'a: ["x\\0"]', ("ForbiddenCharacter", 1, 5)),
        (b'a: "\\ud800"', ("YamlSyntax", 1, 7)),
        (b"a:\n\tb: 1", ("YamlSyntax", 2, 1)),
        (b"a: @b", ("YamlSyntax", 1, 4)),
    ],
)
def test_unreadable_bytes_are_one_error_with_its_place(data: bytes, finding: tuple[str, int, int]) -> None:
    assert findings_of(data) == [finding]


def test_frequent_syntax_errors_say_what_to_do() -> None:
    assert "Indent with spaces" in message_of("a:\n\tb: 1")
    assert "Quote a string" in message_of("a: @b")
    assert "UTF-8" in message_of("a: 1".encode("utf-16"))
    assert "that starts in line 1" in message_of("a: [1,\n2\n\nb: 3")


def test_a_byte_order_mark_is_passed_over() -> None:
    root = mapping(read(b"\xef\xbb\xbfa: 1"))
    assert (root.keys["a"].line, root.keys["a"].column) == (1, 1)


# Bounds


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("[{a: ", "}]")])
def test_the_depth_bound_is_exact(opening: str, closing: str) -> None:
    levels = opening.count("[") + opening.count("{")
    times = limits.MANIFEST_DEPTH // levels
    data_of(opening * times + closing * times)
    assert findings_of(opening * times + "[]" + closing * times)[0][0] == "TooDeep"


def test_depth_counts_what_aliases_add() -> None:
    half = limits.MANIFEST_DEPTH // 2
    inner = f"a: &a {'[' * half}{']' * half}\n"
    data_of(inner + f"b: {'[' * (half - 1)}*a{']' * (half - 1)}")
    assert findings_of(inner + f"b: {'[' * half}*a{']' * half}") == [("TooDeep", 2, 4 + half)]
    chain = inner + f"b: &b {'[' * 20}*a{']' * 20}\nc: {'[' * 20}*b{']' * 20}"
    assert findings_of(chain)[0][0] == "TooDeep"


def test_the_node_bound_is_exact_and_counts_aliases_as_often_as_used() -> None:
    fits = limits.MANIFEST_NODES - 1
    assert len(data_of("[" + "a," * fits + "]")) == fits
    assert findings_of("[" + "a," * (fits + 1) + "]")[0][0] == "TooManyNodes"
    tenth = limits.MANIFEST_NODES // 10
    text = f"- &a [{'x,' * (tenth - 1)}]\n"
    assert len(data_of(text + "- *a\n" * 8)) == 9
    assert findings_of(text + "- *a\n" * 9) == [("TooManyNodes", 10, 3)]


def test_aliases_of_a_long_text_cannot_fill_the_memory() -> None:
    text = f"- &a {'x' * 200_000}\n"
    assert len(data_of(text + "- *a\n" * 19)) == 20
    assert findings_of(text + "- *a\n" * 30)[0][0] == "TooMuchText"


def test_the_size_bound_is_exact() -> None:
    data_of("#" * (limits.MANIFEST_BYTES - 2) + "\na")
    assert findings_of(b"#" * (limits.MANIFEST_BYTES - 1) + b"\na") == [("ManifestTooLarge", 1, 1)]


@pytest.mark.slow
def test_hostile_nesting_harms_neither_the_process_nor_its_speed() -> None:
    program = (
        "import json, sys, time\n"
        "from launchbay.manifest.reader import read\n"
        "from launchbay.errors import InvalidManifest\n"
        "for pattern in json.loads(sys.argv[1]):\n"
        "    for size in (60_000, 512 * 1024):\n"
        "        data = (pattern * (size // len(pattern))).encode()\n"
        "        start = time.process_time()\n"
        "        try:\n"
        "            read(data)\n"
        "        except InvalidManifest as error:\n"
        "            pass\n"
        "        else:\n"
        "            if size > 60_000:\n"
        "                raise SystemExit(f'not refused: {pattern}')\n"
        "        assert time.process_time() - start < 5, pattern\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(HOSTILE.split("·"))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# Whatever comes in


def read_or_refuse(data: bytes) -> None:
    """Read; pass where the reader gives JSON-able data or refuses as declared. Anything else fails the test."""
    try:
        node = read(data)
    except InvalidManifest as error:
        findings = error.findings
    else:
        json.dumps(plain(node), allow_nan=False).encode()
        return
    assert findings
    assert all(f["line"] >= 1 and f["column"] >= 1 and f["message"].endswith(".") for f in findings)


BITS = (
    "a·b: ·- ·\n·  ·[·]·{·}·,·: ·? ·&x ·*x ·! ·!!int ·!t ·'·\"·|\n·>-\n·#·<<: ·1·0x·1e·.inf·~·"
    "---\n·...\n·%TAG ! !\n·\t·\\u·é·\x85·\r"
)
YAML_BITS = st.sampled_from(BITS.split("·"))


@given(st.lists(YAML_BITS, max_size=40).map("".join))
def test_bits_of_yaml_are_read_or_refused_as_declared(text: str) -> None:
    read_or_refuse(text.encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_as_declared(data: bytes) -> None:
    read_or_refuse(data)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_every_json_document_is_read_back(value: object) -> None:
    assert data_of(json.dumps([value])) == [value]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_whole_manifests_are_read(path: Path) -> None:
    assert isinstance(read(path.read_bytes()), MappingNode)


@given(st.data())
def test_mutated_manifests_are_read_or_refused_as_declared(data: st.DataObject) -> None:
    source = bytearray(data.draw(st.sampled_from(MANIFESTS), "manifest").read_bytes())
    for _ in range(data.draw(st.integers(1, 6), "mutations")):
        at = data.draw(st.integers(0, len(source)), "at")
        width = data.draw(st.integers(0, 30), "width")
        source[at : at + width] = data.draw(st.binary(max_size=8) | YAML_BITS.map(str.encode), "replacement")
    read_or_refuse(bytes(source))


@pytest.mark.parametrize("seed", [b"\x00", b"[", b"a: ", b"\xff", b"- \n", b"{}"])
def test_a_megabyte_of_anything_is_answered_quickly(seed: bytes) -> None:
    data = seed * (limits.MIB // len(seed))
    start = time.process_time()
    assert findings_of(data) == [("ManifestTooLarge", 1, 1)]
    assert time.process_time() - start < 1


def test_nodes_cannot_be_changed() -> None:
    node = read(b"[a]")
    assert isinstance(node, SequenceNode)
    with pytest.raises(AttributeError):
        node.line = 7  # type: ignore[misc]  # the test is that this fails
