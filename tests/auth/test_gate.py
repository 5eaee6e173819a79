"""The gate against a slow, obvious model of the rules, and the cases that the design page spells out."""

import itertools
import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth import gate, permissions
from launchbay.auth.gate import (
    ADMINISTRATOR_TEXT,
    ALL_GRANTS,
    GUEST_TEXT,
    NO_GRANTS,
    Grants,
    InstancePatterns,
    RoleEntry,
    RoleGrants,
    decide,
    explain,
    read_role_text,
)
from launchbay.auth.permissions import Pattern, Permission, Resource, parse_pattern
from launchbay.errors import BadRequest
from launchbay.limits import ROLE_PATTERNS, ROLE_TEXT_BYTES


def holding(*texts: str) -> Grants:
    return Grants(tuple(RoleGrants(f"role {number}", read_role_text(text)) for number, text in enumerate(texts, 1)))


LAUNCH = Permission.CREATE_INSTANCE
SHOP = permissions.application("shop")
DEV = permissions.environment("dev")
PROD = permissions.environment("prod")


def test_patterns_of_different_kinds_must_all_hold() -> None:
    grants = holding("- CreateInstance: [/applications/*, /environments/dev]")
    assert decide(grants, LAUNCH, (SHOP, DEV)).allowed
    assert not decide(grants, LAUNCH, (SHOP, PROD)).allowed


def test_patterns_of_one_kind_are_alternatives() -> None:
    grants = holding("- CreateInstance: [/applications/x, /applications/shop, /environments/dev, /environments/prod]")
    assert decide(grants, LAUNCH, (SHOP, DEV)).allowed
    assert decide(grants, LAUNCH, (SHOP, PROD)).allowed
    assert not decide(grants, LAUNCH, (permissions.application("y"), DEV)).allowed


@pytest.mark.parametrize(
    ("pattern", "covers"),
    [("/*", True), ("/users/*", True), ("/u*/**", True), ("/users/6*", False), ("/users/*a", False)],
)
def test_all_users_are_covered_by_what_covers_every_id(pattern: str, covers: bool) -> None:
    everybody = (permissions.user(permissions.EVERY),)
    assert decide(holding(f"- ManageUsers: ['{pattern}']"), Permission.MANAGE_USERS, everybody).allowed is covers


def test_a_kind_that_an_entry_does_not_mention_does_not_restrict_it() -> None:
    assert decide(holding("- CreateInstance: [/applications/shop]"), LAUNCH, (SHOP, PROD)).allowed


def test_an_entry_that_does_not_cover_the_object_itself_allows_nothing() -> None:
    assert not decide(holding("- CreateInstance: [/environments/dev]"), LAUNCH, (SHOP, DEV)).allowed
    assert not decide(holding("- CreateInstance: []"), LAUNCH, (SHOP, DEV)).allowed


def test_entries_are_not_mixed_to_satisfy_one_operation() -> None:
    grants = holding(
        "- CreateInstance: [/applications/shop, /environments/dev]\n"
        "- CreateInstance: [/applications/y, /environments/prod]"
    )
    assert not decide(grants, LAUNCH, (SHOP, PROD)).allowed


def test_roles_are_a_union_and_the_one_that_decided_is_named() -> None:
    decision = decide(holding("- Read: [/*]", "- CreateInstance: [/applications/shop]"), LAUNCH, (SHOP, DEV))
    assert (decision.allowed, decision.role) == (True, "role 2")
    assert str(decision.entry) == "CreateInstance: [/applications/shop]"
    assert decision.pattern == parse_pattern("/applications/shop")


def test_one_permission_does_not_stand_for_another() -> None:
    grants = holding("".join(f"- {other}: [/*]\n" for other in Permission if other is not LAUNCH))
    assert not decide(grants, LAUNCH, (SHOP,)).allowed


@pytest.mark.parametrize("permission", Permission)
def test_the_administrator_may_do_everything_and_nobody_nothing(permission: Permission) -> None:
    everything = Grants((RoleGrants("Administrator", ALL_GRANTS),))
    assert decide(everything, permission, (SHOP, PROD)).allowed
    assert not decide(NO_GRANTS, permission, (SHOP, PROD)).allowed


