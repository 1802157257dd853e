// Command conformance shows whether a client of Quern, in whatever language, does what it must when the server or the network has a
// bad day. It plays a server, runs a small program that uses the client, and judges what the client did.
//
//	go run ./sdk/conformance [-run REGEXP] [-list] [-tier sequential] [-timeout 10s] COMMAND [ARGUMENT...]
//
// README.md says what the program has to do, and lists the scenarios.
//
//quern:tests processes
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; its result is the exit status: 0 if the client passed all, 1 if not, 2 for a wrong command line.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(errs)
	only := flags.String("run", "", "play only the scenarios whose name matches this regular expression")
	named := flags.String("tier", string(Full), "what the client can do: full, or sequential for one chunk at a time without a stream")
	list := flags.Bool("list", false, "list the scenarios and end")
	at := flags.Int("at-once", 4, "how many scenarios are played at the same time")
	patience := flags.Duration("timeout", patience, "how long to wait for the next thing that the client has to do; more on a busy machine")
	if flags.Parse(args) != nil {
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(errs, "conformance: -run:", err)
		return 2
	}
	tier := Tier(*named)
	if tier != Full && tier != Sequential {
		fmt.Fprintf(errs, "conformance: -tier is %s; it is %s or %s\n", tier, Full, Sequential)
		return 2
	}
	chosen := slices.DeleteFunc(scenarios(), func(sc Scenario) bool { return !match.MatchString(sc.Name) || !sc.in(tier) })
	switch {
	case len(chosen) == 0:
		fmt.Fprintln(errs, "conformance: no scenario matches", *only)
		return 2
	case *list:
		for _, sc := range chosen {
			fmt.Fprintf(out, "%-15s %-10s %s\n", sc.Name, sc.tier(), sc.About)
		}
		return 0
	case *patience <= 0:
		fmt.Fprintln(errs, "conformance: -timeout must be more than 0, such as 30s")
		return 2
	case flags.NArg() == 0 || *at < 1:
		fmt.Fprintln(errs, "conformance: name the command of the client to be judged, such as: go run ./sdk/conformance ./client")
		return 2
	}
	failed := playAll(ctx, chosen, tier, *at, *patience, flags.Args(), out)
	if failed > 0 {
		fmt.Fprintf(out, "%d of %d scenarios failed\n", failed, len(chosen))
		return 1
	}
	fmt.Fprintf(out, "all %d scenarios passed\n", len(chosen))
	return 0
}

// scenarios are all of them. Those that take longest come first, because some are played at the same time.
func scenarios() []Scenario {
	return slices.Concat(troubleScenarios, workScenarios, refusalScenarios, reportedScenarios, produceScenarios)
}

// playAll plays scenarios, some at a time, and reports each when it is over.
func playAll(
	ctx context.Context, chosen []Scenario, tier Tier, at int, patience time.Duration, command []string, out io.Writer,
) (failed int) {
	var mu sync.Mutex
	var running sync.WaitGroup
	room := make(chan struct{}, at)
	for _, sc := range chosen {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			begin := time.Now()
			err := play(ctx, &sc, tier, patience, command)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fmt.Fprintf(out, "ok      %-15s %5.1f s\n", sc.Name, time.Since(begin).Seconds())
				return
			}
			failed++
			fmt.Fprintf(out, "FAILED  %-15s %5.1f s\n        %s\n        %s\n", sc.Name, time.Since(begin).Seconds(),
				sc.About, strings.ReplaceAll(err.Error(), "\n", "\n        "))
		})
	}
	running.Wait()
	return failed
}
