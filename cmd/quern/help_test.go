package main

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/engine/queue"
)

// What the help of queue put says of defaults is what a new queue gets; queue set has none; and nowhere does the library add a zero of
// its own behind them.
func TestHelpSaysTrueDefaults(t *testing.T) {
	t.Parallel()
	a := &app{out: io.Discard, err: io.Discard, env: func() []string { return nil }}
	root := a.newRoot()
	settings := queue.DefaultSettings()
	said := regexp.MustCompile(`\(default ([^)]*)\)`)
	for flag, want := range map[string]time.Duration{
		"consumer-grace": settings.ConsumerGrace, "reservation-timeout": settings.ReservationTimeout, "max-reservation": settings.MaxReservation,
		"retention": settings.Retention,
	} {
		put, _, err := root.Find([]string{"queue", "put"})
		if err != nil {
			t.Fatal(err)
		}
		found := said.FindStringSubmatch(put.Flags().Lookup(flag).Usage)
		if len(found) == 0 {
			t.Errorf("--%s says no default: %s", flag, put.Flags().Lookup(flag).Usage)
		} else if got, err := time.ParseDuration(found[1]); err != nil || got != want {
			t.Errorf("--%s has the default %s, %v, want %s", flag, found[1], err, want)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			alone := pflag.NewFlagSet("", pflag.ContinueOnError)
			alone.AddFlag(f)
			usage := alone.FlagUsages()
			if strings.Contains(usage, "(default 0s)") || c.CommandPath() == "quern queue set" && f.Name != "output" && strings.Contains(f.Usage, "(default") {
				t.Errorf("%s: %s", c.CommandPath(), usage)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}
