package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/sdk/api"
)

var (
	shellCall = regexp.MustCompile(`\bquern\(('(?:(?:, )?[^,()]+(?:\([^()]*\))?)*)`) // one that begins with a literal
	written   = regexp.MustCompile(`"quern ([^"]+)"`)
	oneWord   = regexp.MustCompile(`^'([^']*)'$`)
)

// The dashboard offers valid command lines to copy: the commands and flags in its sources exist.
func TestDashboardCopiesRealCommands(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../web/dashboard/src/pages/*.tsx")
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob("../../web/dashboard/src/*.ts*")
	lines := 0
	for _, name := range append(files, more...) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range shellCall.FindAllStringSubmatch(string(source), -1) {
			checkCommandLine(t, name, found[0], wordsOf(found[1]))
			lines++
		}
		for _, found := range written.FindAllStringSubmatch(string(source), -1) {
			checkCommandLine(t, name, found[0], strings.Fields(found[1]))
			lines++
		}
	}
	if lines < 40 {
		t.Errorf("%d command lines were found in the dashboard's sources; the pattern finds too little", lines)
	}
}

// wordsOf are the arguments of a call of shell(): those that are no literals become "".
func wordsOf(arguments string) (words []string) {
	for argument := range strings.SplitSeq(arguments, ", ") {
		if argument == "" {
			continue
		}
		word := ""
		if found := oneWord.FindStringSubmatch(argument); found != nil {
			word = found[1]
		}
		words = append(words, word)
	}
	return words
}

func checkCommandLine(t *testing.T, file, line string, words []string) {
	t.Helper()
	root := (&app{}).newRoot()
	path := words
	for i, word := range words {
		if word == "" || strings.HasPrefix(word, "-") {
			path = words[:i]
			break
		}
	}
	command, rest, err := root.Find(path)
	if err != nil || command == root || len(rest) > 0 && command.HasSubCommands() {
		t.Errorf("%s: %s: there is no such command (%v)", file, line, err)
		return
	}
	for _, word := range words {
		if word == "--" {
			return
		}
		if name, is := strings.CutPrefix(word, "--"); is && !flagged(command, name) {
			t.Errorf("%s: %s: %q has no flag --%s", file, line, command.CommandPath(), name)
		}
	}
}

// flagged says whether a command has a flag; of one that only has others below it, one of those, as the page chooses among them.
func flagged(c *cobra.Command, name string) bool {
	return c.Flags().Lookup(name) != nil || c.InheritedFlags().Lookup(name) != nil ||
		slices.ContainsFunc(c.Commands(), func(below *cobra.Command) bool { return flagged(below, name) })
}

// Each setting of a queue has a flag whose name follows from it, as the dashboard assumes.
func TestQueueSettingsHaveFlags(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(api.QueueSettings{DeadLetterQueue: "x"})
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	command, _, err := (&app{}).newRoot().Find([]string{"queue", "set"})
	if err != nil {
		t.Fatal(err)
	}
	for name := range settings {
		flag := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(name, "_ms"), "_seconds"), "_", "-")
		if command.Flags().Lookup(flag) == nil {
			t.Errorf("the setting %s has no flag --%s in quern queue set", name, flag)
		}
	}
}
