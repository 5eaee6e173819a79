"""Prices of machines, and what they cost together."""

import pytest

from launchbay.model.price import Price, price_of, read_prices, sum_of


def test_a_policy_has_a_price_for_each_size() -> None:
    assert read_prices("m1.small=0.05USD,0.5x256m=3EUR") == {
        "m1.small": Price("0.05", "USD"),
        "0.5x256m": Price("3", "EUR"),
    }
    assert read_prices("") == {}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("small", "'small'"),
        ("small=1", "'small=1'"),
        ("small=-1USD", "use prices per hour"),
        ("small=1e9USD", "use prices per hour"),
        ("small=1USD,small=2USD", "two prices"),
        (True, "'True'"),
    ],
)
def test_a_wrong_price_is_named(wrong: object, named: str) -> None:
    with pytest.raises(ValueError, match="pric") as caught:
        read_prices(wrong)
    assert named in str(caught.value)


def test_what_has_no_price_is_unknown_and_never_guessed() -> None:
    assert price_of("small=1USD", "large") == Price()
    assert price_of(None, "small") == Price()
    assert price_of("nonsense of an older version", "small") == Price()


def test_a_sum_is_exact_and_by_currency() -> None:
    cost = sum_of([Price("0.1", "USD"), Price("0.2", "USD"), Price("2", "EUR"), Price()])

    assert (cost.hourly, cost.unknown) == ({"EUR": "2", "USD": "0.3"}, 1)
    assert cost.text() == "2 EUR + 0.3 USD per hour, 1 machine of unknown price"
    assert sum_of([]).text() == ""
