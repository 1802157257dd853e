package inspect

// How work flows through the tree of a strategy: a submission enters at the root and goes down through each block that
// lets it pass. A block counts what it refuses, by value. It shows the tree, and not the plan's branches, because
// people wrote the tree.
//
//	SelectOnly("company", 7, MaxSimultaneous("host", 4, OldestFirst))
//
//	SelectOnly            entered 100   refused 60 (company=8: 40, without company: 20)   passed 35
//	└ MaxSimultaneous     entered  40   refused  5 (host=a)                               passed 35
//	  └ OldestFirst       entered  35                                                     passed 35

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// tree counts the submissions with available chunks that reach each block of a strategy's tree. A submission that does
// not pass a filter or a limit is refused; one that PreferDistinct puts last is refused and passes all the same.
type tree struct {
	nodes    []strategy.Node
	blocks   []api.ExplainBlock
	values   []refusedValues    // per block
	none     []api.RefusedValue // per SelectOnly: submissions without the key
	withheld api.Withheld
	limited  refusedValues // work that operators' limits withhold
	graced   bool          // the restart grace refuses all that a limit counts
}

// refusedValues are values that are refused.
type refusedValues map[queue.MetaEntry]*api.RefusedValue

func newTree(nodes []strategy.Node, graced bool) *tree {
	t := &tree{
		graced: graced, nodes: nodes, blocks: make([]api.ExplainBlock, len(nodes)),
		values: make([]refusedValues, len(nodes)),
		none:   make([]api.RefusedValue, len(nodes)), limited: refusedValues{},
	}
	for i := range nodes {
		n := &nodes[i]
		t.blocks[i] = api.ExplainBlock{Pointer: n.Pointer, Block: n.Block, Text: n.Text}
		if n.Parent >= 0 {
			t.blocks[i].Depth = t.blocks[n.Parent].Depth + 1
		}
		t.values[i], t.none[i].Key = refusedValues{}, n.Filter.Key
	}
	return t
}

// count sends a submission through the tree.
func (t *tree) count(m *machine.Machine, x *backlog.Submission) {
	if x.Available() == 0 {
		return
	}
	if at, withheld := x.Withheld(); withheld {
		add(&t.withheld.Refused, x)
		entry := queue.MetaEntry{Key: at.Key, Value: at.Value}
		if v := t.limited.add(entry, x, at.InFlight); v != nil && v.Max == nil {
			v.Max = new(m.ValueLimits.Settings(entry).Limit)
		}
		return
	}
	if len(t.nodes) > 0 {
		t.enter(0, x)
	}
}

// enter sends a submission into a block, and says whether some order inside of it has it. Nodes are in the order of the
// text, each before its inner nodes; After is the number of the next node that is not inside. So an inner walk needs no
// pointers, and a node without inner ones is an order.
func (t *tree) enter(number int, x *backlog.Submission) (passed bool) {
	n, b := &t.nodes[number], &t.blocks[number]
	add(&b.Entered, x)
	if !t.admits(number, x) {
		return false
	}
	for i := range n.Limits {
		if t.limits(number, &n.Limits[i], x) && !n.Soft {
			return false
		}
	}
	passed = n.After == number+1 // an order
	for inner := number + 1; inner < n.After; inner = t.nodes[inner].After {
		if t.enter(inner, x) {
			passed = true
		}
	}
	if passed {
		add(&b.Passed, x)
	}
	return passed
}

// admits sends a submission through the filter of a block, if it has one.
func (t *tree) admits(number int, x *backlog.Submission) bool {
	n := &t.nodes[number]
	if n.Filter.Key == "" {
		return true
	}
	value, inFlight, has := x.Count(strategy.Limit{Key: n.Filter.Key})
	if n.Filter.Admits(value, has) {
		return true
	}
	add(&t.blocks[number].Refused, x)
	if has {
		t.values[number].add(queue.MetaEntry{Key: n.Filter.Key, Value: value}, x, inFlight)
	} else {
		add(&t.none[number].Refused, x)
	}
	return false
}

// limits says whether a limit of a block holds a submission back, and counts it if so.
func (t *tree) limits(number int, l *strategy.Limit, x *backlog.Submission) bool {
	unknown := t.graced && l.Of != strategy.Rate
	value, count, has := x.Count(*l)
	if !has || !l.Reached(count) && !unknown {
		return false
	}
	add(&t.blocks[number].Refused, x)
	entry := queue.MetaEntry{Key: l.Key, Value: value}
	if l.Of == strategy.Rate {
		_, inFlight, _ := x.Count(strategy.Limit{Key: l.Key})
		t.values[number].add(entry, x, inFlight)
	} else if v := t.values[number].add(entry, x, count); v != nil {
		v.Max = &l.Max
	}
	return true
}

// add counts the available chunks of a submission.
func add(a *api.Amount, x *backlog.Submission) {
	a.Submissions++
	a.Chunks += uint64(x.Available())
}

// add counts a submission for the value that it is refused for; nil: there is no room for another value.
// A hundred thousand values of one key would make the answer useless and the memory unbounded. Beyond MostValues
// only the sum of the block counts them.
func (values refusedValues) add(entry queue.MetaEntry, x *backlog.Submission, inFlight uint32) *api.RefusedValue {
	v := values[entry]
	if v == nil {
		if len(values) == machine.MostValues {
			return nil
		}
		v = &api.RefusedValue{Key: entry.Key, Value: &entry.Value}
		if of, lack := queue.LackedBy(entry.Key); lack {
			v.Key, v.Value = of, nil
		}
		values[entry] = v
	}
	v.InFlight = inFlight
	add(&v.Refused, x)
	return v
}

// result is the counts, with the values that hold back most.
func (t *tree) result() ([]api.ExplainBlock, api.Withheld) {
	for i := range t.blocks {
		b := &t.blocks[i]
		if t.none[i].Refused.Submissions > 0 {
			b.Top = append(b.Top, t.none[i])
		}
		b.Top, b.RefusedValues = t.values[i].most(b.Top)
	}
	t.withheld.Top, t.withheld.RefusedValues = t.limited.most(nil)
	return t.blocks, t.withheld
}

// most returns the values that hold back most, with those of the list, and how many values there are.
func (values refusedValues) most(list []api.RefusedValue) (top []api.RefusedValue, all int) {
	for _, v := range values {
		list = append(list, *v)
	}
	of := func(v *api.RefusedValue) (value queue.MetaValue) {
		if v.Value != nil {
			value = *v.Value
		}
		return value
	}
	slices.SortFunc(list, func(a, b api.RefusedValue) int {
		return cmp.Or(cmp.Compare(b.Refused.Chunks, a.Refused.Chunks), cmp.Compare(b.InFlight, a.InFlight),
			cmp.Compare(a.Key, b.Key), of(&a).Compare(of(&b)))
	})
	return append([]api.RefusedValue{}, list[:min(machine.TopMost, len(list))]...), len(list)
}
