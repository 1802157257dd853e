package strategy

import "github.com/quern-queue/quern/engine/queue"

// SubmissionKey is the pseudo key under which every submission is a tenant of its own.
const SubmissionKey queue.MetaKey = "$submission"

var fairDefinition = definition{
	name:  "Fair",
	snake: "fair",
	parameters: []parameter{
		{kind: tenantParameter, caption: "key", field: "meta_field"},
		underlying,
	},
	build: func(a []argument) block { return &fairShare{a[0].key, a[1].blocks[0]} },
}

// fairShare offers what underlying offers, shared equally between the values of the key: underlying decides only which
// chunk of the value whose turn it is.
type fairShare struct {
	key        queue.MetaKey
	underlying block
}

func (b *fairShare) definition() *definition { return &fairDefinition }

func (b *fairShare) arguments() []argument {
	return []argument{{key: b.key}, {blocks: []block{b.underlying}}}
}

// branches turns the one branch of underlying into a fair one. What is around Fair is in it already, as it was handed down.
func (b *fairShare) branches(within scope) ([]Branch, error) {
	inner, err := b.underlying.branches(within)
	if err != nil {
		return nil, err
	}
	for i := range inner {
		if inner[i].Fair != "" {
			return nil, invalid(pointer, "has Fair(%q, ...) inside of Fair(%q, ...), which is not supported yet; share by one of the two keys", inner[i].Fair, b.key)
		}
	}
	if len(inner) > 1 {
		return nil, invalid(pointer, "has several alternatives inside of Fair(%q, ...), as OrElse and PreferDistinct make them, which is not supported yet; put those blocks around Fair", b.key)
	}
	shared := make([]Branch, 0, 1)
	for i := range inner {
		shared = append(shared, inner[i].shared(b.key))
	}
	return through(0, shared), nil
}
