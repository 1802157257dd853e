package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/fair/gps"
	"github.com/quern-queue/quern/engine/queue"
)

var fairNames = []string{
	"lag_static", "lag_joins", "lag_blocking", "lag_sum_error", "jain_zipf_min", "pick_mean_1e2", "pick_mean_1e4",
}

// fairInstances is how many random instances each lag figure is the worst of: 10^4 in all.
const fairInstances = 3400

// fairSuite measures how far the ledger is from exact fluid sharing, and what a fair pick costs.
func fairSuite(ctx context.Context, r *run) error {
	sums := 0.0
	for _, c := range []struct {
		name   string
		joins  bool
		blocks bool
	}{{name: "lag_static"}, {name: "lag_joins", joins: true}, {name: "lag_blocking", blocks: true}} {
		r.progress(fmt.Sprintf("%s over %d random instances", c.name, fairInstances))
		worst := 0.0
		for i := range uint64(fairInstances) {
			if err := ctx.Err(); err != nil {
				return err
			}
			s := newSharing(rand.New(rand.NewPCG(i, 1)), !c.joins)
			s.play(c.joins, c.blocks)
			worst = max(worst, s.worst)
			sums = max(sums, s.sums)
		}
		r.add(c.name, worst, "chunks")
	}
	r.add("lag_sum_error", sums, "chunks")
	jain, err := r.jainZipf(ctx)
	if err != nil {
		return err
	}
	r.add("jain_zipf_min", jain, "")
	for _, tenants := range []int{100, 10_000} {
		r.progress(fmt.Sprintf("picks among %d tenants", tenants))
		mean, err := pickMean(ctx, tenants)
		if err != nil {
			return err
		}
		r.add(fmt.Sprintf("pick_mean_1e%d", int(math.Log10(float64(tenants)))), mean, "us")
	}
	return nil
}

// sharing is a ledger beside the exact fluid, one chunk per step.
type sharing struct {
	rnd      *rand.Rand
	ledger   *fair.Ledger
	ideal    *gps.System
	left     []int64
	received []int64
	blocked  []func() // gives back what the fluid has suspended; nil: not blocked
	worst    float64  // largest lag, behind or ahead
	sums     float64
}

func newSharing(rnd *rand.Rand, backlogged bool) *sharing {
	n := 2 + rnd.IntN(30)
	weights := make([]int64, n)
	s := &sharing{rnd: rnd, ledger: new(fair.Ledger), left: make([]int64, n), received: make([]int64, n), blocked: make([]func(), n)}
	for i := range weights {
		w := fair.WeightOf(math.Pow(10, rnd.Float64()*3))
		weights[i] = int64(w)
		s.ledger.SetWeight(uint32(i), w)
	}
	s.ideal = gps.New(weights)
	for i := range n {
		if backlogged {
			s.submit(i, 1<<40)
		}
	}
	return s
}

func (s *sharing) submit(i int, chunks int64) {
	s.left[i] += chunks
	s.ideal.Add(i, float64(chunks))
	s.ledger.Join(uint32(i))
}

func (s *sharing) play(joins, blocks bool) {
	for slot := range 400 {
		if joins && s.rnd.IntN(3) == 0 {
			s.submit(s.rnd.IntN(len(s.left)), 1+int64(s.rnd.ExpFloat64()*3))
		}
		if blocks {
			s.disturb()
		}
		s.step()
		if slot%20 == 0 {
			s.look()
		}
	}
	s.look()
}

// disturb blocks a tenant or unblocks it, and changes a weight now and then.
func (s *sharing) disturb() {
	i := s.rnd.IntN(len(s.left))
	switch at := s.rnd.IntN(16); {
	case at > 4:
	case at == 0:
		w := fair.WeightOf(math.Pow(10, s.rnd.Float64()*2))
		s.ledger.SetWeight(uint32(i), w)
		s.ideal.SetWeight(i, int64(w))
	case s.blocked[i] != nil:
		s.blocked[i]()
		s.blocked[i] = nil
		s.ledger.Join(uint32(i))
	case s.ledger.Totals().Active > 1:
		fluid := s.ideal.Suspend(i)
		s.blocked[i] = func() { s.ideal.Resume(i, fluid) }
		s.ledger.Block(uint32(i))
	}
}

