package api

// Queue is a queue with its settings; the answer of GET and PUT /v1/queues/{queue}.
type Queue struct {
	Name      string        `json:"name"`       // Name: 1 to 64 letters, digits, '_', '-' and '.'
	Settings  QueueSettings `json:"settings"`   // All settings
	CreatedAt Time          `json:"created_at"` // Time when it was created

	// Sentences about settings that have no effect because of other settings
	Warnings []string `json:"warnings,omitempty"`

	// In a list: the sentence of its diagnosis. Absent for a tenant's token, and where the node that serves the queue
	// does not answer within two seconds
	Sentence string `json:"sentence,omitempty"`
	// In a list, with the sentence: its numbers now
	Now *QueueNow `json:"now,omitempty"`

	// Why it is out of service while other queues work; absent: it works
	Quarantined *Quarantined `json:"quarantined,omitempty"`
}

// QueueNow is how a queue of a list stands, as of the last second.
type QueueNow struct {
	Waiting       uint64  `json:"waiting"`         // Chunks that are not in flight: ready, due later, or held by rules
	Reserved      uint64  `json:"reserved"`        // Chunks held by consumers
	DeadLetters   uint64  `json:"dead_letters"`    // Dead chunks that can be redriven
	DonePerSecond float64 `json:"done_per_second"` // Chunks completed in the last second
	// Chunks completed per second over the last ten minutes, a point in 15 s, the oldest first; fewer after a start
	DoneRates []float64 `json:"done_rates"`
	// At most 5 sentences about trouble that needs an operator: no consumer asks for work, a value at its limit does
	// not move, the disk is full
	Alarms []string `json:"alarms"`
}

// Quarantined says why a queue does not serve while the others do: its files are damaged or missing. Each start of the server tries
// it again.
type Quarantined struct {
	Reason string `json:"reason"` // The faulty file, its fault and the remedy
	Since  Time   `json:"since"`  // First start at which the server could not open it; each start tries again
}

// The values of QueueSettings.Durability.
const (
	DurabilityFull    = "full"
	DurabilityRelaxed = "relaxed"
)

// QueueSettings is a queue's whole configuration.
type QueueSettings struct {
	Durability           string  `json:"durability"` // full or relaxed
	MaxAttempts          uint16  `json:"max_attempts"`
	MaxExpiries          uint8   `json:"max_expiries"`
	OnExhausted          string  `json:"on_exhausted"`
	ReservationTimeoutMS int64   `json:"reservation_timeout_ms"`
	MaxReservationMS     int64   `json:"max_reservation_ms"`
	RetryBackoff         Backoff `json:"retry_backoff"`
	ExpiryBackoff        Backoff `json:"expiry_backoff"`
	RetentionSeconds     int64   `json:"retention_seconds"`
	// How long the server keeps dead letters; 0: until they are redriven, forwarded or deleted
	DeadRetentionSeconds int64  `json:"dead_retention_seconds"`
	DeadLetterQueue      string `json:"dead_letter_queue,omitempty"` // The queue to which dead letters go; "": they stay
	// How long an attached consumer may be away before it loses its chunks
	ConsumerGraceMS int64 `json:"consumer_grace_ms"`
	// How long after a start the queue hands out no chunk that a limit counts
	RestartGraceMS int64 `json:"restart_grace_ms"`
	Draining       bool  `json:"draining"` // The queue refuses inserts
	// Share of the consumers' slots, 0 to 1, for chunks whose deadline passed, while there is other work
	SuspectShare float64 `json:"suspect_share"`
	Requeue      string  `json:"requeue"` // head or tail
	// How many shards the queue divides its groups between
	Shards        uint8 `json:"shards" limit:"1..MaxQueueShards"`
	GroupRequired bool  `json:"group_required"` // The queue refuses submissions without a group
	// Time from the insert, or from run_at, to the dead_deadline of a submission that names none; 0: none
	DeadAfterMS int64 `json:"dead_after_ms"`
	// How unfinished chunks end at the dead_deadline of their submission: skip or dead_letter
	OnDeadline string `json:"on_deadline"`
	// The queue refuses a submission if no one has created its group; otherwise the submission creates it
	GroupMustExist bool `json:"group_must_exist"`
	// Most chunks that may wait, without those that wait for a retry; 0: any number
	MaxWaitingChunks int64 `json:"max_waiting_chunks"`
	// Most submissions that may be open; 0: any number
	MaxOpenSubmissions int64 `json:"max_open_submissions"`
	// Most bytes of contents and attachments of open submissions; 0: any number
	MaxOpenBytes int64 `json:"max_open_bytes"`
	// Groups that fill a shard, so that new groups go to others; 0: any number
	GroupsPerShard int64 `json:"groups_per_shard"`
	// New groups for which open shards should have room; with less, the server prepares another shard. 0: it prepares none
	SpareGroups int64 `json:"spare_groups"`
	MaxShards   uint8 `json:"max_shards" limit:"0..MaxQueueShards"` // Up to how many shards the server prepares by itself
	// Shards that get no new groups, and whose groups move to others, such as 2,3
	DrainingShards string `json:"draining_shards,omitempty"`
}

