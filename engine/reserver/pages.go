package reserver

// Pages is a table of entries that are numbered from 0. It grows by a page at a time, and nothing in it is ever copied: however large it
// is, growing costs the same, and pointers into it stay good.
type Pages[T any] struct {
	list []*[pageEntries]T
	n    uint32
}

// A page of holds has 64 KiB.
const (
	pageBits    = 10
	pageEntries = 1 << pageBits
)

// Len is how many entries there are.
func (p *Pages[T]) Len() int { return int(p.n) }

// At is the entry of a number below Len.
func (p *Pages[T]) At(number uint32) *T { return &p.list[number>>pageBits][number%pageEntries] }

// Grow adds an entry, which is zero, and returns its number.
func (p *Pages[T]) Grow() (number uint32) {
	if number = p.n; number%pageEntries == 0 {
		p.list = append(p.list, new([pageEntries]T))
	}
	p.n++
	return number
}
