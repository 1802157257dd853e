package top

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/quern-queue/quern/sdk/api"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden screens")

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// busy is a queue with something of everything.
func busy(width, height int) *Screen {
	now := &Look{
		At: noon,
		Stats: api.Stats{Forecast: &api.Forecast{P50: api.At(noon.Add(2 * time.Minute)), Moving: true},
			Ready: 1_204_113, Reserved: 12, Waiting: 31, Paused: 9_000_000, Blocked: 127, Dead: 3, SubmissionsOpen: 104,
			ConsumersWaiting: 2, OldestReadySeconds: 4000, DoneTotal: 20_500, ReservedTotal: 20_600, FailedTotal: 9},
		Keys: []api.MetaKey{{Key: "company", Values: 4}, {Key: "region", Values: 2}}, Key: "company",
		Values: []api.ValueCount{
			{Value: api.Int(7), InFlight: 10, Limit: new(uint32(10)), Saturated: true, Ready: 200_000_000},
			{Value: api.Text("acme"), InFlight: 2, Ready: 99_999, Weight: new(2.5)},
			{Value: api.Int(12), Paused: 9_000_000, Submissions: 3},
			{Value: api.Text("a name that is longer than any column that it could be shown in"), Limit: new(uint32(0)), Ready: 5, Saturated: true},
		},
		Rules: []api.Rule{
			{Action: "pause", Match: api.RuleMatch{Meta: api.Meta{"company": api.Int(12)}}, Chunks: 9_000_000},
			{Action: "block", Match: api.RuleMatch{Meta: api.Meta{"region": api.Text("ap"), "mode": api.Text("full")}}, Chunks: 127},
		},
	}
	before := &Look{At: noon.Add(-2 * time.Second), Stats: api.Stats{DoneTotal: 500, ReservedTotal: 600, FailedTotal: 2}}
	return &Screen{Queue: "default", Server: "http://127.0.0.1:7700", Every: 2 * time.Second, Width: width, Height: height, Now: now, Before: before, At: noon}
}

// The screens in their possible states, on terminals of two widths.
func TestScreens(t *testing.T) {
	t.Parallel()
	hostile := busy(80, 14)
	hostile.Queue = "in\x1b[2Jbox"
	hostile.Now.Values = []api.ValueCount{
		{Value: api.Text("\u202egnp.exe"), InFlight: 1}, {Value: api.Text("\x1b]0;owned\a"), InFlight: 1}, {Value: api.Text("日本語の会社名がとても長いとき"), InFlight: 1},
		{Value: api.Text("a\nb\tc\u200b"), InFlight: 1}, {Value: api.Text("👩‍👩‍👧‍👦 family"), InFlight: 1},
	}
	away := busy(80, 14)
	away.Problem, away.At = errors.New("dial tcp 127.0.0.1:7700: connect: connection refused"), noon.Add(95*time.Second)
	filtered := busy(80, 14)
	filtered.Filter, filtered.Typing, filtered.Order = "AC", true, byReady
	none := busy(80, 14)
	none.Filter = "zebra"
	bare := &Screen{Queue: "empty", Server: "http://127.0.0.1:7700", Every: time.Second, Width: 80, Height: 10, At: noon, Now: &Look{At: noon}, Before: &Look{At: noon.Add(-time.Second)}}
	full := busy(80, 16)
	full.Now.Stats.DiskFull, full.Now.Stats.MemoryFull, full.Before, full.Paused = 1, 1, nil, true
	for name, s := range map[string]*Screen{
		"80": busy(80, 16), "120": busy(120, 16), "40": busy(40, 16), "hostile": hostile, "away": away, "filtered": filtered, "none": none,
		"empty": bare, "begin": {Queue: "q", Server: "s", Every: time.Second, Width: 80, Height: 5, At: noon}, "full": full,
	} {
		lines := s.Lines()
		if len(lines) != s.Height {
			t.Errorf("%s: %d lines on %d", name, len(lines), s.Height)
		}
		for i, line := range lines {
			if width := ansi.StringWidth(line); width > s.Width {
				t.Errorf("%s: line %d is %d wide, on %d columns", name, i, width, s.Width)
			}
			lines[i] = strings.TrimRight(ansi.Strip(line), " ")
		}
		got, file := strings.Join(lines, "\n")+"\n", filepath.Join("testdata", name+".txt")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != got {
			t.Errorf("%s: %v; if this is meant, go test ./cmd/quern/top -rewrite:\n%s", name, err, got)
		}
	}
}

