package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/plugins/score"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The size and the pace of the demo: enough to see every number move, little enough for a laptop to stay quiet.
const (
	demoConsumers    = 20
	demoPerCompany   = 100_000                // chunks inserted for each company at the start
	demoSubmissions  = 20                     // submissions they are spread over
	demoBatch        = 10                     // chunks that a consumer holds at once
	demoLow          = demoPerCompany / 2     // ready chunks of a company below which it inserts again
	demoFailEvery    = 200                    // one try in this many fails, to be tried again
	demoFastest      = 60 * time.Millisecond  // the least time of a batch
	demoSlowest      = 160 * time.Millisecond // and at most
	demoReserveWait  = 5 * time.Second        // long poll of an idle consumer
	demoProgressTick = time.Second
)

// demoCompanies are the customers whose work the demo makes up.
func demoCompanies() []string {
	return []string{"acorn", "birch", "cedar", "dogwood", "elm"}
}

// demoStrategies are dealt out to the consumers in turn.
func demoStrategies() []string {
	return []string{
		`Random`,
		`OldestFirst`,
		`NewestFirst`,
		`Fair("company", OldestFirst)`,
		`MaxSimultaneous("zone", 60, Fair("company", CustomPriority))`,
		`OrElse(Plugin("fresh-first", SelectOnly("mode", "preview", OldestFirst)), CustomPriority)`,
		`SelectOnly("mode", "preview", Random)`,
		`OrElse(SelectOnly("mode", "preview", OldestFirst), Random)`,
		`OrElse(SelectOnly("company", "acorn", OldestFirst), SelectOnly("company", "birch", Random), CustomPriority)`,
	}
}

// demoCommand shows a server at work.
func demoCommand(a *app) *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo: a server with made-up work and consumers",
		Long: fmt.Sprintf("Run a server with temporary data and a busy queue: %d chunks for each of %d companies, one of which has\n"+
			"a limit, and %d consumers with different strategies. One more company is paused, and the work of another one fails. A\n"+
			"plugin and a schedule are active, too. Each company inserts more when its work runs low. The demo runs until\n"+
			"interrupted, and deletes its data.",
			demoPerCompany, len(demoCompanies()), demoConsumers),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), a, o) },
	}
	o.flags(c)
	a.quietFlag(c)
	return c
}

// runDemo runs the server and, once it is ready, everything that keeps it busy. Whichever ends first ends the other.
func runDemo(ctx context.Context, a *app, o devOptions) error {
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	var busy chan error // nil until there is a crowd
	err := runDev(ctx, a, o, func(url string) {
		say(a.out, "quern: demo at %s (open it in a browser; see also: quern watch --server %s); ctrl-c ends it\n", url, url)
		busy = make(chan error, 1)
		go func() {
			busy <- demoCrowd(ctx, a, url)
			finish()
		}()
	})
	finish()
	if busy != nil {
		err = errors.Join(err, <-busy)
	}
	return err
}

// demoCrowd runs the producer, the consumers and the progress line until ctx ends or one of them fails.
func demoCrowd(ctx context.Context, a *app, url string) error {
	c, err := client.New(url)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		all  sync.WaitGroup
		done atomic.Int64
	)
	run := func(part func(context.Context) error) {
		all.Go(func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	}
	if err := demoStory(ctx, c); err != nil {
		return err
	}
	run(func(ctx context.Context) error { return demoProduce(ctx, c) })
	strategies := demoStrategies()
	for n := range demoConsumers {
		consumer := demoConsumer{client: c, name: fmt.Sprintf("demo-%02d", n+1),
			strategy: strategies[n%len(strategies)], done: &done, rnd: rand.New(rand.NewPCG(rand.Uint64(), uint64(n)))}
		run(consumer.run)
	}
	run(func(ctx context.Context) error { return demoProgress(ctx, a, c, &done) })
	all.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.As(cause, new(signalled)) {
		return cause
	}
	return nil
}

