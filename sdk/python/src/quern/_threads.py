"""Connections, effects and workers for programs that block and have threads."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import queue
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional, TypeVar, Union

from ._core import Await, Core, Effect, Open, Pause, Procedure, Read, Tell, Try, set_trace_context, trace_context
from ._held import Held
from ._http import AnswerReader, Endpoint, Reply, Request, piece
from ._notices import Notices, logger
from ._values import Chunk
from ._worker import HELLO_SECONDS, Exchange, Poll, WorkerCore, WorkerOptions
from .errors import BrokenOff, Error, HandlerFailed, NoAnswer, NotTrusted, TimedOut, no_answer, shown

T = TypeVar("T")
Handler = Callable[[Chunk], Union[str, bytes, None]]

MAX_IDLE = 64  # connections that are kept, per address
IDLE_SECONDS = 60.0  # for how long
CONNECT_SECONDS = 10.0
READ_BYTES = 256 << 10


def connect(endpoint: Endpoint) -> socket.socket:
    """A connection to a server, without TLS yet."""
    if not endpoint.path:
        connection = socket.create_connection((endpoint.host, endpoint.port), CONNECT_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(endpoint.path)
    except OSError:
        connection.close()
        raise
    return connection


def sweep(idle: dict[Endpoint, list[Any]]) -> None:
    """Close connections that were not used for long, even those to owners that calls no longer go to. The oldest of an address comes
    first."""
    for endpoint, connections in list(idle.items()):
        while connections and time.monotonic() - connections[0].since >= IDLE_SECONDS:
            connections.pop(0).close()
        if not connections:
            del idle[endpoint]


class Connection:
    """One connection, used by one call at a time."""

    def __init__(self, endpoint: Endpoint, core: Core) -> None:
        self.endpoint = endpoint
        self.used = False
        self.since = 0.0  # unused since then
        self.aborted = False
        try:
            self.socket = connect(endpoint)
        except OSError as fault:
            raise NoAnswer(f"no server answers at {endpoint.name}: {fault}") from None
        if endpoint.secure:
            self._secure(core)

    def _secure(self, core: Core) -> None:
        assert core.trust is not None  # the client made it for https addresses
        plain = self.socket
        try:
            secure = core.trust.context.wrap_socket(plain, server_hostname=self.endpoint.host)
            if core.trust.fingerprint and hashlib.sha256(secure.getpeercert(True) or b"").hexdigest() != core.trust.fingerprint:
                secure.close()
                raise NotTrusted(f"the certificate of the server at {self.endpoint.authority} is not the one of the fingerprint")
        except ssl.SSLCertVerificationError as fault:
            plain.close()
            raise NotTrusted(f"the server at {self.endpoint.authority} is not trusted: {fault}") from None
        except OSError as fault:
            plain.close()
            raise no_answer(f"no connection over TLS to {self.endpoint.authority}", fault) from None
        self.socket = secure

    def send(self, data: bytes, timeout: float) -> None:
        self.socket.settimeout(timeout)
        self.socket.sendall(data)

    def receive(self, reader: AnswerReader, timeout: Optional[float]) -> None:
        """Read once, and give it to the reader."""
        if timeout is not None and timeout <= 0:
            raise TimedOut("no answer in time")
        try:
            self.socket.settimeout(timeout)
            data = self.socket.recv(READ_BYTES)
        except TimeoutError:
            raise TimedOut("no answer in time") from None
        except OSError as fault:
            raise no_answer("no answer", fault) from None
        reader.feed(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()

    def abort(self) -> None:
        """End a call that another thread makes. The call may just have ended."""
        self.aborted = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Scope:
    """Procedures of one worker run in a scope, so that the worker can end them."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()

    def enter(self, connection: Connection) -> None:
        with self._lock:
            self._connections.add(connection)
        if self.ended.is_set():
            connection.abort()

    def leave(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)

    def end(self) -> None:
        self.ended.set()
        with self._lock:
            for connection in self._connections:
                connection.abort()


