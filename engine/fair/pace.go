package fair

import "time"

// Pace is how long chunks are held, on average, in seconds. 0: not known.
type Pace float32

// Learn moves the average by an eighth towards the time that a chunk took, as TCP does with
// round trips (RFC 6298).
func (p *Pace) Learn(seconds float32) {
	if *p == 0 {
		*p = Pace(seconds)
		return
	}
	*p += (Pace(seconds) - *p) / 8
}

// Likely estimates how long a consumer will hold a chunk of a tenant, in milliseconds, at least 1. If no chunk of the tenant has ended yet,
// the estimate is the average of all tenants. If none has ended at all, it is a second.
func Likely(tenant, all Pace) uint32 {
	pace := tenant
	if pace == 0 {
		pace = all
	}
	if pace == 0 {
		pace = 1
	}
	return uint32(max(1, pace*1000))
}

// Milliseconds is the cost of holding a consumer for so long.
func Milliseconds(n uint32) Cost { return Time(time.Duration(n) * time.Millisecond) }
