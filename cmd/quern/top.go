package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/cmd/quern/top"
	"github.com/quern-queue/quern/sdk/client"
)

// topCommand shows a queue in the terminal, live, or once where there is no terminal.
func topCommand(a *app) *cobra.Command {
	var (
		every time.Duration
		once  bool
	)
	c := &cobra.Command{
		Use: "top", Short: "Show a queue live in the terminal", Args: cobra.NoArgs,
		Long: "Show a queue live in the terminal: backlog, rates, rules, and for each value of a meta key the chunks in flight and " +
			"the limit. Without a\n" +
			"terminal, or with --once, print the screen once, after measuring the rates.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return usageError{fmt.Errorf("--every is %s; it must be from 100ms to 1h", every)}
			}
			c, err := a.client(client.WithRetries(0), client.WithCallTimeout(max(every, 5*time.Second)))
			if err != nil {
				return err
			}
			screen := top.Screen{Queue: a.queueName(), Server: a.serverURL(), Every: every, Width: 80, Height: 24}
			read := top.Of(c, a.queueName())
			if once || !isTerminal(a.out) || !isTerminal(a.in) {
				return topOnce(cmd.Context(), a.out, read, screen)
			}
			if _, err := read(cmd.Context(), top.Ask{}); err != nil {
				return err // there is no such queue, or no server: say so where it can be read and copied
			}
			_, err = tea.NewProgram(top.New(cmd.Context(), read, screen), tea.WithContext(cmd.Context()), tea.WithInput(a.in),
				tea.WithOutput(a.out), tea.WithEnvironment(a.env())).Run()
			if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
				return nil // being interrupted is how this command ends
			}
			return err
		},
	}
	a.queueFlags(c)
	c.Flags().DurationVar(&every, "every", 2*time.Second, "how often to refresh, 100ms to 1h")
	c.Flags().BoolVar(&once, "once", false, "print the screen once")
	return c
}

// topOnce looks twice, a second apart, and prints what it saw. All values are there: a file has no end of a screen.
func topOnce(ctx context.Context, out io.Writer, read top.Reader, screen top.Screen) error {
	var err error
	if screen.Before, err = read(ctx, top.Ask{}); err != nil {
		return err
	}
	select {
	case <-time.After(min(screen.Every, time.Second)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if screen.Now, err = read(ctx, top.Ask{}); err != nil {
		return err
	}
	screen.At = screen.Now.At
	screen.Height = len(screen.Now.Values) + 12
	_, err = io.WriteString(out, screen.Once())
	return err
}
