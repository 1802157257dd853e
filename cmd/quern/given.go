package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// emptyMeans are the flags whose empty text means something. All others are most often a variable of a shell that is not set: taken for
// "not given", it would be a filter that keeps everything, or a token for all queues.
var emptyMeans = []string{
	"attachment", "error", "output-text", "reason", // a text of no bytes
	"dead-letter-queue", // none any more
}

// namesFiles are the flags whose values name files, which may be any bytes.
var namesFiles = []string{
	"client-cert", "client-key", "config", "data", "file", "jsonl", "manifest", "out", "rows", "sdk", "server-ca", "since", "to",
	"token-file", "work",
}

// checkGiven refuses flags that were given empty, and text that JSON cannot carry: it would reach the server changed.
func checkGiven(c *cobra.Command, args []string) (err error) {
	asks := c.Flags().Lookup("server") != nil
	serves := c.Flags().Lookup("fold-bytes") != nil // options say themselves what they mean when they are empty
	c.Flags().Visit(func(f *pflag.Flag) {
		text := f.Value.String()
		slice, many := f.Value.(pflag.SliceValue)
		empty := text == "" && f.NoOptDefVal == "" || many && len(slice.GetSlice()) == 0 // not a switch
		switch {
		case err != nil:
		case empty && (!serves || f.Name == "config") && !slices.Contains(emptyMeans, f.Name):
			err = fmt.Errorf("--%s is empty: give it a value, or leave it out", f.Name)
		case many && asks:
			err = checkText("--"+f.Name, slice.GetSlice()...)
		case asks && !slices.Contains(namesFiles, f.Name):
			err = checkText("--"+f.Name, text)
		}
	})
	if err != nil || !asks || strings.Contains(c.Use, "FILE") || strings.Contains(c.Use, "COMMAND") {
		return err
	}
	return checkText("the argument", args...)
}

func checkText(of string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%s %q is not UTF-8: the server takes text as UTF-8", of, text)
		}
	}
	return nil
}
