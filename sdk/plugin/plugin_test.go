package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// boost is a small plugin with one of everything.
type boost struct {
	priority *I64Column
	attempts *U32Column
	tenant   *StrColumn
	warm     *ContextStrValue
	zone     *ContextI64Value
	seen     *Counter
	vip      uint32
	scorer   *Scorer
}

func newBoost(t *testing.T) *boost {
	t.Helper()
	b := &boost{priority: I64("priority"), attempts: U32("attempts"), tenant: Str("meta_str:tenant"), warm: ContextStr("warm"), zone: ContextI64("zone"), seen: NewCounter("seen")}
	scorer, err := newScorer(Plugin{
		Name: "boost", Version: "1.0.0", Columns: []Column{b.priority, b.attempts, b.tenant}, Context: []Column{b.warm, b.zone}, Counters: []*Counter{b.seen},
		ConfigSchema: `{"type":"object"}`, State: "reset", Take: "spread", Window: Window{Default: 64, Max: 128}, Needs: Needs{Pages: 32, FuelPerCandidate: 500},
		Init: func(s *Setup) error {
			if !bytes.Equal(s.Config, []byte("{}")) {
				return errors.New("boost: no configuration is known")
			}
			b.vip = s.Intern("acme")
			return nil
		},
		Score: b.score,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.scorer = scorer
	return b
}

func (p *boost) score(b *Batch) {
	zone, inZone := p.zone.Of(b)
	for i, priority := range p.priority.Of(b) {
		s := float64(priority) - float64(p.attempts.Of(b)[i])
		switch tenant := p.tenant.Of(b)[i]; {
		case !p.tenant.Valid(b)[i]:
			b.Skip(i)
			continue
		case tenant == p.vip:
			s += 100
		case tenant == p.warm.Of(b):
			s += 10
		}
		if inZone {
			s += float64(zone)
		}
		b.Scores()[i] = s
		p.seen.Add(1)
	}
	b.Log(Info, "tenant "+string(b.Text(nil, p.vip)))
}

// The scorer that runs in the sandbox runs natively, on batches that tests build.
func TestNativeScore(t *testing.T) {
	t.Parallel()
	p := newBoost(t)
	if err := p.scorer.Init(nil); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	p.scorer.LogTo(&log)
	rows := NewBatch(4).I64("priority", 1, 2, 3, 4).U32("attempts", 0, 1, 0, 0).Str("meta_str:tenant", "acme", "other", "third", "acme").Absent("meta_str:tenant", 3)
	got, err := p.scorer.Score(rows)
	if err != nil || got[0] != 101 || got[1] != 1 || got[2] != 3 || !math.IsNaN(got[3]) {
		t.Errorf("got %v %v, want 101, 1, 3, NaN", got, err)
	}
	got, err = p.scorer.Score(rows.ContextStr("warm", "third").ContextI64("zone", 1000).At(7).Seeded(8).Wanting(9))
	if err != nil || got[0] != 1101 || got[1] != 1001 || got[2] != 1013 {
		t.Errorf("with a context: got %v %v, want 1101, 1001, 1013", got, err)
	}
	if n := p.scorer.Count(p.seen); n != 6 {
		t.Errorf("counted %v, want 6", n)
	}
	if log.String() != "1 tenant acme\n1 tenant acme\n" {
		t.Errorf("logged %q", log.String())
	}
}

// Scoring allocates nothing.
func TestScoreAllocatesNothing(t *testing.T) {
	p := newBoost(t)
	if err := p.scorer.Init(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.scorer.Score(NewBatch(2).I64("priority", 1, 2).U32("attempts", 0, 1).Str("meta_str:tenant", "a", "b")); err != nil {
		t.Fatal(err)
	}
	b := &p.scorer.batch
	if n := testing.AllocsPerRun(100, func() {
		for i := range p.priority.Of(b) {
			b.Scores()[i] = float64(p.attempts.Of(b)[i]) + float64(p.tenant.Of(b)[i]) + float64(p.warm.Of(b))
		}
	}); n != 0 {
		t.Errorf("%v allocations per batch, want 0", n)
	}
}

// Native runs refuse batches that the host would never send.
func TestNativeScoreRefuses(t *testing.T) {
	t.Parallel()
	p := newBoost(t)
	good := func() *Rows {
		return NewBatch(1).I64("priority", 1).U32("attempts", 0).Str("meta_str:tenant", "a")
	}
	for want, rows := range map[string]*Rows{
		"lacks the column attempts": NewBatch(1).I64("priority", 1).Str("meta_str:tenant", "a"),
		"has 2 values, want 1":      good().I64("priority", 1, 2),
		"is of type i64":            good().U32("priority", 1),
		"is of type str":            good().U32("meta_str:tenant", 1),
		"does not declare":          good().I64("age_ms", 1),
		"row 1 of the column":       good().Absent("meta_str:tenant", 1),
		"context.zone is of type":   good().ContextStr("zone", "x"),
	} {
		if got, err := p.scorer.Score(rows); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v %v, want an error that says %q", got, err, want)
		}
	}
	p.scorer.plugin.Score = func(*Batch) {}
	if _, err := p.scorer.Score(good()); err == nil || !strings.Contains(err.Error(), "no score at all") {
		t.Errorf("a scorer that writes nothing: got %v", err)
	}
	if err := p.scorer.Init([]byte(`{"a":1}`)); err == nil {
		t.Error("a configuration that Init refuses was accepted")
	}
}

// Wrong declarations are found before anything runs.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	score := func(*Batch) {}
	twice := I64("priority")
	for want, p := range map[string]Plugin{
		"Score is missing":    {},
		"no column is called": {Score: score, Columns: []Column{I64("prio")}},
		"is of type i64":      {Score: score, Columns: []Column{U32("priority")}},
		"is declared twice":   {Score: score, Columns: []Column{twice, twice}},
		"wrong list":          {Score: score, Columns: []Column{ContextI64("zone")}},
		"stands in the wrong": {Score: score, Context: []Column{I64("age_ms")}},
		"is no context key":   {Score: score, Context: []Column{ContextI64("a b")}},
	} {
		if _, err := newScorer(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
}

// The manifest says what was declared.
func TestManifest(t *testing.T) {
	t.Parallel()
	var got, want any
	if err := json.Unmarshal(newBoost(t).scorer.Manifest(), &got); err != nil {
		t.Fatal(err)
	}
	text := `{"name":"boost","version":"1.0.0","abi":1,"columns":["priority","attempts","meta_str:tenant"],"context":[{"key":"warm","type":"str"},{"key":"zone","type":"i64"}],
		"counters":["seen"],"config_schema":{"type":"object"},"state":"reset","take":"spread","window":{"default":64,"max":128},"needs":{"pages":32,"fuel_per_candidate":500}}`
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if !bytes.Equal(a, b) {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}
