package fair

// Pick is the tenant whose turn it is, false if none competes. It charges nothing: asked again without a Charge it says the
// same. The caller charges the tenant before it takes the chunk, because what taking it entails (Leave, Block) is to see the
// tenant charged; and refunds it if there was nothing to take after all, having said Leave or Block.
func (l *Ledger) Pick() (tenant uint32, ok bool) {
	l.reap()
	for len(l.waiting) > 0 && l.waiting[0].key <= l.running.whole {
		tenant := l.waiting[0].tenant
		l.remove(&l.waiting, 0)
		l.offer(tenant, &l.slots[tenant])
	}
	switch {
	case len(l.ready) > 0:
		return l.ready[0].tenant, true
	case len(l.waiting) > 0: // all are ahead, of those that are blocked: who is least ahead
		return l.waiting[0].tenant, true
	default:
		return 0, false
	}
}

// Charge says that the tenant was served, or holds, this much, from 0 to MaxCost. A tenant may be charged any number of times
// before anything is refunded or corrected. An idle tenant that is charged owes it.
func (l *Ledger) Charge(tenant uint32, c Cost) {
	l.counts.charges++
	l.charge(tenant, min(max(c, 0), MaxCost))
	l.reap()
}

// Refund takes back a charge whose pick came to nothing: the lags are again as if it had not been made. If the chunk is offered
// again, say Join first: to a tenant that is idle nothing is refunded, as idleness earns nothing.
func (l *Ledger) Refund(tenant uint32, c Cost) {
	l.counts.refunds++
	l.charge(tenant, -min(max(c, 0), MaxCost))
}

// Correct replaces a charge that was an estimate by what it turned out to be.
func (l *Ledger) Correct(tenant uint32, estimate, actual Cost) {
	l.charge(tenant, min(max(actual, 0), MaxCost)-min(max(estimate, 0), MaxCost))
	l.reap()
}

func (l *Ledger) charge(tenant uint32, c Cost) {
	s := l.slot(tenant)
	if s.state == idle {
		if c <= 0 {
			return
		}
		l.reap()
		l.admit(s)
		s.state = owing
		l.push(&l.owing, entry{s.tag, tenant})
	}
	of := &l.running
	if s.state == blocked {
		of = &l.frozen
	}
	lead := of.lead(s)
	cost := withinLead(lead, int64(c))
	of.setLead(s, lead+cost)
	s.received += Cost(cost).In(Chunk)
	if c > 0 {
		s.prompt = false
	}
	l.served(cost)
	if s.state != blocked {
		l.settle(tenant, s)
	}
}

// withinLead is the part of a cost that does not carry the lead out of ±maxLead.
func withinLead(lead, cost int64) int64 {
	if cost >= 0 {
		return max(0, min(cost, maxLead-lead))
	}
	return min(0, max(cost, -maxLead-lead))
}
