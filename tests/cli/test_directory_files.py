"""Files of a directory that are refused before anything changes, with their place."""

import pytest

from launchbay.directory.contents import FileTree, read_directory
from launchbay.errors import BadRequest

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
        ("schedules/x.yaml", "cron: [1]\napplication: a\n", "schedules/x.yaml:1:7: Expected `str`"),
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
