package fair

// The tenants that compete are a search tree by deadline, and of equal deadlines by the order of joining. Every node knows the least tag
// below it. So one way down finds the first deadline among the eligible tenants, whose tags are not after virtual time. No pick has to move
// tenants that become eligible, which are often many at once. The tree is a treap: a hash of the number is the rank, so that its shape
// depends only on the tenants in it. Nodes are named by number + 1; 0 is none.

type node = uint32

func (l *Ledger) at(n node) *slot {
	l.keep(n - 1)
	return &l.slots[n-1]
}

// rank is a bijection, so no two are equal.
func rank(n node) uint32 {
	n ^= n >> 16
	n *= 0x7feb352d
	n ^= n >> 15
	n *= 0x846ca68b
	return n ^ n>>16
}

// first says whether a is before b in the tree.
func first(a, b *slot) bool {
	return a.deadline < b.deadline || a.deadline == b.deadline && a.joined < b.joined
}

// put enters a tenant that competes, by its tag.
func (l *Ledger) put(tenant uint32, s *slot) {
	s.state = Active
	s.deadline = l.deadlineOf(s)
	s.left, s.right, s.least = 0, 0, s.tag
	l.active++
	n := tenant + 1
	at := &l.root
	for *at != 0 && rank(*at) > rank(n) {
		parent := l.at(*at)
		parent.least = min(parent.least, s.tag)
		if first(s, parent) {
			at = &parent.left
		} else {
			at = &parent.right
		}
	}
	below := *at
	*at = n
	s.left, s.right = l.split(below, s)
	l.update(s)
}

// split parts a tree into what is before and what is after s.
func (l *Ledger) split(n node, s *slot) (before, after node) {
	if n == 0 {
		return 0, 0
	}
	t := l.at(n)
	if first(t, s) {
		t.right, after = l.split(t.right, s)
		before = n
	} else {
		before, t.left = l.split(t.left, s)
		after = n
	}
	l.update(t)
	return before, after
}

// take removes a tenant, whose deadline and tag must be as they were put.
func (l *Ledger) take(tenant uint32, s *slot) {
	l.active--
	l.root = l.without(l.root, tenant+1, s)
}

func (l *Ledger) without(n, target node, s *slot) node {
	if n == target {
		return l.merge(s.left, s.right)
	}
	t := l.at(n)
	if first(s, t) {
		t.left = l.without(t.left, target, s)
	} else {
		t.right = l.without(t.right, target, s)
	}
	if t.least == s.tag { // else it is another's
		l.update(t)
	}
	return n
}

// merge joins two trees, all of the first before all of the second.
func (l *Ledger) merge(a, b node) node {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case rank(a) > rank(b):
		s := l.at(a)
		s.right = l.merge(s.right, b)
		l.update(s)
		return a
	default:
		s := l.at(b)
		s.left = l.merge(a, s.left)
		l.update(s)
		return b
	}
}

func (l *Ledger) update(s *slot) {
	s.least = s.tag
	if s.left != 0 {
		s.least = min(s.least, l.at(s.left).least)
	}
	if s.right != 0 {
		s.least = min(s.least, l.at(s.right).least)
	}
}

// earliest is the first in the tree whose tag is at most limit. There must be one.
func (l *Ledger) earliest(limit int64) (tenant uint32) {
	n := l.root
	for {
		s := l.at(n)
		switch {
		case s.left != 0 && l.at(s.left).least <= limit:
			n = s.left
		case s.tag <= limit:
			return n - 1
		default:
			n = s.right
		}
	}
}
