package queue

import (
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each field of Settings is declared once, the defaults are allowed, and copying every setting makes two Settings equal.
func TestSettingsAreDeclaredOnce(t *testing.T) {
	t.Parallel()
	declared := make(map[uintptr]string)
	all := DefaultSettings()
	for _, d := range AllSettings() {
		at := d.field.in(&all).Addr().Pointer()
		if other := declared[at]; other != "" {
			t.Errorf("%s and %s are one field of Settings", d.Name, other)
		}
		declared[at] = d.Name
	}
	for v, i := reflect.ValueOf(&all).Elem(), 0; i < v.NumField(); i++ {
		if declared[v.Field(i).Addr().Pointer()] == "" {
			t.Errorf("Settings.%s is not declared in setting.go", v.Type().Field(i).Name)
		}
	}
	if err := all.Valid(); err != nil {
		t.Errorf("a new queue has settings that are not allowed: %v", err)
	}
	for _, d := range AllSettings() {
		switch v := d.field.in(&all); v.Interface().(type) {
		case Backoff:
			v.Set(reflect.ValueOf(Backoff{Jitter: EqualJitter, Base: time.Second, Factor: 3, Cap: time.Minute}))
		case time.Duration:
			v.SetInt(int64(3 * d.Range.Unit))
		default:
			v.Set(reflect.ValueOf(map[reflect.Kind]any{reflect.String: "x", reflect.Bool: true, reflect.Float64: 0.5, reflect.Uint8: 1, reflect.Uint16: 1, reflect.Int64: 1}[v.Kind()]).Convert(v.Type()))
		}
	}
	var copied Settings
	for _, d := range AllSettings() {
		if err := d.Set(&copied, d.Value(&all)); err != nil {
			t.Error(err)
		}
	}
	if copied != all {
		t.Errorf("got %+v, want %+v", copied, all)
	}
}

// A setting out of its range is refused with its name, the value, and what is allowed.
func TestSettingsRefuseWithTheirRange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.MaxAttempts = 1001 }, "/max_attempts is 1001; 0 (no limit) to 1,000 are allowed"},
		{func(s *Settings) { s.MaxExpiries = 251 }, "/max_expiries is 251; 0 (no limit) to 250 are allowed"},
		{func(s *Settings) { s.OnExhausted = Inherit }, "/on_exhausted must be fail_submission, dead_letter or skip"},
		{func(s *Settings) { s.OnExhausted = Skip + 1 }, "/on_exhausted must be fail_submission, dead_letter or skip"},
		{func(s *Settings) { s.Durability = Relaxed + 1 }, "/durability must be full or relaxed"},
		{func(s *Settings) { s.MaxReservation = 25 * time.Hour }, "/max_reservation_ms is 90000000; 100 to 86,400,000 are allowed"},
		{func(s *Settings) { s.MaxReservation = 0 }, "/max_reservation_ms is 0; 100 to 86,400,000 are allowed"},
		{func(s *Settings) { s.ReservationTimeout = time.Millisecond }, "/reservation_timeout_ms is 1; 100 to max_reservation_ms (86400000) are allowed"},
		{func(s *Settings) { s.MaxReservation = time.Minute }, "/reservation_timeout_ms is 600000; 100 to max_reservation_ms (60000) are allowed"},
		{func(s *Settings) { s.SuspectShare = 1.5 }, "/suspect_share is 1.5; 0 (behind all other work) to 1 (no limit) are allowed"},
		{func(s *Settings) { s.SuspectShare = math.NaN() }, "/suspect_share is NaN; 0 (behind all other work) to 1 (no limit) are allowed"},
		{func(s *Settings) { s.Retention = -time.Second }, "/retention_seconds is -1; 0 (for ever) to 315,360,000 are allowed"},
		{func(s *Settings) { s.DeadRetention = MaxRetention + time.Second }, "/dead_retention_seconds is 315360001; 0 (until they are redriven, forwarded or deleted) to 315,360,000 are allowed"},
		{func(s *Settings) { s.ConsumerGrace = 2 * time.Hour }, "/consumer_grace_ms is 7200000; 0 (at once) to 3,600,000 are allowed"},
		{func(s *Settings) { s.RestartGrace = time.Hour }, "/restart_grace_ms is 3600000; 0 (none) to 600,000 are allowed"},
		{func(s *Settings) { s.DeadAfter = -time.Second }, "/dead_after_ms is -1000; 0 (none) to 315,360,000,000 are allowed"},
		{func(s *Settings) { s.OnDeadline = DeadLetterThem + 1 }, "/on_deadline must be skip or dead_letter"},
		{func(s *Settings) { s.Shards, s.DrainingShards = 2, "1,2" }, "/draining_shards has all shards of the queue; one has to be left for new groups"},
		{func(s *Settings) { s.DrainingShards = "7" }, `/draining_shards is "7"; numbers of shards of the queue, which has 1, are allowed, each larger than the one before, as in 2,3`},
		{func(s *Settings) { s.RetryBackoff.Base = 48 * time.Hour }, "/retry_backoff/base_ms is 172800000; 0 (at once) to 86,400,000 are allowed"},
		{func(s *Settings) { s.RetryBackoff.Cap = -time.Second }, "/retry_backoff/cap_ms is -1000; 0 (none) to 2,592,000,000 are allowed"},
		{func(s *Settings) { s.ExpiryBackoff.Factor = 0.5 }, "/expiry_backoff/factor is 0.5; 1 to 100 are allowed"},
		{func(s *Settings) { s.RetryBackoff.Kind = Listed + 1 }, "/retry_backoff/kind must be exponential, linear, fixed or list"},
		{func(s *Settings) { s.RetryBackoff.Jitter = NoJitter + 1 }, "/retry_backoff/jitter must be full, equal or none"},
		{func(s *Settings) { s.RetryBackoff = Backoff{Kind: Listed} }, "/retry_backoff/delays_ms has 0 entries; the kind list needs 1 to 16"},
		{func(s *Settings) { s.RetryBackoff.Delays = NewDelays([]uint32{1}) }, "/retry_backoff/delays_ms has no meaning for the kind exponential; leave it out"},
		{func(s *Settings) { s.RetryBackoff.Kind = Linear }, "/retry_backoff/factor has no meaning for the kind linear; leave it out"},
		{func(s *Settings) { s.RetryBackoff = Backoff{Kind: Fixed, Cap: time.Second} }, "/retry_backoff/cap_ms has no meaning for the kind fixed; leave it out"},
		{func(s *Settings) { s.RetryBackoff = Backoff{Kind: Listed, Base: 1, Delays: NewDelays([]uint32{1})} }, "/retry_backoff/base_ms has no meaning for the kind list; leave it out"},
	} {
		s := DefaultSettings()
		test.change(&s)
		if err := s.Valid(); err == nil || err.Error() != "invalid: The request is not valid.; "+test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// There is a warning about a dead letter queue that gets nothing.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings Settings
		warns    string // a part of the only warning; "": there is none
	}{
		{Settings{DeadLetterQueue: "x", OnExhausted: Skip}, "dead_letter_queue"},
		{Settings{DeadLetterQueue: "x", OnExhausted: FailSubmission}, "dead_letter_queue"},
		{Settings{DeadLetterQueue: "x", OnExhausted: FailSubmission, OnDeadline: DeadLetterThem}, ""},
		{Settings{DeadLetterQueue: "x", OnExhausted: DeadLetter}, ""},
		{Settings{OnExhausted: Skip}, ""},
		{Settings{Shards: 1, GroupsPerShard: 9}, "one shard"},
		{Settings{Shards: 2, GroupsPerShard: 9}, ""},
		{Settings{Shards: 2, SpareGroups: 9, MaxShards: 4}, "needs groups_per_shard"},
		{Settings{Shards: 2, GroupsPerShard: 9, SpareGroups: 9, MaxShards: 2}, "max_shards is 2"},
		{Settings{Shards: 2, GroupsPerShard: 9, SpareGroups: 9, MaxShards: 3}, ""},
	} {
		got := test.settings.Warnings()
		if len(got) > 0 != (test.warns != "") || len(got) > 1 || !strings.Contains(strings.Join(got, ""), test.warns) {
			t.Errorf("%+v: got %q, want %q", test.settings, got, test.warns)
		}
	}
}

