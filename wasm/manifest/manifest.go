package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quern-queue/quern/sdk/abi"
)

// Limits of a manifest.
const (
	MaxBytes         = 16 << 10
	MaxCounters      = 16
	MinWindow        = 16
	MaxWindow        = abi.MaxCapacity
	DefaultWindow    = 256
	MaxPages         = 1024 // 64 MiB
	DefaultPages     = 256  // 16 MiB: a Go guest dies at 4 MiB and lives at 8
	MaxFuelPerRow    = 1_000_000
	DefaultFuelEach  = 20_000
	maxNameBytes     = 64
	maxCounterBytes  = 48
	maxPeopleBytes   = 256
	maxVersionBytes  = 64
	maxVersionDigits = 9
)

// State says how much state one batch leaves for the next.
type State string

// The states: kept as the guest leaves it, restored after each batch, a new instance for each batch.
const (
	Pooled State = "pooled"
	Reset  State = "reset"
	Fresh  State = "fresh"
)

// Take is how chunks are taken from scored candidates.
type Take string

// All takes chunks of the best candidate until the request is full, Spread one of each candidate and pass.
const (
	All    Take = "all"
	Spread Take = "spread"
)

// Manifest is a valid manifest, with its defaults filled in.
type Manifest struct {
	Name    string
	Version string
	License string
	Author  string
	Home    string

	Columns  []abi.Column // candidate columns in order, then context columns
	Context  []string     // keys of the context columns, in order
	Counters []string
	Schema   *Schema // nil: the plugin takes no configuration
	State    State
	Take     Take

	WindowDefault    int // candidates of one batch
	WindowMax        int
	Pages            int // memory of an instance, in pages of 64 KiB
	FuelPerCandidate int // units of fuel that a batch gets per candidate
}

// Parse reads a manifest. When it is not valid the manifest is nil and the violations say everything that is wrong.
func Parse(raw []byte) (*Manifest, []Violation) {
	f := &findings{}
	if len(raw) > MaxBytes {
		f.add("", "has %d bytes; at most %d are allowed", len(raw), MaxBytes)
		return nil, f.list
	}
	tree, ok := parse(raw, f)
	if !ok {
		return nil, f.list
	}
	r := &reader{findings: f}
	m := r.manifest(tree)
	if len(f.list) > 0 {
		return nil, f.list
	}
	return m, nil
}

// reader takes typed members out of a tree and notes what does not fit.
type reader struct{ *findings }

func (r *reader) object(pointer string, v any, known ...string) map[string]any {
	object, ok := v.(map[string]any)
	if !ok {
		r.add(pointer, "must be an object")
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, key) {
			r.add(pointer+"/"+escape(key), "is not known; known are %s", strings.Join(known, ", "))
		}
	}
	return object
}

func (r *reader) text(object map[string]any, key string, required bool, limit int) string {
	v, given := object[key]
	if !given {
		if required {
			r.add("/"+key, "is missing")
		}
		return ""
	}
	text, ok := v.(string)
	if !ok || len(text) > limit || required && text == "" {
		r.add("/"+key, "must be a string of at most %d bytes", limit)
		return ""
	}
	return text
}

// whole reads a whole number of [low, high] under object[key]; fallback when it is not given.
func (r *reader) whole(pointer string, object map[string]any, key string, low, high, fallback int64) int {
	v, given := object[key]
	if !given {
		return int(fallback)
	}
	n, ok := v.(int64)
	if !ok || n < low || n > high {
		r.add(pointer+"/"+key, "must be a whole number from %d to %d", low, high)
		return int(fallback)
	}
	return int(n)
}

func (r *reader) list(object map[string]any, key string, limit int) []any {
	v, given := object[key]
	if !given {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		r.add("/"+key, "must be an array")
		return nil
	}
	if len(list) > limit {
		r.add("/"+key, "has %d elements; at most %d are allowed", len(list), limit)
		return nil
	}
	return list
}

var (
	known = []string{"name", "version", "abi", "columns", "context", "counters", "config_schema", "state",
		"take", "window", "needs", "license", "author", "home"}
	knownContext = []string{"key", "type"}
	knownWindow  = []string{"default", "max"}
	knownNeeds   = []string{"pages", "fuel_per_candidate"}
)

