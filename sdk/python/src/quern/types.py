"""What the server's answers and requests look like: each is a dict.

Written by generate.py from the server's OpenAPI document; changes go there."""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union

__all__ = [
    "Amount",
    "Attempt",
    "AuditEntry",
    "BackfillRequest",
    "Backfilled",
    "Backoff",
    "Base64",
    "BatchSubmission",
    "BulkFilter",
    "BulkOperation",
    "BulkRequest",
    "Bytes",
    "Cause",
    "ChangeQueueRequest",
    "Check",
    "Chunk",
    "ChunkMap",
    "Chunks",
    "Closed",
    "CompareAnswer",
    "CompareRequest",
    "CompleteItem",
    "CompleteRequest",
    "Consumer",
    "ConsumerDetail",
    "ConsumersFrame",
    "Content",
    "CounterDrift",
    "CustomPriorityBlock",
    "DeadGroup",
    "DeadGroups",
    "DeadLetter",
    "Diagnosis",
    "Emission",
    "EndsGap",
    "ExchangeAnswer",
    "ExchangeRequest",
    "ExplainAnswer",
    "ExplainBlock",
    "ExplainBranch",
    "ExplainFair",
    "ExplainPick",
    "ExtendItem",
    "ExtendRequest",
    "FailItem",
    "FailRequest",
    "FairBlock",
    "ForwardRequest",
    "HeldChunk",
    "HeldReservation",
    "Hello",
    "Holding",
    "InsertManyAnswer",
    "InsertManyRequest",
    "InsertResult",
    "Key",
    "KeyFrame",
    "KeySeries",
    "KeySpread",
    "KeysFrame",
    "LagClass",
    "Ledger",
    "LedgerTenant",
    "LedgerTenants",
    "Lifecycle",
    "LifecycleKind",
    "MaxSimultaneousBlock",
    "Meta",
    "MetaKey",
    "MetaValue",
    "NamedStrategy",
    "NewSession",
    "NewSubmission",
    "NewSubmissionHead",
    "NewToken",
    "NewestFirstBlock",
    "OldestFirstBlock",
    "OrElseBlock",
    "Origin",
    "Output",
    "PageAttempt",
    "PageAuditEntry",
    "PageBulkOperation",
    "PageChunk",
    "PageConsumer",
    "PageDeadLetter",
    "PageHeldReservation",
    "PageLedger",
    "PageMetaKey",
    "PageNamedStrategy",
    "PagePlugin",
    "PagePluginRecording",
    "PagePluginScores",
    "PagePluginVersion",
    "PageQueue",
    "PageRule",
    "PageSchedule",
    "PageSubmission",
    "PageToken",
    "PageValueCount",
    "ParkedAction",
    "Plugin",
    "PluginBin",
    "PluginBlock",
    "PluginBreaker",
    "PluginDryRun",
    "PluginLive",
    "PluginLogLine",
    "PluginLogs",
    "PluginPick",
    "PluginRecording",
    "PluginReplay",
    "PluginReport",
    "PluginScores",
    "PluginSelection",
    "PluginSettings",
    "PluginShadow",
    "PluginStats",
    "PluginTakenBin",
    "PluginTried",
    "PluginUse",
    "PluginVersion",
    "PreferDistinctBlock",
    "PreviewAnswer",
    "PreviewPick",
    "PreviewRequest",
    "Problem",
    "ProblemError",
    "PutQueueRequest",
    "Quarantined",
    "Queue",
    "QueueSettings",
    "QueueSettingsInput",
    "RandomBlock",
    "Rates",
    "Readiness",
    "Recount",
    "RecountDrift",
    "RefusedValue",
    "ReleaseItem",
    "ReleaseRequest",
    "Released",
    "Reservation",
    "ReserveAnswer",
    "ReserveRequest",
    "Result",
    "ResultsAnswer",
    "Retried",
    "Revoked",
    "RevokedEvent",
    "RotateToken",
    "Rule",
    "RuleEffects",
    "RuleMatch",
    "RuleRequest",
    "RuledAmount",
    "Saturated",
    "Schedule",
    "ScheduleDefinition",
    "ScheduleNow",
    "SchedulePreview",
    "SchedulePreviewRequest",
    "ScheduleTemplate",
    "ScheduleTick",
    "SchedulesFrame",
    "ScoreBlock",
    "SelectOnlyBlock",
    "Series",
    "ServerOption",
    "ServerOptions",
    "Session",
    "Skipped",
    "Spread",
    "Stats",
    "StatsFrame",
    "StrategiesInUse",
    "Strategy",
    "StrategyBlock",
    "StrategyByName",
    "StrategyNode",
    "StrategyRequest",
    "StrategyUse",
    "StrategyWarning",
    "Submission",
    "SubmissionChange",
    "Suspects",
    "Tenant",
    "TenantLately",
    "Text",
    "Token",
    "ValidStrategy",
    "ValueCount",
    "ValueSeries",
    "ValueSettings",
    "ValueSum",
    "Version",
    "View",
    "Views",
    "WaitAnswer",
    "WaitRequest",
    "Whoami",
    "WhyAnswer",
    "WhyBranch",
    "WhyRequest",
    "WhyStanding",
    "Withheld",
]


#: Opaque bytes: read from a bare string (text), {text} or {base64}; written as {text} when they are UTF-8, else as {base64}. A
#: string is not an object, and of the objects the one field tells which it is
Bytes = Union[str, "Text", "Base64"]

#: What a chunk carries: bytes, or the key of an object in object storage. It is an object whose one field tells which
Content = Union["Text", "Base64", "Key"]

#: A string or a whole number of 64 bits; "7" and 7 are different values
MetaValue = Union[str, int]

#: What to hand out next: a string is the text form (OrElse(SelectOnly("mode", "preview", Random), OldestFirst)), an object with the
#: field name one that the queue keeps under a name, and an object with the field type a block
Strategy = Union[str, "StrategyByName", "StrategyBlock"]

#: A block with its arguments; type says which
StrategyBlock = Union["CustomPriorityBlock", "FairBlock", "MaxSimultaneousBlock", "NewestFirstBlock", "OldestFirstBlock", "OrElseBlock", "PluginBlock", "PreferDistinctBlock", "RandomBlock", "ScoreBlock", "SelectOnlyBlock"]

#: A strategy within another: a string is the text form, or the type of a block without arguments; an object is a block
StrategyNode = Union[str, "StrategyBlock"]


class Amount(TypedDict):
    """Amount: see the server's OpenAPI document."""
    #: Their ready chunks
    chunks: int
    #: Submissions with ready chunks
    submissions: int


class _AttemptRequired(TypedDict):
    #: When it ended
    ended_at: str
    #: For how long
    held_ms: int


class Attempt(_AttemptRequired, total=False):
    """Attempt: see the server's OpenAPI document."""
    #: Who held the chunk
    consumer: str
    #: What the consumer reported; of all but the last one the first 256 bytes
    error: str
    #: Whether its deadline ended it
    expired: bool
    #: Whether it ended because its consumer was lost
    lost: bool


_AuditEntryOdd = TypedDict("_AuditEntryOdd", {"from": "str"}, total=False)


class _AuditEntryRequired(TypedDict):
    #: What was done: a resource and a verb, such as rule.create
    action: str
    #: Name of the token that it was done with; on a server without tokens what the client said, or empty; empty also of what the server
    #: did by itself
    actor: str
    #: When it was decided
    at: str
    #: What came of it
    outcome: Literal["ok", "refused"]


class AuditEntry(_AuditEntryOdd, _AuditEntryRequired, total=False):
    """AuditEntry: see the server's OpenAPI document."""
    #: The same as it stood afterwards; absent when there is nothing left
    after: Any
    #: What was changed as it stood before; absent when there was nothing. One that takes more than 16 KiB is given by its size
    before: Any
    #: Whom the client said it acts for, in the header Quern-On-Behalf-Of
    on_behalf_of: str
    #: Queue that it was done in; absent of what is about the server as a whole
    queue: str
    #: Id of the request, as its answer has it in X-Request-ID
    request_id: str
    #: What it was done to, such as `rule 7`; absent of the queue or the server itself
    target: str


_BackfillRequestOdd = TypedDict("_BackfillRequestOdd", {"from": "str"}, total=False)


class _BackfillRequestRequired(TypedDict):
    #: Ticks up to this time, which must be in the past
    to: str


class BackfillRequest(_BackfillRequestOdd, _BackfillRequestRequired, total=False):
    """BackfillRequest: see the server's OpenAPI document."""
    #: Only count the ticks, however many they are; nothing is inserted
    dry_run: bool
    #: More ticks than this are refused; default 100
    limit: int


class _BackfilledRequired(TypedDict):
    #: Their ids, by the time of their ticks; none of a dry run
    submissions: list[str]
    #: Ticks that lie in the time that was asked for
    ticks: int


class Backfilled(_BackfilledRequired, total=False):
    """Backfilled: see the server's OpenAPI document."""
    #: Of a dry run, the first of them
    first_at: str


class Backoff(TypedDict):
    """Backoff: see the server's OpenAPI document."""
    #: Longest delay after the first try
    base_ms: int
    #: No delay is longer
    cap_ms: int
    #: Growth from try to try, 1 or more; 0 with a base of 0
    factor: float


class Base64(TypedDict):
    """Bytes in base64."""
    #: Bytes in base64
    base64: str


class _BatchSubmissionRequired(TypedDict):
    #: The work, in exactly one of three forms
    chunks: Chunks


class BatchSubmission(_BatchSubmissionRequired, total=False):
    """BatchSubmission: see the server's OpenAPI document."""
    #: At most 64 KiB of opaque bytes that go out with every reservation
    attachment: Bytes
    #: When it expires if it is still open; after run_at
    dead_deadline: str
    #: Name of a group; it is kept and shown, and does nothing yet
    group: str
    #: As the header Idempotency-Key of a single insert
    idempotency_key: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: What strategies see
    meta: Meta
    #: What a chunk out of attempts does; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: Not handed out before
    run_at: str
    #: W3C traceparent, and after ';' the tracestate, for this submission: in the place of the headers
    trace: str


class BulkFilter(TypedDict, total=False):
    """BulkFilter: see the server's OpenAPI document."""
    #: Of submissions that were inserted then or later
    created_after: str
    #: Of submissions that were inserted earlier than this
    created_before: str
    #: Chunks whose last try ended at this time or later
    died_after: str
    #: Chunks whose last try ended earlier than this
    died_before: str
    #: Chunks whose last error has this fingerprint
    fingerprint: str
    #: Of submissions with these values only
    meta: Meta
    #: Of the dead letters that the rest of the filter means so many at most: those that died first. Which those are is settled at the
    #: start. 0 or absent: all
    oldest: int
    #: Of submissions in one of these states only: open; for dead letters also completed_with_dead
    states: list[str]
    #: Of this submission only
    submission: str


class _BulkOperationRequired(TypedDict):
    #: What is done with each
    action: Literal["redrive", "delete", "forward", "retry", "cancel", "reprioritize"]
    #: When it was started; what came later is not meant
    created_at: str
    #: What the action was done with; of a dry run: would be
    done: int
    #: Count what would come of it, and change nothing
    dry_run: bool
    #: Names it
    id: str
    #: What it came to so far and the filter means: the sum of done, unchanged and refused
    matched: int
    #: The queue
    queue: str
    #: Most chunks or submissions per second; 0: as fast as it goes
    rate_per_second: int
    #: What does not allow it, such as a dead letter whose submission has a dead_deadline that passed
    refused: int
    #: All but running are final
    state: Literal["running", "completed", "cancelled", "failed"]
    #: What it did not change: another caller was first, or nothing was left to do
    unchanged: int


class BulkOperation(_BulkOperationRequired, total=False):
    """BulkOperation: see the server's OpenAPI document."""
    #: Who started it: the name of the access token; where none is needed, what the request says, at most 128 bytes
    actor: str
    #: Who cancelled it, as he said
    cancelled_by: str
    #: How much it walked over so far of what there was at its start, whether the filter means it or not: dead letters, chunks that wait
    #: for a retry, or open submissions of the queue, or of the one submission of the filter
    examined: int
    #: Why it failed
    failure: str
    #: What it is about; everything given has to fit, and nothing given means all
    filter: BulkFilter
    #: When it ended
    finished_at: str
    #: How much of it was walked over, rounded down: 100 when it has completed, and not before
    percent: int
    #: Of reprioritize: the new priority
    priority: int
    #: Until it has walked over all, at its pace of the last minute, or at rate_per_second as long as that is not known. Absent: it has
    #: ended, or nothing tells
    remaining_ms: int
    #: Of forward: the queue that dead letters go on to
    to: str
    #: How much there is to walk over: what was counted at the start, and less when so much of that went away meanwhile. Never less than
    #: examined; the same when it has completed
    to_examine: int


class _BulkRequestRequired(TypedDict):
    #: What is done with each
    action: Literal["redrive", "delete", "forward", "retry", "cancel", "reprioritize"]
    #: The queue
    queue: str


