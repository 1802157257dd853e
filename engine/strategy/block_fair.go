package strategy

import "github.com/quern-queue/quern/engine/queue"

// SubmissionKey is the pseudo key under which every submission is a tenant of its own.
const SubmissionKey queue.MetaKey = "$submission"

var fairDefinition = definition{
	name:  "Fair",
	snake: "fair",
	parameters: []parameter{
		{kind: tenantParameter, caption: "key", field: "meta_field"},
		{kind: costParameter, caption: "cost", field: "cost", optional: true},
		underlying,
	},
	build: func(a []argument) block { return &fair{a[0].key, a[1].cost, a[2].blocks[0]} },
}

// fair offers what underlying offers, shared between the values of the key by their weights: underlying decides only
// which chunk of the value whose turn it is.
type fair struct {
	key        queue.MetaKey
	cost       Cost
	underlying block
}

func (f *fair) definition() *definition { return &fairDefinition }

func (f *fair) arguments() []argument {
	return []argument{{key: f.key}, {cost: f.cost}, {blocks: []block{f.underlying}}}
}

// branches makes the branches of underlying the alternatives of a fair one. The demands of the blocks around Fair are in
// these already, as within was handed down.
func (f *fair) branches(within demands) ([]Branch, error) {
	inner, err := f.underlying.branches(within)
	if err != nil || len(inner) == 0 {
		return nil, err
	}
	return through(0, []Branch{fairBranch(f.key, f.cost, inner)}), nil
}

func (f *fair) note(n *Node) {
	n.Fair, n.Cost = f.key, f.cost
	n.Text += "(" + f.key
	if f.cost != ByChunk {
		n.Text += ", " + f.cost.String()
	}
	n.Text += ")"
}

func (f *fair) warn(found *finder, path string, within demands, before []Branch) error {
	if err := found.oneValue(f, f.key, within, WarnSharesNothing, path, "shares nothing"); err != nil {
		return err
	}
	return found.underlying(f.underlying, path, within, before)
}
