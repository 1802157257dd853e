"""The store for programs that block."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import functools
import hashlib
import io
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Optional, Union

from .. import types
from .._client import Client
from .._produce import new_key
from .._threads import Worker
from .._values import Chunk
from ..errors import Error
from ._content import Content, reading
from ._files import Files, FileSystem

Handler = Callable[[Chunk, BinaryIO], Optional[Content]]

CONTENTS, OUTPUTS = "quern/contents/", "quern/outputs/"
ID_BYTES = 16  # of the hash that names a folder of contents
MOST_CHUNKS = 0xFFFFFFFF


class Store:
    """A server, and the folder ``root`` of an fsspec file system with the objects of its submissions: ``bucket`` or ``bucket/prefix`` of
    object storage. If you use :meth:`sweep`, no two servers may share a folder. ``parallel`` is the number of objects to upload at
    once."""

    def __init__(self, client: Client, system: FileSystem, root: str, *, parallel: int = 8) -> None:
        self.client, self.parallel = client, parallel
        self._files = Files(system, root)

    def open(self, key: str) -> BinaryIO:
        """Open an object, such as a chunk's output, for reading bytes. The caller closes it."""
        return self._files.read(key)

    def submit(self, contents: Iterable[Content], *, queue: str = "default", key: Optional[str] = None, **submission: Any) -> types.Submission:
        """Upload one object per chunk, and insert when all are there. The other arguments are those of :meth:`Client.insert`.

        ``key`` is the idempotency key; by default it is random. You can repeat a call that was interrupted with its key: it keeps the
        uploaded objects, uploads the rest, and inserts one submission. This works for a day, as long as the server remembers the key.
        Two calls with one key at the same time must upload the same objects, because fsspec cannot write only if an object is absent.
        If an upload fails and the key was random, it removes the uploaded objects. After a failed insert they stay, because the server
        may have inserted the submission; :meth:`sweep` removes them if it has not.
        """
        check_submission(submission)
        own = new_key() if key is None else key
        folder = contents_of(queue, own)
        try:
            count = self._upload(folder, contents)
        except BaseException:
            if key is None:
                with contextlib.suppress(OSError):
                    self._files.remove(folder)
            raise
        return self.client.insert(count=count, prefix=folder, queue=queue, key=own, **submission)

    def _upload(self, folder: str, contents: Iterable[Content]) -> int:
        count = 0
        with self._group() as start:
            for content in contents:
                if count == MOST_CHUNKS:
                    raise ValueError(f"there are more than {MOST_CHUNKS} chunks, the most that a submission has")
                start(self._put, f"{folder}{count}", content)
                count += 1
        if count == 0:
            raise ValueError("there are no contents; a submission has at least one chunk")
        return count

    def _put(self, key: str, content: Content) -> None:
        """Upload an object. One that is there is not replaced: consumers may be reading it."""
        with reading(content) as file:
            self._files.write(key, file, replace=False)

    def worker(self, **options: Any) -> Callable[[Handler], Worker]:
        """Make a function the handler of a worker. It takes the arguments of :meth:`Client.worker`.

        The handler gets the chunk and its content, open for reading. If a chunk has no key, it reads the content of the reservation in
        the same way. Its result becomes an object, whose key is the chunk's output: a text, bytes, a path, an open file, or an
        iterable of parts of the content, such as a handler with ``yield`` gives. With ``None`` the chunk has no output. If the object
        cannot be opened, the attempt fails. Each attempt writes an object of its own, so a consumer that lost its chunk cannot replace
        the output that counts.
        """

        def decorate(handler: Handler) -> Worker:
            @functools.wraps(handler)
            def handle(chunk: Chunk) -> Optional[str]:
                with self._content(chunk) as content:
                    return self._publish(chunk, handler(chunk, content))

            return self.client.worker(**options)(handle)

        return decorate

    def _content(self, chunk: Chunk) -> contextlib.closing[BinaryIO]:
        return contextlib.closing(io.BytesIO(chunk.content) if chunk.key is None else self._files.read(chunk.key))

    def _publish(self, chunk: Chunk, output: Optional[Content]) -> Optional[str]:
        if output is None:
            return None
        key = output_key(chunk)
        with reading(output) as file:
            self._files.write(key, file)
        return key

    def remove(self, submission: Union[types.Submission, Mapping[str, Any]]) -> None:
        """Remove the objects of one submission: the contents that :meth:`submit` uploaded, and all outputs. Attempts that still run fail,
        and so do the submission's dead letters in other queues, which have only the key."""
        for folder in folders_of(submission):
            self._files.remove(folder)

    def sweep(self, older_than: datetime.timedelta) -> int:
        """Remove the objects of submissions that the server does not have: those whose retention is over, that went with their queue, or
        that were never inserted. It removes a submission's objects when the last of them is older than the given time, which must be
        longer than any :meth:`submit` takes: a day is usual. It asks for all submissions of all queues, so its access token must see
        them all. Return the number of removed folders."""
        before = datetime.datetime.now(datetime.timezone.utc) - older_than
        # Folders first, submissions second: this sees a submission that is inserted meanwhile.
        unknown = folders_in(self._files)
        check_sees_all(self.client.whoami())
        for queue in self.client.list_queues() if unknown else ():
            for submission in self.client.list_submissions(queue["name"], limit=1000):
                unknown.difference_update(folders_of(submission))
        return sum(remove_old(self._files, folder, before) for folder in unknown)

    @contextlib.contextmanager
    def _group(self) -> Iterator[Callable[..., None]]:
        """Run functions side by side, a bounded number, until one fails; that is raised when all have ended."""
        slots = threading.Semaphore(self.parallel)
        running: set[concurrent.futures.Future[None]] = set()
        with concurrent.futures.ThreadPoolExecutor(self.parallel, "quern-objects") as pool:

            def start(do: Callable[..., None], *args: Any) -> None:
                slots.acquire()
                for ended in [one for one in running if one.done()]:
                    running.discard(ended)
                    ended.result()
                one = pool.submit(do, *args)
                running.add(one)
                one.add_done_callback(lambda _: slots.release())

            yield start
        for one in running:
            one.result()


