package plugins

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
)

// Observations are the numbers of plugins since the server started.
type Observations struct {
	*environment
	known   *registry
	open    *sandboxes
	plugins Plugins
}

// Stats are a plugin's numbers.
func (x Observations) Stats(name string) (api.PluginStats, error) {
	p := x.known.named(name)
	if p == nil {
		return api.PluginStats{}, unknownPlugin(name)
	}
	t := &p.totals
	s := api.PluginStats{
		Batches: t.batches.Load(), Candidates: t.candidates.Load(), Skipped: t.skipped.Load(),
		Unwritten: t.unwritten.Load(), Fallbacks: t.fallbacks.total(), FallbackReasons: t.fallbacks.byReason(),
		CPUShare: p.share.of(x.clock()), Breaker: x.plugins.breaker(p),
	}
	s.Faults, s.Counters, s.LastFault = t.maps()
	maps.DeleteFunc(s.Counters, func(_ string, v float64) bool { return math.IsInf(v, 0) || math.IsNaN(v) }) // sums may overflow
	if s.Candidates > 0 {
		s.NsPerCandidate = float64(t.nanoseconds.Load()) / float64(s.Candidates)
		s.FuelPerCandidate = float64(t.fuel.Load()) / float64(s.Candidates)
	}
	for _, u := range x.open.uses.all(name) {
		s.Instances += u.host.Instances()
		s.MemoryPages = max(s.MemoryPages, u.pages.Load())
	}
	_, s.LogsDropped = p.logs.after(0, 0)
	if record, _ := p.state(); !record.Shadow.None() {
		s.Shadow = &api.PluginShadow{SHA256: hexOf(record.Shadow.SHA256)}
		of, batches, dropped, overlap, tau := p.agreement.show()
		s.Shadow.Dropped = dropped
		if of.sum == record.Shadow.SHA256 {
			s.Shadow.Batches, s.Shadow.Overlap, s.Shadow.Tau = batches, overlap, tau
		}
		s.Shadow.Faults, _, _ = p.agreement.totals.maps()
	}
	return s, nil
}

// Logs lists up to limit lines that a plugin logged, behind a number, the oldest first.
func (x Observations) Logs(name string, after uint64, limit int) (lines []api.PluginLogLine, dropped uint64, err error) {
	p := x.known.named(name)
	if p == nil {
		return nil, 0, unknownPlugin(name)
	}
	lines, dropped = p.logs.after(after, limit)
	return lines, dropped, nil
}

// Recordings lists the batches that are kept of a plugin, the newest first.
func (x Observations) Recordings(name string) ([]api.PluginRecording, error) {
	p := x.known.named(name)
	if p == nil {
		return nil, unknownPlugin(name)
	}
	return p.recordings.list(), nil
}

// Recording gives the bytes of a recording: a .qbatch file as sdk/abi has it.
func (x Observations) Recording(name string, id uint64) ([]byte, error) {
	p := x.known.named(name)
	if p == nil {
		return nil, unknownPlugin(name)
	}
	file, ok := p.recordings.find(id)
	if !ok {
		return nil, &queue.Error{Code: queue.CodeUnknownPlugin,
			Message: "The plugin has no recording of that number; old ones make room for new ones."}
	}
	return file, nil
}

// Scores returns how the open versions of a plugin scored, those in use first.
func (x Observations) Scores(name string) ([]api.PluginScores, error) {
	p := x.known.named(name)
	if p == nil {
		return nil, unknownPlugin(name)
	}
	record, _ := p.state()
	var out []api.PluginScores
	for _, u := range x.open.uses.all(name) {
		one := u.samples.show()
		one.SHA256, one.Version, one.Config = hexOf(u.key.sum), u.version.Version, jsonOrEmpty([]byte(u.key.config))
		for role, use := range record.Uses() {
			if keyOf(use) == u.key {
				one.Uses = append(one.Uses, role)
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b api.PluginScores) int {
		return cmp.Or(rankOf(a.Uses)-rankOf(b.Uses), strings.Compare(a.SHA256, b.SHA256),
			strings.Compare(string(a.Config), string(b.Config)))
	})
	return out, nil
}

// rankOf puts what decides before what does not.
func rankOf(uses []string) int {
	for rank, role := range []string{"active", "canary", "shadow", "previous"} {
		if slices.Contains(uses, role) {
			return rank
		}
	}
	return math.MaxInt8
}

// logs keeps the last lines of a plugin, and takes this many a second.
type logs struct {
	most, rate int

	mu      sync.Mutex
	lines   []api.PluginLogLine // a ring once it is full
	number  uint64              // of the last line
	dropped uint64
	second  int64 // the second that taken counts
	taken   int
}

func newLogs(l *Limits) *logs { return &logs{most: l.LogLines, rate: l.LogsPerSecond} }

// levels are the names of abi.LevelDebug to abi.LevelError.
var levels = [...]string{"debug", "info", "warn", "error"}

// add takes the lines of a batch.
func (l *logs) add(now time.Time, v *version, r *host.Report, level int) {
	if len(r.Logs) == 0 && r.LogsDropped == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped += uint64(r.LogsDropped)
	if second := now.Unix(); second != l.second {
		l.second, l.taken = second, 0
	}
	for _, line := range r.Logs {
		if line.Level < level {
			continue
		}
		if l.taken >= l.rate {
			l.dropped++
			continue
		}
		l.taken++
		l.number++
		one := api.PluginLogLine{Number: l.number, Time: api.At(now), SHA256: short(v.SHA256), Version: v.Version,
			Level: levels[line.Level&3], Text: line.Text}
		if len(l.lines) < l.most {
			l.lines = append(l.lines, one)
		} else {
			l.lines[(l.number-1)%uint64(l.most)] = one
		}
	}
}

// after lists up to limit lines behind a number, the oldest first, and how many were dropped in all. A number that
// no line has had yet is from before a restart, after which numbers begin again at 1: its reader gets the new lines from the
// first.
func (l *logs) after(number uint64, limit int) (lines []api.PluginLogLine, dropped uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number > l.number {
		number = 0
	}
	first := max(number, l.number-uint64(len(l.lines)))
	for n := first; n < l.number && len(lines) < limit; n++ {
		lines = append(lines, l.lines[n%uint64(l.most)])
	}
	return lines, l.dropped
}
