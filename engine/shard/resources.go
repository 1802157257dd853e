package shard

// resources are what callers find in a shard beside inserting, reserving and completing, each a type of its own.
type resources struct {
	Bulks       Bulks
	Consumers   Consumers
	DeadLetters DeadLetters
	Forwarding  Forwarding
	Inspect     Inspect
	Rules       Rules
	Schedules   Schedules
	Submissions Submissions
	Values      Values
}

// of joins them with their shard.
func (r *resources) of(s *Shard) {
	*r = resources{
		Bulks{s: s}, Consumers{s: s}, DeadLetters{s: s}, Forwarding{s: s},
		Inspect{s: s}, Rules{s: s}, Schedules{s: s}, Submissions{s: s}, Values{s: s},
	}
}
