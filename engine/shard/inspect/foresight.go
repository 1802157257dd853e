package inspect

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/strategy"
)

// foresight is the preview of one plan. All its picks must be of one moment, and nothing is scored under the mutex. So
// it takes chunks until it needs a window that is not scored, copies that window, and gives all chunks back. Once the
// window is scored, it begins again.
//
//	run ── needs a window that is not scored ──► wants ─► unlock ─► score ─┐
//	 ▲                                                                      │
//	 └────────────── again, from the beginning, with one window more ◄──────┘
//	run ── everything needed is scored ──► picks
//
// Beginning again is simpler than going on: between two runs other calls change the backlog, and chunks that were taken
// before may be gone.
type foresight struct {
	plan  *strategy.Plan
	first []int // by view: the number of its first leaf
	steps []step

	windows func() *scoring.Part   // those that the shard keeps; the mutex is held
	of      *machine.Machine       // whose candidates the windows have
	wants   *step                  // whose next window is to be scored; nil: everything is
	window  *scoring.WindowScratch // that one
	picks   []Previewed            // once everything is scored
	faults  []error                // of the blocks that were asked: why they do not score
}

// step has the scores of one branch of the plan, as far as they are known. For a branch without scores it is empty.
type step struct {
	branch  *strategy.Branch
	scorer  strategy.Scorer
	absent  error // why there is no scorer
	fault   error // why a window is not scored
	windows []scoredWindow
	next    int // the number of the window that follows (scoring.NextWindow)
}

// scoredWindow is the part of a window that is kept once it is scored.
type scoredWindow struct {
	rows []*backlog.Submission
	scoring.Choice
}

// foresee begins the preview of a plan.
func foresee(s *scoring.Scoring, plan *strategy.Plan) *foresight {
	f := &foresight{plan: plan, windows: s.Part, first: firstLeaves(plan.Unscored()),
		steps: make([]step, len(plan.Branches))}
	for i := range plan.Branches {
		f.steps[i].branch = &plan.Branches[i]
		if scored := plan.Branches[i].Scored; scored != nil {
			f.steps[i].scorer, f.steps[i].absent = s.Dry(scored)
		}
	}
	return f
}

// score has the window scored that the last run lacked. An error of the scorer is a result, not a failure of the
// question: the preview then shows how a reserve would go on.
func (f *foresight) score(ctx context.Context) error {
	x, w := f.wants, f.window
	err := x.scorer.Score(ctx, &w.Window, w.Scores)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		x.fault = err
		return nil
	}
	x.windows = append(x.windows, scoredWindow{w.Table.Rows, scoring.Choice{Scores: w.Scores}})
	x.next = scoring.NextWindow(x.branch, x.next, w.Rows < w.Table.Most)
	return nil
}

// run is one try at the preview, with the views of the plan. It is done unless f.wants is set: then that step has to be
// scored first. The seed is set at each run, so that all runs draw the same and the last one agrees with the windows of
// those before.
func (f *foresight) run(m *machine.Machine, views []*backlog.View, q *Question, now queue.Time) (n machine.Looks) {
	if f.of != m { // the state was loaded again: its candidates are others
		f.of = m
		for i := range f.steps {
			f.steps[i] = step{branch: f.steps[i].branch, scorer: f.steps[i].scorer, absent: f.steps[i].absent}
		}
	}
	f.wants, f.window, f.picks, f.faults = nil, nil, nil, nil
	m.Seed(q.Seed)
	p := &previewing{
		foresight: f, m: m, q: q, now: now, most: min(q.Max, MaxPreview),
		Lookahead: backlog.LookAhead(m.Backlog, m.Rnd, rand.New(rand.NewPCG(q.Seed, chunkStream)), nil),
	}
	p.follow(views)
	picks := p.End()
	if f.wants != nil {
		return machine.Looks(2*len(picks) + f.window.Rows)
	}
	f.picks = make([]Previewed, len(picks))
	for i, p := range picks {
		f.picks[i] = Previewed{
			Submission: p.Submission.ID(), Index: p.Index, Meta: metaOf(p.Submission),
			Priority: p.Submission.Priority(),
			Leaf:     f.first[p.View] + int(p.Leaf), Head: p.Head,
		}
	}
	return machine.Looks(2 * len(picks))
}

