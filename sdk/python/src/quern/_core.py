"""Calls, step by step, without doing any input or output.

Every procedure here is a generator that yields what it needs (an :class:`Effect`) and is sent its result. ``_threads`` and
``_asyncio`` carry effects out, the one blocking, the other awaiting; so both clients behave the same.
"""

from __future__ import annotations

import contextvars
import functools
import json
import random
import secrets
import time
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional, TypeVar, Union

from ._addresses import Addresses
from ._http import Endpoint, Reply, Request, Trust, visible
from ._notices import Notices
from .errors import BadAnswer, Error, NoAnswer, NotTrusted, Refused, passing, refusal

T = TypeVar("T")

DEFAULT_ADDRESS = "http://127.0.0.1:7700"
DEFAULT_RETRIES = 5
DEFAULT_TIMEOUT = 30.0

BACKOFF_BASE = 0.1
BACKOFF_CAP = 5.0
MAX_RETRY_AFTER = 60.0  # a server that asks for more gets its answer as an error, or a try after this


@dataclass
class Try:
    """One try of a call: a :class:`Reply`, or :class:`NoAnswer` is raised."""

    request: Request
    endpoint: Endpoint


@dataclass
class Open:
    """A try of a call whose answer is read as it comes: a :class:`Reply` with a stream for :class:`Read`, which the procedure closes; or,
    when the status is not 200, with a body."""

    request: Request
    endpoint: Endpoint


@dataclass
class Read:
    """Some bytes of a stream, none at its end. No bytes for ``timeout`` seconds raise :class:`TimedOut`."""

    stream: Any
    timeout: Optional[float]


@dataclass
class Pause:
    """A pause of some seconds. Its result is False if it was cut short because the caller ends."""

    seconds: float


@dataclass
class Await:
    """A wait that another caller ends, on a waiter of the transport that runs the procedure."""

    waiter: Any


@dataclass
class Tell:
    """News for the caller that runs the procedure."""

    news: Any


Effect = Union[Try, Open, Read, Pause, Await, Tell]
Procedure = Generator[Effect, Any, T]

_trace: contextvars.ContextVar[str] = contextvars.ContextVar("quern_trace", default="")


def trace_context() -> str:
    """Return the trace of calls made here: a W3C traceparent, optionally followed by ``;`` and the tracestate; or ``""``."""
    return _trace.get()


def set_trace_context(trace: str) -> contextvars.Token[str]:
    """Make calls in this context part of a trace; with ``""``, of none. Handlers of workers have the trace of their chunk."""
    return _trace.set(trace)


@dataclass(frozen=True)
class Call:
    """One attempt of a call, for ``on_call`` of a client."""

    what: str  # such as "insert"
    method: str
    path: str
    address: str  # host:port, or unix: and a path
    attempt: int  # 1 for the first try
    status: int  # of the answer; 0: there was none
    seconds: float
    error: Optional[Error]


