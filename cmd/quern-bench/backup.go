package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

var backupNames = []string{
	"backup_1e9", "backup_size_1e9", "restore_1e9", "increment_1e9", "increment_size_1e9", "complete_p50", "complete_p99",
	"complete_p50_beside_backup", "complete_p99_beside_backup", "backups_beside",
}

// backupScale is how much the suite backs up, and how many completions it times on each side.
type backupScale struct {
	submissions int
	chunks      uint32
	changes     int // chunks that are completed between a backup and its increment
	completes   int
}

var fullBackup = backupScale{submissions: largeSubmissions, chunks: largeChunks, changes: 1000, completes: 4000}

func backupSuite(ctx context.Context, r *run) error { return backupFigures(ctx, r, fullBackup) }

func backupFigures(ctx context.Context, r *run, scale backupScale) (err error) {
	b, err := r.open(ctx, "backup")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r.progress("backups of 10^9 chunks in 10^5 submissions")
	if err := b.load(ctx, scale.submissions, scale.chunks); err != nil {
		return err
	}
	full, err := r.backUp(ctx, b, "full", "")
	if err != nil {
		return err
	}
	started := time.Now()
	from, err := os.Open(full)
	if err != nil {
		return err
	}
	_, err = engine.Restore(ctx, filepath.Join(r.dir, "restored"), from)
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	r.add("restore_1e9", time.Since(started).Seconds(), "s")
	if _, err := b.lone(ctx, scale.changes); err != nil {
		return err
	}
	if _, err := r.backUp(ctx, b, "increment", full); err != nil {
		return err
	}
	r.progress("a lone complete, without and beside backups")
	return r.besideBackups(ctx, b, scale)
}

// backUp makes a backup in a file, and adds its figures.
func (r *run) backUp(ctx context.Context, b *bed, name, earlier string) (path string, err error) {
	var since io.Reader
	if earlier != "" {
		f, err := os.Open(earlier)
		if err != nil {
			return "", err
		}
		defer f.Close()
		since = f
	}
	path = filepath.Join(r.dir, name+".tar")
	started := time.Now()
	made, err := b.Storage().Backup(ctx, "bench", "", since)
	if err != nil {
		return "", err
	}
	err = errors.Join(engine.WriteFile(path, made.Write), made.Close())
	figure := "increment"
	if earlier == "" {
		figure = "backup"
	}
	r.add(figure+"_1e9", time.Since(started).Seconds(), "s")
	r.add(figure+"_size_1e9", float64(made.Size)/1e6, "MB")
	return path, err
}

// besideBackups times completions in turns with and without backups beside them, so that both sides see the same disk.
func (r *run) besideBackups(ctx context.Context, b *bed, scale backupScale) error {
	var plain, beside []time.Duration
	var made atomic.Int64
	const turns = 4
	for range turns {
		times, err := b.lone(ctx, scale.completes/turns)
		if err != nil {
			return err
		}
		plain = append(plain, times...)
		quit, failed := make(chan struct{}), make(chan error, 1)
		go func() { failed <- backUpUntil(ctx, b, quit, &made) }()
		times, err = b.lone(ctx, scale.completes/turns)
		close(quit)
		if err = errors.Join(err, <-failed); err != nil {
			return err
		}
		beside = append(beside, times...)
	}
	slices.Sort(plain)
	slices.Sort(beside)
	for _, side := range []struct {
		suffix string
		times  []time.Duration
	}{{"", plain}, {"_beside_backup", beside}} {
		for name, q := range map[string]float64{"complete_p50": 0.5, "complete_p99": 0.99} {
			r.add(name+side.suffix, micro(quantile(side.times, q)), "µs")
			if side.suffix != "" {
				r.over(name)
			}
		}
	}
	r.add("backups_beside", float64(made.Load()), "backups")
	return nil
}

// backUpUntil makes backups, one after the other, at least one.
func backUpUntil(ctx context.Context, b *bed, quit <-chan struct{}, made *atomic.Int64) error {
	for {
		one, err := b.Storage().Backup(ctx, "bench", "", nil)
		if err != nil {
			return err
		}
		if err := errors.Join(one.Write(io.Discard), one.Close()); err != nil {
			return err
		}
		made.Add(1)
		select {
		case <-quit:
			return nil
		default:
		}
	}
}

// lone reserves and completes n chunks, one after the other, and says how long each complete took.
func (b *bed) lone(ctx context.Context, n int) ([]time.Duration, error) {
	plan, err := b.q.Plan([]byte(`"OldestFirst"`))
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for range n {
		got, err := b.q.Reserve(ctx, engine.ReserveRequest{Max: 1, Plan: plan}, nil)
		if err != nil {
			return nil, err
		}
		if len(got.Reservations) == 0 {
			return nil, errors.New("nothing is left to reserve")
		}
		started := time.Now()
		if _, err := b.q.Complete(ctx, []queue.CompleteItem{{Token: got.Reservations[0].Token}}, nil); err != nil {
			return nil, err
		}
		times = append(times, time.Since(started))
	}
	return times, nil
}