class BulkRequest(_BulkRequestRequired, total=False):
    """BulkRequest: see the server's OpenAPI document."""
    #: Who started it: the name of the access token; where none is needed, what the request says, at most 128 bytes
    actor: str
    #: Count what would come of it, and change nothing
    dry_run: bool
    #: What it is about; everything given has to fit, and nothing given means all
    filter: BulkFilter
    #: Of reprioritize: the new priority
    priority: int
    #: Most chunks or submissions per second; 0: as fast as it goes
    rate_per_second: int
    #: Of forward: the queue that dead letters go on to
    to: str


class _CauseRequired(TypedDict):
    #: Open chunks that it is about; each counts for its first cause
    chunks: int
    #: The cause in words: a part of a sentence
    detail: str
    #: What keeps the chunks; none: nothing does. limit includes the restart grace, not_due the wait for the next try, unasked means that
    #: no strategy in use selects them
    kind: Literal["limit", "rule", "not_due", "dead", "empty", "unasked", "none"]
    #: Their submissions
    submissions: int


class Cause(_CauseRequired, total=False):
    """Cause: see the server's OpenAPI document."""
    #: Of limit: chunks of that value that are held; absent during the restart grace
    in_flight: int
    #: Of limit: the meta key
    key: str
    #: When that strategy was last reserved by
    last_used: str
    #: Of limit: how many may be
    max: int
    #: Of rule: the one that counts. A tenant's token sees only those about its own
    rule: Rule
    #: Of none: the strategy used last that selects them; of limit: the one whose limit it is, absent for an operator's
    strategy: str
    #: Of not_due: the first time that is known; of rule: when it ends by itself; of limit: the end of the restart grace
    until: str
    #: Of limit: its value
    value: MetaValue


class ChangeQueueRequest(TypedDict, total=False):
    """ChangeQueueRequest: see the server's OpenAPI document."""
    #: What is left out stays as it is
    settings: QueueSettingsInput


class _CheckRequired(TypedDict):
    #: What was checked
    name: str
    #: Whether it works
    ok: bool


class Check(_CheckRequired, total=False):
    """Check: see the server's OpenAPI document."""
    #: How it stands
    detail: str


class _ChunkRequired(TypedDict):
    #: Tries that ended without success
    attempts: int
    #: From 0
    index: int
    #: Where it stands
    state: Literal["ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"]


class Chunk(_ChunkRequired, total=False):
    """Chunk: see the server's OpenAPI document."""
    #: Of a reserved chunk: who holds it
    consumer: str
    #: Of a reserved chunk: until when
    deadline: str
    #: The last failure
    error: str
    #: Of a forwarded chunk: the queue that it went on to
    forwarded_to: str
    #: Of a waiting chunk: not handed out before
    not_before: str
    #: Of a done chunk that has one
    output: Bytes


_ChunkMapOdd = TypedDict("_ChunkMapOdd", {"from": "int"}, total=False)


class _ChunkMapRequired(TypedDict):
    #: Of the submission
    chunks: int
    #: Chunks of each cell that are dead
    dead: list[int]
    #: Chunks of each cell that are done
    done: list[int]
    #: Chunks in a cell; the last one may have fewer
    each: int
    #: Chunks of each cell that are ready
    ready: list[int]
    #: Chunks of each cell that are reserved
    reserved: list[int]
    #: Chunks of each cell that are skipped
    skipped: list[int]
    #: Index behind the last one; less than chunks: go on from here
    to: int
    #: Chunks of each cell that are waiting
    waiting: list[int]


class ChunkMap(_ChunkMapOdd, _ChunkMapRequired, total=False):
    """ChunkMap: see the server's OpenAPI document."""
    #: What a rule makes of the ready chunks of all cells: none of them is handed out. Absent: no rule covers them
    ruling: Literal["paused", "blocked"]


class Chunks(TypedDict, total=False):
    """Chunks: see the server's OpenAPI document."""
    #: Number of chunks, with prefix or template
    count: int
    #: One entry per chunk, each at most 1 MiB
    inline: list[Bytes]
    #: Contents lie in object storage at prefix + index
    prefix: str
    #: Content is this text with each {index} replaced
    template: str


class Closed(TypedDict):
    """Closed: see the server's OpenAPI document."""
    #: Stable name of the reason, as in Problem
    code: str
    #: The reason in words, and what can be done
    detail: str
    #: Name of the queue
    queue: str


class _CompareAnswerRequired(TypedDict):
    #: Of the one strategy
    a: Spread
    #: Of the other
    b: Spread
    #: The first that only the one would hand out, in its order
    only_a: list[PreviewPick]
    #: The first that only the other would
    only_b: list[PreviewPick]
    #: Chunks that both would hand out
    overlap: int
    #: What Random drew by; ask with it again to get the same picks from the same state
    seed: int


class CompareAnswer(_CompareAnswerRequired, total=False):
    """CompareAnswer: see the server's OpenAPI document."""
    #: Until then the restart grace keeps back what a limit counts, and it is not among the picks; absent: there is none
    restart_grace_until: str


class _CompareRequestRequired(TypedDict):
    #: The one strategy
    a: Strategy
    #: The other
    b: Strategy


class CompareRequest(_CompareRequestRequired, total=False):
    """CompareRequest: see the server's OpenAPI document."""
    #: What the consumer would say about itself to plugins and formulas, as in a reservation: at most 16 keys
    context: Meta
    #: Most chunks to look ahead; 0 or absent: 10
    max: int
    #: The same seed on the same state gives the same picks; absent: any
    seed: int


class _CompleteItemRequired(TypedDict):
    #: As the reservation gave it
    token: str


class CompleteItem(_CompleteItemRequired, total=False):
    """CompleteItem: see the server's OpenAPI document."""
    #: At most 1 MiB, kept with the chunk
    output: Bytes


class CompleteRequest(TypedDict):
    """CompleteRequest: see the server's OpenAPI document."""
    #: What was done
    items: list[CompleteItem]


class _ConsumerRequired(TypedDict):
    #: Its name
    consumer: str
    #: Whether an operator told it to finish what it holds and leave
    draining: bool
    #: Of them, those that it holds for longer than the queue's reservation_timeout_ms; at most 1,000 are counted
    overdue: int
    #: Whether an operator keeps work from it
    quiet: bool
    #: Chunks that it holds
    reserved: int
    #: attached: it has a stream open. away: its stream is broken, and the queue's consumer_grace_ms is not over. detached: only
    #: deadlines end what it holds
    state: Literal["attached", "away", "detached"]


class Consumer(_ConsumerRequired, total=False):
    """Consumer: see the server's OpenAPI document."""
    #: When it attached
    attached_since: str
    #: Since when its stream is broken
    away_since: str
    #: Its last sign of life
    last_seen_at: str
    #: While away: when what it holds is lost, unless it is heard of
    lost_at: str
    #: Since when it holds the oldest of them
    oldest_reserved_at: str


class _ConsumerDetailRequired(TypedDict):
    #: Its name
    consumer: str
    #: Whether an operator told it to finish what it holds and leave
    draining: bool
    #: What it holds, the oldest reservation first
    items: list[HeldChunk]
    #: Of them, those that it holds for longer than the queue's reservation_timeout_ms; at most 1,000 are counted
    overdue: int
    #: Whether an operator keeps work from it
    quiet: bool
    #: Chunks that it holds
    reserved: int
    #: attached: it has a stream open. away: its stream is broken, and the queue's consumer_grace_ms is not over. detached: only
    #: deadlines end what it holds
    state: Literal["attached", "away", "detached"]


class ConsumerDetail(_ConsumerDetailRequired, total=False):
    """ConsumerDetail: see the server's OpenAPI document."""
    #: When it attached
    attached_since: str
    #: Since when its stream is broken
    away_since: str
    #: Its last sign of life
    last_seen_at: str
    #: While away: when what it holds is lost, unless it is heard of
    lost_at: str
    #: Cursor of the next page; absent on the last
    next: str
    #: Since when it holds the oldest of them
    oldest_reserved_at: str


class ConsumersFrame(TypedDict):
    """ConsumersFrame: see the server's OpenAPI document."""
    #: When it stood so
    at: str
    #: Of them, with a stream open
    attached: int
    #: How many were looked at
    consumers: int
    #: Those that the frame has no room for
    left: int
    #: Chunks that they hold for longer than usual
    overdue: int
    #: Name of the queue
    queue: str
    #: Those with most overdue, then with most in hand
    top: list[Consumer]
    #: All were looked at; otherwise there are more, and the sums miss them
    whole: bool


class _CounterDriftRequired(TypedDict):
    #: When it was found
    at: str
    #: Whether it was corrected; if not, something else is damaged too, and a restart recounts everything
    corrected: bool
    #: Which one
    counter: str
    #: What it said
    kept: int
    #: What is there, and what it says now if it was corrected
    recounted: int
    #: What the counter is kept for
    scope: Literal["submission", "value", "queue"]


class CounterDrift(_CounterDriftRequired, total=False):
    """CounterDrift: see the server's OpenAPI document."""
    #: The meta key, if it is a value's
    meta_key: str
    #: Whose it is, if a submission's
    submission: str
    #: The value, if it is one's
    value: MetaValue


class CustomPriorityBlock(TypedDict):
    """In text: CustomPriority."""
    #: The block
    type: Literal["custom_priority"]


class _DeadGroupRequired(TypedDict):
    #: Dead letters in the group
    count: int
    #: One of the errors
    example: str
    #: Of all errors of the group
    fingerprint: str
    #: The error with what changes replaced by <n>, <hex>, <uuid> and <s>
    pattern: str
    #: Submissions that have some of them
    submissions: int


class DeadGroup(_DeadGroupRequired, total=False):
    """DeadGroup: see the server's OpenAPI document."""
    #: When the first of them died
    first_died_at: str
    #: When the last of them died
    last_died_at: str


class _DeadGroupsRequired(TypedDict):
    #: The groups, the largest first
    items: list[DeadGroup]
    #: Dead letters that are in no group, as there are 10,000 groups already
    others: int


class DeadGroups(_DeadGroupsRequired, total=False):
    """DeadGroups: see the server's OpenAPI document."""
    #: The cursor of the next page; absent on the last
    next: str


class _DeadLetterRequired(TypedDict):
    #: Tries since the insert or the last redrive
    attempts: int
    #: Those of them that ended by their deadline
    expiries: int
    #: 16 hexadecimal digits: the same for errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts
    fingerprint: str
    #: Index of the chunk
    index: int
    #: How often it was redriven
    redrives: int
    #: Its submission
    submission: str
    #: Where the submission stands
    submission_state: Literal["open", "completed_with_dead"]


class DeadLetter(_DeadLetterRequired, total=False):
    """DeadLetter: see the server's OpenAPI document."""
    #: Who held it last
    consumer: str
    #: When the last try ended
    died_at: str
    #: The last error
    error: str
    #: The last 10 tries, oldest first, over all redrives; not in lists
    history: list[Attempt]


class _DiagnosisRequired(TypedDict):
    #: Most chunks first, at most 10; one of the kind empty if there is no other
    causes: list[Cause]
    #: Of them those that were looked at: all, unless there are very many. Causes are of these
    examined: int
    #: How many consumers hold them; of very many chunks, those that were looked at
    holders: int
    #: Chunks that consumers hold
    in_flight: int
    #: All of it in one sentence, the cause with most chunks first
    sentence: str
    #: Open submissions that it is about
    submissions: int


class Diagnosis(_DiagnosisRequired, total=False):
    """Diagnosis: see the server's OpenAPI document."""
    #: When the first chunk of the submission was reserved, to a tenth of a second. Absent for a value, before that, and when the server
    #: does not know it: it is not kept over a restart
    first_reserved_at: str
    #: The reservation that has been held for longest; absent when there is none
    oldest: Holding


class Emission(TypedDict):
    """Emission: see the server's OpenAPI document."""
    #: The tick that it is for
    at: str
    #: How it stands
    state: Literal["open", "completed", "completed_with_dead", "failed", "cancelled", "expired"]
    #: Its id
    submission: str


class EndsGap(TypedDict):
    """EndsGap: see the server's OpenAPI document."""
    #: The place that the client had come to: it has all up to there
    after: str
    #: The place up to which ends are missing
    until: str


class _ExchangeAnswerRequired(TypedDict):
    #: One result per item, in order
    complete: list[Result]
    #: One result per item, in order
    extend: list[Result]
    #: One result per item, in order
    fail: list[Result]
    #: Why nothing was reserved; null when something was
    reason: Optional[Literal["nothing", "all_limited", "paused", "not_yet_due", "all_skipped", "restart_grace", "quiet", "draining"]]
    #: What was reserved
    reservations: list[Reservation]
    #: When to ask again, where that is known
    retry_after_ms: Optional[int]


