"""The stream in which an engine hands over what a command writes: frames of a header of 8 bytes and its data. Pure."""

from launchbay.machines.shell import Taker

_HEADER = 8
_STDERR = 2


class Frames:
    """Takes the stream in pieces of any size and hands the data of its frames over as it comes."""

    def __init__(self, stdout: Taker, stderr: Taker) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._header = bytearray()
        self._left = 0
        self._taker = stdout

    def take(self, data: bytes) -> None:
        """Take a piece of the stream."""
        place = 0
        while place < len(data):
            if self._left == 0:
                wanted = _HEADER - len(self._header)
                self._header += data[place : place + wanted]
                place += wanted
                if len(self._header) < _HEADER:
                    return
                self._taker = self._stderr if self._header[0] == _STDERR else self._stdout
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()
            else:
                part = data[place : place + self._left]
                place += len(part)
                self._left -= len(part)
                self._taker(part)
