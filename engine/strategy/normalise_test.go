package strategy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// naive normalises by the definition, exponentially: the oracle for the real one.
func naive(b block) []Branch {
	var list []Branch
	switch b := b.(type) {
	case orderBlock:
		return []Branch{{Order: b.order}}
	case *orElse:
		for _, alternative := range b.alternatives {
			list = append(list, naive(alternative)...)
		}
	case *selects:
		for _, br := range naive(b.underlying) {
			list = append(list, eachLeaf(br, func(leaf *Branch) { leaf.Filters = append(slices.Clone(leaf.Filters), b.filter) }))
		}
	case *fair:
		return []Branch{{Fair: b.key, Cost: b.cost, Inner: naive(b.underlying)}}
	case *scoredBlock:
		return []Branch{{Scored: b.scored, Inner: naive(narrowed(b))}}
	case *hardLimit:
		for _, br := range naive(b.underlying) {
			list = append(list, eachLeaf(br, b.demand))
		}
	case *preferDistinct:
		never := limited{missing: b.missing, limit: b.limit}
		for _, br := range naive(b.underlying) {
			list = append(list, eachLeaf(br, b.demand))
		}
		for _, br := range naive(b.underlying) {
			list = append(list, eachLeaf(br, never.admit))
		}
	case *preferFewest:
		for _, br := range naive(b.underlying) {
			list = append(list, eachLeaf(br, func(leaf *Branch) {
				leaf.Fewest, leaf.FewestOne = b.key, b.missing == MissingOne
				(&limited{missing: b.missing, limit: Limit{Key: b.key}}).admit(leaf)
			}))
		}
	default:
		panic(fmt.Sprintf("naive does not know %T", b))
	}
	return list
}

// demand adds a block's demands to a leaf.
func (l *limited) demand(leaf *Branch) {
	leaf.Limits = append(slices.Clone(leaf.Limits), l.limit)
	if l.missing == MissingOne {
		without := l.limit
		without.Key += "!"
		leaf.Limits = append(leaf.Limits, without)
	}
	l.admit(leaf)
}

// admit has a leaf admit nothing without the key, if the block says never.
func (l *limited) admit(leaf *Branch) {
	if l.missing == MissingNever {
		leaf.Filters = append(slices.Clone(leaf.Filters), Filter{Key: l.limit.Key, Except: true, Has: true})
	}
}

// eachLeaf is a copy of the branch with its leaves changed.
func eachLeaf(br Branch, change func(*Branch)) Branch {
	if br.Fair == "" && br.Scored == nil {
		change(&br)
		return br
	}
	br.Inner = slices.Clone(br.Inner)
	for i := range br.Inner {
		br.Inner[i] = eachLeaf(br.Inner[i], change)
	}
	return br
}

// tidyFilters makes one of all filters of a key: of the values that some list, those that all let through; else all that
// some except.
func tidyFilters(list []Filter) (tidy []Filter, contradiction bool) {
	byKey := map[queue.MetaKey][]Filter{}
	for _, f := range list {
		byKey[f.Key] = append(byKey[f.Key], f)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		f := Filter{Key: key, Except: !slices.ContainsFunc(byKey[key], func(f Filter) bool { return !f.Except })}
		for _, one := range byKey[key] {
			f.Values = append(f.Values, one.Values...)
		}
		slices.SortFunc(f.Values, queue.MetaValue.Compare)
		f.Values = slices.CompactFunc(f.Values, func(a, b queue.MetaValue) bool { return a == b })
		if !f.Except {
			f.Values = slices.DeleteFunc(f.Values, func(v queue.MetaValue) bool {
				return slices.ContainsFunc(byKey[key], func(one Filter) bool { return slices.Contains(one.Values, v) == one.Except })
			})
		}
		f.Has = f.Except && slices.ContainsFunc(byKey[key], func(one Filter) bool { return one.Has })
		contradiction = contradiction || len(f.Values) == 0 && !f.Has
		tidy = append(tidy, f)
	}
	return tidy, contradiction
}

// tidy sorts and deduplicates within each branch, then drops branches that cannot match and twins.
func tidy(list []Branch) []Branch {
	var kept []Branch
	seen := map[string]bool{}
	for _, br := range list {
		if br.Fair != "" || br.Scored != nil {
			if br.Inner = tidy(br.Inner); len(br.Inner) == 0 {
				continue
			}
		}
		var contradiction bool
		br.Filters, contradiction = tidyFilters(br.Filters)
		slices.SortFunc(br.Limits, func(a, b Limit) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Per, b.Per), cmp.Compare(a.Burst, b.Burst),
				cmp.Compare(a.Max, b.Max))
		})
		br.Limits = slices.CompactFunc(br.Limits, func(a, b Limit) bool {
			a.Max, b.Max = 0, 0
			return a == b
		})
		if !contradiction && !seen[br.Key()] {
			seen[br.Key()] = true
			kept = append(kept, br)
		}
	}
	return kept
}