class ExchangeAnswer(_ExchangeAnswerRequired, total=False):
    """ExchangeAnswer: see the server's OpenAPI document."""
    #: With all_limited: some of the values that are at their limit; absent otherwise
    limited: list[Saturated]
    #: Blocks of the strategy that are not scored, as their plugin, or its version, is not there, not active, or out of use for now;
    #: absent when there is none
    warnings: list[StrategyWarning]


class ExchangeRequest(TypedDict, total=False):
    """ExchangeRequest: see the server's OpenAPI document."""
    #: Chunks that are done
    complete: list[CompleteItem]
    #: In whose name chunks of extend are held again that the server forgot at a restart; absent: that of reserve
    consumer: str
    #: Deadlines to move
    extend: list[ExtendItem]
    #: Tries that did not succeed
    fail: list[FailItem]
    #: What to reserve after that; absent: nothing
    reserve: ReserveRequest


class _ExplainAnswerRequired(TypedDict):
    #: What it compiles to, in the order in which it is asked
    branches: list[ExplainBranch]
    #: Of them those that were looked at for the tree: all, unless there are very many
    examined: int
    #: What would be handed out, in order; as many as an answer has room for
    picks: list[ExplainPick]
    #: What rules keep from every strategy, by rule, at most ten, which keep most; it reaches no block and is not withheld
    ruled: list[RuledAmount]
    #: What Random drew by; ask with it again to get the same picks from the same state
    seed: int
    #: The canonical text
    strategy: str
    #: Submissions that are not waiting for their run_at
    submissions: int
    #: The blocks of the strategy, each before what it holds
    tree: list[ExplainBlock]
    #: What limits that operators set for values keep from every strategy; it reaches no block
    withheld: Withheld


class ExplainAnswer(_ExplainAnswerRequired, total=False):
    """ExplainAnswer: see the server's OpenAPI document."""
    #: Until then the restart grace keeps back what a limit counts, and it is not among the picks; absent: there is none
    restart_grace_until: str
    #: Blocks that were not scored, as their plugin is not there, not active, out of use for now, or failed; what follows them was gone
    #: on with, as a reserve would. Absent when there is none
    warnings: list[StrategyWarning]


class ExplainBlock(TypedDict):
    """ExplainBlock: see the server's OpenAPI document."""
    #: Its name
    block: str
    #: How many blocks are around it
    depth: int
    #: What reaches it
    entered: Amount
    #: What an order inside of it offers
    passed: Amount
    #: A JSON pointer into the canonical JSON, below /strategy
    pointer: str
    #: What it keeps back itself; of PreferDistinct what it puts last
    refused: Amount
    #: Different values among that; at most 10,000 are distinguished
    refused_values: int
    #: It alone, without what it holds
    text: str
    #: Of them the ten that keep back most chunks
    top: list[RefusedValue]


class ExplainBranch(TypedDict):
    """ExplainBranch: see the server's OpenAPI document."""
    #: Number of the branch, from 1; inside of Fair every alternative is a branch
    branch: int
    #: The branch: the Fair blocks around it, its order, its filters and its limits
    branch_text: str
    #: Whether its index was standing already; if not, it was built for this answer
    built: bool
    #: The Fair blocks around it and how their tenants stand, the outermost first
    fair: list[ExplainFair]
    #: The way to the branch through the strategy
    path: str


class _ExplainFairRequired(TypedDict):
    #: Tenants that have something to hand out, in all ledgers
    active: int
    #: Tenants that are held back by limits
    blocked: int
    #: What is shared out: the number of chunks, or the time that they are held
    cost: Literal["chunk", "time"]
    #: The key whose values are the tenants
    key: str
    #: How many there are of the block: one, or inside of Fair one for each tenant around it
    ledgers: int
    #: Of the active tenants there the ten that are owed most
    owed: list[Tenant]
    #: Tenants that have nothing, and had more than their share
    owing: int


class ExplainFair(_ExplainFairRequired, total=False):
    """ExplainFair: see the server's OpenAPI document."""
    #: Whose turn it is, within the tenant of the enclosing Fair whose turn it is; absent when no tenant competes
    next: Tenant


class ExplainPick(TypedDict):
    """ExplainPick: see the server's OpenAPI document."""
    #: The chunk
    pick: PreviewPick
    #: What kept each branch before its own from it; the picks before it count as in flight
    skipped: list[WhyBranch]
    #: Under Fair: whose it is in each block, the outermost first, as they stand before all picks
    tenants: list[Tenant]


class _ExtendItemRequired(TypedDict):
    #: As the reservation gave it
    token: str


class ExtendItem(_ExtendItemRequired, total=False):
    """ExtendItem: see the server's OpenAPI document."""
    #: Deadline from now; 0 or absent: the queue's
    timeout_ms: int


class _ExtendRequestRequired(TypedDict):
    #: What to hold longer
    items: list[ExtendItem]


class ExtendRequest(_ExtendRequestRequired, total=False):
    """ExtendRequest: see the server's OpenAPI document."""
    #: In whose name chunks are held again that the server forgot at a restart
    consumer: str


class _FailItemRequired(TypedDict):
    #: As the reservation gave it
    token: str


class FailItem(_FailItemRequired, total=False):
    """FailItem: see the server's OpenAPI document."""
    #: Why; the first 1,000 bytes are kept
    error: str
    #: No further try
    fatal: bool
    #: Delay of the next try, instead of retry_at; absent: the queue's back-off
    retry_after_ms: int
    #: When it is offered again, instead of retry_after_ms: at most 30 days ahead; what has passed is at once
    retry_at: str


class FailRequest(TypedDict):
    """FailRequest: see the server's OpenAPI document."""
    #: What did not succeed
    items: list[FailItem]


class _FairBlockRequired(TypedDict):
    #: Meta key of the tenants, or $submission: each submission is one
    meta_field: str
    #: The block
    type: Literal["fair"]
    #: The strategy that it works on
    underlying: StrategyNode


class FairBlock(_FairBlockRequired, total=False):
    """In text: Fair(key, [cost], underlying)."""
    #: What is shared out: the number of chunks, or the time that they are held
    cost: Literal["chunk", "time"]


class ForwardRequest(TypedDict):
    """ForwardRequest: see the server's OpenAPI document."""
    #: The queue that the dead chunk is sent to: another one, which exists
    to: str


class _HeldChunkRequired(TypedDict):
    #: 1 for the first try
    attempt: int
    #: Until when
    deadline: str
    #: Index of the chunk
    index: int
    #: Of the submission
    meta: Meta
    #: Since when it is held
    reserved_at: str
    #: Its submission
    submission: str


class HeldChunk(_HeldChunkRequired, total=False):
    """HeldChunk: see the server's OpenAPI document."""
    #: Whether its end is on its way to the disk
    finishing: bool


class _HeldReservationRequired(TypedDict):
    #: 1 for the first try
    attempt: int
    #: Name of the consumer that holds it; empty if it gave none
    consumer: str
    #: Until when it is held
    deadline: str
    #: For how long it is held, by the server's clock
    held_ms: int
    #: Index of the chunk
    index: int
    #: Of the submission
    meta: Meta
    #: Whether it is held for longer than the queue's reservation_timeout_ms
    overdue: bool
    #: When it was reserved
    since: str
    #: Its submission
    submission: str


class HeldReservation(_HeldReservationRequired, total=False):
    """HeldReservation: see the server's OpenAPI document."""
    #: Whether its end is on its way to the disk
    finishing: bool


class Hello(TypedDict):
    """Hello: see the server's OpenAPI document."""
    #: The consumer's name
    consumer: str
    #: From the end of the stream until what the consumer holds is lost
    consumer_grace_ms: int
    #: Rises with every start of the queue, and when it reloads after a failed write. Another one than at the last time: the server may
    #: have begun again; after an unplanned end it has forgotten all reservations
    epoch: int
    #: The server says something at least so often
    heartbeat_ms: int
    #: Chunks that the server knows the consumer to hold
    reserved: int


class _HoldingRequired(TypedDict):
    #: 1 for the first try
    attempt: int
    #: When it expires, unless it is extended
    deadline: str
    #: The chunk's index
    index: int
    #: Since when
    reserved_at: str
    #: The chunk's submission
    submission: str


class Holding(_HoldingRequired, total=False):
    """Holding: see the server's OpenAPI document."""
    #: Who holds it; absent when the reserve gave no name
    consumer: str


class InsertManyAnswer(TypedDict):
    """InsertManyAnswer: see the server's OpenAPI document."""
    #: One per submission, in order
    results: list[InsertResult]


class _InsertManyRequestRequired(TypedDict):
    #: At least one
    submissions: list[BatchSubmission]


class InsertManyRequest(_InsertManyRequestRequired, total=False):
    """InsertManyRequest: see the server's OpenAPI document."""
    #: Insert all of them, or none when one is invalid or refused
    atomic: bool


class _InsertResultRequired(TypedDict):
    #: What became of the submission
    status: Literal["created", "replayed", "invalid", "refused"]


class InsertResult(_InsertResultRequired, total=False):
    """InsertResult: see the server's OpenAPI document."""
    #: Stable name of the reason why it was not
    code: str
    #: The reason in words
    detail: str
    #: JSON pointer to what is wrong; of JSON lines, into the array that they stand for
    pointer: str
    #: As a single insert answers it; absent when it was not inserted
    submission: Submission


class Key(TypedDict):
    """The key of an object in object storage."""
    #: The key of an object in object storage
    key: str


class KeyFrame(TypedDict):
    """KeyFrame: see the server's OpenAPI document."""
    #: The meta key
    key: str
    #: The sum of the other values that were read
    rest: ValueSum
    #: The values with most in flight
    top: list[ValueCount]
    #: Values of open submissions that were read
    values: int
    #: Whether all were read; otherwise there are more, and the sums miss them
    whole: bool


class _KeySeriesRequired(TypedDict):
    #: The meta key
    key: str
    #: Time that one cell stands for
    step_seconds: int
    #: The values, sorted
    values: list[ValueSeries]


class KeySeries(_KeySeriesRequired, total=False):
    """KeySeries: see the server's OpenAPI document."""
    #: End of the time of the last cell, which runs; absent without values
    ends: str


class KeySpread(TypedDict):
    """KeySpread: see the server's OpenAPI document."""
    #: Different values among them
    distinct: int
    #: Jain's index over all values that either strategy would hand out: 1 is the same number for each, 1/n all for one of n
    jain: float
    #: The meta key
    key: str
    #: Share of the most frequent value
    max_share: float
    #: Chunks whose submission has the key
    picks: int


class KeysFrame(TypedDict):
    """KeysFrame: see the server's OpenAPI document."""
    #: When it stood so
    at: str
    #: The meta keys, by name
    keys: list[KeyFrame]
    #: Keys that the frame has no room for
    left: int
    #: Name of the queue
    queue: str


_LagClassOdd = TypedDict("_LagClassOdd", {"from": "float"}, total=False)


class _LagClassRequired(TypedDict):
    #: How many tenants
    tenants: int


class LagClass(_LagClassOdd, _LagClassRequired, total=False):
    """LagClass: see the server's OpenAPI document."""
    #: Lags up to this; absent: all that are above from
    to: float


class Ledger(TypedDict):
    """Ledger: see the server's OpenAPI document."""
    #: Tenants that have something to offer
    active: int
    #: That are behind limits
    blocked: int
    #: Text of the branch that it is in
    branch: str
    #: What is shared: chunks, or the time that consumers hold them
    cost: Literal["chunk", "time"]
    #: How many Fair blocks are around it
    depth: int
    #: The same as long as strategies have this branch
    id: str
    #: Whose values are its tenants; $submission: every submission is one
    key: str
    #: That have nothing, and are ahead still
    owing: int
    #: One, or one inside of each tenant around it
    places: int


class _LedgerTenantRequired(TypedDict):
    #: What an ideal division would have handed out to it
    entitled: float
    #: The difference: positive, it is owed; negative, it is ahead
    lag: float
    #: What it was handed out since it was first heard of
    received: float
    #: What it is entitled to of all that is handed out at its place now, 0 to 1
    share: float
    #: active: it has something to offer. owing: it has nothing and is ahead still. blocked: it is behind a limit
    state: Literal["active", "owing", "blocked"]
    #: As set for the value; 1 otherwise
    weight: float


class LedgerTenant(_LedgerTenantRequired, total=False):
    """LedgerTenant: see the server's OpenAPI document."""
    #: The tenants that it is inside of, the outermost first
    around: list[Tenant]
    #: What it was handed out and was entitled to since lately_since; absent of those that were not among the thousand that had received
    #: most
    lately: TenantLately
    #: Of the key; left out for all submissions without it
    value: MetaValue


class _LedgerTenantsRequired(TypedDict):
    #: When it was read
    at: str
    #: Likewise, by an ideal division
    entitled: float
    #: The first of them, as many as an answer has room for
    items: list[LedgerTenant]
    #: Sum of all lags: 0, but for what was reserved while it was summed up
    lag: float
    #: How many tenants are how far from their due, those furthest ahead first. A lag is positive for who is owed
    lags: list[LagClass]
    #: The block
    ledger: Ledger
    #: The least
    most_ahead: float
    #: The largest lag of all tenants
    most_behind: float
    #: By all tenants: chunks, or seconds where time is shared
    received: float
    #: How far tenants are from their due, in words
    sentence: str
    #: How many were looked at
    tenants: int
    #: false: there are more
    whole: bool


