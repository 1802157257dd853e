"""Contents of objects."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Union, cast

#: A content of an object: a text, bytes, a path (the file there is read), a file that is open for reading bytes, or pieces, such as a
#: generator makes. Open files and generators are closed.
Content = Union[str, bytes, bytearray, memoryview, "os.PathLike[str]", BinaryIO, Iterable[Union[str, bytes]]]


class Pieces(io.RawIOBase):
    """Pieces as a file to read."""

    def __init__(self, pieces: Iterable[Union[str, bytes]]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece.encode() if isinstance(piece, str) else piece).cast("B")
        n = min(len(into), len(self._rest))
        into[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n

    def close(self) -> None:
        super().close()
        if hasattr(self._pieces, "close"):
            self._pieces.close()


def reader(content: Content) -> BinaryIO:
    """The content as a file to read."""
    if isinstance(content, str):
        return io.BytesIO(content.encode())
    if isinstance(content, (bytes, bytearray, memoryview)):
        return io.BytesIO(content)
    if isinstance(content, os.PathLike):
        return open(content, "rb")
    if hasattr(content, "read"):
        if isinstance(content, io.TextIOBase):
            raise TypeError(f"{content!r} is open for texts; open it for bytes, as with open(path, 'rb')")
        return cast(BinaryIO, content)
    if isinstance(content, Iterable) and not isinstance(content, Mapping):  # whose pieces would be its keys
        return cast(BinaryIO, io.BufferedReader(Pieces(cast("Iterable[Union[str, bytes]]", content))))
    raise TypeError(f"an object is made of a text, bytes, a path, an open file or pieces, not of {type(content).__name__}")


@contextlib.contextmanager
def reading(content: Content) -> Iterator[BinaryIO]:
    """The content as a file to read, which is closed at the end."""
    with contextlib.closing(reader(content)) as file:
        yield file
