package main

import (
	"context"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/client"
)

// resource is a kind of thing that a server or a queue has several of, such as tokens or rules. It is declared once: its commands, the call
// that each makes, and how it is printed. The cobra commands, their help and their completion follow from it.
type resource[T any] struct {
	parent  string                      // the name of the command that its commands stand below
	word    string                      // the argument that names one, in their usage
	ofQueue bool                        // a queue has it; else the server
	header  []string                    // of a list
	row     func(T) []string            // of a list
	fields  func(T) [][2]string         // of one
	offer   func(T) (word, note string) // at a Tab for that word

	list   action[all[T]]
	limit  *limited     // how much of the list is printed; nil: all
	one    []action[*T] // that show it, or change it and show it as it is then
	remove action[none]
}

// all is the answer of a list. none is that of a command that prints nothing.
type (
	all[T any] = iter.Seq2[T, error]
	none       = struct{}
)

// listed are all of a list that is there.
func listed[T any](list []T) all[T] {
	return func(yield func(T, error) bool) {
		for _, one := range list {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// action is a command with its call, which returns A. If an argument may be repeated, each one is a call of its own.
type action[A any] struct {
	use, short string
	ask        func(context.Context, call) (A, error)
	more       func(*cobra.Command) // adds flags and a longer text; nil: there are none
	options    []client.Option
}

// call has the server, the queue and the arguments of a call.
type call struct {
	*client.Client
	queue string
	args  []string
}

func does[A any](use, short string, ask func(context.Context, call) (A, error)) action[A] {
	return action[A]{use: use, short: short, ask: ask}
}

// with is the action with flags of its own, or a longer text.
func (x action[A]) with(more func(*cobra.Command)) action[A] {
	x.more = more
	return x
}

// commands makes the commands of a resource.
func (r *resource[T]) commands(a *app) (list []*cobra.Command) {
	if r.list.use != "" {
		list = append(list, commandOf(a, r.ofQueue, true, r.list, func(of all[T]) error {
			if r.limit == nil {
				return printAll(a, of, r.header, r.row)
			}
			return printFirst(a, of, *r.limit, r.header, r.row)
		}))
	}
	for _, x := range r.one {
		list = append(list, commandOf(a, r.ofQueue, true, x, func(one *T) error { return printOne(a, *one, r.fields) }))
	}
	if r.remove.use != "" {
		list = append(list, commandOf(a, r.ofQueue, false, r.remove, func(none) error { return nil }))
	}
	if r.offer != nil {
		a.offered[r.parent+" "+r.word] = func(ctx context.Context, c *client.Client, queue string, before []string) all[string] {
			of, err := r.list.ask(ctx, call{c, queue, before})
			if err != nil {
				return listed[string](nil)
			}
			return offers(of, r.offer)
		}
	}
	return list
}

// extend lets a command act as another one of its name when it is given the arguments of that one.
func extend(list, by []*cobra.Command) {
	for _, other := range by {
		at := slices.IndexFunc(list, func(c *cobra.Command) bool { return c.Name() == other.Name() })
		run := list[at].RunE
		list[at].RunE = func(cmd *cobra.Command, args []string) error {
			if other.Args(cmd, args) == nil {
				return other.RunE(cmd, args)
			}
			return run(cmd, args)
		}
	}
}

// commandOf makes the command of an action; print prints the answer, in the format that the command line asks for.
func commandOf[A any](a *app, ofQueue, printed bool, x action[A], print func(A) error) *cobra.Command {
	least, most := argumentsIn(x.use)
	do := func(ctx context.Context, c *client.Client, args []string) error {
		answer, err := x.ask(ctx, call{c, a.queueName(), args})
		if err != nil {
			return err
		}
		return print(answer)
	}
	c := &cobra.Command{Use: x.use, Short: x.short, Args: countOf(least, most), RunE: a.asking(do, x.options...)}
	if most == math.MaxInt {
		c.RunE = a.each(func(ctx context.Context, c *client.Client, arg string) error { return do(ctx, c, []string{arg}) })
	}
	if ofQueue {
		a.queueFlags(c)
	} else {
		a.clientFlags(c)
	}
	if printed {
		a.formatFlag(c)
	}
	if x.more != nil {
		x.more(c)
	}
	return c
}

// argumentsIn is how many arguments a command takes, by its usage.
func argumentsIn(use string) (least, most int) {
	use, _, _ = strings.Cut(use, "--")
	for _, word := range strings.Fields(use)[1:] {
		most++
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "...") {
			most = math.MaxInt
		}
	}
	return least, most
}

func countOf(least, most int) cobra.PositionalArgs {
	switch {
	case most == 0:
		return cobra.NoArgs
	case most == math.MaxInt:
		return cobra.MinimumNArgs(least)
	case least == most:
		return cobra.ExactArgs(most)
	case least == 0:
		return cobra.MaximumNArgs(most)
	}
	return cobra.RangeArgs(least, most)
}
