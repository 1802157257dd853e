package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a page with its flags, and names those below it. The program that shows manual pages has nothing to say against any
// of them and shows the words of the help, with its hyphens and quotes.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "man1")
	var out strings.Builder
	a := &app{out: &out, err: &out, env: func() []string { return nil }}
	if code := a.run(t.Context(), []string{"man", dir}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	commands := 0
	walkCommands(func(c *cobra.Command) {
		if c.Hidden || c.HasParent() && c.Parent().Hidden {
			return
		}
		commands++
		shown := showPage(t, filepath.Join(dir, pageName(c)+".1"))
		if want := strings.Join(strings.Fields(c.Short), " "); !strings.Contains(shown, want) {
			t.Errorf("the page of %s does not say %q:\n%s", c.CommandPath(), want, shown)
		}
		if strings.Contains(shown, defaultConsumer()) {
			t.Errorf("the page of %s has the name of this machine and process in it", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(shown, "--"+f.Name) {
				t.Errorf("the page of %s does not have --%s", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range pagesBelow(c) {
			if !strings.Contains(shown, pageName(sub)+"(1)") {
				t.Errorf("the page of %s does not name %s(1)", c.CommandPath(), pageName(sub))
			}
		}
	})
	if commands < 100 {
		t.Errorf("only %d commands were looked at", commands)
	}
}

// showPage is a page as text, in one line: as groff shows it, where there is one.
func showPage(t *testing.T, path string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return ""
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return strings.NewReplacer(`\-`, "-", `\fB`, "", `\fR`, "", `\(aq`, "'", `\(ga`, "`", "\n", " ").Replace(string(source))
	}
	var complaints strings.Builder
	show := exec.Command(groff, "-k", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=2000n", "-rHY=0", path)
	show.Stderr = &complaints
	shown, err := show.Output()
	if err != nil || complaints.Len() > 0 {
		t.Errorf("groff: %v: %s", err, complaints.String())
	}
	return strings.Join(strings.Fields(string(shown)), " ")
}
