package top

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/terminal"
)

// order is how the values are sorted.
type order uint8

const (
	byInFlight order = iota
	byReady
	byName
	orders
)

func (o order) String() string { return [...]string{"in flight", "ready", "name"}[o] }

// Screen is all that is shown. Lines makes the text of it, and nothing else.
type Screen struct {
	Queue, Server string
	Every         time.Duration
	Width, Height int

	Now, Before *Look // the last look and the one before; nil: there is none
	Problem     error // why there is no younger look
	At          time.Time
	Order       order
	Filter      string
	Typing      bool // of the filter
	Paused      bool
	From        int // the first value that is shown
}

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	full  = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
	held  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
)

// Lines are the lines of the screen, none wider than it is, and as many as it is high.
func (s *Screen) Lines() []string {
	lines := []string{s.head()}
	if s.Now == nil {
		lines = append(lines, "", "Waiting for the first numbers.")
	} else {
		body := append(s.totals(), s.rules()...)
		body = append(body, "")
		body = append(body, s.table(s.Height-len(body)-2)...)
		if s.Problem != nil { // old numbers must not look like new ones
			for i := range body {
				body[i] = faint.Render(body[i])
			}
		}
		lines = append(lines, body...)
	}
	for len(lines) < s.Height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:min(len(lines), max(s.Height-1, 1))], s.foot())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], s.Width, "…")
	}
	return lines
}

func (s *Screen) head() string {
	left := "quern top · queue " + terminal.Text(s.Queue) + " · " + terminal.Text(s.Server)
	state := s.At.Format("15:04:05") + " · every " + s.Every.String()
	switch {
	case s.Problem != nil && s.Now != nil:
		state = full.Render("no answer for " + lasting(s.At.Sub(s.Now.At)))
	case s.Problem != nil:
		state = full.Render("no answer")
	case s.Paused:
		state = held.Render("paused · " + s.Now.At.Format("15:04:05"))
	}
	return bold.Render(fit(left, s.Width-lipgloss.Width(state)-1)) + " " + state
}

// totals are the numbers of the queue: amounts, and rates per second.
func (s *Screen) totals() []string {
	n := &s.Now.Stats
	amounts := "Ready " + bold.Render(count(float64(n.Ready))) + " · in flight " + bold.Render(count(float64(n.Reserved))) +
		" · waiting " + count(float64(n.Waiting))
	if rules := n.Paused + n.Blocked; rules > 0 {
		amounts += " · " + held.Render("held by rules "+count(float64(rules)))
	}
	if n.Dead > 0 {
		amounts += " · dead " + count(float64(n.Dead))
	}
	rates := "Per second: no second look yet"
	if s.Before != nil {
		rates = "Per second: done " + bold.Render(s.rate(func(n *api.Stats) uint64 { return n.DoneTotal })) +
			" · reserved " + s.rate(func(n *api.Stats) uint64 { return n.ReservedTotal }) +
			" · inserted " + s.rate(func(n *api.Stats) uint64 { return n.InsertedTotal }) +
			" · failed " + s.rate(func(n *api.Stats) uint64 { return n.FailedTotal })
	}
	people := fmt.Sprintf("%s submissions · %s calls wait", count(float64(n.SubmissionsOpen)), count(float64(n.ConsumersWaiting)))
	if n.Ready > 0 {
		people += " · oldest ready " + lasting(time.Duration(n.OldestReadySeconds*float64(time.Second)))
	}
	if s.Before != nil {
		people += " · empty in " + s.emptyIn()
	}
	lines := []string{amounts, rates, people}
	if n.DiskFull > 0 {
		lines = append(lines, full.Render("The disk is full: inserts are refused until there is room; completions go on."))
	}
	if n.MemoryFull > 0 {
		lines = append(lines, full.Render("The memory is full: inserts are refused until work has ended; the rest goes on."))
	}
	return lines
}

// perSecond is the growth of a total between the two looks; not known after a restart of the server, which begins its totals at 0.
func (s *Screen) perSecond(total func(*api.Stats) uint64) (rate float64, known bool) {
	seconds := s.Now.At.Sub(s.Before.At).Seconds()
	now, before := total(&s.Now.Stats), total(&s.Before.Stats)
	if seconds <= 0 || now < before {
		return 0, false
	}
	return float64(now-before) / seconds, true
}

func (s *Screen) rate(total func(*api.Stats) uint64) string {
	rate, known := s.perSecond(total)
	switch {
	case !known:
		return "–"
	case rate > 0 && rate < 10:
		return fmt.Sprintf("%.1f", rate)
	}
	return count(rate)
}

// emptyIn is when all moving work is done: the middle of the server's forecast.
func (s *Screen) emptyIn() string {
	n := &s.Now.Stats
	open := n.Ready + n.Waiting + n.Reserved
	switch {
	case open == 0 && n.Paused+n.Blocked == 0:
		return "now"
	case n.Forecast == nil:
		return "–"
	}
	return lasting(n.Forecast.P50.Sub(s.Now.At))
}

// mostRulesShown are named; the others are counted.
const mostRulesShown = 3

