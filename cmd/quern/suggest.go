package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
	c.SetFlagErrorFunc(unknownFlag)
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

// unknownFlag adds to an error about an unknown flag what it resembles.
func unknownFlag(c *cobra.Command, err error) error {
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
