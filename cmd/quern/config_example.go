package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

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
