package strategy

import "math"

// Ranking gives scored candidates in the order in which they are to be taken: larger scores first, equal ones in the order of
// the rows, NaN never. It sorts no further than it is asked, and keeps its memory from window to window. The zero value ranks nothing.
type Ranking struct {
	heap   []ranked
	taken  []bool
	oldest int    // no row before it is left
	every  uint64 // each this many emissions the oldest row that is left goes first; 0 never
	count  uint64
}

// ranked is a row with its score as a number whose order is that of the scores.
type ranked struct {
	key uint64
	row uint32
}

// Reset starts with the scores of a window. every bounds starvation: of all emissions, counted from emitted on (those of earlier windows of
// the same branch), each every-th takes the first row that is left and not skipped, whatever its score. 0 switches that off.
func (r *Ranking) Reset(scores []float64, every int, emitted uint64) {
	r.heap, r.taken = r.heap[:0], r.taken[:0]
	r.oldest, r.every, r.count = 0, uint64(max(0, every)), emitted
	for row, score := range scores {
		skipped := score != score
		r.taken = append(r.taken, skipped)
		if !skipped {
			r.heap = append(r.heap, ranked{orderOf(score), uint32(row)})
		}
	}
	for k := len(r.heap)/2 - 1; k >= 0; k-- {
		r.sink(k)
	}
}

// Next gives the next row, or false when none is left.
func (r *Ranking) Next() (row int, ok bool) {
	r.count++
	if r.every > 0 && r.count%r.every == 0 {
		for ; r.oldest < len(r.taken); r.oldest++ {
			if !r.taken[r.oldest] {
				r.taken[r.oldest] = true
				return r.oldest, true
			}
		}
		return 0, false
	}
	for len(r.heap) > 0 {
		top := int(r.heap[0].row)
		last := len(r.heap) - 1
		r.heap[0] = r.heap[last]
		r.heap = r.heap[:last]
		r.sink(0)
		if !r.taken[top] { // it may have gone as the oldest
			r.taken[top] = true
			return top, true
		}
	}
	return 0, false
}

func (r *Ranking) sink(k int) {
	for {
		child := 2*k + 1
		if child >= len(r.heap) {
			return
		}
		if right := child + 1; right < len(r.heap) && ranksBefore(r.heap[right], r.heap[child]) {
			child = right
		}
		if !ranksBefore(r.heap[child], r.heap[k]) {
			return
		}
		r.heap[k], r.heap[child] = r.heap[child], r.heap[k]
		k = child
	}
}

func ranksBefore(a, b ranked) bool { return a.key > b.key || a.key == b.key && a.row < b.row }

// orderOf maps a score to a number of the same order: the bits of floats of one sign order as whole numbers do. 0 and -0 are equal.
func orderOf(score float64) uint64 {
	bits := math.Float64bits(score + 0) // -0 + 0 is 0
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}
