package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// While consumers reserve through a plugin, versions are activated and rolled back: no request fails, and each answer is in the order of the
// one version or of the other.
//
//quern:overlapping
func TestPluginBehaviour21SwitchingUnderLoad(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	const consumers = 3
	for c := range consumers { // each has a queue of its own, so that every answer is a whole order
		name := fmt.Sprintf("q%d", c)
		s.queue(name, api.QueueSettingsInput{})
		for i, priority := range []int64{3, 1, 4, 2, 6, 5} {
			s.insert(name, api.NewSubmission{Priority: priority, Chunks: api.Chunks{Count: 1, Template: fmt.Sprint(i)}})
		}
	}
	first := s.use(wasmtest.Scorer(), "switch", "priority", "limit:none")
	second := s.upload(wasmtest.Scorer(), declared("switch", "2.0.0", "limit:none", "priority")) // the lowest priority first
	one, two := "4 5 2 0 3 1", "1 3 0 2 5 4"
	var stop atomic.Bool
	var served [consumers]atomic.Int64
	var byOne, byTwo atomic.Int64
	var group sync.WaitGroup
	for c := range consumers {
		group.Go(func() {
			for !stop.Load() {
				path := queuePath(fmt.Sprintf("q%d", c), "/reservations")
				var got api.ReserveResponse
				if err := s.ask(context.WithoutCancel(t.Context()), "POST", path, request(`Plugin("switch", explore=0, OldestFirst)`, 6), &got); err != nil {
					t.Errorf("reserve: %v", err)
					return
				}
				var texts []string
				back := api.ReleaseRequest{}
				for _, r := range got.Reservations {
					texts = append(texts, string(r.Content.Bytes))
					back.Items = append(back.Items, api.ReleaseItem{Token: r.Token})
				}
				switch strings.Join(texts, " ") {
				case one:
					byOne.Add(1)
				case two:
					byTwo.Add(1)
				default:
					t.Errorf("got the order %q, want %q or %q", texts, one, two)
					return
				}
				var results api.ResultsResponse
				if err := s.ask(context.WithoutCancel(t.Context()), "POST", path+"/release", back, &results); err != nil {
					t.Errorf("release: %v", err)
					return
				}
				served[c].Add(1)
			}
		})
	}
	slowest := time.Duration(0)
	wait := func() { // until every consumer was answered twice more: the second time wholly after the change
		for c := range consumers {
			for before := served[c].Load(); served[c].Load() < before+2 && !t.Failed(); {
				s.plugin("switch")
			}
		}
	}
	for range 10 {
		s.activate("switch", "2.0.0")
		wait()
		began := time.Now()
		var p api.Plugin
		s.do("POST", "/v1/plugins/switch/rollback", nil, 200, &p)
		slowest = max(slowest, time.Since(began))
		if p.Active.SHA256 != first.SHA256 || p.Previous.SHA256 != second.SHA256 {
			t.Fatalf("rolled back: got %+v, want version 1 in the place of version 2", p)
		}
		wait()
	}
	stop.Store(true)
	group.Wait()
	if byOne.Load() == 0 || byTwo.Load() == 0 {
		t.Errorf("%d answers of version 1 and %d of version 2, want both", byOne.Load(), byTwo.Load())
	}
	if stats := s.pluginStats("switch"); stats.Fallbacks != 0 || len(stats.Faults) != 0 {
		t.Errorf("got %+v, want no faults and no fallbacks", stats)
	}
	t.Logf("%d answers of version 1, %d of version 2, the slowest of 10 rollbacks %v", byOne.Load(), byTwo.Load(), slowest)
}