class Transport:
    """Carries out effects, over connections that it keeps. Safe for threads."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._lock = threading.Lock()
        self._idle: dict[Endpoint, list[Connection]] = {}

    def run(self, procedure: Procedure[T], scope: Optional[Scope] = None, tell: Optional[Callable[[Any], None]] = None) -> T:
        """Run a procedure to its end."""
        result: Any = None
        error: Optional[BaseException] = None
        try:
            while True:
                effect = procedure.send(result) if error is None else procedure.throw(error)
                result, error = None, None
                try:
                    result = self._do(effect, scope, tell)
                except Exception as fault:
                    broken_off = scope is not None and scope.ended.is_set() and isinstance(fault, NoAnswer)
                    error = BrokenOff(str(fault)) if broken_off else fault
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            procedure.close()

    def _do(self, effect: Effect, scope: Optional[Scope], tell: Optional[Callable[[Any], None]]) -> Any:
        if isinstance(effect, Try):
            return self.call(effect.request, effect.endpoint, scope)
        if isinstance(effect, Pause):
            if scope is None:
                time.sleep(effect.seconds)
                return True
            return not scope.ended.wait(effect.seconds)
        if isinstance(effect, Open):
            return self.open(effect.request, effect.endpoint, scope)
        if isinstance(effect, Read):
            return effect.stream.read(effect.timeout)
        if isinstance(effect, Await):
            effect.waiter.acquire()
        if isinstance(effect, Tell) and tell is not None:
            tell(effect.news)
        return None

    @staticmethod
    def waiter() -> tuple[threading.Lock, Callable[[], None]]:
        """A waiter for one caller, and the function that wakes it."""
        lock = threading.Lock()
        lock.acquire()
        return lock, lock.release

    def call(self, request: Request, endpoint: Endpoint, scope: Optional[Scope] = None, pieces: Optional[Iterable[bytes]] = None) -> Reply:
        """Make one try of a call. A kept connection may have been closed by the server in the meantime, which shows only when it is used:
        such a call is made again on the next one, at the latest on a new one, when it may be made twice."""
        head = request.encode(endpoint, self.core.token)
        while True:
            connection = self._take(endpoint)
            reader = AnswerReader()
            try:
                self._converse(connection, request, head, reader, scope, pieces)
            except NoAnswer as fault:
                connection.close()
                stale = connection.used and not reader.started and not isinstance(fault, TimedOut)
                if stale and request.safe and not (scope and scope.ended.is_set()):
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            assert reader.reply is not None  # the reader is done
            reader.reply.body = reader.take()
            if reader.keep and not connection.aborted:
                self._give(connection)
            else:
                connection.close()
            return reader.reply

    def _converse(
        self, connection: Connection, request: Request, head: bytes, reader: AnswerReader, scope: Optional[Scope], pieces: Optional[Iterable[bytes]]
    ) -> None:
        until = time.monotonic() + request.limit(self.core.timeout)
        if scope is not None:
            scope.enter(connection)
        try:
            try:
                connection.send(head, self.core.timeout)
                if pieces is not None:
                    for data in pieces:
                        connection.send(piece(data), self.core.timeout)
                    connection.send(piece(b""), self.core.timeout)
            except TimeoutError:
                raise TimedOut(f"{request.what}: the server did not take the request in time") from None
            except OSError as fault:
                self._refused_early(connection, reader, until, fault)
            while not reader.done:
                connection.receive(reader, until - time.monotonic())
        finally:
            if scope is not None:
                scope.leave(connection)

    def _refused_early(self, connection: Connection, reader: AnswerReader, until: float, fault: OSError) -> None:
        """A server may answer before it has read all, such as a body over the limit."""
        try:
            while not reader.done:
                connection.receive(reader, until - time.monotonic())
            reader.keep = False
        except NoAnswer:
            raise NoAnswer(f"the request could not be sent: {fault}") from None

    def open(self, request: Request, endpoint: Endpoint, scope: Optional[Scope] = None) -> Reply:
        """Make a call whose answer is read as it comes, on a connection of its own."""
        connection = Connection(endpoint, self.core)
        if scope is not None:
            scope.enter(connection)
        reader = AnswerReader()
        stream = Stream(connection, reader, scope)
        try:
            try:
                connection.send(request.encode(endpoint, self.core.token), self.core.timeout)
            except OSError as fault:
                raise NoAnswer(f"the request could not be sent: {fault}") from None
            until = time.monotonic() + self.core.timeout
            while reader.reply is None or reader.reply.status != 200 and not reader.done:
                connection.receive(reader, until - time.monotonic())
            if reader.reply.status == 200:
                reader.reply.stream = stream
                return reader.reply
            reader.reply.body = reader.take()
        except BaseException:
            stream.close()
            raise
        stream.close()
        return reader.reply

    def _take(self, endpoint: Endpoint) -> Connection:
        with self._lock:
            idle = self._idle.get(endpoint, [])
            while idle:
                connection = idle.pop()
                if time.monotonic() - connection.since < IDLE_SECONDS:
                    return connection
                connection.close()
            sweep(self._idle)
        return Connection(endpoint, self.core)

    def _give(self, connection: Connection) -> None:
        connection.used, connection.since = True, time.monotonic()
        with self._lock:
            idle = self._idle.setdefault(connection.endpoint, [])
            if len(idle) < MAX_IDLE:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            for idle in self._idle.values():
                while idle:
                    idle.pop().close()


class Stream:
    """The body of an answer, as it comes."""

    def __init__(self, connection: Connection, reader: AnswerReader, scope: Optional[Scope]) -> None:
        self._connection, self._reader, self._scope = connection, reader, scope

    def read(self, timeout: Optional[float]) -> bytes:
        """Some bytes, or none at the end."""
        while True:
            if data := self._reader.take():
                return data
            if self._reader.done:
                return b""
            self._connection.receive(self._reader, timeout)

    def lines(self, timeout: float) -> Iterator[bytes]:
        """The lines of the body. One that breaks off, or says nothing for the timeout, raises :class:`NoAnswer`."""
        rest = b""
        try:
            while data := self.read(timeout):
                *whole, rest = (rest + data).split(b"\n")
                yield from filter(None, whole)
            if rest:
                yield rest
        finally:
            self.close()

    def close(self) -> None:
        if self._scope is not None:
            self._scope.leave(self._connection)
        self._connection.close()


REPEAT_SECONDS = 1.0  # in which a second SIGTERM is the same one: timeout(1) sends two at once


@contextlib.contextmanager
def signals(stop: Callable[[], None]) -> Iterator[list[float]]:
    """The first SIGTERM or SIGINT calls stop; the next one has its earlier effect. The list has the times of the signals. At the end both
    signals get their earlier handlers back. Outside the main thread no signal is handled."""
    told: list[float] = []
    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    before: dict[int, Any] = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, _: object) -> None:
        if number == signal.SIGTERM and told and time.monotonic() - told[0] >= REPEAT_SECONDS:
            signal.signal(number, before[number])
            signal.raise_signal(number)
            return
        told.append(time.monotonic())
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        stop()

    for number in before:
        signal.signal(number, end)
    try:
        yield told
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


_STOP = object()  # ends a thread that waits for work


R = TypeVar("R", bound="Running")


class Running:
    """A worker, or several, that works in threads until it is stopped: in the foreground, or beside a block."""

    options: WorkerOptions
    _failure: Optional[BaseException] = None
    _background: Optional[threading.Thread] = None

    def run(self) -> None:
        """Work until SIGTERM or SIGINT (in the main thread) or ``stop``; a second signal has its usual effect. After the same drain it
        raises a refusal for good, such as an unknown queue or a wrong strategy, or an error about a certificate that is not trusted. It
        waits for servers that are away; if none ever answered, it raises that at the end."""
        with signals(self.stop):
            self._work()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End in order, from any thread or signal handler. It does not wait for the end."""
        raise NotImplementedError

    def _run(self) -> None:
        """Work to the end."""
        raise NotImplementedError

    def __enter__(self: R) -> R:
        self._background = threading.Thread(target=self._work_beside, name="quern-worker", daemon=True)
        self._background.start()
        return self

    def join(self) -> None:
        """Wait, in the block that it works beside, until it has ended by itself: after an operator's drain, or an error, which the end of
        the block raises."""
        assert self._background is not None  # __enter__ made it
        self._background.join()

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop()
        assert self._background is not None  # __enter__ made it
        self._background.join()
        if self._failure is not None and kind is None:
            raise self._failure

    def _work(self) -> None:
        """Work to the end, and keep an error for the thread that waits for the end."""
        try:
            self._run()
        except BaseException as fault:
            self._failure = fault

    def _work_beside(self) -> None:
        """Work beside a block. The block may wait for work that only this worker would do, so an early end is reported at once."""
        self._work()
        if self._failure is not None:
            tell_end(self.options, self._failure)

