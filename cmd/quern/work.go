package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// workOptions are the flags of work.
type workOptions struct {
	concurrency int
	strategy    string
	consumer    string
	timeout     time.Duration
	killAfter   time.Duration
	count       int64
	untilEmpty  bool
	failExit    bool
	about       contextFlag
}

// workCommand makes any program a consumer.
func workCommand(a *app) *cobra.Command {
	var o workOptions
	c := &cobra.Command{
		Use:   "work [flags] -- COMMAND [ARG...]",
		Short: "Run a command for every chunk",
		Long: "Run a command for every chunk. The command reads the chunk's content from stdin. {} in its arguments becomes the " +
			"content if that is text\n" +
			"(or the key, if the content is in object storage). Its environment has\n" +
			"  QUERN_SUBMISSION, QUERN_INDEX, QUERN_ATTEMPT   the chunk and the attempt\n" +
			"  QUERN_CONTENT                                  the content, if it is text of at most 32 KiB\n" +
			"  QUERN_KEY                                      the key of the content in object storage (stdin is then " +
			"empty;\n" +
			"                                                 with --fetch it is the object)\n" +
			"  TRACEPARENT, TRACESTATE                        the trace of the submission, if it has one\n" +
			"  QUERN_META_<KEY>                               the submission's metadata; the key in capitals, '_' for all but " +
			"letters and digits\n\n" +
			"The command's stdout becomes the chunk's output. Exit code 0 completes the chunk. Any other code fails the attempt,\n" +
			"with the last line of stderr as the reason. 100 fails the chunk for good. While the command runs, 'quern work'\n" +
			"extends the reservation. If the reservation is lost anyway, for example because the submission was cancelled, it\n" +
			"kills the command.\n\n" +
			"The consumer is attached to the server. If it dies, the server offers its chunks again after the queue's\n" +
			"consumer_grace_ms, or after --timeout if that is sooner. 'quern consumers drain' ends it like a signal.\n\n" +
			"The exit code is 0 when the work ended normally and at least one command succeeded, or there was none to run. It\n" +
			"is 1 when all commands failed, or with --fail-exit when one did.\n\n" +
			"After SIGTERM or SIGINT, running commands finish, and the server gets the other chunks back. A second signal kills\n" +
			"the commands, unless it comes within a second. After SIGKILL, Linux kills the commands, but not the programs that\n" +
			"they started, so let a shell exec its program. On other systems, the commands continue while the server hands out\n" +
			"their chunks again.",
		Example: "  quern work --concurrency 4 -- sha256sum {}\n" +
			"  quern work --strategy 'OrElse(SelectOnly(\"mode\", \"preview\", Random), OldestFirst)' --until-empty -- ./render",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("a command is missing: write it after --, as in 'quern work -- sha256sum {}'")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runWork(cmd.Context(), a, o, args) },
	}
	a.queueFlags(c)
	a.quietFlag(c)
	f := c.Flags()
	f.SetInterspersed(false)
	f.IntVarP(&o.concurrency, "concurrency", "c", 1, "commands to run at once, 1 to 1,000")
	f.StringVar(&o.strategy, "strategy", "Random", "which chunks, and in which order")
	f.StringVar(&o.consumer, "consumer", "", "name of this consumer, which no other process uses (default: the host, the "+
		"process id and random digits)")
	o.about.flag(c)
	f.DurationVar(&o.timeout, "timeout", time.Minute,
		"how long a reservation lasts, 100ms to 24h; quern work extends it while the command runs")
	f.DurationVar(&o.killAfter, "kill-after", 0, "kill a command that runs longer than this, and fail the attempt (0: never)")
	f.Int64VarP(&o.count, "limit", "n", 0, "at most this many chunks, then end (0: no limit)")
	limitWas(f, "count")
	f.BoolVar(&o.untilEmpty, "until-empty", false,
		"end when nothing is left for this consumer, and no reserved, waiting or paused chunk can come back")
	f.BoolVar(&o.failExit, "fail-exit", false,
		"exit with 1 when any command failed, even if its chunk was retried")
	objectsFlag(a, c, "fetch", "give the command its chunk's object from this bucket, and make an object of what "+
		"it prints, such as "+
		"s3://NAME?region=REGION (by the program "+objectsProgram+")")
	return c
}