class LedgerTenants(_LedgerTenantsRequired, total=False):
    """LedgerTenants: see the server's OpenAPI document."""
    #: Since when lately counts: up to eleven minutes ago. Absent in the first minute of the server and of the ledger
    lately_since: str


class _LifecycleRequired(TypedDict):
    #: Whether inserts are refused because the worker's commits fail again and again
    degraded: bool
    #: Every kind of action
    kinds: list[LifecycleKind]
    #: Since when the oldest action is due that is not done yet; 0: nothing is overdue
    lag_seconds: float
    #: Actions that are left alone, the oldest first
    parked: list[ParkedAction]
    #: How far the recounts of kept counters have come
    recount: Recount
    #: Slices of actions of one kind that came through, since the server's start
    slices_total: int
    #: Chunks whose last try burnt a reservation
    suspects: Suspects


class Lifecycle(_LifecycleRequired, total=False):
    """Lifecycle: see the server's OpenAPI document."""
    #: Until then no chunk that a limit counts is handed out, because the server does not know yet what consumers held before it started;
    #: absent: the grace is over
    restart_grace_until: str


class _LifecycleKindRequired(TypedDict):
    #: Actions that were done, since the server's start
    done_total: int
    #: Of them, those since the last success
    failures_in_a_row: int
    #: Slices that failed
    failures_total: int
    #: What kind of action
    kind: Literal["expiry", "lost", "grace", "retry", "suspect", "run_at", "dead_deadline", "sweep", "retention", "schedule", "rule", "forward"]
    #: Since when the oldest of the kind is due that is not done yet
    lag_seconds: float
    #: Those that are left alone now
    parked: int
    #: What waits for its time, or to be swept
    pending: int
    #: Those that were not needed any more when their turn came
    stale_total: int


class LifecycleKind(_LifecycleKindRequired, total=False):
    """LifecycleKind: see the server's OpenAPI document."""
    #: Why the last slice failed; absent after a success
    error: str
    #: When a slice came through last; absent before the first
    last_success_at: str


class MaxSimultaneousBlock(TypedDict):
    """In text: MaxSimultaneous(key, max, underlying)."""
    #: How many chunks of one value are in flight at once
    max: int
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["max_simultaneous"]
    #: The strategy that it works on
    underlying: StrategyNode


#: What strategies see: letters, digits, '_', '-' and '.' in keys of at most 64 bytes
Meta = dict[str, MetaValue]


class MetaKey(TypedDict):
    """MetaKey: see the server's OpenAPI document."""
    #: The key
    key: str
    #: Values that open submissions have or that something is set for
    values: int
    #: Of them, those that something is set for
    values_set: int


class NamedStrategy(TypedDict):
    """NamedStrategy: see the server's OpenAPI document."""
    #: When the version was put
    created_at: str
    #: Names the version; for If-Match
    etag: str
    #: Name: 1 to 64 letters, digits, '.', '_' and '-'
    name: str
    #: The canonical text
    strategy: str
    #: From 1; each change makes the next. The last 100 are kept
    version: int


class NewSession(TypedDict):
    """NewSession: see the server's OpenAPI document."""
    #: An access token's text
    token: str


class _NewSubmissionRequired(TypedDict):
    #: The work, in exactly one of three forms
    chunks: Chunks


class NewSubmission(_NewSubmissionRequired, total=False):
    """NewSubmission: see the server's OpenAPI document."""
    #: At most 64 KiB of opaque bytes that go out with every reservation
    attachment: Bytes
    #: When it expires if it is still open; after run_at
    dead_deadline: str
    #: Name of a group; it is kept and shown, and does nothing yet
    group: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: What strategies see
    meta: Meta
    #: What a chunk out of attempts does; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: Not handed out before
    run_at: str
    #: W3C traceparent, and after ';' the tracestate, for this submission: in the place of the headers
    trace: str


class NewSubmissionHead(TypedDict, total=False):
    """NewSubmissionHead: see the server's OpenAPI document."""
    #: At most 64 KiB of opaque bytes that go out with every reservation
    attachment: Bytes
    #: When it expires if it is still open; after run_at
    dead_deadline: str
    #: Name of a group; it is kept and shown, and does nothing yet
    group: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: What strategies see
    meta: Meta
    #: What a chunk out of attempts does; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: Not handed out before
    run_at: str
    #: W3C traceparent, and after ';' the tracestate, for this submission: in the place of the headers
    trace: str


class _NewTokenRequired(TypedDict):
    #: Who it is for, 1 to 128 bytes: what is done with it is recorded under this name, which no other token may have
    name: str
    #: What it may do; admin implies all others
    scopes: list[str]


class NewToken(_NewTokenRequired, total=False):
    """NewToken: see the server's OpenAPI document."""
    #: Subject of a client certificate that is to stand for the token, as RFC 2253 writes it: CN=worker,O=acme; absent: none. It counts
    #: over TLS, from authorities of --tls-client-ca
    certificate_subject: str
    #: When it ends by itself; absent: when it is revoked
    expires_at: str
    #: The only submissions that it sees, and the only ones that it inserts: one key with one value; absent: all
    meta: Meta
    #: The only queues that it sees; absent: all
    queues: list[str]


class NewestFirstBlock(TypedDict):
    """In text: NewestFirst."""
    #: The block
    type: Literal["newest_first"]


class OldestFirstBlock(TypedDict):
    """In text: OldestFirst."""
    #: The block
    type: Literal["oldest_first"]


class _OrElseBlockRequired(TypedDict):
    #: The block
    type: Literal["or_else"]


class OrElseBlock(_OrElseBlockRequired, total=False):
    """In text: OrElse(first, second, ...)."""
    #: The strategies, in the order in which they are asked; of two they may be given as try_first and fallback
    branches: list[StrategyNode]
    #: The strategy that is asked for what try_first could not fill
    fallback: StrategyNode
    #: The strategy that is asked first, instead of branches
    try_first: StrategyNode


class _OriginRequired(TypedDict):
    #: Tries that were made there
    attempts: int
    #: Index of the chunk there
    index: int
    #: The queue that it was a dead letter of
    queue: str
    #: Its submission there
    submission: str


class Origin(_OriginRequired, total=False):
    """Origin: see the server's OpenAPI document."""
    #: When the last of them ended
    died_at: str
    #: The last error there
    error: str


class Output(TypedDict):
    """Output: see the server's OpenAPI document."""
    #: Index of the chunk
    index: int
    #: What the consumer reported with complete
    output: Bytes


class _PageAttemptRequired(TypedDict):
    #: The tries, the oldest first
    items: list[Attempt]


class PageAttempt(_PageAttemptRequired, total=False):
    """PageAttempt: see the server's OpenAPI document."""
    #: Never there
    next: str


class _PageAuditEntryRequired(TypedDict):
    #: The entries, the latest first
    items: list[AuditEntry]


class PageAuditEntry(_PageAuditEntryRequired, total=False):
    """PageAuditEntry: see the server's OpenAPI document."""
    #: Names of queues in quarantine. Their latest entries may be missing: those that are still in their journals
    incomplete: list[str]
    #: Cursor of the older ones; absent: there are none
    next: str


class _PageBulkOperationRequired(TypedDict):
    #: The operations, newest first
    items: list[BulkOperation]


class PageBulkOperation(_PageBulkOperationRequired, total=False):
    """PageBulkOperation: see the server's OpenAPI document."""
    #: Always absent
    next: str


class _PageChunkRequired(TypedDict):
    #: The chunks, by index
    items: list[Chunk]


class PageChunk(_PageChunkRequired, total=False):
    """PageChunk: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageConsumerRequired(TypedDict):
    #: The consumers, by name
    items: list[Consumer]


class PageConsumer(_PageConsumerRequired, total=False):
    """PageConsumer: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageDeadLetterRequired(TypedDict):
    #: The dead letters
    items: list[DeadLetter]


class PageDeadLetter(_PageDeadLetterRequired, total=False):
    """PageDeadLetter: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageHeldReservationRequired(TypedDict):
    #: The reservations, in the order that was asked for
    items: list[HeldReservation]


class PageHeldReservation(_PageHeldReservationRequired, total=False):
    """PageHeldReservation: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageLedgerRequired(TypedDict):
    #: The ledgers, by branch, the outer ones first
    items: list[Ledger]


class PageLedger(_PageLedgerRequired, total=False):
    """PageLedger: see the server's OpenAPI document."""
    #: Never there: a queue has at most 64 branches with ledgers
    next: str


class _PageMetaKeyRequired(TypedDict):
    #: The keys, by name
    items: list[MetaKey]


class PageMetaKey(_PageMetaKeyRequired, total=False):
    """PageMetaKey: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageNamedStrategyRequired(TypedDict):
    #: The strategies, by name
    items: list[NamedStrategy]


class PageNamedStrategy(_PageNamedStrategyRequired, total=False):
    """PageNamedStrategy: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PagePluginRequired(TypedDict):
    #: The plugins, by name
    items: list[Plugin]


class PagePlugin(_PagePluginRequired, total=False):
    """PagePlugin: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PagePluginRecordingRequired(TypedDict):
    #: The recordings, the newest first
    items: list[PluginRecording]


class PagePluginRecording(_PagePluginRecordingRequired, total=False):
    """PagePluginRecording: see the server's OpenAPI document."""
    #: Never there: a plugin has at most 32 recordings
    next: str


class _PagePluginScoresRequired(TypedDict):
    #: What is open of the plugin, what is in use first
    items: list[PluginScores]


class PagePluginScores(_PagePluginScoresRequired, total=False):
    """PagePluginScores: see the server's OpenAPI document."""
    #: Never there: only what is open is listed
    next: str


class _PagePluginVersionRequired(TypedDict):
    #: The versions, the newest first
    items: list[PluginVersion]


class PagePluginVersion(_PagePluginVersionRequired, total=False):
    """PagePluginVersion: see the server's OpenAPI document."""
    #: Never there: a plugin has at most 100 versions
    next: str


class _PageQueueRequired(TypedDict):
    #: The queues, by name
    items: list[Queue]


class PageQueue(_PageQueueRequired, total=False):
    """PageQueue: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageRuleRequired(TypedDict):
    #: The rules
    items: list[Rule]


class PageRule(_PageRuleRequired, total=False):
    """PageRule: see the server's OpenAPI document."""
    #: Always absent
    next: str


class _PageScheduleRequired(TypedDict):
    #: The schedules, by name
    items: list[Schedule]


class PageSchedule(_PageScheduleRequired, total=False):
    """PageSchedule: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageSubmissionRequired(TypedDict):
    #: The submissions, newest first
    items: list[Submission]


class PageSubmission(_PageSubmissionRequired, total=False):
    """PageSubmission: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _PageTokenRequired(TypedDict):
    #: The tokens, the oldest first
    items: list[Token]


class PageToken(_PageTokenRequired, total=False):
    """PageToken: see the server's OpenAPI document."""
    #: Always absent
    next: str


class _PageValueCountRequired(TypedDict):
    #: The values
    items: list[ValueCount]


class PageValueCount(_PageValueCountRequired, total=False):
    """PageValueCount: see the server's OpenAPI document."""
    #: Cursor of the next page; absent on the last
    next: str


class _ParkedActionRequired(TypedDict):
    #: Why it failed
    error: str
    #: What kind of action
    kind: str
    #: When it was parked
    since: str


class ParkedAction(_ParkedActionRequired, total=False):
    """ParkedAction: see the server's OpenAPI document."""
    #: The chunk of it, if it is about one
    index: int
    #: The rule whose end it is, if it is about one
    rule: str
    #: The schedule that inserts, if it is about one
    schedule: str
    #: The submission that it is about, if it is about one
    submission: str


class _PluginRequired(TypedDict):
    #: Whether the active version is kept out of use after faults
    breaker: PluginBreaker
    #: That share
    canary_percent: int
    #: Names the revision; for If-Match
    etag: str
    #: Name: 1 to 64 lower-case letters, digits and '-', a letter first
    name: str
    #: Counts the changes; 0 before the first
    revision: int
    #: What an operator set
    settings: PluginSettings
    #: Whether it scores, and why not
    state: Literal["active", "inactive", "starting", "open", "half_open", "throttled", "quarantined", "held"]
    #: How many there are
    versions: int


class Plugin(_PluginRequired, total=False):
    """Plugin: see the server's OpenAPI document."""
    #: The version that scores
    active: PluginUse
    #: The version that scores for a share of the reservations
    canary: PluginUse
    #: When what is in use was changed
    changed_at: str
    #: By whom, where that is known
    changed_by: str
    #: sha256 of the version that came last
    latest: str
    #: The version that was active before: where a rollback goes
    previous: PluginUse
    #: The version that scores beside it without deciding
    shadow: PluginUse