// A range is written as requests have it, and as flags do.
func TestRangeTexts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		setting, want, flag string
	}{
		{"/max_attempts", "0 (no limit) to 1,000", "0 (no limit) to 1,000"},
		{"/suspect_share", "0 (behind all other work) to 1 (no limit)", "0 (behind all other work) to 1 (no limit)"},
		{"/reservation_timeout_ms", "100 to max_reservation_ms (at most 86,400,000)", "100ms to --max-reservation (at most 24h)"},
		{"/retention_seconds", "0 (for ever) to 315,360,000", "0 (for ever) to 87600h"},
		{"/restart_grace_ms", "0 (none) to 600,000", "0 (none) to 10m"},
		{"/expiry_backoff/cap_ms", "0 (none) to 2,592,000,000", "0 (none) to 720h"},
		{"/retry_backoff/delays_ms/7", "0 (at once) to 2,592,000,000", "0 (at once) to 720h"},
	} {
		if r, ok := SettingRange(test.setting); !ok || r.String() != test.want || r.Flag() != test.flag {
			t.Errorf("%s: got %q and %q, want %q and %q", test.setting, r, r.Flag(), test.want, test.flag)
		}
	}
	for _, none := range []string{"/draining", "/retry_backoff", "/retry_backoff/none", "/none", ""} {
		if r, ok := SettingRange(none); ok {
			t.Errorf("%q has the range %q", none, r)
		}
	}
}

// docs/LIFECYCLE.md has a row for each setting.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/LIFECYCLE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range AllSettings() {
		if !strings.Contains(string(text), "\n| `"+d.Name+"` | ") {
			t.Errorf("docs/LIFECYCLE.md, Defaults, has no row for %s", d.Name)
		}
	}
}
