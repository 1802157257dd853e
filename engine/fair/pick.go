package fair

// Pick is the tenant whose turn it is, false if none competes. It charges nothing: without a Charge, the next Pick is the same. The caller
// charges the tenant before it takes the chunk, because the calls that follow (Leave, Block) must see the charge. If there was nothing to
// take after all, the caller says Leave or Block, and refunds the tenant.
func (l *Ledger) Pick() (tenant uint32, ok bool) {
	if l.root == 0 {
		return 0, false
	}
	l.reap()
	// If no tenant is eligible, because all are ahead of those that are blocked, take the one that is least ahead.
	return l.earliest(max(l.running.whole, l.at(l.root).least)), true
}

// Charge says that the tenant was served, or holds, this much, from 0 to MaxCost. A tenant may be charged any number of times before
// anything is refunded or corrected. An idle tenant that is charged owes the cost.
func (l *Ledger) Charge(tenant uint32, c Cost) {
	l.counts.charges++
	l.charge(tenant, min(max(c, 0), MaxCost))
	l.reap()
}

// Refund undoes a charge whose pick gave nothing: the lags are as if it had not been made. If the chunk is offered again, say Join first:
// an idle tenant gets no refund, because idleness earns nothing.
func (l *Ledger) Refund(tenant uint32, c Cost) {
	l.counts.refunds++
	l.charge(tenant, -min(max(c, 0), MaxCost))
}

// Correct replaces an estimated charge by the actual cost.
func (l *Ledger) Correct(tenant uint32, estimate, actual Cost) {
	l.charge(tenant, min(max(actual, 0), MaxCost)-min(max(estimate, 0), MaxCost))
	l.reap()
}

func (l *Ledger) charge(tenant uint32, c Cost) {
	s := l.slot(tenant)
	of := &l.running
	switch s.state {
	case Idle:
		if c <= 0 {
			return
		}
		l.admit(s)
		l.owe(tenant, s)
	case Active:
		l.take(tenant, s)
	case Blocked:
		of = &l.frozen
	}
	lead := of.lead(s)
	cost := withinLead(lead, int64(c))
	of.setLead(s, lead+cost)
	s.received += Cost(cost).In(Chunk)
	if c > 0 {
		s.prompt = false
	}
	l.place(tenant, s)
	l.served(cost)
}

// withinLead is the part of a cost that does not carry the lead out of ±maxLead.
func withinLead(lead, cost int64) int64 {
	if cost >= 0 {
		return max(0, min(cost, maxLead-lead))
	}
	return min(0, max(cost, -maxLead-lead))
}
