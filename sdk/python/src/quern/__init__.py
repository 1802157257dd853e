"""A client of Quern, a queue server for very large batches of work.

A producer::

    with quern.Client("http://127.0.0.1:7700") as client:
        submission = client.insert(["row 1", "row 2"], meta={"company": 7})
        client.wait(submission)
        for output in client.outputs(submission):
            print(output.index, output.text)

A consumer::

    client = quern.Client("http://127.0.0.1:7700")

    @client.worker(concurrency=8)
    def shout(chunk: quern.Chunk) -> str:
        return chunk.text.upper()

    shout.run()

``AsyncClient`` has the same for asyncio.
"""

from . import types
from ._async_client import AsyncClient
from ._asyncio import AsyncWorker, AsyncWorkers
from ._client import Client
from ._core import Call, Event, set_trace_context, trace_context
from ._jobs import submission_of
from ._threads import Worker, Workers
from ._ends import End
from ._values import Chunk, Output, from_wire, to_wire
from .errors import (
    BadAnswer,
    Busy,
    Cancelled,
    Conflict,
    Drained,
    Error,
    Forbidden,
    HandlerFailed,
    HandlerTimeout,
    Invalid,
    NoAnswer,
    NotFound,
    NotTrusted,
    Permanent,
    Refused,
    ReservationLost,
    RetryAfter,
    Snooze,
    StrategyWithoutEffect,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unavailable,
    Undelivered,
)

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncWorker", "AsyncWorkers", "BadAnswer", "Busy", "Call", "Cancelled", "Chunk", "Client", "Conflict", "Drained", "End", "Error", "Event",
    "Forbidden", "HandlerFailed", "HandlerTimeout", "Invalid", "NoAnswer", "NotFound", "NotTrusted", "Output", "Permanent", "Refused", "ReservationLost",
    "RetryAfter", "Snooze", "StrategyWithoutEffect", "TimedOut", "TooLarge", "Unauthorized", "Unavailable", "Undelivered", "Worker", "Workers", "from_wire", "set_trace_context",
    "submission_of", "to_wire", "trace_context", "types",
]  # fmt: skip
