package machine

// A recount (engine/shard/recount) counts the tries of a submission again while they change. What happens to one that it has met must not
// be missed, so the machine, which alone changes tries, notes it in the tally too.

// Tally is what the tries of one submission come to.
type Tally struct{ Waiting, Dead, Skips, Shelved, Lent, Ready uint32 }

// Counting is the submission whose tries a recount is counting.
type Counting struct {
	Of  *Record // nil: none
	Sum Tally   // of the tries that were met
	off Tally   // takes what is not counted
}

// Begin counts the tries of a submission: none of them was met, and all that come from now on are.
func (c *Counting) Begin(r *Record) {
	r.met = !r.met
	c.Of, c.Sum = r, Tally{}
}

// Meets says whether a try is met for the first time.
func (c *Counting) Meets(t *Try) bool {
	first := t.met != c.Of.met
	t.met = c.Of.met
	return first
}

// tallied is where a change of what a try counts as is noted as well: nowhere, unless a recount has met the try.
func (c *Counting) tallied(r *Record, t *Try) *Tally {
	if c.Of == r && t != nil && t.met == r.met {
		return &c.Sum
	}
	return &c.off
}

// Changing has to be called before anything changes that a submission contributes to totals. The backlog does so for its own part.
func (m *Machine) Changing(r *Record) {
	if r.Sub != nil {
		m.Backlog.Recount.Changing(r.Sub)
	}
}
