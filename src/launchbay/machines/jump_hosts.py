"""Connections to jump hosts, which all connections through them share.

    async with jump_hosts.through(context, [JumpHost(address="bastion.example")]) as tunnel:
        ...  # connect to a host behind it, with `tunnel`

A connection lives as long as somebody uses it. One that breaks breaks all connections through it; the first user that
comes again opens the next one, and the others join. A jump host behind another one is reached in the same way.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import asyncssh

from launchbay import limits
from launchbay.concurrency import shielded
from launchbay.egress.addresses import ALLOW_POLICY
from launchbay.machines.contract import ProviderContext, ProviderDeps, ShellLost
from launchbay.machines.ssh_connection import PINNED_POLICY, SshHost, connect
from launchbay.model.machine import JumpHost

_Way: TypeAlias = tuple[asyncssh.SSHClientConnection, ...]  # to each jump host, the first one first
_Open: TypeAlias = Callable[[], AbstractAsyncContextManager[_Way]]


class _Shared:
    """A connection, after those that it goes through, with its users.

    It closes when the last user leaves.
    """

    def __init__(self, open_way: _Open) -> None:
        self.users = 0
        self.ready: asyncio.Future[_Way] = asyncio.get_running_loop().create_future()
        self._unused = asyncio.Event()
        # A task of its own, because a user that is cancelled must not close it for the others.
        self._task = asyncio.create_task(self._hold(open_way))

    @property
    def has_room(self) -> bool:
        """Whether one more user may join: it isn't closed, and not full."""
        if self.users >= limits.JUMP_TUNNELS:
            return False
        if not self.ready.done():
            return True
        failed = self.ready.cancelled() or self.ready.exception() is not None
        return not failed and not self.ready.result()[-1].is_closed()

    def leave(self) -> None:
        self.users -= 1
        if not self.users:
            self._unused.set()
            if not self.ready.done():
                self._task.cancel()

    async def _hold(self, open_way: _Open) -> None:
        try:
            async with open_way() as way:
                self.ready.set_result(way)
                await self._unused.wait()
        except BaseException as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
            self.ready.exception()  # nobody may be left to ask for it


class JumpHosts:
    """One object serves all instances."""

    def __init__(self, deps: ProviderDeps) -> None:
        self._deps = deps
        self._shared: dict[tuple[str, ...], list[_Shared]] = {}

    @asynccontextmanager
    async def through(
        self, context: ProviderContext, jump: Sequence[JumpHost]
    ) -> AsyncIterator[asyncssh.SSHClientConnection | None]:
        """Give the connection to the last of the jump hosts; None without any.

        Raises as `ssh_connection.connect` does, and ShellLost if the connection was lost in the block.
        """
        async with self._way(context, jump) as way:
            yield way[-1] if way else None

    @asynccontextmanager
    async def _way(self, context: ProviderContext, jump: Sequence[JumpHost]) -> AsyncIterator[_Way]:
        if not jump:
            yield ()
            return
        key = await self._key(context, jump)
        shared = self._joined(key, lambda: self._opened(context, jump))
        try:
            way = await shielded(shared.ready)
            try:
                yield way
            except ShellLost as error:
                for host, connection in zip(SshHost.of_jump(jump), way, strict=True):
                    if connection.is_closed():
                        raise ShellLost(f"{host.title} closed the connection") from error
                raise
        finally:
            shared.leave()
            self._shared[key] = [each for each in self._shared[key] if each.users]
            if not self._shared[key]:
                del self._shared[key]

    def _joined(self, key: tuple[str, ...], open_way: _Open) -> _Shared:
        known = self._shared.setdefault(key, [])
        shared = next((each for each in known if each.has_room), None)
        if shared is None:
            shared = _Shared(open_way)
            known.append(shared)
        shared.users += 1
        return shared

    @asynccontextmanager
    async def _opened(self, context: ProviderContext, jump: Sequence[JumpHost]) -> AsyncIterator[_Way]:
        async with self._way(context, jump[:-1]) as before:
            tunnel = before[-1] if before else None
            async with connect(self._deps, context, SshHost.of_jump(jump)[-1], tunnel) as connection:
                yield (*before, connection)

    async def _key(self, context: ProviderContext, jump: Sequence[JumpHost]) -> tuple[str, ...]:
        """Return what users must have in common.

        This is the environment with its rules, the way, and each key. Whoever lost the right to a key finds no
        connection that was opened with it.
        """
        parts = [context.organization_id, context.environment_id]
        parts += [str(context.policies.get(name)) for name in (ALLOW_POLICY, PINNED_POLICY)]
        for host in SshHost.of_jump(jump):
            key = await self._deps.keys.login_key(context, host.key_name, host.login)
            parts += [host.login, host.place, hashlib.sha256(key.private.encode()).hexdigest()]
        return tuple(parts)
