package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	fenced   = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$")
	codeSpan = regexp.MustCompile("`(quern [^`\n]+)`")
	quoted   = regexp.MustCompile(`'(quern [a-z]+( [^'\n]*)?)'`)
	began    = regexp.MustCompile(`(?m)(?:^\s*(?:\$ )?|[|&(] ?|^\S.* -- )(?:\./bin/)?(quern [a-z-].*)$`)
	holder   = regexp.MustCompile(`^[A-Z][A-Z_/]*(\.\.\.)?$|\.\.\.|…|^<.*>$|^\$`)
)

// Every command line that documents, help and messages show is one that this program takes: the command and its flags are there, their
// values fit, and so does the number of arguments. docs/CLI.md is made of the help.
func TestShownCommandsAreThere(t *testing.T) {
	t.Parallel()
	checked := 0
	check := func(where, line string) {
		if checked++; line == "quern schedules set --note" {
			return // CONTRIBUTING.md has it as an example of a new flag
		}
		if err := fits(shellWords(line)); err != nil {
			t.Errorf("%s shows %q: %v", where, line, err)
		}
	}
	for where, text := range documentsOf(t) {
		rest := fenced.ReplaceAllStringFunc(text, func(block string) string {
			for _, line := range shellLines(fenced.FindStringSubmatch(block)[1]) {
				check(where, line)
			}
			return ""
		})
		for _, span := range codeSpan.FindAllStringSubmatch(rest, -1) {
			check(where, span[1])
		}
	}
	walkCommands(func(c *cobra.Command) {
		for _, line := range shellLines(c.Example) {
			check("the help of "+c.CommandPath(), line)
		}
		texts := []string{c.Long, c.Short}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Usage) })
		for _, shown := range quoted.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
			check("the help of "+c.CommandPath(), shown[1])
		}
	})
	for _, message := range serverMessages(t) {
		for _, shown := range quoted.FindAllStringSubmatch(inCommands.Replace(message), -1) {
			check("a message of the server", shown[1])
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range quoted.FindAllStringSubmatch(string(source), -1) {
			if !strings.HasSuffix(name, "_test.go") {
				check(name, shown[1])
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// fits finds command lines that do not fit the commands.
func TestShownCommandsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for line, fit := range map[string]bool{
		"quern stats": true, "quern statz": false, "quern views --format json": false, "quern views -o json": true, "quern views -o": true,
		"quern queue": true, "quern queue move x": false, "quern why 7529572615950696448/2": true, "quern why 1 2 3": false,
		"quern list --limit many": false, "quern list --limit N": true, "quern get ID": true, "quern work -- sh -c 'x --y'": true,
		"quern submit --count 5 --template 'row {index}' | sort -u": true, "quern submit --cuont 5": false,
	} {
		if err := fits(shellWords(line)); (err == nil) != fit {
			t.Errorf("%s: %v, want it to fit: %t", line, err, fit)
		}
	}
}

// documentsOf are the documents of the repository by path, except the one that the commands make.
func documentsOf(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "llms.txt", "docs/*.md", "docs/*/*.md", "deploy/*/*.md", "deploy/*.md", "examples/*.md", "examples/*/*.md", "sdk/*/*.md", "plugins/*/*.md"} {
		names, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if base := filepath.Base(name); base != "CLI.md" && base != "CHANGELOG.md" { // of earlier versions
				all[strings.TrimPrefix(filepath.ToSlash(name), "../../")] = string(text)
			}
		}
	}
	return all
}

// shellLines are the command lines of this program in a piece of shell.
func shellLines(text string) (lines []string) {
	for _, found := range began.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", " "), -1) {
		lines = append(lines, found[1])
	}
	return lines
}

// shellWords are the words of a command up to its end: a pipe, a redirection, a comment.
func shellWords(line string) (words []string) {
	word, within, some := "", rune(0), false
	end := func() {
		if some {
			words = append(words, word)
		}
		word, some = "", false
	}
	for _, r := range line {
		switch {
		case within != 0 && r == within:
			within = 0
		case within != 0:
			word += string(r)
		case r == '\'' || r == '"':
			within, some = r, true
		case r == ' ':
			end()
		case strings.ContainsRune("|<>&;)", r) || r == '#' && !some:
			end()
			return words
		default:
			word, some = word+string(r), true
		}
	}
	end()
	return words
}

// fits says what of a command line this program does not take. Words that stand for a value fit everywhere.
func fits(words []string) error {
	a := &app{out: io.Discard, err: io.Discard, env: func() []string { return nil }}
	root := a.newRoot()
	root.InitDefaultHelpCmd()
	open := slices.ContainsFunc(words, func(word string) bool { return strings.ContainsAny(word, "[]") || strings.Contains(word, "...") })
	c, args, err := root.Find(words[1:])
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Value = &lenient{f.Value} })
	var alone *pflag.ValueRequiredError
	if err := c.ParseFlags(args); errors.As(err, &alone) {
		return nil // the flag is named
	} else if err != nil {
		return err
	}
	args = c.Flags().Args()
	switch {
	case len(args) == 0 && len(words) <= 3, open: // it is named, or shown as a form
		return nil
	case c.HasSubCommands() && len(args) > 0 && c != root:
		return errors.New("it has no command " + args[0])
	case c.Args == nil:
		return nil
	}
	return c.Args(c, args)
}

// lenient is a flag that also takes a word that stands for a value.
type lenient struct{ pflag.Value }

func (l *lenient) Set(text string) error {
	if holder.MatchString(text) {
		return nil
	}
	return l.Value.Set(text)
}
