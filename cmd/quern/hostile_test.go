//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// besieged is a server process of its own, with a client, under attack.
type besieged struct {
	*testing.T
	*client.Client
	server *server
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	s, err := startServer(quernCopy(t), os.Environ(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.end(syscall.SIGTERM); err != nil {
			t.Errorf("the server did not end well: %v; it said: %s", err, s.stderr.String())
		}
	})
	return &besieged{t, c, s}
}

// memory is the memory of the process that was started, in KiB: VmRSS is the current size, VmHWM the largest so far. It fails when the
// process is gone.
func (b *besieged) memory(field string) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.server.process.Process.Pid))
	if err != nil {
		b.Fatalf("the server is gone: %v; it said: %s", err, b.server.stderr.String())
	}
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		b.Fatalf("the server is dead: %s", status)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// one reserves one chunk and gives its text.
func (b *besieged) one(strategy string) string {
	got, err := b.Reserve(b.Context(), "default", &api.ReserveRequest{Max: 1, Strategy: []byte(strconv.Quote(strategy))})
	if err != nil || len(got.Reservations) != 1 {
		b.Errorf("%s: got %+v %v, want one chunk", strategy, got, err)
		return ""
	}
	return string(got.Reservations[0].Content.Bytes)
}

func (b *besieged) submit(count uint32, template string) {
	b.Helper()
	if _, err := b.Insert(b.Context(), "default", &api.NewSubmission{Chunks: api.Chunks{Count: count, Template: template}}); err != nil {
		b.Fatal(err)
	}
}

