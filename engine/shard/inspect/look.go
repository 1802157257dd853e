package inspect

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// withViews calls fn in one hold of the mutex with the views of the plans. It builds missing views before, slice by
// slice, as a reserve does.
func (ins *Inspector) withViews(ctx context.Context, plans []*strategy.Plan,
	fn func(m *machine.Machine, views [][]*backlog.View) machine.Looks) error {
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := ins.Ask(func(m *machine.Machine) (machine.Looks, error) {
			all := make([][]*backlog.View, len(plans))
			for i, plan := range plans {
				if err := m.Backlog.Views.AdmitQuestion(plan.Unscored()); err != nil {
					return 0, err
				}
				views, unbuilt := machine.ViewsBy(plan, m.Backlog.Views.Ask, nil)
				if unbuilt != nil {
					return machine.LookMost, ins.views.Build(ctx, m.Backlog, unbuilt)
				}
				all[i] = views
			}
			done = true
			return fn(m, all), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxWalk is how many holds of the mutex a walk takes at most: it does not look at further submissions.
const maxWalk = 4000

// walk calls fn for the shown submissions, in slices, each of which counts for `each`
// looks. It says how many there were, and how many it met: fewer if it ended early.
func (ins *Inspector) walk(ctx context.Context, each int,
	fn func(*machine.Machine, *backlog.Submission)) (met, shown int, err error) {
	most := max(1, machine.LookMost/max(each, 1))
	for from, n := -1, 0; from != 0 && n < maxWalk; n++ {
		if err := ctx.Err(); err != nil {
			return met, shown, err
		}
		err := ins.Ask(func(m *machine.Machine) (machine.Looks, error) {
			shown = m.Backlog.ShownLen()
			before := met
			from = m.Backlog.Walk(from, most, func(x *backlog.Submission) {
				met++
				fn(m, x)
			})
			return machine.Looks((met - before) * max(each, 1)), nil
		})
		if err != nil {
			return met, shown, err
		}
	}
	return met, shown, nil
}

// eachTenant calls fn for the tenants of a share, in slices.
func (ins *Inspector) eachTenant(ctx context.Context, share backlog.Share, fn func(backlog.Tenant)) error {
	return ins.Slices(ctx, func(_ *machine.Machine, from int) (next int, n machine.Looks) {
		next = share.Tenants(from, machine.LookMost, func(t backlog.Tenant) {
			n++
			fn(t)
		})
		return next, n
	})
}

// metaOf is a submission's meta, without a copy if someone reserved from it before.
func metaOf(s *backlog.Submission) queue.Meta { return s.Data.(*machine.Record).Meta() }
