package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writeReference writes all commands as one page of Markdown: docs/CLI.md, which `make golden` makes. Like the manual pages it is made
// from the commands as they are.
func writeReference(to io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString("# Command line\n\nEvery command with its flags, as `--help` says them. This page is made from the commands: " +
		"`quern man --markdown` prints that of a build, and `make golden` writes it here.\n\n```\n" + exitCodesHelp +
		"\n```\n\n## Flags for the server\n\nEvery command that talks to a server takes these.\n\n")
	shared := sharedFlags()
	shared.VisitAll(func(f *pflag.Flag) { referenceFlag(&b, f) })
	for _, c := range pagesBelow(root) {
		referenceCommand(&b, c, shared, 2)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// sharedFlags are those by which a command finds its server and queue.
func sharedFlags() *pflag.FlagSet {
	c := &cobra.Command{}
	new(app).queueFlags(c)
	return c.Flags()
}

// referenceCommand writes one command, and those below it a level deeper.
func referenceCommand(b *strings.Builder, c *cobra.Command, shared *pflag.FlagSet, level int) {
	fmt.Fprintf(b, "\n%s %s\n\n", strings.Repeat("#", level), c.CommandPath())
	for paragraph := range strings.SplitSeq(cmp.Or(c.Long, c.Short), "\n\n") {
		if strings.Contains(paragraph, "  ") || strings.HasPrefix(paragraph, "\t") { // columns, or what is to be typed
			fmt.Fprintf(b, "```\n%s\n```\n\n", strings.ReplaceAll(paragraph, "\t", ""))
		} else {
			fmt.Fprintf(b, "%s\n\n", plainMarkdown(paragraph))
		}
	}
	if c.Runnable() {
		fmt.Fprintf(b, "```\n%s\n```\n", c.UseLine())
	}
	if c.HasExample() {
		fmt.Fprintf(b, "\nFor example:\n\n```\n%s\n```\n", unindent(c.Example))
	}
	var own []*pflag.Flag
	server := false
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if same := shared.Lookup(f.Name); same != nil && same.Usage == f.Usage {
			server = true
		} else if !f.Hidden && f.Name != "help" {
			own = append(own, f)
		}
	})
	if len(own) > 0 {
		b.WriteString("\n")
	}
	for _, f := range own {
		referenceFlag(b, f)
	}
	if server {
		b.WriteString("\nAnd the [flags for the server](#flags-for-the-server)")
		if c.Flags().Lookup("queue") == nil {
			b.WriteString(", but for `--queue`")
		}
		b.WriteString(".\n")
	}
	for _, sub := range pagesBelow(c) {
		referenceCommand(b, sub, shared, min(level+1, 4))
	}
}

// referenceFlag says of a flag what --help says.
func referenceFlag(b *strings.Builder, f *pflag.Flag) {
	alone := pflag.NewFlagSet("", pflag.ContinueOnError)
	alone.AddFlag(f)
	name, usage, _ := strings.Cut(strings.TrimSpace(alone.FlagUsages()), "   ")
	fmt.Fprintf(b, "- `%s`: %s\n", name, plainMarkdown(strings.Join(strings.Fields(usage), " ")))
}

// plainMarkdown is text as Markdown that shows it as it is.
func plainMarkdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "`", "\\`", "[", `\[`, "#", `\#`).Replace(text)
}

// unindent takes the two spaces from the lines of an example.
func unindent(text string) string {
	lines := slices.Collect(strings.Lines(text))
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.TrimRight(strings.Join(lines, ""), "\n")
}

// configExampleCommand prints a configuration file to begin with. It is made from the options themselves, so that it has all of them.
func configExampleCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "example", Short: "Print a configuration file with every option at its default, as a comment", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return writeExample(a.out) },
	}
}

func writeExample(w io.Writer) error {
	var text strings.Builder
	text.WriteString("# Options of quern serve, each at its default. Take the # away from what you change.\n" +
		"# A flag wins over the environment (QUERN_ and the name in capitals), and that over this file.\n")
	for _, o := range options() {
		value := o.value
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(&text, "\n# %s\n# It may be %s.\n# %s: %s\n", strings.ToUpper(o.help[:1])+o.help[1:]+".", o.limit, o.key(), value)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
