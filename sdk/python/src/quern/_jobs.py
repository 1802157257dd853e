"""Kinds of work: handlers with typed arguments, and one worker for several kinds.

The meta of a submission names its kind, and the content of each chunk is the JSON of its arguments.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import json
import threading
import time
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Optional, Union

from ._core import Core, Procedure, path
from ._held import Held, told
from ._http import Request
from ._values import Chunk, write_json
from ._worker import WorkerOptions
from .errors import Cancelled, Error, HandlerTimeout, Permanent, RetryAfter, Snooze, shown

META_KIND = "kind"  # the key of meta under which a submission has its kind
MAX_KINDS = 64  # values that SelectAny takes
MAX_CONSUMER_BYTES = 128

Output = Union[str, bytes, None]
Retry = Callable[[Chunk, BaseException], Optional[float]]


@dataclasses.dataclass
class Job:
    """A kind and how it is done."""

    name: str
    function: Callable[[Any, Chunk], Any]
    concurrency: int
    timeout: Optional[float]
    retry: Optional[Retry]

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a kind has no name")
        if self.concurrency < 0:
            raise ValueError(f"the concurrency of the kind {self.name} is {self.concurrency}; it must not be negative")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"the timeout of the kind {self.name} is {self.timeout}; it must be more than 0 seconds")
        self.type = type_of_arguments(self.function)

    def arguments(self, chunk: Chunk) -> Any:
        """The content of a chunk, as the type of the handler's first parameter."""
        if chunk.key is not None:
            raise Permanent(f"the content is the object {chunk.key!r}; arguments are JSON in the chunk itself")
        try:
            return build(self.type, json.loads(chunk.content), "it")
        except Exception as fault:  # also what a type of the program raises
            raise Permanent(f"the content is not the JSON of {name_of(self.type)}: {shown(fault)}") from fault

    def begin(self, chunk: Chunk) -> None:
        """Start the time of a handler."""
        if self.timeout is not None:
            chunk._held.until = time.monotonic() + self.timeout

    def failure(self, chunk: Chunk, error: BaseException) -> BaseException:
        """The error with which a handler's attempt ends, after the handler raised one."""
        decided = (Permanent, RetryAfter, Snooze, Cancelled, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
        if chunk._held.cancelled or isinstance(error, decided):
            return error
        if chunk._held.overdue:
            more = "" if isinstance(error, (HandlerTimeout, asyncio.TimeoutError)) else f": {type(error).__name__}: {shown(error)}"
            late = HandlerTimeout(f"the handler took too long (more than {self.timeout} s){more}")
            late.__cause__ = error
            error = late
        if self.retry is None:
            return error
        pause = self.retry(chunk, error)
        again: BaseException = Permanent(told(error)) if pause is None else RetryAfter(pause, told(error))
        again.__cause__ = chunk._held.error = error
        return again


def type_of_arguments(function: Callable[..., Any]) -> Any:
    """The type of a handler's first parameter; Any if it has none."""
    try:
        parameters = list(inspect.signature(function).parameters)
        if len(parameters) != 2:
            raise TypeError(f"the handler {name_of(function)} takes {len(parameters)} arguments; write it as def {name_of(function)}(args, chunk)")
        return typing.get_type_hints(function).get(parameters[0], Any)
    except NameError as fault:
        raise TypeError(f"the types of the handler {name_of(function)} are not known: {fault}; define them in the module, outside of functions") from None


def name_of(thing: Any) -> str:
    return str(getattr(thing, "__name__", thing))


def build(kind: Any, value: Any, at: str) -> Any:
    """A value of JSON as a type: a dataclass, a model of pydantic, an Enum, a type of JSON, and lists, dicts, unions and literals of these.
    Fields that a dataclass does not have are left out."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return build_dataclass(kind, value, at)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if origin in (Union, types.UnionType):
        return build_union(inner, value, at)
    if origin is typing.Literal:
        if not any(type(value) is type(one) and value == one for one in inner):
            raise ValueError(f"{at} is {value!r}, and none of {', '.join(map(repr, inner))}")
        return value
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and type(value) is int:
        return float(value)
    want = origin or kind
    if want is tuple:
        want = list
    elif kind is None:
        want = type(None)
    if type(value) is not want:
        raise ValueError(f"{at} is {type(value).__name__}, not {name_of(kind)}")
    if origin is list:
        return [build(inner[0], one, f"{at}[{i}]") for i, one in enumerate(value)]
    if origin is dict:
        return {key: build(inner[1], one, f"{at}[{key!r}]") for key, one in value.items()}
    if origin is tuple:
        return build_tuple(inner, value, at)
    return tuple(value) if kind is tuple else value


def build_dataclass(kind: Any, value: Any, at: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{at} is {type(value).__name__}, not an object of {kind.__name__}")
    hints = typing.get_type_hints(kind)
    given = {}
    for field in dataclasses.fields(kind):
        if field.init and field.name in value:
            given[field.name] = build(hints[field.name], value[field.name], f"{at}.{field.name}")
        elif field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{at} has no {field.name}")
    return kind(**given)


def build_union(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    for kind in kinds:
        try:
            return build(kind, value, at)
        except Exception:
            continue  # the next may fit
    raise ValueError(f"{at} is {type(value).__name__}, not one of {', '.join(map(name_of, kinds))}")


def build_tuple(kinds: tuple[Any, ...], value: list[Any], at: str) -> tuple[Any, ...]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise ValueError(f"{at} has {len(value)} entries, not {len(kinds)}")
    return tuple(build(kind, one, f"{at}[{i}]") for i, (kind, one) in enumerate(zip(kinds, value)))


def plain(value: Any) -> Any:
    """Arguments that JSON does not have by itself."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"arguments are dataclasses, models of pydantic or what JSON has; {type(value).__name__} is none of them")


_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=plain).encode