func (r *reader) manifest(tree any) *Manifest {
	o := r.object("", tree, known...)
	if o == nil {
		return nil
	}
	m := &Manifest{
		Name: r.text(o, "name", true, maxNameBytes), Version: r.text(o, "version", true, maxVersionBytes),
		License: r.text(o, "license", false, maxPeopleBytes), Author: r.text(o, "author", false, maxPeopleBytes),
		Home:  r.text(o, "home", false, maxPeopleBytes),
		State: Pooled, Take: All,
	}
	if m.Name != "" && !validName(m.Name, "-") {
		r.add("/name", "must be lower-case letters, digits and '-', a letter first")
	}
	if m.Version != "" && !validVersion(m.Version) {
		r.add("/version", "must be three numbers as in 1.2.3, optionally with a suffix of letters, digits, '.' and '-' as in 1.2.3-rc.1")
	}
	if n, ok := o["abi"].(int64); !ok || n != abi.Version {
		r.add("/abi", "must be %d, the only version that this server speaks", abi.Version)
	}
	r.columns(m, o)
	r.counters(m, o)
	m.State = State(r.oneOf(o, "state", string(Pooled), string(Reset), string(Fresh)))
	m.Take = Take(r.oneOf(o, "take", string(All), string(Spread)))
	r.numbers(m, o)
	if schema, given := o["config_schema"]; given {
		m.Schema = readSchema(schema, "/config_schema", r.findings)
	}
	return m
}

func (r *reader) oneOf(object map[string]any, key string, values ...string) string {
	v, given := object[key]
	if !given {
		return values[0]
	}
	if text, ok := v.(string); ok && slices.Contains(values, text) {
		return text
	}
	r.add("/"+key, "must be one of %s", strings.Join(values, ", "))
	return values[0]
}

func (r *reader) columns(m *Manifest, o map[string]any) {
	if _, given := o["columns"]; !given {
		r.add("/columns", "is missing; a plugin that reads nothing says []")
	}
	seen := map[string]bool{}
	for i, v := range r.list(o, "columns", abi.MaxColumns-abi.MaxContextKeys) {
		at := fmt.Sprintf("/columns/%d", i)
		name, ok := v.(string)
		if !ok {
			r.add(at, "must be a string")
			continue
		}
		c, known := abi.Candidate(name)
		if !known {
			r.add(at, "names no column: %.80q", name)
		} else if seen[name] {
			r.add(at, "names the column %s a second time", name)
		}
		seen[name] = true
		m.Columns = append(m.Columns, c)
	}
	for i, v := range r.list(o, "context", abi.MaxContextKeys) {
		at := fmt.Sprintf("/context/%d", i)
		entry := r.object(at, v, knownContext...)
		if entry == nil {
			continue
		}
		key, ok := entry["key"].(string)
		if !ok || !abi.ValidKey(key) {
			r.add(at+"/key", "must be a key of a reservation's context: 1 to 64 letters, digits, '_', '-' and '.'")
		} else if seen[abi.ContextPrefix+key] {
			r.add(at+"/key", "names the key %s a second time", key)
		}
		seen[abi.ContextPrefix+key] = true
		kind := map[any]abi.Type{"i64": abi.I64, "str": abi.Str}[hashable(entry["type"])]
		if kind == 0 {
			r.add(at+"/type", "must be i64 or str")
		}
		m.Context = append(m.Context, key)
		m.Columns = append(m.Columns, abi.Context(key, kind))
	}
}

// hashable keeps arrays and objects from being used as a map's key, which would panic.
func hashable(v any) any {
	text, _ := v.(string)
	return text
}

func (r *reader) counters(m *Manifest, o map[string]any) {
	for i, v := range r.list(o, "counters", MaxCounters) {
		at := fmt.Sprintf("/counters/%d", i)
		name, ok := v.(string)
		switch {
		case !ok || len(name) > maxCounterBytes || !validName(name, "_"):
			r.add(at, "must be a name of at most %d lower-case letters, digits and '_', a letter first", maxCounterBytes)
		case slices.Contains(m.Counters, name):
			r.add(at, "names the counter %s a second time", name)
		}
		m.Counters = append(m.Counters, name)
	}
}

func (r *reader) numbers(m *Manifest, o map[string]any) {
	window, needs := map[string]any{}, map[string]any{}
	if v, given := o["window"]; given {
		window = r.object("/window", v, knownWindow...)
	}
	if v, given := o["needs"]; given {
		needs = r.object("/needs", v, knownNeeds...)
	}
	m.WindowMax = r.whole("/window", window, "max", MinWindow, MaxWindow, MaxWindow)
	m.WindowDefault = r.whole("/window", window, "default", MinWindow, MaxWindow, int64(min(DefaultWindow, m.WindowMax)))
	if m.WindowDefault > m.WindowMax {
		r.add("/window/default", "is %d, over the max of %d", m.WindowDefault, m.WindowMax)
	}
	m.Pages = r.whole("/needs", needs, "pages", 1, MaxPages, DefaultPages)
	m.FuelPerCandidate = r.whole("/needs", needs, "fuel_per_candidate", 1, MaxFuelPerRow, DefaultFuelEach)
}

