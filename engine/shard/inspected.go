package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/strategy"
)

// inspected is what questions see of a shard.
type inspected struct{ s *Shard }

func (i inspected) Locked(fn func(m *machine.Machine)) {
	i.s.mu.held(func() { fn(i.s.m) })
}

func (i inspected) Usable() error { return i.s.usable() }

func (i inspected) Now() queue.Time { return i.s.now() }

func (i inspected) Build(ctx context.Context, v *backlog.View) (machine.Looks, error) {
	return buildSlice, i.s.Views.build(ctx, v)
}

func (i inspected) Followed(plans []*strategy.Plan) (list []*strategy.Plan, until queue.Time) {
	return i.s.followed(plans)
}

func (i inspected) Dry(scored *strategy.Scored) (strategy.Scorer, error) {
	return i.s.options.Scorers.Dry(scored)
}

func (i inspected) Windows() *scoring.Part { return i.s.parts.scoring }

func (i inspected) Scored() []inspect.NodeWork { return i.s.Scoring.Scored() }

func (i inspected) Chunk(ctx context.Context, id queue.SubmissionID, index uint32) (queue.Chunk, error) {
	return i.s.Submissions.Chunk(ctx, id, index)
}

func (i inspected) EndedRow(ctx context.Context, id queue.SubmissionID) (*checkpoint.Ended, error) {
	return i.s.Submissions.endedRow(ctx, id)
}
