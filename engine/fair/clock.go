package fair

import "math/bits"

// clock is a virtual time that belongs to a set of tenants: whole + part/weight units of cost per thousandth of weight, where weight is the
// sum of theirs. Their lags are measured from it. Between calls it is normal (0 <= part < weight). Of an empty set, part is 0.
type clock struct {
	whole  int64
	part   int64
	weight int64
}

// share is weight × (the clock − whole), rounded: between 0 and weight.
func (c *clock) share(weight int64) int64 {
	if c.part == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(weight), uint64(c.part))
	low, carry := bits.Add64(low, uint64(c.weight)/2, 0)
	quotient, _ := bits.Div64(high+carry, low, uint64(c.weight)) // part < weight, so the quotient fits
	return int64(quotient)
}

// lead is weight × (the tag − whole), exactly.
func (c *clock) lead(s *slot) int64 {
	return int64(s.weight)*(s.tag-c.whole) + int64(s.fraction)
}

// setLead gives the slot the tag of a lead.
func (c *clock) setLead(s *slot, lead int64) {
	tag, fraction := floorDivide(lead, int64(s.weight))
	s.tag, s.fraction = c.whole+tag, uint32(fraction)
}

// lag is weight × (the clock − the tag), rounded.
func (c *clock) lag(s *slot) int64 {
	return c.share(int64(s.weight)) - c.lead(s)
}

// enter takes a tenant into the set with a given lag. The clock stays where it is.
func (c *clock) enter(s *slot, lag int64) {
	share := c.share(int64(s.weight))
	c.setLead(s, share-lag)
	c.weight += int64(s.weight)
	c.advance(share)
}

// exit takes a tenant out of the set. The clock stays where it is. The lag that exit returns is missing from the sum of the others.
func (c *clock) exit(s *slot) (lag int64) {
	share := c.share(int64(s.weight))
	lag = share - c.lead(s)
	c.weight -= int64(s.weight)
	c.advance(-share)
	return lag
}

// advance moves the clock as if the set had been served this much more (or less).
func (c *clock) advance(cost int64) {
	c.part += cost
	switch {
	case c.weight == 0:
		c.part = 0
	case c.part < 0 || c.part >= c.weight:
		var whole int64
		whole, c.part = floorDivide(c.part, c.weight)
		c.whole += whole
	}
}

func floorDivide(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}
