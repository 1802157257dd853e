// River works off jobs that do nothing, with River (https://riverqueue.com), and prints how many were completed per second. The suite
// `cluster` of quern-bench builds and runs it. It is a module of its own: nothing of Quern depends on River.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The settings of River's own benchmark, `river bench`, for the most jobs per second. River writes completions in batches by default. Half
// as many or five times as many workers, and 4 to 30 connections, made no difference.
const (
	fetchCooldown = 2 * time.Millisecond
	fetchPoll     = 20 * time.Millisecond
	workers       = 2000
	insertBatch   = 5000
	connections   = 10
)

func main() {
	url := flag.String("url", "", "the PostgreSQL database; River's tables are made in the schema public")
	jobs := flag.Int("jobs", 50_000, "how many jobs to work off")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rate, err := measure(ctx, *url, *jobs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
	fmt.Println(rate)
}

// args are those of a job.
type args struct {
	Num int `json:"num"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "bench" }

// measure inserts jobs, and works them off: this many were completed per second from the start of the client on.
func measure(ctx context.Context, url string, jobs int) (rate float64, err error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return 0, err
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	client, err := prepare(ctx, pool, jobs)
	if err != nil {
		return 0, err
	}
	// A job counts when its completion is committed, not when its worker returns.
	completed, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: jobs, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer cancel()
	started := time.Now()
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	for range jobs {
		select {
		case <-ctx.Done():
			return 0, errors.Join(ctx.Err(), client.Stop(context.WithoutCancel(ctx)))
		case <-completed:
		}
	}
	took := time.Since(started)
	return float64(jobs) / took.Seconds(), client.Stop(ctx)
}

// prepare makes the tables, with the jobs alone in them, and a client that has not started.
func prepare(ctx context.Context, pool *pgxpool.Pool, jobs int) (*river.Client[pgx.Tx], error) {
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return nil, err
	}
	all := river.NewWorkers()
	river.AddWorker(all, river.WorkFunc(func(context.Context, *river.Job[args]) error { return nil }))
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown: fetchCooldown, FetchPollInterval: fetchPoll, Logger: logger, Workers: all,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
	})
	if err != nil {
		return nil, err
	}
	for done := 0; done < jobs; done += insertBatch {
		batch := make([]river.InsertManyParams, min(insertBatch, jobs-done))
		for i := range batch {
			batch[i].Args = args{Num: done + i}
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return nil, err
		}
	}
	_, err = pool.Exec(ctx, "VACUUM ANALYZE river_job") // so that the planner knows what is there
	return client, err
}
