"""The submissions that producers send."""

from __future__ import annotations

import dataclasses
import datetime
import os
import random
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union

from ._core import add_trace, path
from ._http import Request, visible
from ._values import Data, meta_entries, to_wire, write_json
from .errors import BadAnswer, Invalid, Refused

Submission = Union[str, Mapping[str, Any]]  # its id, or the dict that insert returned


OUTPUTS_PAGE = 1000  # outputs of many submissions in one page

Chunks = TypeVar("Chunks")


def submission_id(submission: Submission) -> str:
    """The id of a submission."""
    return submission if isinstance(submission, str) else str(submission["id"])


draws = random.Random(secrets.randbits(128))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: draws.seed(secrets.randbits(128)))


def new_key() -> str:
    """An idempotency key. It does not come from the kernel: such a call gives up the interpreter's lock, and inserting threads would wait
    for the lock. The time tells copies of a process apart that draw the same, such as those of a machine that was restored from a
    snapshot."""
    return f"{draws.getrandbits(64):016x}{time.time_ns():016x}"


def fields(
    *,
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
) -> dict[str, Any]:
    """A new submission without its chunks."""
    given = {
        "meta": None if meta is None else meta_entries("meta", meta),
        "priority": priority,
        "attachment": None if attachment is None else to_wire(attachment),
        "operations_per_chunk": operations_per_chunk,
        "run_at": moment("run_at", run_at),
        "dead_deadline": moment("dead_deadline", dead_deadline),
        "max_attempts": max_attempts,
        "on_exhausted": on_exhausted,
        "retry_backoff": retry_backoff,
        "max_failed_chunks": max_failed_chunks,
        "timeout_ms": timeout_ms,
        "group": group,
        "unique": {"key": unique} if isinstance(unique, str) else unique,
        "after": after if after is None or isinstance(after, Mapping) else {"ids": [after] if isinstance(after, str) else list(after)},
    }
    return {name: value for name, value in given.items() if value is not None}


def moment(name: str, at: Optional[datetime.datetime]) -> Optional[str]:
    """A time as the server reads it."""
    if at is None:
        return None
    if at.utcoffset() is None:
        raise ValueError(f"{name} has no time zone: write it as datetime(..., tzinfo=timezone.utc), or with .astimezone()")
    return at.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def work(chunks: Optional[Iterable[Data]], count: Optional[int], prefix: Optional[str], template: Optional[str]) -> dict[str, Any]:
    """The chunks of a new submission, in exactly one of three forms."""
    if sum(form is not None for form in (chunks, prefix, template)) != 1 or (chunks is None) != (count is not None):
        raise ValueError("say what the chunks are, in one of three forms: chunks=[...]; count= with prefix=; count= with template=")
    if chunks is not None:
        return {"inline": [to_wire(chunk) for chunk in each_of(chunks)]}
    if prefix is not None:
        return {"count": count, "prefix": prefix}
    return {"count": count, "template": template}


def each_of(chunks: Chunks) -> Chunks:
    """The chunks, unless they are a single text, which would give its letters."""
    if isinstance(chunks, (str, bytes, bytearray, memoryview)):
        raise TypeError("chunks is a single text; give a list of them")
    return chunks


def insert(queue: str, submission: Mapping[str, Any], key: Optional[str], trace: Optional[str], streamed: bool = False) -> Request:
    """The request that inserts a submission; of a streamed one the head, which :func:`lines` follows."""
    key = new_key() if key is None else key
    if not isinstance(key, str):
        raise TypeError(f"the idempotency key is a {type(key).__name__}; it must be str")
    if not 1 <= len(key) <= 255 or not visible(key):
        raise ValueError(f"the idempotency key {key!r} is not 1 to 255 visible ASCII characters")
    headers = {"Content-Type": "application/x-ndjson" if streamed else "application/json", "Idempotency-Key": key}
    if trace:
        add_trace(headers, trace)
    body = b"" if streamed else write_json(submission).encode()
    return Request("insert", "POST", path("/v1/queues/{}/submissions", queue), body, headers, safe=not streamed, streamed=streamed)


# Bounds of one call of many. A larger call makes no insert cheaper, and delays the other callers that share the commit.
CALL_COUNT = 1000
CALL_BYTES = 8 << 20


@dataclasses.dataclass
class Batch:
    """One call of many: the request, and which of the given submissions it inserts."""

    request: Request
    places: list[int]

    def results(self, answer: Any) -> Iterator[tuple[int, Any]]:
        """The result of each: the submission, or the error that a call of its own would have raised."""
        if len(answer["results"]) != len(self.places):
            raise BadAnswer(f"the answer has {len(answer['results'])} results for {len(self.places)} submissions")
        for at, (place, result) in enumerate(zip(self.places, answer["results"])):
            yield place, result["submission"] if "submission" in result else refused_one(result, f"/submissions/{at}")


def batches(given: Sequence[Mapping[str, Any]]) -> Iterator[Batch]:
    """Cut submissions, each given by the arguments of insert, into calls. All are checked before the first call."""
    waiting: dict[str, tuple[list[int], list[bytes]]] = {}
    cut: list[tuple[str, list[int], list[bytes]]] = []
    for place, arguments in enumerate(given):
        queue, text = one_of_many(**arguments)
        places, texts = waiting.setdefault(queue, ([], []))
        if len(texts) == CALL_COUNT or texts and sum(map(len, texts)) + len(text) > CALL_BYTES:
            cut.append((queue, places, texts))
            places, texts = waiting[queue] = ([], [])
        places.append(place)
        texts.append(text)
    cut += [(queue, places, texts) for queue, (places, texts) in waiting.items()]
    for queue, places, texts in cut:
        target, body = path("/v1/queues/{}/submissions:batch", queue), b'{"submissions":[' + b",".join(texts) + b"]}"
        yield Batch(Request("insert many", "POST", target, body, {"Content-Type": "application/json"}, safe=True), places)


def one_of_many(
    chunks: Optional[Iterable[Data]] = None,
    *,
    queue: str = "default",
    count: Optional[int] = None,
    prefix: Optional[str] = None,
    template: Optional[str] = None,
    key: Optional[str] = None,
    trace: Optional[str] = None,
    **rest: Any,
) -> tuple[str, bytes]:
    """The queue and the JSON of one submission of many."""
    return queue, following(chunks, count=count, prefix=prefix, template=template, key=new_key() if key is None else key, trace=trace, **rest)


def following(
    chunks: Optional[Iterable[Data]] = None,
    *,
    count: Optional[int] = None,
    prefix: Optional[str] = None,
    template: Optional[str] = None,
    key: Optional[str] = None,
    trace: Optional[str] = None,
    **rest: Any,
) -> bytes:
    """The JSON of a submission that is inserted among others."""
    submission = fields(**rest)
    submission["chunks"] = work(chunks, count, prefix, template)
    if key is not None:
        submission["idempotency_key"] = key
    if trace:
        submission["trace"] = trace
    return write_json(submission).encode()


def refused_one(result: Mapping[str, Any], at: str) -> Refused:
    """The error of one submission of many."""
    problem = {"code": result.get("code", ""), "detail": result.get("detail", "")}
    if result["status"] != "invalid":
        return Refused(422, problem)
    pointer = result.get("pointer", "")
    wrong = {"pointer": pointer[len(at) :] if pointer.startswith(at) else pointer, "detail": problem["detail"]}
    return Invalid(422, {**problem, "detail": "The request is not valid.", "errors": [wrong]})


def line(value: Any) -> bytes:
    """One line of a streamed insert: the submission without its chunks, then each chunk."""
    return write_json(value).encode() + b"\n"
