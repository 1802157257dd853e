package queue

import (
	"testing"
	"time"
)

// Settings are in the catalogue, byte for byte, as every version wrote them: names, units, order, and fields left out at zero.
func TestSettingsRows(t *testing.T) {
	t.Parallel()
	all := Settings{
		Durability: Relaxed, MaxAttempts: 1, MaxExpiries: 2, OnExhausted: Skip, ReservationTimeout: 3 * time.Second, MaxReservation: 4 * time.Hour,
		RetryBackoff: Backoff{Base: 5 * time.Millisecond, Factor: 1.25, Cap: 6 * time.Minute}, ExpiryBackoff: Backoff{Base: 7 * time.Second, Factor: 8, Cap: 9 * time.Hour},
		Retention: 10 * 24 * time.Hour, ConsumerGrace: 11 * time.Second, RestartGrace: 12 * time.Millisecond, Draining: true, DeadLetterQueue: "<späte> post", DeadRetention: 13*time.Second + 14*time.Millisecond,
		SuspectShare: 0.75, Requeue: Tail, Shards: 4, GroupRequired: true, DeadAfter: 15 * time.Second, OnDeadline: DeadLetterThem, GroupMustExist: true, MaxWaitingChunks: 16, MaxOpenSubmissions: 17, MaxOpenBytes: 18, GroupsPerShard: 19, SpareGroups: 20, MaxShards: 5, DrainingShards: "2,3",
	}
	for _, d := range AllSettings() {
		if d.LeftOut(&all) {
			t.Errorf("this test leaves %s at its default: its row is a format, and has to stand here", d.Name)
		}
	}
	none := Settings{OnExhausted: DeadLetter, Shards: 1}
	kinds := none
	kinds.RetryBackoff = Backoff{Kind: Listed, Jitter: NoJitter, Delays: NewDelays([]uint32{0, 5, 2_592_000_000})}
	kinds.ExpiryBackoff = Backoff{Kind: Linear, Jitter: EqualJitter, Base: time.Second, Cap: time.Minute}
	for _, test := range []struct {
		settings Settings
		want     string
	}{
		{DefaultSettings(), `{"durability":"full","max_attempts":10,"max_expiries":3,"on_exhausted":"dead_letter","reservation_timeout_ms":600000,"max_reservation_ms":86400000,` +
			`"retry_backoff":{"base_ms":1000,"factor":2,"cap_ms":600000},"expiry_backoff":{"base_ms":1000,"factor":2,"cap_ms":300000},"retention_ms":604800000,"consumer_grace_ms":30000,"suspect_share":0.3}`},
		{none, `{"durability":"full","max_attempts":0,"max_expiries":0,"on_exhausted":"dead_letter","reservation_timeout_ms":0,"max_reservation_ms":0,` +
			`"retry_backoff":{"base_ms":0,"factor":0,"cap_ms":0},"expiry_backoff":{"base_ms":0,"factor":0,"cap_ms":0},"retention_ms":0,"consumer_grace_ms":0,"suspect_share":0}`},
		{kinds, `{"durability":"full","max_attempts":0,"max_expiries":0,"on_exhausted":"dead_letter","reservation_timeout_ms":0,"max_reservation_ms":0,` +
			`"retry_backoff":{"kind":"list","base_ms":0,"factor":0,"cap_ms":0,"delays_ms":[0,5,2592000000],"jitter":"none"},` +
			`"expiry_backoff":{"kind":"linear","base_ms":1000,"factor":0,"cap_ms":60000,"jitter":"equal"},"retention_ms":0,"consumer_grace_ms":0,"suspect_share":0}`},
		{all, `{"durability":"relaxed","max_attempts":1,"max_expiries":2,"on_exhausted":"skip","reservation_timeout_ms":3000,"max_reservation_ms":14400000,` +
			`"retry_backoff":{"base_ms":5,"factor":1.25,"cap_ms":360000},"expiry_backoff":{"base_ms":7000,"factor":8,"cap_ms":32400000},"retention_ms":864000000,` +
			`"dead_retention_ms":13014,"dead_letter_queue":"\u003cspäte\u003e post","consumer_grace_ms":11000,"restart_grace_ms":12,"draining":true,"suspect_share":0.75,"requeue":"tail","shards":4,"group_required":true,"dead_after_ms":15000,"on_deadline":"dead_letter","group_must_exist":true,"max_waiting_chunks":16,"max_open_submissions":17,"max_open_bytes":18,"groups_per_shard":19,"spare_groups":20,"max_shards":5,"draining_shards":"2,3"}`},
	} {
		text := test.settings.Row()
		if text != test.want {
			t.Errorf("got %s, want %s", text, test.want)
		}
		if got, err := SettingsOf(test.want); err != nil || got != test.settings {
			t.Errorf("%s is read as %+v, %v, want %+v", test.want, got, err, test.settings)
		}
	}
}

// A row that no version wrote is refused. Settings that an older version did not know are as in a new queue.
func TestSettingsRowsOfOthers(t *testing.T) {
	t.Parallel()
	const old = `{"durability":"full","max_attempts":10,"max_expiries":3,"on_exhausted":"fail_submission","reservation_timeout_ms":600000,"max_reservation_ms":86400000,` +
		`"retry_backoff":{"base_ms":0,"factor":0,"cap_ms":0},"expiry_backoff":{"base_ms":1000,"factor":2,"cap_ms":300000},"retention_ms":604800000}`
	want := DefaultSettings()
	want.OnExhausted, want.RetryBackoff = FailSubmission, Backoff{} // the row says so: another default changes no queue that is there
	if got, err := SettingsOf(old); err != nil || got != want {
		t.Errorf("a row of the first version is read as %+v, %v", got, err)
	}
	for _, wrong := range []string{``, `[]`, `{"durability":"never"}`, `{"durability":"full","on_exhausted":""}`, `{"durability":"full","on_exhausted":"skip","requeue":"middle"}`, `{"max_attempts":65536}`, `{"retention_ms":"long"}`, `{"retry_backoff":5}`, `{"retry_backoff":{"kind":"wild"}}`, `{"retry_backoff":{"kind":"list","delays_ms":[-1]}}`} {
		if got, err := SettingsOf(wrong); err == nil {
			t.Errorf("%s is read as %+v", wrong, got)
		}
	}
}
