// Quern is a queue server and everything around it in one binary: the server (serve, dev, demo), a producer (submit), a
// consumer that runs a command per chunk (work), and the means to look (get, list, watch, stats). To learn how the server
// is put together, read serve.go first; root.go lists the commands.
//
//quern:tests processes
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // schedules have time zones, and the machine may have none: docs/decisions/0020-schedules.md
)

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ}
	ctx, cancel := context.WithCancelCause(context.Background())
	go a.watchSignals(cancel)
	os.Exit(a.run(ctx, os.Args[1:]))
}

// signalled is the cause of a context that a signal ended.
type signalled struct{ signal os.Signal }

func (s signalled) Error() string { return "ended by " + s.signal.String() }

// watchSignals ends the context at the first SIGINT, SIGTERM or SIGHUP, which every command takes as "finish what you hold and leave".
// It ends the process at a second signal that comes a second later or more, because a user who asks twice does not want to wait.
func (a *app) watchSignals(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // the terminal was closed; nohup ignores that
		signal.Notify(signals, syscall.SIGHUP)
	}
	cancel(signalled{<-signals})
	second := repeated(signals)
	say(os.Stderr, "quern: %s for the second time: ending at once\n", second)
	if do := a.abort.Load(); do != nil {
		(*do)()
	}
	os.Exit(exitInterrupted)
}

// repeatAfter is how long after the first signal another one is a repeat of it. GNU timeout sends each signal twice, to its child and to
// the process group, and that is one order to end.
const repeatAfter = time.Second

// repeated waits for the next signal that is more than the repeat of one that has just come.
func repeated(signals <-chan os.Signal) os.Signal {
	for first := time.Now(); ; {
		if second := <-signals; time.Since(first) >= repeatAfter {
			return second
		}
	}
}
