package queue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Setting declares one setting of a queue. The checks, the API, the catalogue's row, the command line's flag and the dashboard's field
// all come from it. To add a setting, write its field in Settings, its declaration in settings, and its fields in package api.
type Setting = Field[Settings]

// settings lists all settings in the order in which people see them. Add new ones at the end.
var settings = []*Setting{
	{
		Name: "durability", Names: durabilities[:], field: fieldOf(func(s *Settings) *Durability { return &s.Durability }, Full),
		Sentence: "full: the server answers after the change is on disk. relaxed: it answers before, and a power cut can undo the " +
			"last moments",
	}, {
		Name: "max_attempts", Range: numbers(0, MaxMaxAttempts, "no limit"),
		field:    fieldOf(func(s *Settings) *uint16 { return &s.MaxAttempts }, 10),
		Sentence: "How many attempts a chunk gets",
	}, {
		Name: "max_expiries", Range: numbers(0, 250, "no limit"), field: fieldOf(func(s *Settings) *uint8 { return &s.MaxExpiries }, 3),
		Sentence: "How many attempts of a chunk may end by their deadline",
	}, {
		Name: "on_exhausted", Names: exhaustedNames[:],
		field:    fieldOf(func(s *Settings) *OnExhausted { return &s.OnExhausted }, DeadLetter),
		Sentence: "What happens to a chunk that is out of attempts",
	}, {
		Name: "reservation_timeout_ms", Range: milliseconds(MinReservation, MaxReservation).below("max_reservation_ms"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.ReservationTimeout }, 10*time.Minute),
		Sentence: "How long a consumer may hold a chunk, unless its reserve call says otherwise",
	}, {
		Name: "max_reservation_ms", Range: milliseconds(MinReservation, MaxReservation),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.MaxReservation }, MaxReservation),
		Sentence: "The longest time that a consumer may hold a chunk, with all its extensions",
	}, {
		Name: "retry_backoff", field: fieldOf(func(s *Settings) *Backoff { return &s.RetryBackoff },
			Backoff{Base: time.Second, Factor: 2, Cap: 10 * time.Minute}),
		Sentence: "The pause after a failed attempt, unless the consumer chooses one",
	}, {
		Name: "expiry_backoff", field: fieldOf(func(s *Settings) *Backoff { return &s.ExpiryBackoff },
			Backoff{Base: time.Second, Factor: 2, Cap: 5 * time.Minute}),
		Sentence: "The pause after an attempt whose deadline passed or whose consumer was lost",
	}, {
		Name: "retention_seconds", Range: seconds(0, MaxRetention, "for ever"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.Retention }, 7*24*time.Hour),
		Sentence: "How long the server keeps ended submissions; those with dead letters stay",
	}, {
		Name: "dead_retention_seconds", Range: seconds(0, MaxRetention, "until they are redriven, forwarded or deleted"), sparse: true,
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.DeadRetention }, 0),
		Sentence: "How long the server keeps dead letters",
	}, {
		Name: "dead_letter_queue", sparse: true, field: fieldOf(func(s *Settings) *string { return &s.DeadLetterQueue }, ""),
		Sentence: "The queue to which dead letters go; without it they stay. It must exist, and have no dead_letter_queue itself",
	}, {
		// A longer grace would have no effect: the deadlines of most reservations come first.
		Name: "consumer_grace_ms", Range: milliseconds(0, time.Hour, "at once"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.ConsumerGrace }, DefaultGrace),
		Sentence: "How long an attached consumer may be away before it loses its chunks",
	}, {
		Name: "restart_grace_ms", Range: milliseconds(0, MaxRestartGrace, "none"), sparse: true,
		field: fieldOf(func(s *Settings) *time.Duration { return &s.RestartGrace }, 0),
		Sentence: "How long after a start the queue hands out no chunk that a limit counts, so that consumers can extend first; " +
			"in a cluster, new queues have 30 s",
	}, {
		Name: "draining", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.Draining }, false),
		Sentence: "Whether the queue refuses inserts, while consumers finish its work",
	}, {
		Name: "suspect_share", Range: numbers(0, 1, "behind all other work", "no limit"),
		field:    fieldOf(func(s *Settings) *float64 { return &s.SuspectShare }, DefaultSuspectShare),
		Sentence: "The share of the consumers' slots that chunks whose deadline passed may have while there is other work",
	}, {
		Name: "requeue", Names: requeues[:], sparse: true, field: fieldOf(func(s *Settings) *Requeue { return &s.Requeue }, Head),
		Sentence: "Where a chunk is requeued after a failed attempt: head is its place in the order of the strategy, tail is " +
			"behind all ready chunks",
	}, {
		Name: "shards", Range: numbers(1, MaxQueueShards), sparse: true, field: fieldOf(func(s *Settings) *uint8 { return &s.Shards }, 1),
		Sentence: "How many shards the queue divides its groups between; the number can only rise",
	}, {
		Name: "group_required", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.GroupRequired }, false),
		Sentence: "Whether the queue refuses submissions without a group",
	}, {
		Name: "dead_after_ms", Range: milliseconds(0, MaxRetention, "none"), sparse: true,
		field: fieldOf(func(s *Settings) *time.Duration { return &s.DeadAfter }, 0),
		Sentence: "The dead_deadline of a submission that has none: this long after its insert, or after its run_at if that is " +
			"later",
	}, {
		Name: "on_deadline", Names: onDeadlines[:], sparse: true,
		field: fieldOf(func(s *Settings) *OnDeadline { return &s.OnDeadline }, SkipThem),
		Sentence: "What happens to unfinished chunks when the dead_deadline of their submission passes: skip gives them up, " +
			"dead_letter makes dead letters of them",
	}, {
		Name: "group_must_exist", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.GroupMustExist }, false),
		Sentence: "Whether the queue refuses a submission if no one has created its group; " +
			"otherwise the submission creates it",
	}, {
		Name: "max_waiting_chunks", Range: numbers(0, MaxQuota, "any number"), sparse: true,
		field:    fieldOf(func(s *Settings) *int64 { return &s.MaxWaitingChunks }, 0),
		Sentence: "How many chunks may wait, without those that wait for a retry; the queue refuses inserts that would exceed it",
	}, {
		Name: "max_open_submissions", Range: numbers(0, MaxQuota, "any number"), sparse: true,
		field:    fieldOf(func(s *Settings) *int64 { return &s.MaxOpenSubmissions }, 0),
		Sentence: "How many submissions may be open; the queue refuses inserts that would exceed it",
	}, {
		Name: "max_open_bytes", Range: numbers(0, MaxQuota, "any number"), sparse: true,
		field: fieldOf(func(s *Settings) *int64 { return &s.MaxOpenBytes }, 0),
		Sentence: "How many bytes of contents and attachments open submissions may have; the queue refuses inserts that would " +
			"exceed it",
	}, {
		Name: "groups_per_shard", Range: numbers(0, MaxGroups, "any number"), sparse: true,
		field:    fieldOf(func(s *Settings) *int64 { return &s.GroupsPerShard }, 0),
		Sentence: "How many groups fill a shard; a full shard gets no new group while another one has room",
	}, {
		Name: "spare_groups", Range: numbers(0, MaxGroups, "none"), sparse: true,
		field:    fieldOf(func(s *Settings) *int64 { return &s.SpareGroups }, 0),
		Sentence: "How many new groups the open shards should have room for; with less room, the server prepares another shard",
	}, {
		Name: "max_shards", Range: numbers(0, MaxQueueShards, "it prepares none"), sparse: true,
		field:    fieldOf(func(s *Settings) *uint8 { return &s.MaxShards }, 0),
		Sentence: "The most shards that the queue may have when the server prepares shards by itself",
	}, {
		Name: "draining_shards", sparse: true, field: fieldOf(func(s *Settings) *string { return &s.DrainingShards }, ""),
		Sentence: "The numbers of shards that get no new groups, such as 2,3; their groups move to other shards when nothing of " +
			"them is open",
	},
}

