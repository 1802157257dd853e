package backlog

// pile is the set of put-back chunks of one submission: a min-heap of indexes and, once it is large,
// a map of where each is. Membership, the smallest, any place and removal are O(log n) or better.
type pile struct {
	heap   []uint32
	places *table // nil while small
}

// pileScan is the size up to which a look through the heap (two cache lines) beats a table.
const pileScan = 32

func (p *pile) before(a, b uint32) bool { return a < b }

func (p *pile) moved(index uint32, to int) {
	if p.places != nil {
		p.places.put(index, uint32(to))
	}
}

func (p *pile) len() int {
	if p == nil {
		return 0
	}
	return len(p.heap)
}

// find is the place of index in the heap, or -1.
func (p *pile) find(index uint32) int {
	if p == nil {
		return -1
	}
	if p.places != nil {
		if at, ok := p.places.find(index); ok {
			return int(at)
		}
		return -1
	}
	for i, x := range p.heap {
		if x == index {
			return i
		}
	}
	return -1
}

func (p *pile) add(index uint32) {
	if p.places == nil && len(p.heap) >= pileScan {
		p.places = newTable(false)
		for i, x := range p.heap {
			p.places.put(x, uint32(i))
		}
	}
	p.heap = heapPush(p, p.heap, index)
}

// takeAt removes and returns the index at a place of the heap; place 0 holds the smallest.
func (p *pile) takeAt(place int) uint32 {
	index := p.heap[place]
	if p.places != nil {
		p.places.delete(index)
	}
	p.heap = trimmed(heapRemove(p, p.heap, place))
	if len(p.heap) <= pileScan/2 {
		p.places = nil
	}
	return index
}