// The plan is the one of the definition, and is refused exactly when that has more than MaxBranches.
func TestPlanAgainstDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := anyBlock(6).Draw(t, "tree")
		want := Plan{Branches: guarded(tidy(naive(tree)))}
		got, err := compile(tree)
		leaves := 0
		for i := range want.Branches {
			leaves += want.Branches[i].size()
		}
		if leaves > MaxBranches {
			if err == nil {
				t.Fatalf("%s: got %d branches, want an error, for there are %d", appendText(nil, tree), len(got.Branches), leaves)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: got %v, want %d branches", appendText(nil, tree), err, len(want.Branches))
		}
		if got.String() != want.String() {
			t.Fatalf("%s\ngot:\n%s\nwant:\n%s", appendText(nil, tree), got, &want)
		}
	})
}

// candidate is a submission of the small world in which strategies and plans are compared.
type candidate struct {
	id       int
	priority int64
	meta     queue.Meta
}

type world struct {
	candidates []candidate
	inFlight   map[queue.MetaEntry]uint32
	faulty     bool // every scorer fails
}

var anyWorld = rapid.Custom(func(t *rapid.T) world {
	w := world{inFlight: map[queue.MetaEntry]uint32{}}
	for id := range rapid.IntRange(1, 12).Draw(t, "candidates") {
		c := candidate{id: id, priority: rapid.Int64Range(0, 3).Draw(t, "priority")}
		for _, key := range []queue.MetaKey{"a", "b", "c-_.9"} {
			if n := rapid.Int64Range(0, 2).Draw(t, key); n > 0 {
				entry := queue.MetaEntry{Key: key, Value: queue.IntValue(n)}
				c.meta = append(c.meta, entry)
				w.inFlight[entry] = rapid.Uint32Range(0, 5).Draw(t, "in flight")
			} else {
				w.inFlight[queue.MetaEntry{Key: key + "!"}] = rapid.Uint32Range(0, 5).Draw(t, "in flight without it")
			}
		}
		w.candidates = append(w.candidates, c)
	}
	return w
})

func (w world) admits(c candidate, l Limit) bool {
	if key, without := strings.CutSuffix(l.Key, "!"); without {
		_, has := c.meta.Find(key)
		return has || w.inFlight[queue.MetaEntry{Key: l.Key}] < l.Max
	}
	value, has := c.meta.Find(l.Key)
	return !has || w.inFlight[queue.MetaEntry{Key: l.Key, Value: value}] < l.Max
}

// allows says whether a block that limits lets a candidate pass, or with PreferDistinct come first.
func (w world) allows(c candidate, b *limited) bool {
	if _, has := c.meta.Find(b.limit.Key); !has && b.limit.Key != "" {
		return b.missing == MissingUnlimited || b.missing == MissingOne && w.inFlight[queue.MetaEntry{Key: b.limit.Key + "!"}] < b.limit.Max
	}
	return w.admits(c, b.limit)
}

// offered says whether a block offers candidates without its key at all.
func (m Missing) offered(c candidate, key queue.MetaKey) bool {
	_, has := c.meta.Find(key)
	return has || m != MissingNever
}

func matches(c candidate, f Filter) bool {
	value, has := c.meta.Find(f.Key)
	return (has && slices.Contains(f.Values, value)) != f.Except && (has || !f.Has)
}

// ordered lists the world in an order. Random is some fixed shuffle: only using the same one on both sides matters.
func (w world) ordered(o Order) []candidate {
	list := slices.Clone(w.candidates)
	slices.SortFunc(list, func(a, b candidate) int {
		switch o {
		case Random:
			return cmp.Compare(a.id*7%13, b.id*7%13)
		case NewestFirst:
			return cmp.Compare(b.id, a.id)
		case CustomPriority:
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.id, b.id))
		default:
			return cmp.Compare(a.id, b.id)
		}
	})
	return list
}