// rules say in one line what operators hold back.
func (s *Screen) rules() []string {
	list := s.Now.Rules
	if len(list) == 0 {
		return nil
	}
	named := make([]string, 0, mostRulesShown)
	for i := range list[:min(len(list), mostRulesShown)] {
		r := &list[i]
		named = append(named, terminal.Text(r.Action+" "+matched(&r.Match))+" ("+count(float64(r.Chunks))+")")
	}
	text := fmt.Sprintf("%d rules: ", len(list))
	if len(list) == 1 {
		text = "1 rule: "
	}
	text += strings.Join(named, " · ")
	if more := len(list) - len(named); more > 0 {
		text += fmt.Sprintf(" · and %d more", more)
	}
	return []string{held.Render(text)}
}

func matched(m *api.RuleMatch) string {
	switch {
	case m.Submission != "":
		return "submission " + m.Submission
	case m.Queue:
		return "the queue"
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		parts = append(parts, key+"="+m.Meta[key].String())
	}
	for _, key := range slices.Sorted(maps.Keys(m.Any)) {
		parts = append(parts, fmt.Sprintf("%s of %d values", key, len(m.Any[key])))
	}
	return strings.Join(parts, " ")
}

// chosen are the values that the filter leaves, in their order.
func (s *Screen) chosen() []api.ValueCount {
	if s.Now == nil {
		return nil
	}
	var list []api.ValueCount
	for i := range s.Now.Values {
		if v := &s.Now.Values[i]; strings.Contains(strings.ToLower(v.Value.String()), strings.ToLower(s.Filter)) {
			list = append(list, *v)
		}
	}
	slices.SortStableFunc(list, func(a, b api.ValueCount) int {
		switch s.Order {
		case byInFlight:
			return cmp.Or(cmp.Compare(b.InFlight, a.InFlight), cmp.Compare(b.Ready, a.Ready))
		case byReady:
			return cmp.Compare(b.Ready, a.Ready)
		case byName:
			return compareValues(a.Value, b.Value)
		}
		return 0
	})
	return list
}

// compareValues has numbers come first, by size, then texts.
func compareValues(a, b api.MetaValue) int {
	switch {
	case a.IsInt() && b.IsInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.IsInt():
		return -1
	case b.IsInt():
		return 1
	}
	return cmp.Compare(a.Text(), b.Text())
}

// table shows as many values of the key as the lines have room for.
func (s *Screen) table(height int) []string {
	l := s.Now
	if l.Key == "" {
		return []string{"No open submission has meta, so there is nothing to tell apart."}
	}
	at := slices.IndexFunc(l.Keys, func(k api.MetaKey) bool { return k.Key == l.Key })
	title := bold.Render("By "+terminal.Text(l.Key)) + fmt.Sprintf(" (key %d of %d) · %s values · sorted by %s", at+1, len(l.Keys),
		count(float64(l.values())), s.Order)
	if l.values() > uint64(len(l.Values)) {
		title += fmt.Sprintf(" · the first %d", len(l.Values))
	}
	if s.Filter != "" || s.Typing {
		title += " · with " + held.Render(terminal.Text(s.Filter)+map[bool]string{true: "_"}[s.Typing])
	}
	bar := barWidth
	if s.Width < 80 {
		bar = 0
	}
	name := min(max(s.Width-48-bar, 10), 64)
	lines := []string{title, bold.Render(fit("VALUE", name) + " " + fit("", bar) + right("IN FLIGHT", 10) + right("LIMIT", 8) +
		right("READY", 9) + right("BY RULES", 10) + right("WEIGHT", 8))}
	list := s.chosen()
	if len(list) == 0 {
		return append(lines, "None of these values contains that text.")
	}
	most := uint64(1)
	for i := range list {
		most = max(most, list[i].InFlight)
	}
	rows := max(height-len(lines), 1)
	from := min(s.From, max(len(list)-rows, 0))
	for i := range list[from:min(from+rows, len(list))] {
		lines = append(lines, row(&list[from+i], name, bar, most))
	}
	return lines
}

const barWidth = 12 // where there are 80 columns; narrower screens have none

// row shows a value. Its bar is full at its limit or, without one, at the number in flight of the busiest value.
func row(v *api.ValueCount, name, width int, most uint64) string {
	limit, weight, of := "–", "", most
	if v.Limit != nil {
		limit, of = count(float64(*v.Limit)), max(uint64(*v.Limit), 1)
	}
	if v.Weight != nil {
		weight = fmt.Sprint(*v.Weight)
	}
	cells := int(math.Ceil(min(float64(v.InFlight)*float64(width)/float64(of), float64(width)))) // a server may name any number
	bar := strings.Repeat("█", cells) + strings.Repeat("·", width-cells)
	line := right(count(float64(v.InFlight)), 10) + right(limit, 8)
	if v.Saturated {
		bar, line = full.Render(bar), full.Render(line)
	}
	ruled := ""
	if n := v.Paused + v.Blocked; n > 0 {
		ruled = held.Render(count(float64(n)))
	}
	return fitName(terminal.Text(v.Value.String()), name) + " " + bar + line + right(count(float64(v.Ready)), 9) +
		right(ruled, 10) + right(weight, 8)
}

func (s *Screen) foot() string {
	if s.Typing {
		return faint.Render("type a part of a value · enter: keep · esc: all values")
	}
	if s.Problem != nil {
		return full.Render(terminal.Text(s.Problem.Error()))
	}
	return faint.Render("q quit · tab next key · s sort · / filter · space pause · ↑ ↓ scroll")
}
