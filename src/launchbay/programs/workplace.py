"""A private directory for one run of a program: made for it, gone after it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def workplace() -> AsyncIterator[Path]:
    """Give a directory that nobody but the server's account can enter, and remove it with all that is in it.

    When the server dies meanwhile, the guard of the program that runs in it does that.
    """
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="launchbay-"))  # mode 0700
    try:
        yield directory
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))


def write_private(file: Path, text: str) -> None:
    """Write a file that only the server's account can read, making the directories around it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(text, "utf-8")
