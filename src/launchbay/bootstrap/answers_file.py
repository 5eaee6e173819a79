"""Reads the file of the setting `dry_run_answers` (docs/reference/dry-run.md)."""

from pathlib import Path

from launchbay.errors import CannotStart, InvalidManifest
from launchbay.machines.dry_run import Answers, read_answers
from launchbay.manifest.reader import read
from launchbay.manifest.tree import expect_mapping
from launchbay.model.findings import Findings

_KEY = "answers"


def read_answers_file(path: str) -> Answers:
    """Return the answers in the file, none without a path. Raises CannotStart with the place of what is wrong."""
    if not path:
        return Answers()
    findings = Findings()
    try:
        document = expect_mapping(read(Path(path).read_bytes()), "The document")
        for key in document.children:
            if key != _KEY:
                message = f"The key {key[:80]!r} is unknown; only '{_KEY}' stands here."
                findings.error("UnknownKey", message, document.place_of(key))
        answers = read_answers(document.get(_KEY), findings)
        findings.raise_errors()
    except OSError as error:
        raise CannotStart(
            f"LAUNCHBAY_DRY_RUN_ANSWERS: the file {path} cannot be read: {error.strerror}.",
            "Correct the path, or leave the setting out.",
            code="UnreadableAnswers",
        ) from error
    except InvalidManifest as error:
        sentences = (f"{path}: {sentence.replace('manifest', 'document')}" for sentence in error.sentences)
        raise CannotStart(*sentences, code="InvalidAnswers") from None
    return answers
