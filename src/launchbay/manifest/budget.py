"""What one evaluation of expressions may cost: time, memory, and the size of its value.

Everything is charged before it is done. Costs are nanoseconds and bytes on an ordinary machine: the table is
`FUNCTIONS` in `formulas.py`, which `tests/manifest/test_costs.py` compares with the processor.
"""

from launchbay import limits
from launchbay.errors import ExpressionError

ITEM_NS = 1_000  # to read, compare or copy one value
ITEM_BYTES = 80  # of one value that is made
CHAR_NS = 0.3  # to copy or compare a character


class TooExpensive(Exception):
    """A first, short attempt would take too long: the evaluation belongs into another process."""


class EvaluationBudget:
    """Counts the work of one evaluation, and refuses what goes beyond its bounds.

    With `is_trial` it refuses by TooExpensive, otherwise by ExpressionError. `expression` is the one that was evaluated
    last, as written.
    """

    __slots__ = ("_bytes_max", "_chars", "_items", "_ns", "_ns_max", "expression", "is_trial")

    def __init__(
        self,
        ns: float = limits.EXPRESSION_NS,
        memory_bytes: int = limits.EXPRESSION_MEMORY_BYTES,
        *,
        is_trial: bool = False,
    ) -> None:
        self._ns_max = ns
        self._bytes_max = memory_bytes
        self.is_trial = is_trial
        self.expression = ""
        self._items = 0
        self._chars = 0
        self._ns = 0.0

    @property
    def spent_ns(self) -> float:
        """Return what was charged, in nanoseconds."""
        return self._ns

    def items(self, count: int) -> None:
        """Charge values that are read or copied. Raises `ExpressionError`."""
        self._items += count
        self._ns += count * ITEM_NS
        if self._items > limits.EXPRESSION_WORK_ITEMS:
            raise ExpressionError(
                f"The expressions read more than {limits.EXPRESSION_WORK_ITEMS} values. Use less data."
            )
        if self._ns > self._ns_max:
            self._refuse_time()

    def chars(self, count: int) -> None:
        """Charge characters of resulting strings. Raises `ExpressionError`."""
        self._chars += count
        if self._chars > limits.EXPRESSION_TOTAL_CHARS:
            raise ExpressionError(
                f"The expressions produce more than {limits.EXPRESSION_TOTAL_CHARS} characters. Use less data."
            )

    def charge(self, ns: float, memory_bytes: float = 0) -> None:
        """Charge the next operation.

        Its memory comes in addition to that of the values and strings so far.

        Raises `ExpressionError`.
        """
        self._ns += ns
        if memory_bytes + self._items * ITEM_BYTES + self._chars > self._bytes_max:
            if self.is_trial:
                raise TooExpensive
            raise ExpressionError(
                f"The expressions need more than {self._bytes_max // limits.MIB} MiB of memory. Use less data."
            )
        if self._ns > self._ns_max:
            self._refuse_time()

    def _refuse_time(self) -> None:
        if self.is_trial:
            raise TooExpensive
        raise ExpressionError(
            f"The expressions would compute for more than {self._ns_max / 1e9:g} s. Use less data or simpler patterns."
        )
