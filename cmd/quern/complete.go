package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
	"github.com/quern-queue/quern/sdk/terminal"
)

// `quern completion SHELL` prints a script that asks this binary at every Tab. Names and ids come from the server that the command line
// names, within the bounds below: a person who presses Tab does not wait for a server that does not answer.
const (
	completeWithin = 2 * time.Second
	completeMost   = 100 // names or ids that are offered
)

// lister lists the values that an argument may have, each with a note behind a tab. before are the arguments that stand before it.
type lister func(ctx context.Context, c *client.Client, queue string, before []string) iter.Seq2[string, error]

// argumentLists has the lister of each argument, by the words for its command's parent and for itself. It includes the listers of the
// resources.
func argumentLists(resources map[string]lister) map[string]lister {
	lists := map[string]lister{
		"quern ID":         submissions,
		"quern SUBMISSION": submissions,
		"quern KEY":        resources["keys KEY"],
		"quern VALUE":      resources["keys VALUE"],
		"quern LEDGER":     ofQueue((*client.Client).Ledgers, func(l api.Ledger) (string, string) { return l.ID, l.Branch }),
		"quern ID/INDEX":   held,
		"quern QUEUE":      resources["queue NAME"],
		"quern NODE":       nodeNames,
	}
	maps.Copy(lists, resources)
	return lists
}

// flagLists has the listers of flags' values, except of --output and of flags whose help has their words between bars.
func flagLists(resources map[string]lister) map[string]lister {
	return map[string]lister{
		"queue":             resources["queue NAME"],
		"dead-letter-queue": resources["queue NAME"],
		"submission":        submissions,
		"schedule":          resources["schedules NAME"],
		"state":             words(queue.SubmissionStateNames()...),
		"log-level":         words("debug", "info", "warn", "error"),
		"log-format":        words("text", "json"),
		"outcome":           words("ok", "refused"),
		"lang":              words(pluginLanguages...),
		"scopes":            words(access.Names()...),
	}
}

var (
	submissions = ofQueue(func(c *client.Client, ctx context.Context, queue string) iter.Seq2[api.Submission, error] {
		return c.List(ctx, queue, client.ListOptions{Limit: completeMost})
	}, func(s api.Submission) (string, string) { return s.ID, s.State + " " + metaLine(s.Meta) })

	held = ofQueue(func(c *client.Client, ctx context.Context, queue string) iter.Seq2[api.HeldReservation, error] {
		return c.Reservations(ctx, queue, api.HeldFilter{Limit: completeMost})
	}, func(h api.HeldReservation) (string, string) {
		return fmt.Sprintf("%s/%d", h.Submission, h.Index), h.Consumer
	})
)

// nodeNames are the names of the nodes of a cluster.
func nodeNames(ctx context.Context, c *client.Client, _ string, _ []string) iter.Seq2[string, error] {
	return offers(c.Nodes(ctx), func(n api.Node) (string, string) { return n.Name, n.URL })
}

// ofQueue is a list that each queue has; an entry has two texts, the value and a note.
func ofQueue[T any](list func(*client.Client, context.Context, string) iter.Seq2[T, error], text func(T) (string, string)) lister {
	return func(ctx context.Context, c *client.Client, queue string, _ []string) iter.Seq2[string, error] {
		return offers(list(c, ctx, queue), text)
	}
}

// words is a list that needs no server.
func words(all ...string) lister {
	return func(context.Context, *client.Client, string, []string) iter.Seq2[string, error] {
		return listed(all)
	}
}

func offers[T any](list iter.Seq2[T, error], text func(T) (string, string)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for item, err := range list {
			value, note := text(item)
			if terminal.Text(value) != value && err == nil {
				continue // it cannot be typed
			}
			if note = strings.Join(strings.Fields(note), " "); note != "" {
				value += "\t" + terminal.Text(note)
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// completions gives all commands and flags below c what they are completed with: arguments and flags have that by their names.
func completions(a *app, c *cobra.Command, arguments, flags map[string]lister) {
	if lists := argumentsOf(c, arguments); len(lists) > 0 && c.ValidArgs == nil {
		c.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			var found []string
			for _, list := range lists[min(len(args), len(lists)-1)] {
				found = append(found, complete(cmd.Context(), a, list, args, begun)...)
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		}
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		list := flags[f.Name]
		switch v := f.Value.(type) {
		case *formatValue:
			list = words(v.allowed...)
		case *formed:
			if strings.Contains(v.form, "|") {
				list = words(strings.Split(v.form, "|")...)
			}
		}
		if list == nil {
			return
		}
		offer := func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd.Context(), a, list, args, begun), cobra.ShellCompDirectiveNoFileComp
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, offer); err != nil {
			panic(err) // the flag is there, and is registered once
		}
	})
	for _, sub := range c.Commands() {
		completions(a, sub, arguments, flags)
	}
}

// argumentsOf has the lists for the arguments of a command, by their positions in its usage: "diagnose ID | KEY VALUE" takes an ID or a
// KEY first. A last argument that may be repeated stands for those behind it; others have an empty list behind them.
func argumentsOf(c *cobra.Command, known map[string]lister) (lists [][]lister) {
	if !c.HasParent() || c.CommandPath() == "quern plugin new" { // whose name is not there yet
		return nil
	}
	_, usage, _ := strings.Cut(c.Use, " ")
	usage, _, _ = strings.Cut(usage, "--")
	found, repeated := false, strings.Contains(usage, "...")
	for alternative := range strings.SplitSeq(usage, "|") {
		for i, word := range strings.Fields(alternative) {
			if i == len(lists) {
				lists = append(lists, nil)
			}
			if list := known[c.Parent().Name()+" "+strings.Trim(word, "[].")]; list != nil {
				lists[i], found = append(lists[i], list), true
			}
		}
	}
	switch {
	case !found:
		return nil // files, as the shell does it
	case !repeated:
		lists = append(lists, nil)
	}
	return lists
}

