package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/cmd/quern/top"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/terminal"
)

// The values of --output.
const (
	formatTable = "table" // for people; its layout may change
	formatJSON  = "json"  // one indented JSON value
	formatJSONL = "jsonl" // one JSON value a line
	formatRaw   = "raw"   // bytes as they are
)

// formatFlag adds --output with the formats that the command knows, else table, json and jsonl; the first is its default.
func (a *app) formatFlag(c *cobra.Command, formats ...string) {
	if formats == nil {
		formats = []string{formatTable, formatJSON, formatJSONL}
	}
	c.Flags().VarP(&formatValue{to: &a.format, allowed: formats}, "output", "o", "how to print: "+strings.Join(formats, ", "))
	before := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		a.format = cmp.Or(a.format, formats[0])
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// formatValue is a flag that takes one of a few words.
type formatValue struct {
	to      *string
	allowed []string
}

func (v *formatValue) String() string {
	if v.to == nil || *v.to == "" {
		if len(v.allowed) == 0 {
			return ""
		}
		return v.allowed[0]
	}
	return *v.to
}

func (v *formatValue) Type() string { return "format" }

func (v *formatValue) Set(text string) error {
	if !slices.Contains(v.allowed, text) {
		return fmt.Errorf("must be one of %s", strings.Join(v.allowed, ", "))
	}
	*v.to = text
	return nil
}

// printOne prints a single value: as lines "name  value", or as JSON.
func printOne[T any](a *app, value T, fields func(T) [][2]string) error {
	switch a.format {
	case formatJSON:
		return printJSON(a.out, value, "  ")
	case formatJSONL:
		return printJSON(a.out, value, "")
	}
	w := newTable(a.out)
	for _, field := range fields(value) {
		say(w, "%s\t%s\n", field[0], field[1])
	}
	return w.Flush()
}

// present is those of the fields that have a value.
func present(fields [][2]string) [][2]string {
	return slices.DeleteFunc(fields, func(field [2]string) bool { return field[1] == "" })
}

// printAnswer prints what a server answered, or returns the error that came in its place.
func printAnswer[T any](a *app, answer *T, err error, fields func(T) [][2]string) error {
	if err != nil {
		return err
	}
	return printOne(a, *answer, fields)
}

// printLaidOut prints what a server answered as JSON, or for people as layout does, or returns the error that came in its place.
func printLaidOut[T any](a *app, answer *T, err error, layout func(*app, *T) error) error {
	switch {
	case err != nil:
		return err
	case a.format != formatTable:
		return printOne(a, *answer, nil)
	}
	return layout(a, answer)
}

// printAll prints what a server lists, as printList does, when all of it is there.
func printAll[T any](a *app, list iter.Seq2[T, error], header []string, row func(T) []string) error {
	return printFirst(a, list, limited{}, header, row)
}

// printFirst prints as many values of a list as --limit lets it, as printList does, and says when there are more.
func printFirst[T any](a *app, list iter.Seq2[T, error], limit limited, header []string, row func(T) []string) error {
	first, err := collect(list, limit.ask())
	if err != nil {
		return err
	}
	more := limit.most > 0 && len(first) > limit.most
	if more {
		first = first[:limit.most]
	}
	if err := printList(a, first, header, row); err != nil || !more {
		return err
	}
	return limit.sayMore(a)
}

// collect takes at most this many values of a list; 0: all.
func collect[T any](list iter.Seq2[T, error], most int) (first []T, err error) {
	for value, err := range list {
		if err != nil {
			return nil, err
		}
		if first = append(first, value); len(first) == most {
			break
		}
	}
	return first, nil
}

// printList prints values of one kind: as a table, one JSON array, or one JSON value a line.
func printList[T any](a *app, values []T, header []string, row func(T) []string) error {
	switch a.format {
	case formatJSON:
		if values == nil {
			values = []T{} // an empty list is [], not null
		}
		return printJSON(a.out, values, "  ")
	case formatJSONL:
		for _, value := range values {
			if err := printJSON(a.out, value, ""); err != nil {
				return err
			}
		}
		return nil
	}
	w := newTable(a.out)
	sayRow(w, header)
	for _, value := range values {
		sayRow(w, row(value))
	}
	return w.Flush()
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 8, 2, ' ', 0) }

