from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.limits import MANIFEST_DEPTH
from launchbay.manifest.syntax import BindTarget, parse_bind, parse_endpoint


def test_a_bind_names_a_component_an_interface_and_a_pin() -> None:
    assert parse_bind("bind(workflow#input.port)") == (BindTarget("workflow", "input.port"),)


def test_white_space_in_a_bind_is_free() -> None:
    assert parse_bind("  bind ( web . workflow # input . port ,\n b#i.p ) ") == (
        BindTarget("web.workflow", "input.port"),
        BindTarget("b", "i.p"),
    )


def test_a_wildcard_target_stands_for_an_interface() -> None:
    [target] = parse_bind("bind(a#input.*)")
    assert target.wildcard_interface == "input"
    assert parse_bind("bind(a#input.x)")[0].wildcard_interface is None


def test_a_target_named_twice_counts_once() -> None:
    assert parse_bind("bind(a#i.p, a#i.p)") == (BindTarget("a", "i.p"),)


@pytest.mark.parametrize(
    "text",
    ["bind()", "bind(a)", "bind(a#i)", "bind(#i.p)", "bind(a#.p)", "bind(a#i.)", "bind(a.#i.p)", "bind(a#i.p,)",
     "bind(a#i.p", "bind a#i.p", "binds(a#i.p)", "bind(a#i#p.x)", "bind(bind(a#i.p))", "a#i.p", ""],
)  # fmt: skip
def test_a_malformed_bind_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"component#interface\.pin"):
        parse_bind(text)


def test_an_end_of_a_binding_may_name_an_interface() -> None:
    whole, one = parse_endpoint("web.workflow", 3, 5), parse_endpoint(" web.workflow # db ", 3, 5)
    assert (whole.component, whole.interface, str(whole)) == ("web.workflow", None, "web.workflow")
    assert (one.component, one.interface, str(one)) == ("web.workflow", "db", "web.workflow#db")


@pytest.mark.parametrize("text", ["", " ", "a#", "#i", "a..b", "a#i#j", "a,b"])
def test_a_malformed_end_of_a_binding_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="component or component#interface"):
        parse_endpoint(text, 1, 1)


_NAMES = st.text(alphabet=st.characters(exclude_characters="#,().*", exclude_categories=["Z", "C"]), min_size=1)


@given(st.lists(_NAMES, min_size=1), _NAMES, _NAMES)
def test_a_written_target_is_read_back(path: list[str], interface: str, pin: str) -> None:
    target = BindTarget(".".join(path), f"{interface}.{pin}")
    assert parse_bind(f"bind({target})") == (target,)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_bind, lambda text: parse_endpoint(text, 1, 1)):
        with suppress(ValueError):
            parse(text)


def test_a_way_deeper_than_components_can_be_nested_is_refused() -> None:
    deep = ".".join(["c"] * MANIFEST_DEPTH)
    assert parse_bind(f"bind({deep}#i.p)")[0].component == deep
    with pytest.raises(ValueError, match=r"component#interface\.pin"):
        parse_bind(f"bind({deep}.c#i.p)")
