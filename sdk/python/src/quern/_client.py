"""The client for programs that block."""

from __future__ import annotations

import datetime
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union

from . import _jobs, _produce, types
from ._calls import Calls, _request
from ._core import DEFAULT_RETRIES, DEFAULT_TIMEOUT, Call, Core, Event, EventReader, Topic, further, path, query, read_object
from ._ends import SILENCE, End, Follower
from ._held import Held
from ._http import Request, Trust
from ._shared import Shared
from ._threads import Handler, Transport, Worker, Workers
from ._values import Chunk, Data, Output, from_wire, to_wire
from ._wait import Waiting
from ._worker import WorkerOptions
from .errors import Conflict, Error, NotFound, refusal

JobFunction = TypeVar("JobFunction", bound=Callable[[Any, Chunk], Union[str, bytes, None]])


class Client(Calls):
    """A connection to a Quern server. Many threads may use it at once.

    ``addresses`` are those of the server, or of several that serve the same queues. If one does not answer, or answers 502, 503 or
    504, calls go to the next, in a random order. Without any address it is ``http://127.0.0.1:7700``. With ``direct``, the calls of a
    queue go straight to the node of a cluster that owns it, as soon as an answer has named it.

    The client repeats a failed call up to ``retries`` times if that is safe. The pauses grow, and are at least as long as the server
    asks for. ``timeout`` is the number of seconds that one attempt may take, without the time that it asks the server to wait.

    The client trusts an https server by the system's authorities, by those in ``ca_file``, or by the SHA-256 ``fingerprint`` of its
    certificate. ``certificate`` is a pair of files: a client certificate and its key. For everything else, pass an ``ssl_context``.

    ``trace`` returns the trace that a call belongs to (by default :func:`trace_context`). The client calls ``on_call`` after every
    attempt of a call.
    """

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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. The client still works afterwards, with new connections."""
        self._transport.close()

    def ensure_queue(self, queue: str, settings: Optional[types.QueueSettingsInput] = None) -> types.Queue:
        """Create a queue with these settings; settings that you leave out get their default. If the queue exists, it stays as it is.
        Return the queue. Every process that needs a queue may call this at its start."""
        request = _request("ensure queue", "PUT", path("/v1/queues/{}", queue), {"settings": settings or {}}, headers={"If-None-Match": "*"}, safe=True)
        try:
            made: types.Queue = self._fetch(request)
            return made
        except Conflict as refused:
            if refused.code != "precondition_failed":
                raise
        return self.get_queue(queue)

    def insert(
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
        """Insert a submission, and return it.

        The work is ``chunks`` (contents, at most 100,000), or ``count`` chunks with a ``prefix`` (the contents are in object storage
        at prefix + index) or with a ``template`` (a text that contains ``{index}``). The client repeats a failed call with the same
        idempotency key, so it inserts once. If you pass the ``key`` of an earlier insert, it returns that submission in its present
        state.

        With ``unique``, a key or ``{"key": ..., "while": "open" | "24h", "on_conflict": "keep" | "replace"}``, the server inserts
        nothing while another submission of the queue holds the key. It returns that one, with ``existing``.

        With ``after``, an id, ids, or ``{"ids": [...], "until": "completed" | "ended", "on_unmet": "cancel" | "run" |
        "dead_letter"}``, the server hands out none of the chunks before those submissions of the queue have ended. ``waits_for`` lists
        the ones that are left. ``on_unmet`` is allowed with "completed" only.

        ``retry_backoff`` is the pause after a failed attempt, such as ``{"kind": "fixed", "base_ms": 5000, "jitter": "none"}``; by
        default that of the queue. ``timeout_ms`` is the longest time that one attempt may hold a chunk, with all its extensions.
        """
        submission = _produce.fields(
            meta=meta, priority=priority, attachment=attachment, operations_per_chunk=operations_per_chunk, run_at=run_at,
            dead_deadline=dead_deadline, max_attempts=max_attempts, on_exhausted=on_exhausted, max_failed_chunks=max_failed_chunks, group=group,
            timeout_ms=timeout_ms, retry_backoff=retry_backoff, unique=unique, after=after,
        )  # fmt: skip
        submission["chunks"] = _produce.work(chunks, count, prefix, template)
        found: types.Submission = self._transport.run(self._shared.insert(_produce.insert(queue, submission, key, trace)))
        return found

    def insert_many(self, submissions: Sequence[Mapping[str, Any]]) -> list[Union[types.Submission, Error]]:
        """Insert many submissions, each given by the arguments of :meth:`insert`, up to 1,000 in one call and one commit. Return the
        submission or the error of each, in order. A refused submission does not prevent the others. Each has an idempotency key
        (yours, or a random one), so the client can repeat a call whose answer was lost, and still insert each once."""
        found: list[Any] = [None] * len(submissions)
        for batch in _produce.batches(submissions):
            try:
                for place, one in batch.results(self._fetch(batch.request, "results")):
                    found[place] = one
            except Error as error:
                for place in batch.places:
                    found[place] = error
        return found

    def insert_stream(
        self,
        chunks: Iterable[Data],
        *,
        queue: str = "default",
        key: Optional[str] = None,
        trace: Optional[str] = None,
        **submission: Any,
    ) -> types.Submission:
        """Insert a submission whose chunks come one by one (at most 100,000 and 64 MiB in all), without holding them all in memory. An
        error from ``chunks`` ends the insert, and nothing is inserted. The client can read the chunks only once, so it never repeats
        the call by itself. To repeat it yourself, use the same ``key``. The other arguments are those of :meth:`insert`."""
        chunks = _produce.each_of(chunks)
        request = _produce.insert(queue, {}, key, trace, streamed=True)
        self._core.join(request)
        head = _produce.line(_produce.fields(**submission))

        def pieces() -> Iterator[bytes]:
            buffer = bytearray(head)
            for chunk in chunks:
                buffer += _produce.line(to_wire(chunk))
                if len(buffer) >= 32 << 10:
                    yield bytes(buffer)
                    buffer.clear()
            if buffer:
                yield bytes(buffer)

        endpoint = self._core.addresses.of(request)
        try:
            reply = self._transport.call(request, endpoint, pieces=pieces())
            self._core.addresses.heard(request, endpoint, reply)
            if reply.status >= 300:
                raise refusal(reply.status, reply.body, reply.retry_after)
        except Error as error:
            self._core.addresses.leave(request, endpoint, error)
            raise
        found: types.Submission = read_object("insert", reply.body)
        return found

    def wait(self, submission: _produce.Submission, timeout: Optional[float] = None) -> types.Submission:
        """Wait until a submission has ended, and return it. Raise ``TimeoutError`` after ``timeout`` seconds."""
        found: types.Submission = self._transport.run(self._core.wait(_produce.submission_id(submission), timeout))
        return found

    def wait_many(
        self, submissions: Iterable[_produce.Submission], timeout: Optional[float] = None
    ) -> Iterator[tuple[str, Union[types.Submission, NotFound]]]:
        """Yield the submissions, of any queues, as they end, each with its id. Those that have ended already come first. After the last
        one the loop ends. To wait for the first end only, leave the loop. If there are more than 1,000, it waits for the first 1,000
        that are open.

        For an id that the server does not know, the loop gets a :class:`NotFound` and continues. Any other error is raised. If nothing
        more has ended ``timeout`` seconds after the first step of the loop, it raises ``TimeoutError``.
        """
        waiting = Waiting(self._core, submissions, timeout)
        while waiting.left:
            yield from self._transport.run(waiting.ended())

    def outputs(self, submission: _produce.Submission) -> Iterator[Output]:
        """Yield the outputs of a submission's chunks in the order of their indexes, without chunks that have none. If the answer breaks
        off, raise :class:`NoAnswer`. The server ends an answer that you read at less than 16 KiB a second on average."""
        request = Request("outputs", "GET", path("/v1/submissions/{}/outputs", _produce.submission_id(submission)), safe=True)
        for line in self._transport.run(self._core.stream(request)).lines(self._core.timeout):
            found = read_object("outputs", line)
            yield Output(found["index"], from_wire(found["output"]))

    def outputs_of(
        self,
        queue: str = "default",
        *,
        meta: Optional[Mapping[str, Union[str, int]]] = None,
        state: Optional[Sequence[str]] = None,
        schedule: Optional[str] = None,
        created_before: Optional[str] = None,
        created_after: Optional[str] = None,
    ) -> Iterator[Output]:
        """Yield the outputs of many submissions of a queue, page by page: those of the newest submission first, and of one in the order
        of the indexes of its chunks. Each has the id of its ``submission``. The filters are those of :meth:`list_submissions`."""
        found = self.list_queue_outputs(
            queue, meta=meta, state=state, schedule=schedule, created_before=created_before, created_after=created_after, limit=_produce.OUTPUTS_PAGE
        )
        for item in found:
            yield Output(item["index"], from_wire(item["output"]), item["submission"])

    def events(self, queue: Optional[str] = None, *, topics: Sequence[Topic] = (), last_event_id: str = "") -> Iterator[Event]:
        """Yield events of the server until the stream or the loop ends. It does not reconnect: begin again with the ``id`` of the last
        event."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_event_id} if last_event_id else {})}
        request = Request("events", "GET", query("/v1/events", {"queue": queue, "topics": topics}), headers=headers, safe=True)
        stream = self._transport.run(self._core.stream(request))
        reader = EventReader()
        try:
            while data := stream.read(None):
                yield from reader.feed(data)
        finally:
            stream.close()

    def ends(
        self,
        queue: str = "default",
        *,
        after: str = "",
        state: Optional[Sequence[str]] = None,
        meta: Optional[Mapping[str, Union[str, int]]] = None,
        schedule: Optional[str] = None,
    ) -> Iterator[End]:
        """Yield the ends of a queue's submissions, in the order in which they became durable, until the loop ends. If the stream breaks
        or the server restarts, it reconnects, and yields each end once. ``after`` is the ``place`` of an earlier end, or ``"0"`` for
        all that the queue's retention has kept; without it, only new ends come. It raises an error that a repetition does not fix, for
        example because the queue was deleted."""
        follower = Follower(self._core, queue, after, state, meta, schedule)
        while True:
            error: Optional[Error] = None
            try:
                stream = self._transport.run(self._core.stream(follower.request()))
                try:
                    while data := stream.read(SILENCE):
                        yield from follower.feed(data)
                finally:
                    stream.close()
            except Error as fault:
                error = fault
            time.sleep(follower.pause(error))

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
    ) -> Callable[[Handler], Worker]:
        """Make a function the handler of a worker.

        ::

            @client.worker(concurrency=8)
            def resize(chunk):
                return do(chunk.text)

            resize.run()

        The result of the handler (``str``, ``bytes`` or ``None``) is the chunk's output. An exception fails the attempt, see
        :class:`Permanent` and :class:`RetryAfter`. ``concurrency`` handlers run at once, each in a thread, and the worker reserves
        ``prefetch`` more chunks ahead. ``timeout`` is the number of seconds until the deadline of a reservation, which the worker
        extends while a handler runs. If the worker is not attached, another one gets the chunks of a crashed one after this time.
        ``wait`` is how long the server waits for work in a call. When the worker is to end, handlers may continue for ``grace``
        seconds, or without limit. After that, ``chunk.cancelled`` is true, and a handler that raises gives its chunk back. The worker
        calls ``on_error``, from one thread at a time, with each problem after which it continues. Without it, the worker logs them.
        """
        options = WorkerOptions(queue, strategy, consumer, context or {}, concurrency, prefetch, timeout, wait, grace, attach, on_error)
        return lambda handler: Worker(self._transport, options, handler)

    def job(
        self, name: str, *, concurrency: int = 0, timeout: Optional[float] = None, retry: Optional[_jobs.Retry] = None
    ) -> Callable[[JobFunction], JobFunction]:
        """Make a function the handler of a kind of work: of submissions with ``kind`` in their meta, see :func:`quern.submission_of`.

        ::

            @client.job("resize", timeout=60)
            def resize(args: Resize, chunk: quern.Chunk) -> str:
                return f"resized {args.name}"

            client.job_worker(concurrency=8).run()

        The content of a chunk is the JSON of the arguments. They get the type of the first parameter: a dataclass, a model of
        pydantic, or a type that JSON has. If a content does not fit, its chunk fails for good. Fields that a dataclass does not have
        are ignored.

        With ``concurrency``, the kind has this many handlers for itself, and is a separate consumer. After ``timeout`` seconds,
        ``chunk.check`` and ``chunk.sleep`` raise :class:`HandlerTimeout`; the client cannot stop a handler that ignores this.
        ``retry(chunk, error)`` returns after an exception the seconds until the next attempt, or None for no more attempts. The worker
        does not call it for :class:`Permanent`, :class:`RetryAfter` and :class:`Snooze`. Without it, the back-off of the submission or
        the queue decides. Their limit of attempts always holds.
        """

        def decorate(function: JobFunction) -> JobFunction:
            if name in self._jobs:
                raise ValueError(f"the kind {name} has two handlers")
            self._jobs[name] = _jobs.Job(name, function, concurrency, timeout, retry)
            return function

        return decorate

    def job_worker(
        self,
        *,
        middleware: Sequence[Callable[[Handler], Handler]] = (),
        on_failure: Optional[Callable[[Chunk, BaseException], None]] = None,
        on_dead: Optional[Callable[[Chunk, BaseException], None]] = None,
        **options: Any,
    ) -> Workers:
        """Return a worker for all kinds that have a handler by now (see :meth:`job`), and for no others. It takes the arguments of
        :meth:`worker`; ``strategy`` orders the chunks of these kinds.

        Each function of ``middleware`` takes the next handler and returns a handler that wraps it; the first one is the outermost. The
        worker calls ``on_failure`` after each failed attempt that the server has recorded. It also calls ``on_dead`` if this was the
        last attempt: the chunk is now dead, skipped or forwarded. To know that, the client reads the chunk after each failed attempt.
        If a process dies in the last attempt of a chunk, no client calls ``on_dead``: follow the ends of submissions (:meth:`ends`),
        or look at the dead letters. Hooks run in threads, concurrently with handlers and each other. A worker with slow hooks reserves
        less.
        """

        def failed(held: Held) -> None:
            assert held.error is not None  # it is a failure
            if on_failure is not None:
                on_failure(held.chunk, held.error)
            if on_dead is not None and self._transport.run(_jobs.is_dead(self._core, held)):
                on_dead(held.chunk, held.error)

        asked = WorkerOptions(**options)
        if asked.on_error is not None:
            asked.on_error = _jobs.one_at_a_time(asked.on_error)
        hook = None if on_failure is None and on_dead is None else failed
        return Workers([Worker(self._transport, own, _jobs.dispatch(jobs, middleware), hook) for own, jobs in _jobs.plans(self._jobs, asked)])

    def _fetch(self, request: Request, *lists: str) -> Any:
        return self._transport.run(self._core.fetch(request, *lists))

    def _bytes(self, request: Request) -> bytes:
        return self._transport.run(self._core.call(request)).body

    def _pages(self, what: str, target: str, values: Mapping[str, Any]) -> Iterator[Any]:
        cursor: Optional[str] = None
        while True:
            page = self._fetch(Request(what, "GET", query(target, {**values, "cursor": cursor}), safe=True), "items")
            yield from page["items"]
            if not (cursor := further(what, cursor, page)):
                return
