"""Keeps what a campaign showed: one JSON file each in LAUNCHBAY_EVIDENCE, if that names a directory."""

import json
import os
import time
from pathlib import Path

from tests.durability.campaign import Campaign


def keep(kind: str, campaign: Campaign, **more: float) -> None:
    """Print the figures of a campaign of this kind, and write them down where evidence is collected.

    `more` is what is special about this kind, by names with their units.
    """
    special = "".join(f"; {name} {value:.4g}" for name, value in more.items())
    print(f"\n{kind}: {campaign.figures}{special}; {len(campaign.broken)} promises broken")
    directory = os.environ.get("LAUNCHBAY_EVIDENCE")
    if not directory:
        return
    recoveries = campaign.recoveries
    about = {
        "kind": kind,
        "seed": campaign.seed,
        "kills": len(campaign.kills),
        "recoveries": len(recoveries.times_s),
        "hit_again": recoveries.hit_again,
        "p50_s": recoveries.share_s(0.5),
        "p99_s": recoveries.share_s(0.99),
        "most_s": recoveries.share_s(1.0),
        "violations": campaign.broken,
        "figures": campaign.figures,
        **more,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    path = Path(directory) / f"{kind.replace(' ', '-')}-{campaign.seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about, indent=1) + "\n", "utf-8")
