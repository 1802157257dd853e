// Package check looks into data directories that no server uses, and into backups. It changes nothing there. To find damage, it opens a
// copy as a server would, reads everything, and compares every checksum and every counter. It can also show the operations of a journal.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/store"
)

// Options say how to check. Work and Now are needed.
type Options struct {
	Work   string                  // the folder for the copy, which takes as much room as the data
	Now    func() time.Time        // the wall clock
	Copied func(done, total int64) // told of the bytes that are copied; nil: no one is
	Doing  func(what string)       // told what is looked at next; nil: no one is
	Opened func(*engine.Engine)    // gets the engine of the copy once all was read; nil: no one does
	Fault  func(engine.Fault)      // told what is wrong in a queue, besides the report; nil: no one is

	part string // the only queue or shard whose files the backup has; "": it has all
}

// Dir checks a data directory.
func Dir(ctx context.Context, dir string, o Options) (*Report, error) {
	release, err := engine.HoldDir(dir)
	if err != nil {
		return nil, err
	}
	return o.run(ctx, dir, func(to string) error {
		return errors.Join(o.copy(ctx, dir, to, ""), release()) // from here on a server may have it
	})
}

// Backup checks a backup with its increments. It returns an error if one is cut off, or if checksums do not match.
func Backup(ctx context.Context, o Options, from ...io.Reader) (*Report, error) {
	return o.run(ctx, "", func(to string) error {
		m, err := engine.RestorePart(ctx, to, from...)
		if err == nil {
			o.part = m.Queue
		}
		return err
	})
}

// run makes the copy in a folder of its own, and looks at it.
func (o *Options) run(ctx context.Context, dir string, fill func(to string) error) (_ *Report, err error) {
	work, err := os.MkdirTemp(o.Work, "quern-check-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	copied := filepath.Join(work, "data")
	if err := fill(copied); err != nil {
		return nil, err
	}
	c := checking{o: o, dir: copied, report: newReport(dir, o.Now())}
	if dir != "" {
		c.shown = filepath.Clean(dir) + string(filepath.Separator)
	}
	if err := c.queues(ctx); err != nil {
		return nil, err
	}
	if err := c.files(ctx); err != nil {
		return nil, err
	}
	c.report.Whole = c.report.Faults == 0
	return c.report, nil
}

// checking is one check under way.
type checking struct {
	o      *Options
	dir    string // the copy
	shown  string // the directory that it is a copy of, with a separator at its end; "": none
	report *Report
}

// found adds a finding, with paths of the copy as paths of the directory.
func (c *checking) found(f Finding) {
	f.Detail = strings.ReplaceAll(f.Detail, c.dir+string(filepath.Separator), c.shown)
	c.report.add(f)
}

func (c *checking) fault(f engine.Fault) {
	c.found(findingOf(f))
	if c.o.Fault != nil {
		c.o.Fault(f)
	}
}

func (c *checking) doing(what string) {
	if c.o.Doing != nil {
		c.o.Doing(what)
	}
}

// queues opens the directory as a server would, and reads all data of its queues.
func (c *checking) queues(ctx context.Context) (err error) {
	e, err := engine.Open(ctx, engine.Options{Dir: c.dir, Now: c.o.Now, Seed: rand.Uint64, BallastBytes: -1, RecountEvery: -1})
	if err != nil {
		if ctx.Err() == nil {
			c.found(Finding{Detail: err.Error()})
		}
		return ctx.Err()
	}
	defer func() {
		if closed := e.Close(); closed != nil && err == nil {
			c.found(Finding{Detail: "the copy cannot be closed: " + closed.Error()})
		}
	}()
	for _, q := range e.Queues() {
		if c.o.part != "" && !queue.IsNamed(q.Name, c.o.part) {
			continue
		}
		if q.Quarantined != nil {
			c.report.Queues = append(c.report.Queues, Queue{Name: q.Name, Quarantined: true})
			c.found(Finding{Queue: q.Name, Detail: q.Quarantined.Reason})
			continue
		}
		if _, number := queue.CutShard(q.Name); number == 0 && q.Settings.Shards > 1 {
			continue // each of its shards is in the list by itself
		}
		c.doing("queue " + q.Name)
		v, err := e.Storage().Verify(ctx, q.Name, c.fault)
		if err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
		c.report.Queues = append(c.report.Queues, queueOf(v))
	}
	if c.o.Opened != nil {
		c.o.Opened(e)
	}
	return nil
}

// files compares the checksums of all rows, also of queues that cannot be opened. It comes last: to read a file, it takes the rows out of
// its log.
func (c *checking) files(ctx context.Context) error {
	names, err := dataFiles(c.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		verify := map[string]func(context.Context, string, func(sqlitedb.Damage)) (int64, error){
			"quern.db": store.VerifyCatalogue, "store.db": store.Verify, "journal.db": sqlitelog.Verify,
		}[filepath.Base(name)]
		if verify == nil {
			continue
		}
		c.doing(name)
		rows, err := verify(ctx, filepath.Join(c.dir, name), func(d sqlitedb.Damage) { c.found(damageOf(name, d)) })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.report.Files = append(c.report.Files, File{Path: filepath.ToSlash(name), Rows: rows})
	}
	return nil
}
