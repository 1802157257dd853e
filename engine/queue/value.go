package queue

import "github.com/quern-queue/quern/sdk/api"

// ValueSettings is what an operator demands of one value of a meta key.
type ValueSettings struct {
	Limit  uint32 // at most this many chunks of the value are reserved at once, by whatever strategy: 0 to MaxValueLimit, or NoLimit
	Weight uint32 // the value's share under Fair relative to others', in thousandths: 1 to 1,000,000; 0: none is set, which counts as 1000
}

// Bounds of ValueSettings.
const (
	MaxValueLimit = api.MaxValueLimit
	NoLimit       = 1<<32 - 1 // of ValueSettings.Limit: none is set
	MaxWeight     = api.MaxWeight * DefaultWeight
	DefaultWeight = 1000
)

// NoSettings are those of a value for which nothing is set.
func NoSettings() ValueSettings { return ValueSettings{Limit: NoLimit} }

// Saturated is a value of a meta key that has as many chunks in flight as its limit lets it, or more when the limit came later.
type Saturated struct {
	MetaEntry
	InFlight, Limit uint32
}
