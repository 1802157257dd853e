package main

import (
	"bufio"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// fieldFlags makes a flag of every declared field that a struct of package api has, except those in without. to is a pointer to that
// struct. With usual, the help names the defaults. The returned function sets the fields whose flags were given.
func fieldFlags[T any](f *pflag.FlagSet, fields []*queue.Field[T], to any, usual bool, without ...string) func() error {
	read := make(map[string]func() error)
	for _, d := range fields {
		field, ok := d.In(to)
		if !ok || slices.Contains(without, d.Name) {
			continue
		}
		name := d.FlagName()
		read[name] = fieldFlag(f, name, fieldUsage(d, usual), d.Range.Unit, field.Addr().Interface())
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
	return func() error {
		var errs []error
		f.Visit(func(flag *pflag.Flag) {
			if set := read[flag.Name]; set != nil {
				errs = append(errs, set())
			}
		})
		return errors.Join(errs...)
	}
}

// fieldFlag makes the flag, of the type that the field of the request has. The returned function sets the field to the flag's value. It
// is nil if the flag itself sets the field.
func fieldFlag(f *pflag.FlagSet, name, usage string, unit time.Duration, field any) func() error {
	switch to := field.(type) {
	case *bool:
		f.BoolVar(to, name, false, usage)
	case *string:
		f.StringVar(to, name, "", usage)
	case *int:
		f.IntVar(to, name, 0, usage)
	case *float64:
		f.Float64Var(to, name, 0, usage)
	case *uint16:
		f.Uint16Var(to, name, 0, usage)
	case *uint32:
		f.Uint32Var(to, name, 0, usage)
	case *int64:
		if unit == 0 {
			f.Int64Var(to, name, 0, usage)
			return nil
		}
		return durationFlag(f, name, usage, unit, func(n int64) { *to = n })
	case **int64:
		if unit == 0 {
			return give(to, f.Int64(name, 0, usage))
		}
		return durationFlag(f, name, usage, unit, func(n int64) { *to = &n })
	case *api.Time:
		v := f.String(name, "", usage)
		return func() (err error) {
			if *to, err = parseMoment(*v, time.Now()); err != nil {
				return usageError{fmt.Errorf("--%s %w", name, err)}
			}
			return nil
		}
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
	case **api.Backoff:
		v := f.String(name, "", usage)
		f.Lookup(name).Value = &formed{f.Lookup(name).Value, backoffForm}
		return func() (err error) {
			*to, err = parseBackoff(name, *v)
			return err
		}
	default:
		panic(fmt.Sprintf("quern: no flag for a field of type %T", field))
	}
	return nil
}

func durationFlag(f *pflag.FlagSet, name, usage string, unit time.Duration, give func(int64)) func() error {
	v := f.Duration(name, 0, usage)
	return func() error {
		give(int64(*v / unit))
		return nil
	}
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

// fieldUsage is the help of a field's flag: its sentence, its range and its default.
func fieldUsage[T any](d *queue.Field[T], withDefault bool) string {
	usage := strings.Map(unicode.ToLower, d.Sentence[:1]) + d.Sentence[1:]
	if d.Range != (queue.Range{}) {
		usage += ": " + d.Range.Flag()
	}
	usual := ""
	switch v := d.Default().(type) {
	case *queue.Backoff:
		usage += ", such as 1s,2,5m or fixed:30s,jitter=none; 0: none"
	case queue.Backoff:
		usage += ", such as 1s,2,5m or fixed:30s,jitter=none; 0: none"
		usual = " " + backoffFlag(v.API())
	case queue.Time:
		usage += ": a time (RFC 3339), or a duration from now (10m)"
	case string, int, uint8, uint16, uint32, int64, float64:
		usual = " " + fmt.Sprint(v)
		if d.Range.Unit != 0 {
			usual = " " + queue.ShortDuration(time.Duration(v.(int64))*d.Range.Unit)
		}
		if reflect.ValueOf(v).IsZero() {
			usual = ": " + d.Range.Zero
		}
	}
	if !withDefault || usual == "" || usual == ": " {
		return usage
	}
	return usage + " (default" + usual + ")"
}

// ranged is a flag that says what it allows when it is given something that its type cannot hold. Other values that it does not allow
// are refused by the server, in the same words.
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
			flag.DefValue = "" // pflag no longer takes it for a zero, and the usage says what it means
		}
	}
}

// resetFlag lets a command that replaces everything give their defaults to fields that the command line does not name.
func resetFlag(f *pflag.FlagSet, what string) *bool {
	return f.Bool("reset", false, "give "+what+" that are not named here their defaults, without asking")
}

// mayReset asks before it allows a reset of fields that the command line does not name. The first argument names the thing that has
// them; better names a way to change only some of them.
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

