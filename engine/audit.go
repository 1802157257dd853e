package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// DefaultAuditKeep is how long entries of the audit log are kept unless Options say otherwise.
const DefaultAuditKeep = 90 * 24 * time.Hour

// AuditEntry is an entry of the audit log. Cursor names its place: entries after and before it can be asked for.
type AuditEntry struct {
	queue.Act
	Cursor string
}

// AuditFilter says which entries are meant. A field that is zero does not filter.
type AuditFilter struct {
	Since, Until queue.Time // from this time on; before that one
	Actor        string
	Action       string // whole, such as "rule.create", or all of a resource: "rule"
	Queue        string
	Target       string
	Outcome      string // queue.ActOK or queue.ActRefused
	OldestFirst  bool   // the order, in which cursors go on; a list that is the oldest first needs a cursor
}

// means says whether the filter means an entry.
func (f *AuditFilter) means(a *queue.Act) bool {
	resource, _, _ := strings.Cut(a.Action, ".")
	return a.At >= f.Since && (f.Until == 0 || a.At < f.Until) && (f.Actor == "" || f.Actor == a.Actor) &&
		(f.Action == "" || f.Action == a.Action || f.Action == resource) && (f.Queue == "" || f.Queue == a.Queue) &&
		(f.Target == "" || f.Target == a.Target) && (f.Outcome == "" || f.Outcome == a.Outcome)
}

// auditScan is how many rows of the log one page looks at. With a filter that few entries match, pages are short or empty, and still have a
// next one.
const auditScan = 5000

// AuditPage is a page of the audit log.
type AuditPage struct {
	Page[AuditEntry]
	Lacks []string // queues that the filter means and whose latest entries may be missing: in quarantine, or their nodes did not answer
}

// Audit lists entries of the audit log, the latest first: at most limit, before the cursor ("": from the end of the log). An entry is as
// durable as its act, and stays for Options.AuditKeep. In a cluster, far has the answers of other nodes to the same question.
func (e *Engine) Audit(f AuditFilter, cursor string, limit int, far ...FreshActs) (page AuditPage, err error) {
	from, order, err := f.begin(cursor)
	if err != nil {
		return page, err
	}
	// Queues put their entries into the log now and then. The entries that are not there yet are read first: one that a queue puts there
	// meanwhile is found twice and not missed. In a cluster, this node then catches up with the log.
	fresh := append(far, freshActs(e, &f, order, from, limit, queue.MaxAnswerBytes))
	behind := e.nodes != nil && e.nodes.catchUp() != nil
	page.Lacks = auditLacks(e, &f, fresh, behind)
	page.Page, err = pageOfActs(e, &f, order, from, limit, fresh)
	return page, err
}

// begin returns the place where a list begins, and its order.
func (f *AuditFilter) begin(cursor string) (from store.ActPlace, order actOrder, err error) {
	from, order = store.ActPlace{At: math.MaxInt64}, latestFirst
	if f.OldestFirst {
		order = oldestFirst
	}
	if cursor != "" || f.OldestFirst {
		if from, err = parseActPlace(cursor); err != nil {
			return from, order, err
		}
	}
	switch {
	case f.OldestFirst && from.At < f.Since:
		from = placeBefore(f.Since)
	case !f.OldestFirst && f.Until != 0 && f.Until < from.At:
		from = placeBefore(f.Until)
	}
	return from, order, nil
}

// auditLacks names the queues that the filter means and of which entries may be missing. behind says that entries that other nodes have put
// into the log may not have arrived here.
func auditLacks(e *Engine, f *AuditFilter, fresh []FreshActs, behind bool) (names []string) {
	looked := map[string]bool{}
	for i := range fresh {
		if own := i == len(fresh)-1; own || !behind {
			for _, name := range fresh[i].Served {
				looked[name] = true
			}
		}
	}
	for _, q := range e.Queues() {
		if whole, number := queue.CutShard(q.Name); number == 1 && looked[whole] {
			continue // the first shard, whose entries have the name of its queue
		}
		if !looked[q.Name] && (f.Queue == "" || f.Queue == q.Name) {
			names = append(names, q.Name)
		}
	}
	return names
}

// Damaged says whether an error tells of a file that is damaged: asking again does not help.
func Damaged(err error) bool {
	_, is := errors.AsType[*queue.FormatError](err)
	return is
}

// actOrder is the order in which the log is read.
type actOrder int

const (
	latestFirst actOrder = -1
	oldestFirst actOrder = 1
)

// compare says whether a comes before b in this order (-1), or after it (1).
func (o actOrder) compare(a, b store.ActPlace) int {
	return int(o) * cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Number, b.Number))
}

// ends says whether the filter means nothing from this time on, in this order.
func (o actOrder) ends(f *AuditFilter, at queue.Time) bool {
	if o == latestFirst {
		return at < f.Since
	}
	return f.Until != 0 && at >= f.Until
}