// Quota is how much of the queue the settings allow to be open.
func (s *Settings) Quota() Quota {
	return Quota{Waiting: uint64(s.MaxWaitingChunks), Submissions: uint64(s.MaxOpenSubmissions), Bytes: uint64(s.MaxOpenBytes)}
}

// AllSettings lists the settings of a queue.
func AllSettings() []*Setting { return slices.Clone(settings) }

// DefaultSettings are the settings of a queue for which nothing is set.
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

// LeftOut reports whether the catalogue omits the setting, because its value is the default.
func (d *Field[T]) LeftOut(t *T) bool { return d.sparse && d.field.in(t).Equal(d.field.usual) }

// Valid checks every setting against its declaration.
func (s *Settings) Valid() error { return errors.Join(valid(settings, s), s.validDraining()) }

// validDraining requires numbers of shards in ascending order, and one shard that is left for new groups.
func (s *Settings) validDraining() error {
	if s.DrainingShards == "" {
		return nil
	}
	last, count := 0, 0
	for text := range strings.SplitSeq(s.DrainingShards, ",") {
		number, err := strconv.Atoi(text)
		if err != nil || number <= last || number > int(s.Shards) || strconv.Itoa(number) != text {
			return Invalid("/draining_shards", "is %q; numbers of shards of the queue, which has %d, are allowed, each "+
				"larger than the one before, as in 2,3", clip(s.DrainingShards, 80), s.Shards)
		}
		last, count = number, count+1
	}
	if count == int(s.Shards) {
		return Invalid("/draining_shards", "has all shards of the queue; one has to be left for new groups")
	}
	return nil
}

