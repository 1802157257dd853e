package queue

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// MaxDelays bounds a list of delays. The attempts after it wait as long as its last one.
const MaxDelays = api.MaxDelays

// BackoffKind says how the delay grows with the attempts.
type BackoffKind uint8

// The kinds. They stand in the journal as numbers: never renumber, only append.
const (
	Exponential BackoffKind = iota // Base*Factor^(n-1), at most Cap
	Linear                         // Base*n, at most Cap
	Fixed                          // Base
	Listed                         // the n-th of Delays, or the last
)

var backoffKinds = [...]string{api.BackoffExponential, api.BackoffLinear, api.BackoffFixed, api.BackoffList}

// Jitter says how chance shortens a delay, so that chunks that failed together do not come back together.
type Jitter uint8

// The jitters of Brooker, "Exponential Backoff And Jitter", AWS 2015, and none. They stand in the journal as numbers.
const (
	FullJitter  Jitter = iota // a uniform draw from 0 to the delay
	EqualJitter               // from half of the delay to all of it
	NoJitter
)

var jitters = [...]string{api.JitterFull, api.JitterEqual, api.JitterNone}

// Backoff is the delay after the n-th attempt. It is a value that can be compared, as settings are.
type Backoff struct {
	Kind      BackoffKind
	Jitter    Jitter
	Base, Cap time.Duration
	Factor    float64
	Delays    Delays
}

// Delays is a list of at most MaxDelays delays, in milliseconds.
type Delays struct {
	n  uint8
	ms [MaxDelays]uint32
}

// NewDelays makes a list of the first MaxDelays delays.
func NewDelays(ms []uint32) (d Delays) {
	d.n = uint8(copy(d.ms[:], ms))
	return d
}

// MS is the list in milliseconds.
func (d *Delays) MS() []uint32 { return d.ms[:d.n] }

// The fields of a Backoff in a request.
var (
	BackoffBase   = milliseconds(0, MaxReservation, "at once")
	BackoffFactor = numbers(1, 100)
	BackoffCap    = milliseconds(0, 30*MaxReservation, "none")
	BackoffDelay  = milliseconds(0, 30*MaxReservation, "at once")
)

// backoffRange is the range of the number at a pointer into a Backoff; false: there is no number.
func backoffRange(pointer string) (Range, bool) {
	name, _, _ := strings.Cut(pointer, "/")
	r, ok := map[string]Range{"base_ms": BackoffBase, "factor": BackoffFactor, "cap_ms": BackoffCap, "delays_ms": BackoffDelay}[name]
	return r, ok
}

// Bounds are the shortest and the longest delay after this many attempts.
func (b *Backoff) Bounds(attempts int) (least, most time.Duration) {
	n, delay := float64(max(attempts, 1)), float64(b.Base)
	switch b.Kind {
	case Exponential:
		delay *= math.Pow(max(b.Factor, 1), n-1)
	case Linear:
		delay *= n
	case Listed:
		list := b.Delays.MS()
		if len(list) == 0 {
			return 0, 0
		}
		delay = float64(list[min(max(attempts, 1), len(list))-1]) * float64(time.Millisecond)
	}
	// The longest delay that is allowed, for a Backoff without a cap or with one that is not checked yet, before it is rounded to a whole
	// number.
	limit := time.Duration(BackoffCap.Most) * time.Millisecond
	if b.Cap > 0 {
		limit = b.Cap
	}
	most = time.Duration(min(delay, float64(limit)))
	switch b.Jitter {
	case EqualJitter:
		return most / 2, most
	case NoJitter:
		return most, most
	}
	return 0, most
}

