package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
)

// DryRun says how a version is to be tried. Nothing is reserved, whatever it scores.
type DryRun struct {
	Config    []byte     // nil: that of the activation if the version is active, else the defaults
	Queue     string     // "" for synthetic candidates only
	Strategy  string     // whose candidates are scored, in text form
	Context   queue.Meta // of the reservation that would be made
	Rows      int        // candidates, 1 to the version's largest window; 0: its default window
	Want      int        // how many would be taken; 0: 10
	Recording uint64     // of the plugin, instead of candidates; 0: none
}

// Tried is what came of a dry run.
type Tried struct {
	Report           // of synthetic candidates
	Live   *Live     // of live ones, when a queue was named
	Replay *Replayed // of a recording, when one was named
}

// Live says what a version would do with the candidates of a strategy.
type Live struct {
	Rows      int
	Of        []queue.SubmissionID // by row: the submission whose next chunk is the candidate
	Skipped   int
	Histogram []Bin
	Picks     []Pick // what would be taken, in order
	// What would be taken that would not be otherwise, and the reverse: against the inner order and against the active version.
	GainedInner, LostInner, GainedActive, LostActive []int
	OverlapActive, TauActive                         float64
	ComparedActive                                   bool // there was an active version to compare with
}

// Bin counts scores from From on, and below To; the last bin has also its To.
type Bin struct {
	From, To float64
	Count    int
}

// Pick is a candidate that would be taken: its place in the inner order and its score.
type Pick struct {
	Row   int
	Score float64
}

// Replayed is a recording scored again.
type Replayed struct {
	Rows      int
	Scored    bool // the recording has scores; that of a fault has none
	Identical bool // they are the same bits
	Different int  // rows that are not
}

const (
	histogramBins = 20
	defaultWant   = 10
	maxPicks      = 1000
)

// Try runs a version without any effect.
func (x *Versions) Try(ctx context.Context, name, text string, d DryRun) (Tried, error) {
	v, err := x.known.find(name, text)
	if err != nil {
		return Tried{}, err
	}
	if v.manifest == nil {
		return Tried{}, &queue.Error{Code: queue.CodeConflict,
			Message: "The version cannot be used by this server: " + v.state.Load().reason}
	}
	p := x.known.named(name)
	config, err := x.scorers.configFor(p, v, &strategy.Scored{Config: d.Config})
	if err != nil {
		return Tried{}, err
	}
	if _, err := x.known.opened(); err != nil {
		return Tried{}, err
	}
	if err := x.turns.take(ctx); err != nil { // it takes a core for a while, as the check of an upload does
		return Tried{}, err
	}
	defer x.turns.give()
	u, err := x.open.use(ctx, v.SHA256, config)
	var fault *host.Fault
	if errors.As(err, &fault) {
		return Tried{}, queue.Invalid("/config", "is refused by the plugin: %s", fault.Error())
	}
	if err != nil {
		return Tried{}, fmt.Errorf("plugins: dry run: %w", err)
	}
	out := Tried{Report: Report{Instructions: v.report.Instructions}}
	if err := dryRun(ctx, u.host, v.manifest, &out.Report); err != nil {
		return Tried{}, err
	}
	if d.Recording != 0 {
		if out.Replay, err = x.replay(ctx, p, u, d.Recording); err != nil {
			return Tried{}, err
		}
	}
	if d.Queue != "" {
		out.Live, err = x.live(ctx, p, u, &d)
	}
	return out, err
}

// replay scores a recording and compares the bits.
func (x *Versions) replay(ctx context.Context, p *plugin, u *use, id uint64) (*Replayed, error) {
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
	out := &Replayed{Rows: len(scores), Scored: record.Scores != nil}
	for i := range record.Scores {
		if !sameScore(record.Scores[i], scores[i]) {
			out.Different++
		}
	}
	out.Identical = out.Scored && out.Different == 0
	return out, nil
}

// live scores the candidates that a queue has now.
func (x *Versions) live(ctx context.Context, p *plugin, u *use, d *DryRun) (*Live, error) {
	x.known.mu.RLock()
	source := x.known.queues
	x.known.mu.RUnlock()
	if source == nil {
		return nil, &queue.Error{Code: queue.CodeConflict,
			Message: "This server does not show live candidates; leave queue out for synthetic ones."}
	}
	rows := d.Rows
	if rows == 0 {
		rows = u.version.manifest.WindowDefault
	}
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
	out.Of = w.Submissions
	if active != nil {
		theirs, err := dryScores(ctx, active, w)
		if err == nil { // that the active one fails is seen elsewhere
			out.ComparedActive = true
			out.GainedActive, out.LostActive = difference(top(scores, w.Want), top(theirs, w.Want))
			out.OverlapActive, out.TauActive = overlapOf(scores, theirs, w.Want), tauOf(scores, theirs)
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
func describe(scores []float64, want int) *Live {
	out := &Live{Rows: len(scores), Histogram: histogram(scores)}
	for _, s := range scores {
		if s != s {
			out.Skipped++
		}
	}
	rows := top(scores, want)
	for _, row := range rows {
		out.Picks = append(out.Picks, Pick{row, scores[row]})
	}
	inner := make([]int, min(want, len(scores)))
	for i := range inner {
		inner[i] = i
	}
	out.GainedInner, out.LostInner = difference(rows, inner)
	return out
}

// difference lists what is in a and not in b, and the reverse.
func difference(a, b []int) (gained, lost []int) {
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
func histogram(scores []float64) []Bin {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range scores {
		if !math.IsNaN(s) && !math.IsInf(s, 0) {
			low, high = min(low, s), max(high, s)
		}
	}
	if low > high {
		return nil
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
func evenBins(low, high float64, n int) []Bin {
	if low == high {
		n = 1
	}
	bins := make([]Bin, n)
	for i := range bins {
		bins[i].From = low + (high/float64(n)-low/float64(n))*float64(i)
		bins[i].To = low + (high/float64(n)-low/float64(n))*float64(i+1)
	}
	bins[n-1].To = high
	return bins
}

// binAt is the bin that a score is counted in, which is no NaN.
func binAt(bins []Bin, score float64) int {
	at, _ := slices.BinarySearchFunc(bins, score, func(b Bin, s float64) int {
		if b.To <= s {
			return -1
		}
		return 1
	})
	return min(at, len(bins)-1)
}
