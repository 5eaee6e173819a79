"""Files of a directory that are refused before anything changes, with their place."""

import pytest

from launchbay.errors import BadRequest, NotAllowed
from launchbay.features.directories.comparison import CREATE, Listed, ObjectChange, State
from launchbay.features.directories.files import FileTree, Source, read_directory

FINE = {
    "roles/Developer.yaml": "- Read: [/*]\n",
    "environments/lab.yaml": (
        "policies: { provisionVms.hardwareId: m1.small, machines.jump: me@gate.example.org }\n"
        "properties: [{ name: size, type: int, value: 10 }, { name: version, type: string, value: '1.10' }]\n"
    ),
    "schedules/nightly.yaml": "cron: 0 2 * * *\nzone: Europe/Berlin\napplication: shop\n",
}


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("schedules/x.yaml", "application: a\ncron: 61 * * * *\n", "schedules/x.yaml:2:7: cron: Invalid schedule"),
        ("schedules/x.yaml", "cron: 0 1 * * *\nzone: Mars\napplication: a\n", "schedules/x.yaml:2:7: zone: Unknown"),
        (
            "schedules/x.yaml",
            "cron: [1]\napplication: a\n",
            "schedules/x.yaml:1:7: cron: expected a string, got a list.",
        ),
        ("schedules/x.yaml", "bulk: { act: run }\n", "schedules/x.yaml:1:1: cron: this field is required."),
        (
            "schedules/x.yaml",
            "cron: 0 1 * * *\nbulk:\n  act: run\n  select:\n    owner: true\n",
            "schedules/x.yaml:5:12: owner must be a string. Put it in quotes.",
        ),
        (
            "schedules/x.yaml",
            "cron: 0 1 * * *\nbulk:\n  act: walk\n",
            "schedules/x.yaml:3:8: bulk.act: invalid value 'walk'; expected destroy, extend, label, reconfigure, ",
        ),
        (
            "schedules/x.yaml",
            "cron: 0 1 * * *\nbulk:\n  act: label\n  labels:\n    a.b: x\n    c.d: [1]\n",
            "schedules/x.yaml:6:10: bulk.labels.c.d: expected a string or null, got a list.",
        ),
        (
            "schedules/x.yaml",
            "cron: 0 1 * * *\napplication: a\nlaunch:\n  parameters:\n    x: 81e3421\n",
            "schedules/x.yaml:5:8: launch: The number 81e3421 exceeds the range of a double.",
        ),
        (
            "git-sources/x.yaml",
            "account: a\nurl: https://x.example\napplies: sometimes\n",
            "git-sources/x.yaml:3:10: applies: invalid value 'sometimes'; expected after-approval, at-once or",
        ),
        (
            "git-sources/x.yaml",
            "account: a\nurl: u\nhostKeys: [a, no, true]\n",
            "git-sources/x.yaml:3:19: hostKeys must",
        ),
        ("git-sources/x.yaml", "account: a\nurl: u\nintervalMs: 1.5\n", "git-sources/x.yaml:3:13: intervalMs must be"),
        (
            "service-accounts/x.yaml",
            "enabled: 1\n",
            "service-accounts/x.yaml:1:10: enabled: expected true or false, got a",
        ),
        ("service-accounts/x.yaml", "tokens: []\n", "service-accounts/x.yaml:1:9: tokens: unknown field; remove it."),
        ("users/ann@x.example.yaml", "roles: [a]\n", "users/ann@x.example.yaml:1:1: name: this field is required."),
        (
            "services/x.yaml",
            "type: t\nparameters:\n  a: 1\n  b: { fromVault: true }\n",
            "services/x.yaml:4:6: b: fromVault must be a string",
        ),
        ("services/x.yaml", "type: t\nparameters:\n  a: 0x1F\n", "services/x.yaml:3:6: JSON has no number 0x1F."),
        ("services/x.yaml", "- type: t\n", "services/x.yaml:1:1: expected an object, got a list."),
        (
            "environments/x.yaml",
            "labels: { a.b: x, c.d: [] }\n",
            "environments/x.yaml:1:24: labels.c.d: expected a string, ",
        ),
        ("environments/x.yaml", "labels: { a.b: x, c.d: '?' }\n", "environments/x.yaml:1:24: "),
        (
            "environments/x.yaml",
            "properties: [{ name: a, type: int }]\n",
            "environments/x.yaml:1:14: properties[0].value: this",
        ),
        (
            "environments/x.yaml",
            "properties: [{ name: a, type: object, value: 81e3421 }]\n",
            "environments/x.yaml:1:46: The number 81e3421 exceeds the range of a double.",
        ),
        (
            "environments/x.yaml",
            "rules:\n  lifetime:\n    mail: true\n    idleMs: 5\n",
            "environments/x.yaml:4:13: idleMs is 5; give an hour or more",
        ),
        (
            "environments/x.yaml",
            "rules:\n  lifetime: { idleMs: x }\n",
            "environments/x.yaml:2:23: lifetime: idleMs: expected a whole number or null, got a string.",
        ),
        (
            "environments/x.yaml",
            (
                "rules:\n  sleep:\n    windows:\n"
                "    - { sleepAt: '2:00', wakeAt: '7:00' }\n    - wakeAt: '7:60'\n      sleepAt: '1:00'\n"
            ),
            "environments/x.yaml:5:15: wakeAt: '7:60' isn't a time of day.",
        ),
        (
            "environments/x.yaml",
            "rules:\n  sleep:\n    windows: [{ sleepAt: '20:00', wakesAt: '7:00' }]\n",
            "environments/x.yaml:3:44: sleep: windows: unknown field 'wakesAt'.",
        ),
        (
            "environments/x.yaml",
            "rules:\n  changes: |\n    - name: a\n      when: $.kin == 1\n      deny: No.\n",
            "environments/x.yaml:2:12: changes: Line 2 and column 9: a: There is no fact 'kin'.",
        ),
        (
            "environments/x.yaml",
            "rules:\n  audiences: [two words]\n",
            "environments/x.yaml:2:14: audiences: 'audience' must have 1 to 200 printable ASCII characters",
        ),
        (
            "promotion.yaml",
            "stages:\n- environment: a\n- enviroment: b\n",
            "promotion.yaml:3:15: stages[1].enviroment: unknown field",
        ),
        ("promotion.yaml", "", "promotion.yaml: stages: this field is required."),
        (
            "promotion.yaml",
            "stages:\n- environment: a\n- environment: 1.10\n  soak: -1\n",
            "promotion.yaml:4:9: stages[1].soak: expected a whole number >= 0.",
        ),
        (
            "applications/x/promotion.yaml",
            "stages: [{ environment: a }, { environment: a }]\n",
            "applications/x/promotion.yaml:1:45: environment: the environment is in the order already; name it once.",
        ),
        (
            "applications/x/promotion.yaml",
            "stages: [{ environment: a, approvals: 1 }]\n",
            "applications/x/promotion.yaml:1:10: nothing is promoted to the first environment, so it has no gates.",
        ),
        (
            "applications/x/rules.yaml",
            "audiences: [vault]\n",
            "applications/x/rules.yaml:1:12: audiences: only environments have them.",
        ),
        (
            "environments/x.yaml",
            "rules:\n  concurrency:\n  - 2\n  - { key: environment, limit: 0 }\n",
            "environments/x.yaml:4:5: concurrency: 'limit' must be a whole number from 1",
        ),
        (
            "applications/x/rules.yaml",
            "sleep: { whenBusy: 5 }\n",
            "applications/x/rules.yaml:1:20: sleep: whenBusy: expected",
        ),
        (
            "applications/x/labels.yaml",
            "a.b: x\nc.d: true\n",
            "applications/x/labels.yaml:2:6: c.d: expected a string, got ",
        ),
        (
            "applications/x/source.yaml",
            "url: [a]\n",
            "applications/x/source.yaml:1:6: url: expected a string, got a list.",
        ),
        (
            "applications/x/revisions/r/revision.yaml",
            "parameters:\n  in.a: 1\n  in.b: [1, .5]\n",
            "applications/x/revisions/r/revision.yaml:3:9: JSON has no number .5.",
        ),
        (
            "applications/x/revisions/r/revision.yaml",
            "environment: [5]\n",
            "applications/x/revisions/r/revision.yaml:1:14: environment: expected a string or null, got a list.",
        ),
        (
            "schedules/x.yaml",
            "cron: 0 1 * * *\napplication: a\nlaunch: { parametrs: {} }\n",
            "schedules/x.yaml:3:22: launch: unknown field 'parametrs'. Did you mean parameters?",
        ),
        ("environments/x.yaml", "policies:\n  a.b: [1]\n", "environments/x.yaml:2:8: Policy 'a.b' must be"),
        ("environments/x.yaml", "policies:\n  outgoing.allow: '///'\n", "environments/x.yaml:2:19: "),
        (
            "environments/x.yaml",
            "properties:\n- { name: size, type: int, value: 1.10 }\n",
            "environments/x.yaml:2:35: The value of property 'size' doesn't match its type.",
        ),
        ("environments/x.yaml", "markers: [a, a]\n", "environments/x.yaml:1:10: Duplicate marker 'a'."),
        ("roles/x.yaml", "- Read: [/*]\n- Reed: [/*]\n", "roles/x.yaml:2:3: "),
        ("users/ann.yaml", "name: Ann\n", "Invalid email address 'ann'."),
    ],
)
def test_files_that_the_server_would_refuse_are_refused_with_their_place(path: str, text: str, said: str) -> None:
    files = {name: text.encode() for name, text in FINE.items()}
    assert read_directory(FileTree.of(files)).roles == {"Developer": FINE["roles/Developer.yaml"]}
    with pytest.raises(BadRequest) as caught:
        read_directory(FileTree.of({**files, path: text.encode()}))
    (message,) = caught.value.messages
    assert said in message