// validName says whether text is 1 or more lower-case letters, digits and extra, a letter first.
func validName(text, extra string) bool {
	for i, c := range []byte(text) {
		letter, digit := c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if !letter && (i == 0 || !digit && !strings.Contains(extra, string(rune(c)))) {
			return false
		}
	}
	return text != ""
}

func validVersion(text string) bool {
	numbers, suffix, hasSuffix := strings.Cut(text, "-")
	parts := strings.Split(numbers, ".")
	for _, part := range parts {
		if part == "" || len(part) > maxVersionDigits || strings.Trim(part, "0123456789") != "" || len(part) > 1 && part[0] == '0' {
			return false
		}
	}
	if hasSuffix && (suffix == "" || strings.Trim(strings.ToLower(suffix), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "") {
		return false
	}
	return len(parts) == 3
}

// maxModuleBytes bounds what Extract and Pack walk over; the pre-scan has its own, lower limit.
const maxModuleBytes = 64 << 20

// Extract gives the bytes of the module's manifest section, without running or checking anything else of it. It fails when the
// module is no WebAssembly, is cut short, or has no manifest or more than one.
func Extract(module []byte) ([]byte, error) {
	var found []byte
	n := 0
	err := sections(module, func(_, _ int, name string, content []byte) {
		if name == abi.ManifestSection {
			found = content
			n++
		}
	})
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, fmt.Errorf("manifest: the module has no section %s; put one in with `quern plugin pack`", abi.ManifestSection)
	case n > 1:
		return nil, fmt.Errorf("manifest: the module has %d sections %s; it must have one", n, abi.ManifestSection)
	}
	return found, nil
}

// Pack gives a copy of the module with this manifest, in place of any that it had. The manifest goes last, as every
// toolchain expects of custom sections.
func Pack(module, manifest []byte) ([]byte, error) {
	if len(manifest) > MaxBytes {
		return nil, fmt.Errorf("manifest: the manifest has %d bytes; at most %d are allowed", len(manifest), MaxBytes)
	}
	if len(module) < 8 {
		return nil, errNoModule
	}
	out := append(make([]byte, 0, len(module)+len(manifest)+32), module[:8]...)
	err := sections(module, func(from, to int, name string, _ []byte) {
		if name != abi.ManifestSection {
			out = append(out, module[from:to]...)
		}
	})
	if err != nil {
		return nil, err
	}
	body := binary.AppendUvarint(nil, uint64(len(abi.ManifestSection)))
	body = append(append(body, abi.ManifestSection...), manifest...)
	return append(binary.AppendUvarint(append(out, 0), uint64(len(body))), body...), nil
}

var errNoModule = errors.New("manifest: this is no WebAssembly module: it does not begin with \\0asm and version 1")

// sections calls visit for every section with its bytes' range; name and content are those of custom sections only.
func sections(module []byte, visit func(from, to int, name string, content []byte)) error {
	if len(module) > maxModuleBytes {
		return fmt.Errorf("manifest: the module has %d bytes; at most %d are read", len(module), maxModuleBytes)
	}
	if len(module) < 8 || string(module[:8]) != "\x00asm\x01\x00\x00\x00" {
		return errNoModule
	}
	for at := 8; at < len(module); {
		from, id := at, module[at]
		size, n := leb(module[at+1:])
		if n == 0 || uint64(size) > uint64(len(module)-at-1-n) {
			return fmt.Errorf("manifest: the section at byte %d is cut short or has a size that is no number", from)
		}
		body := module[at+1+n : at+1+n+int(size)]
		at += 1 + n + int(size)
		if id != 0 {
			visit(from, at, "", nil)
			continue
		}
		length, n := leb(body)
		if n == 0 || uint64(length) > uint64(len(body)-n) {
			return fmt.Errorf("manifest: the custom section at byte %d has a name that does not fit into it", from)
		}
		visit(from, at, string(body[n:n+int(length)]), body[n+int(length):])
	}
	return nil
}

// leb reads an unsigned number of at most 32 bits; n is 0 when there is none.
func leb(b []byte) (v uint32, n int) {
	number, n := binary.Uvarint(b[:min(len(b), 5)])
	if n <= 0 || number > math.MaxUint32 {
		return 0, 0
	}
	return uint32(number), n
}