_PluginBinOdd = TypedDict("_PluginBinOdd", {"from": "float"}, total=False)


class PluginBin(_PluginBinOdd):
    """PluginBin: see the server's OpenAPI document."""
    #: How many
    count: int
    #: And below this
    to: float


class _PluginBlockRequired(TypedDict):
    #: Name of the plugin
    name: str
    #: The block
    type: Literal["plugin"]
    #: The strategy that it works on
    underlying: StrategyNode


class PluginBlock(_PluginBlockRequired, total=False):
    """In text: Plugin(name@version, [config], [window=N], [explore=N], underlying)."""
    #: Configuration of the plugin
    config: dict[str, Any]
    #: Every so many of the candidates that go out is the first in the order of underlying, regardless of its score; 0: none
    explore: int
    #: Version of the plugin, or the first digits of its sha256; without it, the active one
    version: str
    #: How many candidates are scored at once
    window: int


class _PluginBreakerRequired(TypedDict):
    #: closed: it scores. starting: its sandbox is not ready yet, and requests go on without it. half_open: one batch is tried
    state: Literal["closed", "starting", "open", "half_open", "throttled", "quarantined", "held"]


class PluginBreaker(_PluginBreakerRequired, total=False):
    """PluginBreaker: see the server's OpenAPI document."""
    #: Why it is not closed
    reason: str
    #: When one batch is tried
    until: str


class PluginDryRun(TypedDict, total=False):
    """PluginDryRun: see the server's OpenAPI document."""
    #: Left out: that of the activation, or the defaults
    config: Any
    #: Of the reservation that would be made: what the plugin may read of it
    context: Meta
    #: Whose live candidates are scored; left out: synthetic ones only
    queue: str
    #: Number of a recording to score again; 0: none
    recording: int
    #: Candidates; 0: the version's default window
    rows: int
    #: In whose order they come, in text form; left out: OldestFirst
    strategy: str
    #: How many would be taken; 0: 10
    want: int


class _PluginLiveRequired(TypedDict):
    #: Rows that would be taken and would not without the plugin
    gained: list[int]
    #: Of the scores
    histogram: list[PluginBin]
    #: The reverse
    lost: list[int]
    #: What would be taken, in order
    picks: list[PluginPick]
    #: Candidates; a row is a place in the order without the plugin, from 0
    rows: int
    #: Candidates that it would skip
    skipped: int
    #: By row: the submission whose next chunk is the candidate
    submissions: list[str]


class PluginLive(_PluginLiveRequired, total=False):
    """PluginLive: see the server's OpenAPI document."""
    #: Rows that would be taken and would not with the active version
    active_gained: list[int]
    #: The reverse
    active_lost: list[int]
    #: Share of what would be taken that both agree on
    active_overlap: float
    #: Kendall's tau-b of the two orders
    active_tau: float


class PluginLogLine(TypedDict):
    """PluginLogLine: see the server's OpenAPI document."""
    #: How much it matters
    level: Literal["debug", "info", "warn", "error"]
    #: Rises by one from line to line
    number: int
    #: The first 8 digits of it
    sha256: str
    #: What it says
    text: str
    #: When
    time: str
    #: Of the version that logged it
    version: str


class PluginLogs(TypedDict):
    """PluginLogs: see the server's OpenAPI document."""
    #: Lines over the limits, in all
    dropped: int
    #: The oldest first
    lines: list[PluginLogLine]
    #: For `after`: the number of the last line
    next: int


class PluginPick(TypedDict):
    """PluginPick: see the server's OpenAPI document."""
    #: Its place in the order without the plugin, from 0
    row: int
    #: Null when infinite
    score: Optional[float]


class _PluginRecordingRequired(TypedDict):
    #: Its number
    id: int
    #: Candidates
    rows: int
    #: Of the version that scored it
    sha256: str
    #: Bytes
    size: int
    #: When it was scored
    time: str
    #: Of the version that scored it
    version: str


class PluginRecording(_PluginRecordingRequired, total=False):
    """PluginRecording: see the server's OpenAPI document."""
    #: Why it was kept; a sample has none
    fault: str


class PluginReplay(TypedDict):
    """PluginReplay: see the server's OpenAPI document."""
    #: Rows that are not
    different: int
    #: They are the same bits
    identical: bool
    #: Of the recorded batch
    rows: int
    #: The recording has scores; that of a fault has none
    scored: bool


class PluginReport(TypedDict):
    """PluginReport: see the server's OpenAPI document."""
    #: Processor time of the compiling process
    compile_ms: int
    #: Memory of the compiling process
    compile_peak_bytes: int
    #: The same batch twice gave the same bits
    deterministic: bool
    #: The code was there already
    from_cache: bool
    #: The same on every machine
    fuel_per_candidate: float
    #: Of the module
    instructions: int
    #: Of 64 KiB, afterwards
    memory_pages: int
    #: Synthetic candidates that were skipped with NaN
    nan_share: float
    #: Of the middle one
    ns_median: float
    #: Of the fastest batch
    ns_per_candidate: float
    #: Of the timed batches: the default window
    rows: int
    #: Synthetic candidates that were skipped or not written
    skip_share: float


class _PluginScoresRequired(TypedDict):
    #: That were scored
    batches: int
    #: The configuration that it scored with; another one is another entry, as its scores may have nothing in common
    config: Any
    #: Of their scores: ranges that lie side by side. Where few scores lie far outside, the first and the last range are as wide as it
    #: takes
    distribution: list[PluginTakenBin]
    #: Batches that failed, by kind
    faults: dict[str, int]
    #: Candidates that are kept of them
    rows: int
    #: Of the version
    sha256: str
    #: Of those, how many were skipped with NaN
    skipped: int
    #: Of those, of how many something was taken; 0 of a shadow, which decides nothing
    taken: int
    #: active, canary, shadow, previous; none of what a consumer asked for by itself
    uses: list[str]
    #: The version text of its manifest
    version: str
    #: Batches that were sampled
    windows: int


class PluginScores(_PluginScoresRequired, total=False):
    """PluginScores: see the server's OpenAPI document."""
    #: When the last of them was scored
    last_at: str
    #: In words
    last_fault: str
    #: When the first of them was scored
    since_at: str


class _PluginSelectionRequired(TypedDict):
    #: Version text (the newest of that text), or 8 or more digits of the sha256; empty where a use is to end
    version: str


class PluginSelection(_PluginSelectionRequired, total=False):
    """PluginSelection: see the server's OpenAPI document."""
    #: An object as the manifest's config_schema has it; left out: the defaults
    config: Any
    #: Also a version that is quarantined, which ends its quarantine; activated also although it refuses what strategies in use send
    force: bool
    #: Of a canary: its share of the reservations
    percent: int


class PluginSettings(TypedDict, total=False):
    """PluginSettings: see the server's OpenAPI document."""
    #: Share of one core, over 10 s, above which it is throttled; 0: the server's 0.25
    cpu_share: float
    #: open: out of use; closed: its breaker never opens; empty: as its faults have it
    hold: Literal["", "open", "closed"]
    #: Lines below it are dropped: 0 debug, 1 info, 2 warn, 3 error
    log_level: int
    #: One of so many batches is recorded; 0: the server's 10,000
    record_every: int


class PluginShadow(TypedDict):
    """PluginShadow: see the server's OpenAPI document."""
    #: That both scored
    batches: int
    #: That the shadow did not score, because it was behind or failing
    dropped: int
    #: Of the shadow, by kind
    faults: dict[str, int]
    #: Share of what would be taken that both agree on; a mean
    overlap: float
    #: The version
    sha256: str
    #: Kendall's tau-b of the two orders; a mean
    tau: float


class _PluginStatsRequired(TypedDict):
    #: That were scored
    batches: int
    #: Of the active version
    breaker: PluginBreaker
    #: In them
    candidates: int
    #: The plugin's own
    counters: dict[str, float]
    #: Of one core, over the last 10 s
    cpu_share: float
    #: Of these, by reason: fault, breaker, inactive, starting (its sandbox is not ready), memory (all plugins together have what they
    #: may have), busy
    fallback_reasons: dict[str, int]
    #: Reservations that went on without the plugin
    fallbacks: int
    #: Batches that failed, by kind
    faults: dict[str, int]
    #: Mean
    fuel_per_candidate: float
    #: Sandboxes that are open
    instances: int
    #: Lines over the limits
    logs_dropped: int
    #: Of 64 KiB, of the largest sandbox
    memory_pages: int
    #: Mean
    ns_per_candidate: float
    #: Candidates skipped with NaN
    skipped: int
    #: Candidates without a score
    unwritten: int


class PluginStats(_PluginStatsRequired, total=False):
    """PluginStats: see the server's OpenAPI document."""
    #: In words
    last_fault: str
    #: How the shadow compares
    shadow: PluginShadow


_PluginTakenBinOdd = TypedDict("_PluginTakenBinOdd", {"from": "float"}, total=False)


class PluginTakenBin(_PluginTakenBinOdd):
    """PluginTakenBin: see the server's OpenAPI document."""
    #: How many candidates
    count: int
    #: Of how many of them something was taken
    taken: int
    #: And below this; of the last range also this
    to: float


class _PluginTriedRequired(TypedDict):
    #: Of synthetic candidates
    report: PluginReport


class PluginTried(_PluginTriedRequired, total=False):
    """PluginTried: see the server's OpenAPI document."""
    #: Of live ones, where a queue was named
    live: PluginLive
    #: Of a recording, where one was named
    replay: PluginReplay


class PluginUse(TypedDict):
    """PluginUse: see the server's OpenAPI document."""
    #: Its configuration, with the defaults filled in
    config: Any
    #: Of the module with its manifest
    sha256: str
    #: The version text of its manifest
    version: str


class _PluginVersionRequired(TypedDict):
    #: When it was uploaded
    created_at: str
    #: As it stands in the module
    manifest: Any
    #: Name of the plugin
    name: str
    #: What its dry run found
    report: PluginReport
    #: Of the module with its manifest: the version's identity
    sha256: str
    #: Bytes of the module
    size: int
    #: ready: it may be activated
    state: Literal["ready", "quarantined"]
    #: What it is used as: active, canary, shadow, previous
    uses: list[str]
    #: The version text of its manifest; several versions may have the same
    version: str


class PluginVersion(_PluginVersionRequired, total=False):
    """PluginVersion: see the server's OpenAPI document."""
    #: By whom, where that is known
    created_by: str
    #: Why it is quarantined
    reason: str


class PreferDistinctBlock(TypedDict):
    """In text: PreferDistinct(key, max, underlying)."""
    #: How many chunks of one value are in flight at once
    max: int
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["prefer_distinct"]
    #: The strategy that it works on
    underlying: StrategyNode


class _PreviewAnswerRequired(TypedDict):
    #: What would be handed out, in order
    picks: list[PreviewPick]
    #: What Random drew by; ask with it again to get the same picks from the same state
    seed: int
    #: The canonical text
    strategy: str


class PreviewAnswer(_PreviewAnswerRequired, total=False):
    """PreviewAnswer: see the server's OpenAPI document."""
    #: Until then the restart grace keeps back what a limit counts, and it is not among the picks; absent: there is none
    restart_grace_until: str
    #: Blocks that were not scored, as their plugin is not there, not active, out of use for now, or failed; what follows them was gone
    #: on with, as a reserve would. Absent when there is none
    warnings: list[StrategyWarning]


class PreviewPick(TypedDict):
    """PreviewPick: see the server's OpenAPI document."""
    #: Number of the branch, from 1; inside of Fair every alternative is a branch
    branch: int
    #: Index of the chunk
    index: int
    #: Of the submission
    meta: Meta
    #: The way to the branch through the strategy
    path: str
    #: Of the submission
    priority: int
    #: Id of the submission
    submission: str


class PreviewRequest(TypedDict, total=False):
    """PreviewRequest: see the server's OpenAPI document."""
    #: What the consumer would say about itself to plugins and formulas, as in a reservation: at most 16 keys
    context: Meta
    #: Most chunks to look ahead; 0 or absent: 10
    max: int
    #: The same seed on the same state gives the same picks; absent: any
    seed: int
    #: The strategy; absent: Random
    strategy: Strategy


class _ProblemRequired(TypedDict):
    #: Stable name of the kind; clients may switch on it
    code: str
    #: The HTTP status
    status: int
    #: The kind in words; the same every time
    title: str
    #: Address of the explanation of this kind of problem
    type: str


class Problem(_ProblemRequired, total=False):
    """Problem: see the server's OpenAPI document."""
    #: What is wrong this time, and what to do
    detail: str
    #: All that was found wrong with the request
    errors: list[ProblemError]
    #: Address of this occurrence
    instance: str
    #: Names the request in the server's log; also in the header X-Request-Id
    request_id: str


