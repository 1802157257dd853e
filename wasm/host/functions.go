package host

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"unicode/utf16"

	"github.com/tetratelabs/wazero/api"

	"github.com/quern-queue/quern/sdk/abi"
)

// Prices of the host's work for a guest, in units of fuel: a call, and each byte on top of it. Without them a guest could let the host
// work for it, where no fuel is counted.
const callPrice = 100

// tickEvery is how much host work may go between two looks at the deadline.
const tickEvery = 200_000

// guestCall is one call of the guest to the host: the instance, its memory, arguments and, in their place, the result.
type guestCall struct {
	*instance
	memory api.Memory
	stack  []uint64
}

func (g *guestCall) u32(k int) uint32 { return uint32(g.stack[k]) }

// function is one import. shape is what it takes and gives, as in scan ('i' i32, 'I' i64, 'd' f64).
type function struct {
	module, name, shape string
	do                  func(*guestCall)
}

// offer puts all functions that a module may import into the version's runtime, if no other version that shares it has.
func (v *Version) offer() error {
	modules := map[string][]function{}
	for _, list := range [][]function{quernFunctions(), wasiFunctions()} {
		for _, f := range list {
			modules[f.module] = append(modules[f.module], f)
		}
	}
	for name, list := range modules {
		if v.compiled.Runtime.Module(name) != nil {
			continue
		}
		b := v.compiled.Runtime.NewHostModuleBuilder(name)
		for _, f := range list {
			params, results := parseShape(f.shape)
			b.NewFunctionBuilder().WithGoModuleFunction(guarded(f.do), params, results).Export(f.name)
		}
		if _, err := b.Instantiate(v.ctx); err != nil {
			return fmt.Errorf("functions of %s: %w", name, err)
		}
	}
	return nil
}

func parseShape(shape string) (params, results []api.ValueType) {
	into := &params
	for _, c := range shape {
		switch c {
		case 'i':
			*into = append(*into, api.ValueTypeI32)
		case 'I':
			*into = append(*into, api.ValueTypeI64)
		case 'd':
			*into = append(*into, api.ValueTypeF64)
		case ':':
			into = &results
		}
	}
	return params, results
}

// guarded finds the instance and charges for the call.
func guarded(do func(*guestCall)) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		i := ctx.Value(instanceKey{}).(*instance)
		i.charge(callPrice)
		do(&guestCall{i, m.Memory(), stack})
	}
}

// charge takes units for the host's work, and looks at the deadline now and then.
func (i *instance) charge(units int64) {
	c := &i.call
	c.hostFuel -= units
	if c.hostFuel < 0 {
		i.fail(&Fault{Kind: Fuel, Detail: "the host did too much for it"})
	}
	if c.owed += units; c.owed >= tickEvery {
		c.owed = 0
		i.tick()
	}
}

// yieldEvery is after how many ticks, which is about a millisecond, a guest lets others have its processor: the scheduler takes it from a
// guest after 10 ms only, and with guests on every processor a request to the server waited that long at each step.
const yieldEvery = 5

// tick is called by the guest at the end of each slice of fuel.
func (i *instance) tick() {
	c, o := &i.call, &i.version.options
	if c.ticks++; c.ticks%yieldEvery == 0 {
		runtime.Gosched()
	}
	switch {
	case o.Clock()-c.began > c.deadline:
		i.fail(&Fault{Kind: Deadline, Detail: fmt.Sprintf("more than %v", c.deadline)})
	case c.ctx.Err() != nil:
		i.fail(&Fault{Kind: Stopped, Detail: "the caller gave up"})
	case o.Stop != nil && o.Stop():
		i.fail(&Fault{Kind: Stopped, Detail: "the server is stopping"})
	}
}

// fail ends the guest: the engine turns the panic into the error of the call.
func (i *instance) fail(f *Fault) {
	i.call.fault = f
	panic(f)
}

// bytes gives n bytes of the guest's memory and charges for them; outside of the memory it ends the guest.
func (g *guestCall) bytes(what string, at, n uint32) []byte {
	g.charge(int64(n))
	b, ok := g.memory.Read(at, n)
	if !ok {
		g.fail(&Fault{Kind: Trap, Detail: fmt.Sprintf("%s: %d bytes at %d are outside of the memory", what, n, at)})
	}
	return b
}

func quernFunctions() []function {
	const m = abi.HostModule
	return []function{
		{m, "tick", ":", func(g *guestCall) { g.tick() }},
		{m, "log", "iii:", func(g *guestCall) {
			g.call.log.add(int(int32(g.u32(0))), g.bytes("log", g.u32(1), g.u32(2)))
		}},
		{m, "log_enabled", "i:i", func(g *guestCall) {
			enabled := g.call.log.enabled(int(int32(g.u32(0))))
			g.stack[0] = 0
			if enabled {
				g.stack[0] = 1
			}
		}},
		{m, "metric_add", "id:", metricAdd},
		{m, "intern", "iii:i", intern},
		{m, "str", "iii:i", str},
		{"env", "abort", "iiii:", abort},
	}
}

