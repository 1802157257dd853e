package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
)

// DryRun says how to try a version. Nothing is reserved, however it scores.
type DryRun struct {
	Config    []byte     // nil: that of the activation if the version is active, else the defaults
	Queue     string     // "" for synthetic candidates only
	Strategy  string     // whose candidates are scored, in text form
	Context   queue.Meta // of the reservation that would be made
	Rows      int        // candidates, 1 to the version's largest window; 0: its default window
	Want      int        // how many would be taken; 0: 10
	Recording uint64     // of the plugin, instead of candidates; 0: none
}

const (
	histogramBins = api.MaxPluginBins
	defaultWant   = 10
	maxPicks      = api.MaxPluginWant
)

// Try runs a version without any effect.
func (x *Versions) Try(ctx context.Context, name, text string, d DryRun) (api.PluginTried, error) {
	v, err := x.known.find(name, text)
	if err != nil {
		return api.PluginTried{}, err
	}
	if v.manifest == nil {
		return api.PluginTried{}, &queue.Error{Code: queue.CodeConflict,
			Message: "The version cannot be used by this server: " + v.state.Load().reason}
	}
	p := x.known.named(name)
	if p == nil { // deleted meanwhile
		return api.PluginTried{}, unknownPlugin(name)
	}
	config, err := x.scorers.configFor(p, v, &strategy.Scored{Config: d.Config})
	if err != nil {
		return api.PluginTried{}, err
	}
	if _, err := x.known.opened(); err != nil {
		return api.PluginTried{}, err
	}
	if err := x.turns.take(ctx); err != nil { // it takes a core for a while, as the check of an upload does
		return api.PluginTried{}, err
	}
	defer x.turns.give()
	u, err := x.open.use(ctx, v.SHA256, config)
	var fault *host.Fault
	if errors.As(err, &fault) && fault.Kind != host.Stopped {
		return api.PluginTried{}, queue.Invalid("/config", "is refused by the plugin: %s", fault.Error())
	}
	if err != nil {
		return api.PluginTried{}, fmt.Errorf("plugins: dry run: %w", crowded(err))
	}
	out := api.PluginTried{Report: api.PluginReport{Instructions: v.report.Instructions}}
	if err := dryRun(ctx, u.host, v.manifest, &out.Report); err != nil {
		return api.PluginTried{}, err
	}
	if d.Recording != 0 {
		if out.Replay, err = x.replay(ctx, p, u, d.Recording); err != nil {
			return api.PluginTried{}, err
		}
	}
	if d.Queue != "" {
		out.Live, err = x.live(ctx, p, u, &d)
	}
	return out, err
}

// replay scores a recording and compares the bits.
func (x *Versions) replay(ctx context.Context, p *plugin, u *use, id uint64) (*api.PluginReplay, error) {
	file, ok := p.recordings.find(id)
	if !ok {
		return nil, queue.Invalid("/recording", "is not there any more: old recordings make room for new ones")
	}
	record, err := abi.ReadRecord(file)
	if err != nil {
		return nil, fmt.Errorf("plugins: recording: %w", err)
	}
	if !slices.Equal(record.Columns, u.version.route.abi) {
		return nil, queue.Invalid("/recording", "has other columns than this version reads")
	}
	scores := make([]float64, record.Batch.Rows)
	if _, err := u.host.Try(ctx, &record.Batch, scores); err != nil {
		return nil, dryRunError("the recording", err)
	}
	out := &api.PluginReplay{Rows: len(scores), Scored: record.Scores != nil}
	for i := range record.Scores {
		if !sameScore(record.Scores[i], scores[i]) {
			out.Different++
		}
	}
	out.Identical = out.Scored && out.Different == 0
	return out, nil
}

// live scores the candidates that a queue has now.
func (x *Versions) live(ctx context.Context, p *plugin, u *use, d *DryRun) (*api.PluginLive, error) {
	x.known.mu.RLock()
	source := x.known.queues
	x.known.mu.RUnlock()
	if source == nil {
		return nil, &queue.Error{Code: queue.CodeConflict,
			Message: "This server does not show live candidates; leave queue out for synthetic ones."}
	}
	rows := cmp.Or(d.Rows, u.version.manifest.WindowDefault)
	if rows < 1 || rows > u.version.manifest.WindowMax {
		return nil, queue.Invalid("/rows", "is %d; the version takes 1 to %d candidates at once", rows, u.version.manifest.WindowMax)
	}
	tried := newScorer(x.scorers, p, u)
	now := p.now.Load()
	var active *route
	if now != nil && now.scorer.active.use != u && now.scorer.active.use.version.manifest.WindowMax >= rows {
		active = tried.add(now.scorer.active.use)
	}
	w, err := source.Candidates(ctx, d.Queue, d.Strategy, d.Context, tried.reads, rows)
	if err != nil {
		return nil, err
	}
	w.Dry, w.Want = true, d.Want
	if w.Want <= 0 {
		w.Want = defaultWant
	}
	w.Want = min(w.Want, maxPicks)
	scores, err := dryScores(ctx, tried.active, w)
	if err != nil {
		return nil, dryRunError("live candidates", err)
	}
	out := describe(scores, w.Want)
	out.Submissions = make([]string, len(w.Submissions))
	for i, id := range w.Submissions {
		out.Submissions[i] = id.String()
	}
	if active != nil {
		theirs, err := dryScores(ctx, active, w)
		if err == nil { // that the active one fails is seen elsewhere
			out.ActiveGained, out.ActiveLost = difference(top(scores, w.Want), top(theirs, w.Want))
			out.ActiveOverlap, out.ActiveTau = new(overlapOf(scores, theirs, w.Want)), new(tauOf(scores, theirs))
		}
	}
	return out, nil
}

