package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/CLI.md is the page that the program generates, with every command and every flag that has
// help.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	var out, said strings.Builder
	a := &app{out: &out, err: &said, env: func() []string { return nil }}
	if code := a.run(t.Context(), []string{"man", "--markdown"}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	committed, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(committed) {
		t.Error("docs/CLI.md is not what the commands make\nwhat to do: make golden, or go run ./cmd/quern man --markdown >docs/CLI.md")
	}
	if strings.Contains(out.String(), `\#`) || strings.Contains(out.String(), "\n\t") {
		t.Error("the page shows marks of Markdown, or escapes within what is to be typed")
	}
	if strings.Contains(out.String(), defaultConsumer()) {
		t.Error("the page has the name of this machine and process in it")
	}
	_, page, _ := strings.Cut(out.String(), "\n## Flags for the server\n")
	walkCommands(func(c *cobra.Command) {
		if c.Hidden || c.HasParent() && (c.Parent().Hidden || c.Name() == "help") || !c.HasParent() {
			return
		}
		_, part, found := strings.Cut(page, "# "+c.CommandPath()+"\n")
		if part, _, _ = strings.Cut(part, "\n##"); !found {
			t.Errorf("the page does not have %s", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			shared := sharedFlags().Lookup(f.Name) != nil && strings.Contains(part, "(#flags-for-the-server)")
			if !f.Hidden && f.Name != "help" && !shared && !strings.Contains(part, "--"+f.Name) {
				t.Errorf("the part on %s does not have --%s", c.CommandPath(), f.Name)
			}
		})
	})
}
