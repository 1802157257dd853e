package nodes

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// book is the oracle. It has a model of the journal without any cleverness, made of the batches as they arrive, and the workers'
// knowledge from their answers. It knows true time, which no node does.
type book struct {
	w  *world
	mu sync.Mutex

	// The journal:
	tail    journal.Position
	epoch   uint32
	inOrder bool // the last batch says that the list of reservations is complete
	subs    map[uint32]*submission
	claims  map[journal.Position]bool
	lost    map[queue.SubmissionID]bool // by the database
	rewinds bool                        // it has lost some

	// The workers:
	lives    int // that have had their turn
	holds    map[queue.ChunkID]*hold
	inserted map[queue.SubmissionID]promised // those that were acknowledged
	done     map[queue.ChunkID]promised      // completions that were
	keys     map[string]queue.SubmissionID   // idempotency keys of inserts that were
	answered time.Time                       // the last time that a call was served
}

// submission is one in the journal.
type submission struct {
	id     queue.SubmissionID
	chunks []bool // done
	key    string
}

// promised is an acknowledged chunk or submission, with the number of the process that acknowledged it.
type promised struct {
	life   int
	chunks int
	token  queue.Token
}

// hold is a chunk that a worker has, as far as it knows.
type hold struct {
	chunk    queue.ChunkID
	token    queue.Token
	value    queue.MetaValue
	by       *worker
	life     int       // the number of the process that said so last
	carried  int       // of the last process that learned of it from the one before
	until    time.Time // true time, however fast the owner's clock runs
	finished bool      // the worker does not work on it any more
}

func newBook(w *world) *book {
	return &book{w: w, subs: map[uint32]*submission{}, claims: map[journal.Position]bool{},
		lost: map[queue.SubmissionID]bool{}, holds: map[queue.ChunkID]*hold{},
		inserted: map[queue.SubmissionID]promised{}, done: map[queue.ChunkID]promised{}, keys: map[string]queue.SubmissionID{}}
}

// appended takes a batch into the model.
func (b *book) appended(at journal.Position, batch []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	epoch, err := journal.Epoch(batch)
	if err != nil {
		b.w.fail("batch %d: %v", at, err)
		return
	}
	if epoch < b.epoch {
		b.w.fail("batch %d is of epoch %d, behind one of epoch %d: an owner that was overtaken has written", at, epoch, b.epoch)
	}
	b.tail = at
	inOrder := b.inOrder
	b.inOrder = false
	if err := journal.Decode(batch, func(queue.Time) {}, model{b, at, epoch, inOrder}); err != nil {
		b.w.fail("batch %d: %v", at, err)
	}
}

// model applies the ops of a batch. The mutex of the book is held.
type model struct {
	*book
	at      journal.Position
	of      uint32
	ordered bool // the batch before was the last word of an owner that ended in order
}

func (m model) ApplyEpoch(epoch uint32) error {
	if epoch == m.of && epoch > m.epoch {
		m.epoch = epoch
		m.claims[m.at] = true
		if m.ordered {
			for _, h := range m.holds {
				h.carried = m.lives
			}
		}
	} else if epoch < m.epoch || !m.claims[m.at] && epoch != m.epoch {
		m.w.fail("batch %d begins epoch %d, behind epoch %d", m.at, epoch, m.epoch)
	}
	return nil
}

func (m model) ApplyInsert(s *journal.Insert) error {
	if m.subs[s.Seq] != nil {
		m.w.fail("batch %d inserts submission %d a second time", m.at, s.Seq)
	}
	for _, other := range m.subs {
		if other.id == s.ID || s.IdempotencyKey != "" && other.key == s.IdempotencyKey {
			m.w.fail("batch %d inserts %s with the key %q, which %s has", m.at, s.ID, s.IdempotencyKey, other.id)
		}
	}
	m.subs[s.Seq] = &submission{id: s.ID, chunks: make([]bool, s.Chunks), key: s.IdempotencyKey}
	return nil
}