// pageOfActs returns the entries after a place in an order. fresh has entries that the log does not have yet.
func pageOfActs(e *Engine, f *AuditFilter, order actOrder, from store.ActPlace, limit int,
	fresh []FreshActs) (page Page[AuditEntry], err error) {
	var last store.ActPlace // if there is more, it is behind this place
	more := false
	rows, seen := []store.ActRow(nil), map[store.ActPlace]bool{}
	for _, of := range fresh {
		for _, entry := range of.Acts.Items {
			place, err := parseActPlace(entry.Cursor)
			if err != nil {
				return page, err
			}
			if !seen[place] {
				seen[place], rows = true, append(rows, store.ActRow{Place: place, Act: entry.Act})
			}
		}
		if of.Acts.Next != "" {
			cut, err := parseActPlace(of.Acts.Next)
			if err != nil {
				return page, err
			}
			if !more || order.compare(cut, last) < 0 {
				more, last = true, cut
			}
		}
	}
	list := e.catalogue.Acts
	if order == oldestFirst {
		list = e.catalogue.ActsAfter
	}
	read := from // the last row that was read
	scanned, found, bytes := 0, 0, 0
	err = list(from, func(row *store.ActRow) bool {
		if order.ends(f, row.At) {
			return false
		}
		if scanned == auditScan || found == limit || bytes >= queue.MaxAnswerBytes {
			if !more || order.compare(read, last) < 0 {
				more, last = true, read
			}
			return false
		}
		scanned++
		read = row.Place
		if f.means(&row.Act) && !seen[row.Place] {
			rows = append(rows, *row)
			found++
			bytes += len(row.Before) + len(row.After)
		}
		return true
	})
	if err != nil {
		return page, err
	}
	slices.SortFunc(rows, func(a, b store.ActRow) int { return order.compare(a.Place, b.Place) })
	for i := range rows {
		if more && order.compare(rows[i].Place, last) > 0 {
			break // there may be others between, further on
		}
		if len(page.Items) == limit {
			more, last = true, rows[i-1].Place
			break
		}
		page.Items = append(page.Items, AuditEntry{rows[i].Act, actCursor(rows[i].Place)})
	}
	if more {
		page.Next = actCursor(last)
	}
	return page, nil
}

// FreshActs are the entries that the queues of one node have not put into the audit log yet: those that are asked for, up to a bound.
// Without them, a list of another node lacks the acts since the last checkpoints.
type FreshActs struct {
	Served []string // the queues that were looked at, and that the node served all the while
	Acts   Page[AuditEntry]
}

// FreshActs answers another node. The filter, the cursor and the limit are those of its Audit. most bounds the bytes of the entries; the
// first one always comes.
func (e *Engine) FreshActs(f AuditFilter, cursor string, limit, most int) (FreshActs, error) {
	from, order, err := f.begin(cursor)
	if err != nil {
		return FreshActs{}, err
	}
	return freshActs(e, &f, order, from, limit, most), nil
}

func freshActs(e *Engine, f *AuditFilter, order actOrder, from store.ActPlace, limit, most int) (fresh FreshActs) {
	var rows []store.ActRow
	for _, q := range e.all() {
		for _, a := range q.shard.Acts.Fresh() {
			row := store.ActRow{Place: store.ActPlace{At: a.At, Shard: int(q.id), Number: a.Number}, Act: a.Act}
			row.Queue = q.name
			if order.compare(row.Place, from) > 0 && f.means(&row.Act) {
				rows = append(rows, row)
			}
		}
		if e.nodes == nil || e.nodes.node.Own(q.id) { // else another node may have added to them
			fresh.Served = append(fresh.Served, q.name)
		}
	}
	slices.SortFunc(rows, func(a, b store.ActRow) int { return order.compare(a.Place, b.Place) })
	bytes := 0
	for i := range rows {
		bytes += len(rows[i].Before) + len(rows[i].After)
		if i == limit || i > 0 && bytes > most {
			fresh.Acts.Next = actCursor(rows[i-1].Place)
			break
		}
		fresh.Acts.Items = append(fresh.Acts.Items, AuditEntry{rows[i].Act, actCursor(rows[i].Place)})
	}
	return fresh
}

// placeBefore is the place before all entries of a time.
func placeBefore(at queue.Time) store.ActPlace {
	return store.ActPlace{At: at, Shard: store.CatalogueActs - 1}
}

// AuditCursor names the place before all entries of a time.
func AuditCursor(at queue.Time) string { return actCursor(placeBefore(at)) }

// actCursor is a place as a text; parseActPlace reads it.
func actCursor(p store.ActPlace) string {
	return fmt.Sprintf("%d.%d.%d", int64(p.At), p.Shard, p.Number)
}

