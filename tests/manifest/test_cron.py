import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.manifest.cron import check_cron


@pytest.mark.parametrize(
    "text",
    ["0 0 12 * * ?", "0 15 10 ? * 6#3", "0 0/5 14,18 * * ?", "0 0 0 L-3 * ? 2030", "0 0 0 15W * ?", "0 0 0 LW * ?",
     "0 0 12 1/5 * ?", "0 10,44 14 ? 3 wed", "0 0 4 ? * MON-FRI", "0 0 4 ? * 6L", "*/10 * * * * *", "0 0 0 1 JAN ? *"],
)  # fmt: skip
def test_quartz_expressions_are_accepted(text: str) -> None:
    assert check_cron(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("* * * * *", "5 fields"),
        ("", "0 fields"),
        ("0 0 0 * * ? 2030 x", "8 fields"),
        ("61 * * * * *", "second '61'"),
        ("0 60 * * * ?", "minute '60'"),
        ("0 0 24 * * ?", "hour '24'"),
        ("0 0 0 32 * ?", "day of month '32'"),
        ("0 0 0 1 13 ?", "month '13'"),
        ("0 0 0 ? * 8", "day of week '8'"),
        ("0 0 0 1 * ? 99999", "year '99999'"),
        ("0 */0 0 * * ?", "minute '*/0'"),
        ("0 , 0 * * ?", "minute ''"),
        ("0 *-5 0 * * ?", "minute '*-5'"),
        ("? 0 0 * * ?", "second '?'"),
    ],
)
def test_a_wrong_expression_is_refused_with_the_field_that_is_wrong(text: str, problem: str) -> None:
    assert problem in str(check_cron(text))


@given(st.text(max_size=300))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    assert check_cron(text) is None or check_cron(text)