// check refuses what the flags cannot mean.
func (o *workOptions) check() error {
	if _, err := strategyJSON(o.strategy); err != nil {
		return err
	}
	switch {
	case o.concurrency < 1 || o.concurrency > 1000:
		return usageError{fmt.Errorf("--concurrency is %d; it must be from 1 to 1,000", o.concurrency)}
	case o.timeout < queue.MinReservation || o.timeout > queue.MaxReservation:
		return usageError{fmt.Errorf("--timeout is %s; it must be from %s to %s", o.timeout, queue.MinReservation, queue.MaxReservation)}
	case o.killAfter < 0:
		return usageError{fmt.Errorf("--kill-after is %s; it must not be negative", o.killAfter)}
	case o.count < 0:
		return usageError{fmt.Errorf("--limit is %d; it must not be negative", o.count)}
	}
	return nil
}

// runWork runs commands until ctx ends, or there is nothing more to do.
func runWork(ctx context.Context, a *app, o workOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	about, err := o.about.read()
	if err != nil {
		return err
	}
	if o.consumer == "" {
		o.consumer = defaultConsumer()
		o.consumer = o.consumer[:min(len(o.consumer), queue.MaxConsumerBytes-7)] + "-" + strings.ToLower(rand.Text()[:6])
	}
	bar := a.newProgress("chunks", -1, time.Now)
	command, err := newCommand(args, o.killAfter, a.env(), bar)
	if err != nil {
		return err
	}
	a.onAbort(command.killAll)
	quick, err := a.client()
	if err != nil {
		return err
	}
	if _, err := quick.Stats(ctx, a.queueName()); err != nil && (o.untilEmpty || client.CodeOf(err) != api.CodeForbidden) {
		return err // better said now than waited for: a wrong address, a queue that does not exist
	}
	patient, err := a.client(client.WithRetries(client.DefaultRetries), client.WithCallTimeout(client.DefaultCallTimeout))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w := &working{command: command, count: o.count, stop: stop, bar: bar}
	if o.untilEmpty {
		go func() { stopWhenEmpty(ctx, a, quick, o, w) }()
	}
	err = patient.Work(ctx, client.WorkOptions{
		Queue: a.queueName(), Strategy: o.strategy, Consumer: o.consumer, Concurrency: o.concurrency, Timeout: o.timeout, Context: about,
		OnError: func(err error) {
			if failed := new(client.HandlerError); errors.As(err, &failed) && failed.Stack == nil {
				return // sayFailed has printed it
			}
			say(bar, "quern: %s\n", said(err))
		},
	}, w.handle)
	bar.End()
	if err != nil {
		return err
	}
	return w.verdict(o.failExit)
}

// working is one run of work.
type working struct {
	command *command
	count   int64 // chunks to begin; 0: no limit
	stop    func()
	bar     *progress

	begun, running, done, failed atomic.Int64

	mu      sync.Mutex
	reasons map[string]bool // for which commands failed, those that were printed
	last    string          // reason
}

// maxReasons is how many reasons are printed: a command may fail for another one with each chunk.
const maxReasons = 20

// sayFailed prints why a command failed, each reason once, and keeps the last one for the verdict.
func (w *working) sayFailed(chunk *client.Chunk, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last = reason; w.reasons[reason] || len(w.reasons) == maxReasons {
		return
	}
	if w.reasons == nil {
		w.reasons = map[string]bool{}
	}
	w.reasons[reason] = true
	say(w.bar, "quern: chunk %s/%d: attempt %d failed: %s\n", chunk.Submission, chunk.Index, chunk.Attempt, reason)
}

// handle runs the command for one chunk.
func (w *working) handle(ctx context.Context, chunk *client.Chunk) ([]byte, error) {
	if begun := w.begun.Add(1); w.count > 0 && begun >= w.count {
		w.stop() // no more is reserved
		if begun > w.count {
			return nil, client.ErrDraining // chunks reserved ahead go back
		}
	}
	w.running.Add(1)
	w.show()
	output, err := w.command.run(ctx, chunkInput{
		Submission: chunk.Submission, Index: chunk.Index, Attempt: chunk.Attempt, Content: chunk.Content,
		Key: chunk.Key, Meta: chunk.Meta, Trace: chunk.Trace,
	})
	w.running.Add(-1)
	switch {
	case err == nil:
		w.done.Add(1)
	case ctx.Err() == nil: // not killed because the chunk was lost
		w.failed.Add(1)
		w.sayFailed(chunk, err.Error())
	}
	w.show()
	var failure commandFailure
	if errors.As(err, &failure) {
		err = errors.New(failure.text) // the command's own words, without our type before them
		if failure.fatal {
			err = client.Permanent(err)
		}
	}
	return output, err
}

