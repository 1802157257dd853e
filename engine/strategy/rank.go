package strategy

import "math"

// Ranking gives scored candidates in the order in which they are to be taken: larger scores first, equal ones in the order of
// the rows, NaN never. It sorts no further than it is asked, and keeps its memory from window to window. The zero value ranks nothing.
type Ranking struct {
	heap []ranked
}

// ranked is a row with its score as a number whose order is that of the scores.
type ranked struct {
	key uint64
	row uint32
}

// Reset starts with the scores of a window.
func (r *Ranking) Reset(scores []float64) {
	r.heap = r.heap[:0]
	for row, score := range scores {
		if score == score { // NaN never
			r.heap = append(r.heap, ranked{orderOf(score), uint32(row)})
		}
	}
	for k := len(r.heap)/2 - 1; k >= 0; k-- {
		r.sink(k)
	}
}

// Next gives the next row, or false when none is left.
func (r *Ranking) Next() (row int, ok bool) {
	if len(r.heap) == 0 {
		return 0, false
	}
	top, last := r.heap[0], len(r.heap)-1
	r.heap[0] = r.heap[last]
	r.heap = r.heap[:last]
	r.sink(0)
	return int(top.row), true
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
