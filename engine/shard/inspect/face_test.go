package inspect

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// asked is a shell for questions.
type asked struct {
	*shelltest.Shell
	ins   *Inspector
	score func(w *strategy.Window, scores []float64) error
}

func ask(t *testing.T) *asked {
	t.Helper()
	s := shelltest.New(t)
	a := &asked{Shell: s}
	covering := rules.NewPart(s.Machine)
	s.Machine.Joined = machine.Joined{Parts: []machine.Part{covering}, Rules: covering}
	all := views.New(s, views.NewMemory(1<<30))
	never := func(*machine.Request) error { return nil }
	a.ins = New(&shell.Questions{Shell: s}, scoring.Face(shelltest.Door(s, scoring.New(s.Machine)), a, all, never), all, a)
	return a
}

// The scorer is a Go function, as it does not matter here where scores come from.
func (a *asked) Check(context.Context, *strategy.Scored) (*strategy.Unavailable, error) {
	return nil, nil
}
func (a *asked) Scorer(*strategy.Scored) (strategy.Scorer, bool) { return a, true }
func (a *asked) Dry(*strategy.Scored) (strategy.Scorer, error)   { return a, nil }
func (a *asked) Reads() []strategy.Column {
	return []strategy.Column{{Property: strategy.MetaInt, Key: "company"}}
}
func (a *asked) Rows() (normal, most int) { return strategy.MinWindow, strategy.MaxWindow }
func (a *asked) Spread() bool             { return false }
func (a *asked) Score(_ context.Context, w *strategy.Window, scores []float64) error {
	return a.score(w, scores)
}

// Chunk returns a chunk of a submission that is open, or ended in this life.
func (a *asked) Chunk(ctx context.Context, id queue.SubmissionID, index uint32) (queue.Chunk, error) {
	if r := a.Machine.Live(id); r != nil {
		return a.Machine.Chunk(r, index), nil
	}
	row, err := a.EndedRow(ctx, id)
	if err != nil {
		return queue.Chunk{}, err
	}
	r, sub, err := machine.EndedRecord(row)
	return machine.EndedChunk(r, sub, index), err
}

// EndedRow is the future history row of a submission that ended.
func (a *asked) EndedRow(_ context.Context, id queue.SubmissionID) (*checkpoint.Ended, error) {
	if r := a.Machine.Endings.ByID[id]; r != nil {
		return new(r.EndedRow()), nil
	}
	return nil, queue.UnknownSubmission(id)
}

// of inserts a submission of a company.
func (a *asked) of(company int64, chunks uint32) queue.SubmissionID {
	a.T.Helper()
	return a.Insert(&queue.NewSubmission{Meta: queue.Meta{{Key: "company", Value: queue.IntValue(company)}},
		Chunks: queue.Chunks{Count: chunks, Prefix: "p/"}})
}

func (a *asked) plan(text string) *strategy.Plan {
	a.T.Helper()
	parsed, err := strategy.Parse(text)
	if err != nil {
		a.T.Fatal(err)
	}
	return parsed.Plan()
}

// reserve hands chunks out, as a consumer does.
func (a *asked) reserve(text string, most int) (picks []machine.Pick) {
	a.T.Helper()
	q := &machine.Request{Plan: a.plan(text), Max: most, Consumer: "c"}
	found, unbuilt := a.Machine.Views(q.Plan, nil)
	for unbuilt != nil && !unbuilt.Build(1000) {
	}
	a.Machine.Reserve(q, found, most, a.Clock, &picks)
	return picks
}

func (a *asked) complete(p machine.Pick) {
	a.T.Helper()
	if err := a.Machine.ApplyComplete(journal.Completed{Seq: p.R.Seq, Index: p.Token.Index, Epoch: p.Token.Epoch, Sequence: p.Token.Sequence}); err != nil {
		a.T.Fatal(err)
	}
}

// rule sets a rule.
func (a *asked) rule(r queue.Rule) {
	a.T.Helper()
	if err := shell.Change(a.Shell, func(m *machine.Machine, now queue.Time) error {
		r.Since = now
		m.Encode(now).Rule(journal.Rule{Rule: r})
		return nil
	}); err != nil {
		a.T.Fatal(err)
	}
}

func (a *asked) value(company int64) queue.MetaEntry {
	return queue.MetaEntry{Key: "company", Value: queue.IntValue(company)}
}