def test_explain_names_the_pattern_that_decided() -> None:
    _, sentence = explain(holding("- Read: [/services/*, /applications/*]"), Permission.READ, (SHOP,))
    assert sentence == "Role 'role 1' allows it by '/applications/*' in 'Read: [/services/*, /applications/*]'."


def test_explain_says_what_is_missing() -> None:
    grants = holding("- CreateInstance: [/applications/*, /environments/dev]", "- CreateInstance: [/applications/y]")
    decision, sentence = explain(grants, LAUNCH, (SHOP, PROD))
    assert not decision.allowed
    first = "role 'role 1' has 'CreateInstance: [/applications/*, /environments/dev]', which does not cover"
    assert f"{first} /environments/prod" in sentence
    assert "role 'role 2' has 'CreateInstance: [/applications/y]', which does not cover /applications/shop" in sentence
    assert explain(grants, Permission.READ, (SHOP,))[1] == "No role held names Read. Roles held: 'role 1', 'role 2'."
    assert "Roles held: none" in explain(NO_GRANTS, Permission.READ, (SHOP,))[1]


def test_an_explanation_stays_short_however_many_entries_there_are() -> None:
    _, sentence = explain(holding("- Read: [/services/s]\n" * 500), Permission.READ, (SHOP,))
    assert len(sentence) < 2000
    assert sentence.endswith("and 490 more.")


# The model: the set of all resources of a small world, and the meaning of a pattern as the set of what it covers.

_NAMES = ("a", "ab", "b")
_WORLD = [
    *(permissions.application(x) for x in _NAMES),
    *(permissions.instance(x, y) for x in _NAMES for y in _NAMES),
    *(permissions.workflow(x, y, z) for x in _NAMES for y in _NAMES for z in _NAMES),
    *(permissions.environment(x) for x in _NAMES),
    *(permissions.service(x) for x in _NAMES),
]


def _segment_meaning(pattern: str, segment: str) -> bool:
    """Try every way to replace the stars."""
    if "*" not in pattern:
        return pattern == segment
    pieces = [segment[i:j] for i, j in itertools.combinations(range(len(segment) + 1), 2)] + [""]
    return any(_segment_meaning(pattern.replace("*", piece, 1), segment) for piece in set(pieces))


def _pattern_meaning(text: str) -> set[Resource]:
    segments = text[1:].split("/")
    covered = set()
    for resource in _WORLD:
        theirs = list(resource.segments)
        if segments[-1] == "*":
            if len(theirs) < len(segments):
                continue
            theirs = [*theirs[: len(segments) - 1], "/".join(theirs[len(segments) - 1 :])]
        if len(theirs) == len(segments) and all(
            _segment_meaning(p, s) for p, s in zip(segments[:-1], theirs[:-1], strict=True)
        ):
            last_fits = segments[-1] == "*" or _segment_meaning(segments[-1], theirs[-1])
            if last_fits:
                covered.add(resource)
    return covered


def _model_allows(grants: Grants, permission: Permission, touched: tuple[Resource, ...]) -> bool:
    for role in grants.roles:
        for entry in role.entries:
            if entry.permission is not permission:
                continue
            by_kind: dict[str, set[Resource]] = {}
            for kind in permissions.KINDS:
                concerned = [p.text for p in entry.patterns if _segment_meaning(p.text[1:].split("/")[0], kind)]
                if concerned:
                    by_kind[kind] = {r for text in concerned for r in _pattern_meaning(text) if r.kind == kind}
            object_covered = touched[0] in by_kind.get(touched[0].kind, set())
            if object_covered and all(r in by_kind[r.kind] for r in touched if r.kind in by_kind):
                return True
    return False


_segment = st.sampled_from(["a", "ab", "b", "*", "a*", "*b", "*a*"])
_pattern = st.one_of(
    st.just("/*"),
    st.builds("/{}/{}".format, st.sampled_from(["applications", "environments", "services", "*", "e*"]), _segment),
    st.builds("/applications/{}/instances/{}".format, _segment, _segment),
    st.builds("/applications/{}/instances/{}/workflows/{}".format, _segment, _segment, _segment),
).map(parse_pattern)
_entry = st.builds(RoleEntry, st.sampled_from([Permission.READ, LAUNCH]), st.lists(_pattern, max_size=4).map(tuple))
_grants = st.lists(
    st.builds(RoleGrants, st.sampled_from(["r", "s"]), st.lists(_entry, max_size=3).map(tuple)), max_size=2
).map(lambda roles: Grants(tuple(roles)))


