package web

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// The etag of a plugin that was never changed is a condition like any other: it holds once.
func TestETagOfAPluginThatWasNeverChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.upload(wasmtest.Scorer(), declared("order", "1.0.0", "priority", "age_ms"), 201)
	var p api.Plugin
	f.do("GET", "/v1/plugins/order", "", 200, &p)
	send := func() int {
		return f.send(call{method: "POST", path: "/v1/plugins/order/activate", body: `{"version":"1.0.0"}`, header: map[string]string{"If-Match": p.ETag}}).status
	}
	if first, second := send(), send(); first != 200 || second != 412 {
		t.Errorf("If-Match %s: got %d and then %d, want 200 and then 412", p.ETag, first, second)
	}
}

// A ledger has for every tenant the amount that it received and its fair share, in the requested order. The lags add up
// to 0.
func TestLedgerTellsWhoReceivedWhat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for company := range 3 {
		f.insert(fmt.Sprintf(`{"meta":{"company":"c%d"},"chunks":{"count":400,"prefix":"x/"}}`, company))
	}
	f.insert(`{"chunks":{"count":400,"prefix":"none/"}}`)
	f.do("PUT", "/v1/queues/default/meta-keys/company/values/c0", `{"weight":2}`, 201, nil)
	const strategy = `"Fair(\"company\", Fair(\"$submission\", OldestFirst))"`
	f.reserve(`{"max":51,"strategy":` + strategy + `}`)

	var list api.Page[api.Ledger]
	f.do("GET", "/v1/queues/default/ledgers", "", 200, &list)
	if len(list.Items) != 2 || list.Items[0].Key != "company" || list.Items[0].Active != 4 || list.Items[1].Depth != 1 || list.Items[1].Places != 4 || list.Items[1].Key != "$submission" {
		t.Fatalf("got %+v, want the ledger of companies with 4 tenants and the one of submissions inside of each", list.Items)
	}
	var got api.LedgerTenants
	f.do("GET", "/v1/queues/default/ledgers/"+list.Items[0].ID, "", 200, &got)
	if got.Tenants != 4 || !got.Whole || got.Received != 51 || math.Abs(got.Lag) > 1e-6 || math.Abs(got.Entitled-51) > 1e-6 {
		t.Errorf("got %+v, want 4 tenants that received the 51 chunks that were reserved, with lags that add up to 0", got)
	}
	shares, sum := 0.0, 0.0
	for i, tenant := range got.Items {
		want := 10.2 // of 51: one of five parts, and two of them for the weight 2
		if tenant.Weight == 2 {
			want *= 2
		}
		if math.Abs(tenant.Entitled-want) > 1e-6 || math.Abs(tenant.Received-want) > 1 || math.Abs(tenant.Entitled-tenant.Received-tenant.Lag) > 1e-6 {
			t.Errorf("tenant %+v: want %g, give or take a chunk", tenant, want)
		}
		if i > 0 && tenant.Received > got.Items[i-1].Received {
			t.Errorf("by received: %g comes after %g", tenant.Received, got.Items[i-1].Received)
		}
		shares += tenant.Share
		sum += tenant.Lag
	}
	if math.Abs(shares-1) > 1e-6 || math.Abs(sum) > 1e-6 || slices.IndexFunc(got.Items, func(t api.LedgerTenant) bool { return t.Value == nil }) < 0 {
		t.Errorf("got shares of %g, lags of %g, tenants %+v; want 1, 0, and the one without a company", shares, sum, got.Items)
	}
	var behind, ahead, inner api.LedgerTenants
	f.do("GET", "/v1/queues/default/ledgers/"+list.Items[0].ID+"?sort=behind&limit=1", "", 200, &behind)
	f.do("GET", "/v1/queues/default/ledgers/"+list.Items[0].ID+"?sort=ahead&limit=1", "", 200, &ahead)
	if len(behind.Items) != 1 || behind.Items[0].Lag != behind.MostBehind || len(ahead.Items) != 1 || ahead.Items[0].Lag != ahead.MostAhead || behind.MostBehind <= ahead.MostAhead || behind.Tenants != 4 {
		t.Errorf("got %+v and %+v, want the tenant with the largest lag and the one with the least", behind, ahead)
	}
	f.do("GET", "/v1/queues/default/ledgers/"+list.Items[1].ID, "", 200, &inner)
	if len(inner.Items) != 4 || len(inner.Items[0].Around) != 1 || inner.Received != 51 {
		t.Errorf("got %+v, want one submission inside of each company", inner)
	}
}

