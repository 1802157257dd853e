package shard

// resources are what a shard has beside inserting, reserving and completing, each a type of its own with the state that only it needs.
type resources struct {
	Bulks       Bulks
	Consumers   Consumers
	DeadLetters DeadLetters
	Forwarding  Forwarding
	Inspect     Inspect
	Recounts    Recounts
	Rules       Rules
	Schedules   Schedules
	Scoring     Scoring
	Submissions Submissions
	Values      Values
	Views       Views
	Worker      Worker
}

// of joins them with their shard.
func (r *resources) of(s *Shard) {
	*r = resources{
		Bulks{s: s}, Consumers{s: s}, DeadLetters{s: s}, Forwarding{s: s}, Inspect{s: s},
		Recounts{s: s}, Rules{s: s}, Schedules{s: s}, Scoring{s: s}, Submissions{s: s},
		Values{s: s}, Views{s: s}, Worker{s: s},
	}
}
