package queue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Setting declares one setting of a queue. Its row in the catalogue and its field in the dashboard follow from it too. To add one: its
// field in Settings, its declaration in settings, and its fields in package api.
type Setting = Field[Settings]

// settings is every setting, in the order in which they are shown. New ones go to the end.
var settings = []*Setting{
	{
		Name: "durability", Names: durabilities[:], field: fieldOf(func(s *Settings) *Durability { return &s.Durability }, Full),
		Sentence: "full: an answer comes after the change is on disk. relaxed: it comes before, and a power cut may undo the last moments",
	}, {
		Name: "max_attempts", Range: numbers(0, MaxMaxAttempts, "no limit"),
		field:    fieldOf(func(s *Settings) *uint16 { return &s.MaxAttempts }, 10),
		Sentence: "Attempts per chunk",
	}, {
		Name: "max_expiries", Range: numbers(0, 250, "no limit"), field: fieldOf(func(s *Settings) *uint8 { return &s.MaxExpiries }, 3),
		Sentence: "Reservations of a chunk that may expire",
	}, {
		Name: "on_exhausted", Names: exhaustedNames[:],
		field:    fieldOf(func(s *Settings) *OnExhausted { return &s.OnExhausted }, DeadLetter),
		Sentence: "What happens to a chunk that is out of attempts",
	}, {
		Name: "reservation_timeout_ms", Range: milliseconds(MinReservation, MaxReservation).below("max_reservation_ms"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.ReservationTimeout }, 10*time.Minute),
		Sentence: "How long a consumer may hold a chunk, unless its reserve says otherwise",
	}, {
		Name: "max_reservation_ms", Range: milliseconds(MinReservation, MaxReservation),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.MaxReservation }, MaxReservation),
		Sentence: "How long a consumer may hold a chunk at most, extensions included",
	}, {
		Name: "retry_backoff", field: fieldOf(func(s *Settings) *Backoff { return &s.RetryBackoff },
			Backoff{Base: time.Second, Factor: 2, Cap: 10 * time.Minute}),
		Sentence: "The pause after a failed attempt, unless the consumer chose one",
	}, {
		Name: "expiry_backoff", field: fieldOf(func(s *Settings) *Backoff { return &s.ExpiryBackoff },
			Backoff{Base: time.Second, Factor: 2, Cap: 5 * time.Minute}),
		Sentence: "The pause after an attempt that expired or was lost",
	}, {
		Name: "retention_seconds", Range: seconds(0, MaxRetention, "for ever"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.Retention }, 7*24*time.Hour),
		Sentence: "How long ended submissions are kept, as long as they have no dead letters",
	}, {
		Name: "dead_retention_seconds", Range: seconds(0, MaxRetention, "until they are redriven, forwarded or deleted"), sparse: true,
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.DeadRetention }, 0),
		Sentence: "How long dead letters are kept",
	}, {
		Name: "dead_letter_queue", sparse: true, field: fieldOf(func(s *Settings) *string { return &s.DeadLetterQueue }, ""),
		Sentence: "The queue that receives the dead letters; without it they stay. It must exist, and have no dead letter queue itself",
	}, {
		// Were it longer, the deadlines of most reservations would come first.
		Name: "consumer_grace_ms", Range: milliseconds(0, time.Hour, "at once"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.ConsumerGrace }, DefaultGrace),
		Sentence: "How long an attached consumer may be away before it loses its chunks",
	}, {
		Name: "restart_grace_ms", Range: milliseconds(0, MaxRestartGrace, "none"), sparse: true,
		field: fieldOf(func(s *Settings) *time.Duration { return &s.RestartGrace }, 0),
		Sentence: "How long after a start (30 s by default in a cluster) the queue hands out no chunk that a limit counts, so that " +
			"consumers can extend first",
	}, {
		Name: "draining", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.Draining }, false),
		Sentence: "Whether the queue refuses inserts; consumers finish the work that it has",
	}, {
		Name: "suspect_share", Range: numbers(0, 1, "behind all other work", "no limit"),
		field:    fieldOf(func(s *Settings) *float64 { return &s.SuspectShare }, DefaultSuspectShare),
		Sentence: "The share of the consumers' slots for chunks whose deadline passed, while there is other work",
	}, {
		Name: "requeue", Names: requeues[:], sparse: true, field: fieldOf(func(s *Settings) *Requeue { return &s.Requeue }, Head),
		Sentence: "Where a chunk is requeued after a failed attempt: head is its natural place, tail is behind all ready chunks",
	}, {
		Name: "shards", Range: numbers(1, MaxQueueShards), sparse: true, field: fieldOf(func(s *Settings) *uint8 { return &s.Shards }, 1),
		Sentence: "Between how many shards the queue divides its groups. The number can only rise",
	}, {
		Name: "group_required", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.GroupRequired }, false),
		Sentence: "Whether the queue refuses submissions without a group",
	}, {
		Name: "dead_after_ms", Range: milliseconds(0, MaxRetention, "none"), sparse: true,
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.DeadAfter }, 0),
		Sentence: "How long after its insert, or after its run_at, a submission has its dead_deadline, unless it says one itself",
	}, {
		Name: "on_deadline", Names: onDeadlines[:], sparse: true,
		field: fieldOf(func(s *Settings) *OnDeadline { return &s.OnDeadline }, SkipThem),
		Sentence: "What happens to the unfinished chunks of a submission when its dead_deadline passes: skip expires it, " +
			"dead_letter keeps them as dead letters",
	}, {
		Name: "group_must_exist", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.GroupMustExist }, false),
		Sentence: "Whether the queue refuses submissions of a group that no one created; otherwise the first one creates it",
	},
}

