package strategy

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/quern-queue/quern/engine/queue"
)

// Bounds of the window of a Plugin or Score block: how many candidates are scored at once.
const (
	MinWindow     = 16
	DefaultWindow = 256
	MaxWindow     = 4096
)

// DefaultExplore bounds starvation: one of that many emissions is the oldest remaining candidate, whatever its score.
const DefaultExplore = 16

// Scorers finds the scorers for Plugin and Score blocks. It is asked for every reserve, so that activating another version
// counts from the next one on; it must be fast and never block.
type Scorers interface {
	// Check says why a block cannot be used at all: a *queue.Error of CodeInvalid for a name or version that does not exist,
	// or a configuration that its version refuses. Otherwise resting says why no scorer works for it now; nil: one does.
	// Check starts the scorer that the block asks for, at the cost of the caller in ctx.
	Check(ctx context.Context, b *Scored) (resting *Unavailable, err error)

	// Scorer is the scorer of a block now. It is false if none may score: no version is active, or it is quarantined,
	// throttled, or its breaker is open. The branch yields nothing then.
	Scorer(b *Scored) (s Scorer, ready bool)

	// Dry is the same scorer, for a question: whatever its scores are, it changes neither breakers nor statistics, and its
	// use is not charged to the plugin. An error says why no scorer works for the block now. Its Score may wait for other
	// questions.
	Dry(b *Scored) (Scorer, error)
}

// Unavailable is the reason why no scorer works for a block for now, although its plugin and version exist.
type Unavailable struct {
	Detail   string // the rest of a sentence about the block
	Inactive bool   // no version of its plugin is active, which only an operator changes
}

func (u *Unavailable) Error() string { return "strategy: the block " + u.Detail }

// WarningOf is the warning of a block whose plugin, version or configuration does not exist or is not active. A stored
// strategy with such a block goes on with its next branch.
func WarningOf(err error) Warning {
	w := Warning{Kind: WarnUnusable, Pointer: "/strategy", Detail: "has a block of a plugin that cannot be used"}
	var known *queue.Error
	var resting *Unavailable
	switch {
	case errors.As(err, &resting) && resting.Inactive:
		w.Detail += ": " + resting.Detail
	case errors.As(err, &resting):
		w.Kind, w.Detail = WarnUnavailable, "has a block that is not scored now, and uses what follows it: "+resting.Detail
	case errors.As(err, &known):
		for _, p := range known.Problems {
			w.Detail += ": " + p.Pointer + " " + p.Detail
		}
	}
	return w
}

// Scorer scores windows of candidates. Many goroutines may use it.
type Scorer interface {
	// Reads are the columns that the scorer's windows must have, in order. They are always the same.
	Reads() []Column

	// Rows is how many candidates a window has if the block does not say, and how many it may have at most.
	Rows() (normal, most int)

	// Spread says that each pass takes one chunk of each candidate, rather than as many as are wanted of the best one.
	Spread() bool

	// Score fills in one score per row: larger ones go first, NaN skips the candidate. An error is a fault: the window
	// counts as not scored. It returns soon, whatever the plugin does.
	Score(ctx context.Context, w *Window, scores []float64) error
}

// Property is the property of a candidate that a column has.
type Property uint8

// The properties. A candidate is a submission together with the chunk of it that would be handed out next; attempts and
// index are that chunk's.
const (
	ID                 Property = iota // i64: the submission's id
	Index                              // u32: of the chunk
	Priority                           // i64
	Age                                // i64: milliseconds since the insert
	Attempts                           // u32: tries that ended
	MaxAttempts                        // u32
	Available                          // u32: chunks that can be handed out
	Total                              // u32: chunks in all
	Skipped                            // u32: windows in which it was passed over
	MetaInt                            // i64: the value of Key, absent where it is none or a string
	MetaString                         // string: likewise
	InFlight                           // u32: chunks in flight of all submissions with this one's value of Key
	InFlightSubmission                 // u32: chunks of it in flight
	// i64: how many chunks of the value of Key may be in flight at once, by the limits around and the operator's; -1: any
	LimitOf
	ContextInt    // i64, one row: of the reservation's context; absent where it has no such key or a string
	ContextString // string, one row: likewise
)

