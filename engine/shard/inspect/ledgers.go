package inspect

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// Ledger is a Fair block that is in use, at all its places together. ID is the same for as long as strategies have this branch.
type Ledger struct {
	backlog.Division
	backlog.Totals
	ID string
}

// LedgerOrder is in which order the tenants of a ledger are listed.
type LedgerOrder uint8

// The orders: who received most, who is owed most, and who is ahead most.
const (
	ByReceived LedgerOrder = iota
	ByBehind
	ByAhead
)

// LedgerTenant is a tenant of a ledger, inside of the tenants of the blocks around it.
type LedgerTenant struct {
	backlog.Tenant
	Around []backlog.Tenant
}

// lagBounds divide the lags into classes: what an ideal division allows in the middle, and twice as much from class to class.
var lagBounds = [...]float64{-32, -16, -8, -4, -2, -1, -0.5, -0.1, 0.1, 0.5, 1, 2, 4, 8, 16, 32}

// LeastLag is the lag up to which a tenant is owed nothing: less than anyone could be given.
var LeastLag = lagBounds[len(lagBounds)/2]

// lagClasses are tenants with a lag up to a bound and above the one before; the last: above all.
func lagClasses() []api.LagClass {
	classes := make([]api.LagClass, len(lagBounds)+1)
	for i := range lagBounds {
		classes[i].To, classes[i+1].From = new(lagBounds[i]), new(lagBounds[i])
	}
	return classes
}

// mostMembers is how many tenants one question looks at.
const mostMembers = 200_000

// ledgers are the Fair blocks in use, by branch.
func ledgers(m *machine.Machine) (list []Ledger) {
	m.Backlog.Ledgers.Divisions(func(d backlog.Division) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(d.Branch)) // never fails
		list = append(list, Ledger{Division: d, ID: strconv.FormatUint(h.Sum64(), 36) + "-" + strconv.Itoa(d.Number)})
	})
	slices.SortStableFunc(list, func(a, b Ledger) int { return cmp.Or(cmp.Compare(a.Branch, b.Branch), a.Number-b.Number) })
	return list
}

// Ledgers are the Fair blocks in use, by branch, the outer ones first. A block is in use when someone reserved by it, waits by it
// or asked about it, until others are needed more.
func (ins *Inspector) Ledgers(ctx context.Context) (list []Ledger, err error) {
	err = ins.Look(func(m *machine.Machine) (machine.Looks, error) {
		list = ledgers(m)
		return machine.Looks(len(list)), nil
	})
	for i := range list {
		if err == nil {
			_, err = ins.members(ctx, &list[i], func(*backlog.Member) {})
		}
	}
	return list, err
}

// members counts the tenants of a ledger and calls fn for each, slice by slice.
func (ins *Inspector) members(ctx context.Context, l *Ledger, fn func(*backlog.Member)) (whole bool, err error) {
	var at backlog.Place
	met := 0
	err = ins.Slices(ctx, func(*machine.Machine, int) (next int, n machine.Looks) {
		l.Shares = l.Places()
		whole = l.Members(&at, machine.LookMost, func(m *backlog.Member) {
			met++
			l.Add(&m.Tenant)
			fn(m)
		})
		if whole || met >= mostMembers {
			return 0, machine.LookMost
		}
		return 1, machine.LookMost
	})
	return whole, err
}

// Tenants lists up to `most` tenants of a ledger in this order, of all or of one value. The sums are over all that were looked at: of a
// ledger that is at one place the lags add up to 0, when no one reserves meanwhile. found is false when no ledger in use has the id.
func (ins *Inspector) Tenants(ctx context.Context, id string, order LedgerOrder, only *queue.MetaValue, most int) (l Ledger,
	list []LedgerTenant, sums api.LedgerTenants, found bool, err error) {
	err = ins.Look(func(m *machine.Machine) (machine.Looks, error) {
		all := ledgers(m)
		i := slices.IndexFunc(all, func(l Ledger) bool { return l.ID == id })
		if found = i >= 0; found {
			l = all[i]
		}
		return machine.Looks(len(all)), nil
	})
	if err != nil || !found {
		return l, nil, sums, found, err
	}
	sums.MostBehind, sums.MostAhead, sums.Lags = math.Inf(-1), math.Inf(1), lagClasses()
	sums.Whole, err = ins.members(ctx, &l, func(m *backlog.Member) {
		sums.Tenants++
		sums.Received += m.Received
		sums.Entitled += m.Entitled
		sums.Lag += m.Lag
		class, _ := slices.BinarySearch(lagBounds[:], m.Lag)
		sums.Lags[class].Tenants++
		sums.MostBehind, sums.MostAhead = max(sums.MostBehind, m.Lag), min(sums.MostAhead, m.Lag)
		if only != nil && (!m.HasValue || m.Value != *only) {
			return
		}
		at, _ := slices.BinarySearchFunc(list, m.Tenant, func(a LedgerTenant, b backlog.Tenant) int { return order.compare(&a.Tenant, &b) })
		if at < most {
			list = slices.Insert(list, at, LedgerTenant{m.Tenant, m.Around()})
			list = list[:min(most, len(list))]
		}
	})
	if sums.Tenants == 0 {
		sums.MostBehind, sums.MostAhead = 0, 0
	}
	return l, list, sums, true, err
}

// compare says who comes first; of equals the one that was there longer.
func (o LedgerOrder) compare(a, b *backlog.Tenant) int {
	first := 0
	switch o {
	case ByReceived:
		first = cmp.Compare(b.Received, a.Received)
	case ByBehind:
		first = cmp.Compare(b.Lag, a.Lag)
	case ByAhead:
		first = cmp.Compare(a.Lag, b.Lag)
	}
	return cmp.Or(first, cmp.Compare(a.Info.Tenant, b.Info.Tenant))
}
