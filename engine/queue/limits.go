package queue

import (
	"fmt"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Limits. Those that a field of a request has stand in package api. Each number has its reason; raising one is a decision, not a tweak.
const (
	MaxChunks          = api.MaxChunks
	MaxInlineChunks    = api.MaxInlineChunks
	MaxInlineBytes     = 64 << 20 // all inline bytes of one insert: bounds the memory that one request takes
	MaxChunkBytes      = 1 << 20  // one inline chunk: more belongs in object storage
	MaxOutputBytes     = 1 << 20  // one chunk's output
	MaxAttachmentBytes = 64 << 10 // goes out with every reservation
	MaxPrefixBytes     = api.MaxPrefixBytes
	MaxTemplateBytes   = api.MaxTemplateBytes
	MaxMetaKeys        = 32
	MaxMetaKeyBytes    = 64
	MaxMetaValueBytes  = 256
	// Bounds of the replaced contents of a queue's dead chunks: bytes of one, number, and bytes of all. They are in memory.
	MaxReplacedContent = 64 << 10
	MaxReplaced        = 1000
	MaxReplacedBytes   = 16 << 20
	MaxDeletions       = 1000 // of submissions, ordered and not done yet, of a queue
	MaxNoteBytes       = api.MaxNoteBytes
	MaxErrorBytes      = 1000 // kept per failed chunk, in memory: a sentence, not a log
	MaxTraceBytes      = api.MaxTraceBytes
	MaxConsumerBytes   = api.MaxConsumerBytes
	MaxIncarnation     = api.MaxIncarnation
	MaxIdempotencyKey  = api.MaxIdempotencyKey
	MaxQueueNameBytes  = api.MaxQueueNameBytes
	MaxQueues          = 256 // all their shards together are at most MaxShards

	MaxStrategyNameBytes = 64
	MaxStrategies        = 1000 // named ones of a queue: they are compiled and held in memory
	MaxStrategyVersions  = 100  // the newest of a name: enough to see what changed and go back

	MaxSetValues = 100_000 // values of a queue's meta keys, and keys, with a limit or weight: all are in memory, some 200 bytes each

	MaxTokens          = 10_000 // access tokens: all are in memory, some 500 bytes each
	MaxSubjectBytes    = 512    // of a client certificate that stands for a token
	MaxTokenQueues     = api.MaxTokenQueues
	MaxRotationOverlap = api.MaxRotationOverlapSeconds * time.Second

	MaxReserve     = api.MaxReserve
	MaxBatch       = api.MaxBatch
	MaxWait        = api.MaxWaitMS * time.Millisecond
	MaxWaitIDs     = api.MaxWaitIDs
	MaxInsertions  = api.MaxInsertions
	MaxFollowing   = api.MaxFollowing
	MaxLimited     = api.MaxLimited
	MaxPicks       = api.MaxPicks
	MaxRecent      = api.MaxRecent
	MinReservation = 100 * time.Millisecond
	MaxListLimit   = 1000

	// MaxAnswerBytes bounds the contents, outputs and metadata of one answer, before they are encoded. Items that do not fit come with the
	// next call. The first item always fits.
	MaxAnswerBytes = 4 << 20

	MaxReservation      = api.MaxReservationMS * time.Millisecond
	DefaultGrace        = 30 * time.Second
	MaxRestartGrace     = 10 * time.Minute // chunks under a limit are not handed out meanwhile
	ClusterRestartGrace = 30 * time.Second // the default in a cluster: attached consumers have extended what they hold by then
	MaxMaxAttempts      = 1000
	MaxRetention        = 10 * 365 * 24 * time.Hour
	DefaultSuspectShare = 0.3 // the smallest that cost no submission its finish in a discrete-event model of 100 consumers
	IdempotencyWindow   = 24 * time.Hour
	MaxIdempotencyKeys  = 64 << 20 // of a queue, within the window: each takes 2 bytes of memory and some 70 of the disk
	MaxPriority         = api.MaxPriority
)

// Range is the range of a number in a request. Its texts are the same wherever the number can be given.
type Range struct {
	Least, Most int64         // in Unit
	Unit        time.Duration // of a duration; 0: a plain number
	Zero, Full  string        // the meaning of Least and Most, if the number does not show it
	Below       string        // the field of the same request that it may not exceed; "": none
}

// numbers is a Range of plain numbers; milliseconds and seconds are Ranges of durations. meaning is that of Least, then that of Most.
func numbers(least, most int64, meaning ...string) Range {
	r := Range{Least: least, Most: most}
	for i, to := range []*string{&r.Zero, &r.Full}[:len(meaning)] {
		*to = meaning[i]
	}
	return r
}

func milliseconds(least, most time.Duration, meaning ...string) Range {
	r := numbers(least.Milliseconds(), most.Milliseconds(), meaning...)
	r.Unit = time.Millisecond
	return r
}

func seconds(least, most time.Duration, meaning ...string) Range {
	r := numbers(int64(least/time.Second), int64(most/time.Second), meaning...)
	r.Unit = time.Second
	return r
}

// below says that the number may not exceed another field of the same request.
func (r Range) below(field string) Range {
	r.Below = field
	return r
}

// String is the range as refusals have it, in the unit of the request: "0 (no limit) to 1,000".
func (r Range) String() string {
	return r.text(Exact(r.Least), Exact(r.Most), r.Below)
}

// Flag is the range as the command line has it: durations are written with their unit, fields are flags.
func (r Range) Flag() string {
	if r.Unit == 0 {
		return r.String()
	}
	below := ""
	if r.Below != "" {
		below = "--" + FlagName(r.Below)
	}
	return r.text(ShortDuration(time.Duration(r.Least)*r.Unit), ShortDuration(time.Duration(r.Most)*r.Unit), below)
}

func (r Range) text(least, most, below string) string {
	if r.Zero != "" {
		least += " (" + r.Zero + ")"
	}
	if r.Full != "" {
		most += " (" + r.Full + ")"
	}
	if below != "" {
		most = fmt.Sprintf("%s (at most %s)", below, most)
	}
	return least + " to " + most
}

// ShortDuration is Duration.String without minutes and seconds that are zero: "24h", not "24h0m0s", and "0", not "0s".
func ShortDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Holds says whether n, in the range's unit, is in the range. No range holds NaN.
func (r Range) Holds(n float64) bool { return n >= float64(r.Least) && n <= float64(r.Most) }

// Duration is a number of the range's units. A number that is negative, or too large for a duration, is refused at the pointer, with the
// range that is allowed.
func (r Range) Duration(pointer string, n int64) (time.Duration, error) {
	const most = time.Duration(1<<63 - 1)
	if n < 0 || n > int64(most/r.Unit) {
		return 0, Invalid(pointer, "is %d; %s are allowed", n, r)
	}
	return time.Duration(n) * r.Unit, nil
}

// FlagName is the name on the command line of the field that has this name in JSON: durations are written with their unit there.
func FlagName(field string) string {
	field = strings.TrimSuffix(strings.TrimSuffix(field, "_ms"), "_seconds")
	return strings.ReplaceAll(field, "_", "-")
}

// oneOf lists alternatives as refusals do: "head or tail".
func oneOf(names []string) string {
	last := len(names) - 1
	text := strings.Join(names[:last], ", ") + " or " + names[last]
	if names[0] == "" {
		return "empty" + text
	}
	return text
}