class Core:
    """The part that both clients share: addresses, token, and how to go on after an error."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        token: str = "",
        retries: int = DEFAULT_RETRIES,
        timeout: float = DEFAULT_TIMEOUT,
        trust: Optional[Trust] = None,
        trace: Optional[Callable[[], str]] = None,
        on_call: Optional[Callable[[Call], None]] = None,
        direct: bool = False,
    ) -> None:
        if not visible(token):
            raise ValueError("the token has characters that no token has (spaces, line breaks or others outside ASCII)")
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}; it must be positive")
        self.random = random.Random(secrets.randbits(128))
        self.addresses = Addresses(addresses or (DEFAULT_ADDRESS,), direct, self.random)
        self.token = token
        self.retries = max(retries, 0)
        self.timeout = timeout
        self.trust = trust
        self.trace = trace or trace_context
        self.on_call = on_call
        self.notices = Notices()

    def backoff(self, tries: int, error: Optional[BaseException]) -> float:
        """The pause after this many tries: random, from 0 to 0.1 s times 2^tries, on top of the server's Retry-After."""
        pause = self.random.uniform(0.0, min(BACKOFF_BASE * 2 ** min(tries, 10), BACKOFF_CAP))
        if isinstance(error, Refused):
            pause += min(error.retry_after, MAX_RETRY_AFTER)
        return pause

    def join(self, request: Request) -> None:
        """Make a call part of the trace of its context, unless it has one already."""
        if request.traced and "traceparent" not in request.headers and (trace := self.trace()):
            add_trace(request.headers, trace)

    def call(self, request: Request, effect: type[Union[Try, Open]] = Try) -> Procedure[Reply]:
        """Make a call, again where that is safe and may help. Any other answer than a success raises. A node that no longer owns the queue
        answers 421 and has done nothing, so the call goes on to the owner that the node names."""
        self.join(request)
        elsewhere = self.addresses.others
        tries = 0
        attempt = 0
        owner: Optional[Endpoint] = None  # that a node has named
        while True:
            endpoint = owner or self.addresses.of(request)
            attempt += 1
            began = time.monotonic()
            status = 0
            named: Optional[Endpoint] = None
            error: Optional[Error] = None
            try:
                reply: Reply = yield effect(request, endpoint)
                status = reply.status
                named = self.addresses.heard(request, endpoint, reply)
                if status >= 300:
                    error = refusal(status, reply.body, reply.retry_after)
            except Error as fault:
                error = fault
            if self.on_call is not None:
                self.on_call(Call(request.what, request.method, request.path, endpoint.name, attempt, status, time.monotonic() - began, error))
            if error is None:
                return reply
            if status == 421 and owner is None and named not in (None, endpoint):
                owner = named
                continue
            owner = None
            moved = self.addresses.leave(request, endpoint, error)
            if not request.safe or not passing(error) and not moved:
                raise error
            if moved and elsewhere > 0:
                elsewhere -= 1
                continue
            elsewhere = self.addresses.others
            if tries >= self.retries:
                raise error
            if request.pauses is not None:
                request.pauses()
            if not (yield Pause(self.backoff(tries, error))):
                raise error
            tries += 1

    def fetch(self, request: Request, *lists: str) -> Procedure[Any]:
        """Make a call and read the object in its answer, which has these lists of objects."""
        reply = yield from self.call(request)
        return read_object(request.what, reply.body, *lists)

    def wait(self, submission: str, timeout: Optional[float]) -> Procedure[Any]:
        """Ask until a submission has ended, at most for this many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 30 if until is None else int(min(max(until - time.monotonic(), 0.0), 30.0)) or 1
            found = yield from self.fetch(
                Request("wait", "GET", path("/v1/submissions/{}", submission), headers={"Prefer": f"wait={left}"}, wait=left, safe=True)
            )
            if found["state"] != "open":
                return found
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"submission {submission} is still open after {timeout} s")
            yield Pause(self.random.uniform(0.0, BACKOFF_BASE))  # a server that does not hold its answers is not asked in a tight loop

    def stream(self, request: Request) -> Procedure[Any]:
        """Make a call whose answer is read as it comes."""
        reply = yield from self.call(request, Open)
        return reply.stream

    def attach(self, queue: str, consumer: str, incarnation: Callable[[], str]) -> Procedure[None]:
        """Keep a consumer attached, and pass on every :class:`Event` of its stream. A stream that ends is opened again, with growing pauses
        while that fails. After a refusal for good the worker goes on without a stream, and only deadlines count. ``incarnation`` returns
        the process's incarnation for each attempt, or ``""``."""
        failures = 0
        while True:
            error: Optional[Error] = None
            try:
                below = query(path("/v1/queues/{}/consumers/{}/attach", queue, consumer), {"incarnation": incarnation() or None})
                request = Request("attach", "GET", below, headers={"Accept": "text/event-stream"})
                stream = yield from self.stream(request)
                try:
                    events = EventReader()
                    patience = self.timeout  # until the first hello says how often heartbeats come
                    while data := (yield Read(stream, patience)):
                        for event in events.feed(data):
                            failures = 0
                            if event.name == "hello" and (beat := event.json().get("heartbeat_ms", 0)) > 0:
                                patience = SILENT_BEATS * beat / 1000
                            yield Tell(event)
                finally:
                    stream.close()
            except Error as fault:
                error = fault
            if isinstance(error, Refused) and error.code == "unknown_queue":
                return  # the reserves will report it
            if error is not None:
                yield Tell(error)
            if isinstance(error, NotTrusted) or isinstance(error, Refused) and not passing(error):
                return
            if not (yield Pause(self.backoff(failures, error))):
                return
            failures += 1


