package shard

// resources are what callers find in a shard beside submissions and reservations, each a type of its own.
type resources struct {
	Bulks      Bulks
	Forwarding Forwarding
	Rules      Rules
	Schedules  Schedules
}

// of joins them with their shard.
func (r *resources) of(s *Shard) { *r = resources{Bulks{s}, Forwarding{s}, Rules{s}, Schedules{s}} }
