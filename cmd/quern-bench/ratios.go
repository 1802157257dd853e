package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/quern-queue/quern/cmd/quern-bench/rowsql"
)

var ratioNames = []string{"quern_p50/*", "rows_p50/*"}

// rowScale is how large a backlog the row engine can be asked about, and how long.
type rowScale struct {
	strategyScale
	patience time.Duration // of one reserve of the row engine; beyond it the reserve is ended, and counted as having taken so long
	budget   time.Duration // of one case of it
	samples  int
}

// The backlog of the ratios: 10^6 chunks in 10^4 submissions, one for each company.
var ratioScale = rowScale{
	strategyScale: strategyScale{
		submissions: 10_000, chunks: 100, companies: 10_000, sides: 50, head: 100_000, timing: timing{warm: 500, samples: 5000, hold: 50},
	},
	patience: 5 * time.Second, budget: 300 * time.Millisecond, samples: 500,
}

// ratioRun measures one case after the other, on Quern and on the row engine in turns.
type ratioRun struct {
	strategyRun
	scale rowScale
	rows  *rowsql.Engine
}

func ratioSuite(ctx context.Context, r *run) error { return ratioFigures(ctx, r, ratioScale) }

func ratioFigures(ctx context.Context, r *run, scale rowScale) error {
	r.progress(fmt.Sprintf("a row per chunk: %d submissions of %d chunks each", scale.submissions, scale.chunks))
	rows, err := rowsql.Open(filepath.Join(r.dir, "rows.db"), rand.Int64N)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := rows.Load(scale.submissions, scale.submission); err != nil {
		return err
	}
	r.progress("the same backlog in Quern")
	b, err := r.open(ctx, "strategies")
	if err != nil {
		return err
	}
	m := &ratioRun{strategyRun: strategyRun{run: r, bed: b, scale: scale.strategyScale}, scale: scale, rows: rows}
	defer func() { m.close() }()
	if err := b.insert(ctx, scale.submissions, scale.submission); err != nil {
		return err
	}
	for _, s := range append([]situation{{name: "every strategy", cases: strategyCases}}, scale.situations()...) {
		if err := m.compare(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

// compare measures the cases of one situation. The row engine, which has no views that could stand in the way, is brought into it
// once.
func (m *ratioRun) compare(ctx context.Context, s *situation) error {
	m.progress(s.name)
	kept, err := m.bringRows(s)
	if err != nil {
		return err
	}
	defer m.rows.Release(kept)
	for _, c := range s.cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		theirs, err := m.timeRows(c)
		if errors.Is(err, rowsql.ErrFair) {
			continue
		}
		if err == nil {
			err = m.bring(ctx, s)
		}
		if err != nil {
			return err
		}
		ours, err := m.measure(ctx, c)
		if err != nil {
			return err
		}
		m.add("quern_p50/"+c.name, micro(quantile(ours.sorted, 0.5)), "us")
		m.add("rows_p50/"+c.name, micro(quantile(theirs, 0.5)), "us")
		m.over("quern_p50/" + c.name)
	}
	return nil
}

// bringRows makes the situation in the row engine and returns what is held in it. It is no part of what is measured, so each
// strategy passes over the rows once.
func (m *ratioRun) bringRows(s *situation) (kept []rowsql.Chunk, err error) {
	for _, h := range s.held {
		plan, err := planOf(h.strategy)
		if err != nil {
			return nil, err
		}
		chunks, _, err := m.rows.Reserve(plan, h.n, func() bool { return false }, nil)
		if err != nil {
			return nil, err
		}
		if len(chunks) != h.n {
			return nil, fmt.Errorf("the row engine gave %d chunks by %s, not %d", len(chunks), h.strategy, h.n)
		}
		if h.back {
			defer m.rows.Release(chunks)
		} else {
			kept = append(kept, chunks...)
		}
	}
	return kept, nil
}

// timeRows reserves one chunk at a time and gives what it holds back now and then, outside the measured time. The first reserve
// finds cold pages and counts only when there is no time for another.
func (m *ratioRun) timeRows(c reserveCase) ([]time.Duration, error) {
	plan, err := planOf(c.strategy)
	if err != nil {
		return nil, err
	}
	hold := m.scale.timing.hold
	if c.lone {
		hold = 1
	}
	var times []time.Duration
	var held []rowsql.Chunk
	defer func() { m.rows.Release(held) }()
	for began := time.Now(); len(times) <= m.scale.samples && (len(times) == 0 || time.Since(began) < m.scale.budget); {
		started, before := time.Now(), len(held)
		got, ended, err := m.rows.Reserve(plan, 1, func() bool { return time.Since(started) > m.scale.patience }, held)
		if err != nil {
			return nil, err
		}
		times, held = append(times, time.Since(started)), got
		if !ended && (len(held) == before) != c.empty {
			return nil, fmt.Errorf("%s: the row engine gave %d chunks by %s", c.name, len(held)-before, c.strategy)
		}
		if len(held) >= hold {
			m.rows.Release(held)
			held = held[:0]
		}
	}
	if len(times) > 1 {
		times = times[1:]
	}
	slices.Sort(times)
	return times, nil
}
