"""Documents of Kubernetes have the values that its own programs read: Helm's reader is that of kubectl."""

from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.kubernetes_client import read_documents
from launchbay.model.scalars import settled
from tests.support.yaml_readers import helm

# What YAML 1.1 and 1.2, or Go and either of them, read differently.
WORDS = """
0400 -0400 +0400 0o400 0O17 00 007 08 09.5 0x1F 0X1F -0x1F +0x1F 0b11 0B11 1_000 1__0 0_7 1_0.5 0x_1F _1 1_ +5
-5 7 0 -0 1e3 1E3 1.e3 .5 5. .5e3 1.10 1.0 1e-3 -1.5 1e400 0x1.8p1 1:30 190:20:30 2001-01-01
2001-01-01T00:00:00Z 12:30 on On ON oN off OFF yes Yes no NO y Y n N true True TRUE tRUE false ~ null Null
NULL nUll = .inf1 .nanx 1.2.3 v1 0xg 0o8 0b2
"""
PLAIN = WORDS.split()
KEYS = ["on", "y", "n", "0400", "1.0", "true", "a"]


def test_the_octal_mode_of_a_volume_is_octal() -> None:
    [document] = read_documents("configMap: { defaultMode: 0400 }\n---\n# nothing\n")
    assert document == {"configMap": {"defaultMode": 256}}
    assert settled(read_documents("a: &x [1e3]\nb: *x\non: 9007199254740993")) == [
        {"a": [1000], "b": [1000], "true": 9007199254740993}
    ]


@pytest.mark.parametrize("text", ["a: 12345678901234567890", "a: .inf", "a: -.INF", "a: .nan"])
def test_a_number_that_kubernetes_would_round_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="line 1: The number"):
        read_documents(text)


@pytest.mark.slow  # Helm starts
def test_values_are_those_that_helm_and_kubectl_read(tmp_path: Path) -> None:
    texts = (
        [f"v: {each}" for each in PLAIN] + [f'v: "{each}"' for each in PLAIN] + [f"v: {{ {key}: 1 }}" for key in KEYS]
    )
    seen = helm(tmp_path)(texts)
    ours: list[Any] = [settled(read_documents(text)[0]) for text in texts]
    wrong = [
        (text, own, other)
        for text, own, other in zip(texts, ours, seen, strict=True)
        if own != other or isinstance(own["v"], bool) is not isinstance(other["v"], bool)
    ]
    assert not wrong
