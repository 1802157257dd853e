package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/acts"
	"github.com/quern-queue/quern/engine/shard/answers"
	"github.com/quern-queue/quern/engine/shard/bulks"
	"github.com/quern-queue/quern/engine/shard/consumers"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/cuts"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/deletions"
	"github.com/quern-queue/quern/engine/shard/disk"
	"github.com/quern-queue/quern/engine/shard/ends"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/keys"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/percents"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/shard/retention"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/shard/schedules"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/shard/settings"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/submissions"
	"github.com/quern-queue/quern/engine/shard/trouble"
	"github.com/quern-queue/quern/engine/shard/values"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/shard/waiters"
	"github.com/quern-queue/quern/engine/shard/worker"
)

// resources are the features of a shard beside insert, reserve and complete. Each is a
// type of its own, with the state that only it needs.
//
// Each of them reaches the shard only through doors (shell.Shell), and `of` gives it everything else that it needs. So
// the arguments of its constructor there show everything that a feature can touch.
type resources struct {
	Answers      *answers.Answers
	Acts         acts.Acts
	Bulks        *bulks.Bulks
	Consumers    *consumers.Consumers
	Cuts         cuts.Cuts
	DeadLetters  *deadletters.Letters
	Deletions    *deletions.Deletions
	Ends         *ends.Ends
	Forwarding   *deadletters.Forwarding
	Inspect      *inspect.Inspector
	Recounts     *recount.Recounts
	Percents     percents.Percents
	Reservations consumers.Reservations
	Retention    *retention.Retention
	Rules        *rules.Rules
	Schedules    *schedules.Schedules
	Scoring      *scoring.Scoring
	Settings     *settings.Settings
	Submissions  *submissions.Submissions
	Values       values.Values
	Views        *views.Views
	Worker       *worker.Worker
}

// of joins the features with their shard. The order matters where one gets another as an argument: Submissions and
// Scoring before Inspect, DeadLetters before Bulks. Everything else is reached through a function that is called later,
// so it may be set in any order. Two things are shared on purpose. The book of troubles is one for all, and the lock
// `history` is held by every reader of ended submissions while retention waits.
func (r *resources) of(s *Shard) {
	// One book for all kinds of the worker, as any of them can make the shard degraded.
	book := trouble.New((*doors)(s).queue().Logger, s.options.Seed)
	*r = resources{
		Acts: acts.Acts{Shell: (*doors)(s)},
		Cuts: cuts.Cuts{Shell: (*doors)(s), Journal: func() journal.Journal { return s.writer.journal },
			Still: func(ctx context.Context) (func(), error) { return s.contents.Still(ctx) }},
		Percents: percents.Percents{Shell: (*doors)(s), Waiting: func() int { return s.waiters.Asked() }},
		Values:   values.Values{Shell: (*doors)(s)},
	}
	d := (*doors)(s)
	// history keeps retention from deleting rows that a list of dead letters or a bulk operation is just reading.
	// shell/order.go has its place among the locks.
	history := new(locks.RWMutex[shell.InHistory])
	if s.options.Audit.Put != nil {
		r.Acts.Put = s.putActs
	}
	r.Ends = ends.Face(door(s, func() *ends.Part { return s.parts.ends }))
	r.Submissions = submissions.New(d, s.options.Queue, s.contents.Bytes(), history)
	r.Views = views.New(d, s.options.ViewMemory)
	r.Scoring = scoring.Face(door(s, func() *scoring.Part { return s.parts.scoring }), s.options.Scorers, r.Views,
		s.stale)
	questions := &shell.Questions{Shell: d}
	r.Consumers = consumers.New(questions, s.roster, s.waiters, s.noteSpecial)
	r.Reservations = consumers.Reservations{Questions: questions}
	r.Inspect = inspect.New(questions, r.Scoring, r.Views, r.Submissions)
	r.Settings = settings.Face(door(s, func() *settings.Part { return s.parts.settings }), s.setDurability)
	letters := door(s, func() *deadletters.Part { return s.parts.letters })
	r.DeadLetters = deadletters.Face(letters, history.RLocker(), r.Submissions)
	r.DeadLetters.Bytes = s.contents.Bytes()
	r.Forwarding = deadletters.FaceForwarding(letters, uint64(s.options.Born)*queue.MaxShards+uint64(s.options.ID),
		book, s.intake())
	r.Retention = retention.New(door(s, func() retention.Kept { return s.parts.letters }), retention.Options{
		History: history, Letters: r.DeadLetters, Book: book, Checkpoint: s.checkpoints.now, Ahead: s.ahead.Load,
	})
	r.Deletions = deletions.Face(door(s, func() *deletions.Part { return s.parts.deletions }),
		deletions.Means{Get: r.Submissions.Get, Erase: r.Retention.Erase})
	r.Bulks = bulks.Face(door(s, func() *bulks.Part { return s.parts.bulks }), r.DeadLetters, struct {
		*submissions.Submissions // List
		*deletions.Deletions
	}{r.Submissions, r.Deletions}, history.RLocker())
	r.Recounts = recount.Face(door(s, func() *recount.Part { return s.parts.recount }), s.options.RecountEvery)
	r.Schedules = schedules.Face(door(s, func() *schedules.Part { return s.parts.schedules }), book, schedules.Means{
		Full: s.Full, Room: func(n *queue.NewSubmission) error { return s.contents.Room(contents.Size(n)) },
		Pack: s.contents.Pack, Blobs: contents.Emitted{Contents: &s.contents}, Trace: s.options.Emitting,
	})
	r.Rules = rules.Face(door(s, func() *rules.Part { return s.parts.rules }), book)
	r.Answers = answers.New(d, d.queue(), s.options.Key, r.Rules, s.options.Seconds.Wait, s.options.Seconds.Lately)
	if s.options.Owner.Own != nil {
		r.Answers.Owned = s.owned
	}
	r.Answers.Bytes = s.contents.Bytes()
	r.Worker = worker.New(d, d.queue(), book, worker.Means{
		Seal: func() { s.writer.seal() },
		Steps: map[machine.Kind]func(*machine.Machine, queue.Time, int) int{
			machine.KindLost: func(m *machine.Machine, now queue.Time, most int) int {
				before := m.Batch.Ops()
				if r.Consumers.Lose(m, now, most) {
					return most
				}
				return min(m.Batch.Ops()-before, most-1)
			},
			machine.KindGrace: s.endGrace,
		},
		Chores: []func(){r.Rules.EndLarge, r.Schedules.RunDue, r.Recounts.RunDue},
	})
}