class Worker(Running):
    """Does the work of a queue in threads; made by ``Client.worker``.

    ``run`` works until SIGTERM, SIGINT or ``stop``. As a context manager it works in the background until the end of the block. Both end in
    order: handlers finish, chunks that no handler has begun go back, results are reported, the server learns of the end.
    """

    def __init__(self, transport: Transport, options: WorkerOptions, handler: Handler, failed: Optional[Callable[[Held], None]] = None) -> None:
        options.check()
        functools.update_wrapper(self, handler)
        self.options = options
        self.handler = handler
        self._failed = failed  # called for failures that the server has recorded
        self._transport = transport
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._scope = Scope()  # of calls and the stream
        self._polls = Scope()
        self._cancelled = threading.Condition()
        self._used = False

    def __call__(self, chunk: Chunk) -> Union[str, bytes, None]:
        """The handler itself, for tests of it."""
        return self.handler(chunk)

    def stop(self) -> None:
        """End in order, from any thread or signal handler. It does not wait for the end."""
        self._inbox.put(None)

    def _run(self) -> None:
        if self._used:
            raise RuntimeError("a worker runs once; make another")
        self._used = True
        core = WorkerCore(self._transport.core, self.options, self)
        self._core = core
        self._calls = _Caller(self._transport, self._scope, self._inbox, "quern-calls")
        self._poller = _Caller(self._transport, self._polls, self._inbox, "quern-polls")
        threads = [threading.Thread(target=self._handle, name=f"quern-handler-{i}", daemon=True) for i in range(self.options.concurrency)]
        for thread in threads:
            thread.start()
        stream = threading.Thread(target=self._attach, name="quern-attach", daemon=True)
        if self.options.attach:
            stream.start()
        try:
            self._loop(core)
        finally:
            if self.options.attach and not core.unknown:
                self._transport.run(core.detach(), self._scope)
            self._polls.end()
            self._scope.end()
            self._ready.put(_STOP)
            self._calls.stop()
            self._poller.stop()
        self._failure = core.outcome()

    def _loop(self, core: WorkerCore) -> None:
        """Handle events, and start the actions that have become possible, until all is settled."""
        quarter = self.options.timeout / 4
        tick = time.monotonic() + quarter
        hello = time.monotonic() + HELLO_SECONDS
        end: Optional[float] = None  # of the grace period
        while True:
            core.start()
            if core.over:
                return
            now = time.monotonic()
            try:
                news = self._inbox.get(timeout=max(min(tick, end or tick, core.due or tick, hello if core.awaited else tick) - now, 0.0))
                while True:
                    if type(news) is Held:
                        core.finished(news)
                    elif news is None:
                        if end is None and self.options.grace is not None:
                            end = time.monotonic() + self.options.grace
                        core.drain()
                    else:
                        happened, what = news
                        getattr(core, happened)(what)
                    news = self._inbox.get_nowait()
            except queue.Empty:
                pass
            now = time.monotonic()
            if now >= hello:
                core.unheard()
            if core.due is not None and now >= core.due:
                core.send_progress()
            if now >= tick:
                core.tick()
                tick = now + quarter
            if end is not None and now >= end:
                core.grace_over()
                end = None

    def _attach(self) -> None:
        try:
            self._transport.run(self._core.attach(), self._scope, lambda news: self._inbox.put(("heard", news)))
        except Exception as fault:
            if not self._scope.ended.is_set():
                self._inbox.put(("heard", Error(f"the stream cannot go on: {type(fault).__name__}: {shown(fault)}")))

    def _handle(self) -> None:
        """One handler's thread."""
        ready, inbox = self._ready, self._inbox
        while (held := ready.get()) is not _STOP:
            try:
                if not held.lost:
                    self._one(held)
            finally:
                inbox.put(held)
        ready.put(_STOP)  # for the next

    def _one(self, held: Held) -> None:
        trace = held.chunk.trace
        if trace or trace_context():
            set_trace_context(trace)
        try:
            held.complete(self.handler(held.chunk))
            held.back = False  # it was in time after all
        except BaseException as fault:
            if held.cancelled:
                return  # it does not count
            held.fail(fault)
            if held.back:
                return  # snoozed
            self._inbox.put(("failed", HandlerFailed(held.chunk.submission, held.chunk.index, held.error or fault)))

    # The Shell of the core.

    def hand_out(self, held: Held) -> None:
        self._ready.put(held)

    def take_back(self) -> list[Held]:
        out = []
        with contextlib.suppress(queue.Empty):
            while True:
                out.append(self._ready.get_nowait())
        return out

    def cancel(self, held: Held) -> None:
        with self._cancelled:
            self._cancelled.notify_all()

    def exchange(self, call: Exchange) -> None:
        self._calls.run(self._core.exchange(call), "called", call)

    def poll(self, poll: Poll) -> None:
        self._poller.run(self._core.poll(poll), "polled", poll)

    def stop_poll(self) -> None:
        self._polls.end()

    def wait(self, held: Held, seconds: float) -> None:
        with self._cancelled:
            self._cancelled.wait_for(lambda: held.cancelled, seconds)

    def said(self, held: Held) -> None:
        self._inbox.put(("said", held))

    def report(self, error: Error) -> None:
        report(self._transport.core.notices, self.options, error)

    def hook(self, held: Held) -> bool:
        if self._failed is None:
            return False
        threading.Thread(target=self._hook, args=[self._failed, held], name="quern-hook", daemon=True).start()
        return True

    def _hook(self, failed: Callable[[Held], None], held: Held) -> None:
        problem: Optional[Error] = None
        set_trace_context(held.chunk.trace)
        try:
            failed(held)
        except BaseException as fault:
            problem = hook_failed(held, fault)
        self._inbox.put(("hooked", problem))


