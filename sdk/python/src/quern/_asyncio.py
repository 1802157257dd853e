"""Connections, effects and workers for programs with asyncio."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import hashlib
import inspect
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from typing import Any, Optional, TypeVar, Union

from ._core import Await, Core, Effect, Open, Pause, Procedure, Read, Tell, Try, set_trace_context, trace_context
from ._held import Held
from ._http import AnswerReader, Endpoint, Reply, Request, piece
from ._threads import CONNECT_SECONDS, IDLE_SECONDS, MAX_IDLE, READ_BYTES, hook_failed, report, signals, sweep, tell_end
from ._values import Chunk
from ._worker import HELLO_SECONDS, Exchange, Poll, WorkerCore, WorkerOptions
from .errors import Error, HandlerFailed, NoAnswer, NotTrusted, TimedOut, no_answer, shown

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
            if endpoint.path:
                reader, writer = await asyncio.wait_for(asyncio.open_unix_connection(endpoint.path, limit=READ_BYTES), CONNECT_SECONDS)
            else:
                opening = asyncio.open_connection(endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host if context else None, limit=READ_BYTES)
                reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
        except ssl.SSLCertVerificationError as fault:
            raise NotTrusted(f"the server at {endpoint.authority} is not trusted: {fault}") from None
        except asyncio.TimeoutError:
            raise NoAnswer(f"no server answers at {endpoint.name}: the connection took more than {CONNECT_SECONDS} s") from None
        except OSError as fault:
            raise no_answer(f"no server answers at {endpoint.name}", fault) from None
        connection = Connection(endpoint, reader, writer)
        if context is not None and core.trust is not None and core.trust.fingerprint:
            certificate = writer.get_extra_info("ssl_object").getpeercert(True) or b""
            if hashlib.sha256(certificate).hexdigest() != core.trust.fingerprint:
                writer.transport.abort()
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
            raise no_answer("no answer", fault) from None
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
        if isinstance(effect, Await):
            await effect.waiter
        if isinstance(effect, Tell) and tell is not None:
            tell(effect.news)
        return None

    @staticmethod
    def waiter() -> tuple[asyncio.Future[None], Callable[[], None]]:
        """A waiter for one caller, and the function that wakes it."""
        future = asyncio.get_running_loop().create_future()
        return future, lambda: None if future.done() else future.set_result(None)

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
                connection.writer.write(head)  # reading finds out whether that worked
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

    async def open(self, request: Request, endpoint: Endpoint) -> Reply:
        """Make a call whose answer is read as it comes, on a connection of its own."""
        connection = await Connection.open(endpoint, self.core)
        reader = AnswerReader()
        try:
            connection.writer.write(request.encode(endpoint, self.core.token))
            until = time.monotonic() + self.core.timeout
            while reader.reply is None or reader.reply.status != 200 and not reader.done:
                await connection.receive(reader, until)
            if reader.reply.status == 200:
                reader.reply.stream = Stream(connection, reader)
                return reader.reply
            reader.reply.body = reader.take()
        except BaseException:
            connection.close()
            raise
        connection.close()
        return reader.reply

    async def _take(self, endpoint: Endpoint) -> Connection:
        idle = self._idle.get(endpoint, [])
        while idle:
            connection = idle.pop()
            if time.monotonic() - connection.since < IDLE_SECONDS and not connection.reader.at_eof():
                return connection
            connection.close()
        sweep(self._idle)
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


R = TypeVar("R", bound="AsyncRunning")


class AsyncRunning:
    """A worker, or several, that works in tasks until it is stopped: alone, or beside a block."""

    options: WorkerOptions
    _background: Optional[asyncio.Task[None]] = None

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT (where the loop can hear them), ``stop``, or the cancellation of this call, which all end in order.
        A second signal has its usual effect, and a cancellation after a signal or another cancellation breaks off. After the same drain it
        raises a refusal for good, or an error about a certificate that is not trusted. It waits for servers that are away; if none ever
        answered, it raises that at the end."""
        loop = asyncio.get_running_loop()

        def end() -> None:  # not by loop.add_signal_handler: a handler that keeps the loop would keep the signal, too
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.stop)

        with signals(end) as told:
            working = asyncio.ensure_future(self._run())
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                self.stop()
                if told:
                    working.cancel()
                await working
                raise

    def stop(self) -> None:
        """End in order. It does not wait for the end; of other threads call it with ``loop.call_soon_threadsafe``."""
        raise NotImplementedError

    async def _run(self) -> None:
        """Work to the end."""
        raise NotImplementedError

    async def __aenter__(self: R) -> R:
        self._background = asyncio.ensure_future(self._run_beside())
        await asyncio.sleep(0)  # so that it has begun
        return self

    async def join(self) -> None:
        """Wait, in the block that it works beside, until it has ended by itself: after an operator's drain, or an error, which the end of
        the block raises."""
        assert self._background is not None  # __aenter__ made it
        await asyncio.wait([self._background])

    async def __aexit__(self, kind: object, *_: object) -> None:
        assert self._background is not None  # __aenter__ made it
        self.stop()
        try:
            await self._background
        except Error:
            if kind is None:  # else the error that ended the block says more
                raise

    async def _run_beside(self) -> None:
        """Work beside a block. The block may wait for work that only this worker would do, so an early end is reported at once."""
        try:
            await self._run()
        except Exception as failure:
            tell_end(self.options, failure)
            raise

