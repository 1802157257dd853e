package backlog

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// limits are what the branch of a frame demands of keys, each once.
type limits []limit

type limit struct {
	key *metaKey
	max uint32
}

// place is where the limit of a key is, -1 if there is none.
func (l limits) place(key *metaKey) int {
	return slices.IndexFunc(l, func(x limit) bool { return x.key == key })
}

func (l limits) has(key *metaKey) bool { return l.place(key) >= 0 }

// on is how many chunks of a value of the key may be in flight.
func (l limits) on(key *metaKey) uint32 {
	if at := l.place(key); at >= 0 {
		return l[at].max
	}
	return queue.NoLimit
}

// putFirst has the limit of a key looked at before the others.
func (l limits) putFirst(key *metaKey) {
	if at := l.place(key); at > 0 {
		own := l[at]
		copy(l[1:], l[:at])
		l[0] = own
	}
}
