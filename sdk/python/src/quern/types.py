"""What the server's answers and requests look like: each is a dict.

Written by generate.py from the server's OpenAPI document; changes go there."""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union

__all__ = [
    "After",
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
    "DurationBucket",
    "DurationCounts",
    "Durations",
    "Emission",
    "EndsGap",
    "ExceptBlock",
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
    "Forecast",
    "ForwardRequest",
    "Group",
    "GroupLimits",
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
    "Link",
    "MaxRateBlock",
    "MaxSimultaneousBlock",
    "Meta",
    "MetaKey",
    "MetaValue",
    "MissingNode",
    "MissingShard",
    "MoveGroupRequest",
    "MoveRequest",
    "Moved",
    "NamedStrategy",
    "NewSession",
    "NewSubmission",
    "NewSubmissionHead",
    "NewToken",
    "NewestFirstBlock",
    "Node",
    "NodeQueue",
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
    "PageGroup",
    "PageHeldReservation",
    "PageLedger",
    "PageMetaKey",
    "PageNamedStrategy",
    "PageNode",
    "PagePlugin",
    "PagePluginRecording",
    "PagePluginScores",
    "PagePluginVersion",
    "PageQueue",
    "PageRetry",
    "PageRule",
    "PageSchedule",
    "PageShard",
    "PageSubmission",
    "PageSubmissionOutput",
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
    "PutGroupRequest",
    "PutQueueRequest",
    "Quarantined",
    "Queue",
    "QueueNow",
    "QueueSettings",
    "QueueSettingsInput",
    "RandomBlock",
    "Rate",
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
    "Retry",
    "RetryGroup",
    "RetryGroups",
    "RetryTries",
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
    "SelectAnyBlock",
    "SelectOnlyBlock",
    "Series",
    "ServerOption",
    "ServerOptions",
    "Session",
    "Shard",
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
    "SubmissionOutput",
    "Suspects",
    "Tenant",
    "TenantLately",
    "Text",
    "Token",
    "Unique",
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


#: Opaque bytes. A request has a bare string (text), {text} or {base64}; an answer has {text} if they are UTF-8, else {base64}
Bytes = Union[str, "Text", "Base64"]

#: The content of a chunk: bytes, or the key of an object in object storage. Its one field tells which
Content = Union["Text", "Base64", "Key"]

#: A string or a whole number of 64 bits; "7" and 7 are different values
MetaValue = Union[str, int]

#: What to hand out next. A string is the text form (OrElse(SelectOnly("mode", "preview", Random), OldestFirst)). An object with the
#: field name is a named strategy of the queue, and one with the field type is a block
Strategy = Union[str, "StrategyByName", "StrategyBlock"]

#: A block with its arguments; type says which
StrategyBlock = Union["CustomPriorityBlock", "ExceptBlock", "FairBlock", "MaxRateBlock", "MaxSimultaneousBlock", "NewestFirstBlock", "OldestFirstBlock", "OrElseBlock", "PluginBlock", "PreferDistinctBlock", "RandomBlock", "ScoreBlock", "SelectAnyBlock", "SelectOnlyBlock"]

#: A strategy within another: a string is the text form, or the type of a block without arguments; an object is a block
StrategyNode = Union[str, "StrategyBlock"]


class _AfterRequired(TypedDict):
    #: Submissions of the same queue, each once; in a queue of several shards, of the same group
    ids: list[str]


class After(_AfterRequired, total=False):
    """After: see the server's OpenAPI document."""
    #: Action of the server if one of them ends without being completed. cancel (default): it cancels this submission. run: this one
    #: starts all the same when all have ended. dead_letter: its chunks become dead letters, whose error names the one that ended.
    #: Refused with until "ended"
    on_unmet: str
    #: completed (default): wait until all of them are completed. ended: wait until they have ended in any way
    until: str


class Amount(TypedDict):
    """Amount: see the server's OpenAPI document."""
    #: Their ready chunks
    chunks: int
    #: Submissions with ready chunks
    submissions: int


class _AttemptRequired(TypedDict):
    #: When it ended
    ended_at: str
    #: Time that the consumer held the chunk
    held_ms: int


class Attempt(_AttemptRequired, total=False):
    """Attempt: see the server's OpenAPI document."""
    #: Consumer that held the chunk
    consumer: str
    #: Error from the consumer; only the last attempt keeps more than the first 256 bytes
    error: str
    #: Whether its deadline ended it
    expired: bool
    #: Whether it ended because its consumer was lost
    lost: bool


_AuditEntryOdd = TypedDict("_AuditEntryOdd", {"from": "str"}, total=False)


class _AuditEntryRequired(TypedDict):
    #: Action: a resource and a verb, such as rule.create
    action: str
    #: Name of the token. On a server without tokens, the name that the client gave, or empty. Also empty for an act of the server itself
    actor: str
    #: Time of the decision
    at: str
    #: Whether the server did it or refused it
    outcome: Literal["ok", "refused"]


class AuditEntry(_AuditEntryOdd, _AuditEntryRequired, total=False):
    """AuditEntry: see the server's OpenAPI document."""
    #: The state afterwards; absent if nothing is left
    after: Any
    #: The state before; absent if there was none. If it takes more than 16 KiB, only its size
    before: Any
    #: Person or service from the header Quern-On-Behalf-Of
    on_behalf_of: str
    #: Queue; absent for an act on the whole server
    queue: str
    #: Id of the request, as in the header X-Request-ID of its answer
    request_id: str
    #: Object of the act, such as `rule 7`; absent for the queue or the server itself
    target: str


_BackfillRequestOdd = TypedDict("_BackfillRequestOdd", {"from": "str"}, total=False)


class _BackfillRequestRequired(TypedDict):
    #: Last time of the ticks, in the past
    to: str


class BackfillRequest(_BackfillRequestOdd, _BackfillRequestRequired, total=False):
    """BackfillRequest: see the server's OpenAPI document."""
    #: Count the ticks without a limit, and insert nothing
    dry_run: bool
    #: Refuse the request if it has more ticks than this; default 100
    limit: int


class _BackfilledRequired(TypedDict):
    #: Ids of the submissions, in the order of their ticks; absent in a dry run
    submissions: list[str]
    #: Number of ticks in the requested time
    ticks: int


class Backfilled(_BackfilledRequired, total=False):
    """Backfilled: see the server's OpenAPI document."""
    #: Time of the first tick; only in a dry run
    first_at: str


class Backoff(TypedDict, total=False):
    """Backoff: see the server's OpenAPI document."""
    #: Delay after the first attempt; not for a list
    base_ms: int
    #: Longest delay of an exponential or linear back-off; 0 or absent: 30 days
    cap_ms: int
    #: Delays of a list, 0 to 30 days each; attempts after them wait as long as the last one
    delays_ms: list[int]
    #: Growth of an exponential delay per attempt, 1 or more; 0 or absent: 2
    factor: float
    #: full (default, absent in answers): drawn between 0 and the delay. equal: between half of it and all. none: the delay
    jitter: Literal["full", "equal", "none"]
    #: exponential (default, absent in answers): base_ms * factor^(n-1). linear: base_ms * n. fixed: base_ms. list: the n-th of delays_ms
    kind: Literal["exponential", "linear", "fixed", "list"]


class Base64(TypedDict):
    """Bytes in base64."""
    #: Bytes in base64
    base64: str


class _BatchSubmissionRequired(TypedDict):
    #: The work, in exactly one of three forms
    chunks: Chunks


class BatchSubmission(_BatchSubmissionRequired, total=False):
    """BatchSubmission: see the server's OpenAPI document."""
    #: Keeps its chunks back until other submissions have ended
    after: After
    #: At most 64 KiB of opaque bytes, sent with every reservation
    attachment: Bytes
    #: Expire the submission if it is still open at this time; later than run_at
    dead_deadline: str
    #: Name of the group, which strategies see as the meta key `group`. All submissions of a group are in one shard of the queue
    group: str
    #: Like the header Idempotency-Key of a single insert
    idempotency_key: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: Keys and values for strategies
    meta: Meta
    #: What happens to a chunk that is out of attempts; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: The pause after a failed attempt, instead of the queue's
    retry_backoff: Backoff
    #: Hand out no chunk before
    run_at: str
    #: The longest time that one attempt may hold a chunk, with all its extensions; 0: the queue's max_reservation_ms
    timeout_ms: int
    #: W3C traceparent of this submission, then ';' and the tracestate; replaces the headers
    trace: str
    #: Inserts it only if no other submission of the queue holds the key
    unique: Unique


class BulkFilter(TypedDict, total=False):
    """BulkFilter: see the server's OpenAPI document."""
    #: Submissions inserted at this time or later
    created_after: str
    #: Submissions inserted before this time
    created_before: str
    #: Chunks whose last attempt ended at this time or later
    died_after: str
    #: Chunks whose last attempt ended before this time
    died_before: str
    #: Chunks whose last error has this fingerprint
    fingerprint: str
    #: Submissions with all of these values
    meta: Meta
    #: At most this many of the matching dead letters: those that died first, as of the start of the operation. 0 or absent: all
    oldest: int
    #: Submissions in one of these states: open; for dead letters also completed_with_dead; for purge any
    states: list[str]
    #: Only this submission
    submission: str


class _BulkOperationRequired(TypedDict):
    #: Action on each match
    action: Literal["redrive", "delete", "forward", "retry", "give_up", "cancel", "reprioritize", "purge"]
    #: Start of the operation, which ignores everything that comes later
    created_at: str
    #: Number of changes; in a dry run, of those that it would make
    done: int
    #: Count the matches, and change nothing
    dry_run: bool
    #: Id of the operation
    id: str
    #: Number of matches so far: done, unchanged and refused together
    matched: int
    #: The queue
    queue: str
    #: Most chunks or submissions per second; 0: no limit
    rate_per_second: int
    #: Number of matches that cannot be changed, such as a dead letter whose submission has passed its dead_deadline
    refused: int
    #: All states but running are final
    state: Literal["running", "completed", "cancelled", "failed"]
    #: Number of matches left as they were: another caller was first, or there was nothing to do
    unchanged: int


class BulkOperation(_BulkOperationRequired, total=False):
    """BulkOperation: see the server's OpenAPI document."""
    #: Name of the caller: that of the access token or, on an open server, the name in the request, at most 128 bytes
    actor: str
    #: Name of the caller that cancelled it
    cancelled_by: str
    #: Number of items examined, matching or not: dead letters, chunks that wait for a retry, or submissions of the queue or of the
    #: filter's submission
    examined: int
    #: Error that ended it
    failure: str
    #: The matches satisfy every given field; an empty filter matches everything
    filter: BulkFilter
    #: Time of its end
    finished_at: str
    #: Most matches that it changes; absent: all
    limit: int
    #: Share of the items examined, rounded down; 100 only when it has completed
    percent: int
    #: For reprioritize: the new priority
    priority: int
    #: Time until the operation has examined everything, at the pace of the last minute or, if that is unknown, at rate_per_second.
    #: Absent: it has ended, or the time is unknown
    remaining_ms: int
    #: For forward: the target queue
    to: str
    #: Number of items to examine, as counted at the start; it falls when many of them disappear. Never less than examined, and equal to
    #: it when the operation has completed. Absent for a purge that runs, as the server does not count ended submissions
    to_examine: int


class _BulkRequestRequired(TypedDict):
    #: Action on each match. retry also ends the delays of released chunks (snoozes)
    action: Literal["redrive", "delete", "forward", "retry", "give_up", "cancel", "reprioritize", "purge"]
    #: The queue
    queue: str


class BulkRequest(_BulkRequestRequired, total=False):
    """BulkRequest: see the server's OpenAPI document."""
    #: Name of the access token; on an open server, the name in the request, at most 128 bytes
    actor: str
    #: Count the matches, and change nothing
    dry_run: bool
    #: The matches must satisfy every given field; an empty filter matches everything
    filter: BulkFilter
    #: Change at most this many matches, the newest submissions first; 0 or absent: all
    limit: int
    #: The new priority, for reprioritize
    priority: int
    #: Most chunks or submissions per second; 0: no limit
    rate_per_second: int
    #: Target queue of the dead letters, for forward
    to: str


class _CauseRequired(TypedDict):
    #: Open chunks with this cause; each counts for its first cause only
    chunks: int
    #: The cause in words, as a part of a sentence
    detail: str
    #: Time when all chunks with this cause are done; their order is not known. null if they are stuck. For a tenant's token it follows
    #: from the pace of its own value at its limit; null if that is not known
    forecast: Optional[Forecast]
    #: Reason why the chunks are held back. none: nothing holds them back. limit includes the restart grace. not_due includes the wait
    #: for a retry. unasked: no strategy in use selects them
    kind: Literal["limit", "rule", "not_due", "after", "dead", "empty", "unasked", "none", "rate"]
    #: Submissions of these chunks. In the diagnosis of a queue they are counted only for limits, and 0 for other causes
    submissions: int


class Cause(_CauseRequired, total=False):
    """Cause: see the server's OpenAPI document."""
    #: For limit: chunks of that value in flight; absent during the restart grace
    in_flight: int
    #: For limit: the meta key
    key: str
    #: Time of the last reserve with that strategy
    last_used: str
    #: For a queue: the names in the sentence about this cause, in its order
    links: list[Link]
    #: For limit: the maximum
    max: int
    #: Chunks per second at which these end, the median of the last ten minutes; absent if nothing moves
    per_second: float
    #: For rule: the rule that decides. A tenant's token sees only rules about its own work
    rule: Rule
    #: For none: the latest strategy that selects the chunks. For limit: the strategy with the limit; absent for an operator's limit
    strategy: str
    #: For not_due: the earliest known time. For rule: its end. For limit: the end of the restart grace
    until: str
    #: For limit: the value
    value: MetaValue


class ChangeQueueRequest(TypedDict, total=False):
    """ChangeQueueRequest: see the server's OpenAPI document."""
    #: Settings to change; the others stay
    settings: QueueSettingsInput


class _CheckRequired(TypedDict):
    #: Name of the check
    name: str
    #: Whether the part works
    ok: bool


class Check(_CheckRequired, total=False):
    """Check: see the server's OpenAPI document."""
    #: State of the checked part
    detail: str


class _ChunkRequired(TypedDict):
    #: Attempts that ended without success
    attempts: int
    #: Index, from 0
    index: int
    #: State of the chunk
    state: Literal["ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"]


class Chunk(_ChunkRequired, total=False):
    """Chunk: see the server's OpenAPI document."""
    #: For a reserved chunk: its consumer
    consumer: str
    #: For a reserved chunk: its deadline
    deadline: str
    #: Error of the last attempt
    error: str
    #: For a forwarded chunk: the target queue
    forwarded_to: str
    #: For a reserved chunk: time of the reservation
    held_since: str
    #: For a waiting chunk: the earliest time at which the server hands it out
    not_before: str
    #: For a reserved chunk: the latest note of its consumer
    note: str
    #: Output, for a done chunk that has one
    output: Bytes
    #: For a reserved chunk: share of the work that is done, 0 to 1, as its consumer last reported
    progress: float


_ChunkMapOdd = TypedDict("_ChunkMapOdd", {"from": "int"}, total=False)


class _ChunkMapRequired(TypedDict):
    #: Chunks of the submission
    chunks: int
    #: Chunks of each cell that are dead
    dead: list[int]
    #: Chunks of each cell that are done
    done: list[int]
    #: Chunks in a cell; the last one may have fewer
    each: int
    #: The server examined one chunk in this many; the counts below are of the examined chunks. 1: of all chunks
    every: int
    #: Chunks of each cell that are ready
    ready: list[int]
    #: Chunks of each cell that are reserved
    reserved: list[int]
    #: Chunks of each cell that are skipped
    skipped: list[int]
    #: Index after the last chunk of the last cell
    to: int
    #: Chunks of each cell that are waiting
    waiting: list[int]


class ChunkMap(_ChunkMapOdd, _ChunkMapRequired, total=False):
    """ChunkMap: see the server's OpenAPI document."""
    #: Effect of a rule on the ready chunks of all cells: the server hands out none of them. Absent: no rule covers them
    ruling: Literal["paused", "blocked"]


class Chunks(TypedDict, total=False):
    """Chunks: see the server's OpenAPI document."""
    #: Number of chunks, with prefix or template
    count: int
    #: One content per chunk, each at most 1 MiB
    inline: list[Bytes]
    #: Contents are in object storage, at prefix + index
    prefix: str
    #: The content is this text, with each {index} replaced
    template: str


class Closed(TypedDict):
    """Closed: see the server's OpenAPI document."""
    #: Stable name of the reason, as in Problem
    code: str
    #: The reason in words, with advice
    detail: str
    #: Name of the queue
    queue: str


class _CompareAnswerRequired(TypedDict):
    #: Picks of one strategy
    a: Spread
    #: Picks of the other strategy
    b: Spread
    #: The first chunks that only strategy a would hand out, in its order
    only_a: list[PreviewPick]
    #: The first chunks that only strategy b would hand out, in its order
    only_b: list[PreviewPick]
    #: Chunks that both would hand out
    overlap: int
    #: Seed of Random; with it, the same state gives the same picks again
    seed: int


class CompareAnswer(_CompareAnswerRequired, total=False):
    """CompareAnswer: see the server's OpenAPI document."""
    #: Shards of a queue of several shards that did not answer, and whose chunks the answer lacks
    missing_shards: list[MissingShard]
    #: End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
    restart_grace_until: str


class _CompareRequestRequired(TypedDict):
    #: One strategy
    a: Strategy
    #: The other strategy
    b: Strategy


class CompareRequest(_CompareRequestRequired, total=False):
    """CompareRequest: see the server's OpenAPI document."""
    #: Facts about the consumer for plugins and formulas, as in a reservation: at most 16 keys
    context: Meta
    #: Most chunks to look ahead; 0 or absent: 10
    max: int
    #: The same seed gives the same picks from the same state; absent: a random one
    seed: int


class _CompleteItemRequired(TypedDict):
    #: Token from the reservation
    token: str


class CompleteItem(_CompleteItemRequired, total=False):
    """CompleteItem: see the server's OpenAPI document."""
    #: Submissions to insert into this queue in the same commit: all and the completion, or nothing
    insert: list[BatchSubmission]
    #: At most 1 MiB, stored with the chunk
    output: Bytes


class CompleteRequest(TypedDict):
    """CompleteRequest: see the server's OpenAPI document."""
    #: Chunks that are done
    items: list[CompleteItem]


class _ConsumerRequired(TypedDict):
    #: Name of the consumer
    consumer: str
    #: Whether an operator told it to finish its chunks and leave
    draining: bool
    #: Number of its chunks held for longer than the queue's reservation_timeout_ms; at most 1,000 are counted
    overdue: int
    #: Whether an operator keeps new work from it
    quiet: bool
    #: Chunks that it holds
    reserved: int
    #: attached: it has an open stream. away: its stream broke, within the queue's consumer_grace_ms. detached: only deadlines end its
    #: reservations
    state: Literal["attached", "away", "detached"]


class Consumer(_ConsumerRequired, total=False):
    """Consumer: see the server's OpenAPI document."""
    #: Time when it attached
    attached_since: str
    #: Time when its stream broke
    away_since: str
    #: Time of its last call
    last_seen_at: str
    #: While away: time when its reservations are lost, unless it returns
    lost_at: str
    #: Time of its oldest reservation
    oldest_reserved_at: str


class _ConsumerDetailRequired(TypedDict):
    #: Name of the consumer
    consumer: str
    #: Whether an operator told it to finish its chunks and leave
    draining: bool
    #: Its reservations, the oldest first
    items: list[HeldChunk]
    #: Number of its chunks held for longer than the queue's reservation_timeout_ms; at most 1,000 are counted
    overdue: int
    #: Whether an operator keeps new work from it
    quiet: bool
    #: Chunks that it holds
    reserved: int
    #: attached: it has an open stream. away: its stream broke, within the queue's consumer_grace_ms. detached: only deadlines end its
    #: reservations
    state: Literal["attached", "away", "detached"]


class ConsumerDetail(_ConsumerDetailRequired, total=False):
    """ConsumerDetail: see the server's OpenAPI document."""
    #: Time when it attached
    attached_since: str
    #: Time when its stream broke
    away_since: str
    #: Time of its last call
    last_seen_at: str
    #: While away: time when its reservations are lost, unless it returns
    lost_at: str
    #: Cursor of the next page; absent on the last
    next: str
    #: Time of its oldest reservation
    oldest_reserved_at: str


class ConsumersFrame(TypedDict):
    """ConsumersFrame: see the server's OpenAPI document."""
    #: Time of these numbers
    at: str
    #: Number of them with an open stream
    attached: int
    #: Number of consumers examined
    consumers: int
    #: Number of consumers that the frame has no space for
    left: int
    #: Chunks that they hold for longer than usual
    overdue: int
    #: Name of the queue
    queue: str
    #: Consumers with the most overdue chunks, then with the most chunks
    top: list[Consumer]
    #: Whether all consumers were examined; if not, there are more, and the sums miss them
    whole: bool


class _CounterDriftRequired(TypedDict):
    #: Time of the discovery
    at: str
    #: Whether the server corrected it; if not, other data is damaged too, and a restart recounts everything
    corrected: bool
    #: Name of the counter
    counter: str
    #: Value of the counter
    kept: int
    #: The true value, which the counter has now if the server corrected it
    recounted: int
    #: Object that the counter belongs to
    scope: Literal["submission", "value", "queue"]


class CounterDrift(_CounterDriftRequired, total=False):
    """CounterDrift: see the server's OpenAPI document."""
    #: The meta key, for the counter of a value
    meta_key: str
    #: The submission, for the counter of a submission
    submission: str
    #: The value, for the counter of a value
    value: MetaValue


class CustomPriorityBlock(TypedDict):
    """In text: CustomPriority."""
    #: The block
    type: Literal["custom_priority"]


class _DeadGroupRequired(TypedDict):
    #: Dead letters in the group
    count: int
    #: An error of the group
    example: str
    #: Fingerprint of all errors of the group
    fingerprint: str
    #: The error with its variable parts replaced by <n>, <hex>, <uuid> and <s>
    pattern: str
    #: Number of submissions with such dead letters
    submissions: int


class DeadGroup(_DeadGroupRequired, total=False):
    """DeadGroup: see the server's OpenAPI document."""
    #: Time when the first of them died
    first_died_at: str
    #: Time when the last of them died
    last_died_at: str


class _DeadGroupsRequired(TypedDict):
    #: The groups, the largest first
    items: list[DeadGroup]
    #: Dead letters in no group, because there are already 10,000 groups
    others: int


class DeadGroups(_DeadGroupsRequired, total=False):
    """DeadGroups: see the server's OpenAPI document."""
    #: Shards that did not answer, if the queue has several
    missing_shards: list[MissingShard]
    #: The cursor of the next page; absent on the last
    next: str


class _DeadLetterRequired(TypedDict):
    #: Attempts since the insert or the last redrive
    attempts: int
    #: Number of those attempts that ended by their deadline
    expiries: int
    #: 16 hexadecimal digits; equal for errors that differ only in numbers, hexadecimal ids, UUIDs and quoted parts
    fingerprint: str
    #: Index of the chunk
    index: int
    #: Number of redrives
    redrives: int
    #: Its submission
    submission: str
    #: State of the submission
    submission_state: Literal["open", "completed_with_dead"]


class DeadLetter(_DeadLetterRequired, total=False):
    """DeadLetter: see the server's OpenAPI document."""
    #: Last consumer of the chunk
    consumer: str
    #: Its content, if that is inline and has at most 65,536 bytes; absent in lists
    content: Bytes
    #: End of the last attempt
    died_at: str
    #: The last error
    error: str
    #: The last 10 attempts over all redrives, the oldest first; absent in lists
    history: list[Attempt]


class _DiagnosisRequired(TypedDict):
    #: At most 10 causes, those with the most chunks first; one of the kind empty if there is no other
    causes: list[Cause]
    #: Number of these chunks that were examined for the causes: all, unless there are very many
    examined: int
    #: Time when everything is done: the latest end of the causes. null if nothing moves; for a tenant's token also if the forecast of a
    #: cause is null
    forecast: Optional[Forecast]
    #: Number of consumers that hold them; of very many chunks, only the examined ones count
    holders: int
    #: Chunks that consumers hold
    in_flight: int
    #: The answer as one sentence, the cause with the most chunks first
    sentence: str
    #: Open submissions in question
    submissions: int


class Diagnosis(_DiagnosisRequired, total=False):
    """Diagnosis: see the server's OpenAPI document."""
    #: Time when the submission's first chunk was reserved, to a tenth of a second. Absent for a value, before that time, and after a
    #: restart, which forgets it
    first_reserved_at: str
    #: The longest reservation; absent if there is none
    oldest: Holding
    #: For a submission: number of the shard that has it; absent if the queue has one shard
    shard: int


class DurationBucket(TypedDict):
    """DurationBucket: see the server's OpenAPI document."""
    #: Upper bound, a power of two; the first is 1
    below_ms: int
    #: Durations below it, and in no bucket before
    count: int


class DurationCounts(TypedDict):
    """DurationCounts: see the server's OpenAPI document."""
    #: Counts by duration, from the first bucket that is not empty to the last one
    buckets: list[DurationBucket]
    #: Number of durations
    count: int
    #: The longest; of a value on a busy queue, the longest that was measured
    max_ms: int
    #: Half of them were shorter, to within a tenth
    p50_ms: int
    #: 95 % of them were shorter, to within a tenth
    p95_ms: int


class Durations(TypedDict):
    """Durations: see the server's OpenAPI document."""
    #: From a reservation to its completion or failure
    run: DurationCounts
    #: Start of the counted time: half an hour to an hour ago, or the start of the server or of the measurement
    since: str
    #: From the insert, or from run_at, to the first reservation
    wait: DurationCounts


class Emission(TypedDict):
    """Emission: see the server's OpenAPI document."""
    #: Time of the tick
    at: str
    #: State of the submission
    state: Literal["open", "completed", "completed_with_dead", "failed", "cancelled", "expired"]
    #: Id of the submission
    submission: str


class EndsGap(TypedDict):
    """EndsGap: see the server's OpenAPI document."""
    #: The client's place: it has all ends up to there
    after: str
    #: Place up to which ends are missing, or behind which they come again
    until: str


class ExceptBlock(TypedDict):
    """In text: Except(key, values, underlying)."""
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["except"]
    #: The strategy that it works on
    underlying: StrategyNode
    #: Values of the key. The order does not matter, and a value counts once
    values: list[MetaValue]


class _ExchangeAnswerRequired(TypedDict):
    #: One result per item, in order
    complete: list[Result]
    #: One result per item, in order
    extend: list[Result]
    #: One result per item, in order
    fail: list[Result]
    #: Reason for an empty answer; null if chunks were reserved
    reason: Optional[Literal["nothing", "all_limited", "paused", "not_yet_due", "all_skipped", "restart_grace", "quiet", "draining", "rate_limited"]]
    #: The reserved chunks
    reservations: list[Reservation]
    #: Pause before the next reserve, if it is known
    retry_after_ms: Optional[int]


class ExchangeAnswer(_ExchangeAnswerRequired, total=False):
    """ExchangeAnswer: see the server's OpenAPI document."""
    #: With all_limited: some of the values at their limit; otherwise absent
    limited: list[Saturated]
    #: Blocks of the strategy that do not score, because their plugin or its version is missing, inactive or out of use; absent if there
    #: are none
    warnings: list[StrategyWarning]


class ExchangeRequest(TypedDict, total=False):
    """ExchangeRequest: see the server's OpenAPI document."""
    #: Chunks that are done
    complete: list[CompleteItem]
    #: Name for extend, as in an extend request; absent: the name in reserve
    consumer: str
    #: Deadlines to move
    extend: list[ExtendItem]
    #: Attempts that failed
    fail: list[FailItem]
    #: The reserve to make afterwards; absent: none
    reserve: ReserveRequest


class _ExplainAnswerRequired(TypedDict):
    #: The compiled branches, in the order in which the server asks them
    branches: list[ExplainBranch]
    #: Number of those submissions that were examined for the tree: all, unless there are very many
    examined: int
    #: The chunks that the server would hand out, in order; as many as fit into an answer
    picks: list[ExplainPick]
    #: Chunks that rules hold back from every strategy, for the ten rules with the most; they reach no block and are not in withheld
    ruled: list[RuledAmount]
    #: Seed of Random; with it, the same state gives the same picks again
    seed: int
    #: The canonical text
    strategy: str
    #: Submissions that do not wait for their run_at
    submissions: int
    #: The blocks of the strategy, each before its contents
    tree: list[ExplainBlock]
    #: Chunks that operators' limits of values hold back from every strategy; they reach no block
    withheld: Withheld


class ExplainAnswer(_ExplainAnswerRequired, total=False):
    """ExplainAnswer: see the server's OpenAPI document."""
    #: Shards of a queue of several shards that did not answer, and whose chunks the answer lacks
    missing_shards: list[MissingShard]
    #: End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
    restart_grace_until: str
    #: Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch was used, as in a
    #: reserve. Absent if there are none
    warnings: list[StrategyWarning]


class ExplainBlock(TypedDict):
    """ExplainBlock: see the server's OpenAPI document."""
    #: Name of the block
    block: str
    #: Number of blocks around it
    depth: int
    #: Chunks that reach the block
    entered: Amount
    #: Chunks that an order inside the block offers
    passed: Amount
    #: A JSON pointer into the canonical JSON, below /strategy
    pointer: str
    #: Chunks that the block itself holds back; for PreferDistinct, those that it puts last
    refused: Amount
    #: Number of different values among those; at most 10,000 are distinguished
    refused_values: int
    #: The block without its contents
    text: str
    #: The ten of those values that hold back the most chunks
    top: list[RefusedValue]


class ExplainBranch(TypedDict):
    """ExplainBranch: see the server's OpenAPI document."""
    #: Number of the branch, from 1; inside of Fair every alternative is a branch
    branch: int
    #: The branch as text: its Fair blocks, order, filters and limits
    branch_text: str
    #: Whether its index existed; if not, the server built it for this answer
    built: bool
    #: The Fair blocks around it with their tenants, the outermost first
    fair: list[ExplainFair]
    #: The way to the branch through the strategy
    path: str


class _ExplainFairRequired(TypedDict):
    #: Tenants with chunks to hand out, in all ledgers
    active: int
    #: Tenants that limits hold back
    blocked: int
    #: The shared quantity: the number of chunks, or the time that they are held
    cost: Literal["chunk", "time"]
    #: Key whose values are the tenants
    key: str
    #: Number of ledgers of the block: one, or one per tenant of the Fair block around it
    ledgers: int
    #: The ten active tenants that are furthest behind
    owed: list[Tenant]
    #: Tenants without chunks that are ahead
    owing: int


class ExplainFair(_ExplainFairRequired, total=False):
    """ExplainFair: see the server's OpenAPI document."""
    #: The next tenant, within the next tenant of the enclosing Fair block; absent if no tenant competes
    next: Tenant


class ExplainPick(TypedDict):
    """ExplainPick: see the server's OpenAPI document."""
    #: The chunk
    pick: PreviewPick
    #: The obstacle in each earlier branch; earlier picks count as in flight
    skipped: list[WhyBranch]
    #: Under Fair: the chunk's tenant in each block, the outermost first, in the state before all picks
    tenants: list[Tenant]


class _ExtendItemRequired(TypedDict):
    #: Token from the reservation
    token: str


class ExtendItem(_ExtendItemRequired, total=False):
    """ExtendItem: see the server's OpenAPI document."""
    #: Current activity of the consumer, as plain text for people to see; absent or empty: as it was
    note: str
    #: How much of the work is done, for people to see; absent: as it was
    progress: float
    #: Time until the new deadline; 0 or absent: the queue's
    timeout_ms: int


class _ExtendRequestRequired(TypedDict):
    #: Reservations to extend
    items: list[ExtendItem]


class ExtendRequest(_ExtendRequestRequired, total=False):
    """ExtendRequest: see the server's OpenAPI document."""
    #: Name of the consumer, for chunks whose reservations the server lost at a restart: it holds them again
    consumer: str


class _FailItemRequired(TypedDict):
    #: Token from the reservation
    token: str


class FailItem(_FailItemRequired, total=False):
    """FailItem: see the server's OpenAPI document."""
    #: The error; the server keeps the first 1,000 bytes
    error: str
    #: Whether to make no further attempt
    fatal: bool
    #: Delay of the next attempt, instead of retry_at; absent: the queue's back-off
    retry_after_ms: int
    #: Time of the next attempt, instead of retry_after_ms: at most 30 days ahead; a past time means at once
    retry_at: str


class FailRequest(TypedDict):
    """FailRequest: see the server's OpenAPI document."""
    #: Attempts that failed
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
    #: The block shares out chunks by their number, or by the time that they are held
    cost: Literal["chunk", "time"]


class _ForecastRequired(TypedDict):
    #: false: a part of the work is stuck, and the times are those of the rest
    moving: bool
    #: The end at the median pace of the last ten minutes
    p50: str
    #: The end at the slow paces of that time
    p90: str


class Forecast(_ForecastRequired, total=False):
    """Forecast: see the server's OpenAPI document."""
    #: Earliest end, because of a limit or a rule, however many consumers there are
    not_before: str


class ForwardRequest(TypedDict):
    """ForwardRequest: see the server's OpenAPI document."""
    #: Target queue of the dead chunk; it exists, and is another one
    to: str


class _GroupRequired(TypedDict):
    #: Name of the group
    group: str
    #: Chunks held by consumers
    in_flight: int
    #: Number of the shard that has it
    shard: int
    #: Open submissions
    submissions: int
    #: Chunks that no consumer has, without those that wait for a retry
    waiting: int


class Group(_GroupRequired, total=False):
    """Group: see the server's OpenAPI document."""
    #: When it was created or changed
    changed_at: str
    #: For people
    description: str
    #: Id of what is set, for If-Match; absent if no one created the group
    etag: str
    #: Its limits
    limits: GroupLimits
    #: Number of the shard to which it moves when it has no open submissions
    moving_to: int


class GroupLimits(TypedDict, total=False):
    """GroupLimits: see the server's OpenAPI document."""
    #: Most bytes of contents and attachments of open submissions; null: any number
    bytes: int
    #: Most open submissions; null: any number
    submissions: int
    #: Most chunks that no consumer has, without those that wait for a retry; null: any number
    waiting: int


class _HeldChunkRequired(TypedDict):
    #: Number of the attempt, from 1
    attempt: int
    #: Deadline of the reservation
    deadline: str
    #: Index of the chunk
    index: int
    #: Meta of the submission
    meta: Meta
    #: Time of the reservation
    reserved_at: str
    #: Its submission
    submission: str


class HeldChunk(_HeldChunkRequired, total=False):
    """HeldChunk: see the server's OpenAPI document."""
    #: Whether the server is writing the end of the reservation to disk
    finishing: bool
    #: The latest note of the consumer
    note: str
    #: Share of the work that is done, 0 to 1, as the consumer last reported
    progress: float


class _HeldReservationRequired(TypedDict):
    #: Number of the attempt, from 1
    attempt: int
    #: Name of the consumer; empty if it gave none
    consumer: str
    #: Deadline of the reservation
    deadline: str
    #: Time since the reservation, by the server's clock
    held_ms: int
    #: Index of the chunk
    index: int
    #: Meta of the submission
    meta: Meta
    #: Whether the consumer has held it for longer than the queue's reservation_timeout_ms
    overdue: bool
    #: Time of the reservation
    since: str
    #: Its submission
    submission: str


class HeldReservation(_HeldReservationRequired, total=False):
    """HeldReservation: see the server's OpenAPI document."""
    #: Whether the server is writing the end of the reservation to disk
    finishing: bool
    #: The latest note of the consumer
    note: str
    #: Share of the work that is done, 0 to 1, as its consumer last reported
    progress: float


class Hello(TypedDict):
    """Hello: see the server's OpenAPI document."""
    #: The consumer's name
    consumer: str
    #: Time from the end of the stream until the consumer's reservations are lost
    consumer_grace_ms: int
    #: Rises with every start of the queue, and when it reloads after a failed write. If it differs from the last one, the server may
    #: have restarted; after an unplanned end it has forgotten all reservations
    epoch: int
    #: Longest silence of the server
    heartbeat_ms: int
    #: Number of the consumer's chunks that the server knows
    reserved: int


class _HoldingRequired(TypedDict):
    #: Number of the attempt, from 1
    attempt: int
    #: Deadline, unless the consumer extends it
    deadline: str
    #: The chunk's index
    index: int
    #: Time of the reservation
    reserved_at: str
    #: The chunk's submission
    submission: str


class Holding(_HoldingRequired, total=False):
    """Holding: see the server's OpenAPI document."""
    #: Name of the consumer; absent if the reserve gave none
    consumer: str


class InsertManyAnswer(TypedDict):
    """InsertManyAnswer: see the server's OpenAPI document."""
    #: One per submission, in order
    results: list[InsertResult]


class _InsertManyRequestRequired(TypedDict):
    #: Submissions to insert; at least one
    submissions: list[BatchSubmission]


class InsertManyRequest(_InsertManyRequestRequired, total=False):
    """InsertManyRequest: see the server's OpenAPI document."""
    #: Insert all submissions, or none if one is invalid or refused
    atomic: bool


class _InsertResultRequired(TypedDict):
    #: Result of this submission
    status: Literal["created", "existing", "replayed", "invalid", "refused"]


class InsertResult(_InsertResultRequired, total=False):
    """InsertResult: see the server's OpenAPI document."""
    #: Stable name of the reason, if it was not inserted
    code: str
    #: The reason in words
    detail: str
    #: JSON pointer to the faulty field; for JSON lines, as if they were an array
    pointer: str
    #: The submission, as a single insert returns it; absent if it was not inserted
    submission: Submission


class Key(TypedDict):
    """The key of an object in object storage."""
    #: The key of an object in object storage
    key: str


class KeyFrame(TypedDict):
    """KeyFrame: see the server's OpenAPI document."""
    #: The meta key
    key: str
    #: Sum of the other values that were read
    rest: ValueSum
    #: Values with the most chunks in flight
    top: list[ValueCount]
    #: Number of values of open submissions that were read
    values: int
    #: Whether all values were read; if not, there are more, and the sums miss them
    whole: bool


class _KeySeriesRequired(TypedDict):
    #: The meta key
    key: str
    #: Duration of a cell
    step_seconds: int
    #: The values, sorted
    values: list[ValueSeries]


class KeySeries(_KeySeriesRequired, total=False):
    """KeySeries: see the server's OpenAPI document."""
    #: End of the last cell's time, which is still running; absent without values
    ends: str


class KeySpread(TypedDict):
    """KeySpread: see the server's OpenAPI document."""
    #: Number of different values among the picks
    distinct: int
    #: Jain's index over all values that either strategy would hand out: 1 if all have the same number, 1/n if one of n has all
    jain: float
    #: The meta key
    key: str
    #: Share of the most frequent value
    max_share: float
    #: Chunks whose submission has the key
    picks: int


class KeysFrame(TypedDict):
    """KeysFrame: see the server's OpenAPI document."""
    #: Time of these numbers
    at: str
    #: The meta keys, by name
    keys: list[KeyFrame]
    #: Number of keys that the frame has no space for
    left: int
    #: Name of the queue
    queue: str


_LagClassOdd = TypedDict("_LagClassOdd", {"from": "float"}, total=False)


class _LagClassRequired(TypedDict):
    #: Number of tenants
    tenants: int


class LagClass(_LagClassOdd, _LagClassRequired, total=False):
    """LagClass: see the server's OpenAPI document."""
    #: Lags up to this; absent: no upper bound
    to: float


class Ledger(TypedDict):
    """Ledger: see the server's OpenAPI document."""
    #: Number of tenants with chunks to offer
    active: int
    #: Number of tenants that limits hold back
    blocked: int
    #: Text of its branch
    branch: str
    #: The shared quantity: chunks, or the time that consumers hold them
    cost: Literal["chunk", "time"]
    #: Number of Fair blocks around it
    depth: int
    #: Id, which stays as long as strategies have this branch
    id: str
    #: Key whose values are the tenants; $submission: every submission is a tenant
    key: str
    #: Number of tenants without chunks that are ahead
    owing: int
    #: Number of its places: one, or one per tenant around it
    places: int


class _LedgerTenantRequired(TypedDict):
    #: Fair share since it was first seen
    entitled: float
    #: entitled minus received: positive if it is behind, negative if it is ahead
    lag: float
    #: Amount received since it was first seen
    received: float
    #: Current fair share of everything handed out at its place, 0 to 1
    share: float
    #: active: it has chunks to offer. owing: it has none and is ahead. blocked: a limit holds it back
    state: Literal["active", "owing", "blocked"]
    #: Weight of the value; 1 if none is set
    weight: float


class LedgerTenant(_LedgerTenantRequired, total=False):
    """LedgerTenant: see the server's OpenAPI document."""
    #: Tenants around it, the outermost first
    around: list[Tenant]
    #: Amounts since lately_since; absent if the tenant was not among the thousand that had received the most
    lately: TenantLately
    #: Value of the key; absent: all submissions without it
    value: MetaValue


class _LedgerTenantsRequired(TypedDict):
    #: Time of these numbers
    at: str
    #: Fair shares of all tenants together
    entitled: float
    #: The first tenants, as many as fit into an answer
    items: list[LedgerTenant]
    #: Sum of all lags: 0, except for reservations made while it was computed
    lag: float
    #: Number of tenants by their lag, those furthest ahead first. A positive lag means behind
    lags: list[LagClass]
    #: The block
    ledger: Ledger
    #: The smallest lag of all tenants
    most_ahead: float
    #: The largest lag of all tenants
    most_behind: float
    #: Amounts of all tenants together: chunks, or seconds if time is shared
    received: float
    #: The distance of tenants from their fair share, in words
    sentence: str
    #: Number of tenants examined
    tenants: int
    #: false: there are more tenants
    whole: bool


class LedgerTenants(_LedgerTenantsRequired, total=False):
    """LedgerTenants: see the server's OpenAPI document."""
    #: Amounts of all tenants since lately_since, including tenants outside the list; absent as lately_since is
    lately: TenantLately
    #: Start of the time that lately covers: up to eleven minutes ago. Absent in the first minute of the server and of the ledger
    lately_since: str


class _LifecycleRequired(TypedDict):
    #: Whether the server refuses inserts because the worker's commits keep failing
    degraded: bool
    #: Every kind of action
    kinds: list[LifecycleKind]
    #: Age of the oldest overdue action; 0: nothing is overdue
    lag_seconds: float
    #: Actions that the worker has given up for now, the oldest first
    parked: list[ParkedAction]
    #: Progress of the recounts of counters
    recount: Recount
    #: Successful slices of actions since the server's start; a slice has one kind
    slices_total: int
    #: Chunks whose last attempt expired
    suspects: Suspects


class Lifecycle(_LifecycleRequired, total=False):
    """Lifecycle: see the server's OpenAPI document."""
    #: Until then the server hands out no chunk that a limit counts, because it does not know yet which chunks consumers held before it
    #: started; absent: the grace is over
    restart_grace_until: str


class _LifecycleKindRequired(TypedDict):
    #: Actions done since the server's start
    done_total: int
    #: Failed slices since the last success
    failures_in_a_row: int
    #: Slices that failed
    failures_total: int
    #: Kind of action
    kind: Literal["expiry", "lost", "grace", "retry", "suspect", "run_at", "dead_deadline", "sweep", "retention", "schedule", "after", "rule", "forward"]
    #: Age of the oldest overdue action of the kind
    lag_seconds: float
    #: Actions parked now
    parked: int
    #: Actions that wait for their time or for a sweep
    pending: int
    #: Actions that were no longer necessary at their turn
    stale_total: int


class LifecycleKind(_LifecycleKindRequired, total=False):
    """LifecycleKind: see the server's OpenAPI document."""
    #: Error of the last slice; absent after a success
    error: str
    #: Time of the last successful slice; absent before the first
    last_success_at: str


class Link(TypedDict):
    """Link: see the server's OpenAPI document."""
    #: Path of the API
    href: str
    #: Text of the link, as it stands in the sentence
    text: str


class _MaxRateBlockRequired(TypedDict):
    #: How many chunks of one value are in flight at once
    max: int
    #: Meta key
    per: str
    #: The block
    type: Literal["max_rate"]
    #: The strategy that it works on
    underlying: StrategyNode


class MaxRateBlock(_MaxRateBlockRequired, total=False):
    """In text: MaxRate([key], max, per, [burst], [missing], underlying)."""
    burst: int
    #: Meta key
    meta_field: str
    #: How submissions without the key are treated: the block does not limit them (the default), it limits them together as if they had
    #: one value, or it never offers them
    missing: Literal["unlimited", "one", "never"]


class _MaxSimultaneousBlockRequired(TypedDict):
    #: How many chunks of one value are in flight at once: a number, or a share of all that are in flight, as in 20%
    max: Union[int, str]
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["max_simultaneous"]
    #: The strategy that it works on
    underlying: StrategyNode


class MaxSimultaneousBlock(_MaxSimultaneousBlockRequired, total=False):
    """In text: MaxSimultaneous(key, max, [missing], underlying)."""
    #: How submissions without the key are treated: the block does not limit them (the default), it limits them together as if they had
    #: one value, or it never offers them
    missing: Literal["unlimited", "one", "never"]


#: The metadata that strategies see: letters, digits, '_', '-' and '.' in keys of at most 64 bytes
Meta = dict[str, MetaValue]


class _MetaKeyRequired(TypedDict):
    #: The key
    key: str
    #: Default limit of its values: most chunks in flight of each that has no limit of its own; null: none
    limit: Optional[int]
    #: Number of values that open submissions or settings have; a value counts once in each shard that has it
    values: int
    #: Number of values with settings
    values_set: int
    #: Default weight of its values, for those without a weight of their own; null: not set, which counts as 1
    weight: Optional[float]


class MetaKey(_MetaKeyRequired, total=False):
    """MetaKey: see the server's OpenAPI document."""
    #: Time of the last setting of the default; absent if nothing is set
    changed_at: str
    #: Id of the default, for If-Match; absent if nothing is set
    etag: str
    #: Default quota of its values, for those without a quota of their own; absent: not set
    quota: GroupLimits
    #: Default rate of its values, for those without a rate of their own; absent: not set
    rate: Rate


class MissingNode(TypedDict):
    """MissingNode: see the server's OpenAPI document."""
    #: Name of the node. Empty: no node serves these queues at the moment
    node: str
    #: Names of the queues
    queues: list[str]


class MissingShard(TypedDict):
    """MissingShard: see the server's OpenAPI document."""
    #: Code of the problem with which it was refused
    code: str
    #: Why it does not answer
    detail: str
    #: Name of the shard, such as orders~2
    shard: str


class MoveGroupRequest(TypedDict):
    """MoveGroupRequest: see the server's OpenAPI document."""
    #: Number of the shard to which the group moves; the one that has it: it stays
    shard: int


class _MoveRequestRequired(TypedDict):
    #: The name of the node that is to serve the queue
    node: str


class MoveRequest(_MoveRequestRequired, total=False):
    """MoveRequest: see the server's OpenAPI document."""
    #: Only this shard of the queue; absent: all
    shard: int


class Moved(TypedDict):
    """Moved: see the server's OpenAPI document."""
    #: The name of the node that serves it now
    node: str
    #: The queue's name
    queue: str


class NamedStrategy(TypedDict):
    """NamedStrategy: see the server's OpenAPI document."""
    #: Time when the version was stored
    created_at: str
    #: Id of the version, for If-Match
    etag: str
    #: Name: 1 to 64 letters, digits, '.', '_' and '-'
    name: str
    #: The canonical text
    strategy: str
    #: Version, from 1; each change makes the next. The server keeps the last 100
    version: int


class NewSession(TypedDict):
    """NewSession: see the server's OpenAPI document."""
    #: Text of an access token
    token: str


class _NewSubmissionRequired(TypedDict):
    #: The work, in exactly one of three forms
    chunks: Chunks


class NewSubmission(_NewSubmissionRequired, total=False):
    """NewSubmission: see the server's OpenAPI document."""
    #: Keeps its chunks back until other submissions have ended
    after: After
    #: At most 64 KiB of opaque bytes, sent with every reservation
    attachment: Bytes
    #: Expire the submission if it is still open at this time; later than run_at
    dead_deadline: str
    #: Name of the group, which strategies see as the meta key `group`. All submissions of a group are in one shard of the queue
    group: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: Keys and values for strategies
    meta: Meta
    #: What happens to a chunk that is out of attempts; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: The pause after a failed attempt, instead of the queue's
    retry_backoff: Backoff
    #: Hand out no chunk before
    run_at: str
    #: The longest time that one attempt may hold a chunk, with all its extensions; 0: the queue's max_reservation_ms
    timeout_ms: int
    #: W3C traceparent of this submission, then ';' and the tracestate; replaces the headers
    trace: str
    #: Inserts it only if no other submission of the queue holds the key
    unique: Unique


class NewSubmissionHead(TypedDict, total=False):
    """NewSubmissionHead: see the server's OpenAPI document."""
    #: Keeps its chunks back until other submissions have ended
    after: After
    #: At most 64 KiB of opaque bytes, sent with every reservation
    attachment: Bytes
    #: Expire the submission if it is still open at this time; later than run_at
    dead_deadline: str
    #: Name of the group, which strategies see as the meta key `group`. All submissions of a group are in one shard of the queue
    group: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: Keys and values for strategies
    meta: Meta
    #: What happens to a chunk that is out of attempts; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: The pause after a failed attempt, instead of the queue's
    retry_backoff: Backoff
    #: Hand out no chunk before
    run_at: str
    #: The longest time that one attempt may hold a chunk, with all its extensions; 0: the queue's max_reservation_ms
    timeout_ms: int
    #: W3C traceparent of this submission, then ';' and the tracestate; replaces the headers
    trace: str
    #: Inserts it only if no other submission of the queue holds the key
    unique: Unique


class _NewTokenRequired(TypedDict):
    #: Unique name, 1 to 128 bytes; the server records changes under it
    name: str
    #: Scopes; admin includes all others
    scopes: list[str]


class NewToken(_NewTokenRequired, total=False):
    """NewToken: see the server's OpenAPI document."""
    #: Subject of a client certificate that stands for the token, as RFC 2253 writes it: CN=worker,O=acme; absent: none. It works over
    #: TLS, with certificates of the authorities in --tls-client-ca
    certificate_subject: str
    #: Time when it expires; absent: never
    expires_at: str
    #: The only submissions that it sees and inserts: one key with one value; absent: all
    meta: Meta
    #: The only queues that it sees; absent: all
    queues: list[str]


class NewestFirstBlock(TypedDict):
    """In text: NewestFirst."""
    #: The block
    type: Literal["newest_first"]


class Node(TypedDict):
    """Node: see the server's OpenAPI document."""
    #: Whether it is about to stop, and hands over its queues
    leaving: bool
    #: The option node, or the name of the machine
    name: str
    #: The queues that it owns, by name
    queues: list[NodeQueue]
    #: Time of its start, by its own clock
    since: str
    #: Where clients and other nodes reach it
    url: str


class NodeQueue(TypedDict):
    """NodeQueue: see the server's OpenAPI document."""
    #: Number of the owner's claim; the next owner's is larger
    epoch: int
    #: How long the owner may serve without another heartbeat, in milliseconds: at most 4,500. Below 0, the lease has ended, and another
    #: node may take the queue over. null: the server is alone, and needs no lease
    lease_ms: Optional[int]
    #: Name of the queue
    queue: str
    #: Number of its shard, which is part of the ids of its submissions
    shard: int


class OldestFirstBlock(TypedDict):
    """In text: OldestFirst."""
    #: The block
    type: Literal["oldest_first"]


class _OrElseBlockRequired(TypedDict):
    #: The block
    type: Literal["or_else"]


class OrElseBlock(_OrElseBlockRequired, total=False):
    """In text: OrElse(first, second, ...)."""
    #: The strategies, in the order in which the server asks them; for two, try_first and fallback do the same
    branches: list[StrategyNode]
    #: The strategy that fills what try_first could not
    fallback: StrategyNode
    #: The strategy that is asked first, instead of branches
    try_first: StrategyNode


class _OriginRequired(TypedDict):
    #: Attempts in that queue
    attempts: int
    #: Index of the chunk in that queue
    index: int
    #: Queue that the dead letter comes from
    queue: str
    #: Submission in that queue
    submission: str


class Origin(_OriginRequired, total=False):
    """Origin: see the server's OpenAPI document."""
    #: End of the last attempt in that queue
    died_at: str
    #: Last error in that queue
    error: str


class Output(TypedDict):
    """Output: see the server's OpenAPI document."""
    #: Index of the chunk
    index: int
    #: Output from the consumer
    output: Bytes


class _PageAttemptRequired(TypedDict):
    #: The attempts, the oldest first
    items: list[Attempt]


class PageAttempt(_PageAttemptRequired, total=False):
    """PageAttempt: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent
    next: str


class _PageAuditEntryRequired(TypedDict):
    #: The entries, the latest first
    items: list[AuditEntry]


class PageAuditEntry(_PageAuditEntryRequired, total=False):
    """PageAuditEntry: see the server's OpenAPI document."""
    #: Names of queues whose latest entries may be missing because they are still in their journals: queues in quarantine, and in a
    #: cluster those whose node does not answer
    incomplete: list[str]
    #: Cursor of the older entries; absent if there are none
    next: str


class _PageBulkOperationRequired(TypedDict):
    #: The operations, newest first
    items: list[BulkOperation]


class PageBulkOperation(_PageBulkOperationRequired, total=False):
    """PageBulkOperation: see the server's OpenAPI document."""
    #: Nodes of the cluster whose queues are not in the list
    missing: list[MissingNode]
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent
    next: str


class _PageChunkRequired(TypedDict):
    #: The chunks, by index
    items: list[Chunk]


class PageChunk(_PageChunkRequired, total=False):
    """PageChunk: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageConsumerRequired(TypedDict):
    #: The consumers, by name
    items: list[Consumer]


class PageConsumer(_PageConsumerRequired, total=False):
    """PageConsumer: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageDeadLetterRequired(TypedDict):
    #: The dead letters
    items: list[DeadLetter]


class PageDeadLetter(_PageDeadLetterRequired, total=False):
    """PageDeadLetter: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageGroupRequired(TypedDict):
    #: The groups, by name
    items: list[Group]


class PageGroup(_PageGroupRequired, total=False):
    """PageGroup: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageHeldReservationRequired(TypedDict):
    #: The reservations, in the order that was asked for
    items: list[HeldReservation]


class PageHeldReservation(_PageHeldReservationRequired, total=False):
    """PageHeldReservation: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageLedgerRequired(TypedDict):
    #: The ledgers, by branch, the outer ones first
    items: list[Ledger]


class PageLedger(_PageLedgerRequired, total=False):
    """PageLedger: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent: a queue has at most 64 branches with ledgers
    next: str


class _PageMetaKeyRequired(TypedDict):
    #: The keys, by name
    items: list[MetaKey]


class PageMetaKey(_PageMetaKeyRequired, total=False):
    """PageMetaKey: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageNamedStrategyRequired(TypedDict):
    #: The strategies, by name
    items: list[NamedStrategy]


class PageNamedStrategy(_PageNamedStrategyRequired, total=False):
    """PageNamedStrategy: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageNodeRequired(TypedDict):
    #: The nodes, by name
    items: list[Node]


class PageNode(_PageNodeRequired, total=False):
    """PageNode: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent: a cluster has at most 64 nodes
    next: str


class _PagePluginRequired(TypedDict):
    #: The plugins, by name
    items: list[Plugin]


class PagePlugin(_PagePluginRequired, total=False):
    """PagePlugin: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PagePluginRecordingRequired(TypedDict):
    #: The recordings, the newest first
    items: list[PluginRecording]


class PagePluginRecording(_PagePluginRecordingRequired, total=False):
    """PagePluginRecording: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent: a plugin has at most 32 recordings
    next: str


class _PagePluginScoresRequired(TypedDict):
    #: The open versions of the plugin, those in use first
    items: list[PluginScores]


class PagePluginScores(_PagePluginScoresRequired, total=False):
    """PagePluginScores: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent: only open versions are listed
    next: str


class _PagePluginVersionRequired(TypedDict):
    #: The versions, the newest first
    items: list[PluginVersion]


class PagePluginVersion(_PagePluginVersionRequired, total=False):
    """PagePluginVersion: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent: a plugin has at most 100 versions
    next: str


class _PageQueueRequired(TypedDict):
    #: The queues, by name
    items: list[Queue]


class PageQueue(_PageQueueRequired, total=False):
    """PageQueue: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageRetryRequired(TypedDict):
    #: The chunks
    items: list[Retry]


class PageRetry(_PageRetryRequired, total=False):
    """PageRetry: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageRuleRequired(TypedDict):
    #: The rules
    items: list[Rule]


class PageRule(_PageRuleRequired, total=False):
    """PageRule: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent
    next: str


class _PageScheduleRequired(TypedDict):
    #: The schedules, by name
    items: list[Schedule]


class PageSchedule(_PageScheduleRequired, total=False):
    """PageSchedule: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageShardRequired(TypedDict):
    #: The shards, by number
    items: list[Shard]


class PageShard(_PageShardRequired, total=False):
    """PageShard: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent: a queue has at most 16 shards
    next: str


class _PageSubmissionRequired(TypedDict):
    #: The submissions, newest first
    items: list[Submission]


class PageSubmission(_PageSubmissionRequired, total=False):
    """PageSubmission: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageSubmissionOutputRequired(TypedDict):
    #: The outputs
    items: list[SubmissionOutput]


class PageSubmissionOutput(_PageSubmissionOutputRequired, total=False):
    """PageSubmissionOutput: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _PageTokenRequired(TypedDict):
    #: The tokens, the oldest first
    items: list[Token]


class PageToken(_PageTokenRequired, total=False):
    """PageToken: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Always absent
    next: str


class _PageValueCountRequired(TypedDict):
    #: The values
    items: list[ValueCount]


class PageValueCount(_PageValueCountRequired, total=False):
    """PageValueCount: see the server's OpenAPI document."""
    #: In a list about a queue of several shards: the shards that did not answer. The list lacks their items
    missing_shards: list[MissingShard]
    #: Cursor of the next page; absent on the last
    next: str


class _ParkedActionRequired(TypedDict):
    #: Error of the last attempt
    error: str
    #: Kind of action
    kind: str
    #: Time when it was parked
    since: str


class ParkedAction(_ParkedActionRequired, total=False):
    """ParkedAction: see the server's OpenAPI document."""
    #: Chunk, for an action on a chunk
    index: int
    #: Rule that ends, for such an action
    rule: str
    #: Schedule that inserts, for such an action
    schedule: str
    #: Submission, for an action on one
    submission: str


class _PluginRequired(TypedDict):
    #: State of the breaker, which takes the active version out of use after faults
    breaker: PluginBreaker
    #: Share of the reservations that the canary scores
    canary_percent: int
    #: Id of the revision, for If-Match
    etag: str
    #: Name: 1 to 64 lower-case letters, digits and '-', a letter first
    name: str
    #: Number of changes
    revision: int
    #: Settings by an operator
    settings: PluginSettings
    #: Whether it scores, or why not
    state: Literal["active", "inactive", "starting", "open", "half_open", "throttled", "quarantined", "held"]
    #: Number of versions
    versions: int


class Plugin(_PluginRequired, total=False):
    """Plugin: see the server's OpenAPI document."""
    #: The version that scores
    active: PluginUse
    #: The version that scores for a share of the reservations
    canary: PluginUse
    #: Time of the last change of active, shadow or canary
    changed_at: str
    #: Caller that made that change, if known
    changed_by: str
    #: sha256 of the latest version
    latest: str
    #: Nodes of the cluster that did not answer: the state does not count theirs
    missing: list[str]
    #: The previously active version, which a rollback activates
    previous: PluginUse
    #: The version that scores beside it without deciding
    shadow: PluginUse


_PluginBinOdd = TypedDict("_PluginBinOdd", {"from": "float"}, total=False)


class PluginBin(_PluginBinOdd):
    """PluginBin: see the server's OpenAPI document."""
    #: Number of candidates
    count: int
    #: Score above the range
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
    #: One in this many handed-out candidates is the first in the order of underlying, regardless of its score; 0: none
    explore: int
    #: Version of the plugin, or the first digits of its sha256; without it, the active one
    version: str
    #: How many candidates are scored at once
    window: int


class _PluginBreakerRequired(TypedDict):
    #: closed: it scores. starting: its sandbox is not ready, and requests continue without it. half_open: the server tries one batch
    state: Literal["closed", "starting", "open", "half_open", "throttled", "quarantined", "held"]


class PluginBreaker(_PluginBreakerRequired, total=False):
    """PluginBreaker: see the server's OpenAPI document."""
    #: Node of the cluster whose breaker this is
    node: str
    #: Reason for not being closed
    reason: str
    #: Time when the server tries one batch
    until: str


class PluginDryRun(TypedDict, total=False):
    """PluginDryRun: see the server's OpenAPI document."""
    #: Configuration; absent: that of the activation, or the defaults
    config: Any
    #: Context of the simulated reservation, for the plugin
    context: Meta
    #: Queue whose live candidates to score; absent: only synthetic candidates
    queue: str
    #: Number of a recording to score again; 0: none
    recording: int
    #: Number of candidates; 0: the version's default window
    rows: int
    #: Strategy that orders the candidates, as text; absent: OldestFirst
    strategy: str
    #: Number of chunks to take; 0: 10
    want: int


class _PluginLiveRequired(TypedDict):
    #: Rows that would be taken with the plugin and not without it
    gained: list[int]
    #: Histogram of the scores
    histogram: list[PluginBin]
    #: Rows that would be taken without the plugin and not with it
    lost: list[int]
    #: Rows that would be taken, in order
    picks: list[PluginPick]
    #: Number of candidates; a row is a place in the order without the plugin, from 0
    rows: int
    #: Number of candidates that it skips
    skipped: int
    #: For each row: the submission of the candidate
    submissions: list[str]


class PluginLive(_PluginLiveRequired, total=False):
    """PluginLive: see the server's OpenAPI document."""
    #: Rows that would be taken with this version and not with the active one
    active_gained: list[int]
    #: Rows that would be taken with the active version and not with this one
    active_lost: list[int]
    #: Share of the taken chunks that both versions agree on
    active_overlap: float
    #: Kendall's tau-b of the two orders
    active_tau: float


class _PluginLogLineRequired(TypedDict):
    #: Severity
    level: Literal["debug", "info", "warn", "error"]
    #: Number of the line; each line has the next number
    number: int
    #: First 8 digits of the version's sha256
    sha256: str
    #: Text of the line
    text: str
    #: Time of the line
    time: str
    #: Version that logged it
    version: str


class PluginLogLine(_PluginLogLineRequired, total=False):
    """PluginLogLine: see the server's OpenAPI document."""
    #: Node that it ran on; absent: the server is alone
    node: str


class _PluginLogsRequired(TypedDict):
    #: For later lines of the same nodes
    cursor: str
    #: Number of lines dropped by the limits
    dropped: int
    #: Lines, the oldest first
    lines: list[PluginLogLine]
    #: Number of the last line, for `after`; 0 if the lines are of several nodes
    next: int


class PluginLogs(_PluginLogsRequired, total=False):
    """PluginLogs: see the server's OpenAPI document."""
    #: Nodes of the cluster that did not answer
    missing: list[str]


class PluginPick(TypedDict):
    """PluginPick: see the server's OpenAPI document."""
    #: Place in the order without the plugin, from 0
    row: int
    #: Score; null if infinite
    score: Optional[float]


class _PluginRecordingRequired(TypedDict):
    #: Number of the recording
    id: int
    #: Number of candidates
    rows: int
    #: sha256 of the version that scored it
    sha256: str
    #: Size in bytes
    size: int
    #: Time of the batch
    time: str
    #: Version that scored it
    version: str


class PluginRecording(_PluginRecordingRequired, total=False):
    """PluginRecording: see the server's OpenAPI document."""
    #: Fault of the batch; absent for a sample
    fault: str


class PluginReplay(TypedDict):
    """PluginReplay: see the server's OpenAPI document."""
    #: Rows whose scores differ
    different: int
    #: Whether all scores are the same bits
    identical: bool
    #: Number of rows of the recorded batch
    rows: int
    #: Whether the recording has scores; that of a fault has none
    scored: bool


class PluginReport(TypedDict):
    """PluginReport: see the server's OpenAPI document."""
    #: Processor time of the compiling process
    compile_ms: int
    #: Memory of the compiling process
    compile_peak_bytes: int
    #: Whether two equal batches gave the same bits
    deterministic: bool
    #: Whether the server had compiled it before
    from_cache: bool
    #: Fuel per candidate, equal on every machine
    fuel_per_candidate: float
    #: Number of instructions of the module
    instructions: int
    #: Pages of 64 KiB after the dry run
    memory_pages: int
    #: Share of the synthetic candidates skipped with NaN
    nan_share: float
    #: Nanoseconds per candidate in the median batch
    ns_median: float
    #: Nanoseconds per candidate in the fastest batch
    ns_per_candidate: float
    #: Number of rows of the timed batches: the default window
    rows: int
    #: Share of the synthetic candidates skipped or left without a score
    skip_share: float


class _PluginScoresRequired(TypedDict):
    #: Number of batches scored
    batches: int
    #: Configuration; each has its own entry, because its scores may differ completely
    config: Any
    #: Scores in adjacent ranges. The first and the last range are wide enough for scores far outside
    distribution: list[PluginTakenBin]
    #: Failed batches, by kind
    faults: dict[str, int]
    #: Number of candidates in the kept batches
    rows: int
    #: sha256 of the version
    sha256: str
    #: Number of those candidates skipped with NaN
    skipped: int
    #: Number of those candidates that gave a chunk; 0 for a shadow, which decides nothing
    taken: int
    #: active, canary, shadow or previous; empty if only consumers' own configurations use it
    uses: list[str]
    #: The version text of its manifest
    version: str
    #: Number of batches sampled
    windows: int


class PluginScores(_PluginScoresRequired, total=False):
    """PluginScores: see the server's OpenAPI document."""
    #: Time of the last batch
    last_at: str
    #: The last fault in words
    last_fault: str
    #: Time of the first batch
    since_at: str


class _PluginSelectionRequired(TypedDict):
    #: Version text (the newest with that text), or 8 or more digits of the sha256; empty to end the use
    version: str


class PluginSelection(_PluginSelectionRequired, total=False):
    """PluginSelection: see the server's OpenAPI document."""
    #: Configuration for the manifest's config_schema; absent: the defaults
    config: Any
    #: Accept a quarantined version and end its quarantine; activate even if the version refuses configurations in use
    force: bool
    #: For a canary: its share of the reservations
    percent: int


class PluginSettings(TypedDict, total=False):
    """PluginSettings: see the server's OpenAPI document."""
    #: Share of one core, over 10 s, above which it is throttled; 0: the server's 0.25
    cpu_share: float
    #: open: out of use; closed: its breaker never opens; empty: its faults decide
    hold: Literal["", "open", "closed"]
    #: Lines below it are dropped: 0 debug, 1 info, 2 warn, 3 error
    log_level: int
    #: The plugin records one in this many batches; 0: the server's 10,000
    record_every: int


class PluginShadow(TypedDict):
    """PluginShadow: see the server's OpenAPI document."""
    #: Batches that both versions scored
    batches: int
    #: Batches that the shadow did not score, because it was behind or failing
    dropped: int
    #: Failed batches of the shadow, by kind
    faults: dict[str, int]
    #: Mean share of the taken chunks that both agree on
    overlap: float
    #: sha256 of the version
    sha256: str
    #: Mean of Kendall's tau-b of the two orders
    tau: float


class _PluginStatsRequired(TypedDict):
    #: Number of batches scored
    batches: int
    #: Breaker of the active version
    breaker: PluginBreaker
    #: Number of candidates in these batches
    candidates: int
    #: Counters of the plugin itself
    counters: dict[str, float]
    #: Share of one core over the last 10 s
    cpu_share: float
    #: These reservations by reason: fault, breaker, inactive, starting (its sandbox is not ready), memory (all plugins together have
    #: reached their limit), busy
    fallback_reasons: dict[str, int]
    #: Reservations that continued without the plugin
    fallbacks: int
    #: Failed batches, by kind
    faults: dict[str, int]
    #: Mean fuel per candidate
    fuel_per_candidate: float
    #: Number of open sandboxes
    instances: int
    #: Lines dropped by the limits
    logs_dropped: int
    #: Pages of 64 KiB of the largest sandbox
    memory_pages: int
    #: Mean nanoseconds per candidate
    ns_per_candidate: float
    #: Candidates skipped with NaN
    skipped: int
    #: Candidates without a score
    unwritten: int


class PluginStats(_PluginStatsRequired, total=False):
    """PluginStats: see the server's OpenAPI document."""
    #: The last fault in words
    last_fault: str
    #: Nodes of the cluster that did not answer
    missing: list[str]
    #: Comparison with the shadow
    shadow: PluginShadow


_PluginTakenBinOdd = TypedDict("_PluginTakenBinOdd", {"from": "float"}, total=False)


class PluginTakenBin(_PluginTakenBinOdd):
    """PluginTakenBin: see the server's OpenAPI document."""
    #: Number of candidates
    count: int
    #: Number of these candidates that gave a chunk
    taken: int
    #: Score above the range; the last range includes it
    to: float


class _PluginTriedRequired(TypedDict):
    #: Result for synthetic candidates
    report: PluginReport


class PluginTried(_PluginTriedRequired, total=False):
    """PluginTried: see the server's OpenAPI document."""
    #: Result for live candidates, if the request named a queue
    live: PluginLive
    #: Result for a recording, if the request named one
    replay: PluginReplay


class PluginUse(TypedDict):
    """PluginUse: see the server's OpenAPI document."""
    #: Its configuration, with the defaults filled in
    config: Any
    #: sha256 of the module with its manifest
    sha256: str
    #: The version text of its manifest
    version: str


class _PluginVersionRequired(TypedDict):
    #: Time of the upload
    created_at: str
    #: Manifest from the module
    manifest: Any
    #: Name of the plugin
    name: str
    #: Findings of its dry run
    report: PluginReport
    #: sha256 of the module with its manifest; it identifies the version
    sha256: str
    #: Size of the module in bytes
    size: int
    #: ready: it may be activated
    state: Literal["ready", "quarantined"]
    #: Uses: active, canary, shadow, previous
    uses: list[str]
    #: The version text of its manifest; several versions may have the same
    version: str


class PluginVersion(_PluginVersionRequired, total=False):
    """PluginVersion: see the server's OpenAPI document."""
    #: Caller that uploaded it, if known
    created_by: str
    #: Reason of the quarantine
    reason: str


class _PreferDistinctBlockRequired(TypedDict):
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["prefer_distinct"]
    #: The strategy that it works on
    underlying: StrategyNode


class PreferDistinctBlock(_PreferDistinctBlockRequired, total=False):
    """In text: PreferDistinct(key, [max], [missing], underlying)."""
    #: How many chunks of one value are in flight at once, from which on it comes last; without it, values with the fewest come first
    max: int
    #: How submissions without the key are treated: the block does not limit them (the default), it limits them together as if they had
    #: one value, or it never offers them
    missing: Literal["unlimited", "one", "never"]


class _PreviewAnswerRequired(TypedDict):
    #: The chunks that the server would hand out, in order
    picks: list[PreviewPick]
    #: Seed of Random; with it, the same state gives the same picks again
    seed: int
    #: The canonical text
    strategy: str


class PreviewAnswer(_PreviewAnswerRequired, total=False):
    """PreviewAnswer: see the server's OpenAPI document."""
    #: Shards of a queue of several shards that did not answer, and whose chunks the answer lacks
    missing_shards: list[MissingShard]
    #: End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
    restart_grace_until: str
    #: Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch was used, as in a
    #: reserve. Absent if there are none
    warnings: list[StrategyWarning]


class _PreviewPickRequired(TypedDict):
    #: Number of the branch, from 1; inside of Fair every alternative is a branch
    branch: int
    #: Index of the chunk
    index: int
    #: Meta of the submission
    meta: Meta
    #: The way to the branch through the strategy
    path: str
    #: Priority of the submission
    priority: int
    #: Id of the submission
    submission: str


class PreviewPick(_PreviewPickRequired, total=False):
    """PreviewPick: see the server's OpenAPI document."""
    #: Under Random: approximate number of chunks that it was drawn from
    among: int
    #: Under PreferDistinct: chunks of the value in flight, earlier picks among them; absent: 0
    in_flight: int
    #: Number of the shard that has it; absent if the queue has one shard
    shard: int


class PreviewRequest(TypedDict, total=False):
    """PreviewRequest: see the server's OpenAPI document."""
    #: Facts about the consumer for plugins and formulas, as in a reservation: at most 16 keys
    context: Meta
    #: Most chunks to look ahead; 0 or absent: 10
    max: int
    #: The same seed gives the same picks from the same state; absent: a random one
    seed: int
    #: The strategy; absent: Random
    strategy: Strategy


class _ProblemRequired(TypedDict):
    #: Stable name of the kind of problem, for programs
    code: str
    #: The HTTP status
    status: int
    #: The kind of problem in words, always the same
    title: str
    #: Address of an explanation of this kind of problem
    type: str


class Problem(_ProblemRequired, total=False):
    """Problem: see the server's OpenAPI document."""
    #: With limit_reached: the present count
    current: int
    #: The problem in words, and the remedy
    detail: str
    #: All faults of the request
    errors: list[ProblemError]
    #: Address of this occurrence
    instance: str
    #: With limit_reached: the limit
    max: int
    #: Id of the request in the server's log, also in the header X-Request-Id
    request_id: str


class ProblemError(TypedDict):
    """ProblemError: see the server's OpenAPI document."""
    #: The rest of a sentence about it
    detail: str
    #: JSON pointer into the body, or /query/NAME, /header/NAME, /path/NAME
    pointer: str


class PutGroupRequest(TypedDict, total=False):
    """PutGroupRequest: see the server's OpenAPI document."""
    #: For people
    description: str
    #: Its limits
    limits: GroupLimits


class PutQueueRequest(TypedDict, total=False):
    """PutQueueRequest: see the server's OpenAPI document."""
    #: Settings; the others get their defaults, but shards stays
    settings: QueueSettingsInput


class Quarantined(TypedDict):
    """Quarantined: see the server's OpenAPI document."""
    #: The faulty file, its fault and the remedy
    reason: str
    #: First start at which the server could not open it; each start tries again
    since: str


class _QueueRequired(TypedDict):
    #: Time when it was created
    created_at: str
    #: Name: 1 to 64 letters, digits, '_', '-' and '.'
    name: str
    #: All settings
    settings: QueueSettings


class Queue(_QueueRequired, total=False):
    """Queue: see the server's OpenAPI document."""
    #: In a list, with the sentence: its numbers now
    now: QueueNow
    #: Why it is out of service while other queues work; absent: it works
    quarantined: Quarantined
    #: In a list: the sentence of its diagnosis. Absent for a tenant's token, and where the node that serves the queue does not answer
    #: within two seconds
    sentence: str
    #: Sentences about settings that have no effect because of other settings
    warnings: list[str]


class QueueNow(TypedDict):
    """QueueNow: see the server's OpenAPI document."""
    #: At most 5 sentences about trouble that needs an operator: no consumer asks for work, a value at its limit does not move, the disk
    #: is full
    alarms: list[str]
    #: Dead chunks that can be redriven
    dead_letters: int
    #: Chunks completed in the last second
    done_per_second: float
    #: Chunks completed per second over the last ten minutes, a point in 15 s, the oldest first; fewer after a start
    done_rates: list[float]
    #: Chunks held by consumers
    reserved: int
    #: Chunks that are not in flight: ready, due later, or held by rules
    waiting: int


class _QueueSettingsRequired(TypedDict):
    #: How long an attached consumer may be away before it loses its chunks; 0: at once
    consumer_grace_ms: int
    #: The dead_deadline of a submission that has none: this long after its insert, or after its run_at if that is later; 0: none
    dead_after_ms: int
    #: How long the server keeps dead letters; 0: until they are redriven, forwarded or deleted
    dead_retention_seconds: int
    #: Whether the queue refuses inserts, while consumers finish its work
    draining: bool
    #: full: the server answers after the change is on disk. relaxed: it answers before, and a power cut can undo the last moments
    durability: Literal["full", "relaxed"]
    #: The pause after an attempt whose deadline passed or whose consumer was lost
    expiry_backoff: Backoff
    #: Whether the queue refuses a submission if no one has created its group; otherwise the submission creates it
    group_must_exist: bool
    #: Whether the queue refuses submissions without a group
    group_required: bool
    #: How many groups fill a shard; a full shard gets no new group while another one has room; 0: any number
    groups_per_shard: int
    #: How many attempts a chunk gets; 0: no limit
    max_attempts: int
    #: How many attempts of a chunk may end by their deadline; 0: no limit
    max_expiries: int
    #: How many bytes of contents and attachments open submissions may have; the queue refuses inserts that would exceed it; 0: any
    #: number
    max_open_bytes: int
    #: How many submissions may be open; the queue refuses inserts that would exceed it; 0: any number
    max_open_submissions: int
    #: The longest time that a consumer may hold a chunk, with all its extensions
    max_reservation_ms: int
    #: The most shards that the queue may have when the server prepares shards by itself; 0: it prepares none
    max_shards: int
    #: How many chunks may wait, without those that wait for a retry; the queue refuses inserts that would exceed it; 0: any number
    max_waiting_chunks: int
    #: What happens to unfinished chunks when the dead_deadline of their submission passes: skip gives them up, dead_letter makes dead
    #: letters of them
    on_deadline: Literal["skip", "dead_letter"]
    #: What happens to a chunk that is out of attempts
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Where a chunk is requeued after a failed attempt: head is its place in the order of the strategy, tail is behind all ready chunks
    requeue: Literal["head", "tail"]
    #: How long a consumer may hold a chunk, unless its reserve call says otherwise
    reservation_timeout_ms: int
    #: How long after a start the queue hands out no chunk that a limit counts, so that consumers can extend first; in a cluster, new
    #: queues have 30 s; 0: none
    restart_grace_ms: int
    #: How long the server keeps ended submissions; those with dead letters stay; 0: for ever
    retention_seconds: int
    #: The pause after a failed attempt, unless the consumer chooses one
    retry_backoff: Backoff
    #: How many shards the queue divides its groups between; the number can only rise
    shards: int
    #: How many new groups the open shards should have room for; with less room, the server prepares another shard; 0: none
    spare_groups: int
    #: The share of the consumers' slots that chunks whose deadline passed may have while there is other work; 0: behind all other work;
    #: 1: no limit
    suspect_share: float


class QueueSettings(_QueueSettingsRequired, total=False):
    """QueueSettings: see the server's OpenAPI document."""
    #: The queue to which dead letters go; without it they stay. It must exist, and have no dead_letter_queue itself
    dead_letter_queue: str
    #: The numbers of shards that get no new groups, such as 2,3; their groups move to other shards when nothing of them is open
    draining_shards: str


class QueueSettingsInput(TypedDict, total=False):
    """QueueSettingsInput: see the server's OpenAPI document."""
    #: How long an attached consumer may be away before it loses its chunks; 0: at once
    consumer_grace_ms: int
    #: The dead_deadline of a submission that has none: this long after its insert, or after its run_at if that is later; 0: none
    dead_after_ms: int
    #: The queue to which dead letters go; without it they stay. It must exist, and have no dead_letter_queue itself
    dead_letter_queue: str
    #: How long the server keeps dead letters; 0: until they are redriven, forwarded or deleted
    dead_retention_seconds: int
    #: Whether the queue refuses inserts, while consumers finish its work
    draining: bool
    #: The numbers of shards that get no new groups, such as 2,3; their groups move to other shards when nothing of them is open
    draining_shards: str
    #: full: the server answers after the change is on disk. relaxed: it answers before, and a power cut can undo the last moments
    durability: Literal["full", "relaxed"]
    #: The pause after an attempt whose deadline passed or whose consumer was lost
    expiry_backoff: Backoff
    #: Whether the queue refuses a submission if no one has created its group; otherwise the submission creates it
    group_must_exist: bool
    #: Whether the queue refuses submissions without a group
    group_required: bool
    #: How many groups fill a shard; a full shard gets no new group while another one has room; 0: any number
    groups_per_shard: int
    #: How many attempts a chunk gets; 0: no limit
    max_attempts: int
    #: How many attempts of a chunk may end by their deadline; 0: no limit
    max_expiries: int
    #: How many bytes of contents and attachments open submissions may have; the queue refuses inserts that would exceed it; 0: any
    #: number
    max_open_bytes: int
    #: How many submissions may be open; the queue refuses inserts that would exceed it; 0: any number
    max_open_submissions: int
    #: The longest time that a consumer may hold a chunk, with all its extensions
    max_reservation_ms: int
    #: The most shards that the queue may have when the server prepares shards by itself; 0: it prepares none
    max_shards: int
    #: How many chunks may wait, without those that wait for a retry; the queue refuses inserts that would exceed it; 0: any number
    max_waiting_chunks: int
    #: What happens to unfinished chunks when the dead_deadline of their submission passes: skip gives them up, dead_letter makes dead
    #: letters of them
    on_deadline: Literal["skip", "dead_letter"]
    #: What happens to a chunk that is out of attempts
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Where a chunk is requeued after a failed attempt: head is its place in the order of the strategy, tail is behind all ready chunks
    requeue: Literal["head", "tail"]
    #: How long a consumer may hold a chunk, unless its reserve call says otherwise
    reservation_timeout_ms: int
    #: How long after a start the queue hands out no chunk that a limit counts, so that consumers can extend first; in a cluster, new
    #: queues have 30 s; 0: none
    restart_grace_ms: int
    #: How long the server keeps ended submissions; those with dead letters stay; 0: for ever
    retention_seconds: int
    #: The pause after a failed attempt, unless the consumer chooses one
    retry_backoff: Backoff
    #: How many shards the queue divides its groups between; the number can only rise
    shards: int
    #: How many new groups the open shards should have room for; with less room, the server prepares another shard; 0: none
    spare_groups: int
    #: The share of the consumers' slots that chunks whose deadline passed may have while there is other work; 0: behind all other work;
    #: 1: no limit
    suspect_share: float


class RandomBlock(TypedDict):
    """In text: Random."""
    #: The block
    type: Literal["random"]


class Rate(TypedDict):
    """Rate: see the server's OpenAPI document."""
    #: Most reservations of the value in the time
    max: int
    #: The time; a MaxRate with another one keeps its number
    per_ms: int


class Rates(TypedDict):
    """Rates: see the server's OpenAPI document."""
    #: Chunks completed, per second
    done: float
    #: Attempts that failed, per second
    failed: float
    #: Chunks inserted, per second
    inserted: float
    #: Chunks reserved, per second
    reserved: float


class Readiness(TypedDict):
    """Readiness: see the server's OpenAPI document."""
    #: Every check, with ?verbose
    checks: list[Check]
    #: Always true: a server that is not ready answers 503
    ready: bool


class _RecountRequired(TypedDict):
    #: Wrong counters, by name
    drifts_by_counter: list[RecountDrift]
    #: Wrong counters; a number above 0 means a bug of the server
    drifts_total: int
    #: Time between two rounds; 0: never
    every_ms: int
    #: Progress of the current round, from 0 to 1
    progress: float
    #: Totals of the queue compared with its submissions
    queue_counters_checked_total: int
    #: Rounds completed since the server's start
    rounds_total: int
    #: Comparisons that a round could not make; the next round tries again
    skipped_total: int
    #: Whether a bug of the server ended recounts until the next start
    stopped: bool
    #: Submissions whose counters were compared with their chunks
    submissions_checked_total: int
    #: Totals that differed in one round; if they differ in the next one too, they are drifts
    suspected_total: int
    #: Values of meta keys whose counters were compared with their submissions
    values_checked_total: int


class Recount(_RecountRequired, total=False):
    """Recount: see the server's OpenAPI document."""
    #: Time of the last round; absent before the first
    last_round_at: str
    #: The latest wrong counter; absent if there was none
    newest_drift: CounterDrift


class RecountDrift(TypedDict):
    """RecountDrift: see the server's OpenAPI document."""
    #: Name of the counter
    counter: str
    #: Number of times that it was wrong
    drifts_total: int
    #: Object that the counter belongs to
    scope: Literal["submission", "value", "queue"]


class _RefusedValueRequired(TypedDict):
    #: Chunks of the value in flight
    in_flight: int
    #: The meta key
    key: str
    #: Chunks of the value that are held back
    refused: Amount


class RefusedValue(_RefusedValueRequired, total=False):
    """RefusedValue: see the server's OpenAPI document."""
    #: For a limit: the maximum
    max: int
    #: In an answer about a queue of several shards: the shard that holds them back. A value is listed once for each shard
    shard: int
    #: The value; absent: submissions without one
    value: MetaValue


class _ReleaseItemRequired(TypedDict):
    #: Token from the reservation
    token: str


class ReleaseItem(_ReleaseItemRequired, total=False):
    """ReleaseItem: see the server's OpenAPI document."""
    #: Delay until the chunk is offered again, at most 30 days; 0: none. It survives a restart; the bulk action retry ends it
    delay_ms: int


class ReleaseRequest(TypedDict):
    """ReleaseRequest: see the server's OpenAPI document."""
    #: Chunks to give back
    items: list[ReleaseItem]


class Released(TypedDict):
    """Released: see the server's OpenAPI document."""
    #: Number of chunks given back, without counting an attempt
    released: int


class _ReservationRequired(TypedDict):
    #: Number of the attempt, from 1
    attempt: int
    #: Content of the chunk
    content: Content
    #: Time when the server offers the chunk again
    deadline: str
    #: Index of the chunk
    index: int
    #: Meta of the submission
    meta: Meta
    #: Priority of the submission
    priority: int
    #: Id of the submission
    submission: str
    #: Proof of the reservation; every call about it needs it
    token: str


class Reservation(_ReservationRequired, total=False):
    """Reservation: see the server's OpenAPI document."""
    #: Attachment of the submission
    attachment: Bytes
    #: Start of the wait for this attempt: run_at, or the end of the previous attempt or its back-off. Absent where it is the time of the
    #: insert, which the id of the submission tells: divided by 4,194,304, it is milliseconds since 1970.
    ready_at: str
    #: W3C trace context of the insert
    trace: str


class _ReserveAnswerRequired(TypedDict):
    #: Reason for an empty answer; null if chunks were reserved
    reason: Optional[Literal["nothing", "all_limited", "paused", "not_yet_due", "all_skipped", "restart_grace", "quiet", "draining", "rate_limited"]]
    #: The reserved chunks, in the order of the strategy
    reservations: list[Reservation]
    #: Pause before the next reserve, if it is known
    retry_after_ms: Optional[int]


class ReserveAnswer(_ReserveAnswerRequired, total=False):
    """ReserveAnswer: see the server's OpenAPI document."""
    #: With all_limited: some of the values at their limit; otherwise absent
    limited: list[Saturated]
    #: Blocks of the strategy that do not score, because their plugin or its version is missing, inactive or out of use; absent if there
    #: are none
    warnings: list[StrategyWarning]


class _ReserveRequestRequired(TypedDict):
    #: Most chunks to take
    max: int


class ReserveRequest(_ReserveRequestRequired, total=False):
    """ReserveRequest: see the server's OpenAPI document."""
    #: Name of the consumer
    consumer: str
    #: Facts about the consumer for plugins and formulas: at most 16 keys
    context: Meta
    #: Strategy that chooses the chunks; absent: Random
    strategy: Strategy
    #: Time until the deadline; 0 or absent: the queue's
    timeout_ms: int
    #: Time to wait if nothing is ready
    wait_ms: int


class _ResultRequired(TypedDict):
    #: Result of this item
    status: Literal["ok", "already", "lost", "gone", "unknown", "invalid", "refused"]


class Result(_ResultRequired, total=False):
    """Result: see the server's OpenAPI document."""
    #: Stable name of the reason
    code: str
    #: The new deadline, after an extend
    deadline: str
    #: The reason in words
    detail: str
    #: Ids of the submissions that a completion inserted, in their order
    inserted: list[str]


class ResultsAnswer(TypedDict):
    """ResultsAnswer: see the server's OpenAPI document."""
    #: One per item, in order
    results: list[Result]


class Retried(TypedDict):
    """Retried: see the server's OpenAPI document."""
    #: Number of parked actions that the server tries again
    retried: int


class _RetryRequired(TypedDict):
    #: Failed attempts
    attempts: int
    #: Name of the kind of error, as in the filter of a bulk operation
    fingerprint: str
    #: Index of the chunk
    index: int
    #: Its submission
    submission: str


class Retry(_RetryRequired, total=False):
    """Retry: see the server's OpenAPI document."""
    #: The last error; absent if none was reported
    error: str
    #: End of the last attempt
    failed_at: str
    #: Meta of its submission
    meta: Meta
    #: Time of the next attempt
    next_at: str


class _RetryGroupRequired(TypedDict):
    #: Chunks that wait after this error
    count: int
    #: Name of the kind of error, as in the filter of a bulk operation
    fingerprint: str
    #: Index of its chunk
    index: int
    #: The error without its variable parts
    pattern: str
    #: Submission of the example
    submission: str
    #: Their submissions
    submissions: int
    #: Chunks by the number of failed attempts, at most 11
    tries: list[RetryTries]


class RetryGroup(_RetryGroupRequired, total=False):
    """RetryGroup: see the server's OpenAPI document."""
    #: One of the errors as it came; absent if the deadline passed
    example: str
    #: Earliest time of the next attempt of one of them
    next_at: str


class _RetryGroupsRequired(TypedDict):
    #: Number of chunks that were counted: all, unless more than 100,000 wait
    examined: int
    #: Kinds of errors, those with the most chunks first; at most 1,000
    items: list[RetryGroup]
    #: Chunks of further kinds
    others: int


class RetryGroups(_RetryGroupsRequired, total=False):
    """RetryGroups: see the server's OpenAPI document."""
    #: Shards that did not answer, if the queue has several
    missing_shards: list[MissingShard]


class RetryTries(TypedDict):
    """RetryTries: see the server's OpenAPI document."""
    #: Chunks
    count: int
    #: Failed attempts; 10: that many or more; 0: only deadlines passed
    tries: int


class Revoked(TypedDict):
    """Revoked: see the server's OpenAPI document."""
    #: Reason
    reason: Literal["submission_ended", "expired", "operator", "rule"]
    #: Token of the reservation; results under it no longer count
    token: str


class RevokedEvent(TypedDict):
    """RevokedEvent: see the server's OpenAPI document."""
    #: The revoked reservations
    items: list[Revoked]


class RotateToken(TypedDict, total=False):
    """RotateToken: see the server's OpenAPI document."""
    #: Time that the old secret stays valid; absent: it ends at once
    overlap_seconds: int


class _RuleRequired(TypedDict):
    #: pause or block: both hold chunks back, and a block takes precedence
    action: Literal["pause", "block"]
    #: Id in its queue, used only once. In a queue of several shards it is made of the action and the match
    id: str
    #: The rule covers the queue, a submission, or what meta and any say
    match: RuleMatch
    #: Time when it was first set
    since: str


class Rule(_RuleRequired, total=False):
    """Rule: see the server's OpenAPI document."""
    #: Name of the access token; on an open server, the name in the request, at most 128 bytes
    actor: str
    #: Chunks that the rule holds back, even if another rule does too; only in the list of active rules, and absent if there are none
    chunks: int
    #: Further effects
    effects: RuleEffects
    #: How a rule ended: an operator lifted it, its until came, or its submission ended
    end: Literal["lifted", "over", "submission_ended"]
    #: Time of its end
    ended_at: str
    #: Caller that lifted it, if known
    lifted_by: str
    #: Reason, shown to everyone whom the rule affects: at most 500 bytes; a block needs one
    reason: str
    #: In a queue of several shards: the shards in which the rule holds; absent if it holds in all that answered
    shards: list[int]
    #: Time when it ends; absent: when it is lifted
    until: str


class RuleEffects(TypedDict, total=False):
    """RuleEffects: see the server's OpenAPI document."""
    #: Refuse matching inserts with 423
    insert: bool
    #: Release matching reservations when the rule is set, without counting an attempt; they can no longer be extended
    revoke: bool


class RuleMatch(TypedDict, total=False):
    """RuleMatch: see the server's OpenAPI document."""
    #: Lists of up to 64 values of meta keys: of each key, a submission must have one. Together with meta, at most 8 keys
    any: dict[str, Optional[list[MetaValue]]]
    #: Values of meta keys, all of which a submission must have
    meta: Meta
    #: true: the whole queue
    queue: bool
    #: Id of an open submission; the rule ends with it
    submission: str


class _RuleRequestRequired(TypedDict):
    #: pause or block: both hold chunks back, and a block takes precedence
    action: Literal["pause", "block"]
    #: The rule covers the queue, a submission, or what meta and any say
    match: RuleMatch


class RuleRequest(_RuleRequestRequired, total=False):
    """RuleRequest: see the server's OpenAPI document."""
    #: Name of the access token; on an open server, the name in the request, at most 128 bytes
    actor: str
    #: Further effects
    effects: RuleEffects
    #: Reason, shown to everyone whom the rule affects: at most 500 bytes; a block needs one
    reason: str
    #: Time when it ends; absent: when it is lifted
    until: str


class RuledAmount(TypedDict):
    """RuledAmount: see the server's OpenAPI document."""
    #: Chunks that the rule holds back. If several rules cover a chunk, it counts for one, a block before a pause
    refused: Amount
    #: The rule
    rule: Rule


class _SaturatedRequired(TypedDict):
    #: Chunks of submissions with the value in flight
    in_flight: int
    #: The meta key
    key: str
    #: The limit that is reached: the smaller of the strategy's and the value's; of several branches, the largest
    limit: int
    #: The value
    value: MetaValue


class Saturated(_SaturatedRequired, total=False):
    """Saturated: see the server's OpenAPI document."""
    #: Whether these are the submissions without the key, counted together for missing=one; value is then empty
    missing: bool


class _ScheduleRequired(TypedDict):
    #: Time of the last definition, pause or resume
    changed_at: str
    #: Time when it was created
    created_at: str
    #: The body of PUT, with defaults filled in
    definition: ScheduleDefinition
    #: Its times, in plain words
    description: str
    #: Ticks emitted since it was created; triggers and backfills do not count
    emitted: int
    #: As in the header ETag, with the quotes
    etag: str
    #: Its name in the queue
    name: str
    #: Its last submissions, by ticks, triggers and backfills, the oldest first, as known since the server's start
    recent: list[Emission]
    #: Ticks dropped by missed all, beyond its limit or window
    skipped_late: int
    #: Ticks dropped by missed skip or once
    skipped_missed: int
    #: Ticks dropped because the last submission was open, or another one held the unique key
    skipped_overlap: int
    #: held: due, but a rule prevents inserts. finished: no tick is left. broken: this server cannot read its spec or time zone
    state: Literal["active", "paused", "held", "finished", "broken"]
    #: Version, from 1; each change, pause and resume makes the next
    version: int


class Schedule(_ScheduleRequired, total=False):
    """Schedule: see the server's OpenAPI document."""
    #: The last emitted tick
    last_at: str
    #: Submission of that tick
    last_submission: str
    #: The next tick, without jitter; absent while paused. It may lie in the past while nothing is emitted
    next_at: str
    #: Why it is paused or broken
    reason: str
    #: A tick still to be emitted, apart from next_at: from run_on_create, or kept by buffer_one
    waiting_at: str


class _ScheduleDefinitionRequired(TypedDict):
    #: When it is due: five fields of cron (minute, hour, day of month, month, weekday), @hourly, @daily, @weekly, @monthly, @yearly,
    #: "@every 90s" or "@at 2026-03-29T02:30:00Z"
    spec: str
    #: The submission of each tick: at most 64 KiB of attachment, template and inline bytes
    template: ScheduleTemplate


class ScheduleDefinition(_ScheduleDefinitionRequired, total=False):
    """ScheduleDefinition: see the server's OpenAPI document."""
    #: With missed all: emit at most this many missed ticks, the newest ones; default 100
    catchup_limit: int
    #: With missed all: emit no tick that is older than this; default 3,600,000
    catchup_window_ms: int
    #: Whether the schedule runs; false pauses it; default true
    enabled: bool
    #: No ticks after this time
    end: str
    #: Delay each tick by up to this much; the delay of a tick never changes
    jitter_ms: int
    #: What happens to ticks that the server could not emit in time: once emits the latest, unless a later tick is on time; skip drops
    #: them; all emits those within catchup_limit and catchup_window; default once
    missed: Literal["once", "skip", "all"]
    #: What happens to a tick while the submission of the previous tick is open: allow emits it, skip drops it, buffer_one keeps one tick
    #: until that submission ends; default allow
    overlap: Literal["allow", "skip", "buffer_one"]
    #: Pause the schedule when one of its submissions fails, expires or has a dead letter
    pause_on_failure: bool
    #: Insert once at the creation, in addition to the ticks
    run_on_create: bool
    #: Whether the cron spec begins with a field for seconds
    seconds: bool
    #: No ticks before this time; @every counts from it
    start: str
    #: Time zone of a cron spec, by its IANA name, such as Europe/Amsterdam; UTC by default
    tz: str


class _ScheduleNowRequired(TypedDict):
    #: Ticks emitted
    emitted: int
    #: Its name in the queue
    name: str
    #: Number of its last submissions that are open
    open: int
    #: Ticks dropped by missed all
    skipped_late: int
    #: Ticks dropped by missed skip or once
    skipped_missed: int
    #: Ticks dropped because the last submission was open
    skipped_overlap: int
    #: As in Schedule
    state: Literal["active", "paused", "held", "finished", "broken"]
    #: Changes when the schedule is redefined, paused or resumed
    version: int


class ScheduleNow(_ScheduleNowRequired, total=False):
    """ScheduleNow: see the server's OpenAPI document."""
    #: The last emitted tick
    last_at: str
    #: Submission of that tick
    last_submission: str
    #: Its last submission, by a tick, a trigger or a backfill
    newest: str
    #: State of that submission
    newest_state: str
    #: The next tick, without jitter; absent while paused
    next_at: str
    #: Why it is paused or broken
    reason: str
    #: A tick still to be emitted, apart from next_at
    waiting_at: str


class SchedulePreview(TypedDict):
    """SchedulePreview: see the server's OpenAPI document."""
    #: Its times, in plain words
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
    #: Ticks after this time; default now
    after: str
    #: No ticks after this time
    end: str
    #: Number of ticks; default 5
    n: int
    #: Whether the cron spec begins with a field for seconds
    seconds: bool
    #: No ticks before this time; @every counts from it
    start: str
    #: Time zone of a cron spec, by its IANA name, such as Europe/Amsterdam; UTC by default
    tz: str


class _ScheduleTemplateRequired(TypedDict):
    #: The work, in exactly one of three forms; in prefix and template {scheduled_at} is replaced by the tick's time (RFC 3339, UTC)
    chunks: Chunks


class ScheduleTemplate(_ScheduleTemplateRequired, total=False):
    """ScheduleTemplate: see the server's OpenAPI document."""
    #: Sent with every reservation
    attachment: Bytes
    #: Time from the insert of a submission to its dead_deadline; 0: none
    dead_after_ms: int
    #: Name of the group, which strategies see as the meta key `group`. All submissions of a group are in one shard of the queue
    group: str
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: Keys and values for strategies
    meta: Meta
    #: What happens to a chunk that is out of attempts; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Larger first under CustomPriority
    priority: int
    #: The pause after a failed attempt, instead of the queue's
    retry_backoff: Backoff
    #: The longest time that one attempt may hold a chunk, with all its extensions; 0: the queue's max_reservation_ms
    timeout_ms: int
    #: A tick whose key is held inserts nothing; it counts in skipped_overlap
    unique: Unique


class ScheduleTick(TypedDict):
    """ScheduleTick: see the server's OpenAPI document."""
    #: Time of the tick
    at: str
    #: The same time on the clocks of the time zone
    local: str


class SchedulesFrame(TypedDict):
    """SchedulesFrame: see the server's OpenAPI document."""
    #: Schedules, the next due first
    items: list[ScheduleNow]
    #: Number of schedules that the frame has no space for
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
    #: One in this many handed-out candidates is the first in the order of underlying, regardless of its score; 0: none
    explore: int
    #: How many candidates are scored at once
    window: int


class SelectAnyBlock(TypedDict):
    """In text: SelectAny(key, values, underlying)."""
    #: Meta key
    meta_field: str
    #: The block
    type: Literal["select_any"]
    #: The strategy that it works on
    underlying: StrategyNode
    #: Values of the key. The order does not matter, and a value counts once
    values: list[MetaValue]


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
    #: Times, in milliseconds since 1970
    at: list[int]
    #: Dead letters of open submissions
    dead: list[int]
    #: Chunks completed, per second since the point before
    done_rate: list[float]
    #: Attempts that failed, per second since the point before
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
    #: Time between two points
    step_seconds: int
    #: Chunks that waited for a retry or for run_at
    waiting: list[int]


class ServerOption(TypedDict):
    """ServerOption: see the server's OpenAPI document."""
    #: Default value
    default: str
    #: Purpose
    help: str
    #: Allowed values, in words
    limit: str
    #: Name in a configuration file; the flag has '-' instead of '_', and the environment variable is QUERN_ with the name in capitals
    option: str
    #: Source of the value: default, file PATH, environment, flag, or command if a command such as dev sets it
    source: str
    #: Value in effect
    value: str


class ServerOptions(TypedDict):
    """ServerOptions: see the server's OpenAPI document."""
    #: Every option, in the order of the server's help
    options: list[ServerOption]


class Session(TypedDict):
    """Session: see the server's OpenAPI document."""
    #: Latest end of the session
    ends_at: str
    #: The session ends after this long without a request or an open stream
    idle_seconds: int


class _ShardRequired(TypedDict):
    #: Groups that the shard has
    groups: int
    #: Name of this shard alone, to use instead of a queue's name
    queue: str
    #: Chunks that can be reserved now
    ready: int
    #: Chunks held by consumers
    reserved: int
    #: Number of the shard, from 1
    shard: int
    #: preparing: the server is making it; open; full: new groups go to other shards; draining: it refuses inserts; offline: it does not
    #: serve
    state: str
    #: Submissions that have not ended
    submissions_open: int


class Shard(_ShardRequired, total=False):
    """Shard: see the server's OpenAPI document."""
    #: Set while the shard does not serve: ready, reserved and submissions_open are its last known numbers, from this time. If it does
    #: not serve and this is absent, no one knows its numbers, and they are 0
    last_known_at: str
    #: In a cluster: the name of the node that serves it, or did so last; absent: no node does
    owner: str
    #: Why the shard is offline
    reason: str


class Skipped(TypedDict):
    """Skipped: see the server's OpenAPI document."""
    #: Frames that the subscriber was too slow for
    frames: int
    #: Name of the queue
    queue: str


class _SpreadRequired(TypedDict):
    #: Spread by meta key; $submission stands for the submission itself
    keys: list[KeySpread]
    #: Chunks that the server would hand out
    picks: int
    #: The canonical text
    strategy: str


class Spread(_SpreadRequired, total=False):
    """Spread: see the server's OpenAPI document."""
    #: Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch was used, as in a
    #: reserve. Absent if there are none
    warnings: list[StrategyWarning]


class Stats(TypedDict):
    """Stats: see the server's OpenAPI document."""
    #: Submissions received as dead letters of another queue
    arrived_total: int
    #: Chunks that block rules hold back
    blocked: int
    #: Running bulk operations
    bulk_operations_running: int
    #: Bytes of all group commits
    commit_bytes_total: int
    #: Group commits
    commits_total: int
    #: Consumers with an open stream
    consumers_attached: int
    #: Reserve calls that wait for work
    consumers_waiting: int
    #: Dead chunks of open submissions
    dead: int
    #: Dead chunks that can be redriven, including those of submissions that completed with dead ones
    dead_letters: int
    #: 1: the server refuses inserts because the disk is full
    disk_full: int
    #: Completed chunks of open submissions
    done: int
    #: Chunks completed
    done_total: int
    #: 1: the server refuses inserts because of the queue's settings
    draining: int
    #: 1: no submission is open
    empty: int
    #: Deadlines that passed
    expired_total: int
    #: Attempts that failed
    failed_total: int
    #: Time when all open work is done; null if nothing moves, and until the server knows the pace
    forecast: Optional[Forecast]
    #: Dead letters forwarded to another queue
    forwarded_total: int
    #: Chunks inserted
    inserted_total: int
    #: Size of the journal on disk
    journal_bytes: int
    #: Reservations that ended because their consumer was lost
    lost_total: int
    #: 1: the server refuses inserts because it uses as much memory as its option memory-limit allows
    memory_full: int
    #: Age of the oldest submission with a ready chunk; 0 when there is none
    oldest_ready_seconds: float
    #: Operations of the ready chunks
    operations_ready: int
    #: Dead letters that are being forwarded
    outgoing: int
    #: Chunks that pause rules hold back
    paused: int
    #: Chunks that can be reserved now
    ready: int
    #: Chunks given back without work
    released_total: int
    #: Chunks held by consumers
    reserved: int
    #: Chunks reserved
    reserved_total: int
    #: The waiting chunks that wait for another attempt
    retrying: int
    #: Reservations taken from attached consumers, which were told
    revoked_total: int
    #: Skipped chunks of open submissions
    skipped: int
    #: Size of the store on disk
    store_bytes: int
    #: Submissions that ended, in any way
    submissions_ended_total: int
    #: Submissions inserted
    submissions_inserted_total: int
    #: Submissions that have not ended
    submissions_open: int
    #: Chunks that wait for a retry or for run_at
    waiting: int


class _StatsFrameRequired(TypedDict):
    #: Time of these numbers
    at: str
    #: Name of the queue
    queue: str
    #: Chunks per second over the last second
    rates: Rates
    #: The numbers
    stats: Stats


class StatsFrame(_StatsFrameRequired, total=False):
    """StatsFrame: see the server's OpenAPI document."""
    #: The first 20 rules: those of the whole queue, then the newest; absent when there are none
    rules: list[Rule]
    #: Number of rules
    rules_total: int


class _StrategiesInUseRequired(TypedDict):
    #: Strategies, those that handed out the most chunks first; at most 256
    items: list[StrategyUse]
    #: Start of the covered time: an hour ago, or the server's start if that is later
    since: str


class StrategiesInUse(_StrategiesInUseRequired, total=False):
    """StrategiesInUse: see the server's OpenAPI document."""
    #: Shards that did not answer, if the queue has several
    missing_shards: list[MissingShard]
    #: The cursor of the next page; absent on the last
    next: str


class StrategyByName(TypedDict):
    """A strategy that the queue keeps under this name."""
    #: The name
    name: str


class StrategyRequest(TypedDict):
    """StrategyRequest: see the server's OpenAPI document."""
    #: Strategy to store or validate; only for validation, it may be a name
    strategy: Strategy


class StrategyUse(TypedDict):
    """StrategyUse: see the server's OpenAPI document."""
    #: Chunks handed out, over the last one to two minutes
    chunks_per_second: float
    #: Approximate number of consumers that reserved with it in the last half hour to hour
    consumers: int
    #: End of the last reserve with it, to the second
    last_used: str
    #: Reserves over the last one to two minutes, including empty ones
    reserves_per_second: float
    #: The canonical text
    strategy: str


class StrategyWarning(TypedDict):
    """StrategyWarning: see the server's OpenAPI document."""
    #: The rest of a sentence about it
    detail: str
    #: Kind of problem
    kind: Literal["offers_nothing", "contradiction", "repeated_filter", "limit_never_binds", "preference_has_no_effect", "hidden", "shares_nothing", "same_scores", "plugin_unusable", "plugin_unavailable"]
    #: The block: a JSON pointer into the canonical JSON, below /strategy
    pointer: str


class _SubmissionRequired(TypedDict):
    #: Number of chunks
    chunks: int
    #: Time of the insert
    created_at: str
    #: Dead letters; for a failed submission, the chunks that ended it
    dead: int
    #: Completed
    done: int
    #: Permanent id; ids grow with time
    id: str
    #: The queue it is in
    queue: str
    #: Ready: can be reserved now, if a strategy and its limits allow it
    ready: int
    #: Held by consumers
    reserved: int
    #: All states but open are final, except that a redrive reopens completed_with_dead
    state: Literal["open", "completed", "completed_with_dead", "failed", "cancelled", "expired"]
    #: Waiting for a retry, for run_at or for other submissions
    waiting: int


class Submission(_SubmissionRequired, total=False):
    """Submission: see the server's OpenAPI document."""
    #: The submissions that it had to wait for
    after: After
    #: Ready, but a block covers the submission
    blocked: int
    #: Expire the submission if it is still open at this time; later than run_at
    dead_deadline: str
    #: In the answer of an insert: nothing was inserted, because this submission holds the unique key
    existing: bool
    #: Index of the chunk that failed the submission: out of attempts, failed as fatal, or one more than max_failed_chunks. Absent if it
    #: did not fail, or under a version that did not record it
    failed_chunk: int
    #: Last error of the chunk that failed the submission
    failure: str
    #: Time of its end
    finished_at: str
    #: Skipped chunks that were forwarded to another queue as dead letters
    forwarded: int
    #: Origin, for a dead letter of another queue
    forwarded_from: Origin
    #: Name of the group, which strategies see as the meta key `group`. All submissions of a group are in one shard of the queue
    group: str
    #: Whether it has an attachment
    has_attachment: bool
    #: Attempts per chunk; 0: the queue's
    max_attempts: int
    #: The submission fails when more chunks than this are dead or skipped; 0: any number
    max_failed_chunks: int
    #: Keys and values for strategies
    meta: Meta
    #: What happens to a chunk that is out of attempts; default: the queue's setting
    on_exhausted: Literal["fail_submission", "dead_letter", "skip"]
    #: Operations that one chunk stands for; only counted; 0: counts as 1
    operations_per_chunk: int
    #: Ready, but a pause covers the submission
    paused: int
    #: Prefix from the insert
    prefix: str
    #: Larger first under CustomPriority
    priority: int
    #: The pause after a failed attempt, instead of the queue's
    retry_backoff: Backoff
    #: Hand out no chunk before
    run_at: str
    #: Schedule that inserted it
    schedule: str
    #: Tick of that schedule
    scheduled_at: str
    #: Number of the shard that has it; absent if the queue has one shard
    shard: int
    #: Deleted, forwarded or, in an ended submission, unfinished
    skipped: int
    #: Template from the insert
    template: str
    #: The longest time that one attempt may hold a chunk, with all its extensions; 0: the queue's max_reservation_ms
    timeout_ms: int
    #: W3C traceparent, then ';' and the tracestate
    trace: str
    #: Its unique key
    unique: Unique
    #: Those that it still waits for
    waits_for: list[str]


class SubmissionChange(TypedDict):
    """SubmissionChange: see the server's OpenAPI document."""
    #: Larger first under CustomPriority
    priority: Optional[int]


class SubmissionOutput(TypedDict):
    """SubmissionOutput: see the server's OpenAPI document."""
    #: Index of the chunk
    index: int
    #: Output from the consumer
    output: Bytes
    #: Id of the submission
    submission: str


class Suspects(TypedDict):
    """Suspects: see the server's OpenAPI document."""
    #: Suspects offered or reserved, and not finished
    lent: int
    #: Suspects that may be lent while there is other work: suspect_share of the slots, at least 1
    quota: int
    #: Suspects that are due, and wait behind other work
    shelved: int
    #: Smoothed number of reservations
    slots: float


class _TenantRequired(TypedDict):
    #: Key of the Fair block
    key: str
    #: Chunks that it is behind, or seconds under cost time; negative: ahead
    lag: float
    #: Current fair share of everything handed out
    share: float
    #: State of the tenant
    state: Literal["idle", "active", "owing", "blocked"]
    #: Weight
    weight: float


class Tenant(_TenantRequired, total=False):
    """Tenant: see the server's OpenAPI document."""
    #: Only in why: approximate number of tenants that come before it in this block
    before: int
    #: Its value of the key, or the id of the submission; absent: all submissions without the key
    value: MetaValue


class TenantLately(TypedDict):
    """TenantLately: see the server's OpenAPI document."""
    #: Fair share
    entitled: float
    #: Amount received
    received: float


class Text(TypedDict):
    """Bytes that are UTF-8."""
    #: Bytes that are UTF-8
    text: str


class _TokenRequired(TypedDict):
    #: Time when it was made
    created_at: str
    #: Id, which is not secret
    id: str
    #: Name; the server records changes under it
    name: str
    #: Scopes; admin includes all others
    scopes: list[str]


class Token(_TokenRequired, total=False):
    """Token: see the server's OpenAPI document."""
    #: Subject of the client certificate that stands for it; absent: none
    certificate_subject: str
    #: Time when it expires; absent: never
    expires_at: str
    #: Time of the last use, to the minute; after a crash, the last minutes may be missing. Absent: never used
    last_used_at: str
    #: The only submissions that it sees; absent: all
    meta: Meta
    #: Time until which the previous secret is valid; absent: it is not
    previous_secret_until: str
    #: The only queues that it sees; absent: all
    queues: list[str]
    #: Text of the token, qn_<id>_<secret>; only in the answer that made or rotated it
    token: str


_UniqueOdd = TypedDict("_UniqueOdd", {"while": "str"}, total=False)


class _UniqueRequired(TypedDict):
    #: Any text that the submissions have in common, such as "invoice:7481"
    key: str


class Unique(_UniqueOdd, _UniqueRequired, total=False):
    """Unique: see the server's OpenAPI document."""
    #: keep (default): the submission that holds the key stays. replace: the server cancels it and inserts this one, unless one of its
    #: chunks is reserved, done, dead or skipped. Absent in answers
    on_conflict: str


class ValidStrategy(TypedDict):
    """ValidStrategy: see the server's OpenAPI document."""
    #: The compiled branches, in the order in which the server asks them
    branches: list[str]
    #: The canonical text
    strategy: str
    #: The canonical JSON
    tree: Strategy
    #: Parts without effect
    warnings: list[StrategyWarning]


class _ValueCountRequired(TypedDict):
    #: Chunks with the value in flight
    in_flight: int
    #: Most chunks in flight, for every reservation of the queue; null: no limit
    limit: Optional[int]
    #: Ready chunks with the value
    ready: int
    #: Whether in_flight has reached limit, or default_limit
    saturated: bool
    #: Start of the time at its limit, ignoring gaps of under five seconds; the server looks once a second. null: it is not at its limit,
    #: or it is one of more than 10,000 values and was not examined
    saturated_since: Optional[str]
    #: Open submissions with the value
    submissions: int
    #: The value
    value: MetaValue
    #: Share under Fair, with up to three decimals; null: not set, which counts as 1
    weight: Optional[float]


class ValueCount(_ValueCountRequired, total=False):
    """ValueCount: see the server's OpenAPI document."""
    #: Chunks with the value that are ready except for a block
    blocked: int
    #: Time of the last setting; absent if nothing is set
    changed_at: str
    #: Dead chunks of open submissions with the value; absent: 0, or an event
    dead: int
    #: Default limit of the key, which holds while limit is null; absent: none
    default_limit: int
    #: Default quota of the key, each number of which holds while quota has none; absent: not set
    default_quota: GroupLimits
    #: Default rate of the key, which holds while rate is absent; absent: not set
    default_rate: Rate
    #: Default weight of the key, which holds while weight is null; absent: not set
    default_weight: float
    #: Completed chunks of open submissions with the value; absent: 0, or an event
    done: int
    #: Id of the settings, for If-Match; absent if nothing is set
    etag: str
    #: Time at which the oldest submission with the value and a ready chunk was inserted; absent: there is none, or an event
    oldest_ready_at: str
    #: Chunks with the value that are ready except for a pause
    paused: int
    #: Limits of its open submissions and waiting chunks; absent: not set
    quota: GroupLimits
    #: Rate that replaces the number in every MaxRate of the key over the same time; absent: not set
    rate: Rate
    #: Chunks with the value that wait for a retry or for run_at; absent: 0, or an event
    waiting: int


class ValueSeries(TypedDict):
    """ValueSeries: see the server's OpenAPI document."""
    #: Most chunks in flight in each step, the oldest first; -1 if unknown
    in_flight: list[int]
    #: The value
    value: MetaValue


class ValueSettings(TypedDict, total=False):
    """ValueSettings: see the server's OpenAPI document."""
    #: Most chunks in flight, for every reservation of the queue; null: no limit
    limit: Optional[int]
    #: Limits of its open submissions and waiting chunks; the server refuses an insert that would exceed one; absent: not set
    quota: GroupLimits
    #: Replaces the number in every MaxRate of the key over the same time; absent: not set
    rate: Rate
    #: Share under Fair, with up to three decimals; null: not set, which counts as 1
    weight: Optional[float]


class ValueSum(TypedDict):
    """ValueSum: see the server's OpenAPI document."""
    #: Their chunks in flight
    in_flight: int
    #: Their ready chunks
    ready: int
    #: Number of values
    values: int


class _VersionRequired(TypedDict):
    #: Version of Go
    go: str
    #: The release
    version: str


class Version(_VersionRequired, total=False):
    """Version: see the server's OpenAPI document."""
    #: Revision of the source
    revision: str


class _ViewRequired(TypedDict):
    #: Text of the branch
    branch: str
    #: false: the server is building it, and no reserve uses it yet
    built: bool
    #: Approximate memory, including its part of shared data; while it is being built, the most that it may take
    bytes: int
    #: Whether only questions (preview, explain, why, compare) use it, and no consumer
    question: bool


class View(_ViewRequired, total=False):
    """View: see the server's OpenAPI document."""
    #: Number of the shard that has it, in a list of a queue of several shards
    shard: int


class _ViewsRequired(TypedDict):
    #: Memory of the views of all queues, by strategies of consumers
    bytes: int
    #: Limit of bytes: the server's option view-memory
    bytes_most: int
    #: The views, the largest first
    items: list[View]
    #: Memory of the views that only questions use
    question_bytes: int
    #: Limit of question_bytes: a quarter of bytes_most
    question_bytes_most: int


class Views(_ViewsRequired, total=False):
    """Views: see the server's OpenAPI document."""
    #: Shards that did not answer, if the queue has several
    missing_shards: list[MissingShard]
    #: The cursor of the next page; absent on the last
    next: str


class _WaitAnswerRequired(TypedDict):
    #: Ended submissions, in the order of the request
    ended: list[Submission]
    #: Number of submissions that are open, or have ended but did not fit
    open: int


class WaitAnswer(_WaitAnswerRequired, total=False):
    """WaitAnswer: see the server's OpenAPI document."""
    #: Unknown ids, in the order of the request; absent if there are none
    unknown: list[str]


class _WaitRequestRequired(TypedDict):
    #: Submissions to wait for, of any queues
    ids: list[str]


class WaitRequest(_WaitRequestRequired, total=False):
    """WaitRequest: see the server's OpenAPI document."""
    #: Answer when all submissions have ended; absent: when one has
    all: bool
    #: Time to wait; 0 or absent: none
    wait_ms: int


class _WhoamiRequired(TypedDict):
    #: Scopes of the caller; admin includes all others
    scopes: list[str]
    #: false: there is no token yet, and everyone who reaches the server may do everything
    token_required: bool


class Whoami(_WhoamiRequired, total=False):
    """Whoami: see the server's OpenAPI document."""
    #: Time when the token expires; absent: never
    expires_at: str
    #: Id of the token; absent on an open server
    id: str
    #: The only submissions that the caller sees; absent: all
    meta: Meta
    #: Name of the token; absent on an open server
    name: str
    #: The only queues that the caller sees; absent: all
    queues: list[str]
    #: For a caller with a session: its end
    session: Session


class _WhyAnswerRequired(TypedDict):
    #: Branches of the strategy, in the order in which the server asks them
    branches: list[WhyBranch]
    #: State of the chunk
    state: Literal["ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"]
    #: The canonical text
    strategy: str


class WhyAnswer(_WhyAnswerRequired, total=False):
    """WhyAnswer: see the server's OpenAPI document."""
    #: End of the restart grace; until then, limits hold back the chunks that they count. Absent: there is none
    restart_grace_until: str
    #: Number of the shard that has it; absent if the queue has one shard
    shard: int
    #: The chunk's approximate place, in its shard if the queue has several; absent if no branch admits it now
    standing: WhyStanding
    #: Blocks that do not score now, because their plugin is missing, inactive or out of use, so that their next branch is used. Absent
    #: if there are none
    warnings: list[StrategyWarning]


class _WhyBranchRequired(TypedDict):
    #: Number of the branch, from 1; inside of Fair every alternative is a branch
    branch: int
    #: The obstacle in words
    detail: str
    #: The first obstacle; none: the branch may hand the chunk out now
    obstacle: Literal["none", "done", "dead", "skipped", "forwarded", "waiting", "reserved", "not_yet_due", "paused", "blocked", "filter", "restart_grace", "limit", "value_limit", "hidden", "alternative", "turn", "score", "rate", "after"]
    #: The way to the branch through the strategy
    path: str


class WhyBranch(_WhyBranchRequired, total=False):
    """WhyBranch: see the server's OpenAPI document."""
    #: For reserved: the consumer
    consumer: str
    #: For hidden and alternative: number of the branch that comes first
    hidden_by: int
    #: For limit and value_limit: chunks of that value in flight
    in_flight: int
    #: For filter and the limits: the meta key
    key: str
    #: For limit, value_limit, restart_grace and rate: the maximum
    max: int
    #: For rate: time until the next reservation is allowed
    retry_after_ms: int
    #: For paused and blocked: the rule that decides
    rule: Rule
    #: Under Fair: the chunk's tenant in each block, the outermost first
    tenants: list[Tenant]
    #: For waiting, reserved, not_yet_due, restart_grace and rate: the end. For paused and blocked: the end of the rule, if it has one
    until: str
    #: For filter and the limits: the submission's value, if it has one
    value: MetaValue


class WhyRequest(TypedDict, total=False):
    """WhyRequest: see the server's OpenAPI document."""
    #: The strategy; absent: Random
    strategy: Strategy


class _WhyStandingRequired(TypedDict):
    #: Approximate number of chunks before it, rounded to two digits; under Random, half of those
    ahead: int
    #: Whether there are more before it, because not all were examined
    at_least: bool
    #: The first branch that admits the chunk, from 1
    branch: int
    #: Chunks of the queue reserved per second over the last minute; 0: none, or unknown
    per_second: float


class WhyStanding(_WhyStandingRequired, total=False):
    """WhyStanding: see the server's OpenAPI document."""
    #: Under Random: approximate number of chunks that it is drawn from
    among: int
    #: Approximate wait at that rate; absent if there is none
    wait_ms: int


class Withheld(TypedDict):
    """Withheld: see the server's OpenAPI document."""
    #: Chunks that are held back
    refused: Amount
    #: Number of different values that hold chunks back; at most 10,000 are distinguished
    refused_values: int
    #: The ten of those values that hold back the most chunks
    top: list[RefusedValue]
