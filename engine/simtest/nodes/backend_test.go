package nodes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/cluster/handle"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// database is shared by all nodes. A function that is passed to ask is one statement: it happens at one moment, with the mutex held.
type database struct {
	mu       sync.Mutex
	journals map[string]*table
	blobs    map[string]blob
	nodes    map[string]beat
	owners   map[queue.ShardID]cluster.Owner
	appended func(name string, at journal.Position, batch []byte) // called for each batch, with the mutex held
}

// table has the batches of a journal behind a position.
type table struct {
	base    journal.Position
	baseSum journal.Sum
	rows    []row
	grown   chan struct{} // closed with the next batch
}

type row struct {
	batch []byte
	sum   journal.Sum
}

type blob struct {
	bytes []byte
	sum   [sha256.Size]byte
}

type beat struct {
	cluster.Node
	at time.Time
}

func newDatabase() *database {
	return &database{journals: map[string]*table{}, blobs: map[string]blob{}, nodes: map[string]beat{},
		owners: map[queue.ShardID]cluster.Owner{}}
}

// end is the last position, and the sum of the chain up to it.
func (t *table) end() (journal.Position, journal.Sum) {
	at := t.base + journal.Position(len(t.rows))
	return at, t.sumAt(at)
}

// sumAt is the sum of the chain up to a position that is there.
func (t *table) sumAt(at journal.Position) journal.Sum {
	if at == t.base {
		return t.baseSum
	}
	return t.rows[at-t.base-1].sum
}

// append adds a batch if the journal ends with this position and this sum.
func (d *database) append(name string, t *table, b *handle.Batch) (fits bool) {
	if at, sum := t.end(); at != b.Expect || sum != b.Before {
		return false
	}
	t.rows = append(t.rows, row{b.Bytes, b.Sum})
	close(t.grown)
	t.grown = make(chan struct{})
	if d.appended != nil {
		d.appended(name, b.Expect+1, b.Bytes)
	}
	return true
}

// trim deletes batches, unless another writer has the journal.
func (t *table) trim(upTo, tail journal.Position, sum journal.Sum) {
	if at, is := t.end(); at != tail || is != sum || upTo <= t.base {
		return
	}
	t.baseSum = t.sumAt(upTo)
	t.rows = slices.Clone(t.rows[upTo-t.base:])
	t.base = upTo
}

// rewind takes the last batches from a journal, as a standby without them does that becomes the primary.
func (d *database) rewind(name string, to journal.Position) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.journals[name]
	t.rows = t.rows[:to-t.base]
}

// link is a node's way to the database.
type link struct {
	*database
	net *network // nil: it is perfect
}

var _ cluster.Backend = (*link)(nil)

func (l *link) Blobs() blobs.Blobs     { return blobRows{l} }
func (l *link) Leases() cluster.Leases { return leaseRows{l} }

func (l *link) Promise(ctx context.Context) (cluster.Promise, error) {
	return cluster.Promise{Engine: "a simulated database", Standbys: 1}, ctx.Err()
}

func (l *link) MakeJournal(ctx context.Context, name string, after journal.Position) error {
	if err := cluster.CheckName(name); err != nil {
		return err
	}
	_, err := patiently(ctx, l, func(d *database) (none struct{}, err error) {
		if d.journals[name] == nil {
			d.journals[name] = &table{base: after, grown: make(chan struct{})}
		}
		return none, nil
	})
	return err
}

func (l *link) DeleteJournal(ctx context.Context, name string, still func() bool) error {
	end, err := patiently(ctx, l, func(d *database) (at journal.Position, err error) {
		if t := d.journals[name]; t != nil {
			at, _ = t.end()
		}
		return at, nil
	})
	if err != nil || still != nil && !still() {
		return cmp.Or(err, journal.ErrConflict)
	}
	_, err = patiently(ctx, l, func(d *database) (none struct{}, err error) {
		if t := d.journals[name]; t != nil {
			if at, _ := t.end(); still != nil && at != end {
				return none, journal.ErrConflict
			}
			close(t.grown)
			delete(d.journals, name)
		}
		return none, nil
	})
	return err
}

func (l *link) Journal(ctx context.Context, name string) (journal.Journal, error) {
	return patiently(ctx, l, func(d *database) (journal.Journal, error) {
		t := d.journals[name]
		if t == nil {
			return nil, cluster.ErrNoJournal
		}
		j := &log{link: l, name: name, of: t}
		o := handle.Options{Name: name, Database: j, Low: t.base, FirstPause: pause, MaxWait: pause}
		o.Tail, o.Sum = t.end()
		j.Handle = handle.New(o)
		return j, nil
	})
}

func (l *link) Journals(ctx context.Context) (map[string]journal.Position, error) {
	return patiently(ctx, l, func(d *database) (map[string]journal.Position, error) {
		ends := map[string]journal.Position{}
		for name, t := range d.journals {
			ends[name], _ = t.end()
		}
		return ends, nil
	})
}

// blobRows are the blobs of the database. Its calls may safely be made twice, so each is repeated until its outcome is known.
type blobRows struct{ *link }

