"""What a step does outside Launchbay, or would do."""

from typing import Any, Literal

import msgspec

from launchbay.model.price import Price

# What stands in place of a value.
AFTER_APPLY = "(known after apply)"
NOT_SHOWN = "(too large to be shown)"
EffectKind = Literal["create", "change", "delete", "run", "unknown"]
Certainty = Literal["exact", "estimated", "unknown"]


ANSWER = "what 'plan' says"  # the note of an effect that is the answer of a step's own plan


class Effect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happens to what `address` names.

    A replacement is a `delete` and a `create` of one address. `before` and `after` are JSON values without secrets.
    `note` says why, or what is special. Machines that are made have a price, which may be unknown.
    """

    kind: EffectKind
    address: str
    before: Any = None
    after: Any = None
    certainty: Certainty = "exact"
    note: str = ""
    price: Price | None = None