// The values of Backoff.Kind and Backoff.Jitter. An absent field means the first.
const (
	BackoffExponential = "exponential"
	BackoffLinear      = "linear"
	BackoffFixed       = "fixed"
	BackoffList        = "list"
	JitterFull         = "full"
	JitterEqual        = "equal"
	JitterNone         = "none"
)

// Backoff is the delay after the n-th attempt, by its kind, shortened by its jitter.
type Backoff struct {
	// exponential (default, absent in answers): base_ms * factor^(n-1). linear: base_ms * n. fixed: base_ms. list: the n-th of delays_ms
	Kind   string `json:"kind,omitempty" names:"backoffs"`
	BaseMS int64  `json:"base_ms" required:"false"` // Delay after the first attempt; not for a list
	// Growth of an exponential delay per attempt, 1 or more; 0 or absent: 2
	Factor float64 `json:"factor" limit:"0..100" required:"false"`
	CapMS  int64   `json:"cap_ms" required:"false"` // Longest delay of an exponential or linear back-off; 0 or absent: 30 days
	// Delays of a list, 0 to 30 days each; attempts after them wait as long as the last one
	DelaysMS []int64 `json:"delays_ms,omitempty" limit:"..MaxDelays"`
	// full (default, absent in answers): drawn between 0 and the delay. equal: between half of it and all. none: the delay
	Jitter string `json:"jitter,omitempty" names:"jitters"`
}

// PutQueueRequest is the body of PUT /v1/queues/{queue}. It replaces all settings: a setting that is left out gets its
// default, except the number of shards, which stays.
type PutQueueRequest struct {
	Settings QueueSettingsInput `json:"settings,omitzero"` // Settings; the others get their defaults, but shards stays
}

// ChangeQueueRequest is the body of PATCH /v1/queues/{queue}. A setting that is left out stays as it is.
type ChangeQueueRequest struct {
	Settings QueueSettingsInput `json:"settings,omitzero"` // Settings to change; the others stay
}

// The values of Shard.State.
const (
	ShardPreparing = "preparing"
	ShardOpen      = "open"
	ShardFull      = "full"
	ShardDraining  = "draining"
	ShardOffline   = "offline"
)

// Shard is one shard of a queue.
type Shard struct {
	Shard int    `json:"shard"` // Number of the shard, from 1
	Queue string `json:"queue"` // Name of this shard alone, to use instead of a queue's name
	// preparing: the server is making it; open; full: new groups go to other shards; draining: it refuses inserts; offline: it does not
	// serve
	State string `json:"state"`
	// Why the shard is offline
	Reason string `json:"reason,omitempty"`
	// In a cluster: the name of the node that serves it, or did so last; absent: no node does
	Owner           string `json:"owner,omitempty"`
	Groups          uint64 `json:"groups"`           // Groups that the shard has
	Ready           uint64 `json:"ready"`            // Chunks that can be reserved now
	Reserved        uint64 `json:"reserved"`         // Chunks held by consumers
	SubmissionsOpen uint64 `json:"submissions_open"` // Submissions that have not ended
	// Set while the shard does not serve: ready, reserved and submissions_open are its last known numbers, from this time. If it does not
	// serve and this is absent, no one knows its numbers, and they are 0
	LastKnownAt Time `json:"last_known_at,omitzero"`
}

