package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// walkCommands shows every command of the tree.
func walkCommands(show func(c *cobra.Command)) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		show(c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{out: io.Discard, err: io.Discard, env: func() []string { return nil }}).newRoot())
}

// A letter means the same wherever it is taken: -n is --limit, -q is --quiet, -o is --output. Each has the same help, but for the
// counted things and the formats. The other letters have one name each, but -f, which follows a log or names a file.
func TestLettersMeanTheSameEverywhere(t *testing.T) {
	t.Parallel()
	names := map[string]string{"n": "limit", "q": "quiet", "o": "output"}
	starts := map[string]string{"limit": "at most this many", "quiet": "show no progress", "output": "how to print: "}
	others := map[string]string{ // flags that have one of these names and mean something else
		"quern keys set --limit":           "the limit of a value: what may be in flight",
		"quern schedules backfill --limit": "a bound that refuses the call, and takes no part of it",
	}
	seen := 0
	walkCommands(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			at := c.CommandPath() + " --" + f.Name
			if f.Shorthand != "" && f.Shorthand != "f" && f.Shorthand != "h" {
				if name, ok := names[f.Shorthand]; !ok {
					names[f.Shorthand] = f.Name
				} else if name != f.Name {
					t.Errorf("%s is -%s, which is --%s elsewhere", at, f.Shorthand, name)
				}
			}
			start, shared := starts[f.Name]
			if !shared || others[at] != "" {
				return
			}
			seen++
			if f.Shorthand == "" || names[f.Shorthand] != f.Name || !strings.HasPrefix(f.Usage, start) || f.Name == "quiet" && f.Usage != start {
				t.Errorf("%s (-%s): %q does not begin with %q, or has another letter", at, f.Shorthand, f.Usage, start)
			}
		})
	})
	if seen < 80 {
		t.Errorf("only %d flags were compared", seen)
	}
}

// A flag that refuses a value says so in words of its own, and not in those of Go's libraries.
func TestWrongFlagsNameWhatIsAllowed(t *testing.T) {
	t.Parallel()
	refused := 0
	walkCommands(func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"?", "99999999999999999999"} {
				err := c.ParseFlags([]string{"--" + f.Name + "=" + value})
				if err == nil {
					continue
				}
				refused++
				text := wrongFlag(c, err).Error()
				if !strings.HasPrefix(text, "--"+f.Name+" ") || regexp.MustCompile(`strconv|time: |parsing|invalid (syntax|argument)`).MatchString(text) {
					t.Errorf("%s --%s=%s: %s", c.CommandPath(), f.Name, value, text)
				}
			}
		})
	})
	if refused < 100 {
		t.Errorf("%d values were refused: the test has lost its flags", refused)
	}
}