SILENT_BEATS = 3  # how many heartbeats may stay out before a stream is taken for dead
MAX_EVENT = 4 << 20  # bytes: 10,000 revoked tokens and room to spare


Topic = Literal["stats", "keys", "consumers", "schedules"]


@dataclass(frozen=True)
class Event:
    """An event of a stream. ``data`` is one line of JSON."""

    name: str
    data: str
    id: str = ""

    def json(self) -> Any:
        """The data, read."""
        return read_object(f"the event {self.name}", self.data.encode()) if self.data else {}


class EventReader:
    """Reads server-sent events from bytes, in whatever pieces they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}
        self.last_id = ""  #: where to go on, also of what has no name

    def feed(self, data: bytes) -> list[Event]:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_EVENT:
            raise BadAnswer(f"a line of the stream is longer than {MAX_EVENT} bytes")
        events = []
        for line in lines:
            name, _, value = line.rstrip(b"\r").decode("utf-8", "replace").partition(":")
            if name in ("event", "data", "id"):  # a server could send any number of others
                self._fields[name] = value[1:] if value.startswith(" ") else value
            elif not line.rstrip(b"\r"):
                self.last_id = self._fields.get("id", self.last_id)
                if "event" in self._fields:
                    events.append(Event(self._fields["event"], self._fields.get("data", ""), self._fields.get("id", "")))
                self._fields = {}
        return events


def read_object(what: str, body: bytes, *lists: str) -> Any:
    """Read an answer, which has these lists of objects."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as fault:  # values may be nested too deep
        raise not_said(what, fault) from None
    if not isinstance(found, dict):
        raise not_said(what, "it is no object")
    for name in lists:
        items = found.get(name)
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise not_said(what, f"{name} is no list of objects")
    return found


def not_said(what: str, fault: object) -> BadAnswer:
    """The error of an answer that can be read and is another one than the server's interface says."""
    return BadAnswer(f"{what}: the answer is not what the server's interface says: {fault}")


def further(what: str, cursor: Optional[str], page: Mapping[str, Any]) -> Optional[str]:
    """The cursor of the page behind this one, which came for ``cursor``, or ``None``. A server that names the same page again would have
    the client read it for ever."""
    following = page.get("next") or None
    if following is not None and (not isinstance(following, str) or following == cursor):
        raise not_said(what, f"behind the page {cursor!r} comes {following!r}")
    return following


def path(pattern: str, *names: object) -> str:
    """Fill names into a path, escaped. The names . and .. would change it."""
    if any(name is None for name in names):
        raise TypeError("None cannot stand in a path")
    return pattern.format(*[segment(str(name)) for name in names])


@functools.lru_cache(256)  # a program names few queues, and each call names one
def segment(name: str) -> str:
    """A name as a part of a path."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot stand in a path")
    return urllib.parse.quote(name, safe="")


def query(pattern: str, values: Mapping[str, Any]) -> str:
    """Add a query to a path: None is left out, a list is repeated, a dict is meta with its names behind a dot."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            pairs += [(f"{name}.{key}", meta_text(one)) for key, one in value.items()]
        elif isinstance(value, (list, tuple)):
            pairs += [(name, str(one)) for one in value]
        elif isinstance(value, bool):
            pairs.append((name, "true" if value else "false"))
        elif value is not None:
            pairs.append((name, str(value)))
    return f"{pattern}?{urllib.parse.urlencode(pairs)}" if pairs else pattern


def meta_text(value: Union[str, int]) -> str:
    """A meta value as paths and queries have it: a text behind ``s:``, so that ``"123"`` is not taken for 123."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"a value of metadata is {value!r}, a {type(value).__name__}; it is str or int")
    return str(value) if isinstance(value, int) else "s:" + value


def add_trace(headers: dict[str, str], trace: str) -> None:
    parent, _, state = trace.partition(";")
    headers["traceparent"] = parent
    if state:
        headers["tracestate"] = state


__all__ = ["Call", "Core", "Event", "EventReader", "NoAnswer", "set_trace_context", "trace_context"]
