package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// standing is a queue with its own clock. It is looked at once a second.
type standing struct {
	*testing.T
	e   *Engine
	q   *Queue
	now queue.Time
}

func newStanding(t *testing.T) *standing {
	s := &standing{T: t, now: 1_700_000_000_000}
	e, err := Open(context.Background(), Options{Dir: t.TempDir(), Now: func() time.Time { return s.now.Std() },
		Seed: func() uint64 { return 7 }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, e) })
	s.e, s.q = e, e.queues[DefaultQueue]
	return s
}

// pass lets seconds pass, with a look at each.
func (s *standing) pass(seconds int) {
	for range seconds {
		s.now = s.now.Add(time.Second)
		s.q.sample(s.now, nil)
	}
}

func (s *standing) said() api.Diagnosis {
	s.Helper()
	d, err := s.q.Questions.DiagnoseQueue(context.Background())
	if err != nil {
		s.Fatal(err)
	}
	at := 0
	for _, c := range d.Causes { // each link is found in the sentence
		for _, l := range c.Links {
			if at = strings.Index(d.Sentence, l.Text); at < 0 {
				s.Errorf("the link %+v is not in the sentence %s", l, d.Sentence)
			}
		}
	}
	return d
}

func (s *standing) want(sentence string) {
	s.Helper()
	if got := s.said().Sentence; got != sentence {
		s.Errorf("\ngot  %s\nwant %s", got, sentence)
	}
}

func (s *standing) hold(consumer, strategy string, most int) []queue.Reservation {
	s.Helper()
	plan, err := s.q.Plan(fmt.Appendf(nil, "%q", strategy))
	if err != nil {
		s.Fatal(err)
	}
	got, err := s.q.Reserve(context.Background(), ReserveRequest{Max: most, Plan: plan, Consumer: consumer,
		Timeout: 12 * time.Hour}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return got.Reservations
}

// One sentence says what a whole queue waits for: the limits, those that do not move and the consumer that holds them, the rules and their
// ends, and the free work with its pace. Its causes add up to all waiting chunks, and its end is that of the queue's numbers.
func TestDiagnosisOfAQueue(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	s.want("Empty: nothing is open.")
	stuck, moves, shut := number("company", 7), number("company", 13), text("company", "off")
	setValue(t, s.e, DefaultQueue, stuck, limited(1))
	setValue(t, s.e, DefaultQueue, moves, limited(2))
	setValue(t, s.e, DefaultQueue, shut, limited(0))
	insert(t, s.e, 200, stuck)
	insert(t, s.e, 1000, moves)
	insert(t, s.e, 30, shut)
	insert(t, s.e, 500, text("region", "ap"))
	insert(t, s.e, 50)
	s.pass(1)
	s.want("1,780 wait: 1,750 can be handed out, but no consumer asks for work; 30 behind the limit of company=off, which has a limit of 0.")
	if _, _, err := queueAt(s.e, DefaultQueue).Rules.Set(context.Background(), queue.Rule{Action: queue.Pause,
		Match: queue.RuleMatch{Entry: text("region", "ap")}, Until: s.now.Add(3 * time.Hour)}, nil); err != nil {
		t.Fatal(err)
	}
	s.hold("crashed-eu-3", `SelectOnly("company", 7, OldestFirst)`, 1)
	for range 70 { // one chunk of company 13 and now and then one of the others each second
		held := s.hold("w", `SelectOnly("company", 13, OldestFirst)`, 2)
		s.pass(1)
		if finishAll(t, s.e, held); s.now%5000 == 0 {
			finishAll(t, s.e, s.hold("w", `OldestFirst`, 1))
		}
	}
	s.hold("w", `SelectOnly("company", 13, OldestFirst)`, 2)
	s.pass(1)
	d := s.said()
	const want = "1,623 wait: 1,073 behind the limits of 3 values of company (company=7 does not move: crashed-eu-3 holds its one place for 1m 11s, " +
		"company=off has a limit of 0, company=13 ends in "
	if !strings.HasPrefix(d.Sentence, want) || !strings.Contains(d.Sentence, "; 500 are paused by region=ap for another 2h 58m; ") {
		t.Errorf("\ngot  %s\nwant %s", d.Sentence, want)
	}
	var sum uint64
	links := 0
	for _, c := range d.Causes {
		sum += c.Chunks
		links += len(c.Links)
		if c.Kind == api.CauseLimit && c.Key == "company" && c.Value.Quoted() == "13" && (c.Forecast == nil || c.PerSecond < 1) {
			t.Errorf("company 13: %+v at %v a second", c.Forecast, c.PerSecond)
		}
	}
	stats := s.q.Stats()
	if all := stats.Ready + stats.Waiting + stats.Paused; sum != all || links < 5 {
		t.Errorf("the causes have %d chunks of %d, and %d links", sum, all, links)
	}
	sentence, brief := s.q.Questions.Brief(context.Background())
	if sentence != d.Sentence || len(brief.Alarms) != 1 || brief.Alarms[0] != "company=7 does not move" || len(brief.DoneRates) != 4 ||
		brief.DoneRates[3] < 1 || brief.DoneRates[3] > 3 || brief.Waiting != sum {
		t.Errorf("a list says %q, %+v", sentence, brief)
	}
	if d.Forecast == nil || stats.Forecast == nil || *d.Forecast != *stats.Forecast || d.Forecast.Moving {
		t.Errorf("ends %+v, by the numbers %+v; want the same, of which a part does not move", d.Forecast, stats.Forecast)
	}
}

// However many values are at their limits, the sentence names a few and counts all of them.
func TestDiagnosisOfAQueueIsBounded(t *testing.T) {
	t.Parallel()
	s := newStanding(t)
	for i := range 40 {
		insert(t, s.e, uint32(100+i), number("company", int64(i)))
	}
	const one = `MaxSimultaneous("company", 1, OldestFirst)`
	s.hold("w", one, 100)
	s.pass(2)
	d := s.said()
	if len(d.Causes) != 10 || !strings.HasPrefix(d.Sentence, "4,740 wait: 4,740 behind the limits of 40 values of company (company=39 has 1 of 1") {
		t.Errorf("%d causes: %s", len(d.Causes), d.Sentence)
	}
}

// The lists of queues warn before the server refuses inserts because of the memory in use. While it does, the numbers say so, too.
func TestFullMemoryIsShown(t *testing.T) {
	t.Parallel()
	var used atomic.Int64
	e, err := Open(t.Context(), Options{Dir: t.TempDir(), Now: time.Now, Seed: func() uint64 { return 7 }, BallastBytes: -1,
		MaxMemory: 100, Memory: used.Load})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	q := e.queues[DefaultQueue]
	for _, step := range []struct {
		used int64
		full uint8
		says string
	}{{89, 0, ""}, {90, 0, "90 % or more of memory-limit"}, {100, 1, "inserts are refused"}, {99, 0, "90 % or more of memory-limit"}, {0, 0, ""}} {
		used.Store(step.used)
		e.shared.measure(&e.options)
		q.sample(queue.At(time.Now()), nil)
		_, now := q.Questions.Brief(t.Context())
		alarms, full := strings.Join(now.Alarms, "\n"), q.Frame().Stats.Stats.MemoryFull
		if !strings.Contains(alarms, step.says) || (step.says == "") != (alarms == "") || full != step.full {
			t.Errorf("%d bytes of 100 in use: memory_full is %d, and the alarms are %q", step.used, full, alarms)
		}
	}
}
