package inspect

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// ledger is a Fair block that is in use, at all its places together. Lag is how much a tenant is owed, in chunks or in
// seconds of work: its share of all work handed out while it had some, minus the work that it received. Negative: it is
// ahead. Over one block at one place lags add up to 0, as one tenant's shortfall is another's surplus.
type ledger struct {
	backlog.Division
	backlog.Totals
	id string // the same for as long as strategies have this branch
}

func (l *ledger) api() api.Ledger {
	out := api.Ledger{ID: l.id, Branch: l.Branch, Key: cmp.Or(l.Key, strategy.SubmissionKey),
		Cost:  strategy.ByChunk.String(),
		Depth: l.Depth, Places: l.Shares, Active: l.Active, Owing: l.Owing, Blocked: l.Blocked}
	if l.Time {
		out.Cost = strategy.ByTime.String()
	}
	return out
}

// LedgerOrder is in which order the tenants of a ledger are listed.
type LedgerOrder uint8

// The orders: first those that received most, are owed most, or are ahead most.
const (
	ByReceived LedgerOrder = iota
	ByBehind
	ByAhead
)

// seated is a tenant of a ledger, inside of the tenants of the blocks around it.
type seated struct {
	backlog.Tenant
	around []backlog.Tenant
}

func (t *seated) api() api.LedgerTenant {
	own := t.API("")
	out := api.LedgerTenant{Value: own.Value, State: own.State, Weight: own.Weight, Share: own.Share,
		Received: t.Received, Entitled: t.Entitled, Lag: own.Lag}
	for i := range t.around {
		out.Around = append(out.Around, t.around[i].API(""))
	}
	return out
}

// lagBounds divide the lags into classes: lags that an ideal division allows are in the middle, and the bounds double
// from class to class.
var lagBounds = [...]float64{-32, -16, -8, -4, -2, -1, -0.5, -0.1, 0.1, 0.5, 1, 2, 4, 8, 16, 32}

// leastLag is the lag up to which a tenant is owed nothing, as it is less than one chunk.
var leastLag = lagBounds[len(lagBounds)/2]

// lagClasses are tenants with a lag up to a bound and above the one before; the last: above all.
func lagClasses() []api.LagClass {
	classes := make([]api.LagClass, len(lagBounds)+1)
	for i := range lagBounds {
		classes[i].To, classes[i+1].From = new(lagBounds[i]), new(lagBounds[i])
	}
	return classes
}

// MostMembers is how many tenants one question looks at. With more tenants, the answer says that it is not whole, and
// its sums are of the part that was looked at.
const MostMembers = 200_000

// ledgers are the Fair blocks in use, by branch.
// The id is a hash of the branch and the block's number in it, so a link to a ledger stays good while strategies
// have that branch, also over a restart.
func ledgers(m *machine.Machine) (list []ledger) {
	m.Backlog.Ledgers.Divisions(func(d backlog.Division) {
		list = append(list, ledger{Division: d, id: LedgerID(d.Branch, d.Number)})
	})
	slices.SortStableFunc(list, func(a, b ledger) int {
		return cmp.Or(cmp.Compare(a.Branch, b.Branch), a.Number-b.Number)
	})
	return list
}

// LedgerID is the id of a Fair block: of a branch with this text, the block of this number in it.
func LedgerID(branch string, number int) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(branch)) // never fails
	return strconv.FormatUint(h.Sum64(), 36) + "-" + strconv.Itoa(number)
}

// Ledgers are the Fair blocks in use, by branch, the outer ones first. A block is in use when someone reserved with it,
// waits with it or asked about it, until its memory is needed for others.
func (ins *Inspector) Ledgers(ctx context.Context) ([]api.Ledger, error) {
	var all []ledger
	err := ins.Ask(func(m *machine.Machine) (machine.Looks, error) {
		all = ledgers(m)
		return machine.Looks(len(all)), nil
	})
	list := make([]api.Ledger, len(all))
	for i := range all {
		if err == nil {
			_, err = ins.members(ctx, &all[i], func(*backlog.Member) {})
		}
		list[i] = all[i].api()
	}
	return list, err
}

// members counts the tenants of a ledger and calls fn for each, slice by slice. It gives up the mutex after each slice.
// Tenants may join or leave in between, so the sums are of slightly different moments.
func (ins *Inspector) members(ctx context.Context, l *ledger, fn func(*backlog.Member)) (whole bool, err error) {
	var at backlog.Place
	met := 0
	err = ins.Slices(ctx, func(*machine.Machine, int) (next int, n machine.Looks) {
		l.Shares = l.Places()
		whole = l.Members(&at, machine.LookMost, func(m *backlog.Member) {
			met++
			l.Add(&m.Tenant)
			fn(m)
		})
		if whole || met >= MostMembers {
			return 0, machine.LookMost
		}
		return 1, machine.LookMost
	})
	return whole, err
}

