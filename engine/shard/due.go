package shard

import "github.com/quern-queue/quern/engine/queue"

// due is one thing that waits for a time: a chunk for its retry, or (index wholeSubmission) a submission for its run_at.
// Entries are not removed when they become moot; whoever pops one looks whether it still holds.
type due struct {
	at    queue.Time
	seq   uint32
	index uint32
	whole bool
	ends  bool // the submission's dead deadline
}

// dueHeap is a 4-ary heap by time: shallower than a binary one and a cache line per level.
type dueHeap []due

func (h dueHeap) first() (due, bool) {
	if len(h) == 0 {
		return due{}, false
	}
	return h[0], true
}

func (h *dueHeap) push(d due) {
	*h = append(*h, d)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if s[parent].at <= s[i].at {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

func (h *dueHeap) pop() {
	s := *h
	last := len(s) - 1
	s[0] = s[last]
	*h = s[:last]
	s = *h
	for i := 0; ; {
		least := i
		for child := 4*i + 1; child <= 4*i+4 && child < len(s); child++ {
			if s[child].at < s[least].at {
				least = child
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
