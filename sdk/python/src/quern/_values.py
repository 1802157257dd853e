"""Chunks, outputs, and the two ways in which JSON has bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Optional, Union

from .errors import BadAnswer, Cancelled, HandlerTimeout

if TYPE_CHECKING:
    from ._held import Held

Data = Union[str, bytes, bytearray, memoryview]

#: Writes JSON as short as it can be, with texts as they are. The hot path uses it for single texts.
#: NaN and infinity, which JSON does not have, are refused: a server would refuse the whole call for them.
write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_wire(data: Data) -> Any:
    """Bytes or a text as JSON has them: ``"text"``, or ``{"base64": "..."}`` where they are no UTF-8."""
    if isinstance(data, str):
        return data
    if not isinstance(data, (bytes, bytearray, memoryview)):  # bytes(3) would be three zero bytes
        raise TypeError(f"contents are given as str or bytes, not as {type(data).__name__}; use json.dumps for values")
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def meta_entries(name: str, meta: Mapping[str, Union[str, int]]) -> dict[str, Union[str, int]]:
    """Metadata as it is sent. JSON would turn keys that are not str into some in silence."""
    for key, value in meta.items():
        if not isinstance(key, str):
            raise TypeError(f"{name} has the key {key!r}, a {type(key).__name__}; keys are str")
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise TypeError(f"{name}[{key!r}] is {value!r}, a {type(value).__name__}; values are str or int")
    return dict(meta)


def from_wire(value: Any) -> bytes:
    """The bytes of ``"text"``, ``{"text": "..."}`` or ``{"base64": "..."}``."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and len(value) == 1:
        if "text" in value:
            return str(value["text"]).encode()
        if "base64" in value:
            return base64.b64decode(value["base64"])
    raise BadAnswer(f"these are no bytes: {str(value)[:80]}")


@dataclass(frozen=True)
class Output:
    """The output of a chunk."""

    index: int
    data: bytes
    submission: str = ""  # the id of its submission, from outputs_of

    @property
    def text(self) -> str:
        """The output as a text; it raises ``UnicodeDecodeError`` where it is none."""
        return self.data.decode()


class Chunk:
    """The chunk that a handler works on."""

    __slots__ = ("_held", "_raw")

    def __init__(self, raw: dict[str, Any], held: Held) -> None:
        self._raw = raw
        self._held = held

    @property
    def submission(self) -> str:
        """The id of the submission."""
        return str(self._raw["submission"])

    @property
    def index(self) -> int:
        """The chunk's number in the submission, from 0."""
        return int(self._raw["index"])

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return int(self._raw["attempt"])

    @property
    def deadline(self) -> str:
        """Deadline at the time of the reservation, in RFC 3339. The worker extends it."""
        return str(self._raw["deadline"])

    @property
    def created_at(self) -> str:
        """Time of the insert, in RFC 3339. The submission's id tells it."""
        inserted = int(self.submission) >> 22  # milliseconds since 1970
        moment = datetime.fromtimestamp(inserted // 1000, timezone.utc)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{inserted % 1000:03}Z"

    @property
    def ready_at(self) -> str:
        """Start of the wait for this attempt: the insert, its run_at, or the end of the previous attempt or its back-off."""
        return str(self._raw.get("ready_at") or self.created_at)

    @property
    def content(self) -> bytes:
        """The content; empty if ``key`` is set."""
        content = self._raw["content"]
        return b"" if "key" in content else from_wire(content)

    @property
    def text(self) -> str:
        """The content as a text; it raises ``UnicodeDecodeError`` where it is none."""
        content = self._raw["content"]
        return str(content["text"]) if "text" in content else self.content.decode()

    @property
    def key(self) -> Optional[str]:
        """The key of the object that holds the content, or None if the chunk holds it."""
        content = self._raw["content"]
        return str(content["key"]) if "key" in content else None

    @property
    def meta(self) -> Mapping[str, Union[str, int]]:
        """The submission's meta."""
        return self._raw.get("meta") or {}

    @property
    def priority(self) -> int:
        """The submission's priority."""
        return int(self._raw.get("priority", 0))

    @property
    def attachment(self) -> Optional[bytes]:
        """The submission's attachment, or None."""
        raw = self._raw.get("attachment")
        return None if raw is None else from_wire(raw)

    @property
    def trace(self) -> str:
        """The trace of the submission: a W3C traceparent, optionally followed by ``;`` and the tracestate; or ``""``."""
        return str(self._raw.get("trace", ""))

    @property
    def cancelled(self) -> bool:
        """Whether the handler's result no longer counts: the reservation was lost or revoked, the grace period of a drain is over, or the
        timeout of the chunk's kind is over."""
        return self._held.cancelled or self._held.overdue

    def then(self, chunks: Optional[Iterable[Data]] = None, **submission: Any) -> None:
        """Insert a submission into the chunk's queue if the handler returns. The server completes the chunk and inserts the submission in
        one commit, so a crash never leaves one without the other. The arguments are those of :meth:`quern.Client.insert`, without
        ``queue``.

        A handler can call it up to 100 times. If a submission is invalid, the chunk fails for good. If the server has no room for it,
        the attempt fails, and the server retries the chunk after its back-off. A submission without a ``trace`` gets the trace of the
        chunk.
        """
        from ._produce import following

        submission.setdefault("trace", self.trace)
        self._held.then.append(following(chunks, **submission))

    def progress(self, part: float, note: str = "") -> None:
        """Report how much of the work is done, from 0 to 1, and a note about the current step. It is for people: the dashboard and
        ``quern reservations`` show it until the chunk is finished. It returns at once. Within about a second, the worker sends the
        latest reports of all its chunks together. An empty note keeps the previous one. A long note is cut to 256 bytes."""
        self._held.say(part, note)

    def check(self) -> None:
        """Raise :class:`Cancelled` if the handler's result no longer counts, and :class:`HandlerTimeout` if the timeout of the chunk's
        kind is over. Call this now and then in a handler that runs in a thread."""
        if self._held.cancelled:
            raise Cancelled(f"chunk {self.submission}/{self.index}")
        if self._held.overdue:
            raise HandlerTimeout("the handler took too long")

    def sleep(self, seconds: float) -> None:
        """Sleep in a handler that runs in a thread. Raise :class:`Cancelled` as soon as the handler's result no longer counts."""
        self._held.wait(seconds)
        self.check()

    def __repr__(self) -> str:
        return f"<Chunk {self.submission}/{self.index} attempt {self.attempt}>"
