"""What a campaign found, written down where `LAUNCHBAY_EVIDENCE` says."""

import json
import os
from collections.abc import Mapping
from pathlib import Path


def keep_evidence(name: str, about: Mapping[str, object]) -> None:
    """Add a line of JSON to `NAME.jsonl`, unless no evidence is collected."""
    if directory := os.environ.get("LAUNCHBAY_EVIDENCE"):
        # One line in one write, as campaigns may run at the same time.
        with (Path(directory) / f"{name}.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(about) + "\n")
