"""Marks say whose a machine is, whatever a cloud makes of them."""

from hypothesis import given
from hypothesis import strategies as st

from launchbay.machines.contract import PREFIX, Tags
from tests.support.contexts import context


@given(st.text(), st.text(max_size=400), st.integers(min_value=0, max_value=10**9))
def test_marks_are_read_as_they_were_written(component: str, role: str, number: int) -> None:
    marks = Tags.of("here", context(component=component), role, number)
    assert Tags.parse({"Name": "web", **marks.to_dict()}) == marks


@given(st.text(max_size=400), st.text(max_size=400))
def test_no_value_is_longer_than_a_tag_may_be(component: str, role: str) -> None:
    written = Tags.of("here", context(component=component), role, 1).to_dict()
    assert all(len(value) <= 255 for value in written.values())
    assert all(name.startswith(PREFIX) for name in written)


def test_a_machine_without_one_of_the_marks_is_nobodys() -> None:
    written = Tags.of("here", context(), "web", 1).to_dict()
    for name in written:
        assert Tags.parse({key: value for key, value in written.items() if key != name}) is None
    assert Tags.parse({**written, f"{PREFIX}number": "-1"}) is None
    assert Tags.parse({**written, f"{PREFIX}number": "¹"}) is None
