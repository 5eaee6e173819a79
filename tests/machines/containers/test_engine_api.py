"""The stream of a command's output arrives whole, however it is cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from launchbay.machines.containers.engine_api import Frames
from launchbay.machines.contract import OnData


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=30)), max_size=8),
    st.lists(st.integers(min_value=0, max_value=300), max_size=12),
)
def test_any_cut_of_the_stream_gives_the_same_output(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(bytes((kind, 0, 0, 0)) + len(data).to_bytes(4, "big") + data for kind, data in frames)
    written: dict[int, bytes] = {1: b"", 2: b""}

    def taker(kind: int) -> OnData:
        def take(data: bytes) -> None:
            written[kind] += data

        return take

    reader = Frames(taker(1), taker(2))
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for begin, end in itertools.pairwise(places):
        reader.feed(stream[begin:end])
    for kind in (1, 2):
        assert written[kind] == b"".join(data for each, data in frames if each == kind)
