package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/engine/queue"
)

// resetFlag lets a command that replaces everything give their defaults to fields that the command line does not name.
func resetFlag(f *pflag.FlagSet, what string) *bool {
	return f.Bool("reset", false, "give "+what+" that are not named here their defaults, without asking")
}

// mayReset asks before fields are set back that the command line does not name. what has them now, better changes only some of them.
func (a *app) mayReset(what string, lost []string, better string) error {
	if len(lost) == 0 {
		return nil
	}
	say(a.err, "quern: %s would reset the settings that you did not name: %s\n", what, strings.Join(lost, ", "))
	if isTerminal(a.in) && isTerminal(a.err) {
		say(a.err, "Set them back? [y/N] ")
		answer, _ := bufio.NewReader(a.in).ReadString('\n') // no answer is none
		if strings.EqualFold(strings.TrimSpace(answer), "y") {
			return nil
		}
	}
	return usageError{errors.New("nothing was changed: " + better + ", or give --reset to set the rest back")}
}

// resets are the fields that would get their defaults, as what they are now and would be: those of now that have another value and whose
// flag was not given.
func resets[T any](f *pflag.FlagSet, fields []*queue.Field[T], now any) (lost []string) {
	for _, d := range fields {
		value, ok := d.In(now)
		if !ok || f.Changed(d.FlagName()) {
			continue
		}
		usual := d.Default()
		if b, is := usual.(queue.Backoff); is {
			usual = b.API()
		}
		was, will := settingText(d, value.Interface()), settingText(d, usual)
		if was != will {
			lost = append(lost, fmt.Sprintf("--%s is %s and would be %s", d.FlagName(), was, will))
		}
	}
	return lost
}
