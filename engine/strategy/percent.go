package strategy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A limit may be in percent: with MaxSimultaneous("company", "20%", X) a company has at most a fifth of the chunks that are
// in flight or asked for. Indexes stand on numbers, so each call begins with a plan that has a number in place of each
// percentage (Plan.Now). That number holds until the call ends. Other calls change the chunks in flight meanwhile, but no call passes
// the number that it began with.
//
// Each number is a view of its own, and all of them share a frame (band.go in package backlog). So few numbers stand for
// all: up to 32 they are exact, and above that they have five binary digits. So a number is at most a sixteenth too small.

// MaxPercent bounds a percentage. All of the chunks in flight would limit nothing.
const MaxPercent = 99

// readPercent reads a percentage, as in 20%.
func readPercent(t token) (percent uint8, wrong string) {
	digits, is := strings.CutSuffix(t.text, "%")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !is || err != nil || n < 1 || n > MaxPercent || digits[0] == '0' {
		return 0, fmt.Sprintf(`must be a whole number, or a share of the chunks in flight from "1%%" to "%d%%"; found %s`, MaxPercent, t)
	}
	return uint8(n), ""
}

// percentOf is the number for a percentage of so many chunks. It is rounded down, but is at least 1, as nothing would ever begin with 0.
func percentOf(percent uint8, chunks int) uint32 {
	n := uint32(max(1, min(uint64(percent)*uint64(max(chunks, 0))/100, MaxLimit)))
	const exact = 32
	unit := uint32(1)
	for n/unit >= exact {
		unit *= 2
	}
	return n / unit * unit
}

// Percents says whether the plan has limits in percent. Such a plan offers no chunk under these limits: callers follow the plan of Now.
func (p *Plan) Percents() bool { return len(p.percents) > 0 }

// NumbersAt identifies a plan of Now: it has the numbers in place of the percentages.
func (p *Plan) NumbersAt(chunks int) string {
	key := make([]byte, 0, 16)
	for _, percent := range p.percents {
		key = strconv.AppendUint(append(key, ' '), uint64(percentOf(percent, chunks)), 10)
	}
	return string(key)
}

// Now is the plan with a number in place of each percentage, for a call that begins when so many chunks are in flight or
// asked for. For a plan without percentages it is the plan itself. It cannot fail where the plan with percentages compiled, as numbers
// only make more branches alike.
func (p *Plan) Now(chunks int) *Plan {
	if !p.Percents() {
		return p
	}
	now, err := compile(rebuilt(p.root, func(a argument) argument {
		if a.percent > 0 {
			a.max, a.percent = percentOf(a.percent, chunks), 0
		}
		return a
	}))
	if err != nil {
		panic("strategy: a plan that compiles does not with numbers: " + err.Error())
	}
	now.tag = p.tag
	return now
}

// rebuilt is a tree with other arguments.
func rebuilt(b block, change func(argument) argument) block {
	args := slices.Clone(b.arguments())
	for i := range args {
		args[i] = change(args[i])
		args[i].blocks = slices.Clone(args[i].blocks)
		for j, inner := range args[i].blocks {
			args[i].blocks[j] = rebuilt(inner, change)
		}
	}
	return b.definition().build(args)
}

// percentsOf are the percentages in a tree, each once.
func percentsOf(root block) (percents []uint8) {
	rebuilt(root, func(a argument) argument {
		if a.percent > 0 && !slices.Contains(percents, a.percent) {
			percents = append(percents, a.percent)
		}
		return a
	})
	return percents
}

// checkPercents refuses percentages where each number would be an index of its own, with all of its submissions.
func checkPercents(branches []Branch) (err error) {
	const refused = "has a MaxSimultaneous of %s beside %s, which is not supported; %s"
	for i := range branches {
		b := &branches[i]
		b.Leaves(func(leaf *Branch) bool {
			at := slices.IndexFunc(leaf.Limits, func(l Limit) bool { return l.Percent > 0 })
			if at < 0 {
				return true
			}
			limit := leaf.Limits[at]
			text := strconv.Itoa(int(limit.Percent)) + "%"
			switch {
			case b.Fair != "" || slices.ContainsFunc(b.Inner, func(inner Branch) bool { return inner.Fair != "" }):
				err = invalid(pointer, refused, text, "Fair", "give a number, or leave Fair out")
			case leaf.Fewest != "":
				err = invalid(pointer, refused, text, "a PreferDistinct without a number", "use one of the two")
			case slices.ContainsFunc(leaf.Limits, func(l Limit) bool { return l.Key != limit.Key || l.Of != limit.Of }):
				err = invalid(pointer, refused, text, "a limit of another key or rate (missing=one is one, too)",
					"give a number, or a limit of "+named(limit.Key)+" only")
			}
			return err == nil
		})
	}
	return err
}
