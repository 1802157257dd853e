package shard

// resources are what callers find in a shard beside submissions and reservations, each a type of its own.
type resources struct {
	Rules     Rules
	Schedules Schedules
}

// of joins them with their shard.
func (r *resources) of(s *Shard) { *r = resources{Rules{s}, Schedules{s}} }
