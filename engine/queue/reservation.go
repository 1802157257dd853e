package queue

import (
	"encoding/base64"
	"encoding/binary"
)

// Token is the fencing number of one reservation together with the chunk it is for. Epoch rises at every start and reload of the
// shard and Sequence with every reservation, so of two tokens for one chunk the larger (Epoch, Sequence) is the later holder. MAC lets a
// restarted server recognise a token it no longer remembers. Slot is the reservation's slot in the reserver's table, a hint that makes the
// common lookup one array access.
type Token struct {
	Submission SubmissionID
	Index      uint32
	Epoch      uint32
	Sequence   uint64 // 48 bits
	Slot       uint32
	MAC        uint64 // 48 bits
}

// TokenBytes is the size of a token in binary, TokenChars in text.
//
//	byte 0         8       12      16        22      26        32
//	    |submission| index | epoch | sequence | slot |   MAC    |   all big endian
const (
	TokenBytes = 32
	TokenChars = 43 // unpadded base64url of 32 bytes
)

// AppendText appends the token's text form: TokenChars characters of unpadded base64url.
func (t *Token) AppendText(dst []byte) []byte {
	var b [TokenBytes]byte
	binary.BigEndian.PutUint64(b[0:], uint64(t.Submission))
	binary.BigEndian.PutUint32(b[8:], t.Index)
	binary.BigEndian.PutUint32(b[12:], t.Epoch)
	put48(b[16:], t.Sequence)
	binary.BigEndian.PutUint32(b[22:], t.Slot)
	put48(b[26:], t.MAC)
	return base64.RawURLEncoding.AppendEncode(dst, b[:])
}

func (t Token) String() string { return string(t.AppendText(make([]byte, 0, TokenChars))) }

// ParseToken reads the text form. A token that parses may still be forged: only the shard can tell.
func ParseToken(text []byte) (Token, bool) {
	var b [TokenBytes]byte
	if len(text) != TokenChars {
		return Token{}, false
	}
	if n, err := strictBase64.Decode(b[:], text); err != nil || n != TokenBytes {
		return Token{}, false
	}
	return Token{
		Submission: SubmissionID(binary.BigEndian.Uint64(b[0:])),
		Index:      binary.BigEndian.Uint32(b[8:]),
		Epoch:      binary.BigEndian.Uint32(b[12:]),
		Sequence:   get48(b[16:]),
		Slot:       binary.BigEndian.Uint32(b[22:]),
		MAC:        get48(b[26:]),
	}, true
}

var strictBase64 = base64.RawURLEncoding.Strict()

func put48(b []byte, n uint64) {
	binary.BigEndian.PutUint16(b, uint16(n>>32))
	binary.BigEndian.PutUint32(b[2:], uint32(n))
}

func get48(b []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(b))<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
}

// Reservation is a chunk in a consumer's hands, with everything that the consumer needs to work on it.
type Reservation struct {
	Token      Token
	Attempt    uint16 // 1 for the first try
	Deadline   Time
	Ready      Time // when its wait for this attempt began
	Content    Content
	Meta       Meta
	Priority   int64
	Attachment []byte
	Trace      string
}

// Bytes is about how many bytes of an answer it takes.
func (r *Reservation) Bytes() int { return r.Meta.Bytes() + len(r.Content.Bytes) + len(r.Attachment) }

// Content is what a chunk carries. With IsKey, Bytes is the text of a key in object storage (the submission's prefix and
// the index); otherwise it is the content itself (inline, or made from the template).
type Content struct {
	Bytes []byte
	IsKey bool
}

// EmptyReason says why a reserve came back with nothing.
type EmptyReason uint8

// The reasons. NotYetDue: all work waits for a time. AllLimited and Paused come with limits and rules. AllSkipped: there is work, but the
// scorer gave none of it a score now. RestartGrace: all work falls under a limit, and the queue's restart grace is not over. RateLimited: a
// rate holds all work back until RetryAfter. ConsumerQuiet and ConsumerDraining: an operator keeps work from this consumer, or asked it to
// leave.
const (
	NotEmpty EmptyReason = iota
	Nothing
	AllLimited
	Paused
	NotYetDue
	AllSkipped
	RestartGrace
	ConsumerQuiet
	ConsumerDraining
	RateLimited

	EmptyReasons = int(RateLimited) + 1 // how many values there are, NotEmpty among them
)

var emptyReasons = [EmptyReasons]string{"", "nothing", "all_limited", "paused", "not_yet_due", "all_skipped",
	"restart_grace", "quiet", "draining", "rate_limited"}

func (r EmptyReason) String() string { return emptyReasons[r] }

// Outcome is the answer for one item of a complete, fail, extend or release.
type Outcome uint8

// The outcomes. OutcomeInvalid is for an item that is wrong in itself (a negative delay, an output too large), OutcomeRefused for a
// completion whose submissions cannot be inserted.
const (
	OutcomeOK      Outcome = iota
	OutcomeAlready         // this very token did it before: a replay after a lost answer
	OutcomeLost            // another consumer holds or finished the chunk: this consumer's work does not count
	OutcomeGone            // the submission ended; there is nothing left to do
	OutcomeUnknown         // no such chunk, or not a token of this server
	OutcomeInvalid
	OutcomeRefused // nothing was done: the chunk is held as before
)

var outcomes = [...]string{"ok", "already", "lost", "gone", "unknown", "invalid", "refused"}

func (o Outcome) String() string { return outcomes[o] }

// Result is the answer for one item. Code and Detail are empty for OutcomeOK and OutcomeAlready.
type Result struct {
	Outcome  Outcome
	Code     string // "reservation_lost", "submission_ended", "unknown_token", ...
	Detail   string
	Deadline Time // after an extend
}

// CompleteItem, FailItem, ExtendItem and ReleaseItem name a reservation, and report its outcome or ask for it to go on.
type CompleteItem struct {
	Token  Token
	Output []byte      // nil: none
	Insert []Insertion // inserted in the commit of the completion; when the outcome is OutcomeOK, each has its submission
}

// FailItem reports a try that did not succeed.
type FailItem struct {
	Token      Token
	Error      string
	Fatal      bool // no further try
	HasRetry   bool // RetryAfter is the consumer's own wish; otherwise the queue's back-off decides
	RetryAfter Time // milliseconds from now
	RetryAt    Time // instead of RetryAfter, when it is not 0: the moment
}

// Retry is the time at which the consumer wants the chunk offered again, if it gives one.
func (i *FailItem) Retry(now Time) (at Time, asked bool) {
	switch {
	case i.RetryAt != 0:
		return i.RetryAt, true
	case i.HasRetry:
		return now + i.RetryAfter, true
	}
	return 0, false
}

// ExtendItem asks for a new deadline, Timeout milliseconds from now (0: the queue's default). Consumer holds the chunk from now on if no
// consumer did, as after a restart; "": unknown.
type ExtendItem struct {
	Token    Token
	Timeout  Time
	Consumer string
	Reported Reported
}

// Reported is a consumer's report on a chunk that it holds. It is only in memory, and only for people: no decision uses it.
type Reported struct {
	Progress    float64 // 0 to 1
	HasProgress bool
	Note        string // of MaxNoteBytes at most; "": none
}

// Empty says that the report is empty.
func (t Reported) Empty() bool { return !t.HasProgress && t.Note == "" }

// ReleaseItem gives a chunk back unworked; no attempt is counted. It is offered again after Delay milliseconds.
type ReleaseItem struct {
	Token Token
	Delay Time
}
