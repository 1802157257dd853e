"""The client for asyncio, and its connections, effects and workers."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import datetime
import hashlib
import inspect
import signal
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union

from . import _produce, types
from ._calls import AsyncCalls
from ._core import DEFAULT_RETRIES, DEFAULT_TIMEOUT, Call, Core, Effect, Event, EventReader, Open, Pause, Procedure, Read, Tell, Try, path
from ._core import query, read_json, set_trace_context, trace_context
from ._http import AnswerReader, Endpoint, Reply, Request, Trust, piece
from ._threads import CONNECT_SECONDS, IDLE_SECONDS, MAX_IDLE, READ_BYTES, report
from ._values import Chunk, Data, Output, from_wire, to_wire
from ._worker import Exchange, Held, Poll, WorkerCore, WorkerOptions
from .errors import Error, HandlerFailed, NoAnswer, NotTrusted, TimedOut, refusal

T = TypeVar("T")
AsyncHandler = Callable[[Chunk], Awaitable[Union[str, bytes, None]]]


class Connection:
    """One connection, used by one call at a time."""

    def __init__(self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.endpoint, self.reader, self.writer = endpoint, reader, writer
        self.used = False
        self.since = 0.0  # unused since then

    @staticmethod
    async def open(endpoint: Endpoint, core: Core) -> Connection:
        context = core.trust.context if endpoint.secure and core.trust else None
        try:
            opening = asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host if context else None, limit=READ_BYTES)
            reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
        except ssl.SSLCertVerificationError as fault:
            raise NotTrusted(f"the server at {endpoint.authority} is not trusted: {fault}") from None
        except (OSError, asyncio.TimeoutError) as fault:
            raise NoAnswer(f"no server answers at {endpoint.host}:{endpoint.port}: {fault}") from None
        connection = Connection(endpoint, reader, writer)
        if context is not None and core.trust is not None and core.trust.fingerprint:
            certificate = writer.get_extra_info("ssl_object").getpeercert(True) or b""
            if hashlib.sha256(certificate).hexdigest() != core.trust.fingerprint:
                connection.close()
                raise NotTrusted(f"the certificate of the server at {endpoint.authority} is not the one of the fingerprint")
        return connection

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self, reader: AnswerReader, until: Optional[float]) -> None:
        """Read once, and give it to the reader."""
        late = False

        def expire() -> None:
            nonlocal late
            late = True
            self.writer.transport.abort()

        timer = None if until is None else asyncio.get_running_loop().call_later(max(until - time.monotonic(), 0.0), expire)
        try:
            data = await self.reader.read(READ_BYTES)
        except OSError as fault:
            raise NoAnswer(f"no answer: {fault}") from None
        finally:
            if timer is not None:
                timer.cancel()
        if late:
            raise TimedOut("no answer in time")
        reader.feed(data)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the loop may be closed
            self.writer.close()


class Transport:
    """Carries out effects, over connections that it keeps."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._idle: dict[Endpoint, list[Connection]] = {}

    async def run(self, procedure: Procedure[T], tell: Optional[Callable[[Any], None]] = None) -> T:
        """Run a procedure to its end."""
        result: Any = None
        error: Optional[BaseException] = None
        try:
            while True:
                effect = procedure.send(result) if error is None else procedure.throw(error)
                result, error = None, None
                try:
                    result = await self._do(effect, tell)
                except Exception as fault:
                    error = fault
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            procedure.close()

    async def _do(self, effect: Effect, tell: Optional[Callable[[Any], None]]) -> Any:
        if isinstance(effect, Try):
            return await self.call(effect.request, effect.endpoint)
        if isinstance(effect, Pause):
            await asyncio.sleep(effect.seconds)
            return True
        if isinstance(effect, Open):
            return await self.open(effect.request, effect.endpoint)
        if isinstance(effect, Read):
            return await effect.stream.read(effect.timeout)
        if isinstance(effect, Tell) and tell is not None:
            tell(effect.news)
        return None

    async def call(self, request: Request, endpoint: Endpoint, pieces: Optional[AsyncIterable[bytes]] = None) -> Reply:
        """Make one try of a call. A kept connection may have been closed by the server in the meantime, which shows only when it is used:
        such a call is made again on the next one, at the latest on a new one, when it may be made twice."""
        head = request.encode(endpoint, self.core.token)
        while True:
            connection = await self._take(endpoint)
            reader = AnswerReader()
            try:
                await self._converse(connection, request, head, reader, pieces)
            except NoAnswer as fault:
                connection.close()
                if request.safe and connection.used and not reader.started and not isinstance(fault, TimedOut):
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            assert reader.reply is not None  # the reader is done
            reader.reply.body = reader.take()
            if reader.keep:
                self._give(connection)
            else:
                connection.close()
            return reader.reply

    async def _converse(
        self, connection: Connection, request: Request, head: bytes, reader: AnswerReader, pieces: Optional[AsyncIterable[bytes]]
    ) -> None:
        until = time.monotonic() + request.limit(self.core.timeout)
        try:
            if pieces is None:
                connection.writer.write(head)  # reading finds out what became of it
            else:
                await connection.send(head)
                async for data in pieces:
                    await connection.send(piece(data))
                await connection.send(piece(b""))
        except OSError as fault:  # a server may answer before it has read all, such as a body over the limit
            reader.keep = False
            with contextlib.suppress(NoAnswer):
                while not reader.done:
                    await connection.receive(reader, until)
                return
            raise NoAnswer(f"the request could not be sent: {fault}") from None
        while not reader.done:
            await connection.receive(reader, until)

    async def open(self, request: Request, endpoint: Endpoint) -> tuple[Reply, Optional[Stream]]:
        """Make a call whose answer is read as it comes, on a connection of its own."""
        connection = await Connection.open(endpoint, self.core)
        reader = AnswerReader()
        try:
            connection.writer.write(request.encode(endpoint, self.core.token))
            until = time.monotonic() + self.core.timeout
            while reader.reply is None or reader.reply.status != 200 and not reader.done:
                await connection.receive(reader, until)
            if reader.reply.status == 200:
                return reader.reply, Stream(connection, reader)
            reader.reply.body = reader.take()
        except BaseException:
            connection.close()
            raise
        connection.close()
        return reader.reply, None

    async def _take(self, endpoint: Endpoint) -> Connection:
        idle = self._idle.get(endpoint, [])
        while idle:
            connection = idle.pop()
            if time.monotonic() - connection.since < IDLE_SECONDS and not connection.reader.at_eof():
                return connection
            connection.close()
        return await Connection.open(endpoint, self.core)

    def _give(self, connection: Connection) -> None:
        connection.used, connection.since = True, time.monotonic()
        idle = self._idle.setdefault(connection.endpoint, [])
        if len(idle) < MAX_IDLE:
            idle.append(connection)
        else:
            connection.close()

    async def close(self) -> None:
        """Close the connections that are not in use."""
        for idle in self._idle.values():
            while idle:
                connection = idle.pop()
                connection.close()
                with contextlib.suppress(OSError, ssl.SSLError):
                    await connection.writer.wait_closed()