class ProblemError(TypedDict):
    """ProblemError: see the server's OpenAPI document."""
    #: The rest of a sentence about it
    detail: str
    #: JSON pointer into the body, or /query/NAME, /header/NAME, /path/NAME
    pointer: str


class PutQueueRequest(TypedDict, total=False):
    """PutQueueRequest: see the server's OpenAPI document."""
    #: What is left out gets its default
    settings: QueueSettingsInput


class Quarantined(TypedDict):
    """Quarantined: see the server's OpenAPI document."""
    #: What is wrong with which file, and what to do
    reason: str
    #: The first start of the server at which it could not be opened; each start tries again
    since: str


class _QueueRequired(TypedDict):
    #: When it was created
    created_at: str
    #: Name: 1 to 64 letters, digits, '_', '-' and '.'
    name: str
    #: The whole configuration
    settings: QueueSettings


class Queue(_QueueRequired, total=False):
    """Queue: see the server's OpenAPI document."""
    #: Why it does not serve while other queues do; absent: it serves
    quarantined: Quarantined


class _QueueSettingsRequired(TypedDict):
    #: How long an attached consumer may be away until what it holds is lost; 0: at once
    consumer_grace_ms: int
    #: How long dead letters are kept; 0: until they are redriven or discarded
    dead_retention_seconds: int
    #: Whether inserts are refused; what is there is worked off
    draining: bool
    #: full: the disk has what an answer confirms. relaxed: a power cut may take back the last moments
    durability: Literal["full", "relaxed"]
    #: The pause after an attempt that expired or was lost
    expiry_backoff: Backoff
    #: Attempts per chunk; 0: no limit
    max_attempts: int
    #: Reservations of a chunk that may expire; 0: no limit
    max_expiries: int
    #: How long a consumer may hold a chunk at most, extensions included
    max_reservation_ms: int
    #: What a chunk out of attempts does
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Where a chunk is requeued after a failed attempt: head, its natural place, or tail, behind all that is ready
    requeue: Literal["head", "tail"]
    #: How long a consumer may hold a chunk when it does not say
    reservation_timeout_ms: int
    #: How long after a start nothing is handed out that a limit counts, so that consumers can extend what they hold first; 0: none
    restart_grace_ms: int
    #: How long ended submissions are kept, as long as they have no dead letters; 0: for ever
    retention_seconds: int
    #: The pause after a failed attempt that names none
    retry_backoff: Backoff
    #: Of the consumers' slots, how much chunks that expired may have beside other work; 0: behind all other work; 1: no limit
    suspect_share: float


class QueueSettings(_QueueSettingsRequired, total=False):
    """QueueSettings: see the server's OpenAPI document."""
    #: The queue that dead letters go on to; without it they stay. It has to exist, and to have none of its own
    dead_letter_queue: str


class QueueSettingsInput(TypedDict, total=False):
    """QueueSettingsInput: see the server's OpenAPI document."""
    #: How long an attached consumer may be away until what it holds is lost; 0: at once
    consumer_grace_ms: int
    #: The queue that dead letters go on to; without it they stay. It has to exist, and to have none of its own
    dead_letter_queue: str
    #: How long dead letters are kept; 0: until they are redriven or discarded
    dead_retention_seconds: int
    #: Whether inserts are refused; what is there is worked off
    draining: bool
    #: full: the disk has what an answer confirms. relaxed: a power cut may take back the last moments
    durability: Literal["full", "relaxed"]
    #: The pause after an attempt that expired or was lost
    expiry_backoff: Backoff
    #: Attempts per chunk; 0: no limit
    max_attempts: int
    #: Reservations of a chunk that may expire; 0: no limit
    max_expiries: int
    #: How long a consumer may hold a chunk at most, extensions included
    max_reservation_ms: int
    #: What a chunk out of attempts does
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Where a chunk is requeued after a failed attempt: head, its natural place, or tail, behind all that is ready
    requeue: Literal["head", "tail"]
    #: How long a consumer may hold a chunk when it does not say
    reservation_timeout_ms: int
    #: How long after a start nothing is handed out that a limit counts, so that consumers can extend what they hold first; 0: none
    restart_grace_ms: int
    #: How long ended submissions are kept, as long as they have no dead letters; 0: for ever
    retention_seconds: int
    #: The pause after a failed attempt that names none
    retry_backoff: Backoff
    #: Of the consumers' slots, how much chunks that expired may have beside other work; 0: behind all other work; 1: no limit
    suspect_share: float


class RandomBlock(TypedDict):
    """In text: Random."""
    #: The block
    type: Literal["random"]


class Rates(TypedDict):
    """Rates: see the server's OpenAPI document."""
    #: Chunks completed, per second
    done: float
    #: Tries that failed, per second
    failed: float
    #: Chunks inserted, per second
    inserted: float
    #: Chunks reserved, per second
    reserved: float


class Readiness(TypedDict):
    """Readiness: see the server's OpenAPI document."""
    #: Every check, with ?verbose
    checks: list[Check]
    #: Always true: what is not ready answers 503
    ready: bool


class _RecountRequired(TypedDict):
    #: Which counters those were
    drifts_by_counter: list[RecountDrift]
    #: Counters that were wrong; anything but 0 is a mistake of the server
    drifts_total: int
    #: How often everything is recounted; 0: never
    every_ms: int
    #: How much of the round under way is done, from 0 to 1
    progress: float
    #: Totals of the queue that were compared with its submissions
    queue_counters_checked_total: int
    #: How often everything was, since the server's start
    rounds_total: int
    #: Comparisons that could not be made in a round: the next one tries again
    skipped_total: int
    #: Whether a recount broke off with a mistake of the server's: none is made until the next start
    stopped: bool
    #: Submissions whose own counters were compared with their chunks
    submissions_checked_total: int
    #: Totals that differed in one round; those that do so in the next one too are drifts
    suspected_total: int
    #: Values of meta keys whose counters were compared with their submissions
    values_checked_total: int


class Recount(_RecountRequired, total=False):
    """Recount: see the server's OpenAPI document."""
    #: When that was last; absent before the first
    last_round_at: str
    #: The last one; absent if there was none
    newest_drift: CounterDrift


class RecountDrift(TypedDict):
    """RecountDrift: see the server's OpenAPI document."""
    #: Which one
    counter: str
    #: How often it was found to be wrong
    drifts_total: int
    #: What the counter is kept for
    scope: Literal["submission", "value", "queue"]


class _RefusedValueRequired(TypedDict):
    #: Chunks of the value that are held
    in_flight: int
    #: The meta key
    key: str
    #: What of it is kept back
    refused: Amount


class RefusedValue(_RefusedValueRequired, total=False):
    """RefusedValue: see the server's OpenAPI document."""
    #: Of a limit: how many may be
    max: int
    #: The value; absent: the submissions that have none
    value: MetaValue


class ReleaseItem(TypedDict):
    """ReleaseItem: see the server's OpenAPI document."""
    #: As the reservation gave it
    token: str


class ReleaseRequest(TypedDict):
    """ReleaseRequest: see the server's OpenAPI document."""
    #: What to give back
    items: list[ReleaseItem]


class Released(TypedDict):
    """Released: see the server's OpenAPI document."""
    #: How many chunks went back, with no try counted
    released: int


class _ReservationRequired(TypedDict):
    #: 1 for the first try
    attempt: int
    #: What to work on
    content: Content
    #: After it the chunk is offered again
    deadline: str
    #: Index of the chunk
    index: int
    #: Of the submission
    meta: Meta
    #: Of the submission
    priority: int
    #: Id of the submission
    submission: str
    #: Proof of holding the chunk; needed to finish it
    token: str


class Reservation(_ReservationRequired, total=False):
    """Reservation: see the server's OpenAPI document."""
    #: Of the submission
    attachment: Bytes
    #: W3C trace context of the insert
    trace: str


class _ReserveAnswerRequired(TypedDict):
    #: Why nothing was reserved; null when something was
    reason: Optional[Literal["nothing", "all_limited", "paused", "not_yet_due", "all_skipped", "restart_grace", "quiet", "draining"]]
    #: What was reserved, in the order of the strategy
    reservations: list[Reservation]
    #: When to ask again, where that is known
    retry_after_ms: Optional[int]


class ReserveAnswer(_ReserveAnswerRequired, total=False):
    """ReserveAnswer: see the server's OpenAPI document."""
    #: With all_limited: some of the values that are at their limit; absent otherwise
    limited: list[Saturated]
    #: Blocks of the strategy that are not scored, as their plugin, or its version, is not there, not active, or out of use for now;
    #: absent when there is none
    warnings: list[StrategyWarning]


class _ReserveRequestRequired(TypedDict):
    #: Most chunks to take
    max: int


class ReserveRequest(_ReserveRequestRequired, total=False):
    """ReserveRequest: see the server's OpenAPI document."""
    #: Name of the consumer, for people
    consumer: str
    #: What the consumer says about itself to plugins: at most 16 keys
    context: Meta
    #: What to take first; absent: Random
    strategy: Strategy
    #: Deadline from now; 0 or absent: the queue's
    timeout_ms: int
    #: How long to wait while there is nothing
    wait_ms: int


class _ResultRequired(TypedDict):
    #: What became of the item
    status: Literal["ok", "already", "lost", "gone", "unknown", "invalid"]


class Result(_ResultRequired, total=False):
    """Result: see the server's OpenAPI document."""
    #: Stable name of the reason
    code: str
    #: After an extend: the new deadline
    deadline: str
    #: The reason in words
    detail: str


class ResultsAnswer(TypedDict):
    """ResultsAnswer: see the server's OpenAPI document."""
    #: One per item, in order
    results: list[Result]


class Retried(TypedDict):
    """Retried: see the server's OpenAPI document."""
    #: How many parked actions are tried again
    retried: int


class Revoked(TypedDict):
    """Revoked: see the server's OpenAPI document."""
    #: Why
    reason: Literal["submission_ended", "expired", "operator", "rule"]
    #: Its token: what is done under it does not count any more
    token: str


class RevokedEvent(TypedDict):
    """RevokedEvent: see the server's OpenAPI document."""
    #: The reservations
    items: list[Revoked]


class RotateToken(TypedDict, total=False):
    """RotateToken: see the server's OpenAPI document."""
    #: How long the secret before stays good; absent: it ends at once
    overlap_seconds: int


class _RuleRequired(TypedDict):
    #: What it does: both keep chunks from being handed out, and a block counts before a pause
    action: Literal["pause", "block"]
    #: Names it in its queue; never given again
    id: str
    #: What it is about: exactly one of queue, meta and submission
    match: RuleMatch
    #: When it was set first
    since: str


class Rule(_RuleRequired, total=False):
    """Rule: see the server's OpenAPI document."""
    #: Who set it: the name of the access token; where none is needed, what the request says, at most 128 bytes
    actor: str
    #: In the list of those that hold: the chunks that it keeps from being handed out, also where another rule keeps them too; absent
    #: when there are none
    chunks: int
    #: What it does beyond that
    effects: RuleEffects
    #: How a rule ended: it was lifted, its until came, or its submission ended
    end: Literal["lifted", "over", "submission_ended"]
    #: Of one that has ended: when
    ended_at: str
    #: Of one that was lifted: who did it, if that was said
    lifted_by: str
    #: Why, for those who meet it: at most 500 bytes; a block needs one
    reason: str
    #: When it ends by itself; absent: it stays until it is lifted
    until: str


class RuleEffects(TypedDict, total=False):
    """RuleEffects: see the server's OpenAPI document."""
    #: Inserts of what it matches are refused with 423
    insert: bool
    #: Reservations of what it matches are released when it is set, without counting a try, and cannot be extended any more
    revoke: bool


class RuleMatch(TypedDict, total=False):
    """RuleMatch: see the server's OpenAPI document."""
    #: One value of one meta key
    meta: Meta
    #: true: the whole queue
    queue: bool
    #: Id of an open submission; the rule ends with it
    submission: str


class _RuleRequestRequired(TypedDict):
    #: What it does: both keep chunks from being handed out, and a block counts before a pause
    action: Literal["pause", "block"]
    #: What it is about: exactly one of queue, meta and submission
    match: RuleMatch


class RuleRequest(_RuleRequestRequired, total=False):
    """RuleRequest: see the server's OpenAPI document."""
    #: Who set it: the name of the access token; where none is needed, what the request says, at most 128 bytes
    actor: str
    #: What it does beyond that
    effects: RuleEffects
    #: Why, for those who meet it: at most 500 bytes; a block needs one
    reason: str
    #: When it ends by itself; absent: it stays until it is lifted
    until: str


class RuledAmount(TypedDict):
    """RuledAmount: see the server's OpenAPI document."""
    #: What it covers: of several rules the one that counts is named, a block before a pause
    refused: Amount
    #: The rule
    rule: Rule


class Saturated(TypedDict):
    """Saturated: see the server's OpenAPI document."""
    #: Chunks of submissions with the value that are held
    in_flight: int
    #: The meta key
    key: str
    #: The limit that is reached: of the strategy's own and the one set for the value the smaller; of several branches the widest
    limit: int
    #: The value
    value: MetaValue