@given(_grants, st.sampled_from([Permission.READ, LAUNCH]), st.lists(st.sampled_from(_WORLD), min_size=1, max_size=3))
def test_the_gate_decides_as_the_model_does(grants: Grants, permission: Permission, touched: list[Resource]) -> None:
    decision = decide(grants, permission, tuple(touched))
    assert decision.allowed == _model_allows(grants, permission, tuple(touched))
    assert explain(grants, permission, tuple(touched))[0] == decision
    if decision.allowed:
        assert decision.pattern is not None
        assert touched[0] in _pattern_meaning(decision.pattern.text)


@given(_grants, _grants, st.lists(st.sampled_from(_WORLD), min_size=1, max_size=3))
def test_another_role_never_takes_anything_away(held: Grants, added: Grants, touched: list[Resource]) -> None:
    if decide(held, LAUNCH, tuple(touched)).allowed:
        assert decide(Grants(added.roles + held.roles), LAUNCH, tuple(touched)).allowed


def _like(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace("%", ".*"), text) is not None


def _has_a_match(found: InstancePatterns, app: str, instance: str, place: str) -> bool:
    """Decide as the condition in `store/statements.py` does."""
    if found.named is not None and not {app, instance} & set(found.named):
        return False
    if found.named_environments is not None and place not in found.named_environments:
        return False
    places = zip(found.environments, found.environment_entries, strict=True)
    entries = {number for pattern, number in places if _like(pattern, place)}
    objects = zip(found.applications, found.instances, found.entries, strict=True)
    return any(_like(a, app) and _like(i, instance) and number in entries for a, i, number in objects)


@given(_grants, st.sampled_from(_NAMES), st.sampled_from(_NAMES), st.sampled_from(_NAMES))
def test_lists_have_the_instances_that_the_gate_allows(grants: Grants, app: str, instance: str, place: str) -> None:
    found = gate.instance_patterns([entry for role in grants.roles for entry in role.entries], Permission.READ)
    listed = found is None or app in found.whole or place in found.places or _has_a_match(found, app, instance, place)
    touched = (permissions.instance(app, instance), permissions.environment(place))
    assert listed == decide(grants, Permission.READ, touched).allowed


@given(_grants, st.sampled_from(_WORLD))
def test_a_permission_for_an_object_concerns_its_kind(grants: Grants, touched: Resource) -> None:
    if decide(grants, Permission.READ, (touched,)).allowed:
        assert gate.may_concern(grants, Permission.READ, touched.kind)


def test_characters_with_a_meaning_for_the_database_stand_for_themselves_in_a_list() -> None:
    found = gate.instance_patterns([entry(Permission.READ, "/applications/a_%*/*")], Permission.READ)
    assert found is not None
    assert (found.applications, found.instances) == (["a\\_\\%%"], ["%"])


def test_a_list_gets_a_thousand_patterns_for_an_entry_of_a_thousand() -> None:
    objects = [f"/applications/a{number}/*" for number in range(500)]
    places = [f"/environments/e{number}" for number in range(500)]
    found = gate.instance_patterns([entry(Permission.READ, *objects, *places)], Permission.READ)
    assert found is not None
    assert (len(found.applications), len(found.environments), found.whole) == (500, 500, [])


@pytest.mark.parametrize("narrow", ["/applications/*", "/applications/a", "/*/a", "/environments/*"])
def test_the_audit_log_is_for_those_who_may_see_all_of_it(narrow: str) -> None:
    def held(*entries: RoleEntry, scope: tuple[RoleEntry, ...] | None = None) -> bool:
        limit = None if scope is None else RoleGrants("token", scope)
        return gate.holds(Grants((RoleGrants("role", entries),), scope=limit), Permission.VIEW_AUDIT)

    part, whole = entry(Permission.VIEW_AUDIT, narrow), entry(Permission.VIEW_AUDIT, "/*")
    assert not held(part)
    assert held(part, whole)
    assert held(whole, scope=(whole,))
    assert not held(whole, scope=(part,))
    assert not held(part, scope=(whole,))
    for entries in ((part,), (part, whole)):
        decision, sentence = explain(Grants((RoleGrants("role", entries),)), Permission.VIEW_AUDIT, (SHOP,))
        assert decision.allowed == held(*entries)
        assert decision.allowed or "for everything or not at all" in sentence
    assert [gate.is_of_no_use(each) for each in (part, whole, entry(Permission.READ, narrow))] == [True, False, False]


