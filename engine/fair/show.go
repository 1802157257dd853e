package fair

// Info is how a tenant stands. Amounts are in Ledger.Unit.
type Info struct {
	Tenant   uint32
	State    State
	Weight   Weight
	Share    float64 // its entitlement to the service now: 0 to 1; 0 unless it is active
	Received float64 // since it was first heard of, less what was refunded
	Entitled float64 // Received + Lag
	Lag      float64 // positive: behind, it is owed; negative: ahead
	Next     float64 // active: about how much all tenants are served until its next pick is over
}

// Totals is how the ledger stands. The counts never fall.
type Totals struct {
	Active, Owing, Blocked          int
	Weight                          float64 // of the active and the owing
	VirtualTime                     float64 // Ledger.Unit per weight
	Charges, Refunds, Joins, Leaves uint64  // Leaves counts when the tenant is forgotten, not when it starts to owe
}

// Lag is how much the tenant is owed (positive) or ahead (negative), rounded to 2^-40 chunk.
func (l *Ledger) Lag(tenant uint32) Cost {
	if int(tenant) >= len(l.slots) {
		return 0
	}
	switch s := &l.slots[tenant]; s.state {
	case Idle:
		return 0
	case Blocked:
		return Cost(l.frozen.lag(s))
	default:
		return Cost(l.running.lag(s))
	}
}

// Info is how the tenant stands.
func (l *Ledger) Info(tenant uint32) Info {
	if int(tenant) >= len(l.slots) {
		return Info{Tenant: tenant, Weight: DefaultWeight}
	}
	s := &l.slots[tenant]
	lag := l.Lag(tenant).In(l.unit())
	received := s.received * Chunk.In(l.unit())
	i := Info{Tenant: tenant, State: s.state, Weight: s.weight, Received: received, Entitled: received + lag, Lag: lag}
	if i.State == Active {
		sum := float64(l.running.weight)
		i.Share = float64(s.weight) / sum
		ahead := float64(s.deadline-l.running.whole) - float64(l.running.part)/sum
		i.Next = max(0, ahead) * sum / float64(l.unit())
	}
	return i
}

// Each shows every tenant that is not idle, by number, until fn says false. The ledger must not be changed meanwhile.
func (l *Ledger) Each(fn func(Info) bool) {
	for i := range l.slots {
		if l.slots[i].state != Idle && !fn(l.Info(uint32(i))) {
			return
		}
	}
}

// Totals is how the ledger stands. It costs the same whatever the number of tenants.
func (l *Ledger) Totals() Totals {
	t := Totals{
		Active: l.active, Owing: len(l.owing), Blocked: l.blocked,
		Weight:  float64(l.running.weight) / 1000,
		Charges: l.counts.charges, Refunds: l.counts.refunds, Joins: l.counts.joins, Leaves: l.counts.leaves,
	}
	t.VirtualTime = (l.passed + float64(l.running.whole)) * 1000 / float64(l.unit())
	return t
}

// SumOfLags adds up the lags of all tenants, from their tags: anything but 0 is a bug in the ledger. It looks at every slot.
func (l *Ledger) SumOfLags() Cost {
	sum := l.running.part + l.frozen.part
	for i := range l.slots {
		switch s := &l.slots[i]; s.state {
		case Idle:
		case Blocked:
			sum -= l.frozen.lead(s)
		default:
			sum -= l.running.lead(s)
		}
	}
	return Cost(sum)
}

// Active is how many tenants compete.
func (l *Ledger) Active() int { return l.active }

// Blocked is how many tenants have something to offer and may not.
func (l *Ledger) Blocked() int { return l.blocked }