// Tenants lists up to `most` tenants of a ledger in this order, of all or of one value. The
// sums are over all that were looked at: of a ledger that is at one place the lags add up
// to 0, when no one reserves meanwhile. found is false when no ledger in use has the id.
func (ins *Inspector) Tenants(ctx context.Context, id string, order LedgerOrder, only *queue.MetaValue, most int) (
	sums api.LedgerTenants, found bool, err error) {
	var l ledger
	err = ins.Ask(func(m *machine.Machine) (machine.Looks, error) {
		all := ledgers(m)
		i := slices.IndexFunc(all, func(l ledger) bool { return l.id == id })
		if found = i >= 0; found {
			l = all[i]
		}
		return machine.Looks(len(all)), nil
	})
	if err != nil || !found {
		return sums, found, err
	}
	listed := NewListed(order, only, most)
	whole, err := ins.members(ctx, &l, func(m *backlog.Member) { listed.Add(&m.Tenant, m.Around) })
	return listed.Answer(l.api(), whole), true, err
}

// Listed are the tenants of a ledger that an answer lists, and the sums of all.
// The list is kept sorted and short while it is filled: a ledger may have many more tenants than anyone reads.
type Listed struct {
	order LedgerOrder
	only  *queue.MetaValue
	most  int
	sums  api.LedgerTenants
	list  []seated
}

// NewListed lists up to `most` tenants in this order, all or those of one value.
func NewListed(order LedgerOrder, only *queue.MetaValue, most int) *Listed {
	return &Listed{order: order, only: only, most: most,
		sums: api.LedgerTenants{MostBehind: math.Inf(-1), MostAhead: math.Inf(1), Lags: lagClasses()}}
}

// Add counts a tenant, and lists it if it is one of the first. around says inside of which tenants it is.
func (x *Listed) Add(t *backlog.Tenant, around func() []backlog.Tenant) {
	sums := &x.sums
	sums.Tenants++
	sums.Received += t.Received
	sums.Entitled += t.Entitled
	sums.Lag += t.Lag
	class, _ := slices.BinarySearch(lagBounds[:], t.Lag)
	sums.Lags[class].Tenants++
	sums.MostBehind, sums.MostAhead = max(sums.MostBehind, t.Lag), min(sums.MostAhead, t.Lag)
	if x.only != nil && (!t.HasValue || t.Value != *x.only) {
		return
	}
	at, _ := slices.BinarySearchFunc(x.list, *t,
		func(a seated, b backlog.Tenant) int { return x.order.compare(&a.Tenant, &b) })
	if at < x.most {
		x.list = slices.Insert(x.list, at, seated{*t, around()})
		x.list = x.list[:min(x.most, len(x.list))]
	}
}

// Answer is the answer about a ledger. whole says that it has no other tenants.
func (x *Listed) Answer(of api.Ledger, whole bool) api.LedgerTenants {
	sums := &x.sums
	if sums.Tenants == 0 {
		sums.MostBehind, sums.MostAhead = 0, 0
	}
	sums.Whole, sums.Ledger, sums.Items = whole, of, make([]api.LedgerTenant, len(x.list))
	for i := range x.list {
		sums.Items[i] = x.list[i].api()
	}
	sums.Sentence = fairness(sums)
	return *sums
}

// fairness says in one sentence how far tenants are from their due.
// How far the worst-off tenant is behind says more than an average, which is 0 in a ledger at one place.
func fairness(list *api.LedgerTenants) string {
	unit := "chunks"
	if list.Ledger.Cost == strategy.ByTime.String() {
		unit = "s"
	}
	var text string
	switch behind := list.MostBehind; {
	case list.Tenants == 0:
		return "No tenant has work or a claim now."
	case behind <= leastLag:
		text = "No one is owed anything"
	default:
		text = fmt.Sprintf("No one is owed more than %.2f %s", behind, unit)
	}
	if !list.Whole {
		text += ", of the " + queue.Counted(uint64(list.Tenants), "tenant") +
			" that " + queue.One(uint64(list.Tenants), "was", "were") + " looked at"
	}
	if blocked := uint64(list.Ledger.Blocked); blocked > 0 {
		text += "; " + queue.Compact(blocked) + queue.One(blocked, " tenant is", " tenants are") + " held by limits"
	}
	return text + "."
}

// compare says which tenant comes first; of equals the one that was there longer.
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