def submission_of(kind: str, *arguments: Any, **options: Any) -> dict[str, Any]:
    """Return a submission of a kind with one chunk for each of the arguments, for ``insert``, ``insert_many`` and ``chunk.then``::

        client.insert(**quern.submission_of("resize", Resize("cat.png"), unique="cat.png"))

    The options are the other arguments of :meth:`quern.Client.insert`.
    """
    meta = {**(options.pop("meta", None) or {}), META_KIND: kind}
    return {**options, "chunks": [_write(one) for one in arguments], "meta": meta}


def plans(jobs: Mapping[str, Job], options: WorkerOptions) -> list[tuple[WorkerOptions, list[Job]]]:
    """The workers: one for the kinds that share handlers, and one for each of the others."""
    if not 1 <= len(jobs) <= MAX_KINDS:
        raise ValueError(f"there are {len(jobs)} kinds; it must be from 1 to {MAX_KINDS}: add them by @client.job")
    prefetch = options.prefetch
    options.check()
    found = []
    if shared := [job for job in jobs.values() if not job.concurrency]:
        found.append((dataclasses.replace(options, strategy=selected(options.strategy, shared)), shared))
    for job in jobs.values():
        if job.concurrency:
            consumer = f"{options.consumer}-{job.name}"
            if (size := len(consumer.encode())) > MAX_CONSUMER_BYTES:
                raise ValueError(f"the consumer of the kind {job.name}, {consumer}, has {size} bytes; at most {MAX_CONSUMER_BYTES} are allowed: set a shorter consumer")
            own = dataclasses.replace(options, consumer=consumer, concurrency=job.concurrency, prefetch=prefetch, strategy=selected(options.strategy, [job]))
            own.check()
            found.append((own, [job]))
    return found


def one_at_a_time(on_error: Callable[[Error], None]) -> Callable[[Error], None]:
    """An on_error for several workers."""
    lock = threading.Lock()

    def tell(error: Error) -> None:
        with lock:
            on_error(error)

    return tell


def selected(strategy: Union[str, Mapping[str, Any], None], jobs: Iterable[Job]) -> Union[str, Mapping[str, Any]]:
    """A strategy for some kinds only."""
    names = [job.name for job in jobs]
    if isinstance(strategy, Mapping):
        return {"type": "select_any", "meta_field": META_KIND, "values": names, "underlying": strategy}
    return f"SelectAny({write_json(META_KIND)}, {write_json(names)}, {strategy or 'Random'})"


def dispatch(jobs: Iterable[Job], middleware: Iterable[Callable[[Callable[[Chunk], Output]], Callable[[Chunk], Output]]]) -> Callable[[Chunk], Output]:
    """The handler of some kinds, in threads."""
    around = list(middleware)

    def handler(job: Job) -> Callable[[Chunk], Output]:
        def act(chunk: Chunk) -> Output:
            output: Output = job.function(job.arguments(chunk), chunk)
            return output

        next_one: Callable[[Chunk], Output] = act
        for wrap in reversed(around):
            next_one = wrap(next_one)

        def bounded(chunk: Chunk) -> Output:
            job.begin(chunk)
            try:
                return next_one(chunk)
            except BaseException as error:
                if (instead := job.failure(chunk, error)) is error:
                    raise
                raise instead  # with its cause

        return bounded

    handlers = {job.name: handler(job) for job in jobs}

    def work(chunk: Chunk) -> Output:
        return of_kind(handlers, chunk)(chunk)

    return work


def async_dispatch(
    jobs: Iterable[Job], middleware: Iterable[Callable[[Callable[[Chunk], Awaitable[Output]]], Callable[[Chunk], Awaitable[Output]]]]
) -> Callable[[Chunk], Awaitable[Output]]:
    """The handler of some kinds, in tasks. One whose time is over is cancelled."""
    around = list(middleware)

    def handler(job: Job) -> Callable[[Chunk], Awaitable[Output]]:
        async def act(chunk: Chunk) -> Output:
            output: Output = await job.function(job.arguments(chunk), chunk)
            return output

        next_one: Callable[[Chunk], Awaitable[Output]] = act
        for wrap in reversed(around):
            next_one = wrap(next_one)

        async def bounded(chunk: Chunk) -> Output:
            job.begin(chunk)
            try:
                return await asyncio.wait_for(next_one(chunk), job.timeout)
            except BaseException as error:
                if (instead := job.failure(chunk, error)) is error:
                    raise
                raise instead  # with its cause

        return bounded

    handlers = {job.name: handler(job) for job in jobs}

    async def work(chunk: Chunk) -> Output:
        return await of_kind(handlers, chunk)(chunk)

    return work


T = typing.TypeVar("T")


def of_kind(handlers: Mapping[str, T], chunk: Chunk) -> T:
    found = handlers.get(str(chunk.meta.get(META_KIND)))
    if found is None:  # the strategy selects no such chunk
        raise Permanent(f"no handler for the kind {chunk.meta.get(META_KIND)!r}")
    return found


def is_dead(core: Core, held: Held) -> Procedure[bool]:
    """Whether the failure of a try was that of the last: the server says so. A later attempt that has ended has a hook of its own."""
    chunk = held.chunk
    try:
        request = Request("chunk", "GET", path("/v1/submissions/{}/chunks/{}", chunk.submission, chunk.index), safe=True)
        now = yield from core.fetch(request)
    except Error as error:
        text = f"on_dead was not called, as it is not known whether the chunk {chunk.submission}/{chunk.index} is dead: {shown(error)}"
        raise Error(text) from error
    return now["attempts"] == chunk.attempt and now["state"] in ("dead", "skipped", "forwarded")
