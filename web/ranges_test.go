package web

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// Every number of queue settings, submissions and schedules that is outside of its documented range is refused with the
// field, the allowed range as docs/LIFECYCLE.md has it, and nothing about the server's type for it.
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
		{"PUT", "/v1/queues/q", "/settings/consumer_grace_ms", settings, append(large, "3600001"), []string{"0 (at once) to 3,600,000"}},
		{"PUT", "/v1/queues/q", "/settings/restart_grace_ms", settings, append(large, "600001"), []string{"0 (none) to 600,000"}},
		{"PUT", "/v1/queues/q", "/settings/retry_backoff/base_ms", nil, append(large, "86400001"), []string{"0 (at once) to " + day}},
		{"PUT", "/v1/queues/q", "/settings/retry_backoff/cap_ms", nil, append(large, "2592000001"), []string{"0 (none) to 2,592,000,000"}},
		{"PUT", "/v1/queues/q", "/settings/expiry_backoff/base_ms", nil, append(large, "86400001"), []string{"0 (at once) to " + day}},
		{"PUT", "/v1/queues/q", "/settings/expiry_backoff/cap_ms", nil, append(large, "2592000001"), []string{"0 (none) to 2,592,000,000"}},
		{"PUT", "/v1/queues/q", "/settings/retry_backoff/factor", nil, []string{"-1", "0.5", "101", "65536", "1e30", "1e400"}, []string{"1 to 100 are"}},
		{"PUT", "/v1/queues/q", "/settings/expiry_backoff/factor", nil, []string{"-1", "0.5", "101", "65536", "1e30", "1e400"}, []string{"1 to 100 are"}},
		{"PATCH", "/v1/queues/default", "/settings/max_attempts", settings, append(plain, "1001"), []string{"0 (no limit)", "1000 are"}},
		{"PATCH", "/v1/queues/default", "/settings/retention_seconds", settings, large, []string{"0 (for ever) to " + tenYears}},
		{"POST", insertPath, "/max_attempts", insert, append(plain, "1001"), []string{"0 (the queue's) to 1,000 are"}},
		{"POST", insertPath, "/max_failed_chunks", insert, append(large, "4294967296"), []string{"0 (any number) to 4,294,967,295 are"}},
		{"POST", insertPath, "/timeout_ms", insert, append(large, "99", "86400001"), nil},
		{"POST", insertPath, "/operations_per_chunk", insert, append(large, "4294967296"), []string{"4294967295 are"}},
		{"POST", insertPath, "/priority", insert, []string{"9007199254740992", "-9007199254740992", "9223372036854775808", "18446744073709551616", "1e30", "1.5"}, []string{"-9,007,199,254,740,991 to 9,007,199,254,740,991 are"}},
		{"POST", insertPath, "/chunks/count", chunks, append(large, "0", "4294967296"), []string{"1 to 4,294,967,295 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/template/max_attempts", template, append(plain, "1001"), []string{"0 (the queue's) to 1,000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/template/max_failed_chunks", template, append(large, "4294967296"), []string{"0 (any number) to 4,294,967,295 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/template/dead_after_ms", template, append(large, "315360000001"), []string{"0 (none) to 315,360,000,000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/catchup_limit", schedule, append(plain, "1001"), []string{"1 to 1,000 are"}},
		{"PUT", "/v1/queues/default/schedules/s", "/catchup_window_ms", schedule, append(large, "999", "31622400001"), []string{"1,000 to 31,622,400,000 are"}},
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
				if !strings.Contains(withoutCommas(p.Errors[0].Detail), withoutCommas(limit)) {
					t.Errorf("%s %s %s: the refusal is %q, want %q in it", test.method, test.path, sent, p.Errors[0].Detail, limit)
				}
			}
		}
	}
}

// The largest and the smallest number that a field allows are accepted.
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

// numberCall is a call with a number that a tag of package api limits.
type numberCall struct {
	of           reflect.Type // that has the field
	field        string       // in JSON
	method, path string
	body         string // with %s for the number
}

