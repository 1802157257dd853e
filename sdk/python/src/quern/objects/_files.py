"""A folder of an fsspec file system, as stores use it."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import shutil
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

try:
    from fsspec.implementations.local import LocalFileSystem
except ImportError as missing:
    raise ImportError("quern.objects needs fsspec: pip install quern[objects]") from missing

FileSystem = Any  # fsspec.AbstractFileSystem, which has no types
AT_ONCE = 8 << 20  # shorter contents are written in one call, others as a stream
UNFINISHED = ".quern-unfinished-"  # begins the name of a local file that is being written
MODIFIED = ("LastModified", "last_modified", "mtime", "updated", "created")  # file systems have no common name for it


class Files:
    """Objects by their keys, below the folder ``root``. It is used from many threads at once."""

    def __init__(self, system: FileSystem, root: str) -> None:
        self._system = system
        self._root = system._strip_protocol(root).rstrip("/")

    def _path(self, key: str) -> str:
        """The path of a key. Producers name the objects that consumers read, so a key must stay below the root."""
        if "\0" in key or "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
            raise ValueError(f"the key {key!r} has an empty part, a part . or .., a backslash or a zero byte, which objects do not have")
        return f"{self._root}/{key}"

    def read(self, key: str) -> BinaryIO:
        """Open an object, or raise ``FileNotFoundError``. The caller closes it."""
        return cast(BinaryIO, self._system.open(self._path(key), "rb"))

    def write(self, key: str, content: BinaryIO, *, replace: bool = True) -> None:
        """Write an object with all that ``content`` gives. If reading it raises, there is no object. Without ``replace``, an existing
        object stays as it is; that is no error."""
        path = self._path(key)
        if not replace and self._exists(path):
            return
        if isinstance(self._system, LocalFileSystem):
            write_local(path, content, replace)
            return
        first = up_to(AT_ONCE, content)
        if len(first) < AT_ONCE:
            self._system.pipe_file(path, first)
            return
        file = self._system.open(path, "wb", autocommit=False)
        try:
            with file:
                file.write(first)
                shutil.copyfileobj(content, file, 1 << 20)
        except BaseException:
            file.discard()
            raise
        file.commit()

    def _exists(self, path: str) -> bool:
        self._system.invalidate_cache(path)  # others write too
        return bool(self._system.exists(path))

    def folders(self, root: str) -> set[str]:
        """The keys of the folders directly below a folder, with a slash at their end."""
        self._system.invalidate_cache()
        try:
            paths = self._system.ls(f"{self._root}/{root}".rstrip("/"), detail=False)
            return {f"{root}{path.rstrip('/').rpartition('/')[2]}/" for path in paths}
        except FileNotFoundError:
            return set()
        finally:
            self._system.invalidate_cache()  # a reader must find what others write from now on

    def is_old(self, folder: str, before: datetime.datetime) -> bool:
        """Report whether everything in a folder was written before that."""
        try:
            found = self._system.find(f"{self._root}/{folder}".rstrip("/"), detail=True)
            return all(self._modified(path, info) < before for path, info in found.items())
        finally:
            self._system.invalidate_cache()

    def _modified(self, path: str, info: Mapping[str, Any]) -> datetime.datetime:
        at = next((info[name] for name in MODIFIED if info.get(name)), None) or self._system.modified(path)
        if isinstance(at, (int, float)):
            return datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
        if isinstance(at, str):
            at = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
        return cast(datetime.datetime, at if at.tzinfo else at.replace(tzinfo=datetime.timezone.utc))

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it. One that is not there is no error."""
        self._system.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            self._system.rm(f"{self._root}/{folder}".rstrip("/"), recursive=True)


def write_local(path: str, content: BinaryIO, replace: bool) -> None:
    """Write a local file, whole or not at all, also when the process is killed. fsspec would write it in place."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    unfinished = os.path.join(folder, UNFINISHED + secrets.token_hex(8))
    try:
        with open(unfinished, "xb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())  # an object is on the disk before the queue has its key
        if replace:
            os.replace(unfinished, path)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)


def up_to(most: int, content: BinaryIO) -> bytes:
    """Read that many bytes, or all if there are fewer."""
    pieces = []
    while most > 0 and (piece := content.read(most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)
