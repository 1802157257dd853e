"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union

from . import _jobs, _produce, types
from ._asyncio import AsyncHandler, AsyncWorker, AsyncWorkers, Stream, Transport
from ._calls import AsyncCalls, _request
from ._core import DEFAULT_RETRIES, DEFAULT_TIMEOUT, Call, Core, Event, EventReader, Topic, further, path, query, read_object
from ._ends import SILENCE, End, Follower
from ._held import Held
from ._http import Request, Trust
from ._shared import Shared
from ._values import Chunk, Data, Output, from_wire, to_wire
from ._wait import Waiting
from ._worker import WorkerOptions
from .errors import Conflict, Error, NotFound, refusal

AsyncJobFunction = TypeVar("AsyncJobFunction", bound=Callable[[Any, Chunk], Awaitable[Union[str, bytes, None]]])


class AsyncClient(AsyncCalls):
    """A connection to a Quern server for asyncio. It belongs to one event loop. The arguments are those of :class:`quern.Client`."""

    def __init__(
        self,
        *addresses: str,
        token: str = "",
        retries: int = DEFAULT_RETRIES,
        timeout: float = DEFAULT_TIMEOUT,
        ca_file: str = "",
        fingerprint: str = "",
        certificate: Optional[tuple[str, str]] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        trace: Optional[Callable[[], str]] = None,
        on_call: Optional[Callable[[Call], None]] = None,
        direct: bool = False,
    ) -> None:
        self._core = Core(addresses, token, retries, timeout, None, trace, on_call, direct)
        if any(endpoint.secure for endpoint in self._core.addresses.given):
            self._core.trust = Trust.of(ssl_context, ca_file, fingerprint, certificate)
        self._transport = Transport(self._core)
        self._shared = Shared(self._core, self._transport.waiter)
        self._jobs: dict[str, _jobs.Job] = {}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections. The client still works afterwards, with new connections."""
        await self._transport.close()

    async def ensure_queue(self, queue: str, settings: Optional[types.QueueSettingsInput] = None) -> types.Queue:
        """Create a queue with these settings; settings that you leave out get their default. If the queue exists, it stays as it is.
        Return the queue. Every process that needs a queue may call this at its start."""
        request = _request("ensure queue", "PUT", path("/v1/queues/{}", queue), {"settings": settings or {}}, headers={"If-None-Match": "*"}, safe=True)
        try:
            made: types.Queue = await self._fetch(request)
            return made
        except Conflict as refused:
            if refused.code != "precondition_failed":
                raise
        return await self.get_queue(queue)

    async def insert(
        self,
        chunks: Optional[Iterable[Data]] = None,
        *,
        queue: str = "default",
        count: Optional[int] = None,
        prefix: Optional[str] = None,
        template: Optional[str] = None,
        meta: Optional[Mapping[str, Union[str, int]]] = None,
        priority: Optional[int] = None,
        attachment: Optional[Data] = None,
        operations_per_chunk: Optional[int] = None,
        run_at: Optional[datetime.datetime] = None,
        dead_deadline: Optional[datetime.datetime] = None,
        max_attempts: Optional[int] = None,
        on_exhausted: Optional[str] = None,
        retry_backoff: Optional[Mapping[str, Any]] = None,
        max_failed_chunks: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        group: Optional[str] = None,
        unique: Optional[Union[str, Mapping[str, str]]] = None,
        after: Optional[Union[str, Sequence[str], Mapping[str, Any]]] = None,
        key: Optional[str] = None,
        trace: Optional[str] = None,
    ) -> types.Submission:
        """Insert a submission, and return it; see :meth:`quern.Client.insert`."""
        submission = _produce.fields(
            meta=meta, priority=priority, attachment=attachment, operations_per_chunk=operations_per_chunk, run_at=run_at,
            dead_deadline=dead_deadline, max_attempts=max_attempts, on_exhausted=on_exhausted, max_failed_chunks=max_failed_chunks, group=group,
            timeout_ms=timeout_ms, retry_backoff=retry_backoff, unique=unique, after=after,
        )  # fmt: skip
        submission["chunks"] = _produce.work(chunks, count, prefix, template)
        found: types.Submission = await self._transport.run(self._shared.insert(_produce.insert(queue, submission, key, trace)))
        return found

    async def insert_many(self, submissions: Sequence[Mapping[str, Any]]) -> list[Union[types.Submission, Error]]:
        """Insert many submissions, up to 1,000 in one call; see :meth:`quern.Client.insert_many`."""
        found: list[Any] = [None] * len(submissions)
        for batch in _produce.batches(submissions):
            try:
                for place, one in batch.results(await self._fetch(batch.request, "results")):
                    found[place] = one
            except Error as error:
                for place in batch.places:
                    found[place] = error
        return found

    async def insert_stream(
        self,
        chunks: Union[AsyncIterable[Data], Iterable[Data]],
        *,
        queue: str = "default",
        key: Optional[str] = None,
        trace: Optional[str] = None,
        **submission: Any,
    ) -> types.Submission:
        """Insert a submission whose chunks come one by one; see :meth:`quern.Client.insert_stream`."""
        chunks = _produce.each_of(chunks)
        request = _produce.insert(queue, {}, key, trace, streamed=True)
        self._core.join(request)
        head = _produce.line(_produce.fields(**submission))

        async def pieces() -> AsyncIterator[bytes]:
            buffer = bytearray(head)
            async for chunk in _each(chunks):
                buffer += _produce.line(to_wire(chunk))
                if len(buffer) >= 32 << 10:
                    yield bytes(buffer)
                    buffer.clear()
            if buffer:
                yield bytes(buffer)

        endpoint = self._core.addresses.of(request)
        try:
            reply = await self._transport.call(request, endpoint, pieces=pieces())
            self._core.addresses.heard(request, endpoint, reply)
            if reply.status >= 300:
                raise refusal(reply.status, reply.body, reply.retry_after)
        except Error as error:
            self._core.addresses.leave(request, endpoint, error)
            raise
        found: types.Submission = read_object("insert", reply.body)
        return found

    async def wait(self, submission: _produce.Submission, timeout: Optional[float] = None) -> types.Submission:
        """Wait until a submission has ended, and return it. Raise ``TimeoutError`` after ``timeout`` seconds."""
        found: types.Submission = await self._transport.run(self._core.wait(_produce.submission_id(submission), timeout))
        return found

    async def wait_many(
        self, submissions: Iterable[_produce.Submission], timeout: Optional[float] = None
    ) -> AsyncIterator[tuple[str, Union[types.Submission, NotFound]]]:
        """Yield the submissions, of any queues, as they end, each with its id; see :meth:`quern.Client.wait_many`."""
        waiting = Waiting(self._core, submissions, timeout)
        while waiting.left:
            for one in await self._transport.run(waiting.ended()):
                yield one

    async def outputs(self, submission: _produce.Submission) -> AsyncIterator[Output]:
        """Yield the outputs of a submission's chunks in the order of their indexes; see :meth:`quern.Client.outputs`."""
        request = Request("outputs", "GET", path("/v1/submissions/{}/outputs", _produce.submission_id(submission)), safe=True)
        stream: Stream = await self._transport.run(self._core.stream(request))
        async with contextlib.aclosing(stream.lines(self._core.timeout)) as lines:
            async for line in lines:
                found = read_object("outputs", line)
                yield Output(found["index"], from_wire(found["output"]))

    async def outputs_of(
        self,
        queue: str = "default",
        *,
        meta: Optional[Mapping[str, Union[str, int]]] = None,
        state: Optional[Sequence[str]] = None,
        schedule: Optional[str] = None,
        created_before: Optional[str] = None,
        created_after: Optional[str] = None,
    ) -> AsyncIterator[Output]:
        """Yield the outputs of many submissions of a queue; see :meth:`quern.Client.outputs_of`."""
        found = self.list_queue_outputs(
            queue, meta=meta, state=state, schedule=schedule, created_before=created_before, created_after=created_after, limit=_produce.OUTPUTS_PAGE
        )
        async for item in found:
            yield Output(item["index"], from_wire(item["output"]), item["submission"])

    async def events(self, queue: Optional[str] = None, *, topics: Sequence[Topic] = (), last_event_id: str = "") -> AsyncIterator[Event]:
        """Yield events of the server; see :meth:`quern.Client.events`."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_event_id} if last_event_id else {})}
        request = Request("events", "GET", query("/v1/events", {"queue": queue, "topics": topics}), headers=headers, safe=True)
        stream: Stream = await self._transport.run(self._core.stream(request))
        reader = EventReader()
        try:
            while data := await stream.read(None):
                for event in reader.feed(data):
                    yield event
        finally:
            stream.close()

    async def ends(
        self,
        queue: str = "default",
        *,
        after: str = "",
        state: Optional[Sequence[str]] = None,
        meta: Optional[Mapping[str, Union[str, int]]] = None,
        schedule: Optional[str] = None,
    ) -> AsyncIterator[End]:
        """Yield the ends of a queue's submissions as they come; see :meth:`quern.Client.ends`."""
        follower = Follower(self._core, queue, after, state, meta, schedule)
        while True:
            error: Optional[Error] = None
            try:
                stream: Stream = await self._transport.run(self._core.stream(follower.request()))
                try:
                    while data := await stream.read(SILENCE):
                        for end in follower.feed(data):
                            yield end
                finally:
                    stream.close()
            except Error as fault:
                error = fault
            await asyncio.sleep(follower.pause(error))

    def worker(
        self,
        *,
        queue: str = "default",
        strategy: Union[str, Mapping[str, Any], None] = None,
        consumer: str = "",
        context: Optional[Mapping[str, Union[str, int]]] = None,
        concurrency: int = 1,
        prefetch: Optional[int] = None,
        timeout: float = 60.0,
        wait: float = 20.0,
        grace: Optional[float] = None,
        attach: bool = True,
        on_error: Optional[Callable[[Error], None]] = None,
    ) -> Callable[[AsyncHandler], AsyncWorker]:
        """Make an async function the handler of a worker; see :meth:`quern.Client.worker`. When the server no longer counts the result of
        a handler, the client cancels it: its next ``await`` raises ``asyncio.CancelledError``."""
        options = WorkerOptions(queue, strategy, consumer, context or {}, concurrency, prefetch, timeout, wait, grace, attach, on_error)
        return lambda handler: AsyncWorker(self._transport, options, handler)

    def job(
        self, name: str, *, concurrency: int = 0, timeout: Optional[float] = None, retry: Optional[_jobs.Retry] = None
    ) -> Callable[[AsyncJobFunction], AsyncJobFunction]:
        """Make an async function the handler of a kind of work; see :meth:`quern.Client.job`. After its ``timeout`` the client cancels
        it."""

        def decorate(function: AsyncJobFunction) -> AsyncJobFunction:
            if name in self._jobs:
                raise ValueError(f"the kind {name} has two handlers")
            if not inspect.iscoroutinefunction(function):
                raise TypeError("the handler of an AsyncClient's job is an async function; a Client's job takes others")
            self._jobs[name] = _jobs.Job(name, function, concurrency, timeout, retry)
            return function  # type: ignore[return-value]  # iscoroutinefunction has narrowed it

        return decorate

    def job_worker(
        self,
        *,
        middleware: Sequence[Callable[[AsyncHandler], AsyncHandler]] = (),
        on_failure: Optional[Callable[[Chunk, BaseException], Awaitable[None]]] = None,
        on_dead: Optional[Callable[[Chunk, BaseException], Awaitable[None]]] = None,
        **options: Any,
    ) -> AsyncWorkers:
        """Return a worker for all kinds that have a handler by now; see :meth:`quern.Client.job_worker`. Middleware and hooks are async
        functions."""

        async def failed(held: Held) -> None:
            assert held.error is not None  # it is a failure
            if on_failure is not None:
                await on_failure(held.chunk, held.error)
            if on_dead is not None and await self._transport.run(_jobs.is_dead(self._core, held)):
                await on_dead(held.chunk, held.error)

        hook = None if on_failure is None and on_dead is None else failed
        plans = _jobs.plans(self._jobs, WorkerOptions(**options))
        return AsyncWorkers([AsyncWorker(self._transport, own, _jobs.async_dispatch(jobs, middleware), hook) for own, jobs in plans])

    async def _fetch(self, request: Request, *lists: str) -> Any:
        return await self._transport.run(self._core.fetch(request, *lists))

    async def _bytes(self, request: Request) -> bytes:
        return (await self._transport.run(self._core.call(request))).body

    async def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> AsyncIterator[Any]:
        cursor: Optional[str] = None
        while True:
            page = await self._fetch(Request(what, "GET", query(target, {**values, "cursor": cursor}), safe=True), "items")
            for item in page["items"]:
                yield item
            if not (cursor := further(what, cursor, page)):
                return


async def _each(chunks: Union[AsyncIterable[Data], Iterable[Data]]) -> AsyncIterator[Data]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield chunk
    else:
        for chunk in chunks:
            yield chunk