// AllSettings lists the settings of a queue.
func AllSettings() []*Setting { return slices.Clone(settings) }

// DefaultSettings is the configuration of a queue that sets nothing.
func DefaultSettings() (s Settings) {
	defaults(settings, &s)
	return s
}

// RowName is the setting's name in the catalogue, where every duration is in milliseconds.
func (d *Field[T]) RowName() string {
	if name, ok := strings.CutSuffix(d.Name, "_seconds"); ok {
		return name + "_ms"
	}
	return d.Name
}

// LeftOut says whether the catalogue does without the setting as it is.
func (d *Field[T]) LeftOut(t *T) bool { return d.sparse && d.field.in(t).Equal(d.field.usual) }

// Valid checks every setting by its declaration.
func (s *Settings) Valid() error { return valid(settings, s) }

// Warnings names settings that together do not do what one of them seems to say.
func (s *Settings) Warnings() (list []string) {
	if s.DeadLetterQueue != "" && s.OnExhausted != DeadLetter && s.OnDeadline != DeadLetterThem {
		list = append(list, fmt.Sprintf("dead_letter_queue gets nothing from submissions without an on_exhausted of their own: "+
			"on_exhausted is %s and on_deadline is %s. Set one of them to dead_letter", s.OnExhausted, s.OnDeadline))
	}
	return list
}

// SettingRange is what the number at a pointer into settings may be: "/max_attempts", "/retry_backoff/factor". False: none stands there.
func SettingRange(pointer string) (Range, bool) { return rangeIn(settings, pointer) }

// ValueSettings is what an operator demands of one value of a meta key.
type ValueSettings struct {
	Limit  uint32 // at most this many chunks of the value are reserved at once, by whatever strategy: 0 to MaxValueLimit, or NoLimit
	Weight uint32 // the value's share under Fair relative to others', in thousandths: 1 to 1,000,000; 0: none is set, which counts as 1000
	Rate   Rate   // the number of every MaxRate of the key over this time; the zero Rate: the strategies' own
}

// Rate is a number of reservations in a time.
type Rate struct {
	Max uint32        // 1 to MaxRate
	Per time.Duration // MinPer to MaxPer, whole milliseconds
}

// RateOf is a rate, if the numbers are within its bounds.
func RateOf(most uint32, perMS int64) (r Rate, err error) {
	switch {
	case most < 1 || most > MaxRate:
		return r, Invalid("/rate/max", "is %d; 1 to %d are allowed. To hand out nothing, set the limit to 0", most, MaxRate)
	case perMS < api.MinPerMS || perMS > api.MaxPerMS:
		return r, Invalid("/rate/per_ms", "is %d; %d to %d are allowed, which is 10 ms to 7 days", perMS, api.MinPerMS, api.MaxPerMS)
	}
	return Rate{Max: most, Per: time.Duration(perMS) * time.Millisecond}, nil
}

