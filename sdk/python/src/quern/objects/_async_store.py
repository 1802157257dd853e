"""The store for asyncio: file systems block, so they work in threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import datetime
import functools
import io
import shutil
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, BinaryIO, Optional, TypeVar, Union, cast

from .. import types
from .._async_client import AsyncClient
from .._asyncio import AsyncWorker
from .._produce import new_key
from .._values import Chunk
from ._content import Content, reading
from ._files import Files, FileSystem
from ._store import MOST_CHUNKS, check_sees_all, check_submission, contents_of, folders_in, folders_of, output_key, remove_old

AsyncHandler = Callable[[Chunk, BinaryIO], Awaitable[Optional[Content]]]
T = TypeVar("T")

IN_MEMORY = 8 << 20  # of a content that a handler reads; the rest is in a temporary file


class AsyncStore:
    """Like ``Store``, for an ``AsyncClient``. It uploads, downloads and removes objects in ``parallel`` threads of its own."""

    def __init__(self, client: AsyncClient, system: FileSystem, root: str, *, parallel: int = 8) -> None:
        self.client, self.parallel = client, parallel
        self._files = Files(system, root)
        self._pool = concurrent.futures.ThreadPoolExecutor(parallel, "quern-objects")

    async def open(self, key: str) -> BinaryIO:
        """Download an object, such as a chunk's output, and open it for reading bytes. The caller closes it."""
        return await self._run(self._download, key)

    async def submit(
        self,
        contents: Union[Iterable[Content], AsyncIterable[Content]],
        *,
        queue: str = "default",
        key: Optional[str] = None,
        **submission: Any,
    ) -> types.Submission:
        """Like ``Store.submit``."""
        check_submission(submission)
        own = new_key() if key is None else key
        folder = contents_of(queue, own)
        try:
            count = await self._each(self._put, self._named(folder, contents))
            if count == 0:
                raise ValueError("there are no contents; a submission has at least one chunk")
        except BaseException:
            if key is None:
                with contextlib.suppress(OSError):
                    await self._run(self._files.remove, folder)
            raise
        return await self.client.insert(count=count, prefix=folder, queue=queue, key=own, **submission)

    async def _named(self, folder: str, contents: Union[Iterable[Content], AsyncIterable[Content]]) -> AsyncIterator[tuple[str, Content]]:
        count = 0
        async for content in _all(contents):
            if count == MOST_CHUNKS:
                raise ValueError(f"there are more than {MOST_CHUNKS} chunks, the most that a submission has")
            yield f"{folder}{count}", content
            count += 1

    def _put(self, named: tuple[str, Content]) -> None:
        key, content = named
        with reading(content) as file:
            self._files.write(key, file, replace=False)

    def worker(self, **options: Any) -> Callable[[AsyncHandler], AsyncWorker]:
        """Like ``Store.worker``. It downloads the content into memory or a temporary file before it calls the handler, so that reading
        does not delay other handlers."""

        def decorate(handler: AsyncHandler) -> AsyncWorker:
            @functools.wraps(handler)
            async def handle(chunk: Chunk) -> Optional[str]:
                with contextlib.closing(await self._run(self._content, chunk)) as content:
                    output = await handler(chunk, content)
                    return None if output is None else await self._run(self._publish, output_key(chunk), output)

            return self.client.worker(**options)(handle)

        return decorate

    def _content(self, chunk: Chunk) -> BinaryIO:
        return io.BytesIO(chunk.content) if chunk.key is None else self._download(chunk.key)

    def _download(self, key: str) -> BinaryIO:
        with contextlib.closing(self._files.read(key)) as file, contextlib.ExitStack() as undo:
            copy = undo.enter_context(cast(BinaryIO, tempfile.SpooledTemporaryFile(IN_MEMORY)))
            shutil.copyfileobj(file, copy, 256 << 10)
            copy.seek(0)
            undo.pop_all()
        return copy

    def _publish(self, key: str, output: Content) -> str:
        with reading(output) as file:
            self._files.write(key, file)
        return key

    async def remove(self, submission: Union[types.Submission, Mapping[str, Any]]) -> None:
        """Like ``Store.remove``."""
        for folder in folders_of(submission):
            await self._run(self._files.remove, folder)

    async def sweep(self, older_than: datetime.timedelta) -> int:
        """Like ``Store.sweep``."""
        before = datetime.datetime.now(datetime.timezone.utc) - older_than
        unknown = await self._run(folders_in, self._files)
        check_sees_all(await self.client.whoami())
        if unknown:
            async for queue in self.client.list_queues():
                async for submission in self.client.list_submissions(queue["name"], limit=1000):
                    unknown.difference_update(folders_of(submission))
        removed = 0
        for folder in unknown:
            removed += await self._run(remove_old, self._files, folder, before)
        return removed

    def _run(self, do: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, do, *args)

    async def _each(self, do: Callable[[T], None], all: Union[Iterable[T], AsyncIterable[T]]) -> int:
        """Call do for each item, side by side, until one call fails; return the number of items when no call is under way any more."""
        running: set[asyncio.Future[None]] = set()
        count = 0
        try:
            async for one in _all(all):
                running.add(self._run(do, one))
                count += 1
                if len(running) == self.parallel:
                    ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for future in ended:
                        future.result()
            await asyncio.gather(*running)
        finally:
            if running:
                await asyncio.wait(running)
        return count


async def _all(items: Union[Iterable[T], AsyncIterable[T]]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
