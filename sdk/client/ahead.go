package client

// ahead is how many chunks a worker reserves beyond those that its handlers work on: so many that no handler waits while a call is under
// way, and no more, because what it holds no one else can work on, and is what a crash delays. How many that are depends on how quick
// handlers are and how far away the server is; the worker finds out, as TCP finds its window: it doubles the number when handlers ran out
// of work, and lowers it by an eighth when more than half was left.
type ahead struct {
	n     int
	fixed bool // WorkOptions.Prefetch says how many
	most  int
}

const (
	mostAhead = 1000
	// With answers of this many bytes it is not the number of chunks in a call that makes it slow.
	largeAnswer = 1 << 20
)

func newAhead(o *WorkOptions) ahead {
	if o.Prefetch != 0 {
		return ahead{n: max(o.Prefetch, 0), fixed: true}
	}
	most := min(mostAhead, maxHeld-o.Concurrency)
	return ahead{n: min(o.Concurrency, most), most: most}
}

// room is how many there can ever be.
func (a *ahead) room() int { return max(a.n, a.most) }

// answered takes in that a call ended when `left` chunks were there that no handler had begun. full: it brought all that it asked for, so
// the server has more.
func (a *ahead) answered(left int, full bool, bytes int) {
	switch {
	case a.fixed:
	case left == 0 && full && bytes < largeAnswer:
		a.n = min(max(2*a.n, 1), a.most)
	case left > a.n/2:
		a.n -= max(a.n/8, 1)
	}
}
