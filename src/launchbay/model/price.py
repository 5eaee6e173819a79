"""Prices of machines, as an environment's policy states them (decision 0239)."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

PRICES_POLICY = "machines.prices"
PRICES_FORM = "prices per hour such as m1.small=0.05USD, separated by commas"
_ENTRY = re.compile(r"([^=,]+)=(\d{1,9}(?:\.\d{1,6})?)([A-Z]{3})")


class Price(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one machine costs per hour, in decimal digits.

    Both are empty if nobody knows.
    """

    hourly: str = ""
    currency: str = ""


class Cost(msgspec.Struct, frozen=True):
    """What machines cost per hour, by currency; `unknown` counts those without a price."""

    hourly: dict[str, str]
    unknown: int

    def text(self) -> str:
        """Return it for people; "" without machines."""
        amounts = [f"{amount} {currency}" for currency, amount in self.hourly.items()]
        known = [f"{' + '.join(amounts)} per hour"] if amounts else []
        machines = "machine" if self.unknown == 1 else "machines"
        return ", ".join([*known, *([f"{self.unknown} {machines} of unknown price"] if self.unknown else [])])


def read_prices(value: Any) -> dict[str, Price]:
    """Return the prices of a policy by size. Raises ValueError with a message."""
    found: dict[str, Price] = {}
    for text in filter(None, str(value or "").split(",")):
        entry = _ENTRY.fullmatch(text)
        if entry is None:
            raise ValueError(f"Invalid price {text[:80]!r}: use {PRICES_FORM}.")
        if entry[1] in found:
            raise ValueError(f"The size {entry[1][:80]!r} has two prices.")
        found[entry[1]] = Price(entry[2], entry[3])
    return found


def price_of(policy: Any, size: str) -> Price:
    """Return the price of a size, which may be unknown.

    A policy that an older version accepted may be invalid: it says nothing.
    """
    try:
        return read_prices(policy).get(size, Price())
    except ValueError:
        return Price()


def sum_of(prices: Iterable[Price]) -> Cost:
    """Return what machines cost together."""
    known: dict[str, Decimal] = {}
    unknown = 0
    for each in prices:
        if each.hourly:
            known[each.currency] = known.get(each.currency, Decimal(0)) + Decimal(each.hourly)
        else:
            unknown += 1
    return Cost({currency: f"{amount:f}" for currency, amount in sorted(known.items())}, unknown)