// complete returns the entries of the list that begin with the typed text. Errors are silent: the person is in the middle of a line.
func complete(ctx context.Context, a *app, list lister, before []string, begun string) (found []string) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	c, err := a.client(client.WithRetries(0))
	if err != nil {
		return nil
	}
	for value, err := range list(ctx, c, a.queueName(), before) {
		if err != nil || len(found) == completeMost {
			break
		}
		if strings.HasPrefix(value, begun) {
			found = append(found, value)
		}
	}
	return found
}

// otherNames are words that people bring from other queue servers and tools, with the command that they mean.
var otherNames = map[string][]string{
	"submit":   {"insert", "enqueue", "push", "produce", "add"},
	"work":     {"worker", "consume", "run"},
	"reserve":  {"dequeue", "pop", "claim", "lease"},
	"complete": {"ack", "finish", "done"},
	"fail":     {"nack", "reject"},
	"extend":   {"heartbeat", "touch"},
	"get":      {"show", "describe"},
	"list":     {"ls"},
	"stats":    {"status", "info"},
	"outputs":  {"result", "results", "output"},
	"dead":     {"dlq", "dead-letters"},
	"rules":    {"pause", "block", "resume"},
	"serve":    {"server", "start"},
}

// suggest makes a command that only has commands below it name those that an unknown one resembles, and one with arguments
// of its own say how it is used when they do not fit.
func suggest(c *cobra.Command) {
	c.SuggestFor = otherNames[c.Name()]
	switch check := c.Args; {
	case check == nil:
	case c.HasSubCommands() && check(c, []string{"x"}) != nil:
		c.Args = knownCommand
	case c.HasParent():
		c.Args = func(c *cobra.Command, args []string) error { return usedAs(c, check, args) }
	}
	c.SetFlagErrorFunc(wrongFlag)
	for _, sub := range c.Commands() {
		suggest(sub)
	}
}

// usedAs checks arguments, and adds how the command is used to an error about them, whose text cobra words by their number alone.
func usedAs(c *cobra.Command, check cobra.PositionalArgs, args []string) error {
	err := check(c, args)
	use := strings.TrimSuffix(c.UseLine(), " [flags]")
	switch {
	case err == nil:
		return nil
	case !c.Runnable() || !strings.Contains(err.Error(), "arg(s)") && !strings.HasPrefix(err.Error(), "unknown command"):
		return err
	case check(c, append(slices.Clone(args), "x")) == nil:
		return fmt.Errorf("an argument is missing: %s", use)
	case check(c, append(slices.Clone(args), "x", "x")) == nil:
		return fmt.Errorf("2 arguments are missing: %s", use)
	}
	return fmt.Errorf("%s too many: %s", several(len(args)-most(c, check, args), "argument"), use)
}

// most is how many of the arguments the command takes.
func most(c *cobra.Command, check cobra.PositionalArgs, args []string) int {
	for n := len(args) - 1; n > 0; n-- {
		if check(c, args[:n]) == nil {
			return n
		}
	}
	return 0
}

// flagValues says what the values of flags are, by their types. The library has Go's words for a wrong one.
var flagValues = map[string]string{
	"bool": "true or false", "duration": "a duration such as 90s, 15m or 2h", "float64": "a number",
	"int": "a whole number of at most 63 bits", "uint8": "a whole number from 0 to 255",
	"uint32": "a whole number from 0 to 4294967295", "uint64": "a whole number from 0 on, of at most 64 bits",
}

// wrongFlag says what a flag's value has to be, and adds to an error about an unknown flag what it resembles.
func wrongFlag(c *cobra.Command, err error) error {
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		name, value, cause := wrong.GetFlag().Name, wrong.GetValue(), wrong.Unwrap()
		foreign := errors.As(cause, new(*strconv.NumError)) || strings.HasPrefix(cause.Error(), "time: ")
		if foreign {
			return fmt.Errorf("--%s is %q; it must be %s", name, value,
				cmp.Or(flagValues[wrong.GetFlag().Value.Type()], flagValues["int"]))
		}
		return fmt.Errorf("--%s is %q: %w", name, value, cause)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	name := unknown.GetSpecifiedName()
	// Cobra finds near names among commands only: the flags are given to it as such.
	flags := &cobra.Command{SuggestionsMinimumDistance: min(len(name)/3, 2)}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Hidden: f.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	if like := flags.SuggestionsFor(name); len(like) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(like, " or --"))
	}
	return err
}

func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
	c.SuggestionsMinimumDistance = min(len(args[0])/3, 2) // letters that may differ: any short word is near to some other
	like := meant(c, args[0])
	if len(like) == 0 {
		like = c.SuggestionsFor(args[0])
	}
	if len(like) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(like, " or "))
	}
	return errors.New(text)
}

// meant are the commands that a word from elsewhere stands for, whatever it resembles besides.
func meant(c *cobra.Command, word string) (names []string) {
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			names = append(names, sub.Name())
		}
	}
	return names
}
