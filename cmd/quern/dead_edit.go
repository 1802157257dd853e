package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// deadEditCommand gives a dead letter another content.
func deadEditCommand(a *app) *cobra.Command {
	var path string
	c := a.queueCommand(&cobra.Command{
		Use:   "edit ID/INDEX",
		Short: "Replace the inline content of a dead letter, before you redrive it",
		Long: "Give a dead letter the content of a file, or of the standard input. `quern dead get -o json` shows the present one. The\n" +
			"chunk stays dead: redrive or forward it afterwards.",
		Example: "  quern dead edit 7130316829368545284/12 --file fixed.json",
		Args:    cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			id, index, err := parseChunk(args[0])
			if err != nil {
				return err
			}
			in := a.in
			if path != "-" {
				file, err := os.Open(path)
				if err != nil {
					return usageError{err}
				}
				defer file.Close()
				in = file
			}
			content, err := io.ReadAll(io.LimitReader(in, queue.MaxReplacedContent+1)) // the server refuses one more
			if err != nil {
				return err
			}
			_, err = c.SetDeadLetterContent(ctx, a.queueName(), id, index, append(api.Bytes{}, content...))
			return err
		}),
	})
	c.Flags().StringVar(&path, "file", "-", "the file with the content; -: the standard input")
	return c
}