class _ScheduleRequired(TypedDict):
    #: When it was last defined, paused or resumed
    changed_at: str
    #: When it was made
    created_at: str
    #: What PUT takes, with the defaults filled in
    definition: ScheduleDefinition
    #: When it is due, in plain words
    description: str
    #: Ticks emitted since it was made; triggers and backfills are not counted
    emitted: int
    #: As in the header ETag, quotes included
    etag: str
    #: Its name in the queue
    name: str
    #: The last submissions that it inserted, by ticks, triggers and backfills, the oldest first; as far as they are known since the
    #: server's start
    recent: list[Emission]
    #: Ticks dropped by missed all: beyond its limit or window
    skipped_late: int
    #: Ticks dropped by missed skip or once
    skipped_missed: int
    #: Ticks dropped because the submission before was open
    skipped_overlap: int
    #: held: due, but a rule keeps it from inserting; finished: no tick is left; broken: this server cannot read its spec or time zone
    state: Literal["active", "paused", "held", "finished", "broken"]
    #: From 1; each change of the definition, a pause and a resume too, makes the next
    version: int


class Schedule(_ScheduleRequired, total=False):
    """Schedule: see the server's OpenAPI document."""
    #: The last tick that was emitted
    last_at: str
    #: What it inserted
    last_submission: str
    #: The next tick, jitter not counted; absent while it is paused. It may be past while nothing is emitted
    next_at: str
    #: Why it is paused or broken
    reason: str
    #: A tick that is still to be emitted, apart from next_at: of run_on_create, or kept by buffer_one
    waiting_at: str


class _ScheduleDefinitionRequired(TypedDict):
    #: When it is due: five fields of cron (minute, hour, day of month, month, weekday), @hourly, @daily, @weekly, @monthly, @yearly,
    #: "@every 90s" or "@at 2026-03-29T02:30:00Z"
    spec: str
    #: What each tick inserts: at most 64 KiB of attachment, template and inline bytes
    template: ScheduleTemplate


class ScheduleDefinition(_ScheduleDefinitionRequired, total=False):
    """ScheduleDefinition: see the server's OpenAPI document."""
    #: With missed all: the newest so many; default 100
    catchup_limit: int
    #: With missed all: none that is older than this; default 3600000
    catchup_window_ms: int
    #: false: paused; default true
    enabled: bool
    #: No ticks after
    end: str
    #: Each tick is emitted up to so much later, always by the same amount
    jitter_ms: int
    #: Ticks that could not be emitted in time: once emits the latest of them, unless a later one is on time; skip drops them; all emits
    #: those within catchup_limit and catchup_window; default once
    missed: Literal["once", "skip", "all"]
    #: A tick while the submission of the one before is open: allow emits it, skip drops it, buffer_one keeps one until then; default
    #: allow
    overlap: Literal["allow", "skip", "buffer_one"]
    #: Pause it when a submission of it fails, expires or has a dead letter
    pause_on_failure: bool
    #: Emit once when it is made, beside its ticks
    run_on_create: bool
    #: The cron spec has a leading field of seconds
    seconds: bool
    #: No ticks before; what @every counts from
    start: str
    #: Time zone whose clocks cron specs mean, by its IANA name such as Europe/Amsterdam; default UTC
    tz: str


class _ScheduleNowRequired(TypedDict):
    #: Ticks emitted
    emitted: int
    #: Its name in the queue
    name: str
    #: Of its last submissions, how many are open
    open: int
    #: Ticks dropped by missed all
    skipped_late: int
    #: Ticks dropped by missed skip or once
    skipped_missed: int
    #: Ticks dropped because the submission before was open
    skipped_overlap: int
    #: As in Schedule
    state: Literal["active", "paused", "held", "finished", "broken"]
    #: Changes when the schedule is redefined, paused or resumed
    version: int


class ScheduleNow(_ScheduleNowRequired, total=False):
    """ScheduleNow: see the server's OpenAPI document."""
    #: The last tick that was emitted
    last_at: str
    #: What it inserted
    last_submission: str
    #: The last submission that it inserted: by a tick, a trigger or a backfill
    newest: str
    #: How that stands
    newest_state: str
    #: The next tick, jitter not counted; absent while it is paused
    next_at: str
    #: Why it is paused or broken
    reason: str
    #: A tick that is still to be emitted, apart from next_at
    waiting_at: str


class SchedulePreview(TypedDict):
    """SchedulePreview: see the server's OpenAPI document."""
    #: When it is due, in plain words
    description: str
    #: The next ticks
    ticks: list[ScheduleTick]
    #: The time zone
    tz: str


class _SchedulePreviewRequestRequired(TypedDict):
    #: When it is due: five fields of cron (minute, hour, day of month, month, weekday), @hourly, @daily, @weekly, @monthly, @yearly,
    #: "@every 90s" or "@at 2026-03-29T02:30:00Z"
    spec: str


class SchedulePreviewRequest(_SchedulePreviewRequestRequired, total=False):
    """SchedulePreviewRequest: see the server's OpenAPI document."""
    #: Ticks after this; default now
    after: str
    #: No ticks after
    end: str
    #: How many; default 5
    n: int
    #: The cron spec has a leading field of seconds
    seconds: bool
    #: No ticks before; what @every counts from
    start: str
    #: Time zone whose clocks cron specs mean, by its IANA name such as Europe/Amsterdam; default UTC
    tz: str


class _ScheduleTemplateRequired(TypedDict):
    #: The work, in exactly one of three forms; in prefix and template {scheduled_at} is replaced by the tick's time (RFC 3339, UTC)
    chunks: Chunks


class ScheduleTemplate(_ScheduleTemplateRequired, total=False):
    """ScheduleTemplate: see the server's OpenAPI document."""
    #: Goes out with every reservation
    attachment: Bytes
    #: How long after its insert a submission expires if it is still open; 0: none
    dead_after_ms: int
    #: Name of a group; it is kept and shown, and does nothing yet
    group: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: What strategies see
    meta: Meta
    #: What a chunk out of attempts does; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int


class ScheduleTick(TypedDict):
    """ScheduleTick: see the server's OpenAPI document."""
    #: When
    at: str
    #: The same on the clocks of the time zone
    local: str


class SchedulesFrame(TypedDict):
    """SchedulesFrame: see the server's OpenAPI document."""
    #: Those that are due next come first
    items: list[ScheduleNow]
    #: Those that the frame has no room for
    left: int
    #: Name of the queue
    queue: str


class _ScoreBlockRequired(TypedDict):
    #: Expression whose value is the score
    expression: str
    #: The block
    type: Literal["score"]
    #: The strategy that it works on
    underlying: StrategyNode


class ScoreBlock(_ScoreBlockRequired, total=False):
    """In text: Score(expression, [window=N], [explore=N], underlying)."""
    #: Every so many of the candidates that go out is the first in the order of underlying, regardless of its score; 0: none
    explore: int
    #: How many candidates are scored at once
    window: int


class SelectOnlyBlock(TypedDict):
    """In text: SelectOnly(key, value, underlying)."""
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["select_only"]
    #: The strategy that it works on
    underlying: StrategyNode
    #: Value that a submission must have under the key
    value: MetaValue


class Series(TypedDict):
    """Series: see the server's OpenAPI document."""
    #: When, in milliseconds since 1970
    at: list[int]
    #: Chunks out of attempts
    dead: list[int]
    #: Chunks completed, per second since the point before
    done_rate: list[float]
    #: Tries that failed, per second since the point before
    failed_rate: list[float]
    #: Chunks inserted, per second since the point before
    inserted_rate: list[float]
    #: Name of the queue
    queue: str
    #: Chunks that could be reserved
    ready: list[int]
    #: Chunks held by consumers
    reserved: list[int]
    #: Chunks reserved, per second since the point before
    reserved_rate: list[float]
    #: Time from point to point
    step_seconds: int
    #: Chunks that waited for a time
    waiting: list[int]


class ServerOption(TypedDict):
    """ServerOption: see the server's OpenAPI document."""
    #: The value when none is given
    default: str
    #: What it does
    help: str
    #: What it may be, in words
    limit: str
    #: Its name in a configuration file; the flag has '-' for '_', the environment the same in capitals after QUERN_
    option: str
    #: Who had the last word: default, file PATH, environment, flag, or command where a command such as dev decides
    source: str
    #: What is in effect
    value: str


class ServerOptions(TypedDict):
    """ServerOptions: see the server's OpenAPI document."""
    #: Every option, in the order of the server's help
    options: list[ServerOption]


class Session(TypedDict):
    """Session: see the server's OpenAPI document."""
    #: When it ends, however busy it is
    ends_at: str
    #: After so long without a request and without an open stream it ends
    idle_seconds: int


class Skipped(TypedDict):
    """Skipped: see the server's OpenAPI document."""
    #: Frames that the subscriber was too slow for
    frames: int
    #: Name of the queue
    queue: str


class _SpreadRequired(TypedDict):
    #: By meta key; $submission stands for the submission itself
    keys: list[KeySpread]
    #: Chunks that would be handed out
    picks: int
    #: The canonical text
    strategy: str


class Spread(_SpreadRequired, total=False):
    """Spread: see the server's OpenAPI document."""
    #: Blocks that were not scored, as their plugin is not there, not active, out of use for now, or failed; what follows them was gone
    #: on with, as a reserve would. Absent when there is none
    warnings: list[StrategyWarning]


class Stats(TypedDict):
    """Stats: see the server's OpenAPI document."""
    #: Submissions that came as dead letters of another queue
    arrived_total: int
    #: Chunks kept back by block rules
    blocked: int
    #: Bulk operations that run
    bulk_operations_running: int
    #: Bytes of all group commits
    commit_bytes_total: int
    #: Group commits
    commits_total: int
    #: Consumers that have a stream open
    consumers_attached: int
    #: Reserve calls that wait for work
    consumers_waiting: int
    #: Dead chunks of open submissions
    dead: int
    #: Dead chunks that can be redriven: dead, and those of submissions that completed with dead ones
    dead_letters: int
    #: 1: inserts are refused for want of room
    disk_full: int
    #: Chunks of open submissions that are completed
    done: int
    #: Chunks completed
    done_total: int
    #: 1: inserts are refused by the queue's settings
    draining: int
    #: 1: no submission is open
    empty: int
    #: Deadlines that passed
    expired_total: int
    #: Tries that failed
    failed_total: int
    #: Dead letters that went on to another queue
    forwarded_total: int
    #: Chunks inserted
    inserted_total: int
    #: Size of the journal on disk
    journal_bytes: int
    #: Reservations that ended because their consumer was lost
    lost_total: int
    #: Age of the oldest submission with a ready chunk; 0 when there is none
    oldest_ready_seconds: float
    #: Operations that the ready chunks stand for
    operations_ready: int
    #: Dead letters on their way to another queue
    outgoing: int
    #: Chunks kept back by pause rules
    paused: int
    #: Chunks that can be reserved now
    ready: int
    #: Chunks given back unworked
    released_total: int
    #: Chunks held by consumers
    reserved: int
    #: Chunks reserved
    reserved_total: int
    #: Reservations that were taken from attached consumers, which were told so
    revoked_total: int
    #: Chunks of open submissions that were given up
    skipped: int
    #: Size of the store on disk
    store_bytes: int
    #: Submissions that ended, in any way
    submissions_ended_total: int
    #: Submissions inserted
    submissions_inserted_total: int
    #: Submissions that have not ended
    submissions_open: int
    #: Chunks that wait for a time
    waiting: int


class _StatsFrameRequired(TypedDict):
    #: When it stood so
    at: str
    #: Name of the queue
    queue: str
    #: Chunks per second over the last second
    rates: Rates
    #: The numbers
    stats: Stats


class StatsFrame(_StatsFrameRequired, total=False):
    """StatsFrame: see the server's OpenAPI document."""
    #: How long what can be handed out lasts at the pace of the last minute, without what rules hold; absent when nothing was done, and
    #: for a minute after a rule or a cancel changed what can be handed out
    empties_ms: int
    #: The first 20 rules: those of the whole queue, then the newest; absent when there are none
    rules: list[Rule]
    #: How many rules there are
    rules_total: int


class _StrategiesInUseRequired(TypedDict):
    #: Those that handed out most chunks first; at most 256
    items: list[StrategyUse]
    #: What was used before is not known: an hour ago, or later if the server started since
    since: str


class StrategiesInUse(_StrategiesInUseRequired, total=False):
    """StrategiesInUse: see the server's OpenAPI document."""
    #: The cursor of the next page; absent on the last
    next: str


class StrategyByName(TypedDict):
    """A strategy that the queue keeps under this name."""
    #: The name
    name: str


class StrategyRequest(TypedDict):
    """StrategyRequest: see the server's OpenAPI document."""
    #: What to name or to validate; only to validate it may be a name
    strategy: Strategy


