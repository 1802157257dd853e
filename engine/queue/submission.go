package queue

import (
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// SubmissionState is the state of a submission. Every state but Open and CompletedWithDead is final.
type SubmissionState uint8

// The states; docs/LIFECYCLE.md shows how they follow each other. Only a redrive opens a submission again, and only one that is
// CompletedWithDead.
const (
	Open SubmissionState = iota
	Completed
	CompletedWithDead
	Failed
	Cancelled
	Expired

	SubmissionStates = int(Expired) + 1 // how many there are
)

var submissionStates = [...]string{"open", "completed", "completed_with_dead", "failed", "cancelled", "expired"}

func (s SubmissionState) String() string { return submissionStates[s] }

// SubmissionStateNames are the names of all states, in the order of the constants.
func SubmissionStateNames() []string { return slices.Clone(submissionStates[:]) }

// ParseSubmissionState reads the name of a state.
func ParseSubmissionState(text string) (SubmissionState, bool) {
	for i, name := range submissionStates {
		if name == text {
			return SubmissionState(i), true
		}
	}
	return 0, false
}

// OnExhausted says what a chunk out of attempts does to its submission.
type OnExhausted uint8

// The policies. Inherit (a submission's default) means the queue's setting.
const (
	Inherit        OnExhausted = iota
	FailSubmission             // the submission fails, its other chunks are skipped
	DeadLetter                 // the chunk becomes a dead letter, the submission goes on
	Skip                       // the chunk is given up, the submission goes on
)

var exhaustedNames = [...]string{Inherit: "", FailSubmission: "fail_submission", DeadLetter: "dead_letter", Skip: "skip"}

// String is the name of a policy; Inherit has none.
func (p OnExhausted) String() string { return exhaustedNames[p] }

// ParseOnExhausted reads the name of a policy.
func ParseOnExhausted(text string) (OnExhausted, error) {
	if i := slices.Index(exhaustedNames[:], text); i > int(Inherit) {
		return OnExhausted(i), nil
	}
	return Inherit, Invalid("/on_exhausted", "must be %s", oneOf(exhaustedNames[FailSubmission:]))
}

// Chunks describes the work of a submission. Exactly one of the three forms is used: Count with Prefix (content is in
// object storage at Prefix+index), Count with Template (content is Template with each "{index}" replaced), or Inline
// (one entry per chunk).
type Chunks struct {
	Count    uint32 // 1 to MaxChunks; for Inline the number of entries
	Prefix   string
	Template string
	Inline   [][]byte
}

// NewSubmission is a submission that a producer inserts. Zero values mean "the queue's setting" or "none".
type NewSubmission struct {
	Group              string
	Meta               Meta
	Priority           int64 // -MaxPriority to MaxPriority, larger first under CustomPriority
	Chunks             Chunks
	Attachment         []byte // opaque bytes that go out with every reservation of the submission
	OperationsPerChunk uint32 // operations that one chunk stands for, at least 1; only counted
	RunAt              Time   // not handed out before
	DeadDeadline       Time   // 0: none; a submission that is open then ends as expired
	MaxAttempts        uint16 // 0: the queue's
	OnExhausted        OnExhausted
	RetryBackoff       *Backoff      // nil: the queue's
	MaxFailedChunks    uint32        // chunks that may be given up or become dead letters before the submission fails; 0: any number
	AttemptTimeout     time.Duration // the longest that a reservation of a chunk lasts, with all its extensions; 0: as the queue says
	Trace              string        // W3C traceparent, optionally followed by ";" and tracestate
	IdempotencyKey     string
	Fingerprint        [16]byte // of the request that carried the key
	Origin             *Origin  // of a forwarded dead letter; nil otherwise
	Schedule           string   // the schedule that inserts it; "": none
	Scheduled          Time     // the tick that it is for
	Unique             *Unique  // nil: it has no unique key
	After              *After   // nil: it waits for no other submission
	Acts               []Act    // for the audit log, in the same commit
}

// submissionFields are the fields of a submission beside its chunks, meta, attachment and trace. Those that the template of a schedule has
// are the same there.
var submissionFields = []*Field[NewSubmission]{
	{
		Name: "priority", Range: numbers(-MaxPriority, MaxPriority),
		field:    fieldOf(func(n *NewSubmission) *int64 { return &n.Priority }, 0),
		Sentence: "Larger first under CustomPriority",
	}, {
		Name: "group", Length: MaxMetaValueBytes, field: fieldOf(func(n *NewSubmission) *string { return &n.Group }, ""),
		Sentence: "Name of the group, which strategies see as the meta key `group`. All submissions of a group are in one shard " +
			"of the queue",
	}, {
		Name: "operations_per_chunk", Range: numbers(0, 1<<32-1, "counts as 1"),
		field:    fieldOf(func(n *NewSubmission) *uint32 { return &n.OperationsPerChunk }, 0),
		Sentence: "Operations that one chunk stands for; only counted",
	}, {
		Name: "max_attempts", Range: numbers(0, MaxMaxAttempts, "the queue's"),
		field:    fieldOf(func(n *NewSubmission) *uint16 { return &n.MaxAttempts }, 0),
		Sentence: "Attempts per chunk",
	}, {
		Name: "on_exhausted", Names: exhaustedNames[:],
		field:    fieldOf(func(n *NewSubmission) *OnExhausted { return &n.OnExhausted }, Inherit),
		Sentence: "What happens to a chunk that is out of attempts; default: the queue's setting",
	}, {
		Name: "retry_backoff", field: fieldOf(func(n *NewSubmission) **Backoff { return &n.RetryBackoff }, (*Backoff)(nil)),
		Sentence: "The pause after a failed attempt, instead of the queue's",
	}, {
		Name: "max_failed_chunks", Range: numbers(0, MaxChunks, "any number"),
		field:    fieldOf(func(n *NewSubmission) *uint32 { return &n.MaxFailedChunks }, 0),
		Sentence: "The submission fails when more chunks than this are dead or skipped",
	}, {
		Name: "timeout_ms", Range: milliseconds(0, MaxReservation, "the queue's max_reservation_ms"),
		field:    fieldOf(func(n *NewSubmission) *time.Duration { return &n.AttemptTimeout }, 0),
		Sentence: "The longest time that one attempt may hold a chunk, with all its extensions",
	}, {
		Name: "run_at", field: fieldOf(func(n *NewSubmission) *Time { return &n.RunAt }, 0),
		Sentence: "Hand out no chunk before",
	}, {
		Name: "dead_deadline", field: fieldOf(func(n *NewSubmission) *Time { return &n.DeadDeadline }, 0),
		Sentence: "Expire the submission if it is still open at this time; later than run_at",
	},
}

// SubmissionFields lists those fields of a submission that have a declaration.
func SubmissionFields() []*Field[NewSubmission] { return slices.Clone(submissionFields) }

// Valid checks the fields that have a declaration, and that the submission does not expire before its run_at.
func (n *NewSubmission) Valid() error {
	if err := valid(submissionFields, n); err != nil {
		return err
	}
	if n.Unique != nil {
		if err := n.Unique.Valid(); err != nil {
			return err
		}
	}
	if n.AttemptTimeout > 0 && n.AttemptTimeout < MinReservation {
		return Invalid("/timeout_ms", "is %d; a timeout has at least %d ms, and 0 stands for the queue's max_reservation_ms",
			n.AttemptTimeout.Milliseconds(), MinReservation.Milliseconds())
	}
	if n.DeadDeadline != 0 && n.DeadDeadline <= n.RunAt {
		return Invalid("/dead_deadline", "is not after run_at: nothing of the submission could ever be done")
	}
	return validBudget(n.MaxFailedChunks, n.OnExhausted)
}

// validBudget refuses a budget for failures beside a policy that does not have one.
func validBudget(maxFailed uint32, policy OnExhausted) error {
	if maxFailed > 0 && policy == FailSubmission {
		return Invalid("/max_failed_chunks", "has no effect with on_exhausted %s, which ends the submission at the first such "+
			"chunk; leave it out, or set on_exhausted to %s or %s", policy, DeadLetter, Skip)
	}
	return nil
}

// Fits refuses fields that have no effect, or are not allowed, under the settings of the queue.
func (n *NewSubmission) Fits(s *Settings) error {
	switch {
	case s.GroupRequired && n.Meta.GroupOf() == "":
		return Invalid("/group", "is missing: the queue's setting group_required asks for one")
	case n.MaxFailedChunks > 0 && n.OnExhausted == Inherit && s.OnExhausted == FailSubmission:
		return Invalid("/max_failed_chunks", "has no effect: the queue's on_exhausted is %s, which ends the submission at the "+
			"first such chunk; send on_exhausted %s or %s with it", FailSubmission, DeadLetter, Skip)
	}
	return nil
}

// NumberRange is the range of the number at a pointer into an insert or a schedule. False: there is no number with a range.
func NumberRange(pointer string) (Range, bool) {
	if pointer == "/chunks/count" || pointer == "/template/chunks/count" {
		return numbers(1, MaxChunks), true
	}
	if r, ok := rangeIn(scheduleFields, pointer); ok {
		return r, true
	}
	return rangeIn(submissionFields, strings.TrimPrefix(pointer, "/template"))
}

// Submission is what is known about a submission at one moment.
type Submission struct {
	ID                 SubmissionID
	Queue              string
	State              SubmissionState
	Group              string
	Meta               Meta
	Priority           int64
	Chunks             uint32
	Ready              uint32 // can be reserved now, if a strategy and its limits let them
	Paused, Blocked    uint32 // would be ready, but a rule covers the submission
	Waiting            uint32 // wait for a time: run_at or a retry
	Reserved           uint32 // held by consumers
	Done               uint32
	Dead               uint32 // dead letters: out of attempts, to be redriven or deleted; in a failed submission, the chunk that ended it
	Forwarded          uint32 // of the skipped ones, those that went on to another queue
	Skipped            uint32 // given up; once the submission has ended, all that is neither done nor dead
	OperationsPerChunk uint32
	Prefix             string
	Template           string
	HasAttachment      bool
	Created            Time
	RunAt              Time
	DeadDeadline       Time
	Finished           Time   // when it left Open; 0 while open
	MaxAttempts        uint16 // 0: the queue's
	OnExhausted        OnExhausted
	RetryBackoff       *Backoff      // nil: the queue's
	MaxFailedChunks    uint32        // 0: any number
	AttemptTimeout     time.Duration // 0: as the queue says
	Failure            string        // why it failed: the last error of the chunk that ended it
	FailedChunk        *uint32       // that chunk; nil: it did not fail, or under a version that did not note it
	Trace              string
	Origin             *Origin        // where it was forwarded from; nil: it was inserted
	Schedule           string         // the schedule that inserted it; "": none
	Scheduled          Time           // the tick that it is for
	Unique             *Unique        // nil: it has no unique key
	After              *After         // nil: it waits for no other submission
	WaitsFor           []SubmissionID // of them, those that it still waits for
}

// SubmissionBytes is about how much memory an answer takes for a submission, before it is encoded.
func SubmissionBytes(s *Submission) int {
	const fixed = 1024
	return fixed + s.Meta.Bytes() + len(s.Prefix) + len(s.Template) + len(s.Failure) + len(s.Trace)
}

// ChunkState is the state of one chunk.
type ChunkState uint8

// The states of a chunk. Ready is the absence of an exception and costs nothing to store.
const (
	ChunkReady ChunkState = iota
	ChunkWaiting
	ChunkReserved
	ChunkDone
	ChunkDead
	ChunkSkipped
	ChunkForwarded // to another queue, out of attempts; counted as skipped
)

var chunkStates = [...]string{"ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded"}

func (s ChunkState) String() string { return chunkStates[s] }

// ParseChunkState reads the name of a state.
func ParseChunkState(text string) (ChunkState, bool) {
	for i, name := range chunkStates {
		if name == text {
			return ChunkState(i), true
		}
	}
	return 0, false
}

// Chunk is what is known about one chunk at one moment.
type Chunk struct {
	Index     uint32
	State     ChunkState
	Attempts  uint16   // tries that ended without success
	NotBefore Time     // of a waiting chunk
	Consumer  string   // of a reserved chunk
	Since     Time     // of a reserved chunk: when its consumer got it
	Deadline  Time     // of a reserved chunk
	Reported  Reported // of a reserved chunk
	Error     string   // the last failure
	To        string   // of a forwarded chunk: the queue that it went on to
	Output    []byte   // of a done chunk that has one; nil otherwise
}

// Bytes is about how much memory an answer takes for the chunk, before it is encoded.
func (c *Chunk) Bytes() int {
	const fixed = 256
	return fixed + len(c.Error) + len(c.Output) + len(c.Reported.Note)
}

// Settings is a queue's configuration; setting.go declares each setting. Every decision reads the value of its moment.
type Settings struct {
	Durability         Durability
	MaxAttempts        uint16
	MaxExpiries        uint8
	OnExhausted        OnExhausted // not Inherit
	ReservationTimeout time.Duration
	MaxReservation     time.Duration
	RetryBackoff       Backoff
	ExpiryBackoff      Backoff
	Retention          time.Duration
	DeadRetention      time.Duration
	SuspectShare       float64
	Requeue            Requeue
	DeadLetterQueue    string
	ConsumerGrace      time.Duration
	RestartGrace       time.Duration
	Draining           bool
	Shards             uint8 // 1 to MaxQueueShards
	GroupRequired      bool
	OnDeadline         OnDeadline
	DeadAfter          time.Duration // 0: submissions have no dead_deadline unless they say so
	GroupMustExist     bool
	MaxWaitingChunks   int64  // 0: any number
	MaxOpenSubmissions int64  // 0: any number
	MaxOpenBytes       int64  // 0: any number
	GroupsPerShard     int64  // that make a shard full; 0: none is
	SpareGroups        int64  // 0: no shards are prepared ahead
	DrainingShards     string // their numbers, such as "2,3"; "": none
	MaxShards          uint8  // up to which shards are prepared ahead; 0: none are
}

// OnDeadline says what happens to the unfinished chunks of a submission when its dead_deadline passes.
type OnDeadline uint8

// SkipThem: they are skipped, and the submission expires. DeadLetterThem: they become dead letters.
const (
	SkipThem OnDeadline = iota
	DeadLetterThem
)

var onDeadlines = [...]string{"skip", "dead_letter"}

func (d OnDeadline) String() string { return onDeadlines[d] }

// Requeue says where a chunk is requeued after a failed attempt.
type Requeue uint8

// Head: at its natural place, as the strategy sees it. Tail: behind all chunks that were ready when it came back, whatever the strategy.
const (
	Head Requeue = iota
	Tail
)

var requeues = [...]string{"head", "tail"}

func (r Requeue) String() string { return requeues[r] }

// Durability is the promise of an answer.
type Durability uint8

// Full syncs the disk before every answer; Relaxed answers before the sync, so a power cut (not a kill -9) may take back
// the last moments.
const (
	Full Durability = iota
	Relaxed
)

var durabilities = [...]string{"full", "relaxed"}

func (d Durability) String() string { return durabilities[d] }

// Stats are a queue's numbers, from maintained counters only: reading them costs the same at any backlog. Those beside the API's are
// for metrics.
type Stats struct {
	api.Stats
	// chunks that became dead letters because their content could not be read, since the server started
	DamagedTotal uint64
	// dead letters given up because they were older than DeadRetention, since the server started
	AgedTotal                      uint64
	ConsumersAway                  uint64                   // whose streams broke, and that may still come back
	RulesActive                    [RuleActions]uint64      // by action
	EndedAs                        [SubmissionStates]uint64 // SubmissionsEndedTotal by state
	BulkTotal                      BulkCounts               // of bulk operations but dry runs, since the server started
	OperationsWaiting              uint64                   // journal operations that are not committed yet
	Schedules                      uint64
	Ticks                          ScheduleCounts // of all schedules, since the server started
	NextTick                       Time           // when the first schedule that may emit is due, or was; 0: none
	InsertsRefused                 uint64         // because too many submissions are open
	Keys, KeysMost                 uint64         // idempotency keys that are known, and how many may be
	Unsaved, UnsavedMost           uint64         // bytes of contents and outputs that wait in memory for a checkpoint, and how many may
	KeysRefused                    uint64         // inserts that found no room for their key
	UniqueKeys                     uint64         // unique keys that are held
	UniqueKept                     uint64         // inserts that were answered with the submission that holds their unique key
	UniqueReplaced                 uint64         // inserts that replaced it
	UniqueRefused                  uint64         // inserts that found no room for it
	Unreported                     uint64         // progress and notes of consumers that found no room
	Rates                          RateStats      // of MaxRate
	ViewBytes, QuestionViewBytes   uint64         // of the standing views, and of those that only questions made, as of the last second
	Paced, Unpaced                 uint64         // values at their limits: with a pace of their own in forecasts, without
	ViewsRefused, QuestionsRefused uint64         // reserves and questions for want of memory for views, in all
}

// RateStats is how near a queue is to the bounds of its rates.
type RateStats struct {
	Known     uint64 // rates
	Values    uint64 // values that wait for one of them, or owe it something
	Refused   uint64 // strategies that found no room for their rates
	Forgotten uint64 // values without submissions that rates forgot, because there were too many
}
