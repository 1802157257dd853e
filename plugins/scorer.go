package plugins

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/manifest"
)

// route is a version in use, and where its columns are in the windows of a scorer.
type route struct {
	use *use
	at  []int
}

// scorer scores with a version, with a canary and a shadow or without.
type scorer struct {
	scorers *scorers
	plugin  *plugin
	reads   []strategy.Column
	active  *route
	canary  *route
	percent uint64
	shadow  *route
}

func newScorer(x *scorers, p *plugin, active *use) *scorer {
	s := &scorer{scorers: x, plugin: p}
	s.active = s.add(active)
	return s
}

// add makes room for the columns of a version.
func (s *scorer) add(u *use) *route {
	r := &route{use: u}
	s.reads, r.at = u.version.route.join(s.reads)
	return r
}

// ready says whether a batch would be scored now.
func (s *scorer) ready() bool { return s.plugin.ready(s.active.use, s.scorers.now) }

// Reads are the columns of the active version, then those that only the canary or the shadow reads.
func (s *scorer) Reads() []strategy.Column { return s.reads }

// Rows returns the window of the active version's manifest, within the limits of the canary's and the shadow's.
func (s *scorer) Rows() (normal, most int) {
	most = s.active.use.version.manifest.WindowMax
	for _, r := range []*route{s.canary, s.shadow} {
		if r != nil {
			most = min(most, r.use.version.manifest.WindowMax)
		}
	}
	return min(s.active.use.version.manifest.WindowDefault, most), most
}

// Spread says whether the active version's manifest asks for it.
func (s *scorer) Spread() bool { return s.active.use.version.manifest.Take == manifest.Spread }

// Score scores a window with the active version, or with the canary for its share of the requests, by the window's seed.
func (s *scorer) Score(ctx context.Context, w *strategy.Window, scores []float64) error {
	if len(scores) != w.Rows {
		return fmt.Errorf("plugins: score: %d rows and room for %d scores", w.Rows, len(scores))
	}
	r := s.routeOf(w)
	err := s.run(ctx, r, w, scores, flagsOf(w))
	if err != nil {
		s.plugin.totals.fallbacks.add(fallbackOf(err))
		return err
	}
	if s.shadow != nil && !w.Dry && r == s.active {
		s.scorers.shadows.offer(s, w, scores)
	}
	return nil
}

// routeOf is which version scores a window.
func (s *scorer) routeOf(w *strategy.Window) *route {
	if s.canary != nil && scramble(w.Seed)%100 < s.percent && s.canary.use.breaker.ready(s.scorers.now) {
		return s.canary
	}
	return s.active
}

func flagsOf(w *strategy.Window) (flags uint32) {
	if w.Dry {
		flags |= abi.FlagDryRun
	}
	if w.Shadow {
		flags |= abi.FlagShadow
	}
	return flags
}

var errNotReady = errors.New("plugins: the breaker is open")

// run scores a window with one version and keeps the books.
func (s *scorer) run(ctx context.Context, r *route, w *strategy.Window, scores []float64, flags uint32) error {
	x, u := s.scorers, r.use
	held := s.plugin.settings.Load().Hold
	trial, ok := u.breaker.enter(x.now)
	if !ok && held != HoldClosed || held == HoldOpen {
		if ok {
			u.breaker.leave(x.now(), trial, unknown, "")
		}
		return errNotReady
	}
	// Those that wait for a sandbox are few: a plugin that is slow on all of them must not collect the requests of the server.
	if int(u.running.Add(1)) > 16*x.limits.Instances {
		u.running.Add(-1)
		u.breaker.leave(x.now(), trial, unknown, "")
		return errors.New("plugins: too many batches wait for the plugin")
	}
	memory := x.lend()
	defer func() {
		memory.forget()
		x.scratches.Put(memory)
	}()
	batch, err := u.version.route.fill(memory, w, r.at, flags)
	if err != nil {
		u.running.Add(-1)
		u.breaker.leave(x.now(), trial, unknown, "")
		return err
	}
	report, err := u.host.Score(ctx, batch, scores)
	u.running.Add(-1)
	now := x.began.Add(report.Ended)
	if report.Ended == 0 {
		now = x.now()
	}
	opened, quarantined := u.breaker.leave(now, trial, verdictOf(err), reasonOf(err))
	x.account(s.plugin, u, batch, scores, &report, err, now)
	if s.plugin.name != scoreName { // formulas have no statistics of their own
		u.samples.offer(w, now, err)
	}
	switch {
	case errors.Is(err, host.ErrMemory):
		x.open.starved(s.plugin, err)
	case quarantined:
		x.fail(s.plugin, u, reasonOf(err))
	case opened:
		x.log.Warn("a plugin's breaker opened", "plugin", s.plugin.name, "version", u.version.Version, "reason", reasonOf(err))
	}
	return err
}

// verdictOf says what an error of a batch means for the breaker.
func verdictOf(err error) verdict {
	var fault *host.Fault
	switch {
	case err == nil:
		return wentWell
	case errors.As(err, &fault) && fault.Kind != host.Stopped:
		return faulted
	}
	return unknown
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// scramble spreads the bits of a seed (the finaliser of splitmix64).
func scramble(seed uint64) uint64 {
	seed = (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
	seed = (seed ^ seed>>27) * 0x94d049bb133111eb
	return seed ^ seed>>31
}

// dryScorer scores as the scorer would, and keeps no books.
type dryScorer struct{ *scorer }

// Score waits for the questions before it, so that only one of them at a time takes a sandbox from reserves.
func (s dryScorer) Score(ctx context.Context, w *strategy.Window, scores []float64) error {
	s.scorers.asking.Lock()
	defer s.scorers.asking.Unlock()
	found, err := dryScores(ctx, s.routeOf(w), w)
	if err != nil {
		return &strategy.Unavailable{Detail: s.plugin.name + " failed on these candidates: " + err.Error()}
	}
	copy(scores, found)
	return nil
}