// A server that starts takes its plugins from the compile cache: it needs no compiler for them. A damaged file in it is rebuilt, which is
// logged, and the server serves.
func TestPluginBehaviour22RestartFromTheCache(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	s.put("low", 100, 1, nil)
	s.put("high", 100, 2, nil)
	s.use(wasmtest.Scorer(), "cached", "priority", "limit:none")
	const only = `Plugin("cached", explore=0, OldestFirst)`
	s.wantTexts(only, 1, "high")

	s.change = func(o *plugins.Options) { o.Child = []string{filepath.Join(s.dir, "no compiler")} }
	s.reopen(time.Minute)
	s.wantTexts(only, 1, "high")
	if p := s.plugin("cached"); p.State != "active" {
		t.Errorf("without a compiler: got %+v, want it active", p)
	}

	const rebuilt = "was damaged and has been rebuilt"
	if strings.Contains(s.log.String(), rebuilt) {
		t.Error("something was rebuilt before anything was damaged")
	}
	s.change = nil
	for name, damage := range map[string]func([]byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"flipped": func(b []byte) []byte { b = slices.Clone(b); b[len(b)/2] ^= 0x40; return b },
		"emptied": func([]byte) []byte { return nil },
	} {
		files := filesBelow(t, filepath.Join(s.dir, "plugins"))
		if len(files) == 0 {
			t.Fatal("there is no cache file")
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := strings.Count(s.log.String(), rebuilt)
		s.reopen(time.Minute)
		s.wantTexts(only, 1, "high")
		if got := strings.Count(s.log.String(), rebuilt); got != before+1 {
			t.Errorf("%s: the log says %d times that code was rebuilt, want once more than %d", name, got, before)
		}
	}
}

// With the state reset a recorded batch gives the same bits a hundred times, in the server's sandboxes and in others; with the state pooled
// the same plugin, which counts, does not.
func TestPluginBehaviour23ReplayIsBitExact(t *testing.T) {
	t.Parallel()
	s := newPluginScene(t, nil)
	for i := range 5 {
		s.put(fmt.Sprint(i), 20, int64(i), nil)
	}
	recorded := func(name, more string) (module, file []byte, id uint64) {
		text := strings.TrimSuffix(declared(name, "1.0.0", "priority"), "}") + more + "}"
		s.upload(wasmtest.Counter(), text)
		s.activate(name, "1.0.0")
		s.do("PUT", "/v1/plugins/"+name+"/settings", api.PluginSettings{RecordEvery: 1}, 200, nil)
		for range 3 {
			if got := s.texts(`Plugin("`+name+`", explore=0, OldestFirst)`, 2); len(got) != 2 {
				t.Fatalf("%s: got %v, want two chunks", name, got)
			}
			s.advance(time.Second) // the rest of a window is not used any more
		}
		var list api.Page[api.PluginRecording]
		s.do("GET", "/v1/plugins/"+name+"/recordings", nil, 200, &list)
		if len(list.Items) < 3 || list.Items[0].Rows == 0 || list.Items[0].Fault != "" {
			t.Fatalf("%s: got the recordings %+v, want three batches", name, list.Items)
		}
		id = list.Items[0].ID
		file = s.do("GET", fmt.Sprintf("/v1/plugins/%s/recordings/%d", name, id), nil, 200, nil).body
		module = s.do("GET", "/v1/plugins/"+name+"/versions/1.0.0/wasm", nil, 200, nil).body
		return module, file, id
	}
	module, file, id := recorded("reset", `,"state":"reset"`)
	record, err := abi.ReadRecord(file)
	if err != nil || len(record.Scores) == 0 {
		t.Fatalf("got %+v %v, want a recording with scores", record, err)
	}
	for n := range 100 {
		var tried api.PluginTried
		s.do("POST", "/v1/plugins/reset/versions/1.0.0/dry-run", api.PluginDryRun{Recording: id}, 200, &tried)
		if r := tried.Replay; r == nil || !r.Scored || !r.Identical || r.Different != 0 || r.Rows != len(record.Scores) {
			t.Fatalf("replay %d: got %+v, want the same bits of %d rows", n, r, len(record.Scores))
		}
	}
	for range 10 { // each in an instance of its own
		local, err := plugins.OpenLocal(t.Context(), module, nil, plugins.DefaultLimits(), func() time.Duration { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		scored, err := local.Replay(t.Context(), file)
		if err != nil || scored.Different() != 0 || len(scored.Recorded) != len(record.Scores) {
			t.Errorf("outside of the server: got %+v %v, want the same bits", scored, err)
		}
		if err := local.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, _, id = recorded("pooled", `,"state":"pooled"`)
	var tried api.PluginTried
	s.do("POST", "/v1/plugins/pooled/versions/1.0.0/dry-run", api.PluginDryRun{Recording: id}, 200, &tried)
	if tried.Replay == nil || tried.Replay.Identical {
		t.Errorf("pooled: got %+v, want other bits, or this test proves nothing", tried.Replay)
	}
}