// numberCalls have all such numbers of requests. Those of plugins depend on the version, and are tested with plugins.
func numberCalls(submission string) []numberCall {
	bulk := func(of reflect.Type, field, body string) numberCall {
		return numberCall{of, field, "POST", "/v1/bulk-operations", body}
	}
	strategy := func(of reflect.Type, field, path, body string) numberCall {
		return numberCall{of, field, "POST", "/v1/queues/default/strategies/" + path, body}
	}
	reserve := func(field string) numberCall {
		body := `{"max":1,"` + field + `":%s}`
		if field == "max" {
			body = `{"max":%s}`
		}
		return numberCall{reflect.TypeFor[api.ReserveRequest](), field, "POST", "/v1/queues/default/reservations", body}
	}
	return []numberCall{
		reserve("max"), reserve("timeout_ms"), reserve("wait_ms"),
		{reflect.TypeFor[api.ExtendItem](), "timeout_ms", "POST", "/v1/queues/default/reservations/extend",
			`{"items":[{"token":"x","timeout_ms":%s}]}`},
		{reflect.TypeFor[api.WaitRequest](), "wait_ms", "POST", "/v1/submissions:wait", `{"ids":["` + submission + `"],"wait_ms":%s}`},
		{reflect.TypeFor[api.Chunks](), "count", "POST", insertPath, `{"chunks":{"prefix":"p/","count":%s}}`},
		bulk(reflect.TypeFor[api.BulkRequest](), "priority", `{"queue":"default","action":"reprioritize","priority":%s}`),
		bulk(reflect.TypeFor[api.BulkRequest](), "rate_per_second", `{"queue":"default","action":"redrive","rate_per_second":%s}`),
		bulk(reflect.TypeFor[api.BulkFilter](), "oldest", `{"queue":"default","action":"redrive","filter":{"oldest":%s}}`),
		strategy(reflect.TypeFor[api.PreviewRequest](), "max", "preview", `{"max":%s}`),
		strategy(reflect.TypeFor[api.PreviewRequest](), "seed", "preview", `{"seed":%s}`),
		strategy(reflect.TypeFor[api.CompareRequest](), "max", "compare", `{"a":"Random","b":"OldestFirst","max":%s}`),
		strategy(reflect.TypeFor[api.CompareRequest](), "seed", "compare", `{"a":"Random","b":"OldestFirst","seed":%s}`),
		{reflect.TypeFor[api.SchedulePreviewRequest](), "n", "POST", "/v1/queues/default/schedules/preview", `{"spec":"@hourly","n":%s}`},
		{reflect.TypeFor[api.BackfillRequest](), "limit", "POST", "/v1/queues/default/schedules/s/backfill",
			`{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","limit":%s}`},
		{reflect.TypeFor[api.ValueSettings](), "limit", "PUT", "/v1/queues/default/meta-keys/k/values/1", `{"limit":%s}`},
		{reflect.TypeFor[api.ValueSettings](), "weight", "PUT", "/v1/queues/default/meta-keys/k/values/1", `{"weight":%s}`},
	}
}

// withoutCommas is a text without the commas in its numbers, to compare them.
func withoutCommas(text string) string { return strings.ReplaceAll(text, ",", "") }

// Each number of a request that a tag limits is refused beyond that limit, with its field and the limit.
func TestLimitsOfTagsHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("PUT", "/v1/queues/default/schedules/s", `{"spec":"@hourly","template":{"chunks":{"count":1,"prefix":"p/"}}}`, 201, nil)
	for _, c := range numberCalls(f.insert(`{"chunks":{"count":1,"prefix":"p/"}}`).ID) {
		field, _ := fieldNamed(c.of, c.field)
		limit := api.LimitOf(field)
		number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
		for _, wrong := range []string{number(*limit.Most + 1), "1e30", number(*limit.Least - 1)} {
			got := f.send(call{method: c.method, path: c.path, body: fmt.Sprintf(c.body, wrong)})
			p := got.problem(t)
			if got.status != 422 || len(p.Errors) != 1 || !strings.HasSuffix(p.Errors[0].Pointer, "/"+c.field) {
				t.Errorf("%s %s: %s for %s of %s gave %d %s, want 422 with its pointer", c.method, c.path, wrong, c.field, c.of.Name(), got.status, got.body)
			} else if !strings.Contains(withoutCommas(p.Errors[0].Detail), number(*limit.Most)) {
				t.Errorf("%s %s: the refusal of %s is %q, want the limit %s in it", c.method, c.path, wrong, p.Errors[0].Detail, number(*limit.Most))
			}
		}
	}
}
