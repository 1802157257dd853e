package plugin

import (
	"errors"
	"strconv"

	"github.com/quern-queue/quern/sdk/abi"
)

// Plugin declares a plugin: its manifest and its functions.
type Plugin struct {
	Name    string // 1 to 64 of a-z 0-9 -, a letter first
	Version string // 1.2.3, optionally with -suffix
	License string // for people, as are Author and Home
	Author  string
	Home    string

	Columns  []Column   // the columns that Score reads of each candidate; undeclared columns cost nothing
	Context  []Column   // the columns that Score reads of the reservation's context
	Counters []*Counter // at most 16

	ConfigSchema string // JSON Schema of the configuration (the subset that manifest.Schema of the server lists); "" takes none
	State        string // "pooled" (default), "reset" or "fresh": how much state one batch leaves for the next
	Take         string // "all" (default) or "spread": chunks of the best candidate until the request is full, or one of each
	Window       Window
	Needs        Needs

	// Init gets the configuration once per instance, before any batch; an error refuses the configuration. Optional.
	Init func(*Setup) error
	// Score writes one score per candidate: larger goes first, NaN skips. Candidates without a score are skipped and counted.
	Score func(*Batch)
}

// Window is how many candidates one batch may have; zeroes leave both to the host.
type Window struct{ Default, Max int }

// Needs tells the host the known needs of the plugin; zeroes are the host's defaults.
type Needs struct {
	Pages            int // memory, in pages of 64 KiB
	FuelPerCandidate int // units of fuel
}

// Setup is the argument of Init.
type Setup struct {
	Config []byte // JSON that satisfies ConfigSchema, in canonical form; "{}" when nothing is configured
	scorer *Scorer
}

// Intern gives the id that every string column will carry for text, for the life of the instance: compare ids instead of
// strings. 0 means that the dictionary is full (4,096 strings), and equals no string.
func (s *Setup) Intern(text string) uint32 { return s.scorer.host.intern(s.scorer.anyString(), text) }

// Scorer is a registered plugin. Tests call its methods natively; inside the sandbox the host does.
type Scorer struct {
	plugin  Plugin
	columns []abi.Column // candidate columns, then context columns
	batch   Batch
	host    host
}

// host is the other side of the imports: the sandbox's, or in native runs one that keeps the dictionary itself.
type host interface {
	log(level int, text string)
	logEnabled(level int) bool
	add(counter int, v float64)
	intern(column int, text string) uint32
	text(id uint32, buf []byte) int
}

// slot holds the one plugin of a module. The exported functions of a module have no receiver, so there is no other place for it.
type slot struct{ scorer *Scorer }

var registered = &slot{}

func (s *slot) put(scorer *Scorer) {
	if s.scorer != nil {
		panic("plugin: Register is called twice; a module holds one plugin")
	}
	s.scorer = scorer
}

// Register declares the plugin of this module, once, from the initialiser of a package variable. It panics, which fails build
// checks and tests alike, when a column has a name that does not exist or another type, or stands in two lists.
func Register(p Plugin) *Scorer {
	s, err := newScorer(p)
	if err != nil {
		panic(err.Error())
	}
	registered.put(s)
	return s
}

func newScorer(p Plugin) (*Scorer, error) {
	s := &Scorer{plugin: p, host: newHost()}
	if p.Score == nil {
		return nil, errors.New("plugin: Score is missing")
	}
	for _, list := range []struct {
		columns []Column
		context bool
	}{{p.Columns, false}, {p.Context, true}} {
		for _, c := range list.columns {
			if err := s.join(c.handle(), list.context); err != nil {
				return nil, err
			}
		}
	}
	if len(s.columns) > abi.MaxColumns {
		return nil, errors.New("plugin: more than 64 columns are declared")
	}
	for i, c := range p.Counters {
		c.id, c.host = i, s.host
	}
	s.batch.columns = make([]data, len(s.columns))
	s.batch.host = s.host
	return s, nil
}