def test_names_are_the_texts_that_files_have() -> None:
    files = {
        "environments/x.yaml": b"markers: [1.10, 1e3]\nservices: [1.0]\n"
        b"properties: [{ name: 1.10, type: int, value: 1 }]\n",
        "applications/a/revisions/r/revision.yaml": b"environment: 1.10\n",
        "applications/b/source.yaml": b"url: 1.10\n",
    }
    contents = read_directory(FileTree.of(files))
    environment = (contents.environments or {})["x"]
    assert (environment.markers, environment.services) == (["1.10", "1e3"], ["1.0"])
    assert [each.name for each in environment.properties or ()] == ["1.10"]
    applications = contents.applications or {}
    assert (applications["a"].revisions or {})["r"].content.environment == "1.10"
    assert applications["b"].source == Source("1.10")


class _OneEnvironment:
    """An organization with an environment that nobody may use."""

    number = "6565a1f0c0ffee1234567890"

    def list_environments(self) -> list[Listed]:
        return [Listed(self.number, "lab")]

    def use(self) -> None:
        raise NotAllowed(f"You need the permission Read for /environments/{self.number}.", "Ask somebody.")


def test_a_change_that_is_refused_names_objects_as_files_do() -> None:
    organization = _OneEnvironment()
    state = State(organization)  # type: ignore[arg-type] # of the methods, these are used
    assert set(state.environments) == {"lab"}
    with pytest.raises(NotAllowed) as caught:
        ObjectChange(CREATE, "revision a/r", organization.use, named=state.named).make()
    assert caught.value.messages == ("You need the permission Read for /environments/lab.", "Ask somebody.")
    assert str(caught.value) == "You need the permission Read for /environments/lab. Ask somebody."
