"""Answers that are kept for clients that poll."""

from launchbay.web.responses import KeptAnswer, KeptAnswers


def answer(data: bytes, size: int, sources: object = "row") -> KeptAnswer:
    return KeptAnswer(sources, '"tag"', data, size)


def test_an_answer_is_found_by_equal_sources_alone() -> None:
    kept = KeptAnswers(size=100, size_each=50)
    kept.keep("a", answer(b"1", 10, ("row", 1)))
    found = kept.find("a", ("row", 1))
    assert found is not None
    assert found.data == b"1"
    assert kept.find("a", ("row", 2)) is None
    assert kept.find("b", ("row", 1)) is None


def test_those_go_first_that_nobody_asked_for() -> None:
    kept = KeptAnswers(size=100, size_each=50)
    for name in "abc":
        kept.keep(name, answer(name.encode(), 30))
    assert kept.find("a", "row") is not None
    kept.keep("d", answer(b"d", 30))
    assert [name for name in "abcd" if kept.find(name, "row")] == ["a", "c", "d"]


def test_one_large_answer_displaces_several_small_ones() -> None:
    kept = KeptAnswers(size=100, size_each=50)
    for name in "abcde":
        kept.keep(name, answer(b"", 20))
    kept.keep("f", answer(b"", 50))
    assert [name for name in "abcdef" if kept.find(name, "row")] == ["d", "e", "f"]


def test_an_answer_beyond_the_bound_is_not_kept_and_ends_the_older_one() -> None:
    kept = KeptAnswers(size=100, size_each=50)
    kept.keep("a", answer(b"1", 50))
    kept.keep("a", answer(b"2", 51))
    assert kept.find("a", "row") is None
    for name in "bc":
        kept.keep(name, answer(b"", 50))
    assert all(kept.find(name, "row") for name in "bc"), "the older one takes no room any more"


def test_a_newer_answer_replaces_the_older_one_about_the_object() -> None:
    kept = KeptAnswers(size=100, size_each=50)
    for number in range(9):
        kept.keep("a", answer(b"%d" % number, 50, number))
    kept.keep("b", answer(b"", 50))
    assert kept.find("a", 7) is None
    newest = kept.find("a", 8)
    assert newest is not None
    assert newest.data == b"8"
    assert kept.find("b", "row") is not None