// An explanation counts the work that each block of a strategy lets through or refuses, apart from work that rules and
// operators' limits keep back. It says which chunks would be picked, and why earlier branches did not give them.
func TestExplain(t *testing.T) {
	t.Parallel()
	a := ask(t)
	first, second, third := a.of(1, 5), a.of(2, 3), a.of(3, 2)
	a.of(4, 7)
	a.reserve(`SelectOnly("company", 1, OldestFirst)`, 1)
	a.rule(queue.Rule{ID: 1, Action: queue.Pause, Match: queue.RuleMatch{Submission: third}})
	a.Machine.ValueLimits.Set(queue.ValueTarget{MetaEntry: a.value(4)}, queue.ValueSettings{Limit: 0, Weight: 1})
	x, err := a.ins.Explain(t.Context(), a.plan(`OrElse(SelectOnly("company", 9, Random), MaxSimultaneous("company", 1, OldestFirst))`), &Question{Max: 2})
	if err != nil || x.Met != 4 || x.Shown != 4 || x.Grace != 0 || len(x.Branches) != 2 {
		t.Fatalf("%v: %+v", err, x)
	}
	limit := x.Tree[slices.IndexFunc(x.Tree, func(b api.ExplainBlock) bool { return b.Block == "MaxSimultaneous" })]
	if limit.Entered.Submissions != 2 || limit.Refused.Chunks != 4 || limit.Passed.Chunks != 3 || len(limit.Top) != 1 || limit.Top[0].InFlight != 1 {
		t.Errorf("the limit: %+v; the submission is %s", limit, first)
	}
	if len(x.Picks) != 1 || x.Picks[0].Submission != second || len(x.Picks[0].Skipped) != 1 || x.Picks[0].Skipped[0].Obstacle != queue.ObstacleFilter {
		t.Errorf("picks: %+v", x.Picks)
	}
	if len(x.Ruled) != 1 || x.Ruled[0].Refused.Chunks != 2 || x.Withheld.Refused.Chunks != 7 {
		t.Errorf("rules keep %+v, operators' limits %+v", x.Ruled, x.Withheld)
	}
}

// Why names the first obstacle between a chunk and each branch, and about where it stands in line.
func TestWhy(t *testing.T) {
	t.Parallel()
	a := ask(t)
	first, second, third := a.of(1, 2), a.of(2, 4), a.of(3, 1)
	held := a.reserve(`SelectOnly("company", 1, OldestFirst)`, 1)[0]
	a.rule(queue.Rule{ID: 1, Action: queue.Block, Match: queue.RuleMatch{Submission: third}})
	gone := a.of(5, 1)
	a.complete(a.reserve(`SelectOnly("company", 5, OldestFirst)`, 1)[0])
	const text = `OrElse(SelectOnly("company", 2, OldestFirst), MaxSimultaneous("company", 1, NewestFirst))`
	for _, x := range []struct {
		id    queue.SubmissionID
		index uint32
		want  []queue.Obstacle
	}{
		{first, held.Token.Index, []queue.Obstacle{queue.ObstacleReserved, queue.ObstacleReserved}},
		{first, 1 - held.Token.Index, []queue.Obstacle{queue.ObstacleFilter, queue.ObstacleLimit}},
		{second, 3, []queue.Obstacle{queue.NoObstacle, queue.ObstacleHidden}},
		{third, 0, []queue.Obstacle{queue.ObstacleBlocked, queue.ObstacleBlocked}},
		{gone, 0, []queue.Obstacle{queue.ObstacleDone, queue.ObstacleDone}},
	} {
		why, err := a.ins.Why(t.Context(), x.id, x.index, a.plan(text))
		if err != nil {
			t.Fatal(err)
		}
		var got []queue.Obstacle
		for i := range why.Leaves {
			got = append(got, why.Leaves[i].Obstacle)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("chunk %d of %s: %v, want %v", x.index, x.id, got, x.want)
		}
		if x.id == second && (why.Standing == nil || why.Standing.Branch != 1 || why.Standing.Ahead != 3) {
			t.Errorf("three chunks come before it: %+v", why.Standing)
		}
	}
	if _, err := a.ins.Why(t.Context(), 77, 0, a.plan("Random")); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("a submission that never was: %v", err)
	}
}