class StrategyUse(TypedDict):
    """StrategyUse: see the server's OpenAPI document."""
    #: Handed out, over the last one to two minutes
    chunks_per_second: float
    #: About how many names reserved by it in the last half hour to hour
    consumers: int
    #: The end of the last reserve by it, to the second
    last_used: str
    #: Over the last one to two minutes, empty ones included
    reserves_per_second: float
    #: The canonical text
    strategy: str


class StrategyWarning(TypedDict):
    """StrategyWarning: see the server's OpenAPI document."""
    #: The rest of a sentence about it
    detail: str
    #: What is the matter
    kind: Literal["offers_nothing", "contradiction", "repeated_filter", "limit_never_binds", "preference_has_no_effect", "hidden", "shares_nothing", "same_scores", "plugin_unusable", "plugin_unavailable"]
    #: The block: a JSON pointer into the canonical JSON, below /strategy
    pointer: str


class _SubmissionRequired(TypedDict):
    #: Number of chunks
    chunks: int
    #: When it was inserted
    created_at: str
    #: Dead letters; in a failed submission, what ended it
    dead: int
    #: Completed
    done: int
    #: Names it for ever; ids grow with time
    id: str
    #: The queue it is in
    queue: str
    #: Can be reserved now, if a strategy and its limits let them
    ready: int
    #: Held by consumers
    reserved: int
    #: All but open are final, save that a redrive opens completed_with_dead again
    state: Literal["open", "completed", "completed_with_dead", "failed", "cancelled", "expired"]
    #: Wait for a time: run_at or a retry
    waiting: int


class Submission(_SubmissionRequired, total=False):
    """Submission: see the server's OpenAPI document."""
    #: Would be ready, but a block covers the submission
    blocked: int
    #: When it expires if it is still open; after run_at
    dead_deadline: str
    #: Index of the chunk that failed it: out of attempts, failed as fatal, or one more than max_failed_chunks. Absent if it did not
    #: fail, or under a version that did not note it
    failed_chunk: int
    #: Why it failed: the last error of the chunk that ended it
    failure: str
    #: When it left open
    finished_at: str
    #: Of the skipped ones, those that went on to another queue as dead letters
    forwarded: int
    #: It is a dead letter of another queue
    forwarded_from: Origin
    #: Name of a group; it is kept and shown, and does nothing yet
    group: str
    #: Whether it has an attachment
    has_attachment: bool
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: What strategies see
    meta: Meta
    #: What a chunk out of attempts does; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Would be ready, but a pause covers the submission
    paused: int
    #: As inserted
    prefix: str
    #: Larger first under CustomPriority
    priority: int
    #: Not handed out before
    run_at: str
    #: Name of the schedule that inserted it
    schedule: str
    #: The tick that it is for: when it was due by its schedule
    scheduled_at: str
    #: Given up; once it has ended, all that is neither done nor dead
    skipped: int
    #: As inserted
    template: str
    #: W3C traceparent, and after ';' the tracestate
    trace: str


class SubmissionChange(TypedDict):
    """SubmissionChange: see the server's OpenAPI document."""
    #: Larger first under CustomPriority
    priority: Optional[int]


class Suspects(TypedDict):
    """Suspects: see the server's OpenAPI document."""
    #: Offered or held, and not finished
    lent: int
    #: How many may be lent while there is other work: suspect_share of the slots, at least 1
    quota: int
    #: Due, and held back behind other work
    shelved: int
    #: Live consumer slots: reservations held, smoothed
    slots: float


class _TenantRequired(TypedDict):
    #: Key of the Fair block
    key: str
    #: Chunks that it is owed, under cost time seconds; negative: that it is ahead
    lag: float
    #: What it is entitled to of all that is handed out now
    share: float
    #: How it stands
    state: Literal["idle", "active", "owing", "blocked"]
    #: Its weight
    weight: float


class Tenant(_TenantRequired, total=False):
    """Tenant: see the server's OpenAPI document."""
    #: Asked why: about how many tenants come before it in this block
    before: int
    #: Its value of the key, or the id of the submission; absent: all submissions without the key
    value: MetaValue


class TenantLately(TypedDict):
    """TenantLately: see the server's OpenAPI document."""
    #: What an ideal division would have handed out to it
    entitled: float
    #: What it was handed out
    received: float


class Text(TypedDict):
    """Bytes that are UTF-8."""
    #: Bytes that are UTF-8
    text: str


class _TokenRequired(TypedDict):
    #: When it was made
    created_at: str
    #: Names it; no secret
    id: str
    #: Who it is for: what is done with it is recorded under this name
    name: str
    #: What it may do; admin implies all others
    scopes: list[str]


class Token(_TokenRequired, total=False):
    """Token: see the server's OpenAPI document."""
    #: Subject of the client certificate that stands for it; absent: none
    certificate_subject: str
    #: When it ends by itself; absent: when it is revoked
    expires_at: str
    #: When it was used last, to the minute; after a crash the last minutes may be missing. Absent: never
    last_used_at: str
    #: The only submissions that it sees; absent: all
    meta: Meta
    #: Until when the secret before the last rotation is good; absent: it is not
    previous_secret_until: str
    #: The only queues that it sees; absent: all
    queues: list[str]
    #: Its text, qn_<id>_<secret>, in the answer that made or rotated it and never again
    token: str


class ValidStrategy(TypedDict):
    """ValidStrategy: see the server's OpenAPI document."""
    #: What it compiles to, in the order in which it is asked
    branches: list[str]
    #: The canonical text
    strategy: str
    #: The canonical JSON
    tree: Strategy
    #: What in it has no effect
    warnings: list[StrategyWarning]


class _ValueCountRequired(TypedDict):
    #: Chunks of such submissions that are held
    in_flight: int
    #: Most chunks in flight, for every reservation of the queue; null: no limit is set
    limit: Optional[int]
    #: Ready chunks of submissions with the value
    ready: int
    #: Whether in_flight is at limit, or above it
    saturated: bool
    #: From when on it has been at its limit whenever the server looked, once a second, but for moments shorter than five seconds. null:
    #: it is not, or it is one of more than 10,000 values and was not looked at
    saturated_since: Optional[str]
    #: Open submissions with the value
    submissions: int
    #: The value
    value: MetaValue
    #: Share under Fair, with up to three decimals; null: none is set, which counts as 1
    weight: Optional[float]


class ValueCount(_ValueCountRequired, total=False):
    """ValueCount: see the server's OpenAPI document."""
    #: Such chunks that would be ready, but for a block
    blocked: int
    #: When it was set; absent when nothing is
    changed_at: str
    #: Names what is set, for If-Match; absent when nothing is
    etag: str
    #: Such chunks that would be ready, but for a pause
    paused: int


class ValueSeries(TypedDict):
    """ValueSeries: see the server's OpenAPI document."""
    #: The most chunks in flight in each step, the oldest first; -1 where that is not known
    in_flight: list[int]
    #: The value
    value: MetaValue


class ValueSettings(TypedDict, total=False):
    """ValueSettings: see the server's OpenAPI document."""
    #: Most chunks in flight, for every reservation of the queue; null: no limit is set
    limit: Optional[int]
    #: Share under Fair, with up to three decimals; null: none is set, which counts as 1
    weight: Optional[float]


class ValueSum(TypedDict):
    """ValueSum: see the server's OpenAPI document."""
    #: Their chunks that are held
    in_flight: int
    #: Their ready chunks
    ready: int
    #: How many values
    values: int


class _VersionRequired(TypedDict):
    #: The toolchain
    go: str
    #: The release
    version: str


class Version(_VersionRequired, total=False):
    """Version: see the server's OpenAPI document."""
    #: Of the source
    revision: str


class View(TypedDict):
    """View: see the server's OpenAPI document."""
    #: Text of the branch
    branch: str
    #: false: it is being built, and nothing is reserved by it yet
    built: bool
    #: About how much memory it takes, an equal part of what it shares with views of another number; while it is being built, how much it
    #: may come to
    bytes: int
    #: Only questions (preview, explain, why, compare) are about it: no consumer reserves by it
    question: bool


class _ViewsRequired(TypedDict):
    #: What the views of all queues take together, by strategies that are reserved by
    bytes: int
    #: What they may take: the server's option view-memory
    bytes_most: int
    #: The views, the largest first
    items: list[View]
    #: What those take that only questions made
    question_bytes: int
    #: What those may take: a quarter as much
    question_bytes_most: int


class Views(_ViewsRequired, total=False):
    """Views: see the server's OpenAPI document."""
    #: The cursor of the next page; absent on the last
    next: str


class _WaitAnswerRequired(TypedDict):
    #: Those that have ended, in the order of the request
    ended: list[Submission]
    #: How many of them are open, or have ended and did not fit
    open: int


class WaitAnswer(_WaitAnswerRequired, total=False):
    """WaitAnswer: see the server's OpenAPI document."""
    #: Ids that are not known, in the order of the request; absent when there are none
    unknown: list[str]


class _WaitRequestRequired(TypedDict):
    #: Whose end to wait for, of any queues
    ids: list[str]


class WaitRequest(_WaitRequestRequired, total=False):
    """WaitRequest: see the server's OpenAPI document."""
    #: Answer when all have ended; absent: when one has
    all: bool
    #: How long to wait; 0 or absent: not at all
    wait_ms: int


class _WhoamiRequired(TypedDict):
    #: What may be done; admin implies all others
    scopes: list[str]
    #: false: there is no token yet, and everything is open to those who reach the server
    token_required: bool


class Whoami(_WhoamiRequired, total=False):
    """Whoami: see the server's OpenAPI document."""
    #: When the token ends by itself; absent: when it is revoked
    expires_at: str
    #: The token's id; likewise
    id: str
    #: The only submissions that are seen; absent: all
    meta: Meta
    #: The token's name; absent where none is required
    name: str
    #: The only queues that are seen; absent: all
    queues: list[str]
    #: Of a caller with a session: when that ends
    session: Session


class _WhyAnswerRequired(TypedDict):
    #: The strategy's branches, in the order in which they are asked
    branches: list[WhyBranch]
    #: Where the chunk stands
    state: Literal["ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"]
    #: The canonical text
    strategy: str


class WhyAnswer(_WhyAnswerRequired, total=False):
    """WhyAnswer: see the server's OpenAPI document."""
    #: Until then the restart grace keeps back what a limit counts; absent: there is none
    restart_grace_until: str
    #: About where the chunk stands; absent when no branch admits it now
    standing: WhyStanding
    #: Blocks that are not scored now, as their plugin is not there, not active, or out of use, so that what follows them is gone on
    #: with. Absent when there is none
    warnings: list[StrategyWarning]


class _WhyBranchRequired(TypedDict):
    #: Number of the branch, from 1; inside of Fair every alternative is a branch
    branch: int
    #: The obstacle in words
    detail: str
    #: The first obstacle; none: the branch may hand the chunk out now
    obstacle: Literal["none", "done", "dead", "skipped", "forwarded", "waiting", "reserved", "not_yet_due", "paused", "blocked", "filter", "restart_grace", "limit", "value_limit", "hidden", "alternative", "turn", "score"]
    #: The way to the branch through the strategy
    path: str


class WhyBranch(_WhyBranchRequired, total=False):
    """WhyBranch: see the server's OpenAPI document."""
    #: Of reserved: who holds it
    consumer: str
    #: Of hidden and alternative: number of the branch that comes first
    hidden_by: int
    #: Of limit and value_limit: chunks of that value that are held
    in_flight: int
    #: Of filter and the limits: the meta key
    key: str
    #: Of limit, value_limit and restart_grace: how many may be
    max: int
    #: Of paused and blocked: the rule that counts
    rule: Rule
    #: Under Fair: the tenant that the chunk belongs to in each block, the outermost first
    tenants: list[Tenant]
    #: Of waiting, reserved, not_yet_due and restart_grace: until when; of paused and blocked too, if the rule ends by itself
    until: str
    #: Of filter and the limits: the submission's value, if it has one
    value: MetaValue


class WhyRequest(TypedDict, total=False):
    """WhyRequest: see the server's OpenAPI document."""
    #: The strategy; absent: Random
    strategy: Strategy


class _WhyStandingRequired(TypedDict):
    #: About how many chunks come before it, rounded to two digits; of those that Random draws among, half
    ahead: int
    #: Whether there are more before it, as not everything was looked at
    at_least: bool
    #: The first branch that admits the chunk, from 1
    branch: int
    #: Chunks of the queue reserved a second over the last minute; 0: none, or not known yet
    per_second: float


class WhyStanding(_WhyStandingRequired, total=False):
    """WhyStanding: see the server's OpenAPI document."""
    #: Under Random: about how many chunks it is drawn from
    among: int
    #: About how long it waits at that rate; absent when there is none
    wait_ms: int


class Withheld(TypedDict):
    """Withheld: see the server's OpenAPI document."""
    #: What is kept back
    refused: Amount
    #: Different values that do; at most 10,000 are distinguished
    refused_values: int
    #: Of them the ten that keep back most chunks
    top: list[RefusedValue]
