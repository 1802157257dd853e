package reserver

// recount counts the reservations of one submission again, in slices between which anything may happen to them. What it has met has
// the mark of the list; what comes meanwhile is born with it, at the head, where the walk has been already; and what goes is counted
// off if it was met. So at the end the count is that of the moment. The mark means the opposite in the next recount: nothing has to
// be cleared. Recounts of a list are finished, or the list is never used again.
type recount struct {
	list          *List // nil: there is none
	at            int32 // the next to be met
	held, counted uint32
}

// BeginRecount begins to recount the reservations of a submission. There is one recount at a time.
func (r *Reserver) BeginRecount(list *List) {
	list.seen = !list.seen
	r.recount = recount{list: list, at: list.head}
}

// Recount meets up to `most` reservations, and says how many; more: some are left.
func (r *Reserver) Recount(most int) (n int, more bool) {
	c := &r.recount
	for ; n < most && c.at != none; n++ {
		h := r.holds.At(uint32(c.at))
		h.seen = c.list.seen
		c.came(h)
		c.at = h.next
	}
	return n, c.at != none
}

// EndRecount ends a recount and tells how many reservations there are, and how many of them are Counted.
func (r *Reserver) EndRecount() (held, counted uint32) {
	held, counted = r.recount.held, r.recount.counted
	r.recount = recount{}
	return held, counted
}

// SetLen corrects how many reservations the list says that it has.
func (l *List) SetLen(n uint32) { l.count = n }

func (r *recount) came(h *Hold) {
	r.held++
	if h.Counted {
		r.counted++
	}
}

func (r *recount) left(slot uint32, h *Hold) {
	if r.at == int32(slot) {
		r.at = h.next
	}
	if h.seen != r.list.seen {
		return // it was not met
	}
	r.held--
	if h.Counted {
		r.counted--
	}
}