// Drains says that a shard gets no new groups, and that its groups move to others.
func (s *Settings) Drains(number int) bool {
	return s.DrainingShards != "" && slices.Contains(strings.Split(s.DrainingShards, ","), strconv.Itoa(number))
}

// Warnings names settings that have no effect because of other settings.
func (s *Settings) Warnings() (list []string) {
	if s.DeadLetterQueue != "" && s.OnExhausted != DeadLetter && s.OnDeadline != DeadLetterThem {
		list = append(list, fmt.Sprintf("Nothing goes to the dead_letter_queue, except from submissions with an on_exhausted of "+
			"their own: on_exhausted is %s and on_deadline is %s. Set one of them to dead_letter", s.OnExhausted, s.OnDeadline))
	}
	switch {
	case s.GroupsPerShard+s.SpareGroups > 0 && s.Shards == 1:
		list = append(list, "groups_per_shard and spare_groups have no effect in a queue with one shard. Set shards to 2 or more")
	case s.SpareGroups > 0 && s.GroupsPerShard == 0:
		list = append(list, "The server prepares no shards: spare_groups needs groups_per_shard")
	case s.SpareGroups > 0 && s.MaxShards <= s.Shards:
		list = append(list, fmt.Sprintf("The server prepares no more shards for the spare_groups: the queue has %d, and max_shards "+
			"is %d", s.Shards, s.MaxShards))
	}
	return list
}

// SettingRange returns the range of the number at a JSON pointer into settings, such as "/max_attempts" or "/retry_backoff/factor". It
// returns false if the pointer names no number.
func SettingRange(pointer string) (Range, bool) { return rangeIn(settings, pointer) }

// ValueSettings are the limit, weight, rate and quota that an operator sets for one value of a meta key.
type ValueSettings struct {
	Limit  uint32 // how many chunks of the value may be reserved at once, by all strategies together: 0 to MaxValueLimit, or NoLimit
	Weight uint32 // the value's share under Fair, in thousandths: 1 to 1,000,000; 0: not set, which counts as 1000
	Rate   Rate   // replaces the number of each MaxRate of the key with the same period; the zero Rate: not set
	Quota  Quota  // how much of the value may be open
}

// Rate is a number of reservations in a period.
type Rate struct {
	Max uint32        // 1 to MaxRate
	Per time.Duration // MinPer to MaxPer, whole milliseconds
}

