package machine

// Current is the record that tells of a submission now; nil: the history does. One that ended may have been opened
// again since the checkpoint began, as another record: its row has to be written by this very checkpoint, which lets
// the journal forget all that came before.
func (m *Machine) Current(r *Record) *Record {
	if r.Ended != nil && r.Ended.replaced {
		return m.Record(r.ID)
	}
	return r
}

// Rowed notes that the history has no older row of this record any more.
func (m *Machine) Rowed(r *Record) {
	if r.Reopened {
		r.Reopened = false
		m.Opened--
	}
}