// Group is a group of submissions, which are all in one shard of the queue.
type Group struct {
	Group       string      `json:"group"`                 // Name of the group
	Shard       int         `json:"shard"`                 // Number of the shard that has it
	MovingTo    int         `json:"moving_to,omitempty"`   // Number of the shard to which it moves when it has no open submissions
	Waiting     uint64      `json:"waiting"`               // Chunks that no consumer has, without those that wait for a retry
	InFlight    uint64      `json:"in_flight"`             // Chunks held by consumers
	Submissions uint64      `json:"submissions"`           // Open submissions
	Description string      `json:"description,omitempty"` // For people
	Limits      GroupLimits `json:"limits,omitzero"`       // Its limits
	ETag        string      `json:"etag,omitempty"`        // Id of what is set, for If-Match; absent if no one created the group
	ChangedAt   Time        `json:"changed_at,omitzero"`   // When it was created or changed
}

// GroupLimits limit the open work of a group, or of a value of a meta key. The server refuses an insert that would exceed one of
// them, with limit_reached.
type GroupLimits struct {
	// Most chunks that no consumer has, without those that wait for a retry; null: any number
	Waiting     *uint64 `json:"waiting,omitempty" limit:"1..MaxGroupLimit"`
	Submissions *uint64 `json:"submissions,omitempty" limit:"1..MaxGroupLimit"` // Most open submissions; null: any number
	// Most bytes of contents and attachments of open submissions; null: any number
	Bytes *uint64 `json:"bytes,omitempty" limit:"1..MaxGroupLimit"`
}

// MoveGroupRequest is the body of POST /v1/queues/{queue}/groups/{group}/move.
type MoveGroupRequest struct {
	Shard uint8 `json:"shard" limit:"1..MaxQueueShards"` // Number of the shard to which the group moves; the one that has it: it stays
}

// PutGroupRequest is the body of PUT /v1/queues/{queue}/groups/{group}. It replaces all that is set.
type PutGroupRequest struct {
	Description string      `json:"description,omitempty" limit:"..MaxGroupDescription"` // For people
	Limits      GroupLimits `json:"limits,omitzero"`                                     // Its limits
}

// MoveRequest is the body of POST /v1/queues/{queue}/move.
type MoveRequest struct {
	Node  string `json:"node"`                                      // The name of the node that is to serve the queue
	Shard *uint8 `json:"shard,omitempty" limit:"1..MaxQueueShards"` // Only this shard of the queue; absent: all
}

// Moved is the answer to a MoveRequest: the node that serves the queue now.
type Moved struct {
	Queue string `json:"queue"` // The queue's name
	Node  string `json:"node"`  // The name of the node that serves it now
}

// QueueSettingsInput is QueueSettings as a request: nil means the default, or, in a change, what it is.
type QueueSettingsInput struct {
	Durability           *string  `json:"durability,omitempty"`
	MaxAttempts          *uint16  `json:"max_attempts,omitempty"`
	MaxExpiries          *uint8   `json:"max_expiries,omitempty"`
	OnExhausted          *string  `json:"on_exhausted,omitempty"`
	ReservationTimeoutMS *int64   `json:"reservation_timeout_ms,omitempty"`
	MaxReservationMS     *int64   `json:"max_reservation_ms,omitempty"`
	RetryBackoff         *Backoff `json:"retry_backoff,omitempty"`
	ExpiryBackoff        *Backoff `json:"expiry_backoff,omitempty"`
	RetentionSeconds     *int64   `json:"retention_seconds,omitempty"`
	DeadRetentionSeconds *int64   `json:"dead_retention_seconds,omitempty"`
	DeadLetterQueue      *string  `json:"dead_letter_queue,omitempty"`
	ConsumerGraceMS      *int64   `json:"consumer_grace_ms,omitempty"`
	RestartGraceMS       *int64   `json:"restart_grace_ms,omitempty"`
	Draining             *bool    `json:"draining,omitempty"`
	SuspectShare         *float64 `json:"suspect_share,omitempty"`
	Requeue              *string  `json:"requeue,omitempty"`
	Shards               *uint8   `json:"shards,omitempty" limit:"1..MaxQueueShards"`
	GroupRequired        *bool    `json:"group_required,omitempty"`
	DeadAfterMS          *int64   `json:"dead_after_ms,omitempty"`
	OnDeadline           *string  `json:"on_deadline,omitempty"`
	GroupMustExist       *bool    `json:"group_must_exist,omitempty"`
	MaxWaitingChunks     *int64   `json:"max_waiting_chunks,omitempty"`
	MaxOpenSubmissions   *int64   `json:"max_open_submissions,omitempty"`
	MaxOpenBytes         *int64   `json:"max_open_bytes,omitempty"`
	GroupsPerShard       *int64   `json:"groups_per_shard,omitempty"`
	SpareGroups          *int64   `json:"spare_groups,omitempty"`
	MaxShards            *uint8   `json:"max_shards,omitempty" limit:"0..MaxQueueShards"`
	DrainingShards       *string  `json:"draining_shards,omitempty"`
}