// A map counts every chunk once, in cells of one size, in any part and over slices and ends; once all is done, it is all done.
func TestMapCountsEveryChunkOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const chunks = 5003
	id := f.insert(fmt.Sprintf(`{"chunks":{"count":%d,"prefix":"x/"}}`, chunks)).ID
	held := f.reserve(`{"max":1000,"strategy":"OldestFirst"}`).Reservations
	finish := func(verb, extra string, from, to int) {
		body := ""
		for _, r := range held[from:to] {
			body += fmt.Sprintf(`,{"token":%q%s}`, r.Token, extra)
		}
		f.do("POST", "/v1/queues/default/reservations/"+verb, `{"items":[`+body[1:]+`]}`, 200, nil)
	}
	finish("complete", "", 0, 300)
	finish("fail", `,"retry_after_ms":3600000`, 300, 310)
	for _, part := range []struct {
		query    string
		from, to uint32
		each     uint32
	}{{"", 0, chunks, 11}, {"?cells=1", 0, chunks, chunks}, {"?cells=1000", 0, chunks, 6}, {"?from=290&to=320&cells=30", 290, 320, 1}, {"?from=5000", 5000, chunks, 1}} {
		var m api.ChunkMap
		f.do("GET", "/v1/submissions/"+id+"/map"+part.query, "", 200, &m)
		want := api.ChunkMap{Chunks: chunks, From: part.from, To: part.to, Each: part.each}
		if m.Chunks != want.Chunks || m.From != want.From || m.To != want.To || m.Each != want.Each {
			t.Errorf("%s: got %+v, want %+v", part.query, m, want)
		}
		done := map[uint32]bool{}
		for _, r := range held[:300] {
			done[r.Index] = true
		}
		for i := range m.Done {
			start := m.From + uint32(i)*m.Each
			size := min(m.Each, m.To-start)
			if sum := m.Ready[i] + m.Waiting[i] + m.Reserved[i] + m.Done[i] + m.Dead[i] + m.Skipped[i]; sum != size {
				t.Errorf("%s, cell %d: counts %d chunks, want %d", part.query, i, sum, size)
			}
			count := uint32(0)
			for index := start; index < start+size; index++ {
				if done[index] {
					count++
				}
			}
			if m.Done[i] != count {
				t.Errorf("%s, cell %d: got %d done, want %d", part.query, i, m.Done[i], count)
			}
		}
	}
	var one api.ChunkMap
	f.do("GET", "/v1/submissions/"+id+"/map?cells=1", "", 200, &one)
	if one.Done[0] != 300 || one.Waiting[0] != 10 || one.Reserved[0] != 690 || one.Ready[0] != chunks-1000 {
		t.Errorf("got %+v, want 300 done, 10 waiting, 690 reserved and the rest ready", one)
	}
	for _, rule := range [][2]string{{"pause", api.ObstaclePaused}, {"block", api.ObstacleBlocked}} { // the stronger one counts
		f.do("POST", "/v1/queues/default/rules", fmt.Sprintf(`{"action":%q,"match":{"submission":%q},"reason":"x"}`, rule[0], id), 201, nil)
		f.do("GET", "/v1/submissions/"+id+"/map?cells=1", "", 200, &one)
		if one.Ruling != rule[1] || one.Ready[0] != chunks-1000 {
			t.Errorf("%s: got %+v, want the same chunks, %s", rule[0], one, rule[1])
		}
	}
	f.do("POST", "/v1/submissions/"+id+"/cancel", "", 200, nil)
	one = api.ChunkMap{}
	f.do("GET", "/v1/submissions/"+id+"/map?cells=1", "", 200, &one)
	if one.Done[0] != 300 || one.Skipped[0] != chunks-300 || one.Ruling != "" {
		t.Errorf("cancelled: got %+v, want 300 done and the others skipped", one)
	}
	for _, wrong := range []string{"?cells=1001", "?from=5003", "?from=9&to=9", "?cells=-1"} {
		if got := f.send(call{method: "GET", path: "/v1/submissions/" + id + "/map" + wrong}); got.status != 422 {
			t.Errorf("%s: got %d %s, want 422", wrong, got.status, got.body)
		}
	}
	if engine.MaxMapped < 1_000_000 {
		t.Errorf("a map looks at %d chunks, want a million at least", engine.MaxMapped)
	}
}