// RateOf returns a rate, or an error if a number is out of bounds.
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
	NoLimit       = 1<<32 - 1 // of ValueSettings.Limit: not set
	MaxWeight     = api.MaxWeight * DefaultWeight
	DefaultWeight = 1000
	MaxRate       = api.MaxValueRate
	MinPer        = api.MinPerMS * time.Millisecond
	MaxPer        = api.MaxPerMS * time.Millisecond
)

// Quota limits how much may be open of a queue, a group, or a value of a meta key. The queue refuses an insert that would exceed it.
// 0: any number, or not set.
type Quota struct {
	Waiting     uint64 // chunks that no consumer holds, except those that wait for a retry
	Submissions uint64 // open ones
	Bytes       uint64 // of the contents and attachments of open submissions, as they were inserted
}

// MaxQuota is the largest number of a Quota.
const MaxQuota = api.MaxGroupLimit

// Valid refuses numbers over MaxQuota. Pointer is that of the quota in the body of the HTTP face.
func (q *Quota) Valid(pointer string) error {
	switch {
	case q.Waiting > MaxQuota:
		return Invalid(pointer+"/waiting", "is %d; 1 to %d are allowed, or null for none", q.Waiting, uint64(MaxQuota))
	case q.Submissions > MaxQuota:
		return Invalid(pointer+"/submissions", "is %d; 1 to %d are allowed, or null for none", q.Submissions, uint64(MaxQuota))
	case q.Bytes > MaxQuota:
		return Invalid(pointer+"/bytes", "is %d; 1 to %d are allowed, or null for none", q.Bytes, uint64(MaxQuota))
	}
	return nil
}

// API is the quota as the API has it: nil for any number.
func (q Quota) API() (limits api.GroupLimits) {
	if q.Waiting > 0 {
		limits.Waiting = &q.Waiting
	}
	if q.Submissions > 0 {
		limits.Submissions = &q.Submissions
	}
	if q.Bytes > 0 {
		limits.Bytes = &q.Bytes
	}
	return limits
}

// NoSettings are the settings of a value for which nothing is set.
func NoSettings() ValueSettings { return ValueSettings{Limit: NoLimit} }

// Or fills in what is not set from the defaults of the key.
func (s ValueSettings) Or(byDefault ValueSettings) ValueSettings {
	if s.Limit == NoLimit {
		s.Limit = byDefault.Limit
	}
	s.Weight, s.Rate = cmp.Or(s.Weight, byDefault.Weight), cmp.Or(s.Rate, byDefault.Rate)
	s.Quota.Waiting = cmp.Or(s.Quota.Waiting, byDefault.Quota.Waiting)
	s.Quota.Submissions = cmp.Or(s.Quota.Submissions, byDefault.Quota.Submissions)
	s.Quota.Bytes = cmp.Or(s.Quota.Bytes, byDefault.Quota.Bytes)
	return s
}

// ValueTarget names what ValueSettings apply to: one value of a meta key, or by default all values of the key.
type ValueTarget struct {
	MetaEntry
	All bool // the defaults of the key: Value is not set
}

// Saturated is a value of a meta key at its limit. If the limit was lowered, more chunks than that can be in flight.
type Saturated struct {
	MetaEntry
	InFlight, Limit uint32
}

// SettingsRow writes settings as files and the audit log have them: a JSON object in the order of the declarations, with every duration
// in milliseconds.
type SettingsRow Settings

// MarshalJSON omits sparse settings that have their default, so that a row without newer settings has the bytes that the first version
// wrote.
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

// Row returns the settings as one text.
func (s Settings) Row() string {
	text, err := SettingsRow(s).MarshalJSON()
	if err != nil {
		panic(err) // numbers, names and durations can always be encoded
	}
	return string(text)
}

// SettingsOf reads a row. A setting that an older version did not know gets its default.
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

// ETag names one version of a named thing that operators set, for the header If-Match. It contains a digest of the content, because
// version numbers start again after the name was deleted.
func ETag(version uint32, says []byte) string {
	digest := sha256.Sum256(says)
	return fmt.Sprintf(`"%d-%s"`, version, hex.EncodeToString(digest[:8]))
}