func metricAdd(g *guestCall) {
	c, id, v := &g.call, g.u32(0), api.DecodeF64(g.stack[1])
	if uint64(id) >= uint64(len(c.counters)) || !(v >= 0) || v > math.MaxFloat64 {
		return
	}
	c.counted = true
	if sum := c.counters[id] + v; sum <= math.MaxFloat64 {
		c.counters[id] = sum
	}
}

// intern gives the id of a string for the life of the instance. It gives ids only during the start: later ids would depend on the batches
// that the instance scored before. Without an id the answer is 0.
func intern(g *guestCall) {
	column, at, n := g.u32(0), g.u32(1), g.u32(2)
	columns := g.version.layout.Columns
	if !g.call.starting || n > abi.MaxStringBytes || uint64(column) >= uint64(len(columns)) || columns[column].Type != abi.Str {
		g.stack[0] = 0
		return
	}
	g.stack[0] = uint64(g.words.intern(string(g.bytes("intern", at, n))))
}

// str copies the string of an id, as much as fits, and gives its whole length; -1 when there is no such id.
func str(g *guestCall) {
	text, known := g.words.text(g.u32(0))
	if !known {
		g.stack[0] = uint64(math.MaxUint32)
		return
	}
	copy(g.bytes("str", g.u32(1), min(g.u32(2), uint32(len(text)))), text)
	g.stack[0] = uint64(len(text))
}

// abort is how AssemblyScript ends: message and file are strings of its own, UTF-16 with the size in bytes before them.
func abort(g *guestCall) {
	detail := fmt.Sprintf("abort: %s (%s:%d:%d)", wide(g.memory, g.u32(0)), wide(g.memory, g.u32(1)), g.u32(2), g.u32(3))
	g.fail(&Fault{Kind: Trap, Detail: detail})
}

func wide(memory api.Memory, at uint32) string {
	if at < 4 {
		return ""
	}
	size, _ := memory.ReadUint32Le(at - 4)
	b, ok := memory.Read(at, min(size, 1024)&^1)
	if !ok {
		return ""
	}
	units := make([]uint16, len(b)/2)
	for k := range units {
		units[k] = uint16(b[2*k]) | uint16(b[2*k+1])<<8
	}
	return clean([]byte(string(utf16.Decode(units))), 1024)
}

// Line is one line that a guest logged. Its text is valid UTF-8 without control characters.
type Line struct {
	Level int // abi.LevelDebug to abi.LevelError
	Text  string
}

// log keeps the lines of one call.
type log struct {
	level, maxLines, maxBytes int
	lines                     []Line
	dropped                   int
	written                   [3][]byte // by file descriptor: an unfinished line on stdout and stderr
}

func (l *log) begin(level, lines, size int) {
	*l = log{level: level, maxLines: lines, maxBytes: size}
}

func (l *log) enabled(level int) bool { return level >= l.level && len(l.lines) < l.maxLines }

// add keeps a line if there is room.
func (l *log) add(level int, text []byte) {
	level = min(max(level, abi.LevelDebug), abi.LevelError)
	if level < l.level {
		return
	}
	if len(l.lines) >= l.maxLines {
		l.dropped++
		return
	}
	l.lines = append(l.lines, Line{level, clean(text, l.maxBytes)})
}

// clean cuts text to size bytes and replaces what could break a terminal or a log.
func clean(text []byte, size int) string {
	if len(text) > size {
		text = text[:size]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
}

// write takes the guest's output to stdout (as information) or stderr (as warnings), line by line.
func (l *log) write(fd uint32, p []byte) {
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		p = rest
		room := max(0, l.maxBytes-len(l.written[fd]))
		l.written[fd] = append(l.written[fd], line[:min(len(line), room)]...)
		if ended {
			l.flush(fd)
		}
	}
}

func (l *log) flush(fd uint32) {
	if len(l.written[fd]) > 0 {
		l.add(int(fd), l.written[fd]) // stdout is 1 as LevelInfo is, stderr 2 as LevelWarn is
		l.written[fd] = l.written[fd][:0]
	}
}

// end gives the lines; the next call begins with none.
func (l *log) end() ([]Line, int) {
	l.flush(1)
	l.flush(2)
	return l.lines, l.dropped
}

// last is the last line so far, which mostly says what went wrong.
func (l *log) last() string {
	l.flush(1)
	l.flush(2)
	return lastOf(l.lines)
}

func lastOf(lines []Line) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1].Text
}
