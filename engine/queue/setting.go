package queue

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Setting declares one setting of a queue. Its checks and their wording follow from the declaration, and so do its place in the API's
// document, its row in the catalogue, its flag with its help, and its field in the dashboard. To add one: its field in Settings, its
// declaration in settings, and its fields in package api.
type Setting struct {
	Name     string   // in JSON; that of a duration ends with its unit
	Sentence string   // what it is, without a full stop
	Range    Range    // of a number
	Names    []string // of values that have names, by value; "" is no value of a queue
	sparse   bool     // rows of the catalogue are without it at zero, as those of versions that did not know it
	field    field
}

// field is where a setting stands in Settings, and what it is in a new queue.
type field struct {
	in    func(*Settings) reflect.Value
	usual reflect.Value
}

func fieldOf[T any](in func(*Settings) *T, usual T) field {
	return field{func(s *Settings) reflect.Value { return reflect.ValueOf(in(s)).Elem() }, reflect.ValueOf(usual)}
}

// settings is every setting, in the order in which they are shown. New ones go to the end.
var settings = []*Setting{
	{
		Name: "durability", Names: durabilities[:], field: fieldOf(func(s *Settings) *Durability { return &s.Durability }, Full),
		Sentence: "full: the disk has what an answer confirms. relaxed: a power cut may take back the last moments",
	}, {
		Name: "max_attempts", Range: numbers(0, MaxMaxAttempts, "no limit"),
		field:    fieldOf(func(s *Settings) *uint16 { return &s.MaxAttempts }, 10),
		Sentence: "Attempts per chunk",
	}, {
		Name: "max_expiries", Range: numbers(0, 250, "no limit"), field: fieldOf(func(s *Settings) *uint8 { return &s.MaxExpiries }, 3),
		Sentence: "Reservations of a chunk that may expire",
	}, {
		Name: "on_exhausted", Names: exhaustedNames[:],
		field:    fieldOf(func(s *Settings) *OnExhausted { return &s.OnExhausted }, FailSubmission),
		Sentence: "What a chunk out of attempts does",
	}, {
		Name: "reservation_timeout_ms", Range: milliseconds(MinReservation, MaxReservation).below("max_reservation_ms"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.ReservationTimeout }, 10*time.Minute),
		Sentence: "How long a consumer may hold a chunk when it does not say",
	}, {
		Name: "max_reservation_ms", Range: milliseconds(MinReservation, MaxReservation),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.MaxReservation }, MaxReservation),
		Sentence: "How long a consumer may hold a chunk at most, extensions included",
	}, {
		Name: "retry_backoff", field: fieldOf(func(s *Settings) *Backoff { return &s.RetryBackoff }, Backoff{}),
		Sentence: "The pause after a failed attempt that names none",
	}, {
		Name: "expiry_backoff", field: fieldOf(func(s *Settings) *Backoff { return &s.ExpiryBackoff },
			Backoff{Base: time.Second, Factor: 2, Cap: 5 * time.Minute}),
		Sentence: "The pause after an attempt that expired or was lost",
	}, {
		Name: "retention_seconds", Range: seconds(0, MaxRetention, "for ever"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.Retention }, 7*24*time.Hour),
		Sentence: "How long ended submissions are kept, as long as they have no dead letters",
	}, {
		Name: "dead_retention_seconds", Range: seconds(0, MaxRetention, "until they are redriven or discarded"), sparse: true,
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.DeadRetention }, 0),
		Sentence: "How long dead letters are kept",
	}, {
		Name: "dead_letter_queue", sparse: true, field: fieldOf(func(s *Settings) *string { return &s.DeadLetterQueue }, ""),
		Sentence: "The queue that dead letters go on to; without it they stay. It has to exist, and to have none of its own",
	}, {
		// Were it longer, the deadlines of most reservations would come first.
		Name: "consumer_grace_ms", Range: milliseconds(0, time.Hour, "at once"),
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.ConsumerGrace }, DefaultGrace),
		Sentence: "How long an attached consumer may be away until what it holds is lost",
	}, {
		Name: "restart_grace_ms", Range: milliseconds(0, MaxRestartGrace, "none"), sparse: true,
		field:    fieldOf(func(s *Settings) *time.Duration { return &s.RestartGrace }, 0),
		Sentence: "How long after a start nothing is handed out that a limit counts, so that consumers can extend what they hold first",
	}, {
		Name: "draining", sparse: true, field: fieldOf(func(s *Settings) *bool { return &s.Draining }, false),
		Sentence: "Whether inserts are refused; what is there is worked off",
	}, {
		Name: "suspect_share", Range: numbers(0, 1, "behind all other work", "no limit"),
		field:    fieldOf(func(s *Settings) *float64 { return &s.SuspectShare }, DefaultSuspectShare),
		Sentence: "Of the consumers' slots, how much chunks that expired may have beside other work",
	}, {
		Name: "requeue", Names: requeues[:], sparse: true, field: fieldOf(func(s *Settings) *Requeue { return &s.Requeue }, Head),
		Sentence: "Where a chunk is requeued after a failed attempt: head, its natural place, or tail, behind all that is ready",
	},
}

// AllSettings lists the settings of a queue.
func AllSettings() []*Setting { return slices.Clone(settings) }

// Choices are the names that the setting may have; nil: any value, or any of its range.
func (d *Setting) Choices() []string {
	return slices.DeleteFunc(slices.Clone(d.Names), func(name string) bool { return name == "" })
}

