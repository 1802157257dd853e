package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine"
)

// devCommand runs a server whose data is thrown away.
func devCommand(a *app) *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a server with temporary data, deleted at the end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDev(cmd.Context(), a, o, func(url string) {
				clock := ""
				if o.testClock {
					clock = "; POST /dev/clock moves its clock"
				}
				say(a.out, "quern: serving %s with data that is removed at the end%s\n", url, clock)
			})
		},
	}
	o.flags(c)
	c.Flags().BoolVar(&o.testClock, "test-clock", false, "let POST /dev/clock with {\"advance_ms\": 60000} move the "+
		"server's clock forward, for tests")
	return c
}

// devOptions are the few options of a server for trying things out.
type devOptions struct {
	listen, logLevel string
	testClock        bool // only of the command dev
}

func (o *devOptions) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:7700", "address to serve HTTP on; loopback only; port 0 "+
		"picks a free one")
	c.Flags().StringVar(&o.logLevel, "log-level", "warn", "least severe log lines to write: debug, info, warn or error")
}

// runDev runs a server in a temporary directory until ctx ends, and removes the directory.
func runDev(ctx context.Context, a *app, o devOptions, ready func(url string)) error {
	dir, err := os.MkdirTemp("", "quern-dev-")
	if err != nil {
		return err
	}
	config, err := o.config(dir)
	if err == nil {
		var clock *testClock
		if o.testClock {
			clock = new(testClock)
		}
		err = runServer(ctx, a, config, clock, ready)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// config is the default configuration with data in dir.
func (o *devOptions) config(dir string) (Config, error) {
	given := map[string]string{"data": dir, "listen": o.listen, "log-level": o.logLevel}
	var config Config
	for _, option := range options() {
		text, ok := given[option.name]
		source := "command"
		if !ok {
			text, source = option.value, "default"
		}
		config.settings = append(config.settings, setting{option, text, source})
		if err := option.set(&config, text); err != nil {
			return Config{}, usageError{fmt.Errorf("%s is %q but %w", option.name, text, err)}
		}
	}
	if reachable, err := config.reachable(); err != nil || reachable || config.Listen == "" {
		return Config{}, usageError{fmt.Errorf("listen is %q; a server for trying things out listens on loopback "+
			"only, such as 127.0.0.1:7700: use `quern serve` for others", given["listen"])}
	}
	return config, nil
}

// testClock is the machine's clock, plus the time by which a test has moved it forward. Deadlines, delays, rates and
// schedules obey it. Paces, such as how long a call waits for work, are still real. A nil clock cannot be moved.
type testClock struct{ ahead atomic.Int64 }

func (c *testClock) now() time.Time {
	if c == nil {
		return wallClock()
	}
	return wallClock().Add(time.Duration(c.ahead.Load()))
}

// clockSteps is in how many steps of a second or more a test moves the clock.
const clockSteps = 10_000

// mover returns the function that moves the clock and has the engine do what becomes due. It is nil if the clock cannot
// be moved. It moves the clock in steps, because one thing follows from another: a reservation times out, then its chunk
// waits for a back-off, and a schedule is due many times.
func (c *testClock) mover(core *engine.Engine) func(by time.Duration) {
	if c == nil {
		return nil
	}
	return func(by time.Duration) {
		engine.Moved(core)
		for step := max(time.Second, by/clockSteps); by > 0; by -= step {
			c.ahead.Add(int64(min(step, by)))
			engine.Moved(core)
		}
	}
}