class Stream:
    """The body of an answer, as it comes."""

    def __init__(self, connection: Connection, reader: AnswerReader) -> None:
        self._connection, self._reader = connection, reader

    async def read(self, timeout: Optional[float]) -> bytes:
        """Some bytes, or none at the end."""
        while True:
            if data := self._reader.take():
                return data
            if self._reader.done:
                return b""
            await self._connection.receive(self._reader, None if timeout is None else time.monotonic() + timeout)

    async def lines(self, timeout: float) -> AsyncGenerator[bytes, None]:
        """The lines of the body. One that breaks off, or says nothing for the timeout, raises :class:`NoAnswer`."""
        rest = b""
        try:
            while data := await self.read(timeout):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    if line:
                        yield line
            if rest:
                yield rest
        finally:
            self.close()

    def close(self) -> None:
        self._connection.close()


class AsyncWorker:
    """Does the work of a queue in tasks; made by ``AsyncClient.worker``.

    ``run`` works until SIGTERM, SIGINT or ``stop``. As an asynchronous context manager it works beside the block until its end. Both end
    in order: handlers finish, what none has begun goes back, results are reported, the server is told. A handler whose work does not
    count any more is cancelled.
    """

    def __init__(self, transport: Transport, options: WorkerOptions, handler: AsyncHandler) -> None:
        options.check()
        if not inspect.iscoroutinefunction(handler) and not inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004
            raise TypeError("the handler of an AsyncClient's worker is an async function; a Client's worker takes others")
        self.options = options
        self.handler = handler
        self._transport = transport
        self._ready: collections.deque[Held] = collections.deque()
        self._running = 0
        self._news: collections.deque[tuple[Callable[..., None], Any]] = collections.deque()
        self._wake: Optional[asyncio.Event] = None
        self._poll: Optional[asyncio.Task[None]] = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._background: Optional[asyncio.Task[None]] = None
        self._grace_ends: Optional[float] = None

    def __call__(self, chunk: Chunk) -> Awaitable[Union[str, bytes, None]]:
        """The handler itself, for tests of it."""
        return self.handler(chunk)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT (where the loop can hear them), ``stop``, or the cancellation of this call, which all end in order; a
        second cancellation breaks off. A refusal for good is raised after the same drain; servers that are away are waited for."""
        loop = asyncio.get_running_loop()
        heard = []
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread, or Windows
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
                heard.append(number)
        working = asyncio.ensure_future(self._run())
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            self.stop()
            await working
            raise
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """End in order. It does not wait for the end; of other threads call it with ``loop.call_soon_threadsafe``."""
        if self.options.grace is not None and self._grace_ends is None:
            self._grace_ends = time.monotonic() + self.options.grace
        self._tell(lambda _: self._core.drain(), None)

    async def __aenter__(self) -> AsyncWorker:
        self._background = asyncio.ensure_future(self._run())
        await asyncio.sleep(0)  # so that it has begun
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._background is not None  # __aenter__ made it
        self.stop()
        await self._background

    async def _run(self) -> None:
        if self._wake is not None:
            raise RuntimeError("a worker runs once; make another")
        self._wake = asyncio.Event()
        self._core = core = WorkerCore(self._transport.core, self.options, self)
        stream: Optional[asyncio.Task[None]] = None
        if self.options.attach:
            stream = asyncio.ensure_future(self._transport.run(core.attach(), lambda news: self._tell(core.heard, news)))
        try:
            await self._loop(core)
        finally:
            if stream is not None and not core.unknown:
                await self._transport.run(core.detach())
            left = [task for task in (stream, self._poll, *self._tasks) if task is not None]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if (error := core.outcome()) is not None:
            raise error

    async def _loop(self, core: WorkerCore) -> None:
        """Take what happened, and start what has become possible, until all is settled."""
        assert self._wake is not None
        loop = asyncio.get_running_loop()
        quarter = self.options.timeout / 4
        tick = time.monotonic() + quarter
        while True:
            core.start()
            self._begin()
            if core.over:
                return
            now = time.monotonic()
            if not self._news:
                timer = loop.call_later(max(min(tick, self._grace_ends or tick) - now, 0.0), self._wake.set)
                await self._wake.wait()
                timer.cancel()
            self._wake.clear()
            while self._news:
                happened, what = self._news.popleft()
                happened(what)
            now = time.monotonic()
            if now >= tick:
                core.tick()
                tick = now + quarter
            if self._grace_ends is not None and now >= self._grace_ends:
                core.grace_over()
                self._grace_ends = float("inf")

    def _tell(self, happened: Callable[..., None], what: Any) -> None:
        self._news.append((happened, what))
        if self._wake is not None:
            self._wake.set()

    def _begin(self) -> None:
        """Begin with what is ready, as far as there is room."""
        while self._ready and self._running < self.options.concurrency:
            held = self._ready.popleft()
            if held.lost:
                self._tell(self._core.finished, held)
                continue
            self._running += 1
            held.task = asyncio.ensure_future(self._one(held))

    async def _one(self, held: Held) -> None:
        """One handler's task."""
        trace = held.chunk.trace
        if trace or trace_context():
            set_trace_context(trace)
        try:
            held.complete(await self.handler(held.chunk))
            held.back = False  # it was in time after all
        except BaseException as fault:
            if not held.cancelled:
                if isinstance(fault, asyncio.CancelledError):
                    fault = Error("the handler was cancelled by something else than its worker")
                held.fail(fault)
                self._core.failed(HandlerFailed(held.chunk.submission, held.chunk.index, fault))
        self._running -= 1
        self._tell(self._core.finished, held)

    # The Shell of the core.

    def hand_out(self, held: Held) -> None:
        self._ready.append(held)

    def take_back(self) -> list[Held]:
        out = list(self._ready)
        self._ready.clear()
        return out

    def cancel(self, held: Held) -> None:
        if held.task is not None:
            held.task.cancel()

    def exchange(self, call: Exchange) -> None:
        task = self._spawn(self._core.exchange(call), self._core.called, call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def poll(self, poll: Poll) -> None:
        self._poll = self._spawn(self._core.poll(poll), self._core.polled, poll)

    def stop_poll(self) -> None:
        if self._poll is not None:
            self._poll.cancel()

    def _spawn(self, procedure: Procedure[None], happened: Callable[..., None], what: Union[Exchange, Poll]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await self._transport.run(procedure)
            except asyncio.CancelledError:
                what.error = NoAnswer("broken off")
            except Exception as fault:
                what.error = Error(f"the worker cannot go on: {type(fault).__name__}: {fault}")
                what.error.__cause__ = fault
            self._tell(happened, what)

        return asyncio.ensure_future(run())

    def wait(self, held: Held, seconds: float) -> None:
        raise RuntimeError("chunk.sleep blocks: an async handler awaits asyncio.sleep, and is cancelled when its work does not count any more")

    def report(self, error: Error) -> None:
        report(self.options, error)


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
    ) -> None:
        self._core = Core(addresses, token, retries, timeout, None, trace, on_call)
        if any(endpoint.secure for endpoint in self._core.endpoints):
            self._core.trust = Trust.of(ssl_context, ca_file, fingerprint, certificate)
        self._transport = Transport(self._core)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are not in use. Calls after it work, on new ones."""
        await self._transport.close()

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
        max_failed_chunks: Optional[int] = None,
        group: Optional[str] = None,
        key: Optional[str] = None,
        trace: Optional[str] = None,
    ) -> types.Submission:
        """Insert a submission, and return it as it is then; see :meth:`quern.Client.insert`."""
        submission = _produce.fields(
            meta=meta, priority=priority, attachment=attachment, operations_per_chunk=operations_per_chunk, run_at=run_at,
            dead_deadline=dead_deadline, max_attempts=max_attempts, on_exhausted=on_exhausted, max_failed_chunks=max_failed_chunks, group=group,
        )  # fmt: skip
        submission["chunks"] = _produce.work(chunks, count, prefix, template)
        found: types.Submission = await self._fetch(_produce.insert(queue, submission, key, trace))
        return found

    async def insert_many(self, submissions: Sequence[Mapping[str, Any]], *, at_once: int = 16) -> list[Union[types.Submission, Error]]:
        """Insert many submissions, some at a time; see :meth:`quern.Client.insert_many`."""
        room = asyncio.Semaphore(max(at_once, 1))

        async def one(arguments: Mapping[str, Any]) -> Union[types.Submission, Error]:
            async with room:
                try:
                    return await self.insert(**arguments)
                except Error as error:
                    return error

        return list(await asyncio.gather(*(one(arguments) for arguments in submissions)))

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

        reply = await self._transport.call(request, self._core.endpoint, pieces=pieces())
        if reply.status >= 300:
            raise refusal(reply.status, reply.body, reply.retry_after)
        found: types.Submission = read_json("insert", reply.body)
        return found

    async def wait(self, submission: _produce.Submission, timeout: Optional[float] = None) -> types.Submission:
        """Return the submission when it is no longer open. After ``timeout`` seconds ``TimeoutError`` is raised."""
        found: types.Submission = await self._transport.run(self._core.wait(_produce.submission_id(submission), timeout))
        return found

    async def outputs(self, submission: _produce.Submission) -> AsyncIterator[Output]:
        """The outputs of a submission's chunks, in the order of their indexes, as they come; see :meth:`quern.Client.outputs`."""
        request = Request("outputs", "GET", path("/v1/submissions/{}/outputs", _produce.submission_id(submission)))
        stream: Stream = await self._transport.run(self._core.stream(request))
        async with contextlib.aclosing(stream.lines(self._core.timeout)) as lines:
            async for line in lines:
                found = read_json("outputs", line)
                yield Output(found["index"], from_wire(found["output"]))

    async def events(self, queue: Optional[str] = None, *, topics: Optional[str] = None, last_event_id: str = "") -> AsyncIterator[Event]:
        """What happens on the server, as it happens; see :meth:`quern.Client.events`."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_event_id} if last_event_id else {})}
        request = Request("events", "GET", query("/v1/events", {"queue": queue, "topics": topics}), headers=headers)
        stream: Stream = await self._transport.run(self._core.stream(request))
        reader = EventReader()
        try:
            while data := await stream.read(None):
                for event in reader.feed(data):
                    yield event
        finally:
            stream.close()

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
        """Make an async function the handler of a worker; see :meth:`quern.Client.worker`. A handler whose work does not count any more is
        cancelled: its next ``await`` raises ``asyncio.CancelledError``."""
        options = WorkerOptions(queue, strategy, consumer, context or {}, concurrency, prefetch, timeout, wait, grace, attach, on_error)
        return lambda handler: AsyncWorker(self._transport, options, handler)

    async def _fetch(self, request: Request) -> Any:
        return await self._transport.run(self._core.fetch(request))

    async def _bytes(self, request: Request) -> bytes:
        return (await self._transport.run(self._core.call(request))).body

    async def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> AsyncIterator[Any]:
        cursor: Optional[str] = None
        while True:
            page = await self._fetch(Request(what, "GET", query(target, {**values, "cursor": cursor}), safe=True))
            for item in page["items"]:
                yield item
            if not (cursor := page.get("next")):
                return


async def _each(chunks: Union[AsyncIterable[Data], Iterable[Data]]) -> AsyncIterator[Data]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield chunk
    else:
        for chunk in chunks:
            yield chunk