// previewing is a run under way.
type previewing struct {
	*foresight
	*backlog.Lookahead
	m    *machine.Machine
	q    *Question
	now  queue.Time
	most int
}

// follow asks the branches in their order, as pickScored does.
// A branch "on fault" is asked only if the scored branch before it had no scores. It has the same inner order,
// without them, so it uses the views of that branch.
func (p *previewing) follow(views []*backlog.View) {
	at, fault := 0, false      // the place of a branch's first view; the scored branch before faulted
	var inner *strategy.Branch // that one
	var innerAt int            // the place of its first view
	for i := range p.plan.Branches {
		if len(p.Picks) >= p.most {
			return
		}
		switch br := &p.plan.Branches[i]; {
		case br.OnFault:
			for j := range inner.Inner {
				if fault && inner.Inner[j].Key() == br.Plain().Key() {
					p.Take(views[innerAt+j], innerAt+j, p.most-len(p.Picks))
				}
			}
		case br.Scored == nil:
			p.Take(views[at], at, p.most-len(p.Picks))
			at++
		default:
			inner, innerAt = br, at
			at += len(br.Inner)
			if fault = p.byScore(&p.steps[i], br, views[innerAt:at], innerAt); p.wants != nil {
				return
			}
		}
	}
}

// byScore takes in the order of the scores that are known, and finds the window to score
// next if these are not enough.
func (p *previewing) byScore(x *step, br *strategy.Branch, views []*backlog.View, at int) (fault bool) {
	kept := p.windows().ByKey[br.Key()]
	before, emitted := len(p.Picks), uint64(0)
	if kept != nil {
		emitted = kept.Emitted
	}
	if x.absent != nil {
		p.faults = append(p.faults, x.absent)
		return true
	}
	for i := range x.windows {
		w := &x.windows[i]
		w.Begin(x.scorer.Spread())
		for len(p.Picks) < p.most {
			row := w.Next(scoring.Explores(br, emitted))
			if row < 0 {
				break
			}
			if !p.TakeOf(views, at, w.rows[row]) {
				w.Gone(row)
				continue
			}
			w.Took(row)
			emitted++
		}
	}
	switch {
	case len(p.Picks) >= p.most || x.next > scoring.MaxWindows || x.next == scoring.MaxWindows && len(p.Picks) > before:
	case x.fault != nil:
		p.faults = append(p.faults, x.fault)
		return true
	default:
		p.look(x, br, views, kept)
	}
	return false
}

// look copies the next window of candidates, as a reserve does, but leaves no trace. Candidates that an earlier window
// had are left out, as in a reserve. Only the first window remembers how often rows were passed over: a later one is of
// other rows.
func (p *previewing) look(x *step, br *strategy.Branch, views []*backlog.View, kept *scoring.Kept) {
	seen := map[*backlog.Submission]bool{}
	for i := range x.windows {
		for _, sub := range x.windows[i].rows {
			seen[sub] = true
		}
	}
	for ; x.next <= scoring.MaxWindows; x.next = scoring.NextWindow(br, x.next, true) {
		w, rows := &scoring.WindowScratch{}, scoring.RowsOf(br, x.scorer)
		if x.next < scoring.MaxWindows {
			w.Table = p.windows().MakeTable(br, views, x.scorer.Reads(), rows,
				func(s *backlog.Submission) bool { return seen[s] })
		} else {
			w.Table, _ = p.windows().Sweep(cmp.Or(kept, new(scoring.Kept)), br, views, x.scorer.Reads(), rows, seen)
		}
		if kept != nil && kept.Table != nil && len(seen) == 0 {
			w.Table.Remember(kept.Table)
		}
		w.Now, w.Seed, w.Want, w.Dry = p.now, p.q.Seed, p.most-len(p.Picks), true
		p.windows().Gather(w, br, x.scorer.Reads(), p.q.Context, p.now)
		if w.Rows > 0 {
			p.wants, p.window = x, w
			return
		}
	}
}