class Workers(Running):
    """Several workers that begin and end together; made by ``Client.job_worker``. It runs and ends as a :class:`Worker`."""

    def __init__(self, workers: list[Worker]) -> None:
        self.options = workers[0].options
        self._workers = workers

    def stop(self) -> None:
        """End in order, from any thread or signal handler. It does not wait for the end."""
        for worker in self._workers:
            worker.stop()

    def _run(self) -> None:
        threads = [threading.Thread(target=self._one, args=[worker], name="quern-worker", daemon=True) for worker in self._workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, worker: Worker) -> None:
        """When an operator drains one of them, or it cannot go on, the others end, too: they are of this process."""
        worker._work()
        self._failure = self._failure or worker._failure
        self.stop()


class _Caller:
    """A thread that runs one procedure after the other and says when each has ended."""

    def __init__(self, transport: Transport, scope: Scope, inbox: queue.SimpleQueue[Any], name: str) -> None:
        self._transport, self._scope, self._inbox = transport, scope, inbox
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def run(self, procedure: Procedure[None], happened: str, what: Union[Exchange, Poll]) -> None:
        self._work.put((procedure, happened, what))

    def stop(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            procedure, happened, what = work
            try:
                self._transport.run(procedure, self._scope)
            except Exception as fault:
                what.error = Error(f"the worker cannot go on: {type(fault).__name__}: {shown(fault)}")
                what.error.__cause__ = fault
            self._inbox.put((happened, what))


def hook_failed(held: Held, fault: BaseException) -> Error:
    """The error to report for a hook that raised one."""
    if type(fault) is Error:  # why there was no call
        return fault
    problem = Error(f"a hook failed for the chunk {held.chunk.submission}/{held.chunk.index}: {type(fault).__name__}: {shown(fault)}")
    problem.__cause__ = fault
    return problem


def report(notices: Notices, options: WorkerOptions, error: Error) -> None:
    """Report an error to ``on_error``, or to the logger."""
    if options.on_error is None:
        notices.warn(error, f"the worker {options.consumer} of the queue {options.queue}")
        return
    try:
        options.on_error(error)
    except Exception:  # it must not end the worker
        if notices.due("on_error", time.monotonic()) is not None:
            logger.exception("on_error failed when it heard: %s", error)


def tell_end(options: WorkerOptions, failure: BaseException) -> None:
    """Log why a worker in the background has ended, because the program may look at the worker much later."""
    logger.error("the worker %s of the queue %s has ended: %s: %s", options.consumer, options.queue, type(failure).__name__, shown(failure))
