package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of queue put says of a setting what it is, its range and its default. The help of queue set has no defaults. Nowhere does
// the library add a zero of its own behind them.
func TestHelpSaysTrueDefaults(t *testing.T) {
	t.Parallel()
	a := &app{out: io.Discard, err: io.Discard, env: func() []string { return nil }}
	root := a.newRoot()
	for _, sub := range []string{"put", "set"} {
		command, _, err := root.Find([]string{"queue", sub})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"durability":          "full|relaxed full: the server answers after the change is on disk. relaxed: it answers before, and a power cut can undo the last moments (default full)",
			"max-attempts":        "uint16 how many attempts a chunk gets: 0 (no limit) to 1,000 (default 10)",
			"draining":            " whether the queue refuses inserts, while consumers finish its work",
			"suspect-share":       "float the share of the consumers' slots that chunks whose deadline passed may have while there is other work: 0 (behind all other work) to 1 (no limit) (default 0.3)",
			"reservation-timeout": "duration how long a consumer may hold a chunk, unless its reserve call says otherwise: 100ms to --max-reservation (at most 24h) (default 10m)",
			"restart-grace":       "duration how long after a start the queue hands out no chunk that a limit counts, so that consumers can extend first; in a cluster, new queues have 30 s: 0 (none) to 10m (default: none)",
			"retention":           "duration how long the server keeps ended submissions; those with dead letters stay: 0 (for ever) to 87600h (default 168h)",
			"retry-backoff":       "[KIND:]BASE[,FACTOR[,CAP]][,jitter=JITTER] the pause after a failed attempt, unless the consumer chooses one, such as 1s,2,5m or fixed:30s,jitter=none; 0: none (default 1s,2,10m)",
			"expiry-backoff":      "[KIND:]BASE[,FACTOR[,CAP]][,jitter=JITTER] the pause after an attempt whose deadline passed or whose consumer was lost, such as 1s,2,5m or fixed:30s,jitter=none; 0: none (default 1s,2,5m)",
			"dead-letter-queue":   "string the queue to which dead letters go; without it they stay. It must exist, and have no dead_letter_queue itself",
		} {
			if sub == "set" {
				want = regexp.MustCompile(` \(default[^)]*\)`).ReplaceAllString(want, "")
			}
			form, usage := pflag.UnquoteUsage(command.Flags().Lookup(name))
			if got := form + " " + usage; got != want {
				t.Errorf("queue %s --%s: got %q, want %q", sub, name, got, want)
			}
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