// demoProduce inserts work for every company, and more for a company whenever its own runs low. So work that waits behind the limit of
// one company keeps no other company from getting more.
func demoProduce(ctx context.Context, c *client.Client) error {
	tick := time.NewTicker(demoProgressTick)
	defer tick.Stop()
	if err := demoInsert(ctx, c, 0, demoCompanies(), demoPerCompany); err != nil {
		return err
	}
	for round := 1; ; round++ {
		low, err := demoShort(ctx, c, demoLow)
		if err == nil {
			err = demoInsert(ctx, c, round, low, demoPerCompany)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// demoShort are the companies with fewer ready chunks than low.
func demoShort(ctx context.Context, c *client.Client, low uint64) (short []string, err error) {
	for _, name := range demoCompanies() {
		v, err := c.Value(ctx, "default", "company", api.Text(name))
		switch {
		case client.CodeOf(err) == api.CodeUnknownValue: // all of it is done
		case err != nil:
			return nil, err
		case v.Ready >= low:
			continue
		}
		short = append(short, name)
	}
	return short, nil
}

// demoInsert is one round of work of some companies: they take turns, so that the oldest work is not all of one company.
func demoInsert(ctx context.Context, c *client.Client, round int, companies []string, each uint32) error {
	for n := range demoSubmissions {
		for _, name := range companies {
			mode := "full"
			if n%4 == 0 {
				mode = "preview"
			}
			zone := int64(slices.Index(demoCompanies(), name) % 3)
			_, err := c.Insert(ctx, "default", &api.NewSubmission{
				Meta:     api.Meta{"company": api.Text(name), "mode": api.Text(mode), "zone": api.Int(zone)},
				Priority: int64(n % 5),
				Chunks: api.Chunks{Count: each / demoSubmissions,
					Template: fmt.Sprintf("%s round %d part %d row {index}", name, round, n)},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// demoConsumer pretends to work: it holds a batch for a moment and hands it back done, but for a try that fails now and
// then.
type demoConsumer struct {
	client   *client.Client
	name     string
	strategy string
	done     *atomic.Int64
	rnd      *rand.Rand
}

func (d demoConsumer) run(ctx context.Context) error {
	strategy, err := strategyJSON(d.strategy)
	if err != nil {
		return err
	}
	var x api.ExchangeRequest
	for {
		x.Reserve = &api.ReserveRequest{Max: demoBatch, Strategy: strategy, Consumer: d.name, WaitMS: demoReserveWait.Milliseconds()}
		got, err := d.client.Exchange(ctx, "default", &x)
		if err != nil {
			return err
		}
		d.done.Add(int64(len(x.Complete)))
		x = api.ExchangeRequest{}
		if len(got.Reservations) == 0 {
			continue // the server waited, and had nothing
		}
		pause := time.NewTimer(demoFastest + time.Duration(d.rnd.Int64N(int64(demoSlowest-demoFastest))))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
		for _, r := range got.Reservations {
			if company := r.Meta["company"]; company.Text() == demoDying && d.rnd.IntN(4) == 0 {
				errors := demoErrors()
				text := errors[d.rnd.IntN(len(errors))]
				if strings.Contains(text, "%d") {
					text = fmt.Sprintf(text, d.rnd.IntN(250))
				}
				x.Fail = append(x.Fail, api.FailItem{Token: r.Token, Error: text, Fatal: true})
				continue
			}
			if d.rnd.IntN(demoFailEvery) == 0 {
				x.Fail = append(x.Fail, api.FailItem{Token: r.Token, Error: "made-up failure; the server retries it"})
				continue
			}
			x.Complete = append(x.Complete, api.CompleteItem{Token: r.Token, Output: api.Bytes(r.Content.Bytes)})
		}
	}
}

// demoProgress shows one line that moves.
func demoProgress(ctx context.Context, a *app, c *client.Client, done *atomic.Int64) error {
	bar := a.newProgress("chunks", -1, time.Now)
	defer bar.End()
	tick := time.NewTicker(demoProgressTick)
	defer tick.Stop()
	for {
		s, err := c.Stats(ctx, "default")
		if err != nil {
			return err
		}
		bar.Set(done.Load(), fmt.Sprintf("%d ready, %d reserved, %d waiting, %d submissions open, %d attempts failed",
			s.Ready, s.Reserved, s.Waiting, s.SubmissionsOpen, s.FailedTotal))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// These make the first screen of the demo show what strategies, limits, rules, plugins and schedules do.
const (
	demoPaused = "fern"  // a company whose work is paused
	demoDying  = "gorse" // a company of whose chunks many fail for good
	demoPlugin = "fresh-first"

	demoRetention = 600 // seconds for which ended work is kept: an hour of all of it would fill a small disk

	demoPausedChunks = 20_000
	demoDyingChunks  = 600 // at the start
	demoDyingMore    = 40  // each minute, of which a quarter dies
)

// demoFormula is the formula of the demo's plugin. It is compiled here, and uploaded like any author's module.
const demoFormula = "priority*10 - age_s"

// demoErrors are the errors with which chunks of demoDying fail.
func demoErrors() []string {
	return []string{"connection refused: 10.0.7.%d:5432", "row %d: \"name\" is not valid UTF-8", "the far side answered 503"}
}

// demoStory sets up limits and weights, a pause, a plugin, a schedule, and work that fails.
func demoStory(ctx context.Context, c *client.Client) error {
	kept := api.QueueSettingsInput{RetentionSeconds: new(int64(demoRetention))}
	if _, err := c.ChangeQueue(ctx, "default", kept); err != nil {
		return err
	}
	for company, set := range map[string]api.ValueSettings{
		"acorn": {Limit: new(uint32(12))}, "birch": {Weight: new(3.0)}, "elm": {Weight: new(0.5)},
	} {
		if _, err := c.PutValue(ctx, "default", "company", api.Text(company), set, client.Condition{}); err != nil {
			return err
		}
	}
	if err := demoScores(ctx, c); err != nil {
		return err
	}
	rule := api.RuleRequest{Action: "pause", Match: api.RuleMatch{Meta: api.Meta{"company": api.Text(demoPaused)}}, Actor: "ann",
		Reason: "INC-204: their API answers 503", Until: api.Time{Time: time.Now().Add(26 * time.Hour)}}
	if _, err := c.SetRule(ctx, "default", &rule); err != nil {
		return err
	}
	for _, n := range []api.NewSubmission{
		{Meta: demoMeta(demoPaused), Chunks: api.Chunks{Count: demoPausedChunks, Template: "fern row {index}"}},
		{Meta: demoMeta(demoDying), Chunks: api.Chunks{Count: demoDyingChunks, Template: "gorse row {index}"},
			OnExhausted: "dead_letter", MaxAttempts: 2},
	} {
		if _, err := c.Insert(ctx, "default", &n); err != nil {
			return err
		}
	}
	for name, template := range map[string]api.ScheduleTemplate{
		"report": {Meta: demoMeta("elm"), Priority: 3,
			Chunks: api.Chunks{Count: 50, Template: "report {scheduled_at} page {index}"}},
		"ingest": {Meta: demoMeta(demoDying), OnExhausted: "dead_letter", MaxAttempts: 2,
			Chunks: api.Chunks{Count: demoDyingMore, Template: "gorse {scheduled_at} row {index}"}},
	} {
		_, err := c.PutSchedule(ctx, "default", name, &api.ScheduleDefinition{Spec: "* * * * *", Overlap: "skip", RunOnCreate: true,
			Template: template}, client.Condition{})
		if err != nil {
			return err
		}
	}
	return nil
}

func demoMeta(company string) api.Meta {
	return api.Meta{"company": api.Text(company), "mode": api.Text("full"), "zone": api.Int(1)}
}

// demoScores uploads the plugin and takes it into use.
func demoScores(ctx context.Context, c *client.Client) error {
	formula, err := strategy.ParseExpression(demoFormula)
	if err != nil {
		return err
	}
	module, columns := score.Compile(formula)
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Name
	}
	manifest, err := json.Marshal(map[string]any{"name": demoPlugin, "version": "1.0.0", "abi": 1, "columns": names,
		"window": map[string]int{"max": 1024}})
	if err != nil {
		return err
	}
	if _, err := c.UploadPlugin(ctx, client.PluginUpload{Module: module, Manifest: manifest}); err != nil {
		return err
	}
	_, err = c.ActivatePlugin(ctx, demoPlugin, api.PluginSelection{Version: "1.0.0"}, client.Condition{})
	return err
}
