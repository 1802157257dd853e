package web

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Engine is what this face needs of the queue's use cases; *engine.Engine is it.
type Engine interface {
	Ready() []engine.Check
	Storage() engine.Storage
	Tokens() *engine.Tokens
	Questions() engine.Questions
	Plan(queueName string, raw []byte) (*strategy.Plan, error)
	Unusable(plan *strategy.Plan) []error
	Asked(queueName string, raw []byte) (engine.Asked, error)

	Queues() []engine.QueueInfo
	Queue(name string) (engine.QueueInfo, error)
	PutQueue(ctx context.Context, name string, settings queue.Settings) (info engine.QueueInfo, created bool, err error)
	ChangeQueue(ctx context.Context, name string, change func(*queue.Settings) error) (engine.QueueInfo, error)
	DeleteQueue(ctx context.Context, name string, quarantined bool) error

	Strategies(queueName, after string, limit int) (engine.Page[engine.NamedStrategy], error)
	Strategy(queueName, name string, version uint32) (engine.NamedStrategy, error)
	PutStrategy(ctx context.Context, queueName, name string, raw []byte,
		guard engine.StrategyGuard) (s engine.NamedStrategy, created bool, err error)
	DeleteStrategy(ctx context.Context, queueName, name string, guard engine.StrategyGuard) error
	ReadStrategy(queueName string, raw []byte) (*strategy.Strategy, error)
	SubmissionPlan(id queue.SubmissionID, raw []byte) (*strategy.Plan, error)

	InsertMany(ctx context.Context, queueName string, list []queue.Insertion, atomic bool) error
	Submission(ctx context.Context, id queue.SubmissionID) (queue.Submission, error)
	SubmissionTrace(id queue.SubmissionID) string
	WaitEnds(ctx context.Context, ids []queue.SubmissionID, wait time.Duration, all bool) error
	List(ctx context.Context, queueName string, r engine.ListRequest) (engine.Page[queue.Submission], error)
	SetPriority(ctx context.Context, id queue.SubmissionID, priority int64) (queue.Submission, error)
	Cancel(ctx context.Context, id queue.SubmissionID) (queue.Submission, error)
	Chunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, cursor string,
		limit int) (engine.Page[queue.Chunk], error)
	Chunk(ctx context.Context, id queue.SubmissionID, index uint32) (queue.Chunk, error)
	Map(ctx context.Context, id queue.SubmissionID, from, to uint32, cells int) (engine.ChunkMap, error)
	Attempts(ctx context.Context, id queue.SubmissionID, index uint32) ([]queue.Attempt, error)
	Views(queueName string) ([]engine.View, engine.ViewUse, error)
	Ledgers(ctx context.Context, queueName string) ([]engine.Ledger, error)
	LedgerTenants(ctx context.Context, queueName, id string, order engine.LedgerOrder, limit int) (l engine.Ledger,
		list []engine.LedgerTenant, sums engine.LedgerSums, found bool, err error)
	Outputs(ctx context.Context, id queue.SubmissionID, fn func(index uint32, output []byte) error) error

	Reserve(ctx context.Context, queueName string, r engine.ReserveRequest, dst []queue.Reservation) (engine.ReserveResult, error)
	Complete(ctx context.Context, queueName string, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error)
	Fail(ctx context.Context, queueName string, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error)
	Extend(ctx context.Context, queueName string, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error)
	Release(ctx context.Context, queueName string, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error)
	Exchange(ctx context.Context, queueName string, x engine.Exchange, out *engine.Exchanged) error

	Audit(f engine.AuditFilter, cursor string, limit int) (engine.Page[engine.AuditEntry], error)
	Lifecycle(queueName string) (engine.Work, error)
	RetryParked(ctx context.Context, queueName string) (int, error)

	Attach(ctx context.Context, queueName, consumer string) (*engine.Attached, error)
	Detach(queueName, consumer string) (released int, err error)
	Reservations() engine.Reservations
	OrderConsumer(ctx context.Context, queueName, consumer string, order queue.ConsumerOrder) (queue.Consumer, error)
	Consumers(ctx context.Context, queueName, cursor string, limit int) (engine.Page[queue.Consumer], error)
	TopConsumers(ctx context.Context, queueName string, most int) (top []queue.Consumer, sums engine.ConsumerSums, err error)
	Consumer(queueName, consumer, from string, limit int) (engine.HeldPage, error)

	DeadLetters(ctx context.Context, queueName string, r engine.DeadRequest) (engine.Page[queue.DeadChunk], error)
	DeadGroups(ctx context.Context, queueName string, f queue.BulkFilter) (groups []queue.DeadGroup, others uint64, err error)
	DeadLetter(ctx context.Context, queueName string, id queue.ChunkID) (queue.DeadChunk, error)
	Redrive(ctx context.Context, queueName string, id queue.ChunkID) error
	DeleteDead(ctx context.Context, queueName string, id queue.ChunkID) error
	ForwardDead(ctx context.Context, queueName string, id queue.ChunkID, to string) error
	StartBulk(ctx context.Context, queueName string, r queue.BulkRequest) (queue.Bulk, error)
	Bulk(id string) (queue.Bulk, error)
	Bulks(queueName string) ([]queue.Bulk, error)
	CancelBulk(ctx context.Context, id, actor string) (queue.Bulk, error)

	SetRule(ctx context.Context, queueName string, r queue.Rule) (rule queue.Rule, created bool, err error)
	LiftRule(ctx context.Context, queueName string, id queue.RuleID, actor string) (rule queue.Rule, was bool, err error)
	Rules(queueName string) ([]engine.HeldRule, error)
	PastRules(queueName string) ([]queue.EndedRule, error)
	Rule(queueName string, id queue.RuleID) (queue.Rule, error)

	Schedules(queueName, after string, limit int) (engine.Page[queue.ScheduleInfo], error)
	Schedule(queueName, name string) (queue.ScheduleInfo, error)
	PutSchedule(ctx context.Context, queueName, name string, def queue.Schedule,
		guard engine.ScheduleGuard) (info queue.ScheduleInfo, created bool, err error)
	DeleteSchedule(ctx context.Context, queueName, name string, guard engine.ScheduleGuard) error
	SwitchSchedule(ctx context.Context, queueName, name string, enabled bool, reason string) (queue.ScheduleInfo, error)
	TriggerSchedule(ctx context.Context, queueName, name, key string) (s queue.Submission, replayed bool, err error)
	BackfillSchedule(ctx context.Context, queueName, name string, r engine.BackfillRequest) (engine.Backfilled, error)
	PreviewSchedule(queueName string, def queue.Schedule, after queue.Time, n int) (engine.SchedulePreview, error)

	Stats(ctx context.Context, queueName string) (queue.Stats, error)
	Frame(queueName string) (*engine.Frame, <-chan struct{}, error)
	Series(queueName string, minutes bool, after time.Time) ([]engine.Point, error)
	KeySeries(queueName string, key queue.MetaKey) (list []engine.Heat, ends time.Time, err error)

	Keys(ctx context.Context, queueName, after string, limit int) (engine.Page[engine.KeyInfo], error)
	Values(ctx context.Context, queueName string, key queue.MetaKey, sort string, limit int) ([]engine.Value, error)
	Value(ctx context.Context, queueName string, entry queue.MetaEntry) (engine.Value, error)
	PutValue(ctx context.Context, queueName string, entry queue.MetaEntry, settings queue.ValueSettings,
		guard engine.ValueGuard) (v engine.Value, created bool, err error)
	DeleteValue(ctx context.Context, queueName string, entry queue.MetaEntry, guard engine.ValueGuard) error
}

var _ Engine = (*engine.Engine)(nil)