// say prints by a format, as fmt.Fprintf does. The texts among args may come from outside: they are printed so that they cannot steer
// the terminal or look like another line. All that commands print for people is printed here.
func say(w io.Writer, format string, args ...any) error {
	for i, arg := range args {
		switch v := arg.(type) {
		case lines:
			args[i] = terminal.Lines(string(v))
		case string:
			args[i] = terminal.Text(v)
		case error:
			args[i] = terminal.Lines(v.Error())
		case fmt.Stringer:
			args[i] = terminal.Text(v.String())
		}
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// lines is a text that say prints on as many lines as it has.
type lines string

// maxRepeats is about the width of a terminal.
const maxRepeats = 80

// times is strings.Repeat for a number that a server names, which may be any.
func times(text string, n int) string { return strings.Repeat(text, min(max(n, 0), maxRepeats)) }

// sayRow prints the cells of a row of a table.
func sayRow(w io.Writer, cells []string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = terminal.Text(cell)
	}
	fmt.Fprintln(w, strings.Join(shown, "\t")) // a table keeps its error until Flush
}

// several is a number of things: "1 chunk", "2 chunks".
func several[N ~int | ~int64 | ~uint32 | ~uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// raw is where bytes go: to stdout as they are, unless it is a terminal.
func (a *app) raw() io.Writer {
	if isTerminal(a.out) {
		return terminal.Writer{To: a.out}
	}
	return a.out
}

// printJSON writes one value and a newline. Nothing is escaped for HTML: this goes to terminals and to scripts.
func printJSON(w io.Writer, value any, indent string) error {
	var encoded strings.Builder
	enc := json.NewEncoder(&encoded)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, terminal.JSON(encoded.String()))
	return err
}

// limited is how much of a list is printed: --limit and --all. Its zero value is everything.
type limited struct {
	most  int           // 0: all
	total func() uint64 // how many there are; 0: unknown. nil: nothing counts them
	least bool          // total counts only some of them
}

// flags adds --limit, with its default, and --all.
func (l *limited) flags(c *cobra.Command, most int, what string) {
	c.Flags().IntVarP(&l.most, "limit", "n", most, "at most this many "+what+" (0: all)")
	c.Flags().BoolFunc("all", "list all "+what+", like --limit 0", func(string) error {
		l.most = 0
		return nil
	})
	c.MarkFlagsMutuallyExclusive("limit", "all")
	before := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if l.most < 0 {
			return fmt.Errorf("--limit is %d; it must not be negative", l.most)
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// ask is how many values to ask for, 0 for all: one more than are printed, to know whether there are more.
func (l limited) ask() int {
	if l.most == 0 {
		return 0
	}
	return l.most + 1
}

// page is how many values to ask for at once.
func (l limited) page() int { return min(cmp.Or(l.ask(), queue.MaxListLimit), queue.MaxListLimit) }

// sayMore says that more could be printed.
func (l limited) sayMore(a *app) error {
	total := uint64(0)
	if l.total != nil {
		total = l.total()
	}
	switch {
	case total <= uint64(l.most): // not known, or of another moment
		return say(a.err, "quern: these are the first %d; --all shows all\n", l.most)
	case l.least:
		return say(a.err, "quern: these are %d of at least %s; --all shows all\n", l.most, top.Thousands(total))
	}
	return say(a.err, "quern: these are %d of %s; --all shows all\n", l.most, top.Thousands(total))
}

// counted is the total of a list that one of the queue's numbers counts.
func (a *app) counted(ctx context.Context, c *client.Client, count func(*api.Stats) uint64) func() uint64 {
	return func() uint64 {
		s, err := c.Stats(ctx, a.queueName())
		if err != nil {
			return 0 // the list was printed; only its length is not known
		}
		return count(s)
	}
}
