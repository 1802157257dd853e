package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages. They are made from the commands as they are, as `--help` is, so that no page can be out of date.
// cobra has a generator of its own, which would bring two modules that read Markdown.
func manCommand(a *app) *cobra.Command {
	markdown := false
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page per command into a directory",
		Long: "Write a manual page per command (quern.1, quern-submit.1 and so on) into a directory, and create it if it is " +
			"missing.\n\n" +
			"On most systems, man looks for them in /usr/local/share/man/man1.",
		Example: "  quern man ./man1 && man ./man1/quern-submit.1",
		Args: func(cmd *cobra.Command, args []string) error {
			if markdown {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if markdown {
				return writeReference(a.out, cmd.Root())
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			written, err := writeManPages(args[0], cmd.Root())
			if err == nil {
				err = say(a.out, "%s in %s\n", several(written, "page"), args[0])
			}
			return err
		},
	}
	c.Flags().BoolVar(&markdown, "markdown", false, "print all commands as one page of Markdown instead, without DIR")
	return c
}

func writeManPages(dir string, c *cobra.Command) (written int, err error) {
	if err := os.WriteFile(filepath.Join(dir, pageName(c)+".1"), manPage(c), 0o644); err != nil {
		return 0, err
	}
	written = 1
	for _, sub := range pagesBelow(c) {
		n, err := writeManPages(dir, sub)
		if err != nil {
			return 0, err
		}
		written += n
	}
	return written, nil
}

// pagesBelow are the commands below c that have a page. One that is there only to show help has none.
func pagesBelow(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return sub.Hidden || sub.Name() == "help" })
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is the page of one command, in the macros of man(7). It has no date: the same binary writes the same bytes.
func manPage(c *cobra.Command) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"Quern\"\n", strings.ToUpper(pageName(c)), "quern "+thisVersion().Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n\\fB%s\\fR\n.fi\n", roff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	manParagraphs(&b, cmp.Or(c.Long, c.Short))
	if below := pagesBelow(c); len(below) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range below {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString(".SH OPTIONS\n")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
	}
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", roff(pageName(c.Parent())))
	}
	return []byte(b.String())
}

// manFlag says of a flag what --help says.
func manFlag(b *strings.Builder, f *pflag.Flag) {
	alone := pflag.NewFlagSet("", pflag.ContinueOnError)
	alone.AddFlag(f)
	if name, usage, ok := strings.Cut(strings.TrimSpace(alone.FlagUsages()), "   "); ok { // a hidden flag has no usage
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(strings.TrimSpace(usage)))
	}
}

// manParagraphs writes text whose paragraphs have empty lines between them. One with columns, or indented, keeps its lines.
func manParagraphs(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains(paragraph, "  ") {
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(paragraph))
		} else {
			fmt.Fprintf(b, ".PP\n%s\n", roff(paragraph))
		}
	}
}

// roff is text as it has to be written so that it is shown as it is: no line is a request, no hyphen becomes another character.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'", "'", `\(aq`, "`", `\(ga`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// writeReference writes all commands as one page of Markdown: docs/CLI.md, which `make golden` makes. Like the manual pages it is made
// from the commands as they are.
func writeReference(to io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString("# Command line\n\nThis page has every command with its flags, as `--help` prints them. `make golden` writes it; " +
		"`quern man --markdown` prints the page of your build.\n\n```\n" + exitCodesHelp +
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