func (s *sharing) step() {
	tenant, ok := s.ledger.Pick()
	if !ok {
		return
	}
	i := int(tenant)
	s.worst = max(s.worst, s.ideal.Lag(i, s.received[i]))
	s.ledger.Charge(tenant, fair.Chunk)
	s.received[i]++
	if s.left[i]--; s.left[i] == 0 {
		s.ledger.Leave(tenant)
	}
	s.ideal.Step()
	s.worst = max(s.worst, -s.ideal.Lag(i, s.received[i]))
}

func (s *sharing) look() {
	for i := range s.received {
		s.worst = max(s.worst, math.Abs(s.ideal.Lag(i, s.received[i])))
	}
	sum := 0.0
	s.ledger.Each(func(i fair.Info) bool { sum += i.Lag; return true })
	s.sums = max(s.sums, math.Abs(sum))
}

// fairBacklog is a backlog with a fair view over tenants of which the i-th has chunks(i).
func fairBacklog(tenants int, chunks func(i int) uint32) (*backlog.Backlog, *backlog.View, error) {
	plan, err := planOf(`Fair("company", OldestFirst)`)
	if err != nil {
		return nil, nil, err
	}
	b := backlog.New()
	for i := range tenants {
		spec := backlog.Spec{Seq: uint32(i + 1), ID: queue.SubmissionID(i + 1), Chunks: chunks(i),
			Meta: queue.Meta{{Key: "company", Value: queue.IntValue(int64(i))}}}
		spec.Key = backlog.OrderKey(spec.Chunks, uint64(i))
		b.Show(b.Insert(spec))
	}
	v := b.Views.Of(&plan.Branches[0])
	for !v.Build(1 << 20) {
	}
	return b, v, nil
}

// pickMean times Take and Land, in microseconds each.
func pickMean(ctx context.Context, tenants int) (float64, error) {
	b, v, err := fairBacklog(tenants, func(int) uint32 { return 1_000_000 })
	if err != nil {
		return 0, err
	}
	const picks = 2_000_000
	started := time.Now()
	for range picks {
		s, _, ok := b.Take(v, nil)
		if !ok {
			return 0, fmt.Errorf("nothing to take among %d tenants", tenants)
		}
		b.Land(s)
	}
	return micro(time.Since(started)) / picks, ctx.Err()
}

// jainZipf drains Zipf backlogs, about 10^6 chunks of 10^4 tenants, with 16 chunks in flight, and returns the least of Jain's
// indexes of received/ideal at every 1 %. Whole chunks lower the index: of the tenants that should have 1.5, some have 1 and
// some 2. So it is taken over the tenants that should have at least 16 by now.
func (r *run) jainZipf(ctx context.Context) (float64, error) {
	const tenants, consumers, due = 10_000, 16, 16
	r.progress("10^4 tenants with Zipf backlogs")
	sum := 0.0
	for rank := 1; rank <= tenants; rank++ {
		sum += math.Pow(float64(rank), -1.1)
	}
	backlogs, total := make([]float64, tenants), 0
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(tenants) {
		backlogs[i] = math.Ceil(1e6 * math.Pow(float64(at+1), -1.1) / sum)
		total += int(backlogs[i])
	}
	b, v, err := fairBacklog(tenants, func(i int) uint32 { return uint32(backlogs[i]) })
	if err != nil {
		return 0, err
	}
	received, least := make([]float64, tenants), 1.0
	var held []*backlog.Submission
	for slot := 1; slot <= total; slot++ {
		s, _, ok := b.Take(v, nil)
		if !ok {
			return 0, fmt.Errorf("nothing to take after %d of %d chunks", slot-1, total)
		}
		received[s.Seq()-1]++
		if held = append(held, s); len(held) == consumers {
			b.Land(held[0])
			held = held[1:]
		}
		if slot%(total/100) == 0 {
			least = min(least, jain(received, backlogs, float64(slot), due))
		}
	}
	return least, ctx.Err()
}

// jain is Jain's index of received/ideal over those that should have at least `due` of the first `chunks`. With equal weights
// the ideal is min(backlog, level).
func jain(received, backlogs []float64, chunks, due float64) float64 {
	sorted := slices.Clone(backlogs)
	slices.Sort(sorted)
	level := math.Inf(1)
	for i, backlog := range sorted {
		if rest := float64(len(sorted) - i); backlog*rest >= chunks {
			level = chunks / rest
			break
		}
		chunks -= backlog
	}
	var sum, squares, n float64
	for i := range received {
		if ideal := min(backlogs[i], level); ideal >= due {
			ratio := received[i] / ideal
			sum, squares, n = sum+ratio, squares+ratio*ratio, n+1
		}
	}
	if n == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}