// verdict is the error that the failed commands are: of all, or of any.
func (w *working) verdict(strict bool) error {
	switch done, failed := w.done.Load(), w.failed.Load(); {
	case failed == 1 && done == 0:
		return fmt.Errorf("the command failed with: %s", w.last)
	case failed > 0 && done == 0:
		return fmt.Errorf("the command failed every time, %d times, the last time with: %s", failed, w.last)
	case failed > 0 && strict:
		return fmt.Errorf("the command failed %d of %d times, the last time with: %s", failed, done+failed, w.last)
	}
	return nil
}

func (w *working) show() {
	note := fmt.Sprintf("%d running", w.running.Load())
	if failed := w.failed.Load(); failed > 0 {
		note += ", " + several(failed, "attempt") + " failed"
	}
	w.bar.Set(w.done.Load(), note)
}

const (
	emptyEvery = 250 * time.Millisecond // how often --until-empty looks
	idleLooks  = 8                      // with the same reason to wait, and no command that runs, before the reason is printed
)

// stopWhenEmpty ends the work when nothing is left. While no command runs, it prints what it waits for. A server that is away is not an
// empty one.
func stopWhenEmpty(ctx context.Context, a *app, c *client.Client, o workOptions, w *working) {
	tick := time.NewTicker(emptyEvery)
	defer tick.Stop()
	for idle := (idleness{}); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		empty, why, err := nothingLeft(ctx, a, c, o)
		switch {
		case err != nil:
		case empty:
			w.stop()
			return
		case idle.isNews(why, w.running.Load()):
			say(w.bar, "quern: no chunk can be reserved now, and --until-empty waits: %s\n", why)
		}
	}
}

// idleness is the state of --until-empty while no command runs.
type idleness struct {
	why     string
	looks   int // in a row with this reason
	printed map[string]bool
}

// isNews counts one more look. It reports whether the reason to wait has lasted for idleLooks and was not printed before.
func (i *idleness) isNews(why string, running int64) bool {
	if why != i.why || running > 0 {
		i.why, i.looks = why, 0
	}
	i.looks++
	if why == "" || i.looks < idleLooks || i.printed[why] {
		return false
	}
	if i.printed == nil {
		i.printed = map[string]bool{}
	}
	i.printed[why] = true
	return true
}

// nothingLeft says whether this consumer can get nothing, neither now nor when chunks come back that are reserved, waiting or paused; else
// why it has to wait. Ready chunks that its strategy does not take do not count: it reserves one to find out, and gives it back.
func nothingLeft(ctx context.Context, a *app, c *client.Client, o workOptions) (empty bool, why string, err error) {
	s, err := c.Stats(ctx, a.queueName())
	switch {
	case err != nil:
		return false, "", err
	case s.Reserved > 0:
		return false, "consumers hold chunks that may come back ('quern reservations' lists them)", nil
	case s.Waiting > 0:
		return false, "chunks are to be offered later, such as after a failed attempt ('quern stats' counts them as waiting)", nil
	case s.Ready+s.Paused+s.Blocked == 0:
		return true, "", nil
	}
	strategy, err := strategyJSON(o.strategy)
	if err != nil {
		return false, "", err
	}
	about, err := o.about.read()
	if err != nil {
		return false, "", err
	}
	got, err := c.Reserve(ctx, a.queueName(), &api.ReserveRequest{Max: 1, Strategy: strategy, Consumer: o.consumer,
		Context: about, TimeoutMS: o.timeout.Milliseconds()})
	switch {
	case err != nil:
		return false, "", err
	case len(got.Reservations) == 0 && *got.Reason == api.ReasonPaused: // paused or blocked chunks are not gone
		return false, "rules pause or block the chunks that are left ('quern rules list' shows them)", nil
	case len(got.Reservations) == 0:
		return true, "", nil
	}
	_, err = c.Release(ctx, a.queueName(), []api.ReleaseItem{{Token: got.Reservations[0].Token}})
	return false, "", err
}
