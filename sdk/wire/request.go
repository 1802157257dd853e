package wire

import "github.com/quern-queue/quern/sdk/api"

// MaxDepth is how deep the arrays and objects of a document may nest.
const MaxDepth = 32

// MetaEntry is one key of a meta or context object, in the order of the document: Text, or Int when IsInt.
type MetaEntry struct {
	Key   []byte
	Text  []byte
	Int   int64
	IsInt bool
}

// InsertRequest is the body of an insert (api.NewSubmission). Times are milliseconds since 1970, 0 for none.
type InsertRequest struct {
	Meta               []MetaEntry
	Priority           int64
	Count              uint32
	Prefix             []byte   // nil: not given
	Template           []byte   // nil: not given
	Inline             [][]byte // nil: not given; no entry is nil
	Attachment         []byte   // nil: none
	OperationsPerChunk uint32
	RunAt              int64
	DeadDeadline       int64
	MaxAttempts        uint16
	OnExhausted        []byte
	MaxFailedChunks    uint32
	TimeoutMS          int64
	Group              []byte
	Trace              []byte       // nil: not given
	RetryBackoff       *api.Backoff // nil: not given
	HasUnique          bool
	Unique             Unique     // counts only with HasUnique
	After              *api.After // nil: not given
	IdempotencyKey     []byte     // nil: not given; only of a submission in an InsertManyRequest

	scan   scanner
	inline [][]byte // memory of Inline, kept when a request has none
}

// Unique is the unique key of an insert. Fields that were not given are nil.
type Unique struct{ Key, While, OnConflict []byte }

// InsertManyRequest is the body of an insert of many (api.InsertManyRequest). The submissions are raw JSON values, checked for syntax only:
// InsertRequest.DecodeNext reads each, so that one that is wrong spoils no other.
type InsertManyRequest struct {
	Atomic      bool
	Submissions [][]byte

	scan scanner
}

// ReserveRequest is the body of a reserve (api.ReserveRequest). Strategy is the raw JSON value, checked for syntax only;
// nil when there is none.
type ReserveRequest struct {
	Max       int
	Strategy  []byte
	Consumer  []byte
	WaitMS    int64
	TimeoutMS int64
	Context   []MetaEntry

	scan scanner
}

// CompleteItem is one item of a complete. Token is whatever string was sent; Output nil is none. Insert are raw JSON values, as in an
// InsertManyRequest.
type CompleteItem struct {
	Token  []byte
	Output []byte
	Insert [][]byte
}

// FailItem is one item of a fail.
type FailItem struct {
	Token         []byte
	Error         []byte
	Fatal         bool
	HasRetryAfter bool
	RetryAfterMS  int64
	RetryAt       int64 // milliseconds since the epoch; 0: none
}

// ExtendItem is one item of an extend.
type ExtendItem struct {
	Token       []byte
	TimeoutMS   int64
	HasProgress bool
	Progress    float64
	Note        []byte
}

// ReleaseItem is one item of a release.
type ReleaseItem struct {
	Token   []byte
	DelayMS int64
}

// CompleteRequest is the body of a complete.
type CompleteRequest struct {
	Items []CompleteItem

	scan scanner
}

// FailRequest is the body of a fail.
type FailRequest struct {
	Items []FailItem

	scan scanner
}

// ExtendRequest is the body of an extend.
type ExtendRequest struct {
	Items    []ExtendItem
	Consumer []byte // in whose name forgotten chunks are held again

	scan scanner
}

// ReleaseRequest is the body of a release.
type ReleaseRequest struct {
	Items []ReleaseItem

	scan scanner
}

// ExchangeRequest is the body of an exchange. Reserve counts only with HasReserve.
type ExchangeRequest struct {
	Complete   []CompleteItem
	Fail       []FailItem
	Extend     []ExtendItem
	HasReserve bool
	Reserve    ReserveRequest
	Consumer   []byte // as in ExtendRequest; empty: that of Reserve

	scan scanner // here rather than on the stack, where it does not stay: its readers of items are called indirectly
}
