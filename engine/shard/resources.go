package shard

import "github.com/quern-queue/quern/engine/shard/inspect"

// resources are what a shard has beside inserting, reserving and completing, each a type of its own with the state that only it needs.
type resources struct {
	Acts         Acts
	Bulks        Bulks
	Consumers    Consumers
	Cuts         Cuts
	DeadLetters  DeadLetters
	Ends         Ends
	Forwarding   Forwarding
	Inspect      inspect.Inspector
	Recounts     Recounts
	Reservations Reservations
	Rules        Rules
	Schedules    Schedules
	Scoring      Scoring
	Settings     Settings
	Submissions  Submissions
	Values       Values
	Views        Views
	Worker       Worker
}

// of joins them with their shard.
func (r *resources) of(s *Shard) {
	*r = resources{
		Acts{s: s}, Bulks{s: s}, Consumers{s: s}, Cuts{s}, DeadLetters{s: s}, Ends{s: s}, Forwarding{s: s}, inspect.New(inspected{s}),
		Recounts{s: s}, Reservations{s}, Rules{s: s}, Schedules{s: s}, Scoring{s: s}, Settings{s}, Submissions{s: s},
		Values{s: s}, Views{s: s}, Worker{s: s},
	}
}

// inner is what a shard works with and callers do not see, each a type of its own likewise.
type inner struct {
	checkpoints checkpointer
	claims      claims
	contents    contents
	disk        disk
	snapshots   snapshotter
	waiters     waiters
	writer      writer
}

// of joins it with its shard.
func (i *inner) of(s *Shard) {
	*i = inner{claims: claims{s: s}, contents: contents{s: s}, disk: disk{s: s}}
	i.checkpoints.init(s)
	i.snapshots.s = s
	i.waiters = waiters{s: s, all: map[*waiter]struct{}{}}
	i.writer = writer{s: s, wake: make(chan struct{}, 1), heal: make(chan chan struct{}), ended: make(chan struct{})}
}
