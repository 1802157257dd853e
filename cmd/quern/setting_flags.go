package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// backoffForm is how a back-off is written in a flag.
const backoffForm = "BASE[,FACTOR[,CAP]]"

// settingFlags makes a flag of every setting of a queue, from its declaration. put says in the help what a new queue has. What it returns
// reads the settings that were given.
func settingFlags(f *pflag.FlagSet, put bool) func() (api.QueueSettingsInput, error) {
	var in api.QueueSettingsInput
	read := make(map[string]func() error)
	for _, d := range queue.AllSettings() {
		name := queue.FlagName(d.Name)
		read[name] = settingFlag(f, name, settingUsage(d, put), d, d.In(&in).Addr().Interface())
		flag := f.Lookup(name)
		if d.Names != nil {
			flag.Value = &formed{flag.Value, strings.Join(d.Choices(), "|")}
		}
		if d.Range.Unit != 0 {
			rangesOf(f, map[string]string{name: "durations from " + d.Range.Flag()})
		} else if d.Range != (queue.Range{}) {
			rangesOf(f, map[string]string{name: d.Range.Flag()})
		}
	}
	return func() (api.QueueSettingsInput, error) {
		var errs []error
		f.Visit(func(flag *pflag.Flag) {
			if set := read[flag.Name]; set != nil {
				errs = append(errs, set())
			}
		})
		return in, errors.Join(errs...)
	}
}

// settingFlag makes the flag, of the type that the field of the request has. What it returns gives the field the flag's value.
func settingFlag(f *pflag.FlagSet, name, usage string, d *queue.Setting, field any) func() error {
	switch to := field.(type) {
	case **bool:
		return give(to, f.Bool(name, false, usage))
	case **string:
		return give(to, f.String(name, "", usage))
	case **uint8:
		return give(to, f.Uint8(name, 0, usage))
	case **uint16:
		return give(to, f.Uint16(name, 0, usage))
	case **float64:
		return give(to, f.Float64(name, 0, usage))
	case **int64:
		v := f.Duration(name, 0, usage)
		return func() error {
			*to = new(int64(*v / d.Range.Unit))
			return nil
		}
	case **api.Backoff:
		v := f.String(name, "", usage)
		f.Lookup(name).Value = &formed{f.Lookup(name).Value, backoffForm}
		return func() (err error) {
			*to, err = parseBackoff(name, *v)
			return err
		}
	}
	panic(fmt.Sprintf("quern: no flag for a setting of type %T", field))
}

func give[T any](to **T, v *T) func() error {
	return func() error {
		*to = v
		return nil
	}
}

// formed is a flag whose help shows the form of its value instead of its type.
type formed struct {
	pflag.Value
	form string
}

func (f *formed) Type() string { return f.form }

// settingUsage is the help of a setting's flag: its sentence, its range and its default.
func settingUsage(d *queue.Setting, put bool) string {
	first, rest := d.Sentence[:1], d.Sentence[1:]
	usage := strings.Map(unicode.ToLower, first) + rest
	if d.Range != (queue.Range{}) {
		usage += ": " + d.Range.Flag()
	}
	settings := queue.DefaultSettings()
	usual := ""
	switch v := d.Value(&settings).(type) {
	case queue.Backoff:
		usage += ", such as 1s,2,5m; 0: none"
		usual = " " + backoffFlag(v)
	case int64:
		usual = " " + queue.ShortDuration(time.Duration(v)*d.Range.Unit)
		if v == d.Range.Least {
			usual = ": " + d.Range.Zero
		}
	case string, uint8, uint16, float64:
		usual = " " + fmt.Sprint(v)
	}
	if !put || strings.TrimSpace(usual) == "" {
		return usage
	}
	return usage + " (default" + usual + ")"
}

// backoffFlag writes a back-off as parseBackoff reads it.
func backoffFlag(b queue.Backoff) string {
	if b.Base == 0 {
		return "0"
	}
	return fmt.Sprintf("%s,%g,%s", queue.ShortDuration(b.Base), b.Factor, queue.ShortDuration(b.Cap))
}

// parseBackoff reads BASE[,FACTOR[,CAP]]; what is left out is as in the default of expiries.
func parseBackoff(flag, text string) (*api.Backoff, error) {
	usual := queue.DefaultSettings().ExpiryBackoff
	out := &api.Backoff{Factor: usual.Factor}
	parts := strings.Split(text, ",")
	base, err := time.ParseDuration(parts[0])
	if err == nil && len(parts) > 1 {
		out.Factor, err = strconv.ParseFloat(parts[1], 64)
	}
	limit := max(usual.Cap, base)
	if err == nil && len(parts) > 2 {
		limit, err = time.ParseDuration(parts[2])
	}
	if err != nil || len(parts) > 3 {
		return nil, usageError{fmt.Errorf("--%s is %q; write %s, such as 1s or 1s,2,5m, or 0 for no pause: a base of "+
			"%s, a factor of %s, a cap of %s",
			flag, text, backoffForm, queue.BackoffBase.Flag(), queue.BackoffFactor.Flag(), queue.BackoffCap.Flag())}
	}
	out.BaseMS, out.CapMS = base.Milliseconds(), limit.Milliseconds()
	return out, nil
}