// door is the door of a part. part is a function and not a value, because a reload replaces the parts together with
// their machine.
func door[P any](s *Shard, part func() P) shell.Door[P] {
	d := (*doors)(s)
	return shell.Door[P]{Shell: d, Queue: d.queue(), Part: part}
}

// inner are the parts of a shard that callers do not see, each a type of its own; resources has the others. They are
// the machinery of a commit: the writer appends batches, the checkpointer moves the state into the store, and contents
// keeps bytes that are too large for memory.
type inner struct {
	checkpoints checkpointer
	keys        *keys.Keys
	contents    contents.Contents
	disk        *disk.Disk
	inserts     inserts.Inserts
	snapshots   snapshotter
	waiters     *waiters.Waiters
	writer      writer
}

// of joins inner with its shard. Nothing runs yet: the functions that are passed here are called after the shard has
// started, and may use parts that are set further down.
func (i *inner) of(s *Shard) {
	i.disk = &disk.Disk{Full: s.full, Free: s.options.FreeBallast, Fatal: s.options.Fatal}
	o := &s.options
	i.contents.Files = o.files()
	i.contents.Limits = contents.Limits{Op: o.OpBytes, Batch: fullBatch, Checkpoint: o.CheckpointBytes}
	i.contents.Disk, i.contents.Checkpoint, i.contents.Kept = i.disk, i.checkpoints.now, i.checkpoints.note
	i.keys = keys.New((*doors)(s), func(ctx context.Context, id queue.SubmissionID) (queue.Submission, error) {
		return s.Submissions.Get(ctx, id)
	}, s.disk.Write)
	i.inserts = inserts.Inserts{Shell: (*doors)(s), Means: inserts.Means{
		ID: o.ID, Queue: o.Queue, Seed: o.Seed, Ours: o.ours, Live: o.Live, Full: s.full, Keys: i.keys,
		Contents: &i.contents, TakesIn: s.takesIn, SealFull: i.writer.sealFull, Pending: i.writer.pending,
		Refusal: func(meta queue.Meta) error { return s.parts.rules.Refusal(meta) },
	}}
	i.waiters = waiters.New(func() *machine.Machine { return s.m }, s.stale, s.options.Seed,
		waiters.Rates{Advance: func() { s.alarm.advance() }, Arm: s.alarm.arm})
	// The alarm wakes waiters when a rate lets chunks through again: no call comes at that moment to do so.
	s.alarm = alarm{machine: func() *machine.Machine { return s.m }, now: s.options.Now,
		waiting: func() bool { return !s.closed && s.waiters.Len() > 0 },
		ring: func() {
			s.mu.held(func() {
				if s.alarm.at = 0; !s.closed {
					s.waiters.Serve(s.now())
				}
			})
		}}
	i.checkpoints.init((*doors)(s), checkpointMeans{
		options: &s.options, applying: &s.applying, disk: i.disk, keys: i.keys, snapshots: &i.snapshots,
		ahead:    &s.ahead,
		subject:  func() (parts, journal.Journal, error) { return s.parts, s.writer.journal, s.lost },
		handOver: func(ctx context.Context, m *machine.Machine) error { return s.Acts.HandOver(ctx, m) },
	})
	i.snapshots.Shell, i.snapshots.snapshotMeans = (*doors)(s), snapshotMeans{
		options: &s.options, alive: s.alive, journal: func() journal.Journal { return s.writer.journal },
		since: i.checkpoints.bytes.Load, cut: func() (*cuts.Cut, error) { return s.Cuts.Prepare() },
	}
	i.writer = writer{wake: make(chan struct{}, 1), heal: make(chan chan struct{}), ended: make(chan struct{}),
		writerMeans: writerMeans{
			options: &s.options, mu: &s.mu, applying: &s.applying, disk: i.disk, alive: s.alive,
			appended: i.checkpoints.note, reload: s.reload, again: s.reloadAgain, refused: s.refused,
			lost: func() error { return s.lost },
			applied: func(position journal.Position) {
				s.parts.ends.Reach(position)
				s.Ends.Tell()
				s.countLive()
			},
			serve: func() bool {
				s.waiters.Serve(s.now())
				return s.parts.letters.Posted()
			},
		}}
}