// NewBackoff reads the back-off of a request. A factor that is left out is 2.
func NewBackoff(pointer string, in api.Backoff) (out Backoff, err error) {
	kind, known := parseName[BackoffKind](backoffKinds[:], in.Kind)
	if !known && in.Kind != "" {
		return out, Invalid(pointer+"/kind", "must be %s", oneOf(backoffKinds[:]))
	}
	jitter, known := parseName[Jitter](jitters[:], in.Jitter)
	if !known && in.Jitter != "" {
		return out, Invalid(pointer+"/jitter", "must be %s", oneOf(jitters[:]))
	}
	out = Backoff{Kind: kind, Jitter: jitter, Factor: in.Factor}
	if kind == Exponential && in.BaseMS > 0 && in.Factor == 0 {
		out.Factor = 2
	}
	if out.Base, err = BackoffBase.Duration(pointer+"/base_ms", in.BaseMS); err != nil {
		return out, err
	}
	if out.Cap, err = BackoffCap.Duration(pointer+"/cap_ms", in.CapMS); err != nil {
		return out, err
	}
	if len(in.DelaysMS) > MaxDelays {
		return out, Invalid(pointer+"/delays_ms", "has %d entries; 1 to %d are allowed", len(in.DelaysMS), MaxDelays)
	}
	list := make([]uint32, len(in.DelaysMS))
	for i, ms := range in.DelaysMS {
		if !BackoffDelay.Holds(float64(ms)) {
			return out, Invalid(pointer+"/delays_ms/"+strconv.Itoa(i), "is %d; %s are allowed", ms, BackoffDelay)
		}
		list[i] = uint32(ms)
	}
	out.Delays = NewDelays(list)
	return out, nil
}

// API is the back-off as answers and files have it: a kind or a jitter that is the default is left out.
func (b Backoff) API() api.Backoff {
	out := api.Backoff{BaseMS: b.Base.Milliseconds(), Factor: b.Factor, CapMS: b.Cap.Milliseconds()}
	if b.Kind != Exponential {
		out.Kind = backoffKinds[b.Kind]
	}
	if b.Jitter != FullJitter {
		out.Jitter = jitters[b.Jitter]
	}
	for _, ms := range b.Delays.MS() {
		out.DelaysMS = append(out.DelaysMS, int64(ms))
	}
	return out
}

// MarshalJSON writes the back-off as files have it, which is as in answers.
func (b Backoff) MarshalJSON() ([]byte, error) { return json.Marshal(b.API()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Backoff) UnmarshalJSON(text []byte) error {
	var in api.Backoff
	err := json.Unmarshal(text, &in)
	if err == nil {
		*b, err = NewBackoff("", in)
		b.Factor = in.Factor // a row that has none means none
	}
	return err
}

// valid checks the numbers, and that the kind has all of its fields and none of another's.
func (b Backoff) valid(pointer string) error {
	if int(b.Kind) >= len(backoffKinds) {
		return Invalid(pointer+"/kind", "must be %s", oneOf(backoffKinds[:]))
	}
	if int(b.Jitter) >= len(jitters) {
		return Invalid(pointer+"/jitter", "must be %s", oneOf(jitters[:]))
	}
	for _, part := range []struct {
		name  string
		given bool
		goes  []BackoffKind
	}{
		{"/base_ms", b.Base != 0, []BackoffKind{Exponential, Linear, Fixed}},
		{"/factor", b.Factor != 0, []BackoffKind{Exponential}},
		{"/cap_ms", b.Cap != 0, []BackoffKind{Exponential, Linear}},
		{"/delays_ms", b.Delays.n != 0, []BackoffKind{Listed}},
	} {
		if part.given && !slices.Contains(part.goes, b.Kind) {
			return Invalid(pointer+part.name, "has no meaning for the kind %s; leave it out", backoffKinds[b.Kind])
		}
	}
	if b.Kind == Listed && b.Delays.n == 0 {
		return Invalid(pointer+"/delays_ms", "has 0 entries; the kind list needs 1 to %d", MaxDelays)
	}
	for _, part := range []struct {
		name  string
		value time.Duration
		r     Range
	}{{"/base_ms", b.Base, BackoffBase}, {"/cap_ms", b.Cap, BackoffCap}} {
		if !part.r.Holds(float64(part.value) / float64(part.r.Unit)) {
			return Invalid(pointer+part.name, "is %d; %s are allowed", part.value.Milliseconds(), part.r)
		}
	}
	if b.Factor != 0 && !BackoffFactor.Holds(b.Factor) {
		return Invalid(pointer+"/factor", "is %g; %s are allowed", b.Factor, BackoffFactor)
	}
	return nil
}
