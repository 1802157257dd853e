package web

import (
	"fmt"
	"strings"
	"testing"
)

// Every number of queue settings, submissions and schedules that is outside of its documented range is refused with the field, what is
// allowed there as docs/LIFECYCLE.md has it, and nothing about the type that the server keeps it in.
func TestRefusedNumbersNameTheLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const (
		submission = `"chunks":{"count":1,"prefix":"p/"}`
		day        = "86400000"
		tenYears   = "315360000"
	)
	settings := func(field string) string { return `{"settings":{` + field + `}}` }
	backoff := func(name string) func(string) string {
		return func(field string) string {
			return settings(fmt.Sprintf(`"%s":{"base_ms":1,"factor":2,"cap_ms":10,%s}`, name, field))
		}
	}
	insert := func(field string) string { return `{` + submission + `,` + field + `}` }
	chunks := func(field string) string { return `{"chunks":{"prefix":"p/",` + field + `}}` }
	schedule := func(field string) string { return `{"spec":"@hourly","template":{` + submission + `},` + field + `}` }
	template := func(field string) string { return `{"spec":"@hourly","template":{` + submission + `,` + field + `}}` }
	plain := []string{"-1", "65536", "2147483648", "9223372036854775808", "18446744073709551616", "1e30", "1.5", "1e400"}
	large := []string{"-1", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e30", "1.5"}
	for _, test := range []struct {
		method, path, pointer string
		body                  func(field string) string
		wrong                 []string
		limit                 []string
	}{
		{"PUT", "/v1/queues/q", "/settings/max_attempts", settings, append(plain, "1001"), []string{"0 (no limit)", "1000 are"}},
		{"PUT", "/v1/queues/q", "/settings/max_expiries", settings, append(plain, "251", "256"), []string{"0 (no limit)", "250 are"}},
		{"PUT", "/v1/queues/q", "/settings/suspect_share", settings, plain, []string{"0 (behind", "1 (no limit)"}},
		{"PUT", "/v1/queues/q", "/settings/reservation_timeout_ms", settings, append(large, "0", "99", "86400001"), []string{"100 to max_reservation_ms", day}},
		{"PUT", "/v1/queues/q", "/settings/max_reservation_ms", settings, append(large, "0", "99", "86400001"), []string{"100 to " + day}},
		{"PUT", "/v1/queues/q", "/settings/retention_seconds", settings, append(large, "315360001"), []string{"0 (for ever) to " + tenYears}},
		{"PUT", "/v1/queues/q", "/settings/dead_retention_seconds", settings, append(large, "315360001"), []string{"0 (until", tenYears}},
		{"PUT", "/v1/queues/q", "/settings/consumer_grace_ms", settings, append(large, "3600001"), []string{"0 (at once) to 3600000"}},
		{"PUT", "/v1/queues/q", "/settings/restart_grace_ms", settings, append(large, "600001"), []string{"0 (none) to 600000"}},
		{"PUT", "/v1/queues/q", "/settings/retry_backoff/base_ms", nil, append(large, "86400001"), []string{"0 (at once) to " + day}},
		{"PUT", "/v1/queues/q", "/settings/retry_backoff/cap_ms", nil, append(large, "2592000001"), []string{"0 (none) to 2592000000"}},
		{"PUT", "/v1/queues/q", "/settings/expiry_backoff/base_ms", nil, append(large, "86400001"), []string{"0 (at once) to " + day}},
		{"PUT", "/v1/queues/q", "/settings/expiry_backoff/cap_ms", nil, append(large, "2592000001"), []string{"0 (none) to 2592000000"}},
		{"PUT", "/v1/queues/q", "/settings/retry_backoff/factor", nil, []string{"-1", "0.5", "101", "65536", "1e30", "1e400"}, []string{"1 to 100 are"}},
		{"PUT", "/v1/queues/q", "/settings/expiry_backoff/factor", nil, []string{"-1", "0.5", "101", "65536", "1e30", "1e400"}, []string{"1 to 100 are"}},
		{"PATCH", "/v1/queues/default", "/settings/max_attempts", settings, append(plain, "1001"), []string{"0 (no limit)", "1000 are"}},
		{"PATCH", "/v1/queues/default", "/settings/retention_seconds", settings, large, []string{"0 (for ever) to " + tenYears}},
		{"POST", insertPath, "/max_attempts", insert, append(plain, "1001"), []string{"0 (the queue's) to 1000 are"}},
		{"POST", insertPath, "/max_failed_chunks", insert, append(large, "4294967296"), []string{"0 (any number) to 4294967295 are"}},
		{"POST", insertPath, "/operations_per_chunk", insert, append(large, "4294967296"), []string{"4294967295 are"}},
		{"POST", insertPath, "/priority", insert, []string{"9007199254740992", "-9007199254740992", "9223372036854775808", "18446744073709551616", "1e30", "1.5"}, []string{"-9007199254740991 to 9007199254740991 are"}},
		{"POST", insertPath, "/chunks/count", chunks, append(large, "0", "4294967296"), []string{"1 to 4294967295 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/template/max_attempts", template, append(plain, "1001"), []string{"0 (the queue's) to 1000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/template/max_failed_chunks", template, append(large, "4294967296"), []string{"0 (any number) to 4294967295 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/template/dead_after_ms", template, append(large, "315360000001"), []string{"0 (none) to 315360000000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/catchup_limit", schedule, append(plain, "1001"), []string{"1 to 1000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/catchup_window_ms", schedule, append(large, "999", "31622400001"), []string{"1000 to 31622400000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/jitter_ms", schedule, append(large, "86400001"), []string{"0 to " + day + " are"}},
	} {
		body := test.body
		at := strings.Split(test.pointer, "/")
		if body == nil {
			body = backoff(at[2])
		}
		for _, number := range test.wrong {
			sent := body(fmt.Sprintf(`"%s":%s`, at[len(at)-1], number))
			if test.body == nil { // not the same field twice
				sent = strings.NewReplacer(`"base_ms":1,"factor":2,"cap_ms":10,"base_ms"`, `"factor":2,"cap_ms":10,"base_ms"`,
					`"base_ms":1,"factor":2,"cap_ms":10,"factor"`, `"base_ms":1,"cap_ms":10,"factor"`,
					`"factor":2,"cap_ms":10,"cap_ms"`, `"factor":2,"cap_ms"`).Replace(sent)
			}
			got := f.send(call{method: test.method, path: test.path, body: sent})
			p := got.problem(t)
			if got.status != 422 || len(p.Errors) != 1 || p.Errors[0].Pointer != test.pointer {
				t.Errorf("%s %s %s: got %d %s, want 422 at %s", test.method, test.path, sent, got.status, got.body, test.pointer)
				continue
			}
			for _, limit := range test.limit {
				if !strings.Contains(p.Errors[0].Detail, limit) {
					t.Errorf("%s %s %s: the refusal is %q, want %q in it", test.method, test.path, sent, p.Errors[0].Detail, limit)
				}
			}
		}
	}
}

// What a field allows at most, and at least, is accepted.
func TestNumbersAtTheLimit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/most", `{"settings":{"max_attempts":1000,"max_expiries":250,"suspect_share":1,"reservation_timeout_ms":86400000,"max_reservation_ms":86400000,
		"retention_seconds":315360000,"dead_retention_seconds":315360000,"consumer_grace_ms":3600000,"restart_grace_ms":600000,
		"retry_backoff":{"base_ms":86400000,"factor":100,"cap_ms":2592000000},"expiry_backoff":{"base_ms":86400000,"factor":100,"cap_ms":2592000000}}}`, 201, nil)
	f.do("PUT", "/v1/queues/least", `{"settings":{"max_attempts":0,"max_expiries":0,"suspect_share":0,"reservation_timeout_ms":100,"max_reservation_ms":100,
		"retention_seconds":0,"dead_retention_seconds":0,"consumer_grace_ms":0,"restart_grace_ms":0,
		"retry_backoff":{"base_ms":0,"factor":1,"cap_ms":0},"expiry_backoff":{"base_ms":0,"factor":1,"cap_ms":0}}}`, 201, nil)
	f.insert(`{"chunks":{"count":4294967295,"prefix":"p/"},"max_attempts":1000,"max_failed_chunks":4294967295,"priority":9007199254740991,"operations_per_chunk":4294967295}`)
	f.insert(`{"chunks":{"count":1,"prefix":"p/"},"max_attempts":0,"max_failed_chunks":0,"priority":-9007199254740991,"operations_per_chunk":0}`)
}
