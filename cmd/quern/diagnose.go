package main

import (
	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// diagnoseCommand says why a value or a submission moves or does not.
func diagnoseCommand(a *app) *cobra.Command {
	return a.queueCommand(&cobra.Command{
		Use:   "diagnose [ID | KEY VALUE]",
		Short: "Explain why the chunks of a queue, a submission, or a value of a meta key move or not",
		Long: "Explain in one sentence why the chunks of a submission, or of a value of a meta key, move or not, and list the " +
			"causes. The answer\n" +
			"considers rules, limits, and the strategies of reserves in the last hour. Without arguments, it is about the queue, from\n" +
			"counters.\n" +
			"Write VALUE as for --meta: 123 is the integer, s:123 the text.",
		Example: "  quern diagnose company 7",
		Args:    cobra.RangeArgs(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return withSubmission(a, args[0], func(c *client.Client, id string) error {
					d, err := c.DiagnoseSubmission(cmd.Context(), id)
					return printLaidOut(a, d, err, printDiagnosis)
				})
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			args = append(args, "", "")
			d, err := c.DiagnoseValue(cmd.Context(), a.queueName(), args[0], parseMetaValue(args[1]))
			return printLaidOut(a, d, err, printDiagnosis)
		},
	})
}

func printDiagnosis(a *app, d *api.Diagnosis) error {
	say(a.out, "%s\n\n", d.Sentence)
	return printList(a, d.Causes, []string{"CAUSE", "CHUNKS", "SUBMISSIONS", "DETAIL"}, func(c api.Cause) []string {
		return []string{c.Kind, number(c.Chunks), number(c.Submissions), c.Detail}
	})
}
