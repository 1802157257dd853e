package backlog

// ranking tells an indexed heap which of two elements comes first, and where to record an element's place.
//
// The heaps are indexed: each element knows its place, so one whose rank changed is moved without a
// search. container/heap does the same through an interface of its own with a call for each swap;
// these run at every pick.
type ranking[T any] interface {
	before(a, b T) bool
	moved(x T, to int)
}

// heapPush adds x.
func heapPush[T any, R ranking[T]](r R, h []T, x T) []T {
	h = append(h, x)
	heapUp(r, h, len(h)-1, x)
	return h
}

// heapRemove takes out the element at i. The element itself is not compared, so it may be invalid by now.
func heapRemove[T any, R ranking[T]](r R, h []T, i int) []T {
	last := len(h) - 1
	x := h[last]
	h = h[:last]
	if i < last {
		heapPlace(r, h, i, x)
	}
	return h
}

// heapFix restores the order after the rank of the element at i changed.
func heapFix[T any, R ranking[T]](r R, h []T, i int) { heapPlace(r, h, i, h[i]) }

// heapPlace puts x into the hole at i, or wherever above or below it belongs.
func heapPlace[T any, R ranking[T]](r R, h []T, i int, x T) {
	if i > 0 && r.before(x, h[(i-1)/2]) {
		heapUp(r, h, i, x)
		return
	}
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && r.before(h[child+1], h[child]) {
			child++
		}
		if !r.before(h[child], x) {
			break
		}
		h[i] = h[child]
		r.moved(h[i], i)
		i = child
	}
	h[i] = x
	r.moved(x, i)
}

func heapUp[T any, R ranking[T]](r R, h []T, i int, x T) {
	for i > 0 {
		parent := (i - 1) / 2
		if !r.before(x, h[parent]) {
			break
		}
		h[i] = h[parent]
		r.moved(h[i], i)
		i = parent
	}
	h[i] = x
	r.moved(x, i)
}

// appended is append for lists with about one element per tenant: once they are long, they
// grow by an eighth, not by a quarter, to waste less memory.
func appended[T any](s []T, x T) []T {
	if len(s) == cap(s) && len(s) >= longList {
		longer := make([]T, len(s), len(s)+len(s)/8)
		copy(longer, s)
		s = longer
	}
	return append(s, x)
}

const longList = 1024

// trimmed gives back the memory of a slice that was once much longer. Small slices are
// left alone, so that a set that breathes a little allocates nothing.
func trimmed[T any](s []T) []T {
	if cap(s) <= keepCap || len(s) > cap(s)/4 {
		return s
	}
	shorter := make([]T, len(s), max(keepCap, 2*len(s)))
	copy(shorter, s)
	return shorter
}

// keepCap is the capacity that is never given back.
const keepCap = 64
