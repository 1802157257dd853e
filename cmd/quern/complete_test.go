package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every argument that a command's usage names is completed, or is one that no server knows; so is every flag that takes one of a few words.
func TestEverythingIsCompleted(t *testing.T) {
	t.Parallel()
	free := regexp.MustCompile(`^(.* (FILE|FILE\|-|INCREMENT|DIR|STRATEGY|NUMBER|INDEX|PERCENT|TOKEN|COMMAND|ARG|SUITE|ACTION|SCOPE,|FILE\.wasm|MODULE\.wasm|` +
		`MANIFEST\.json|KEY=VALUE)|token NAME|plugin ID|quern STRATEGY)$`)
	used := make(map[string]bool)
	a := &app{env: func() []string { return nil }}
	a.newRoot()
	known := argumentLists(a.offered)
	walkCommands(func(c *cobra.Command) {
		if c.HasParent() {
			for _, word := range strings.Fields(c.Use)[1:] {
				word = c.Parent().Name() + " " + strings.Trim(word, "[].")
				used[word] = true
				if regexp.MustCompile(` [A-Z]`).MatchString(word) && known[word] == nil && !free.MatchString(word) {
					t.Errorf("%s: %q is not in argumentLists", c.CommandPath(), word)
				}
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, ok := c.GetFlagCompletionFunc(f.Name); !ok && (strings.Contains(f.Value.Type(), "|") || f.Value.Type() == "format") {
				t.Errorf("%s --%s takes %s, and is not completed", c.CommandPath(), f.Name, f.Value.Type())
			}
		})
	})
	for word := range known {
		if !used[word] {
			t.Errorf("no command takes %q, which is in argumentLists", word)
		}
	}
}
