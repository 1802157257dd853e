// Package backups makes backups of a running server at a pace, into a folder, and keeps the last ones.
package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/archive"
)

// Options say where backups go, and how often they are made. All but Registerer are required.
type Options struct {
	Dir        string        // the folder, made when it is missing
	Every      time.Duration // from the end of one to the next; a failed one is tried again after at most retryAfter
	Keep       int           // how many are kept, at least 1
	Make       func(ctx context.Context) (*engine.Backup, error)
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// retryAfter is when a backup that failed is tried again, at the latest.
const retryAfter = 5 * time.Minute

// Keeper makes backups and removes old ones. Make it with New, and Run it.
type Keeper struct {
	o       Options
	last    time.Time // when the newest backup was made; zero: there is none
	metrics metrics
}

// New looks at the folder, and removes the parts of a backup that a crash left.
func New(o Options) (*Keeper, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for backups cannot be made: %w", err)
	}
	k := &Keeper{o: o, metrics: newMetrics(o.Registerer)}
	list, err := k.list()
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		k.last = list[len(list)-1].made
	}
	k.metrics.show(k.last, o.Every)
	return k, nil
}

// Run makes backups until ctx ends. A nil Keeper makes none.
func (k *Keeper) Run(ctx context.Context) error {
	if k == nil {
		return nil
	}
	for wait := k.wait(); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			wait = k.step(ctx)
		}
	}
}

// wait is how long it is until the next backup. A backup with a time in the future, because the clock was set back since, counts as made
// now.
func (k *Keeper) wait() time.Duration {
	return min(max(k.last.Add(k.o.Every).Sub(k.o.Now()), 0), k.o.Every)
}

// step makes a backup, and says when the next one is due.
func (k *Keeper) step(ctx context.Context) time.Duration {
	began := k.o.Now()
	name, size, err := k.make(ctx, began)
	if err != nil {
		if ctx.Err() == nil {
			k.metrics.failed.Inc()
			k.o.Logger.Error("a backup failed; the server tries again", "dir", k.o.Dir, "error", err)
		}
		return min(k.o.Every, retryAfter)
	}
	k.last = began
	k.metrics.made(size, k.o.Now().Sub(began))
	k.metrics.show(k.last, k.o.Every)
	k.o.Logger.Info("a backup was made", "file", name, "bytes", size, "took", k.o.Now().Sub(began).Round(time.Millisecond))
	if err := k.trim(); err != nil {
		k.o.Logger.Error("old backups cannot be removed", "dir", k.o.Dir, "error", err)
	}
	return k.wait()
}

// make makes one backup, and compares its checksums while it writes.
func (k *Keeper) make(ctx context.Context, at time.Time) (name string, size int64, err error) {
	b, err := k.o.Make(ctx)
	if err != nil {
		return "", 0, err
	}
	name = filepath.Join(k.o.Dir, nameOf(at))
	err = engine.WriteFile(name, func(w io.Writer) error { return writeChecked(ctx, b, w) })
	return name, b.Size, errors.Join(err, b.Close())
}

// writeChecked writes a backup, and reads along.
func writeChecked(ctx context.Context, b *engine.Backup, w io.Writer) error {
	from, to := io.Pipe()
	go func() { to.CloseWithError(b.Write(to)) }()
	_, err := archive.Read(io.TeeReader(&until{ctx, from}, w))
	from.CloseWithError(errors.Join(err, ctx.Err()))
	return err
}

// until reads until a context ends.
type until struct {
	ctx context.Context
	r   io.Reader
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// moments is the form of the time in the name of a backup.
const moments = "quern-20060102T150405Z.tar"

func nameOf(at time.Time) string { return at.UTC().Format(moments) }

// made is a backup in the folder.
type made struct {
	name string
	made time.Time
}

// list lists the backups in the folder, the oldest first, and removes those that are not whole. It leaves other files alone.
func (k *Keeper) list() (all []made, err error) {
	entries, err := os.ReadDir(k.o.Dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name, cut := strings.CutSuffix(entry.Name(), engine.Partial)
		at, err := time.Parse(moments, name)
		if err != nil || nameOf(at) != name {
			continue
		}
		if cut {
			err = os.Remove(filepath.Join(k.o.Dir, entry.Name()))
		} else {
			all = append(all, made{name, at})
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b made) int { return a.made.Compare(b.made) })
	return all, nil
}

// trim removes the oldest backups beyond those that are kept.
func (k *Keeper) trim() error {
	all, err := k.list()
	if err != nil {
		return err
	}
	for _, old := range all[:max(len(all)-k.o.Keep, 0)] {
		if err := os.Remove(filepath.Join(k.o.Dir, old.name)); err != nil {
			return err
		}
	}
	return nil
}

// metrics tell how old the newest backup is, and whether the making of one fails.
type metrics struct {
	last, every, bytes, seconds prometheus.Gauge
	failed                      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "quern_backup_" + name, Help: help})
	}
	m := metrics{
		last: gauge("last_timestamp_seconds",
			"Start time of the newest backup in backup-dir, in seconds since 1970; 0 if there is none."),
		every:   gauge("every_seconds", "Interval between backups in seconds."),
		bytes:   gauge("bytes", "Size of the last backup in bytes; 0 if the server has made none since its start."),
		seconds: gauge("seconds", "Duration of the last backup in seconds."),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "quern_backup_failures_total",
			Help: "Total number of backups to backup-dir that failed."}),
	}
	if r != nil {
		r.MustRegister(m.last, m.every, m.bytes, m.seconds, m.failed)
	}
	return m
}

func (m *metrics) show(last time.Time, every time.Duration) {
	m.every.Set(every.Seconds())
	if !last.IsZero() {
		m.last.Set(float64(last.Unix()))
	}
}

func (m *metrics) made(size int64, took time.Duration) {
	m.bytes.Set(float64(size))
	m.seconds.Set(took.Seconds())
}