// dryScores scores a window without any books.
func dryScores(ctx context.Context, r *route, w *strategy.Window) ([]float64, error) {
	scores := make([]float64, w.Rows)
	batch, err := r.use.version.route.fill(new(scratch), w, r.at, abi.FlagDryRun)
	if err != nil {
		return nil, err
	}
	_, err = r.use.host.Try(ctx, batch, scores)
	return scores, err
}

// describe says what would be taken by scores.
func describe(scores []float64, want int) *api.PluginLive {
	out := &api.PluginLive{Rows: len(scores), Histogram: histogram(scores), Picks: []api.PluginPick{}}
	for _, s := range scores {
		if s != s {
			out.Skipped++
		}
	}
	rows := top(scores, want)
	for _, row := range rows {
		pick := api.PluginPick{Row: row}
		if !math.IsInf(scores[row], 0) {
			pick.Score = &scores[row]
		}
		out.Picks = append(out.Picks, pick)
	}
	inner := make([]int, min(want, len(scores)))
	for i := range inner {
		inner[i] = i
	}
	out.Gained, out.Lost = difference(rows, inner)
	return out
}

// difference lists what is in a and not in b, and the reverse.
func difference(a, b []int) (gained, lost []int) {
	gained, lost = []int{}, []int{}
	for _, row := range a {
		if !slices.Contains(b, row) {
			gained = append(gained, row)
		}
	}
	for _, row := range b {
		if !slices.Contains(a, row) {
			lost = append(lost, row)
		}
	}
	return gained, lost
}

// histogram counts finite scores in bins of the same width; infinite ones are counted in the first and the last.
func histogram(scores []float64) []api.PluginBin {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range scores {
		if !math.IsNaN(s) && !math.IsInf(s, 0) {
			low, high = min(low, s), max(high, s)
		}
	}
	if low > high {
		return []api.PluginBin{}
	}
	bins := evenBins(low, high, histogramBins)
	for _, s := range scores {
		if !math.IsNaN(s) {
			bins[binAt(bins, s)].Count++
		}
	}
	return bins
}

// evenBins are n empty bins of the same width from low to high, or one if those are the same.
func evenBins(low, high float64, n int) []api.PluginBin {
	if low == high {
		n = 1
	}
	bins := make([]api.PluginBin, n)
	for i := range bins {
		bins[i].From = low + (high/float64(n)-low/float64(n))*float64(i)
		bins[i].To = low + (high/float64(n)-low/float64(n))*float64(i+1)
	}
	bins[n-1].To = high
	return bins
}

// binAt is the bin that a score is counted in, which is no NaN.
func binAt(bins []api.PluginBin, score float64) int {
	at, _ := slices.BinarySearchFunc(bins, score, func(b api.PluginBin, s float64) int {
		if b.To <= s {
			return -1
		}
		return 1
	})
	return min(at, len(bins)-1)
}

// fallback is why a request goes on without a plugin.
type fallback int

const (
	fellFault    fallback = iota // it failed
	fellBreaker                  // its breaker is open, or an operator holds it
	fellInactive                 // no version is active, or it is quarantined
	fellStarting                 // its sandbox is not ready yet
	fellMemory                   // all plugins together have the memory that they may have
	fellBusy                     // too many batches wait for it
	fallbackKinds
)

// String is how metrics and the API call it.
func (f fallback) String() string {
	return [fallbackKinds]string{"fault", "breaker", "inactive", "starting", "memory", "busy"}[f]
}

// fallbackOf says what an error of a batch was.
func fallbackOf(err error) fallback {
	var fault *host.Fault
	switch {
	case errors.Is(err, errNotReady):
		return fellBreaker
	case errors.Is(err, host.ErrStarting), errors.Is(err, host.ErrClosed):
		return fellStarting
	case errors.Is(err, host.ErrMemory):
		return fellMemory
	case errors.As(err, &fault) && fault.Kind == host.Stopped, !errors.As(err, &fault):
		return fellBusy
	}
	return fellFault
}

// fallbacks count requests that went on without a plugin.
type fallbacks [fallbackKinds]atomic.Uint64

func (f *fallbacks) add(why fallback) { f[why].Add(1) }

func (f *fallbacks) total() (n uint64) {
	for k := range f {
		n += f[k].Load()
	}
	return n
}

// byReason has the number of each reason that there was.
func (f *fallbacks) byReason() map[string]uint64 {
	out := map[string]uint64{}
	for k := range f {
		if n := f[k].Load(); n > 0 {
			out[fallback(k).String()] = n
		}
	}
	return out
}

// The reasons, in the words of warnings, why a plugin that exists does not score for a block.
const (
	inactive    = "no version is active"
	quarantined = "it is quarantined"
	starting    = "its sandbox is not ready yet"
	held        = "an operator holds it"
	open        = "its breaker is open"
)

func resting(b *strategy.Scored, why string) *strategy.Unavailable {
	return &strategy.Unavailable{Detail: b.String() + ": " + why, Inactive: why == inactive}
}

// resting says why a version and configuration do not score for a block now. It is nil if they do.
func (p *plugin) resting(b *strategy.Scored, u *use, now func() time.Time) *strategy.Unavailable {
	if p.ready(u, now) {
		return nil
	}
	if p.settings.Load().Hold == HoldOpen {
		return resting(b, held)
	}
	if state, _, _ := u.breaker.show(now()); state == breakerQuarantined {
		return resting(b, quarantined)
	}
	return resting(b, open)
}