// Stats are a queue's numbers, flat so that a scaler can read one by its path. Totals count from the server's start.
type Stats struct {
	Ready    uint64 `json:"ready"`    // Chunks that can be reserved now
	Waiting  uint64 `json:"waiting"`  // Chunks that wait for a retry or for run_at
	Retrying uint64 `json:"retrying"` // The waiting chunks that wait for another attempt
	Reserved uint64 `json:"reserved"` // Chunks held by consumers
	Paused   uint64 `json:"paused"`   // Chunks that pause rules hold back
	Blocked  uint64 `json:"blocked"`  // Chunks that block rules hold back
	Done     uint64 `json:"done"`     // Completed chunks of open submissions
	Skipped  uint64 `json:"skipped"`  // Skipped chunks of open submissions
	Dead     uint64 `json:"dead"`     // Dead chunks of open submissions
	// Dead chunks that can be redriven, including those of submissions that completed with dead ones
	DeadLetters      uint64 `json:"dead_letters"`
	Outgoing         uint64 `json:"outgoing"`          // Dead letters that are being forwarded
	OperationsReady  uint64 `json:"operations_ready"`  // Operations of the ready chunks
	SubmissionsOpen  uint64 `json:"submissions_open"`  // Submissions that have not ended
	ConsumersWaiting uint64 `json:"consumers_waiting"` // Reserve calls that wait for work
	// Age of the oldest submission with a ready chunk; 0 when there is none
	OldestReadySeconds float64 `json:"oldest_ready_seconds"`
	InsertedTotal      uint64  `json:"inserted_total"`  // Chunks inserted
	ReservedTotal      uint64  `json:"reserved_total"`  // Chunks reserved
	DoneTotal          uint64  `json:"done_total"`      // Chunks completed
	FailedTotal        uint64  `json:"failed_total"`    // Attempts that failed
	ExpiredTotal       uint64  `json:"expired_total"`   // Deadlines that passed
	ReleasedTotal      uint64  `json:"released_total"`  // Chunks given back without work
	ForwardedTotal     uint64  `json:"forwarded_total"` // Dead letters forwarded to another queue
	// Submissions received as dead letters of another queue
	ArrivedTotal          uint64 `json:"arrived_total"`
	BulkOperationsRunning uint64 `json:"bulk_operations_running"` // Running bulk operations
	// Reservations that ended because their consumer was lost
	LostTotal uint64 `json:"lost_total"`
	// Reservations taken from attached consumers, which were told
	RevokedTotal      uint64 `json:"revoked_total"`
	ConsumersAttached uint64 `json:"consumers_attached"` // Consumers with an open stream
	// 1: the server refuses inserts because of the queue's settings
	Draining                 uint8  `json:"draining" limit:"0..1"`
	Empty                    uint8  `json:"empty" limit:"0..1"`         // 1: no submission is open
	SubmissionsInsertedTotal uint64 `json:"submissions_inserted_total"` // Submissions inserted
	SubmissionsEndedTotal    uint64 `json:"submissions_ended_total"`    // Submissions that ended, in any way
	CommitsTotal             uint64 `json:"commits_total"`              // Group commits
	CommitBytesTotal         uint64 `json:"commit_bytes_total"`         // Bytes of all group commits
	JournalBytes             uint64 `json:"journal_bytes"`              // Size of the journal on disk
	StoreBytes               uint64 `json:"store_bytes"`                // Size of the store on disk
	// 1: the server refuses inserts because the disk is full
	DiskFull uint8 `json:"disk_full" limit:"0..1"`
	// 1: the server refuses inserts because it uses as much memory as its option memory-limit allows
	MemoryFull uint8 `json:"memory_full" limit:"0..1"`
	// Time when all open work is done; null if nothing moves, and until the server knows the pace
	Forecast *Forecast `json:"forecast"`
}