// Bounds of ValueSettings.
const (
	MaxValueLimit = api.MaxValueLimit
	NoLimit       = 1<<32 - 1 // of ValueSettings.Limit: none is set
	MaxWeight     = api.MaxWeight * DefaultWeight
	DefaultWeight = 1000
	MaxRate       = api.MaxValueRate
	MinPer        = api.MinPerMS * time.Millisecond
	MaxPer        = api.MaxPerMS * time.Millisecond
)

// Quota is how much may be open of a group at most. An insert that would go beyond it is refused; 0: any number.
type Quota struct {
	Waiting     uint64 // chunks that no consumer has, but for those that wait for a retry
	Submissions uint64 // open ones
}

// MaxQuota bounds the numbers of a Quota.
const MaxQuota = api.MaxGroupLimit

// NoSettings are those of a value for which nothing is set.
func NoSettings() ValueSettings { return ValueSettings{Limit: NoLimit} }

// Or is what holds for a value with these settings of its own: where it has none, the default of its key.
func (s ValueSettings) Or(byDefault ValueSettings) ValueSettings {
	if s.Limit == NoLimit {
		s.Limit = byDefault.Limit
	}
	s.Weight, s.Rate = cmp.Or(s.Weight, byDefault.Weight), cmp.Or(s.Rate, byDefault.Rate)
	return s
}

// ValueTarget is what ValueSettings are for: one value of a meta key, or as its default all values of the key.
type ValueTarget struct {
	MetaEntry
	All bool // Value is not set
}

// Saturated is a value of a meta key that has as many chunks in flight as its limit lets it, or more when the limit came later.
type Saturated struct {
	MetaEntry
	InFlight, Limit uint32
}

// SettingsRow is settings as files and the audit log have them: a JSON object in the order of their declaration, every duration in
// milliseconds.
type SettingsRow Settings

// MarshalJSON leaves out what is new since the first version and at zero, so that a row that needs nothing new is as that wrote it.
func (r SettingsRow) MarshalJSON() ([]byte, error) {
	settings := Settings(r)
	text := []byte{'{'}
	for _, d := range AllSettings() {
		if d.LeftOut(&settings) {
			continue
		}
		value := d.Value(&settings)
		if v, is := d.Pointer(&settings).(*time.Duration); is {
			value = v.Milliseconds()
		}
		written, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%q:%s", d.RowName(), written)
	}
	return append(text, '}'), nil
}

// Row is the settings in one text.
func (s Settings) Row() string {
	text, err := SettingsRow(s).MarshalJSON()
	if err != nil {
		panic(err) // numbers, names and durations always can be written
	}
	return string(text)
}

// SettingsOf reads a row. What an older version did not know is as in a new queue.
func SettingsOf(text string) (Settings, error) {
	s := DefaultSettings()
	var row map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return s, err
	}
	for _, d := range AllSettings() {
		if value, ok := row[d.RowName()]; ok {
			if err := readSetting(d, &s, value); err != nil {
				return s, fmt.Errorf("%s: %w", d.RowName(), err)
			}
		}
	}
	return s, nil
}

func readSetting(d *Setting, s *Settings, value json.RawMessage) (err error) {
	switch to := d.Pointer(s).(type) {
	case *time.Duration:
		var n int64
		err = json.Unmarshal(value, &n)
		*to = ofMilliseconds(n)
	default:
		if d.Names == nil {
			return json.Unmarshal(value, to)
		}
		var name string
		if err = json.Unmarshal(value, &name); err == nil {
			err = d.Set(s, name)
		}
	}
	return err
}

func ofMilliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// ETag names a version of what an operator set under a name, for the header If-Match. The digest of what it says keeps apart a version and
// the one of the same number after the name was deleted and set again.
func ETag(version uint32, says []byte) string {
	digest := sha256.Sum256(says)
	return fmt.Sprintf(`"%d-%s"`, version, hex.EncodeToString(digest[:8]))
}
