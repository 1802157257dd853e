// Package repair makes a data directory that a server opens out of one with damaged journals. The directory itself stays as it is: what
// can be kept goes into a copy, and the report names what is lost.
package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Dir repairs the journals of the data directory `from` in a copy, which appears at `to` once it is finished and checked; there must be
// nothing yet. When no journal needs it none is made, and the report says what the check found. No server may use `from` until its files
// are copied. Of o everything is used but Opened.
func Dir(ctx context.Context, from, to string, o check.Options) (_ *Report, err error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%s is there already: choose a folder that is not, and nothing was changed", to), err)
	}
	release, err := engine.HoldDir(from)
	if err != nil {
		return nil, err
	}
	partial, err := os.MkdirTemp(filepath.Dir(filepath.Clean(to)), filepath.Base(to)+".partial-")
	if err != nil {
		return nil, errors.Join(err, release())
	}
	partial = filepath.Clean(partial)
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }()
	if err := errors.Join(o.Copy(ctx, from, partial), release()); err != nil {
		return nil, err
	}
	r := repairing{o: o, dir: partial, report: &Report{Version: Version, Data: from, Journals: []Journal{}}}
	if err := r.queues(ctx); err != nil {
		return nil, err
	}
	if err := r.check(ctx, to); err != nil || len(r.report.Journals) == 0 {
		return r.report, err
	}
	r.report.To = to
	return r.report, publish(partial, to)
}

// repairing is one repair under way.
type repairing struct {
	o      check.Options
	dir    string // the copy
	report *Report
	lost   []Lost // what was written behind the cuts
}

// queues repairs the journal of every queue that needs it.
func (r *repairing) queues(ctx context.Context) (err error) {
	c, err := store.OpenCatalogue(ctx, filepath.Join(r.dir, "quern.db"))
	if err != nil {
		return fmt.Errorf("without its catalogue nothing of a data directory can be repaired: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id, err := c.Identity()
	if err != nil {
		return err
	}
	rows, err := c.Queues()
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		of := id.ForShard(row.Shard)
		if row.Quarantined > 0 {
			of.Oldest = row.Oldest
		}
		if err := r.queue(ctx, row.Name, filepath.Join(r.dir, "shards", fmt.Sprintf("%04d", row.Shard)), of); err != nil {
			return fmt.Errorf("queue %s: %w", row.Name, err)
		}
	}
	return nil
}

// queue repairs a journal if it is damaged, and its store can be read. The check names what is not repaired.
func (r *repairing) queue(ctx context.Context, name, folder string, id queue.Identity) (err error) {
	s, err := store.Open(ctx, filepath.Join(folder, "store.db"), store.Options{Identity: id})
	if err != nil {
		return ctx.Err()
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k, err := whatIsKept(ctx, s)
	if err != nil {
		return ctx.Err()
	}
	path := filepath.Join(folder, "journal.db")
	reason, ends, err := faultOf(ctx, path, id, k.checkpoint)
	if err != nil || reason == "" {
		return err
	}
	r.doing("queue " + name)
	c := cutting{queue: name, path: path, ends: ends, id: id, kept: k, now: r.o.Now()}
	if err := c.run(ctx, strings.ReplaceAll(reason, r.dir, filepath.Clean(r.report.Data))); err != nil {
		return err
	}
	r.report.Journals = append(r.report.Journals, c.report)
	r.lost = append(r.lost, c.lost...)
	return nil
}

func (r *repairing) doing(what string) {
	if r.o.Doing != nil {
		r.o.Doing("repairing " + what)
	}
}

// check looks at the copy, and finds out what of the operations that were cut off it has all the same: the store may be ahead of a cut.
func (r *repairing) check(ctx context.Context, to string) (err error) {
	r.report.Lost = []Lost{}
	r.o.Opened = func(e *engine.Engine) {
		for i := range r.lost {
			if !has(ctx, e, &r.lost[i]) {
				r.lose(&r.lost[i])
			}
		}
		r.lost = nil
	}
	if r.report.Check, err = check.Dir(ctx, r.dir, r.o); err != nil {
		return err
	}
	for i := range r.lost { // the copy does not open
		r.lose(&r.lost[i])
	}
	shown := to
	if len(r.report.Journals) == 0 {
		shown = r.report.Data
	}
	r.report.Check.Data = shown
	for i := range r.report.Check.Findings {
		f := &r.report.Check.Findings[i]
		f.Detail = strings.ReplaceAll(f.Detail, r.dir, filepath.Clean(shown))
	}
	return nil
}

func (r *repairing) lose(l *Lost) {
	if r.report.Losses++; len(r.report.Lost) < maxLost {
		r.report.Lost = append(r.report.Lost, *l)
	}
}

// publish has a finished copy appear under its name, durably.
func publish(partial, to string) error {
	err := filepath.WalkDir(partial, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err != nil {
		return err
	}
	return syncPath(filepath.Dir(filepath.Clean(to)))
}

// syncPath syncs a file or a folder.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
