// Package repair recovers a damaged data directory into one that a server opens: journals are cut off before their damage, and of other
// files, every row that can be read and whose checksum matches goes into a new file. The directory itself stays as it is: the repair is a
// copy, and the report names the losses.
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

// Dir repairs the data directory `from` in a copy, which appears at `to` once it is finished and checked. There must be nothing at `to`
// yet. If nothing needs a repair, there is no copy, and the report has the result of the check. No server may use `from` until its files
// are copied. Dir ignores Opened and Fault of o.
func Dir(ctx context.Context, from, to string, o check.Options) (*Report, error) {
	return repair(ctx, from, to, o, false, publish)
}

// InPlace repairs the data directory `dir` like Dir, and puts the copy into its place, in one step. The damaged directory is at `old` then.
func InPlace(ctx context.Context, dir, old string, o check.Options) (*Report, error) {
	r, err := repair(ctx, dir, old, o, true, func(partial, old string) error {
		if err := publish(partial, old); err != nil {
			return err
		}
		if err := engine.SwapDirs(old, dir); err != nil {
			return fmt.Errorf("the repaired copy is %s; it cannot be put into the place of %s: %w", old, dir, err)
		}
		return errors.Join(syncPath(filepath.Dir(filepath.Clean(old))), syncPath(filepath.Dir(filepath.Clean(dir))))
	})
	if err == nil && r.To != "" {
		r.To, r.Old = dir, old
	}
	return r, err
}

// repair makes the copy, and calls finish to put it into its place. With hold, it keeps servers away until then, and not only until all is
// copied.
func repair(ctx context.Context, from, to string, o check.Options, hold bool,
	finish func(partial, to string) error) (_ *Report, err error) {
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
	if hold {
		last := release
		release = func() error { return nil }
		defer func() { err = errors.Join(err, last()) }()
	}
	if err := errors.Join(o.Copy(ctx, from, partial), copyOthers(from, partial), release()); err != nil {
		return nil, err
	}
	r := repairing{o: o, dir: partial, report: newReport(from)}
	for _, step := range []func(context.Context) error{r.catalogue, r.queues, r.losses} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.check(ctx, to); err != nil || !r.report.repaired() {
		return r.report, err
	}
	r.report.To = to
	return r.report, finish(partial, to)
}

// copyOthers copies the files beside the databases, such as the one with a token, but not the lock and the ballast.
func copyOthers(from, to string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range list {
		name := entry.Name()
		if !entry.Type().IsRegular() || name == "lock" || name == "ballast" || strings.HasPrefix(name, "quern.db") || name == "restoring" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repairing is one repair under way.
type repairing struct {
	o      check.Options
	dir    string // the copy
	report *Report
	files  []*queueFiles
	lost   []Lost // operations behind the cuts, and data that cannot be read
}

// queueFiles is a queue with its files.
type queueFiles struct {
	name, folder string
	id           queue.Identity
	changed      bool // something of it was repaired
}

// queues repairs the store and the journal of every queue that needs it.
func (r *repairing) queues(ctx context.Context) error {
	if err := r.list(ctx); err != nil {
		return err
	}
	for _, q := range r.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.queue(ctx, q); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	return nil
}

// list finds all queues.
func (r *repairing) list(ctx context.Context) error {
	return withCatalogue(ctx, filepath.Join(r.dir, "quern.db"), func(c *store.Catalogue, rows []store.QueueRow) error {
		id, err := c.Identity()
		if err != nil {
			return err
		}
		for _, row := range rows {
			of := id.ForShard(row.Shard)
			if row.Quarantined > 0 {
				of.Oldest = row.Oldest
			}
			folder := filepath.Join(r.dir, "shards", fmt.Sprintf("%04d", row.Shard))
			r.files = append(r.files, &queueFiles{name: row.Name, id: of, folder: folder})
		}
		return nil
	})
}

// queue repairs the files of a queue. The check names the damage that it leaves.
func (r *repairing) queue(ctx context.Context, q *queueFiles) (err error) {
	if err := os.MkdirAll(q.folder, 0o700); err != nil {
		return err
	}
	if q.changed, err = r.store(ctx, q); err != nil {
		return err
	}
	s, err := store.Open(ctx, filepath.Join(q.folder, "store.db"), store.Options{Identity: q.id})
	if err != nil {
		return ctx.Err()
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k, err := whatIsKept(ctx, s)
	if err != nil {
		return ctx.Err()
	}
	path := filepath.Join(q.folder, "journal.db")
	reason, ends, err := faultOf(ctx, path, q.id, k.checkpoint)
	if err != nil || reason == "" {
		return err
	}
	r.doing("queue " + q.name)
	c := cutting{queue: q.name, path: path, ends: ends, id: q.id, kept: k, now: r.o.Now()}
	if err := c.run(ctx, r.shown(reason)); err != nil {
		return err
	}
	q.changed = true
	r.report.Journals = append(r.report.Journals, c.report)
	r.lost = append(r.lost, c.lost...)
	return nil
}

// shown is a text with the path of the directory instead of that of the copy.
func (r *repairing) shown(text string) string {
	return strings.ReplaceAll(text, r.dir, filepath.Clean(r.report.Data))
}

func (r *repairing) doing(what string) {
	if r.o.Doing != nil {
		r.o.Doing("repairing " + what)
	}
}

// check checks the copy, and finds operations that were cut off and are in it all the same, because the store may be ahead of a cut.
func (r *repairing) check(ctx context.Context, to string) (err error) {
	r.report.Lost = []Lost{}
	r.o.Opened, r.o.Fault = func(e *engine.Engine) {
		for i := range r.lost {
			if !has(ctx, e, &r.lost[i]) {
				r.lose(&r.lost[i])
			}
		}
		r.lost = nil
	}, nil
	if r.report.Check, err = check.Dir(ctx, r.dir, r.o); err != nil {
		return err
	}
	for i := range r.lost { // the copy does not open
		r.lose(&r.lost[i])
	}
	shown := to
	if !r.report.repaired() {
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

// publish gives a finished copy its name, durably.
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

// has says whether an engine has the result of an op that was cut off.
func has(ctx context.Context, e *engine.Engine, l *Lost) bool {
	id, err := queue.ParseSubmissionID(l.Submission)
	if err != nil {
		return false
	}
	switch l.Op {
	case "insert", "ended":
		_, err := e.Submission(ctx, id)
		return err == nil
	case "complete":
		var chunk queue.Chunk
		q, err := e.QueueOf(id)
		if err == nil {
			chunk, err = q.Submissions.Chunk(ctx, id, *l.Chunk)
		}
		if err == nil {
			return chunk.State == queue.ChunkDone
		}
		refused, is := errors.AsType[*queue.Error](err)
		return is && refused.Code != queue.CodeUnknownSubmission && refused.Code != queue.CodeQuarantined
	}
	return false
}
