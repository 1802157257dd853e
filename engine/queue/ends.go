package queue

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// EndPlace is where the end of a submission stands among all ends of its queue: in the batch at a position of the journal, and in that by
// the submission's number. It is durable, and grows with each end. The zero value is before all.
type EndPlace struct {
	Position uint64
	Seq      uint32
}

// Compare orders places.
func (p EndPlace) Compare(o EndPlace) int {
	return cmp.Or(cmp.Compare(p.Position, o.Position), cmp.Compare(p.Seq, o.Seq))
}

// String is the place in the form that ParseEndPlace reads, such as "1234-56".
func (p EndPlace) String() string { return fmt.Sprintf("%d-%d", p.Position, p.Seq) }

// ParseEndPlace reads a place that String wrote, or "0", which is before all ends.
func ParseEndPlace(text string) (p EndPlace, ok bool) {
	if text == "0" {
		return p, true
	}
	position, seq, _ := strings.Cut(text, "-")
	at, err := strconv.ParseUint(position, 10, 63)
	n, wrong := strconv.ParseUint(seq, 10, 32)
	p = EndPlace{at, uint32(n)}
	return p, err == nil && wrong == nil && p.String() == text
}

// End is that a submission ended, at its place.
type End struct {
	Place      EndPlace
	Submission Submission
}
