//go:build !wasip1

package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/quern-queue/quern/sdk/abi"
)

// Main is for the main function of a plugin: run natively, it prints the manifest, which `quern plugin pack` puts into the
// module.
func Main() {
	if registered.scorer == nil {
		fmt.Fprintln(os.Stderr, "plugin: Register was not called; call it in the initialiser of a package variable")
		os.Exit(1)
	}
	if _, err := os.Stdout.Write(append(registered.scorer.Manifest(), '\n')); err != nil {
		os.Exit(1)
	}
}

// bench is the host of native runs: a dictionary, counters, and a writer for the log.
type bench struct {
	ids      map[string]uint32
	texts    []string
	counters map[int]float64
	out      io.Writer
}

func newHost() host {
	return &bench{ids: map[string]uint32{}, counters: map[int]float64{}, out: io.Discard}
}

func (h *bench) log(level int, text string) { fmt.Fprintf(h.out, "%d %s\n", level, text) }
func (h *bench) logEnabled(int) bool        { return h.out != io.Discard }
func (h *bench) add(counter int, v float64) {
	if v >= 0 && !math.IsInf(v, 1) {
		h.counters[counter] += v
	}
}

func (h *bench) intern(_ int, text string) uint32 {
	id, known := h.ids[text]
	if !known {
		h.texts = append(h.texts, text)
		id = uint32(len(h.texts))
		h.ids[text] = id
	}
	return id
}

func (h *bench) text(id uint32, buf []byte) int {
	if id == 0 || int(id) > len(h.texts) {
		return -1
	}
	copy(buf, h.texts[id-1])
	return len(h.texts[id-1])
}

// Manifest is the plugin's manifest as JSON.
func (s *Scorer) Manifest() []byte {
	type key struct {
		Key  string `json:"key"`
		Type string `json:"type"`
	}
	type window struct {
		Default int `json:"default,omitempty"`
		Max     int `json:"max,omitempty"`
	}
	type needs struct {
		Pages            int `json:"pages,omitempty"`
		FuelPerCandidate int `json:"fuel_per_candidate,omitempty"`
	}
	p := &s.plugin
	m := struct {
		Name         string          `json:"name"`
		Version      string          `json:"version"`
		ABI          int             `json:"abi"`
		License      string          `json:"license,omitempty"`
		Author       string          `json:"author,omitempty"`
		Home         string          `json:"home,omitempty"`
		Columns      []string        `json:"columns"`
		Context      []key           `json:"context,omitempty"`
		Counters     []string        `json:"counters,omitempty"`
		ConfigSchema json.RawMessage `json:"config_schema,omitempty"`
		State        string          `json:"state,omitempty"`
		Take         string          `json:"take,omitempty"`
		Window       *window         `json:"window,omitempty"`
		Needs        *needs          `json:"needs,omitempty"`
	}{Name: p.Name, Version: p.Version, ABI: abi.Version, License: p.License, Author: p.Author, Home: p.Home,
		Columns: []string{}, ConfigSchema: json.RawMessage(p.ConfigSchema), State: p.State, Take: p.Take}
	for _, c := range s.columns {
		if c.Single {
			m.Context = append(m.Context, key{c.Name[len(abi.ContextPrefix):], c.Type.String()})
		} else {
			m.Columns = append(m.Columns, c.Name)
		}
	}
	for _, c := range p.Counters {
		m.Counters = append(m.Counters, c.name)
	}
	if p.Window != (Window{}) {
		m.Window = &window{p.Window.Default, p.Window.Max}
	}
	if p.Needs != (Needs{}) {
		m.Needs = &needs{p.Needs.Pages, p.Needs.FuelPerCandidate}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic("plugin: ConfigSchema is no JSON: " + err.Error())
	}
	return text
}

// Init runs the plugin's Init natively, as the host does once per instance; call it once, before Score. nil stands for "{}".
func (s *Scorer) Init(config []byte) error {
	if config == nil {
		config = []byte("{}")
	}
	return s.start(config)
}

// LogTo sends the lines that the plugin logs in native runs to w; without it they are dropped.
func (s *Scorer) LogTo(w io.Writer) { s.host.(*bench).out = w }

// Count is the sum that the plugin added to a counter in native runs.
func (s *Scorer) Count(c *Counter) float64 { return s.host.(*bench).counters[c.id] }

// Score scores a batch natively: one score per candidate, NaN for those that are skipped or left unwritten. It fails, as the
// host would, when a declared column is missing or has another number of rows, and when nothing was written at all.
func (s *Scorer) Score(r *Rows) ([]float64, error) {
	b := &s.batch
	b.header, b.rows = r.header, int(r.header.Rows)
	for i, c := range s.columns {
		d, err := r.data(c, s.host)
		if err != nil {
			return nil, err
		}
		b.columns[i] = d
	}
	for name := range r.values {
		if !s.declares(strings.TrimPrefix(name, "absent ")) {
			return nil, errors.New("plugin: the batch has the column " + name + ", which the plugin does not declare: it would not get it")
		}
	}
	b.scores = make([]float64, b.rows)
	for i := range b.scores {
		b.scores[i] = math.Float64frombits(abi.NotWritten)
	}
	s.plugin.Score(b)
	written := b.rows == 0
	for _, score := range b.scores {
		written = written || !abi.IsNotWritten(score)
	}
	if !written {
		return nil, errors.New("plugin: Score wrote no score at all; the host takes that for a fault")
	}
	return b.scores, nil
}

func (s *Scorer) declares(name string) bool {
	for _, c := range s.columns {
		if c.Name == name {
			return true
		}
	}
	return false
}
