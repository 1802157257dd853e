package fair

// heap is a list of tenants that owe, the least key first; of equal keys, the one that joined first. A tenant's slot has its place, in
// left. The keys are beside the tenants, so that a search touches few slots.
type heap []entry

type entry struct {
	key    int64 // the tag, its whole part
	tenant uint32
}

func (l *Ledger) before(a, b entry) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return l.slots[a.tenant].joined < l.slots[b.tenant].joined
}

func (l *Ledger) push(h *heap, x entry) {
	*h = append(*h, x)
	l.rise(*h, len(*h)-1, x)
}

// fix gives the entry at a place this key, and moves it where it belongs.
func (l *Ledger) fix(h heap, place uint32, key int64) {
	x := entry{key, h[place].tenant}
	if at := int(place); at > 0 && l.before(x, h[(at-1)/heapWidth]) {
		l.rise(h, at, x)
	} else {
		l.sink(h, at, x)
	}
}

func (l *Ledger) remove(h *heap, place uint32) {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	if int(place) == last {
		return
	}
	(*h)[place].tenant = x.tenant
	l.fix(*h, place, x.key)
}

const heapWidth = 4

func (l *Ledger) rise(h heap, at int, x entry) {
	for at > 0 {
		parent := (at - 1) / heapWidth
		if !l.before(x, h[parent]) {
			break
		}
		l.set(h, at, h[parent])
		at = parent
	}
	l.set(h, at, x)
}

func (l *Ledger) sink(h heap, at int, x entry) {
	for {
		first := at*heapWidth + 1
		if first >= len(h) {
			break
		}
		least := first
		for child := first + 1; child < min(first+heapWidth, len(h)); child++ {
			if l.before(h[child], h[least]) {
				least = child
			}
		}
		if !l.before(h[least], x) {
			break
		}
		l.set(h, at, h[least])
		at = least
	}
	l.set(h, at, x)
}

func (l *Ledger) set(h heap, at int, x entry) {
	h[at] = x
	l.keep(x.tenant)
	l.slots[x.tenant].left = uint32(at)
}