// A map of more chunks than the server looks at shows all of them, as it looks at one in every few: as many in each cell, the
// same ones each time, and every one of a shorter range.
func TestMapOfALargeSubmission(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const chunks, every = 3*engine.MaxMapped + 7, 4
	id := f.insert(fmt.Sprintf(`{"chunks":{"count":%d,"prefix":"x/"}}`, chunks)).ID
	read := func(query string) (m api.ChunkMap, sums []uint32) {
		t.Helper()
		f.do("GET", "/v1/submissions/"+id+"/map"+query, "", 200, &m)
		for i := range m.Done {
			sums = append(sums, m.Ready[i]+m.Waiting[i]+m.Reserved[i]+m.Done[i]+m.Dead[i]+m.Skipped[i])
		}
		return m, sums
	}
	taken := uint32(0)
	for range 20 {
		taken += uint32(len(f.reserve(`{"max":1000,"strategy":"OldestFirst"}`).Reservations))
	}
	m, sums := read("?cells=8")
	if m.From != 0 || m.To != chunks || m.Each != (chunks+7)/8 || m.Every != every || len(sums) != 8 {
		t.Fatalf("got %+v, want 8 cells of all %d chunks, one in %d examined", m, chunks, every)
	}
	met, reserved := uint32(0), uint32(0)
	for i, n := range sums {
		if most := m.Each/every + 1; n > most+1 || n+2 < most-1 {
			t.Errorf("cell %d: %d chunks were examined, want about %d", i, n, most)
		}
		met, reserved = met+n, reserved+m.Reserved[i]
	}
	if want := uint32((chunks + every - 1) / every); met != want {
		t.Errorf("%d chunks were examined, want %d", met, want)
	}
	if reserved < taken/every/2 || reserved > taken/every*2 {
		t.Errorf("%d of the examined chunks are reserved; of all %d are, so about %d were expected", reserved, taken, taken/every)
	}
	if again, _ := read("?cells=8"); !reflect.DeepEqual(again, m) {
		t.Errorf("read again: got %+v, want %+v", again, m)
	}
	total := uint32(0)
	for from := uint32(0); from < chunks; from += engine.MaxMapped {
		part, sums := read(fmt.Sprintf("?cells=1&from=%d&to=%d", from, from+engine.MaxMapped))
		if part.Every != 1 || sums[0] != min(engine.MaxMapped, chunks-from) {
			t.Errorf("from %d: got %+v, want every chunk", from, part)
		}
		total += part.Reserved[0]
	}
	if total != taken {
		t.Errorf("the parts have %d reserved chunks, want %d", total, taken)
	}
	f.do("POST", "/v1/submissions/"+id+"/cancel", "", 200, nil)
	if m, sums = read("?cells=1"); m.Every != every || m.Skipped[0] != sums[0] || sums[0] != met {
		t.Errorf("cancelled: got %+v, want all %d skipped", m, met)
	}
}

// The attempts of a chunk are shown while it may be tried again, also when the submission has ended with it.
func TestAttemptsOfAChunkAreReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.insert(`{"chunks":{"count":1,"prefix":"x/"},"on_exhausted":"dead_letter","max_attempts":3}`).ID
	path := "/v1/submissions/" + id + "/chunks/0/attempts"
	for i := range 2 {
		r := f.reserve(fmt.Sprintf(`{"max":1,"consumer":"w%d"}`, i)).Reservations[0]
		f.do("POST", "/v1/queues/default/reservations/fail", fmt.Sprintf(`{"items":[{"token":%q,"error":"e%d","retry_after_ms":0,"fatal":%v}]}`, r.Token, i, i == 1), 200, nil)
		var got api.Page[api.Attempt]
		f.do("GET", path, "", 200, &got)
		if len(got.Items) != i+1 || got.Items[i].Consumer != fmt.Sprint("w", i) || got.Items[i].Error != fmt.Sprint("e", i) || got.Items[i].EndedAt.IsZero() {
			t.Errorf("after try %d: got %+v", i, got.Items)
		}
	}
}

// A map of the largest submission has as many cells as asked for, which count all chunks that it looks at.
func TestMapOfTheLargestSubmission(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.insert(fmt.Sprintf(`{"chunks":{"count":%d,"prefix":"x/"}}`, uint32(api.MaxChunks))).ID
	for _, cells := range []int{1, 2, 3, 5, 500, 1000} {
		var m api.ChunkMap
		f.do("GET", fmt.Sprintf("/v1/submissions/%s/map?cells=%d", id, cells), "", 200, &m)
		looks := uint32(0)
		for _, n := range m.Ready {
			looks += n
		}
		if want := uint32(api.MaxChunks-1)/m.Every + 1; len(m.Ready) > cells || uint64(len(m.Ready))*uint64(m.Each) < api.MaxChunks || looks != want {
			t.Errorf("%d cells: %d cells of %d chunks count %d; want all chunks in cells, and %d of them counted", cells, len(m.Ready), m.Each, looks, want)
		}
	}
}
