"""Clients that change things, in rounds: after each, what they were promised can be compared with what is recorded."""

import asyncio

from tests.support.family_load import Deletions, FamilyLoad
from tests.support.load import History

PAUSE_S = (1.0, 4.0)


class SoakLoad(FamilyLoad):
    """Launches, runs, schedules, reconfigures, destroys and deletes; what a round leaves, the next one destroys.

    So in the long run as many instances go as come, and retention can throw away what is over.
    """

    async def begin_round(self) -> None:
        """Forget what was promised, and take what is left of the rounds before for destroying."""
        self.history, self.deletions, self._stop = History(), Deletions(), asyncio.Event()
        listed = f"applications/{self._top}/instances?status=Running"
        while (answer := await self._try("GET", listed, None)) is None:  # of a server that was just killed
            await asyncio.sleep(PAUSE_S[0])
        self._left = [instance["id"] for instance in answer.json()]

    async def _client(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super()._client())
            tasks.create_task(self._sweep())

    async def _sweep(self) -> None:
        while self._left and not self._stop.is_set():
            instance = self._left.pop()
            if await self._try("POST", f"instances/{instance}/destroy", {}) is None:
                self._left.append(instance)
            await asyncio.sleep(self._chance.uniform(*PAUSE_S))