// byTenant has the values of a key take turns in some fixed way, the same one on both sides. The order holds within a
// value.
func byTenant(list []candidate, key queue.MetaKey) []candidate {
	if key == "" {
		return list
	}
	rank := func(c candidate) int64 {
		if key == SubmissionKey {
			return int64(c.id)
		}
		value, _ := c.meta.Find(key)
		return value.Int()
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// byFewest has the values of a key with the fewest chunks in flight come first.
func (w world) byFewest(list []candidate, key queue.MetaKey, one bool) []candidate {
	count := func(c candidate) uint32 {
		value, has := c.meta.Find(key)
		if !has && one {
			return w.inFlight[queue.MetaEntry{Key: key + "!"}]
		}
		return w.inFlight[queue.MetaEntry{Key: key, Value: value}]
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(count(a), count(b)) })
	return list
}

func keep(list []candidate, admit func(candidate) bool) []candidate {
	var kept []candidate
	for _, c := range list {
		if admit(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// offers are the candidates that a strategy offers, by the promises of its blocks; a candidate may come more than once.
func (w world) offers(b block) []candidate {
	switch b := b.(type) {
	case orderBlock:
		return w.ordered(b.order)
	case *selects:
		return keep(w.offers(b.underlying), func(c candidate) bool { return matches(c, b.filter) })
	case *hardLimit:
		return keep(w.offers(b.underlying), func(c candidate) bool { return w.allows(c, &b.limited) })
	case *preferDistinct:
		all := keep(w.offers(b.underlying), func(c candidate) bool { return b.missing.offered(c, b.limit.Key) })
		return append(keep(all, func(c candidate) bool { return w.allows(c, &b.limited) }), all...)
	case *preferFewest:
		all := keep(w.offers(b.underlying), func(c candidate) bool { return b.missing.offered(c, b.key) })
		return w.byFewest(all, b.key, b.missing == MissingOne)
	case *fair:
		return byTenant(w.offers(b.underlying), b.key)
	case *scoredBlock:
		return w.byScore(w.offers(b.underlying), b.scored)
	case *orElse:
		var all []candidate
		for _, alternative := range b.alternatives {
			all = append(all, w.offers(alternative)...)
		}
		return all
	default:
		panic(fmt.Sprintf("offers does not know %T", b))
	}
}

// planned are the candidates that a plan offers.
func (w world) planned(p *Plan) []candidate {
	var all []candidate
	for _, br := range p.Branches {
		all = append(all, w.branch(&br)...)
	}
	return all
}

func (w world) branch(br *Branch) (all []candidate) {
	if br.OnFault != w.faulty && (br.OnFault || br.Scored != nil) {
		return nil // not asked, or not answering
	}
	if br.Fair == "" && br.Scored == nil {
		return keep(w.byFewest(w.ordered(br.Order), br.Fewest, br.FewestOne), func(c candidate) bool {
			return !slices.ContainsFunc(br.Filters, func(f Filter) bool { return !matches(c, f) }) &&
				!slices.ContainsFunc(br.Limits, func(l Limit) bool { return !w.admits(c, l) })
		})
	}
	for i := range br.Inner {
		all = append(all, w.branch(&br.Inner[i])...)
	}
	if br.Scored != nil {
		return w.byScore(all, br.Scored)
	}
	return byTenant(all, br.Fair)
}

// firstOffers are the ids in the order in which they come first.
func firstOffers(list []candidate) []int {
	var ids []int
	for _, c := range list {
		if !slices.Contains(ids, c.id) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// A plan offers the same candidates in the same order as its strategy promises, for any backlog and any chunks in
// flight.
func TestPlanOffersWhatStrategyPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := anyWorld.Draw(t, "world")
		tree := anyBlock(5).Draw(t, "tree")
		plan, err := compile(tree)
		if err != nil {
			t.Skip("too many branches")
		}
		got, want := firstOffers(w.planned(plan)), firstOffers(w.offers(tree))
		if !slices.Equal(got, want) {
			t.Fatalf("%s\nplan:\n%s\ngot %v, want %v; in flight %v", appendText(nil, tree), plan, got, want, w.inFlight)
		}
	})
}

// Branches share memory; code that adds to a branch of its own (a standing rule, say) must not change another's.
func TestBranchesAreIndependent(t *testing.T) {
	t.Parallel()
	s, err := Parse(nest(3, `SelectOnly("f%d", 1, `, nest(3, `MaxSimultaneous("l%d", 9, `, `OrElse(Random, PreferDistinct("k", 5, OldestFirst), NewestFirst)`)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `1 Random where f0=1 and f1=1 and f2=1 while l0<9 and l1<9 and l2<9
2 OldestFirst where f0=1 and f1=1 and f2=1 while k<5 and l0<9 and l1<9 and l2<9
3 OldestFirst where f0=1 and f1=1 and f2=1 while l0<9 and l1<9 and l2<9
4 NewestFirst where f0=1 and f1=1 and f2=1 while l0<9 and l1<9 and l2<9`
	if got := s.Plan().String(); got != want {
		t.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
	var filters [][]Filter
	var limits [][]Limit
	for i, b := range s.Plan().Branches {
		filters = append(filters, append(b.Filters, Select("added", queue.IntValue(int64(i)))))
		limits = append(limits, append(b.Limits, Limit{Key: "added", Max: uint32(i)}))
	}
	for i := range filters {
		filter, limit := filters[i][len(filters[i])-1], limits[i][len(limits[i])-1]
		if filter.Values[0].Int() != int64(i) || limit.Max != uint32(i) {
			t.Errorf("what was added to branch %d was overwritten: got the filter %v and the limit %v", i, filter, limit)
		}
	}
}