// Forecast is when work is done. The chunks of each value at a limit (of an operator or of all strategies in use),
// those that each rule holds, and all others move at paces of their own. The forecast is the latest of their ends. A
// queue knows the paces of 256 values, and of the 256 rules that end last.
type Forecast struct {
	P50 Time `json:"p50"` // The end at the median pace of the last ten minutes
	P90 Time `json:"p90"` // The end at the slow paces of that time
	// Earliest end, because of a limit or a rule, however many consumers there are
	NotBefore Time `json:"not_before,omitzero"`
	Moving    bool `json:"moving"` // false: a part of the work is stuck, and the times are those of the rest
}

// Version is the answer of GET /version.
type Version struct {
	Version  string `json:"version"`            // The release
	Revision string `json:"revision,omitempty"` // Revision of the source
	Go       string `json:"go"`                 // Version of Go
}

// ServerOptions is the answer of GET /v1/config: the options that the server runs with.
type ServerOptions struct {
	Options []ServerOption `json:"options"` // Every option, in the order of the server's help
}

// ServerOption is one option of the server with the value that is in effect.
type ServerOption struct {
	// Name in a configuration file; the flag has '-' instead of '_', and the environment variable is QUERN_ with the
	// name in capitals
	Option string `json:"option"`
	Value  string `json:"value"` // Value in effect
	// Source of the value: default, file PATH, environment, flag, or command if a command such as dev sets it
	Source  string `json:"source"`
	Default string `json:"default"` // Default value
	Limit   string `json:"limit"`   // Allowed values, in words
	Help    string `json:"help"`    // Purpose
}

// Readiness is the answer of GET /readyz?verbose.
type Readiness struct {
	Ready  bool    `json:"ready"`  // Always true: a server that is not ready answers 503
	Checks []Check `json:"checks"` // Every check, with ?verbose
}

// Check is one named part of Readiness.
type Check struct {
	Name   string `json:"name"`             // Name of the check
	OK     bool   `json:"ok"`               // Whether the part works
	Detail string `json:"detail,omitempty"` // State of the checked part
}

// Durations tell how long chunks took lately.
type Durations struct {
	// Start of the counted time: half an hour to an hour ago, or the start of the server or of the measurement
	Since Time           `json:"since"`
	Wait  DurationCounts `json:"wait"` // From the insert, or from run_at, to the first reservation
	Run   DurationCounts `json:"run"`  // From a reservation to its completion or failure
}

// DurationCounts are durations of one kind.
type DurationCounts struct {
	Count uint64 `json:"count"`  // Number of durations
	P50MS int64  `json:"p50_ms"` // Half of them were shorter, to within a tenth
	P95MS int64  `json:"p95_ms"` // 95 % of them were shorter, to within a tenth
	MaxMS int64  `json:"max_ms"` // The longest; of a value on a busy queue, the longest that was measured
	// Counts by duration, from the first bucket that is not empty to the last one
	Buckets []DurationBucket `json:"buckets" limit:"..MaxDurationBuckets"`
}

// DurationBucket counts durations from half of its bound up to its bound.
type DurationBucket struct {
	BelowMS int64  `json:"below_ms"` // Upper bound, a power of two; the first is 1
	Count   uint64 `json:"count"`    // Durations below it, and in no bucket before
}

