package pg

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// poll is how often a waiting reader looks at its journal, in case a notification is lost.
	poll = 500 * time.Millisecond
	// between is the pause between two notifications to other nodes: each one wakes all listeners.
	between = 20 * time.Millisecond
	// relisten is the pause before a lost connection for notifications is made again.
	relisten = 500 * time.Millisecond
)

// hub wakes waiting readers when a journal has grown.
type hub struct {
	mu        sync.Mutex
	waiting   map[int32]chan struct{} // closed when the journal grows
	dirty     map[int32]bool          // journals whose growth other nodes do not know yet
	changed   chan struct{}           // has room for one: dirty is not empty
	listening sync.Once
}

func newHub() *hub {
	return &hub{waiting: map[int32]chan struct{}{}, dirty: map[int32]bool{}, changed: make(chan struct{}, 1)}
}

// next is closed when a journal grows after this call.
func (h *hub) next(id int32) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[id] == nil {
		h.waiting[id] = make(chan struct{})
	}
	return h.waiting[id]
}

func (h *hub) wake(id int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting := h.waiting[id]; waiting != nil {
		close(waiting)
		delete(h.waiting, id)
	}
}

// taken takes the journals whose growth other nodes do not know yet.
func (h *hub) taken() (ids []int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.dirty {
		ids = append(ids, id)
	}
	clear(h.dirty)
	return ids
}

// grew says that a journal has a batch more, which other nodes do not know.
func (h *hub) grew(id int32) {
	h.wake(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dirty[id] = true
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// tell notifies other nodes of journals that have grown. It does so outside of the appends: PostgreSQL lets only one transaction that
// notifies commit at a time, so all journals would wait for each other's syncs. A lost notification costs a reader up to `poll`.
func (b *Backend) tell() {
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-b.hub.changed:
		}
		ids := b.hub.taken()
		_ = b.once(b.ctx, b.small, 0, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT pg_notify($1, id::text) FROM unnest($2::int[]) AS id", b.channel(), ids)
			return err
		})
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(between):
		}
	}
}

// channel is the channel on which the nodes of a schema notify each other.
func (b *Backend) channel() string { return "quern_" + b.o.Schema }

// listen makes notifications of other nodes wake waiting readers, from the first call on.
func (b *Backend) listen() {
	b.hub.listening.Do(func() { b.ended.Go(b.hear) })
}

func (b *Backend) hear() {
	for b.ctx.Err() == nil {
		b.hearOnce()
		select {
		case <-b.ctx.Done():
		case <-time.After(relisten):
		}
	}
}

// hearOnce listens on one connection, until it is lost.
func (b *Backend) hearOnce() {
	conn, err := pgx.ConnectConfig(b.ctx, b.small.Config().ConnConfig)
	if err != nil {
		return // waiting readers look by themselves
	}
	defer conn.Close(context.WithoutCancel(b.ctx))
	if _, err := conn.Exec(b.ctx, "LISTEN "+b.channel()); err != nil {
		return
	}
	for {
		n, err := conn.WaitForNotification(b.ctx)
		if err != nil {
			return
		}
		if id, err := strconv.ParseInt(n.Payload, 10, 32); err == nil {
			b.hub.wake(int32(id))
		}
	}
}
