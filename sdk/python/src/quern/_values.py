"""Chunks, outputs, and the two ways in which JSON has bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    """What a handler returned for a chunk."""

    index: int
    data: bytes

    @property
    def text(self) -> str:
        """The output as a text; it raises ``UnicodeDecodeError`` where it is none."""
        return self.data.decode()


class Chunk:
    """A piece of work in a handler's hands."""

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
        """1 for the first try."""
        return int(self._raw["attempt"])

    @property
    def deadline(self) -> str:
        """Until when it was reserved, in RFC 3339. The worker extends it."""
        return str(self._raw["deadline"])

    @property
    def created_at(self) -> str:
        """Time of the insert."""
        return str(self._raw["created_at"])

    @property
    def ready_at(self) -> str:
        """Time since when the chunk waited for this attempt: that of the insert, its run_at, or the end of the attempt or back-off before."""
        return str(self._raw["ready_at"])

    @property
    def content(self) -> bytes:
        """What the chunk carries; empty when ``key`` is set."""
        content = self._raw["content"]
        return b"" if "key" in content else from_wire(content)

    @property
    def text(self) -> str:
        """The content as a text; it raises ``UnicodeDecodeError`` where it is none."""
        content = self._raw["content"]
        return str(content["text"]) if "text" in content else self.content.decode()

    @property
    def key(self) -> Optional[str]:
        """The key of the object that holds the content, or None when the chunk carries it."""
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
        """The trace that the submission belongs to: a W3C traceparent, perhaps with ``;`` and a tracestate; or ``""``."""
        return str(self._raw.get("trace", ""))

    @property
    def cancelled(self) -> bool:
        """Whether the work does not count any more: the reservation was lost or revoked, or the grace period of a drain is over. And whether
        the timeout of the chunk's kind is over."""
        return self._held.cancelled or self._held.overdue

    def then(self, chunks: Optional[Iterable[Data]] = None, **submission: Any) -> None:
        """Have a submission inserted into the chunk's queue when the handler returns, in the commit of the completion: the chunk is done
        and the submission is there, or neither, whatever crashes meanwhile. The arguments are those of :meth:`quern.Client.insert`, but for
        ``queue``.

        It may be called up to 100 times. A submission that the server refuses as wrong fails the chunk for good; one for which it has no room
        now fails the try, which is made again after its back-off. A submission without a ``trace`` gets the chunk's."""
        from ._produce import following

        submission.setdefault("trace", self.trace)
        self._held.then.append(following(chunks, **submission))

    def progress(self, part: float, note: str = "") -> None:
        """Say how much of the work is done, from 0 to 1, and what is done now. It is for people: the dashboard and ``quern reservations`` show
        it until the chunk is finished. It returns at once. The worker sends what was said last, within about a second and for all its chunks
        together. An empty note leaves the one before; of a long one the first 256 bytes are kept."""
        self._held.say(part, note)

    def check(self) -> None:
        """Raise :class:`Cancelled` when the work does not count any more, and :class:`HandlerTimeout` when the timeout of the chunk's kind is
        over. Handlers that are threads call it now and then."""
        if self._held.cancelled:
            raise Cancelled(f"chunk {self.submission}/{self.index}")
        if self._held.overdue:
            raise HandlerTimeout("the handler took too long")

    def sleep(self, seconds: float) -> None:
        """Sleep in a handler that is a thread; :class:`Cancelled` is raised as soon as the work does not count any more."""
        self._held.wait(seconds)
        self.check()

    def __repr__(self) -> str:
        return f"<Chunk {self.submission}/{self.index} attempt {self.attempt}>"