func parseActPlace(text string) (p store.ActPlace, err error) {
	var parts [3]int64
	fields := strings.Split(text, ".")
	for i, field := range fields {
		if err == nil && i < len(parts) {
			parts[i], err = strconv.ParseInt(field, 10, 64)
		}
	}
	if err != nil || len(fields) != len(parts) {
		return p, queue.Invalid("/cursor", "is not one that this server gave out")
	}
	return store.ActPlace{At: queue.Time(parts[0]), Shard: int(parts[1]), Number: uint64(parts[2])}, nil
}

// AuditTime is the time of the entry that a cursor names.
func AuditTime(cursor string) (queue.Time, error) {
	p, err := parseActPlace(cursor)
	return p.At, err
}

// act is the entry of the audit log for an act of the caller in ctx. said is the name that a caller without a token gives itself.
func (e *Engine) act(ctx context.Context, said, action, queueName, target string) queue.Act {
	return actOf(ctx, queue.At(e.options.Now()), said, action, queueName, target)
}

// act is the entry of the audit log for an act of the caller in ctx on the queue.
func (q *Queue) act(ctx context.Context, said, action, target string) queue.Act {
	return q.e.act(ctx, said, action, q.name, target)
}

func actOf(ctx context.Context, at queue.Time, said, action, queueName, target string) queue.Act {
	return queue.Act{
		At: at, Who: access.Of(ctx).Who(said),
		Action: action, Queue: queueName, Target: target, Outcome: queue.ActOK,
	}
}

// lastAct and putActs connect the shard of a queue with the log.
func (e *Engine) lastAct(id queue.ShardID) func() (uint64, error) {
	return func() (uint64, error) { return e.catalogue.LastAct(id) }
}

func (e *Engine) putActs(id queue.ShardID, name string) func(context.Context, []journal.Act) error {
	return func(ctx context.Context, list []journal.Act) error { return e.catalogue.PutActs(ctx, id, name, list) }
}

// A client that is refused again and again must not fill the disk. The first sixty refused acts of a token get an entry each. From then on
// there is one entry a minute, for the latest, with the number of those since the previous entry that were left out. So the entries and the
// numbers in them add up to all refused acts.
const (
	refusedEvery = time.Minute
	refusedBurst = 60 * refusedEvery
)

// Refusal is an act that the caller's token does not allow.
type Refusal struct {
	Action, Queue, Target string // as in queue.Act
	Code                  queue.Code
	Detail                string // what the caller was told
}

// refusals writes refused acts to the audit log. Those without an entry are counted in memory: kill -9 loses the count.
type refusals struct {
	now   func() time.Time
	began time.Time
	log   *slog.Logger
	put   func(*queue.Act) error // writes an entry, durably
	room  func() error           // an error on a full disk: entries wait, as room is made for changes and not for what was refused

	mu sync.Mutex
	by map[string]*refused // by the name of the token
}

// refused is the state of one token.
type refused struct {
	pace      access.Pace
	unwritten int // acts since the last entry
	latest    queue.Act
	reason    refusedFor
}

// refusedFor is the After of a refused act, which changed nothing: the reason.
type refusedFor struct {
	Code    queue.Code `json:"code"`
	Detail  string     `json:"detail"`
	LeftOut int        `json:"left_out,omitempty"` // refused acts of this token since the previous entry that have none
}

// RecordRefused writes to the audit log that the caller in ctx was refused, durably. When the token has used up its
// entries, or the log cannot be written, the act is counted and written later: the caller is refused in any case.
func (t *Tokens) RecordRefused(ctx context.Context, r Refusal) {
	act := actOf(ctx, queue.At(t.now()), "", r.Action, r.Queue, r.Target)
	act.Outcome = queue.ActRefused
	t.refusals.record(act, refusedFor{Code: r.Code, Detail: r.Detail})
}

func (r *refusals) record(act queue.Act, reason refusedFor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.by[act.Actor]
	if of == nil {
		of = new(refused)
		r.by[act.Actor] = of
	}
	of.unwritten++
	of.latest, of.reason = act, reason
	r.write(of, false)
}

// writeAll writes the entries that are due; with atOnce, when the engine closes, all of them.
func (r *refusals) writeAll(atOnce bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, of := range r.by {
		r.write(of, atOnce)
		if of.unwritten == 0 && of.pace.Spent(r.now().Sub(r.began)) {
			delete(r.by, name)
		}
	}
}

// write writes one entry for the acts of a token that have none, if it may have one now. The caller holds r.mu.
func (r *refusals) write(of *refused, atOnce bool) {
	now := r.now()
	if of.unwritten == 0 || !atOnce && (r.room() != nil || of.pace.Take(now.Sub(r.began), refusedEvery, refusedBurst) > 0) {
		return
	}
	of.latest.At = queue.At(now) // a late entry goes to the end of the log, which is where streams read
	of.reason.LeftOut = of.unwritten - 1
	of.latest.Change(nil, of.reason)
	if err := r.put(&of.latest); err != nil {
		r.log.Error("a refused act cannot be written to the audit log; the server tries again",
			"actor", of.latest.Actor, "action", of.latest.Action, "error", err)
		return
	}
	of.unwritten = 0
}