// Old numbers are dim while no answer comes, and the screen says since when.
func TestOldNumbersAreDim(t *testing.T) {
	t.Parallel()
	s := busy(80, 14)
	fresh := s.Lines()[1]
	s.Problem, s.At = errors.New("gone"), noon.Add(7*time.Second)
	stale := s.Lines()
	if stale[1] == fresh || !strings.Contains(stale[1], "\x1b[2m") {
		t.Errorf("without an answer the totals are %q", stale[1])
	}
	if !strings.Contains(ansi.Strip(stale[0]), "no answer for 7 s") {
		t.Errorf("the head is %q", ansi.Strip(stale[0]))
	}
}

// live is a model with a server of its own. asked has the calls so far; look and err are the next answer.
type live struct {
	*model
	asked []Ask
	look  *Look
	err   error
}

func newLive() *live {
	l := &live{look: busy(80, 20).Now}
	l.model = New(context.Background(), func(_ context.Context, ask Ask) (*Look, error) {
		l.asked = append(l.asked, ask)
		if l.err != nil {
			return nil, l.err
		}
		look := *l.look
		if ask.Key != "" {
			look.Key = ask.Key
		}
		return &look, nil
	}, Screen{Queue: "q", Every: time.Second, Width: 80, Height: 20}).(*model)
	l.run(l.Init())
	return l
}

// run does what a command asks for, if that is to read.
func (l *live) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	if msg, is := cmd().(looked); is {
		l.Update(msg)
	}
}

func (l *live) press(keys ...tea.KeyPressMsg) {
	for _, k := range keys {
		_, cmd := l.Update(k)
		l.run(cmd)
	}
}

func letter(r rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: r, Text: string(r)} }

// Keys do what the last line says.
func TestKeys(t *testing.T) {
	t.Parallel()
	l := newLive()
	l.press(tea.KeyPressMsg{Code: tea.KeyTab})
	if l.Now.Key != "region" {
		t.Errorf("tab shows %s", l.Now.Key)
	}
	l.press(tea.KeyPressMsg{Code: tea.KeyTab}, letter('s'))
	if last := l.asked[len(l.asked)-1]; last.Key != "company" || !last.Ready || l.Order != byReady {
		t.Errorf("after another tab and s it asks for %+v, by %s", last, l.Order)
	}
	var names []string
	l.press(letter('s'))
	for _, v := range l.chosen() {
		names = append(names, v.Value.String())
	}
	if got := fmt.Sprint(names[:3]); l.Order != byName || got != "[7 12 a name that is longer than any column that it could be shown in]" {
		t.Errorf("by name they are %s", got)
	}
	l.press(letter('/'), letter('a'), letter('q'), tea.KeyPressMsg{Code: tea.KeyBackspace}, letter('c'), tea.KeyPressMsg{Code: tea.KeyEnter})
	if got := l.chosen(); l.Filter != "ac" || l.Typing || len(got) != 1 || got[0].Value.Text() != "acme" {
		t.Errorf("the filter %q leaves %v", l.Filter, got)
	}
	l.press(letter('/'), tea.KeyPressMsg{Code: tea.KeyEscape}, tea.KeyPressMsg{Code: tea.KeyDown}, tea.KeyPressMsg{Code: tea.KeyPgDown})
	if l.Filter != "" || l.From != 3 {
		t.Errorf("the filter is %q, the first value %d", l.Filter, l.From)
	}
	asked := len(l.asked)
	l.press(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	l.Update(ticked{l.turn})
	if !l.Paused || len(l.asked) != asked {
		t.Errorf("paused %v, it was asked %d times more", l.Paused, len(l.asked)-asked)
	}
	if l.press(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}); l.Paused || len(l.asked) != asked+1 {
		t.Errorf("paused %v, it was asked %d times", l.Paused, len(l.asked)-asked)
	}
	if _, cmd := l.Update(letter('q')); cmd == nil {
		t.Error("q does not end it")
	} else if _, quits := cmd().(tea.QuitMsg); !quits {
		t.Error("q does something else")
	}
}

