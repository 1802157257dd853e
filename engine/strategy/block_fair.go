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
	build: func(a []argument) block { return &fairShare{a[0].key, a[1].cost, a[2].blocks[0]} },
}

// fairShare offers what underlying offers, shared between the values of the key by their weights: underlying decides only
// which chunk of the value whose turn it is.
type fairShare struct {
	key        queue.MetaKey
	cost       Cost
	underlying block
}

func (b *fairShare) definition() *definition { return &fairDefinition }

func (b *fairShare) arguments() []argument {
	return []argument{{key: b.key}, {cost: b.cost}, {blocks: []block{b.underlying}}}
}

// branches makes the branches of underlying the alternatives of a fair one. What is around Fair is in them already, as it
// was handed down.
func (b *fairShare) branches(within scope) ([]Branch, error) {
	inner, err := b.underlying.branches(within)
	if err != nil || len(inner) == 0 {
		return nil, err
	}
	return through(0, []Branch{share(b.key, b.cost, inner)}), nil
}