// Under Fair a chunk waits for its tenant's turn, and the ledger says how the tenants stand.
func TestTurnsAndLedgers(t *testing.T) {
	t.Parallel()
	a := ask(t)
	of := map[int64]queue.SubmissionID{1: a.of(1, 9), 2: a.of(2, 9)}
	const text = `Fair("company", OldestFirst)`
	for range 3 { // one of them gets two
		a.complete(a.reserve(text, 1)[0])
	}
	list, err := a.ins.Ledgers(t.Context())
	if err != nil || len(list) != 1 || list[0].Active != 2 || list[0].Key != "company" {
		t.Fatalf("%v: %+v", err, list)
	}
	sums, found, err := a.ins.Tenants(t.Context(), list[0].ID, ByReceived, nil, 1)
	if err != nil || !found || !sums.Whole || sums.Received != 3 || len(sums.Items) != 1 || math.Abs(sums.Lag) > 1e-9 {
		t.Errorf("%v: found %t, %+v", err, found, sums)
	}
	if _, found, err = a.ins.Tenants(t.Context(), "another", ByReceived, nil, 1); found || err != nil {
		t.Errorf("a ledger that is not in use: %t, %v", found, err)
	}
	why, err := a.ins.Why(t.Context(), of[sums.Items[0].Value.Int()], 8, a.plan(text))
	if err != nil || why.Leaves[0].Obstacle != queue.ObstacleTurn || why.Leaves[0].Seats[0].Before != 1 || why.Standing == nil || why.Standing.Ahead < 10 {
		t.Errorf("%v: %+v, %+v", err, why.Leaves, why.Standing)
	}
	if most := a.ins.LedgerSums(); most.Most <= 0 {
		t.Errorf("the sums of all ledgers: %+v", most)
	}
}

// A preview says which chunks a reserve with its seed gives, for several plans on the same state, and takes none. For a
// plan that scores it asks the scorer, and if that fails, it goes on with the next branch.
func TestPreview(t *testing.T) {
	t.Parallel()
	a := ask(t)
	for company := range int64(40) {
		a.of(company, 2)
	}
	highest := func(w *strategy.Window, scores []float64) error {
		for i := range scores {
			scores[i] = float64(w.Columns[0].Numbers[i])
		}
		return nil
	}
	a.score = highest
	texts := []string{"OldestFirst", `Plugin("p", OldestFirst)`, "Random"}
	plans := []*strategy.Plan{a.plan(texts[0]), a.plan(texts[1]), a.plan(texts[2])}
	q := &Question{Max: 3, Seed: 7}
	seen, grace, err := a.ins.Preview(t.Context(), plans, q)
	if err != nil || grace != 0 || a.Machine.Holds.Len() != 0 {
		t.Fatalf("%v, grace %d, %d chunks are held", err, grace, a.Machine.Holds.Len())
	}
	companies := func(f Foreseen) (list []int64) {
		for i := range f.Picks {
			list = append(list, f.Picks[i].Meta[0].Value.Int())
		}
		return list
	}
	if got := companies(seen[0]); !slices.Equal(got, []int64{0, 0, 1}) {
		t.Errorf("%s gives %v", texts[0], got)
	}
	if got := companies(seen[1]); !slices.Equal(got, []int64{15, 15, 14}) || len(seen[1].Faults) != 0 {
		t.Errorf("%s gives %v of the first 16, %v", texts[1], got, seen[1].Faults)
	}
	again, _, err := a.ins.Preview(t.Context(), plans, q)
	if err != nil || !slices.Equal(companies(again[2]), companies(seen[2])) || len(seen[2].Picks) != 3 {
		t.Errorf("%s gives %v, then %v, %v", texts[2], companies(seen[2]), companies(again[2]), err)
	}
	for i, p := range a.reserve(texts[0], 3) {
		if f := seen[0].Picks[i]; f.Submission != p.R.ID || f.Index != p.Token.Index {
			t.Errorf("pick %d was foreseen as %s/%d, and is %s/%d", i, f.Submission, f.Index, p.R.ID, p.Token.Index)
		}
	}
	a.score = func(*strategy.Window, []float64) error { return errors.New("out of fuel") }
	seen, _, err = a.ins.Preview(t.Context(), plans[1:2], q)
	if got := companies(seen[0]); err != nil || len(seen[0].Faults) != 1 || !slices.Equal(got, []int64{1, 2, 2}) {
		t.Errorf("a scorer that fails: %v, %v, %v", got, seen[0].Faults, err)
	}
	for _, w := range a.ins.Blocks() {
		if w.Node == "Plugin" && w.Examined != 0 {
			t.Errorf("questions count as work of the scorer: %+v", w)
		}
	}
}

// During the restart grace work that limits count is left out, and the answer says until when. Branches keep their
// numbers.
func TestGrace(t *testing.T) {
	t.Parallel()
	a := ask(t)
	id := a.of(1, 2)
	a.Machine.Settings.RestartGrace = time.Minute
	a.Machine.ValueLimits.Restrain(a.Clock, a.Machine.Settings.RestartGrace)
	plan := a.plan(`OrElse(MaxSimultaneous("company", 5, OldestFirst), MaxSimultaneous("company", 7, OldestFirst), Random)`)
	seen, grace, err := a.ins.Preview(t.Context(), []*strategy.Plan{plan}, &Question{Max: 1})
	if err != nil || grace != a.Clock.Add(time.Minute) || len(seen[0].Picks) != 1 || seen[0].Picks[0].Leaf != 2 {
		t.Errorf("%v, grace until %d: %+v", err, grace, seen)
	}
	why, err := a.ins.Why(t.Context(), id, 0, plan)
	if err != nil || why.Leaves[0].Obstacle != queue.ObstacleGrace || why.Leaves[2].Obstacle != queue.NoObstacle || why.Grace != grace {
		t.Errorf("%v: %+v", err, why)
	}
}

