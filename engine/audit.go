package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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

// AuditFilter says which entries are meant; what is zero does not count.
type AuditFilter struct {
	Since, Until queue.Time // from this time on; before that one
	Actor        string
	Action       string // whole, such as "rule.create", or all of a resource: "rule"
	Queue        string
	Target       string
	Outcome      string // queue.ActOK or queue.ActRefused
	OldestFirst  bool   // the order, in which cursors go on; a list that is the oldest first needs a cursor
}

// means says whether an entry is among those.
func (f *AuditFilter) means(a *queue.Act) bool {
	resource, _, _ := strings.Cut(a.Action, ".")
	return a.At >= f.Since && (f.Until == 0 || a.At < f.Until) && (f.Actor == "" || f.Actor == a.Actor) &&
		(f.Action == "" || f.Action == a.Action || f.Action == resource) && (f.Queue == "" || f.Queue == a.Queue) &&
		(f.Target == "" || f.Target == a.Target) && (f.Outcome == "" || f.Outcome == a.Outcome)
}

// auditScan is how many rows of the log one page looks at: a filter that few entries match gives pages that are short, or empty, and
// still have a next one.
const auditScan = 5000

// Audit lists entries of the audit log, the latest first: at most limit, before the cursor ("": from the end of the
// log). An entry is there when what it tells of is, and stays for Options.AuditKeep.
func (e *Engine) Audit(f AuditFilter, cursor string, limit int) (page Page[AuditEntry], err error) {
	if f.OldestFirst {
		return auditAfter(e, f, cursor, limit)
	}
	before := store.ActPlace{At: math.MaxInt64}
	if cursor != "" {
		if before, err = parseActPlace(cursor); err != nil {
			return page, err
		}
	}
	if f.Until != 0 && f.Until < before.At {
		before = placeBefore(f.Until)
	}
	return pageOfActs(e, &f, latestFirst, before, limit)
}

// AuditLacks names the queues in quarantine that the filter means. The log lacks the entries that are still in their journals.
func (e *Engine) AuditLacks(f AuditFilter) (names []string) {
	for _, q := range e.Queues() {
		if q.Quarantined != nil && (f.Queue == "" || f.Queue == q.Name) {
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

// auditAfter lists entries of the audit log, the oldest first: at most limit, after the cursor. Next is "" at the end of the log.
// Entries become visible in the order of their commits: one that is older than the last of a page may come later.
func auditAfter(e *Engine, f AuditFilter, cursor string, limit int) (page Page[AuditEntry], err error) {
	after, err := parseActPlace(cursor)
	if err != nil {
		return page, err
	}
	if after.At < f.Since {
		after = placeBefore(f.Since)
	}
	return pageOfActs(e, &f, oldestFirst, after, limit)
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

// ends says whether nothing that the filter means comes from a time on, in this order.
func (o actOrder) ends(f *AuditFilter, at queue.Time) bool {
	if o == latestFirst {
		return at < f.Since
	}
	return f.Until != 0 && at >= f.Until
}

// pageOfActs is what comes after a place in an order.
func pageOfActs(e *Engine, f *AuditFilter, order actOrder, from store.ActPlace, limit int) (page Page[AuditEntry], err error) {
	rows := freshActs(e, f, order, from) // before the catalogue is asked: what is handed over meanwhile is then found twice, not missed
	seen := make(map[store.ActPlace]bool, len(rows))
	for i := range rows {
		seen[rows[i].Place] = true
	}
	list := e.catalogue.Acts
	if order == oldestFirst {
		list = e.catalogue.ActsAfter
	}
	var last store.ActPlace
	scanned, found, bytes := 0, 0, 0
	more := false
	err = list(from, func(row *store.ActRow) bool {
		if order.ends(f, row.At) {
			return false
		}
		if scanned == auditScan || found == limit || bytes >= queue.MaxAnswerBytes {
			more = true
			return false
		}
		scanned++
		last = row.Place
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
			break // there may be others between, further on in the log
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

// freshActs are the entries after a place, in an order, that the queues have not handed over to the log yet.
func freshActs(e *Engine, f *AuditFilter, order actOrder, from store.ActPlace) (rows []store.ActRow) {
	for _, q := range e.all() {
		for _, a := range q.shard.Acts.Fresh() {
			row := store.ActRow{Place: store.ActPlace{At: a.At, Shard: int(q.id), Number: a.Number}, Act: a.Act}
			row.Queue = q.name
			if order.compare(row.Place, from) > 0 && f.means(&row.Act) {
				rows = append(rows, row)
			}
		}
	}
	return rows
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

// act is what the audit log is to hold of what the caller in ctx does. said is who a caller without a token says it is.
func (e *Engine) act(ctx context.Context, said, action, queueName, target string) queue.Act {
	return actOf(ctx, queue.At(e.options.Now()), said, action, queueName, target)
}

// act is what the audit log is to hold of what the caller in ctx does to the queue.
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