// An answer to an older question is dropped, and a server that comes back is shown again.
func TestAnswers(t *testing.T) {
	t.Parallel()
	l := newLive()
	late := l.again()
	l.press(tea.KeyPressMsg{Code: tea.KeyTab})
	now := l.Now
	if l.Update(late()); l.Now != now {
		t.Error("a late answer is shown")
	}
	l.err = errors.New("no route")
	if l.run(l.again()); l.Problem == nil || l.Now != now {
		t.Errorf("problem %v; the last numbers stay: %v", l.Problem, l.Now == now)
	}
	l.err = nil
	if l.run(l.again()); l.Problem != nil || l.Before != now {
		t.Errorf("problem %v; the numbers before are the last known: %v", l.Problem, l.Before == now)
	}
}

// The program runs in a terminal, and ends by q with the terminal as it was.
func TestProgram(t *testing.T) {
	t.Parallel()
	keys, out := make(chan struct{}), &bytes.Buffer{}
	read := func(context.Context, Ask) (*Look, error) {
		defer func() { close(keys); keys = make(chan struct{}) }()
		return busy(80, 20).Now, nil
	}
	shown := keys
	p := tea.NewProgram(New(t.Context(), read, Screen{Queue: "q", Server: "s", Every: time.Hour}), tea.WithContext(t.Context()),
		tea.WithInput(nil), tea.WithOutput(out), tea.WithWindowSize(80, 20), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	go func() {
		<-shown
		p.Send(letter('q'))
	}()
	if _, err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "\x1b[?1049h") || !strings.Contains(text, "\x1b[?1049l") {
		t.Errorf("the other screen is not entered and left: %.300q", text)
	}
}

// With more values than are read, and more than there are lines for, a screen is as high as its terminal.
func TestManyValues(t *testing.T) {
	t.Parallel()
	s := busy(80, 24)
	s.Now.Keys[0].Values, s.Now.Values = 10_000, nil
	for i := range mostValues {
		s.Now.Values = append(s.Now.Values, api.ValueCount{Value: api.Int(int64(i)), Ready: uint64(i)})
	}
	s.From = 5 * mostValues
	text := ansi.Strip(strings.Join(s.Lines(), "\n"))
	for _, want := range []string{"10,000 values", fmt.Sprintf("the first %d", mostValues), "\n0 "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// Whatever numbers a server names, a bar is as wide as its column, and full at the limit.
func TestBars(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		inFlight uint64
		limit    *uint32
		full     int
	}{
		{0, nil, 0}, {3, nil, barWidth}, {0, new(uint32(0)), 0}, {1, new(uint32(0)), barWidth}, {1, new(uint32(2)), barWidth / 2},
		{1, new(uint32(1000)), 1}, {5, new(uint32(2)), barWidth}, {1 << 60, new(uint32(1)), barWidth}, {math.MaxInt64, nil, barWidth},
		{math.MaxInt64, new(uint32(0)), barWidth}, {math.MaxUint64, new(uint32(math.MaxUint32)), barWidth},
	} {
		s := busy(80, 24)
		s.Now.Values = []api.ValueCount{{Value: api.Text("bar"), InFlight: one.inFlight, Limit: one.limit}}
		want := "\nbar " + strings.Repeat("█", one.full) + strings.Repeat("·", barWidth-one.full)
		text := ansi.Strip(strings.Join(s.Lines(), "\n"))
		if got := regexp.MustCompile(`\nbar +`).ReplaceAllString(text, "\nbar "); !strings.Contains(got, want) {
			t.Errorf("%d in flight with the limit %v: want the bar %q in\n%s", one.inFlight, one.limit, want, text)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0", 999: "999", 99_999: "99,999", 100_000: "100 k", 999_600: "1.00 M", 12_345_678: "12.3 M", 200e6: "200 M", 4e9: "4.00 G", 1e15: "1000 T"} {
		if got := count(n); got != want {
			t.Errorf("%.0f is shown as %q, want %q", n, got, want)
		}
	}
}
