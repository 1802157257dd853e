package forecast

import (
	"testing"
	"time"
)

func seen(paces ...float64) *Paces {
	var p Paces
	for _, pace := range paces {
		p.Note(pace*window.Seconds(), 1, window.Seconds())
	}
	return &p
}

// A pace is per place, has the spread of the measured ones, and ends when nothing is done any more.
func TestPaces(t *testing.T) {
	t.Parallel()
	steady := seen(2, 2, 2, 2, 2, 2, 2, 2).Pace()
	if steady.Middle != 2 || steady.Slow >= 2 || steady.Fast <= 2 {
		t.Errorf("steady: %+v", steady)
	}
	wild := seen(2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2).Pace()
	if wild.Slow >= steady.Slow || wild.Middle != 2 {
		t.Errorf("with a pause: %+v, steady %+v", wild, steady)
	}
	if stopped := seen(2, 2, 2, 0, 0, 0, 0, 0, 0).Pace(); stopped != (Pace{}) {
		t.Errorf("stopped: %+v", stopped)
	}
	idle := make([]float64, kept-2)
	if begun := seen(append(idle, 6, 6)...).Pace(); begun.Middle < 1 || begun.Slow <= 0 { // two of the six windows of the newest mean
		t.Errorf("work that has just begun after a long time in which no one worked: %+v", begun)
	}
	var p Paces
	if p.Pace() != (Pace{}) {
		t.Error("nothing was seen, and there is a pace")
	}
	p.Note(60, 12, 5)
	if got := p.Pace().Times(12).Middle; got != 12 {
		t.Errorf("60 chunks of 12 places in 5 s: %v a second, want 12", got)
	}
}

// The whole ends with its latest part. A part that does not move has no end, and a limit or a rule binds.
func TestOf(t *testing.T) {
	t.Parallel()
	ten := Pace{5, 10, 20}
	for _, c := range []struct {
		name  string
		parts []Part
		want  Forecast
		moves bool
	}{
		{"nothing", nil, Forecast{Moving: true}, false},
		{"the rest alone", []Part{{Chunks: 100, Pace: ten}}, Forecast{P50: 10 * time.Second, P90: 20 * time.Second, Moving: true}, true},
		{"a limit is later", []Part{{Chunks: 100, Pace: ten}, {Chunks: 1000, Pace: ten, Bound: true}},
			Forecast{100 * time.Second, 200 * time.Second, 50 * time.Second, true}, true},
		{"a rule ends", []Part{{Chunks: 100, Pace: ten, From: time.Hour, Bound: true}},
			Forecast{time.Hour + 10*time.Second, time.Hour + 20*time.Second, time.Hour + 5*time.Second, true}, true},
		{"a part does not move", []Part{{Chunks: 100, Pace: ten}, {Chunks: 7, Stuck: true, Bound: true}},
			Forecast{P50: 10 * time.Second, P90: 20 * time.Second}, true},
		{"no part moves", []Part{{Chunks: 100}, {Chunks: 7, Stuck: true}}, Forecast{}, false},
		{"beyond a year", []Part{{Chunks: 1 << 60, Pace: ten}}, Forecast{P50: longest, P90: longest, Moving: true}, true},
	} {
		if got, moves := Of(c.parts); got != c.want || moves != c.moves {
			t.Errorf("%s: got %+v, moves %t, want %+v, %t", c.name, got, moves, c.want, c.moves)
		}
	}
}