func (b blobRows) Put(ctx context.Context, key string, bytes []byte) error {
	if err := cmp.Or(ctx.Err(), blobs.Check(key, len(bytes))); err != nil {
		return err
	}
	put := blob{slices.Clone(bytes), sha256.Sum256(bytes)}
	_, err := patiently(ctx, b.link, func(d *database) (none struct{}, err error) {
		if was, there := d.blobs[key]; there && was.sum != put.sum {
			return none, fmt.Errorf("blob %s: %w", key, blobs.ErrExists)
		}
		d.blobs[key] = put
		return none, nil
	})
	return err
}

func (b blobRows) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	got, err := patiently(ctx, b.link, func(d *database) ([]byte, error) {
		is, there := d.blobs[key]
		switch {
		case !there:
			return nil, fmt.Errorf("blob %s: %w", key, blobs.ErrMissing)
		case sha256.Sum256(is.bytes) != is.sum:
			return nil, fmt.Errorf("blob %s: %w", key, blobs.ErrDamaged)
		}
		return is.bytes, nil
	})
	if err == nil {
		got, err = blobs.Section(got, off, n)
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(got)), nil
}

func (b blobRows) List(ctx context.Context, prefix, after string, most int) ([]blobs.Blob, error) {
	return patiently(ctx, b.link, func(d *database) (list []blobs.Blob, err error) {
		for _, key := range slices.Sorted(maps.Keys(d.blobs)) {
			if len(list) < min(most, blobs.MaxList) && key > after && strings.HasPrefix(key, prefix) {
				list = append(list, blobs.Blob{Key: key, Bytes: int64(len(d.blobs[key].bytes))})
			}
		}
		return list, nil
	})
}

func (b blobRows) Delete(ctx context.Context, key string) error {
	_, err := patiently(ctx, b.link, func(d *database) (none struct{}, err error) {
		delete(d.blobs, key)
		return none, nil
	})
	return err
}

// leaseRows are the signs of life. Each call is made once: its caller knows when it is too late for another one.
type leaseRows struct{ *link }

func (x leaseRows) Beat(ctx context.Context, n cluster.Node) error {
	if err := n.Check(); err != nil {
		return err
	}
	_, err := ask(ctx, x.link, func(d *database) (none struct{}, err error) {
		now := time.Now()
		maps.DeleteFunc(d.nodes, func(name string, b beat) bool { return name != n.Name && now.Sub(b.at) > time.Hour })
		was, known := d.nodes[n.Name]
		switch {
		case !known && len(d.nodes) >= cluster.MaxNodes:
			return none, cluster.ErrTooManyNodes
		case known && was.Counter > n.Counter && was.Counter>>32 == n.Counter>>32:
			return none, nil // it comes late
		}
		d.nodes[n.Name] = beat{n, now}
		return none, nil
	})
	return err
}

func (x leaseRows) Nodes(ctx context.Context) ([]cluster.Node, error) {
	return ask(ctx, x.link, func(d *database) (list []cluster.Node, err error) {
		for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
			list = append(list, d.nodes[name].Node)
		}
		return list, nil
	})
}

func (x leaseRows) SetOwner(ctx context.Context, shard queue.ShardID, epoch uint32, node string) error {
	if err := cluster.CheckName(node); err != nil {
		return err
	}
	if shard >= queue.MaxShards {
		return fmt.Errorf("there is no shard %d", shard)
	}
	_, err := ask(ctx, x.link, func(d *database) (none struct{}, err error) {
		was, known := d.owners[shard]
		if known && (was.Epoch > epoch || was.Epoch == epoch && was.Node != node) {
			return none, cluster.ErrNewerOwner
		}
		d.owners[shard] = cluster.Owner{Epoch: epoch, Node: node}
		return none, nil
	})
	return err
}

func (x leaseRows) Owners(ctx context.Context) (map[queue.ShardID]cluster.Owner, error) {
	return ask(ctx, x.link, func(d *database) (map[queue.ShardID]cluster.Owner, error) { return maps.Clone(d.owners), nil })
}

// The failures of a call. A call that ends with errSilent was made, or was not, or will be. The same is true of a call that ends with
// errKilled, but no one gets its answer: its process is deposed.
var (
	errSilent = errors.New("no answer came from the database")
	errKilled = fmt.Errorf("the process was killed: %w", journal.ErrConflict)
)

// ask makes a call once.
func ask[T any](ctx context.Context, l *link, do func(*database) (T, error)) (got T, err error) {
	if err := ctx.Err(); err != nil {
		return got, err
	}
	statement := func() (T, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return do(l.database)
	}
	if l.net == nil {
		return statement()
	}
	return send(ctx, l.net, errSilent, statement)
}

// patiently makes a call that may be made twice until there is an answer.
func patiently[T any](ctx context.Context, l *link, do func(*database) (T, error)) (T, error) {
	for {
		got, err := ask(ctx, l, do)
		if !errors.Is(err, errSilent) || ctx.Err() != nil {
			return got, err
		}
		time.Sleep(pause)
	}
}

// pause is how long is waited before a call is made again.
const pause = 50*time.Millisecond + 7*time.Microsecond