func declaration(name string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"version":"1.0.0","abi":1,"columns":["priority","age_ms"],"window":{"max":1024}}`, name)
}

// use uploads a module for two columns that must pass, and activates it.
func (b *besieged) use(module []byte, name string) {
	b.Helper()
	v, err := b.UploadPlugin(b.Context(), client.PluginUpload{Module: module, Manifest: declaration(name)})
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	if _, err := b.ActivatePlugin(b.Context(), name, api.PluginSelection{Version: v.SHA256}, client.Condition{}); err != nil {
		b.Fatalf("%s: %v", name, err)
	}
}

// Behaviours 10 and 11: a plugin that loops for ever, recurses for ever, calls exponentially, or fills memory for ever costs its own branch
// only. The next branches answer the same call, in their order. After three times the plugin is not asked any more. Nothing of it stays in
// memory.
func TestPluginBehaviour11EndlessPlugins(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	b.submit(1000, "{index}")
	b.use(wasmtest.Scorer(), "good")
	for range 20 {
		b.one(`Plugin("good", OldestFirst)`)
	}
	next := 20
	for name, module := range map[string][]byte{
		"loop":        wasmtest.Moody(wasmtest.NotDry(), wasmtest.Endless()),
		"recursion":   wasmtest.Moody(wasmtest.NotDry(), wasmtest.Recursion()),
		"exponential": wasmtest.MoodyTree(wasmtest.NotDry()),
		"fill":        wasmtest.Moody(wasmtest.NotDry(), wasmtest.FillLoop()),
	} {
		b.use(module, name)
		before := b.memory("VmRSS")
		if got := b.one(`OrElse(Plugin("` + name + `", OldestFirst), OldestFirst)`); got != strconv.Itoa(next) {
			t.Errorf("%s: got chunk %q, want %d, the next one in order", name, got, next)
		}
		next++
		grown := b.memory("VmRSS") - before
		t.Logf("%s: one batch left the server's memory %d KiB larger", name, grown)
		if grown >= 32<<10 {
			t.Errorf("%s: the server's memory grew by %d KiB, want less than 32 MiB", name, grown)
		}
		for _, strategy := range []string{`OrElse(Plugin("` + name + `", OldestFirst), OldestFirst)`, `Plugin("` + name + `", OldestFirst)`} {
			for range 2 {
				if got := b.one(strategy); got != strconv.Itoa(next) {
					t.Errorf("%s: got chunk %q, want %d, the next one in order", strategy, got, next)
				}
				next++
			}
		}
		p, err := b.Plugin(b.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := b.PluginStats(b.Context(), name, "")
		if err != nil {
			t.Fatal(err)
		}
		faults := uint64(0)
		for _, kind := range []string{"fuel", "depth", "deadline"} {
			faults += stats.Faults[kind]
		}
		if p.State != "open" || faults != 3 || stats.Fallbacks != 5 {
			t.Errorf("%s: got %s, %+v; want it open after three faults and five fallbacks", name, p.State, stats)
		}
	}
}

// Each hostile module of the corpus is sent to a live server while consumers reserve through a good plugin. The process stays the one that
// was started, every reserve gets its chunk, memory is bounded, and a refused module cannot be activated. A module that is let in, because
// the host bounds it, is put to use, and the reserves go on.
//
// The test reports how long a reserve took, without judging it: for the same consumers, before the corpus was sent and meanwhile; and
// through the hostile plugins themselves. The test and the compiling children share the machine's cores with the server.
func TestHostileCorpusAgainstALiveServer(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	b.submit(4_000_000_000, "x")
	b.use(wasmtest.Scorer(), "good")
	for range 200 {
		b.one(`Plugin("good", OldestFirst)`)
	}
	rss, peak := b.memory("VmRSS"), b.memory("VmHWM")
	var stop, besieged atomic.Bool
	var served atomic.Int64
	var before, during, through latencies
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for !stop.Load() && !t.Failed() {
				into := &before
				if besieged.Load() {
					into = &during
				}
				into.time(func() { b.one(`OrElse(Plugin("good", OldestFirst), OldestFirst)`) })
				served.Add(1)
			}
		})
	}
	for served.Load() < 4_000 && !t.Failed() { // only the same consumers
		b.memory("VmRSS")
	}
	besieged.Store(true)
	allowed := 0
	for _, hostile := range wasmtest.Corpus() {
		had := served.Load()
		if b.attack(&hostile, &through) {
			allowed++
		}
		for served.Load() < had+8 && !t.Failed() { // consumers are served after it too
			b.memory("VmRSS")
		}
	}
	stop.Store(true)
	group.Wait()
	nowRSS, nowPeak := b.memory("VmRSS"), b.memory("VmHWM")
	t.Logf("%d modules, %d let in, %d reserves; memory %d KiB before, %d after, %d at most", len(wasmtest.Corpus()), allowed, served.Load(), rss, nowRSS, nowPeak)
	report(t, &before, &during, &through)
	if grown := nowPeak - peak; grown > 192<<10 {
		t.Errorf("the server's memory grew by %d KiB at its peak, want at most 192 MiB", grown)
	}
}

// attack sends a module, and says whether it was let in. Reserves through it are timed.
func (b *besieged) attack(h *wasmtest.Hostile, through *latencies) bool {
	b.Helper()
	name := strings.ToLower(strings.ReplaceAll("evil-"+h.Name, "_", "-"))
	u := client.PluginUpload{Module: h.Build()}
	if len(u.Module) >= 8 && bytes.HasPrefix(u.Module, []byte(wasmtest.Header)) {
		if _, err := manifest.Pack(u.Module, declaration(name)); err == nil && h.Name != "manifest_64KB" && h.Name != "manifest_twice" {
			u.Manifest = declaration(name)
		}
	}
	harmless := h.Stage == wasmtest.Run && (h.Fault == wasmtest.Harmless || h.Fault == wasmtest.BadScores)
	_, err := b.UploadPlugin(b.Context(), u)
	var refused *client.Error
	if err != nil && (!errors.As(err, &refused) || refused.Status < 400 || refused.Status >= 500) {
		b.Errorf("%s: got %v, want it refused", h.Name, err)
		return false
	}
	if err == nil && !harmless {
		b.Errorf("%s was let in", h.Name)
	}
	p, failure := b.ActivatePlugin(b.Context(), name, api.PluginSelection{Version: "1.0.0"}, client.Condition{})
	if (failure == nil) != (err == nil) {
		b.Errorf("%s: uploading: %v; activating: got %+v %v", h.Name, err, p, failure)
	}
	if err != nil {
		return false
	}
	for range 4 {
		through.time(func() { b.one(`OrElse(Plugin("` + name + `", OldestFirst), OldestFirst)`) })
	}
	return true
}