func (m model) ApplyComplete(c journal.Completed) error {
	s := m.subs[c.Seq]
	switch {
	case s == nil:
		m.w.fail("batch %d completes a chunk of submission %d, which is not there", m.at, c.Seq)
	case s.chunks[c.Index]:
		m.w.fail("batch %d completes chunk %s/%d a second time", m.at, s.id, c.Index)
	default:
		s.chunks[c.Index] = true
	}
	return nil
}

func (m model) ApplyReturn(journal.Returned) error   { return nil }
func (m model) ApplyEnd(journal.End) error           { return nil }
func (m model) ApplyPriority(journal.Priority) error { return nil }

func (m model) ApplyPart(op journal.PartOp) error {
	if held, is := op.(*journal.Held); is && len(held.Chunks) == 0 {
		m.inOrder = true
	}
	return nil
}

// took counts a process that may act as the owner.
func (b *book) took() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lives++
	return b.lives
}

// served compares a shard that is about to serve with everything acknowledged.
func (b *book) served(l *life) {
	b.w.tally("takeover")
	if err := b.compare(context.Background(), l); err != nil {
		b.w.fail("%s, which takes over: %v", l, err)
	}
}

// compare is the error of a shard that lacks something that earlier owners acknowledged.
func (b *book) compare(ctx context.Context, l *life) error {
	b.mu.Lock()
	inserted, done := maps.Clone(b.inserted), maps.Clone(b.done)
	b.mu.Unlock()
	for id, p := range inserted {
		chunks := p.chunks
		if p.life >= l.number {
			continue
		}
		sub, err := l.shard.Submissions.Get(ctx, id)
		if err != nil {
			return fmt.Errorf("submission %s was acknowledged: %w", id, err)
		}
		list, _, err := l.shard.Submissions.Chunks(ctx, id, nil, 0, 1000)
		if err != nil || len(list) != chunks || int(sub.Chunks) != chunks {
			return fmt.Errorf("submission %s has %d chunks, %w; want %d", id, len(list), err, chunks)
		}
		for i := range list {
			c := &list[i]
			p, is := done[queue.ChunkID{Submission: id, Index: c.Index}]
			if is && p.life < l.number && (c.State != queue.ChunkDone || string(c.Output) != outputOf(&p.token)) {
				return fmt.Errorf("chunk %s/%d is %s with the output %q; %q completed it", id, c.Index, c.State, c.Output, outputOf(&p.token))
			}
		}
	}
	return nil
}

func outputOf(t *queue.Token) string { return fmt.Sprintf("%d.%d", t.Epoch, t.Sequence) }

// given is called with an answer that no append confirms, at the moment at which it leaves the shard.
func (b *book) given(l *life, what string) {
	if l.number < b.lives {
		b.w.fail("%s answers a %s, and number %d has had its turn", l, what, b.lives)
	}
}

// reserved notes the chunks that a worker is about to get, and compares them with those that others hold.
func (b *book) reserved(l *life, by *worker, sent time.Time, timeout time.Duration, limit int, list []queue.Reservation) []*hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given(l, "reserve")
	var got []*hold
	for i := range list {
		r := &list[i]
		h := &hold{chunk: queue.ChunkID{Submission: r.Token.Submission, Index: r.Token.Index}, token: r.Token, by: by, life: l.number,
			carried: l.number, until: b.surely(sent, timeout)}
		h.value, _ = r.Meta.Find("a")
		if other := b.holds[h.chunk]; other.valid() && (limit > 0 || other.carried == l.number) {
			b.w.fail("%s hands %v to %s, and %s has it for %v", l, h.chunk, by.name, other.by.name, time.Until(other.until))
		}
		b.holds[h.chunk] = h
		got = append(got, h)
		if n := b.inFlight(h.value); limit > 0 && n > limit {
			b.w.fail("%s hands %v to %s: now %d of %v are in flight, and the limit is %d", l, h.chunk, by.name, n, h.value, limit)
		}
	}
	return got
}

// surely is until when a worker may regard chunks that it requested at a time as its own: clocks may run a tenth too fast, which is the
// bound that nodes assume too.
func (b *book) surely(sent time.Time, timeout time.Duration) time.Time {
	return sent.Add(timeout * 9 / 10)
}