class AsyncWorker(AsyncRunning):
    """Does the work of a queue in tasks; made by ``AsyncClient.worker``.

    ``run`` works until SIGTERM, SIGINT or ``stop``. As an asynchronous context manager it works beside the block until its end. Both end in
    order: handlers finish, chunks that no handler has begun go back, results are reported, the server learns of the end. A handler whose
    work no longer counts is cancelled.
    """

    def __init__(self, transport: Transport, options: WorkerOptions, handler: AsyncHandler, failed: Optional[Callable[[Held], Awaitable[None]]] = None) -> None:
        options.check()
        if not inspect.iscoroutinefunction(handler) and not inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004
            raise TypeError("the handler of an AsyncClient's worker is an async function; a Client's worker takes others")
        functools.update_wrapper(self, handler)
        self.options = options
        self.handler = handler
        self._failed = failed  # called for failures that the server has recorded
        self._transport = transport
        self._ready: collections.deque[Held] = collections.deque()
        self._running = 0
        self._news: collections.deque[tuple[Callable[..., None], Any]] = collections.deque()
        self._wake: Optional[asyncio.Event] = None
        self._poll: Optional[asyncio.Task[None]] = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._grace_ends: Optional[float] = None

    def __call__(self, chunk: Chunk) -> Awaitable[Union[str, bytes, None]]:
        """The handler itself, for tests of it."""
        return self.handler(chunk)

    def stop(self) -> None:
        """End in order. It does not wait for the end; of other threads call it with ``loop.call_soon_threadsafe``."""
        if self.options.grace is not None and self._grace_ends is None:
            self._grace_ends = time.monotonic() + self.options.grace
        self._tell(lambda _: self._core.drain(), None)

    async def _stay_attached(self, core: WorkerCore) -> None:
        try:
            await self._transport.run(core.attach(), lambda news: self._tell(core.heard, news))
        except Exception as fault:
            self._tell(core.heard, Error(f"the stream cannot go on: {type(fault).__name__}: {shown(fault)}"))

    async def _run(self) -> None:
        if self._wake is not None:
            raise RuntimeError("a worker runs once; make another")
        self._wake = asyncio.Event()
        self._event_loop = asyncio.get_running_loop()
        self._core = core = WorkerCore(self._transport.core, self.options, self)
        stream: Optional[asyncio.Task[None]] = None
        if self.options.attach:
            stream = asyncio.ensure_future(self._stay_attached(core))
        try:
            await self._loop(core)
        finally:
            if stream is not None and not core.unknown:
                await self._transport.run(core.detach())
            handlers = [held.task for held in core.held]  # there are some only if this was broken off
            left = [task for task in (stream, self._poll, *self._tasks, *handlers) if task is not None]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if (error := core.outcome()) is not None:
            raise error

    async def _loop(self, core: WorkerCore) -> None:
        """Handle events, and start the actions that have become possible, until all is settled."""
        assert self._wake is not None
        loop = asyncio.get_running_loop()
        quarter = self.options.timeout / 4
        tick = time.monotonic() + quarter
        hello = time.monotonic() + HELLO_SECONDS
        while True:
            core.start()
            self._begin()
            if core.over:
                return
            now = time.monotonic()
            if not self._news:
                timer = loop.call_later(max(min(tick, self._grace_ends or tick, core.due or tick, hello if core.awaited else tick) - now, 0.0), self._wake.set)
                await self._wake.wait()
                timer.cancel()
            self._wake.clear()
            while self._news:
                happened, what = self._news.popleft()
                happened(what)
            now = time.monotonic()
            if now >= hello:
                core.unheard()
            if core.due is not None and now >= core.due:
                core.send_progress()
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
        """Begin ready chunks, as far as there is room."""
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
        except KeyboardInterrupt:
            held.back = True
            raise  # ctrl-c while a handler kept the loop: it is for the program
        except BaseException as fault:
            if not held.cancelled:
                if isinstance(fault, asyncio.CancelledError):
                    fault = Error("the handler was cancelled by something else than its worker")
                held.fail(fault)
                if not held.back:  # it is snoozed otherwise
                    self._core.failed(HandlerFailed(held.chunk.submission, held.chunk.index, held.error or fault))
        finally:
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
        def ended(task: asyncio.Task[None]) -> None:  # it is also called for a task that was cancelled before it began
            if task.cancelled():
                what.error = NoAnswer("broken off")
            elif (fault := task.exception()) is not None:
                what.error = Error(f"the worker cannot go on: {type(fault).__name__}: {shown(fault)}")
                what.error.__cause__ = fault
            self._tell(happened, what)

        task = asyncio.ensure_future(self._transport.run(procedure))
        task.add_done_callback(ended)
        return task

    def wait(self, held: Held, seconds: float) -> None:
        raise RuntimeError("chunk.sleep blocks: an async handler awaits asyncio.sleep, and is cancelled when its work does not count any more")

    def said(self, held: Held) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._event_loop.call_soon_threadsafe(self._tell, self._core.said, held)

    def report(self, error: Error) -> None:
        report(self._transport.core.notices, self.options, error)

    def hook(self, held: Held) -> bool:
        if self._failed is None:
            return False
        task = asyncio.ensure_future(self._hook(self._failed, held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _hook(self, failed: Callable[[Held], Awaitable[None]], held: Held) -> None:
        problem: Optional[Error] = None
        set_trace_context(held.chunk.trace)
        try:
            await failed(held)
        except Exception as fault:
            problem = hook_failed(held, fault)
        finally:
            self._tell(self._core.hooked, problem)


class AsyncWorkers(AsyncRunning):
    """Several workers that begin and end together; made by ``AsyncClient.job_worker``. It runs and ends as an :class:`AsyncWorker`."""

    def __init__(self, workers: list[AsyncWorker]) -> None:
        self.options = workers[0].options
        self._workers = workers

    def stop(self) -> None:
        """End in order. It does not wait for the end; of other threads call it with ``loop.call_soon_threadsafe``."""
        for worker in self._workers:
            worker.stop()

    async def _run(self) -> None:
        tasks = [asyncio.ensure_future(worker._run()) for worker in self._workers]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.stop()  # an operator drained one, or it cannot go on: the others are of this process, too
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in (*done, *tasks):
            await task  # raises what ended it
