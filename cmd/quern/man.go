package main

import (
	"cmp"
	"fmt"
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