// Column is one property of the candidates of a window. Key is of those properties that are about one.
type Column struct {
	Property Property
	Key      string
}

// IsString says whether the column's values are ids of the window's dictionary rather than numbers.
func (c Column) IsString() bool { return c.Property == MetaString || c.Property == ContextString }

// IsCount says whether the column's values are counts, which need 32 bits.
func (c Column) IsCount() bool {
	switch c.Property {
	case Index, Attempts, MaxAttempts, Available, Total, Skipped, InFlight, InFlightSubmission:
		return true
	}
	return false
}

// Single says whether the column has one row, whatever the window's.
func (c Column) Single() bool { return c.Property == ContextInt || c.Property == ContextString }

// Values are the rows of a column: Counts, Words of a string column, or Numbers of the others. Present is nil where
// nothing is absent.
type Values struct {
	Numbers []int64
	Counts  []uint32
	Words   []uint32 // id k is Dictionary[k-1]; 0 is absent
	Present []bool
}

// Rows is how many there are.
func (v *Values) Rows() int { return max(len(v.Numbers), len(v.Counts), len(v.Words)) }

// Number is the value of a row of a column that is not of strings.
func (v *Values) Number(row int) int64 {
	if v.Counts != nil {
		return int64(v.Counts[row])
	}
	return v.Numbers[row]
}

// Window is a batch of candidates, in the order in which they would be handed out without a score. A scorer must
// not keep it.
type Window struct {
	Rows        int
	Columns     []Values // as Scorer.Reads has them
	Dictionary  []string // strings of the columns, each once
	Now         queue.Time
	Seed        uint64
	Want        int                  // chunks that are wanted
	Submissions []queue.SubmissionID // by row; only of candidates that someone asked to see
	Dry, Shadow bool

	// Sampler is set by a Scorer that wants to know which chunks are taken of this window; nil for most windows.
	Sampler Sampler
}

// Sampler gets the outcome of a window that a Scorer chose to look at closer.
type Sampler interface {
	// Taken has the scores of the window and how many chunks were taken of each row. It must be quick and keep neither.
	Taken(scores []float64, chunks []uint32)
}

// Scored is the demand of a Plugin or Score block: the candidates of its inner strategy go in the order of scores.
type Scored struct {
	Plugin     string          // its name; "" for an expression
	Version    string          // "" for the active one; otherwise a version or the first 8 or more digits of its sha256
	Config     json.RawMessage // canonical JSON object; nil: the activation's
	Expression *Expression     // of Score
	Window     int             // candidates at once, MinWindow to MaxWindow; 0: as the plugin says
	Explore    int             // every so manyth emission is the oldest candidate left, 1 to MaxExplore; 0: never
}

// MaxExplore is the largest bound on starvation that a Plugin or Score block may ask for.
const MaxExplore = 1024

// String names the scorer, without window and explore, as in
//
//	Plugin deadline-first@1.2.0 {"weight":3}
//	Score priority*10 - attempts*5
func (s *Scored) String() string {
	if s.Expression != nil {
		return "Score " + s.Expression.String()
	}
	text := "Plugin " + s.Plugin
	if s.Version != "" {
		text += "@" + s.Version
	}
	if s.Config != nil {
		text += " " + string(s.Config)
	}
	return text
}

// appendKey writes all of it, except the usual values.
func (s *Scored) appendKey(dst []byte) []byte {
	dst = append(dst, s.String()...)
	if s.Window != 0 {
		dst = strconv.AppendInt(append(dst, " window "...), int64(s.Window), 10)
	}
	if s.Explore != DefaultExplore {
		dst = strconv.AppendInt(append(dst, " explore "...), int64(s.Explore), 10)
	}
	return dst
}