func (s *Scorer) join(c *column, context bool) error {
	switch {
	case c.index >= 0:
		return errors.New("plugin: column " + c.Name + " is declared twice")
	case context != c.Single:
		return errors.New("plugin: column " + c.Name +
			" stands in the wrong list: candidates' columns go to Columns, those of the context to Context")
	case !context:
		known, ok := abi.Candidate(c.Name)
		if !ok {
			return errors.New("plugin: no column is called " + c.Name)
		}
		if known.Type != c.Type {
			return errors.New("plugin: column " + c.Name + " is of type " + known.Type.String() + ", not " + c.Type.String())
		}
		c.Column = known
	case !abi.ValidKey(c.Name[len(abi.ContextPrefix):]):
		return errors.New("plugin: " + c.Name + " is no context key")
	}
	c.index = len(s.columns)
	s.columns = append(s.columns, c.Column)
	return nil
}

// anyString is the index of some string column: interning wants one, although all share their ids.
func (s *Scorer) anyString() int {
	for i, c := range s.columns {
		if c.Type == abi.Str {
			return i
		}
	}
	return -1
}

// start runs Init.
func (s *Scorer) start(config []byte) error {
	if s.plugin.Init == nil {
		return nil
	}
	return s.plugin.Init(&Setup{Config: config, scorer: s})
}

// Counter is a number that the host adds up over all instances and shows as a metric.
type Counter struct {
	name string
	id   int
	host host
}

// NewCounter makes a counter of that name (a-z 0-9 _, a letter first, at most 48 bytes); it goes into Plugin.Counters.
func NewCounter(name string) *Counter { return &Counter{name: name, id: -1} }

// Add adds v, which is finite and not negative; other values are dropped.
func (c *Counter) Add(v float64) {
	if c.host != nil {
		c.host.add(c.id, v)
	}
}

// Level is how much a log line matters.
type Level int

// The levels.
const (
	Debug Level = abi.LevelDebug
	Info  Level = abi.LevelInfo
	Warn  Level = abi.LevelWarn
	Error Level = abi.LevelError
)

// Log writes one line to the plugin's log. The host keeps 1 KiB of it and 32 lines per batch.
func (b *Batch) Log(level Level, text string) { b.host.log(int(level), text) }

// LogEnabled says whether lines of that level are kept, so that one need not build them for nothing.
func (b *Batch) LogEnabled(level Level) bool { return b.host.logEnabled(int(level)) }

// Log writes one line to the plugin's log, as Batch.Log does.
func (s *Setup) Log(level Level, text string) { s.scorer.host.log(int(level), text) }

// Number is the number under a key of the configuration, or otherwise when there is none. The configuration has been checked
// against ConfigSchema. For more than single values use a JSON parser, which makes the module 1.4 MB larger.
func (s *Setup) Number(key string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(member(s.Config, key), 64); err == nil {
		return v
	}
	return otherwise
}

// Text is the string under a key of the configuration, or otherwise when there is none.
func (s *Setup) Text(key, otherwise string) string {
	if v, err := strconv.Unquote(member(s.Config, key)); err == nil {
		return v
	}
	return otherwise
}

// Truth is the truth value under a key of the configuration, or otherwise when there is none.
func (s *Setup) Truth(key string, otherwise bool) bool {
	switch member(s.Config, key) {
	case "true":
		return true
	case "false":
		return false
	}
	return otherwise
}

// member is the text of the value under a key of the object that config is, "" when there is none. The key has no escapes.
func member(config []byte, key string) string {
	depth, from, wanted := 0, 0, false
	for at := 0; at < len(config); at++ {
		switch config[at] {
		case '"':
			start := at
			for at++; at < len(config) && config[at] != '"'; at++ {
				if config[at] == '\\' {
					at++
				}
			}
			if depth == 1 && from < 0 && at < len(config) {
				wanted = string(config[start+1:at]) == key
			}
		case '{', '[':
			if depth++; depth == 1 {
				from = -1
			}
		case ':':
			if depth == 1 {
				from = at + 1
			}
		case ',', '}', ']':
			if depth == 1 && wanted && from >= 0 {
				return trimmed(config[from:at])
			}
			if depth == 1 {
				from = -1
			}
			if config[at] != ',' {
				depth--
			}
		}
	}
	return ""
}

func trimmed(text []byte) string {
	space := func(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
	for len(text) > 0 && space(text[0]) {
		text = text[1:]
	}
	for len(text) > 0 && space(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return string(text)
}