// resets are the fields that would get their defaults, each as it is now and as it would be: those that have another value now and whose
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

// backoffForm is how a back-off is written in a flag. KIND is exponential where none is named. A list has any number of durations.
const backoffForm = "[KIND:]BASE[,FACTOR[,CAP]][,jitter=JITTER]"

// parseBackoff reads one of
//
//	[exponential:]BASE[,FACTOR[,CAP]]    what is left out is as in the default of expiries
//	linear:BASE[,CAP]
//	fixed:DELAY
//	list:DELAY,DELAY,...
//
// and behind each ,jitter=full|equal|none.
func parseBackoff(flag, text string) (*api.Backoff, error) {
	wrong := func(why string) (*api.Backoff, error) {
		return nil, usageError{fmt.Errorf("--%s is %q: %s; write 1s or 1s,2,5m (a base of %s, a factor of %s, a cap of %s), "+
			"linear:1s,5m, fixed:30s or list:1s,10s,1m (at most %d, %s each), with ,jitter=full, equal or none at the end, "+
			"or 0 for no pause", flag, text, why, queue.BackoffBase.Flag(), queue.BackoffFactor.Flag(), queue.BackoffCap.Flag(),
			queue.MaxDelays, queue.BackoffDelay.Flag())}
	}
	out := new(api.Backoff)
	rest, jitter, _ := strings.Cut(text, ",jitter=")
	out.Jitter = jitter
	if kind, after, named := strings.Cut(rest, ":"); named {
		out.Kind, rest = kind, after
	}
	most := 3
	switch out.Kind {
	case "", api.BackoffExponential:
		usual := queue.DefaultSettings().ExpiryBackoff
		out.Factor, out.CapMS = usual.Factor, usual.Cap.Milliseconds()
	case api.BackoffLinear:
		most = 2
	case api.BackoffFixed:
		most = 1
	case api.BackoffList:
		most = queue.MaxDelays
	default:
		return wrong(fmt.Sprintf("there is no kind %q", out.Kind))
	}
	parts := strings.Split(rest, ",")
	if len(parts) > most {
		return wrong(fmt.Sprintf("it has %d parts, and at most %d have a meaning", len(parts), most))
	}
	for i, part := range parts {
		if most == 3 && i == 1 {
			factor, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return wrong(fmt.Sprintf("the factor %q is no number", part))
			}
			out.Factor = factor
			continue
		}
		duration, err := time.ParseDuration(part)
		if err != nil {
			return wrong(fmt.Sprintf("%q is no duration", part))
		}
		switch ms := duration.Milliseconds(); {
		case out.Kind == api.BackoffList:
			out.DelaysMS = append(out.DelaysMS, ms)
		case i == 0:
			out.BaseMS = ms
			if most == 3 && len(parts) < 3 {
				out.CapMS = max(out.CapMS, ms)
			}
		default:
			out.CapMS = ms
		}
	}
	return out, nil
}

// backoffFlag writes a back-off as parseBackoff reads it.
func backoffFlag(b api.Backoff) string {
	short := milliseconds
	parts := []string{short(b.BaseMS)}
	switch b.Kind {
	case api.BackoffLinear:
		parts = append(parts, short(b.CapMS))
	case api.BackoffFixed:
	case api.BackoffList:
		parts = nil
		for _, ms := range b.DelaysMS {
			parts = append(parts, short(ms))
		}
	default:
		if b.BaseMS == 0 {
			return "0"
		}
		parts = append(parts, fmt.Sprint(b.Factor), short(b.CapMS))
	}
	if b.Jitter != "" {
		parts = append(parts, "jitter="+b.Jitter)
	}
	text := strings.Join(parts, ",")
	if b.Kind != "" {
		text = b.Kind + ":" + text
	}
	return text
}

// backoffText is a back-off as people read it.
func backoffText(b api.Backoff) string {
	text := ""
	switch b.Kind {
	case api.BackoffFixed:
		text = milliseconds(b.BaseMS)
	case api.BackoffLinear:
		text = milliseconds(b.BaseMS) + " × attempts"
	case api.BackoffList:
		var delays []string
		for _, ms := range b.DelaysMS {
			delays = append(delays, milliseconds(ms))
		}
		text = strings.Join(delays, ", ")
	default:
		if b.BaseMS == 0 {
			return "none"
		}
		text = fmt.Sprintf("%s × %g", milliseconds(b.BaseMS), b.Factor)
	}
	if b.CapMS > 0 {
		text += " up to " + milliseconds(b.CapMS)
	}
	if b.Jitter != "" {
		text += ", jitter " + b.Jitter
	}
	return text
}
