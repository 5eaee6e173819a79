"""Progress that is told from where nothing can be awaited, such as between two lines of a program's output."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from launchbay.actions.contract import StepContext

_EVERY_S = 0.5


class Reports:
    """Hands the newest figure to the step, twice a second at most, while its block runs."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._newest = self._told = 0
        self._teller: asyncio.Task[None] | None = None

    def progress(self, percent: int) -> None:
        """Note a figure; a lower one than before counts for nothing."""
        self._newest = max(self._newest, percent)

    async def __aenter__(self) -> Self:
        self._teller = asyncio.create_task(self._tell())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._teller is not None, "it was entered"
        self._teller.cancel()
        with suppress(asyncio.CancelledError):
            await self._teller

    async def _tell(self) -> None:
        while True:
            if self._newest > self._told:
                self._told = self._newest
                await self._context.progress(self._told)
            await asyncio.sleep(_EVERY_S)
