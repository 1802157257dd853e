package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// ranged is a flag that says what it allows when it is given something that its type cannot hold. What the type holds and the flag does
// not allow is refused by the server, in the same words.
type ranged struct {
	pflag.Value
	allowed string
}

func (r *ranged) Set(text string) error {
	if err := r.Value.Set(text); err != nil {
		return fmt.Errorf("%s are allowed", r.allowed)
	}
	return nil
}

// limitWas lets --limit of a command be given by the name that it had before -n was --limit everywhere.
func limitWas(f *pflag.FlagSet, older string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == older {
			name = "limit"
		}
		return pflag.NormalizedName(name)
	})
}

// rangesOf gives flags their ranges, by name.
func rangesOf(f *pflag.FlagSet, allowed map[string]string) {
	for name, text := range allowed {
		flag := f.Lookup(name)
		flag.Value = &ranged{flag.Value, text}
		if flag.DefValue == "0s" {
			flag.DefValue = "" // pflag does not know it for a zero any more, and what it means stands in the usage
		}
	}
}