def entry(permission: Permission, *patterns: str) -> RoleEntry:
    return RoleEntry(permission, tuple(Pattern(text) for text in patterns))


def test_entries_come_in_their_order_with_their_patterns() -> None:
    text = """
    # Launch anything, but only in the environment for development.
    - CreateInstance:
      - /applications/*
      - "/environments/5f0c"
    - EditInstance: [/applications/*/instances/*]
    - CreateInstance: []
    """
    assert read_role_text(text) == (
        entry(Permission.CREATE_INSTANCE, "/applications/*", "/environments/5f0c"),
        entry(Permission.EDIT_INSTANCE, "/applications/*/instances/*"),
        entry(Permission.CREATE_INSTANCE),
    )


@pytest.mark.parametrize("text", ["", "   \n", "# nothing\n", "---\n", "[]", "--- []\n...\n", "''"])
def test_a_text_without_entries_grants_nothing(text: str) -> None:
    assert read_role_text(text) == ()


def test_environment_edit_is_another_spelling_of_edit_environment() -> None:
    assert read_role_text("- EnvironmentEdit: [/environments/*]") == (
        entry(Permission.EDIT_ENVIRONMENT, "/environments/*"),
    )


def test_the_texts_of_the_built_in_roles_say_what_those_roles_allow() -> None:
    assert read_role_text(ADMINISTRATOR_TEXT) == ALL_GRANTS
    assert read_role_text(GUEST_TEXT) == (entry(Permission.READ, "/*"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- Fly: [/applications/*]", "Line 1, column 3: 'Fly' is not a permission. Permissions: Read, "),
        ("- createInstance: []", "Line 1, column 3: 'createInstance' is not a permission"),
        (
            "- Read: []\n- EditInstance:\n    - applications/*",
            "Line 3, column 7: the resource path pattern 'applications/\\*' must",
        ),
        ("- Read: [/a, /b//c]", "Line 1, column 14: .* empty segment"),
        ("- Read: [/a\n", "Line 1, column 12: "),
        ("- Read: [/a]\n  x", "Line 2, column 4: "),
        ("Read: [/a]", "Line 1, column 1: a role is a list"),
        ("Read", "Line 1, column 1: a role is a list"),
        ("- Read", "Line 1, column 3: an entry is a permission name"),
        ("- [Read]", "Line 1, column 3: an entry is a permission name"),
        ("- Read: /a", "Line 1, column 9: 'Read' needs a list"),
        ("- Read:", "Line 1, column 8: 'Read' needs a list"),
        ("- Read: [[/a]]", "Line 1, column 10: a resource path pattern must be a string"),
        ("- Read: [{/a: 1}]", "Line 1, column 10: a resource path pattern must be a string"),
        ("- ? [Read]\n  : [/a]", "Line 1, column 5: expected a permission name"),
        ("- Read: [/a]\n  Read: [/b]", "Line 2, column 3: duplicate permission 'Read'"),
        ("- Read: &x [/a]", "Line 1, column 9: anchors"),
        ("- Read: [/a]\n- *x", "Line 2, column 3: anchors"),
        ("- Read: [!!python/name:os.system /a]", "Line 1, column 10: tags"),
        ("--- []\n--- []", "Line 2, column 1: a role is one YAML document"),
        ("- Read: [/a]\n- Ed\x07it: []", "Line 2, column 5: this character"),
        ("- Read: [/a]\n- \ud800: []", "Line 2, column 3: half of a surrogate"),
        ("- Read: [/a]\n\t- Read: []", "Line 2, column 1: "),
    ],
)
def test_what_is_wrong_is_refused_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message) as caught:
        read_role_text(text)
    assert caught.value.code == "InvalidRole"


def test_all_errors_in_meaning_are_told_at_once() -> None:
    with pytest.raises(BadRequest) as caught:
        read_role_text("- Fly: []\n- Swim: [x]")
    assert [sentence[:17] for sentence in caught.value.messages] == [
        "Line 1, column 3:",
        "Line 2, column 3:",
        "Line 2, column 10",
    ]


def test_a_hundred_errors_are_counted_not_listed() -> None:
    with pytest.raises(BadRequest) as caught:
        read_role_text("- Fly: []\n" * 100)
    assert len(caught.value.messages) == 21
    assert caught.value.messages[-1] == "There are 80 more errors like these."


def test_a_text_beyond_its_bounds_is_refused() -> None:
    with pytest.raises(BadRequest, match="at most 65536 bytes"):
        read_role_text("#" * (ROLE_TEXT_BYTES + 1))
    with pytest.raises(BadRequest, match="at most 1000 patterns"):
        read_role_text("- Read: [" + "/a," * (ROLE_PATTERNS + 1) + "]")


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "{" * 60_000, "- " * 30_000, "? " * 30_000, "- Read: [" + "{a: " * 10_000]
)
def test_a_document_made_to_nest_is_refused_quickly(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(BadRequest, match="Line 1, column"):
        read_role_text(text)
    assert time.process_time() - begin < 5


@given(st.text(max_size=60) | st.text(alphabet="-: []{}\n'\"/*&!?Readx|>%#,", max_size=60))
def test_any_text_is_either_read_or_refused_cleanly(text: str) -> None:
    try:
        entries = read_role_text(text)
    except BadRequest as error:
        first = error.messages[0]
    else:
        first = "Line 0"
        assert all(isinstance(found, RoleEntry) for found in entries)
    assert first.startswith("Line ")


@pytest.mark.parametrize(
    ("entries", "scope", "within"),
    [
        (["Read: [/applications/*]"], ["Read: [/*]"], True),
        (["Read: [/*]"], ["Read: [/applications/*]"], False),
        (["Read: [/applications/a*]"], ["Read: [/applications/*]"], True),
        (["Read: [/applications/ab*]"], ["Read: [/applications/a*]"], True),
        (["Read: [/applications/a*]"], ["Read: [/applications/ab*]"], False),
        (["Read: [/applications/*/instances/x]"], ["Read: [/applications/*]"], True),
        (["Read: [/applications/*]"], ["Read: [/applications/*/instances/*]"], False),
        (["Read: [/*s/a]"], ["Read: [/applications/a]"], False),
        (["Read: [/applications/a]"], ["EditApplication: [/*]"], False),
        (["Read: [/roles/a]", "Read: [/users/b]"], ["Read: [/roles/*]", "Read: [/users/*]"], True),
        # A kind that the scope limits must stay limited.
        (["CreateInstance: [/applications/*]"], ["CreateInstance: [/applications/*, /environments/dev]"], False),
        (
            ["CreateInstance: [/applications/a, /environments/dev]"],
            ["CreateInstance: [/applications/*, /environments/dev]"],
            True,
        ),
        (["CreateInstance: [/applications/*]"], ["CreateInstance: [/*]"], True),
        (["CreateInstance: [/applications/*, /environments/dev]"], ["CreateInstance: [/applications/*]"], False),
        ([], ["Read: [/*]"], True),
    ],
)
def test_entries_are_within_a_scope_that_allows_all_that_they_do(
    entries: list[str], scope: list[str], within: bool
) -> None:
    texts = ("".join(f"- {entry}\n" for entry in each) for each in (entries, scope))
    assert gate.is_within(*map(read_role_text, texts)) is within


_SEGMENTS = st.sampled_from(["applications", "environments", "*", "a", "ab", "a*", "*b", "instances"])
_PATTERNS = st.lists(_SEGMENTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
_ENTRIES = st.lists(
    st.lists(_PATTERNS, min_size=1, max_size=3).map(lambda texts: f"- Read: [{', '.join(texts)}]\n"),
    min_size=1,
    max_size=2,
).map("".join)
_PATHS = st.sampled_from(["a", "b", "ab", "aab"])
_RESOURCES = st.one_of(
    st.builds(permissions.application, _PATHS),
    st.builds(permissions.instance, _PATHS, _PATHS),
    st.builds(permissions.environment, _PATHS),
)


@given(_ENTRIES, _ENTRIES, st.lists(_RESOURCES, min_size=1, max_size=3))
def test_what_is_within_a_scope_never_allows_more_than_it(entries: str, scope: str, touched: list[Resource]) -> None:
    one, other = read_role_text(entries), read_role_text(scope)
    if gate.is_within(one, other) and _allows(one, touched):
        assert _allows(other, touched)


_MANY = st.lists(
    st.lists(_PATTERNS, min_size=1, max_size=12).map(lambda texts: f"- Read: [{', '.join(texts)}]\n"),
    min_size=1,
    max_size=14,
).map("".join)


@given(_MANY, _MANY)
def test_what_is_beyond_a_long_role_is_the_same_as_compared_one_by_one(entries: str, known: str) -> None:
    one, other = read_role_text(entries), read_role_text(known)
    parts = dict.fromkeys(part for entry in one for part in gate.split_entry(entry))
    held = [part for entry in other for part in (entry, *gate.split_entry(entry))]
    assert gate.entries_beyond(one, other) == [
        part for part in parts if not any(gate.is_within((part,), (each,)) for each in held)
    ]


@pytest.mark.parametrize("in_one_entry", [True, False])
def test_comparing_roles_of_twice_the_size_takes_twice_as_long(
    in_one_entry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    includes = Pattern.includes

    def counted(self: Pattern, other: Pattern) -> bool:
        nonlocal count
        count += 1
        return includes(self, other)

    monkeypatch.setattr(Pattern, "includes", counted)

    def compared(size: int) -> int:
        nonlocal count
        count = 0
        roles = [
            tuple(Pattern(f"/applications/{kind}{number}/instances/{kind}") for number in range(size)) for kind in "ab"
        ]
        one, other = (
            [RoleEntry(Permission.READ, role)]
            if in_one_entry
            else [RoleEntry(Permission.READ, (each,)) for each in role]
            for role in roles
        )
        assert len(gate.entries_beyond(one, other)) == size
        assert len(gate.beyond(Grants((RoleGrants("role", tuple(other)),)), one)) == size
        return count

    assert compared(600) <= 2.2 * compared(300) + 100


def _allows(entries: tuple[RoleEntry, ...], touched: list[Resource]) -> bool:
    grants = Grants((RoleGrants("role", entries),))
    return gate.decide(grants, Permission.READ, tuple(touched)).allowed


@given(_ENTRIES, _ENTRIES, st.lists(_RESOURCES, min_size=1, max_size=3))
def test_a_scope_and_the_roles_allow_what_both_allow(role: str, scope: str, touched: list[Resource]) -> None:
    one, other = read_role_text(role), read_role_text(scope)
    grants = Grants((RoleGrants("role", one),), scope=RoleGrants("token", other))
    decision, reason = gate.explain(grants, Permission.READ, tuple(touched))
    assert decision.allowed is (_allows(one, touched) and _allows(other, touched))
    assert decision == gate.decide(grants, Permission.READ, tuple(touched))
    assert _allows(other, touched) or "'token'" in reason
    assert gate.holds(grants, Permission.READ)
    assert not gate.holds(grants, Permission.EDIT_APPLICATION)


def test_of_hundreds_of_patterns_the_same_one_decides_as_in_their_order() -> None:
    chance = random.Random(1)
    names = ["a", "b", "c", "*", "a*"]

    def some_pattern() -> str:
        kind = chance.choice(["applications", "environments", "*", "app*"])
        path = f"/{kind}/{chance.choice(names)}"
        return path + (f"/instances/{chance.choice(names)}" if chance.random() < 0.5 else "")

    def some_entry() -> RoleEntry:
        patterns = (parse_pattern(some_pattern()) for _ in range(chance.choice([1, 1, 2, 40])))
        return RoleEntry(Permission.READ, tuple(patterns))

    for _ in range(30):
        roles = tuple(
            RoleGrants(f"role {number}", tuple(some_entry() for _ in range(chance.randrange(1, 30))))
            for number in range(3)
        )
        for object_name, part in itertools.product("abcd", "abcd"):
            touched = (permissions.instance(object_name, part), permissions.environment(part))
            expected = next(
                (
                    (role.role, entry, pattern)
                    for role in roles
                    for entry in role.entries
                    for pattern in entry.patterns
                    if pattern.covers(touched[0])
                    and (
                        not any(each.concerns("environments") for each in entry.patterns)
                        or any(each.covers(touched[1]) for each in entry.patterns)
                    )
                ),
                None,
            )
            found = decide(Grants(roles), Permission.READ, touched)
            assert (expected is None) is not found.allowed
            if expected is not None:
                assert (found.role, found.entry, found.pattern) == expected
