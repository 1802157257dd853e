"""A bucket of files."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import pathlib
import secrets
import shutil
from collections.abc import Iterator
from typing import BinaryIO, Union

from ._bucket import Object, plain

ATTRIBUTES = ".attrs"  # beside an object that sdk/objects wrote in Go, its type and sum
UNFINISHED = ".quern-unfinished-"  # begins the name of a file that is being written
MAX_FOLDERS = 10  # tries to make one that others remove


class Files:
    """Objects as files below a folder, which is made when it is not there."""

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self._root = pathlib.Path(folder).resolve()

    def __repr__(self) -> str:
        return f"Files({str(self._root)!r})"

    def _path(self, key: str) -> pathlib.Path:
        path = self._root / plain(key)
        if key.endswith(ATTRIBUTES) or path.name.startswith(UNFINISHED):
            raise ValueError(f"the key {key!r} is a name that the bucket uses itself")
        if not path.resolve().is_relative_to(self._root):
            raise ValueError(f"the key {key!r} leads out of the bucket, by a link")
        return path

    def read(self, key: str) -> BinaryIO:
        return open(self._path(key), "rb")

    def write(self, key: str, content: BinaryIO, *, replace: bool = True) -> None:
        path = self._path(key)
        if not replace and path.exists():
            return
        name, file = self._begin(path)
        try:
            with file:
                shutil.copyfileobj(content, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())  # what the queue is told of is on the disk
            if replace:
                name.replace(path)
            else:
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(name)
        finally:
            name.unlink(missing_ok=True)

    def _begin(self, path: pathlib.Path) -> tuple[pathlib.Path, BinaryIO]:
        """A new file beside the path. A folder that another thread removes, as the last object left it, is made again."""
        name = path.with_name(UNFINISHED + secrets.token_hex(8))
        for attempt in itertools.count():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return name, open(name, "xb")
            except FileNotFoundError:
                if attempt == MAX_FOLDERS:
                    raise
        raise AssertionError("unreachable")

    def list(self, prefix: str) -> Iterator[Object]:
        top = self._root / prefix.rpartition("/")[0]
        for folder, _, names in os.walk(top):
            for name in names:
                path = pathlib.Path(folder, name)
                key = path.relative_to(self._root).as_posix()
                if name.startswith(UNFINISHED) or name.endswith(ATTRIBUTES) or not key.startswith(prefix):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    yield Object(key, datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc))

    def delete(self, key: str) -> None:
        path = self._path(key)
        for name in (path, path.with_name(path.name + ATTRIBUTES)):
            name.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # others are in it, or it is gone
            path.parent.rmdir()