func (h *hold) valid() bool { return h != nil && !h.finished && time.Now().Before(h.until) }

// inFlight counts the chunks of a value that workers hold. The mutex is held.
func (b *book) inFlight(value queue.MetaValue) (n int) {
	for _, h := range b.holds {
		if h.valid() && h.value == value {
			n++
		}
	}
	return n
}

// asked notes that a worker asks for another deadline. It may be an earlier one, and a refusal does not say that it was not set.
func (b *book) asked(h *hold, sent time.Time, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.surely(sent, timeout); until.Before(h.until) {
		h.until = until
	}
}

// extended notes that a reservation goes on.
func (b *book) extended(l *life, h *hold, sent time.Time, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given(l, "extend")
	if other := b.holds[h.chunk]; other != h && other.valid() && other.carried == l.number {
		b.w.fail("%s extends %v for %s, and %s has it", l, h.chunk, h.by.name, other.by.name)
	}
	if b.holds[h.chunk] == h || !b.holds[h.chunk].valid() {
		b.holds[h.chunk] = h
	}
	h.life, h.carried, h.until = l.number, l.number, b.surely(sent, timeout)
}

// lostByDatabase says that a submission is gone, and no node is to be blamed for it.
func (b *book) lostByDatabase(id queue.SubmissionID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost[id]
}

// finish notes that a worker does not work on a chunk any more.
func (b *book) finish(h *hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.finished = true
}

// completed notes that a completion was acknowledged.
func (b *book) completed(by *life, h *hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	other, before := b.done[h.chunk]
	s := b.find(h.chunk.Submission)
	switch {
	case s == nil || !s.chunks[h.chunk.Index]:
		b.absent("completion", h.chunk)
	case !before:
		b.done[h.chunk] = promised{life: by.number, token: h.token}
	case outputOf(&other.token) != outputOf(&h.token):
		b.w.fail("%v is completed by %s, and was by %s", h.chunk, outputOf(&h.token), outputOf(&other.token))
	}
}

// insert notes that an insert was acknowledged.
func (b *book) insert(by *life, id queue.SubmissionID, chunks int, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, there := b.keys[key]; key != "" && there && was != id {
		b.w.fail("the key %s made %s, and %s", key, was, id)
	}
	if b.find(id) == nil {
		b.absent("insert", id)
		return
	}
	if _, before := b.inserted[id]; !before {
		b.inserted[id] = promised{life: by.number, chunks: chunks}
	}
	if key != "" {
		b.keys[key] = id
	}
}

// find finds a submission in the model. The mutex is held.
func (b *book) find(id queue.SubmissionID) *submission {
	for _, s := range b.subs {
		if s.id == id {
			return s
		}
	}
	return nil
}

// absent is called for acknowledged data that the journal does not have: that is only allowed if the database lost it since.
func (b *book) absent(what string, of any) {
	if !b.rewinds {
		b.w.fail("the %s of %v is acknowledged, and the journal does not have it", what, of)
	}
}

// rewound takes back the batches that a journal does not have any more.
func (b *book) rewound(batches [][]byte) {
	b.mu.Lock()
	before := b.subs
	b.rewinds = true
	b.subs, b.claims, b.epoch, b.tail = map[uint32]*submission{}, map[journal.Position]bool{}, 0, 0
	holds := b.holds
	b.holds = map[queue.ChunkID]*hold{}
	b.mu.Unlock()
	for i, batch := range batches {
		b.appended(journal.Position(i+1), batch)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holds = holds
	there := map[queue.SubmissionID]*submission{}
	for _, s := range b.subs {
		there[s.id] = s
	}
	for _, s := range before {
		b.lost[s.id] = there[s.id] == nil
	}
	for id := range b.inserted {
		if there[id] == nil {
			delete(b.inserted, id)
			b.w.tally("insert lost by the database")
		}
	}
	for chunk := range b.done {
		if s := there[chunk.Submission]; s == nil || !s.chunks[chunk.Index] {
			delete(b.done, chunk)
			b.w.tally("completion lost by the database")
		}
	}
	for key, id := range b.keys {
		if there[id] == nil {
			delete(b.keys, key)
		}
	}
}