def check_submission(submission: Mapping[str, Any]) -> None:
    """Refuse arguments that name chunks: the chunks are the uploaded contents."""
    for name in ("chunks", "count", "prefix", "template"):
        if name in submission:
            raise TypeError(f"submit has no argument {name}: the chunks are what is uploaded")


def contents_of(queue: str, key: str) -> str:
    """The folder of a submission's contents. Its name comes from the key, because the insert names the folder before there is an id. A
    second call with the key also finds the objects of the first."""
    return CONTENTS + hashlib.sha256(f"{queue}\0{key}".encode()).hexdigest()[: 2 * ID_BYTES] + "/"


def output_key(chunk: Chunk) -> str:
    """A key for the output of this try."""
    return f"{OUTPUTS}{chunk.submission}/{chunk.index}-{secrets.token_hex(13)}"


def folders_of(submission: Union[types.Submission, Mapping[str, Any]]) -> Iterator[str]:
    """The folders with the objects of a submission."""
    yield f"{OUTPUTS}{submission['id']}/"
    prefix = submission.get("prefix") or ""
    if (folder := folder_of(prefix)) == prefix and folder:
        yield folder


def folder_of(key: str) -> str:
    """The folder of a submission that a key is below; "" if no store made it."""
    for root in (CONTENTS, OUTPUTS):
        name, whole, _ = key.removeprefix(root).partition("/")
        if not key.startswith(root) or not whole or not name:
            continue
        if root == OUTPUTS or len(name) == 2 * ID_BYTES and all(c in "0123456789abcdef" for c in name):
            return f"{root}{name}/"
    return ""


def folders_in(files: Files) -> set[str]:
    """The folders that stores made. Others are left alone."""
    return {folder for root in (CONTENTS, OUTPUTS) for folder in files.folders(root) if folder_of(folder)}


def remove_old(files: Files, folder: str, before: datetime.datetime) -> bool:
    """Remove a folder if nothing was written to it since then, and report whether it was removed."""
    if old := files.is_old(folder, before):
        files.remove(folder)
    return old


def check_sees_all(who: Mapping[str, Any]) -> None:
    """With a token that sees only some submissions, a sweep would remove the objects of the others."""
    if who.get("queues") or who.get("meta"):
        raise Error(f"nothing was removed: the access token {who.get('name')!r} sees only some submissions; use one without a restriction")
