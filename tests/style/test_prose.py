"""The check of the project's English finds what it should, and its record only falls."""

import pytest

from tests.style.prose import LIMITS, RULES, Kind, Passage, Rule, beyond_limits, lowered, measures, rises, strict_hits

WRONG = {
    "is-no": "This is no valid duration.",
    "is-none": "An action that is none.",
    "mend": "Mend the field.",
    "stands": "The key stands twice.",
    "goes-on": "The job goes on.",
    "told": "Webhooks are told.",
    "beside": "A file beside the server.",
    "anew": "It is sealed anew.",
    "of-yours": "A role of yours.",
    "who-may": "Who may read it sees it.",
    "the-most": "20 wait, which is the most.",
    "same-moment": "Changed at the same moment.",
    "sign-of-life": "No sign of life.",
    "broken-off": "The job was broken off.",
    "where-omitted": "JSON where it is left out.",
    "what-there-is": "It lists what there is.",
    "what-cleft": "What was done stays done.",
    "unknown-ignored": "'x' is unknown and ignored.",
    "a-text": "It is a text of permissions.",
    "comes-to": "The job comes to its end.",
    "message": "Read the sentence.",
    "for-good": "It is deleted for good.",
    "circle": "Break the circle.",
    "letters": "Who gets a letter.",
    "places": "One in the place of the other.",
    "shall": "The role shall have three.",
    "not-for-you": "not for you",
    "semicolons": "The first clause of all is this one; the second clause follows it; and a third one.",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_each_strict_rule_finds_its_example(rule: Rule) -> None:
    found = [Passage(Kind(rule.kinds[0]), "page.md", 0, f"Fine.\n{WRONG[rule.name]}")]
    hits = [place for hit, place in strict_hits(found) if hit == rule]
    assert len(hits) == 1
    assert hits[0].startswith("page.md:2: ")


def test_plain_english_has_no_hits() -> None:
    text = "A dot stands for a level. There is no limit. The role says who may do what."
    assert list(strict_hits([Passage(kind, "page.md", 0, text) for kind in Kind if kind != Kind.COMMIT])) == []


def test_a_long_commit_subject_is_a_hit() -> None:
    hits = strict_hits([Passage(Kind.COMMIT, "git", 0, "docs: " + "x" * 80)])
    assert [rule.name for rule, _ in hits] == ["long-subject"]


def test_a_page_may_not_exceed_a_limit_unless_the_record_allows_it() -> None:
    found = [Passage(Kind.DOCS, "page.md", 0, "word " * 41)]
    figures = measures(found)
    assert len(list(rises(figures, {}))) == 2
    record = beyond_limits(figures)
    assert list(rises(figures, record)) == []
    assert record["page.md"].keys() <= LIMITS.keys()


def test_the_record_only_falls() -> None:
    record = {"a.md": {"lines over 140 characters": 3}, "gone.md": {"vague headings": 1}}
    assert lowered(record, {"a.md": {"lines over 140 characters": 5, "vague headings": 2}}) == {
        "a.md": {"lines over 140 characters": 3}
    }
    assert lowered(record, {"a.md": {"lines over 140 characters": 1}}) == {"a.md": {"lines over 140 characters": 1}}
    assert lowered(record, {"a.md": {"lines over 140 characters": 0}}) == {}