// Text is the sentence, with what the ends of the range mean.
func (d *Setting) Text() string {
	text := d.Sentence
	if d.Range.Zero != "" {
		text += fmt.Sprintf("; %d: %s", d.Range.Least, d.Range.Zero)
	}
	if d.Range.Full != "" {
		text += fmt.Sprintf("; %d: %s", d.Range.Most, d.Range.Full)
	}
	return text
}

// DefaultSettings is the configuration of a queue that sets nothing.
func DefaultSettings() (s Settings) {
	for _, d := range settings {
		d.field.in(&s).Set(d.field.usual)
	}
	return s
}

// Value is the setting as it stands in JSON: a duration in its unit (int64), a value that has a name as that, all others as in s.
func (d *Setting) Value(s *Settings) any {
	v := d.field.in(s)
	switch {
	case d.Names != nil:
		return d.Names[v.Uint()]
	case d.Range.Unit != 0:
		return v.Int() / int64(d.Range.Unit)
	}
	return v.Interface()
}

// Set gives s a value that is as Value has it. It refuses what s cannot hold; whether it is in the setting's range, Settings.Valid says.
func (d *Setting) Set(s *Settings, value any) error {
	to, pointer := d.field.in(s), "/"+d.Name
	switch {
	case d.Names != nil:
		i := slices.Index(d.Names, value.(string))
		if i < 0 || value == "" {
			return Invalid(pointer, "must be %s", oneOf(d.Choices()))
		}
		to.SetUint(uint64(i))
	case d.Range.Unit != 0:
		duration, err := d.Range.Duration(pointer, value.(int64))
		if err != nil {
			return err
		}
		to.SetInt(int64(duration))
	default:
		to.Set(reflect.ValueOf(value))
	}
	return nil
}

// RowName is the setting's name in the catalogue, where every duration is in milliseconds.
func (d *Setting) RowName() string {
	if name, ok := strings.CutSuffix(d.Name, "_seconds"); ok {
		return name + "_ms"
	}
	return d.Name
}

// LeftOut says whether the catalogue does without the setting as it is.
func (d *Setting) LeftOut(s *Settings) bool { return d.sparse && d.field.in(s).IsZero() }

// Pointer is the field of s.
func (d *Setting) Pointer(s *Settings) any { return d.field.in(s).Addr().Interface() }

// Valid checks every setting by its declaration. Those with a limit that is another setting come after it.
func (s *Settings) Valid() error {
	for _, d := range settings {
		if d.Range.Below == "" {
			if err := d.valid(s); err != nil {
				return err
			}
		}
	}
	for _, d := range settings {
		if d.Range.Below == "" {
			continue
		}
		most := settingNamed(d.Range.Below).Value(s).(int64)
		if n := d.Value(s).(int64); n < d.Range.Least || n > most {
			return Invalid("/"+d.Name, "is %d; %d to %s (%d) are allowed", n, d.Range.Least, d.Range.Below, most)
		}
	}
	return nil
}

func (d *Setting) valid(s *Settings) error {
	pointer, v := "/"+d.Name, d.field.in(s)
	if backoff, ok := v.Interface().(Backoff); ok {
		return backoff.valid(pointer)
	}
	if d.Names != nil && (v.Uint() >= uint64(len(d.Names)) || d.Names[v.Uint()] == "") {
		return Invalid(pointer, "must be %s", oneOf(d.Choices()))
	}
	if number, ok := d.number(v); ok && !d.Range.Holds(number) {
		return Invalid(pointer, "is %v; %s are allowed", d.Value(s), d.Range)
	}
	return nil
}

// number is the value of a setting that has a range.
func (d *Setting) number(v reflect.Value) (float64, bool) {
	switch {
	case d.Range == Range{}:
		return 0, false
	case d.Range.Unit != 0:
		return float64(v.Int()) / float64(d.Range.Unit), true
	case v.CanUint():
		return float64(v.Uint()), true
	}
	return v.Float(), true
}

// The fields of a Backoff in a request.
var (
	BackoffBase   = milliseconds(0, MaxReservation, "at once")
	BackoffFactor = numbers(1, 100)
	BackoffCap    = milliseconds(0, 30*MaxReservation, "none")
)

func (b Backoff) valid(pointer string) error {
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

// SettingRange is what the number at a pointer into settings may be: "/max_attempts", "/retry_backoff/factor". False: none stands there.
func SettingRange(pointer string) (Range, bool) {
	name, part, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	d := settingNamed(name)
	if d == nil {
		return Range{}, false
	}
	if _, ok := d.field.usual.Interface().(Backoff); ok {
		r, ok := map[string]Range{"base_ms": BackoffBase, "factor": BackoffFactor, "cap_ms": BackoffCap}[part]
		return r, ok
	}
	return d.Range, d.Range != Range{}
}

// In is the field of a struct of package api that has the setting's name in JSON. config is a pointer to that struct.
func (d *Setting) In(config any) reflect.Value {
	v := reflect.ValueOf(config).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == d.Name {
			return v.Field(i)
		}
	}
	panic(fmt.Sprintf("queue: %s has no field for the setting %s", v.Type(), d.Name))
}

func settingNamed(name string) *Setting {
	for _, d := range settings {
		if d.Name == name {
			return d
		}
	}
	return nil
}