// Node is a server of a cluster, as the node that answers sees it. A server that is alone is its only node.
type Node struct {
	Name    string      `json:"name"`    // The option node, or the name of the machine
	URL     string      `json:"url"`     // Where clients and other nodes reach it
	Since   Time        `json:"since"`   // Time of its start, by its own clock
	Leaving bool        `json:"leaving"` // Whether it is about to stop, and hands over its queues
	Queues  []NodeQueue `json:"queues"`  // The queues that it owns, by name
}

// NodeQueue is a queue that a node owns.
type NodeQueue struct {
	Queue string `json:"queue"` // Name of the queue
	Shard uint16 `json:"shard"` // Number of its shard, which is part of the ids of its submissions
	Epoch uint32 `json:"epoch"` // Number of the owner's claim; the next owner's is larger
	// How long the owner may serve without another heartbeat, in milliseconds: at most 4,500. Below 0, the lease has ended, and another
	// node may take the queue over. null: the server is alone, and needs no lease
	LeaseMS *int64 `json:"lease_ms" nullable:"true"`
}

// MissingNode is a node of a cluster that did not answer for its queues, so that the answer lacks their contents.
type MissingNode struct {
	Node   string   `json:"node"`   // Name of the node. Empty: no node serves these queues at the moment
	Queues []string `json:"queues"` // Names of the queues
}

// MissingShard is a shard of a queue that did not answer, so that the answer about the whole queue lacks its contents.
type MissingShard struct {
	Shard  string `json:"shard"`  // Name of the shard, such as orders~2
	Code   string `json:"code"`   // Code of the problem with which it was refused
	Detail string `json:"detail"` // Why it does not answer
}

// Recount is the progress of a queue's recounts. A recount counts again all that the queue keeps as counters, a little
// at a time, while work goes on. Totals count from the server's start.
type Recount struct {
	EveryMS     int64   `json:"every_ms"`                // Time between two rounds; 0: never
	Rounds      uint64  `json:"rounds_total"`            // Rounds completed since the server's start
	LastRoundAt *Time   `json:"last_round_at,omitempty"` // Time of the last round; absent before the first
	Progress    float64 `json:"progress"`                // Progress of the current round, from 0 to 1
	// Submissions whose counters were compared with their chunks
	Submissions uint64 `json:"submissions_checked_total"`
	// Values of meta keys whose counters were compared with their submissions
	Values uint64 `json:"values_checked_total"`
	// Totals of the queue compared with its submissions
	QueueTotals uint64 `json:"queue_counters_checked_total"`
	// Comparisons that a round could not make; the next round tries again
	Skipped uint64 `json:"skipped_total"`
	// Totals that differed in one round; if they differ in the next one too, they are drifts
	Suspected uint64 `json:"suspected_total"`
	// Wrong counters; a number above 0 means a bug of the server
	Drifts    uint64         `json:"drifts_total"`
	ByCounter []RecountDrift `json:"drifts_by_counter"` // Wrong counters, by name
	// The latest wrong counter; absent if there was none
	Newest  *CounterDrift `json:"newest_drift,omitempty"`
	Stopped bool          `json:"stopped"` // Whether a bug of the server ended recounts until the next start
}

// RecountDrift is how often a counter was found to be wrong.
type RecountDrift struct {
	Scope   string `json:"scope" names:"scopes of counters"` // Object that the counter belongs to
	Counter string `json:"counter"`                          // Name of the counter
	Drifts  uint64 `json:"drifts_total"`                     // Number of times that it was wrong
}

// CounterDrift is a counter that was found to be wrong.
type CounterDrift struct {
	Scope      string     `json:"scope" names:"scopes of counters"` // Object that the counter belongs to
	Counter    string     `json:"counter"`                          // Name of the counter
	Submission string     `json:"submission,omitempty"`             // The submission, for the counter of a submission
	Key        string     `json:"meta_key,omitempty"`               // The meta key, for the counter of a value
	Value      *MetaValue `json:"value,omitempty"`                  // The value, for the counter of a value
	Kept       uint64     `json:"kept"`                             // Value of the counter
	// The true value, which the counter has now if the server corrected it
	Recounted uint64 `json:"recounted"`
	// Whether the server corrected it; if not, other data is damaged too, and a restart recounts everything
	Corrected bool `json:"corrected"`
	At        Time `json:"at"` // Time of the discovery
}