// A diagnosis counts every open chunk of a value as in flight or for one cause.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	a := ask(t)
	a.of(1, 5)
	paused := a.of(1, 3)
	a.Insert(&queue.NewSubmission{Meta: queue.Meta{a.value(1)}, Chunks: queue.Chunks{Count: 2, Prefix: "p/"}, RunAt: a.Clock.Add(time.Hour)})
	a.of(2, 100)
	a.reserve(`SelectOnly("company", 1, OldestFirst)`, 2)
	a.rule(queue.Rule{ID: 1, Action: queue.Pause, Match: queue.RuleMatch{Submission: paused}})
	d, err := a.ins.Diagnose(t.Context(), a.value(1), Asked{Plans: []*strategy.Plan{a.plan(`MaxSimultaneous("company", 2, OldestFirst)`)}})
	if err != nil || d.InFlight != 2 || d.Holders != 1 || d.Met != 3 || d.Present != 3 || d.Oldest.Consumer != "c" {
		t.Fatalf("%v: %+v", err, d)
	}
	got := map[queue.Obstacle]uint64{}
	for _, c := range d.Causes {
		got[c.Obstacle] += c.Held.Chunks
	}
	if got[queue.ObstacleLimit] != 3 || got[queue.ObstaclePaused] != 3 || got[queue.ObstacleNotDue] != 2 || len(got) != 3 {
		t.Errorf("the causes: %v", got)
	}
	one, there, err := a.ins.DiagnoseSubmission(paused, Asked{})
	if err != nil || !there || one.Met != 1 || len(one.Causes) != 1 || one.Causes[0].Rule.ID != 1 {
		t.Errorf("%v, there %t: %+v", err, there, one)
	}
	if _, there, err = a.ins.DiagnoseSubmission(77, Asked{}); there || err != nil {
		t.Errorf("a submission that never was: %t, %v", there, err)
	}
}

// A map counts the chunks of a submission by state, cell by cell, also after it ended.
func TestMap(t *testing.T) {
	t.Parallel()
	a := ask(t)
	const chunks = 2500
	id := a.of(1, chunks)
	picks := a.reserve("OldestFirst", chunks)
	for _, p := range picks[:1000] {
		a.complete(p)
	}
	m, err := a.ins.Map(t.Context(), id, 0, chunks, 100)
	sum := func(cells []uint32) (n uint32) {
		for _, c := range cells {
			n += c
		}
		return n
	}
	if err != nil || len(m.Done) != chunks/100 || sum(m.Done) != 1000 || sum(m.Reserved) != chunks-1000 {
		t.Fatalf("%v: %d done, %d reserved", err, sum(m.Done), sum(m.Reserved))
	}
	for _, p := range picks[1000:] {
		a.complete(p)
	}
	if m, err = a.ins.Map(t.Context(), id, 5, 15, 10); err != nil || !slices.Equal(m.Done, []uint32{10}) {
		t.Errorf("after its end: %v, %v", m.Done, err)
	}
	if tries, err := a.ins.Attempts(t.Context(), id, 0); err != nil || len(tries) != 0 {
		t.Errorf("tries of a done chunk: %v, %v", tries, err)
	}
	if _, err = a.ins.Map(t.Context(), 77, 0, 1, 1); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("a submission that never was: %v", err)
	}
}

// However much there is, no hold of the mutex looks at much more than the bound. A shard that cannot work answers nothing, and a caller that
// has left ends the walk.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	a := ask(t)
	for i := range 3 * int64(machine.LookMost) {
		a.of(i%50, 1)
	}
	plan := a.plan(`MaxSimultaneous("company", 5, OldestFirst)`)
	if x, err := a.ins.Explain(t.Context(), plan, &Question{Max: 10}); err != nil || x.Met != 3*machine.LookMost {
		t.Fatalf("%v: %d were met", err, x.Met)
	}
	if most := a.ins.MostLooks(); most == 0 || most > machine.LookMost {
		t.Errorf("one hold looked at %d, want at most %d", most, machine.LookMost)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.ins.Explain(ctx, plan, &Question{Max: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	a.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, _, err := a.ins.Preview(t.Context(), []*strategy.Plan{plan}, &Question{Max: 1}); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("a shard that cannot work: %v", err)
	}
}
