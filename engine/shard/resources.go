package shard

// resources are what callers find in a shard beside submissions and reservations, each a type of its own.
type resources struct {
	Bulks       Bulks
	DeadLetters DeadLetters
	Forwarding  Forwarding
	Rules       Rules
	Schedules   Schedules
}

// of joins them with their shard.
func (r *resources) of(s *Shard) {
	*r = resources{Bulks{s: s}, DeadLetters{s: s}, Forwarding{s: s}, Rules{s: s}, Schedules{s: s}}
}
