package manifest_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/abi"
	"github.com/quern-queue/quern/wasm/manifest"
)

const whole = `{"name":"deadline-first","version":"1.2.0-rc.1","abi":1,"license":"MIT","author":"A","home":"https://example.com",
"columns":["priority","meta_i64:deadline_ms","inflight:tenant"],"context":[{"key":"warm_model","type":"str"},{"key":"zone","type":"i64"}],
"counters":["warm_hits"],"config_schema":{"type":"object","properties":{"weight":{"type":"number","minimum":0,"default":1}}},
"state":"reset","take":"spread","window":{"default":64,"max":512},"needs":{"pages":64,"fuel_per_candidate":2000}}`

func pointers(violations []manifest.Violation) (out []string) {
	for _, v := range violations {
		out = append(out, v.Pointer)
	}
	slices.Sort(out)
	return out
}

// A manifest with everything is read as it stands.
func TestParse(t *testing.T) {
	t.Parallel()
	got, violations := manifest.Parse([]byte(whole))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	if got.Schema == nil {
		t.Fatal("the schema is missing")
	}
	got.Schema = nil
	want := &manifest.Manifest{
		Name: "deadline-first", Version: "1.2.0-rc.1", License: "MIT", Author: "A", Home: "https://example.com",
		Columns: []abi.Column{
			{Name: "priority", Type: abi.I64}, {Name: "meta_i64:deadline_ms", Type: abi.I64, Nullable: true}, {Name: "inflight:tenant", Type: abi.U32},
			abi.Context("warm_model", abi.Str), abi.Context("zone", abi.I64),
		},
		Context: []string{"warm_model", "zone"}, Counters: []string{"warm_hits"}, State: manifest.Reset, Take: manifest.Spread,
		WindowDefault: 64, WindowMax: 512, Pages: 64, FuelPerCandidate: 2000,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The smallest manifest has the defaults.
func TestDefaults(t *testing.T) {
	t.Parallel()
	got, violations := manifest.Parse([]byte(`{"name":"x","version":"0.0.1","abi":1,"columns":[]}`))
	want := &manifest.Manifest{
		Name: "x", Version: "0.0.1", State: manifest.Pooled, Take: manifest.All,
		WindowDefault: 256, WindowMax: abi.MaxCapacity, Pages: 256, FuelPerCandidate: 20_000,
	}
	if len(violations) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v\nwant %+v", got, violations, want)
	}
	got, violations = manifest.Parse([]byte(`{"name":"x","version":"0.0.1","abi":1,"columns":[],"window":{"max":32}}`))
	if len(violations) > 0 || got.WindowDefault != 32 {
		t.Errorf("a small max: got %+v %v, want a default of 32", got, violations)
	}
}

// All that is wrong is said at once, each with its place.
func TestViolations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`: "[]", `{`: "[]", `{} {}`: "[]", "{\"name\":\"\xff\"}": "[]", strings.Repeat(" ", 16<<10+1): "[]",
		`{}`: "[/abi /columns /name /version]",
		`{"name":"A b","version":"1.2","abi":2,"columns":["nope","priority","priority",1],"colums":[],"state":"x","take":1}`:                        "[/abi /columns/0 /columns/2 /columns/3 /colums /name /state /take /version]",
		`{"name":"x","name":"y","version":"1.0.0","abi":1,"columns":[]}`:                                                                            "[/name]",
		`{"name":"x","version":"01.0.0","abi":1,"columns":[],"license":1}`:                                                                          "[/license /version]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"context":[{"key":"a"},{"key":"b c","type":"i64"},7,{"key":"a","type":["i64"],"x":1}]}`: "[/context/0/type /context/1/key /context/2 /context/3/key /context/3/type /context/3/x]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"counters":["a","a","B",` + strings.Repeat(`"c",`, 14) + `"d"]}`:                        "[/counters]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"counters":["a","a","B"]}`:                                                              "[/counters/1 /counters/2]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"window":{"default":512,"max":64},"needs":{"pages":0,"fuel":1}}`:                        "[/needs/fuel /needs/pages /window/default]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"window":{"max":15.5},"needs":7}`:                                                       "[/needs /window/max]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"config_schema":{"type":"string"}}`:                                                     "[/config_schema/type]",
		`{"name":"x","version":"1.0.0","abi":1,"columns":[],"config_schema":{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"string","minimum":1},
			"c":{"type":"integer","minimum":5,"maximum":2},"d":{"type":"integer","minimum":5,"default":1},"e/f":{"pattern":"x","type":"string"},"g":{"type":"string","enum":[]}},"required":["a","zz","a"]}}`: "[/config_schema/properties/a/type /config_schema/properties/b/minimum /config_schema/properties/c/minimum /config_schema/properties/d/default /config_schema/properties/e~1f/pattern /config_schema/properties/g/enum /config_schema/required/1 /config_schema/required/2]",
	} {
		got, violations := manifest.Parse([]byte(text))
		if fmt.Sprint(pointers(violations)) != want || got != nil {
			t.Errorf("%.200s\ngot  %v %v\nwant %s", text, got, violations, want)
		}
		for _, v := range violations {
			if v.Detail == "" {
				t.Errorf("%.100s: a violation says nothing: %+v", text, v)
			}
		}
	}
}

func schema(t testing.TB, text string) *manifest.Schema {
	t.Helper()
	m, violations := manifest.Parse([]byte(`{"name":"x","version":"1.0.0","abi":1,"columns":[],"config_schema":` + text + `}`))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return m.Schema
}

const tenants = `{"type":"object","required":["mode","limits"],"additionalProperties":false,"properties":{
"mode":{"type":"string","enum":["fast","fair"],"default":"fair"},
"limits":{"type":"object","properties":{"max":{"type":"integer","minimum":1,"maximum":9007199254740993},"ratio":{"type":"number","maximum":0.5,"default":0.25}}},
"weights":{"type":"object","additionalProperties":{"type":"number","minimum":0}},"debug":{"type":"boolean"}}}`

// Equal configurations have equal bytes, with their defaults.
func TestConfigCanonical(t *testing.T) {
	t.Parallel()
	s := schema(t, tenants)
	for text, want := range map[string]string{
		`{"limits":{}}`: `{"limits":{"ratio":0.25},"mode":"fair"}`,
		` { "mode" : "fast", "limits": {"max": 1e1, "ratio": 0.50, "other": [1, null, "<\u0041>"]}, "weights":{"b":2.0,"a":0.1} } `: `{"limits":{"max":10,"other":[1,null,"<A>"],"ratio":0.5},"mode":"fast","weights":{"a":0.1,"b":2}}`,
		`{"limits":{"max":9007199254740993}}`: `{"limits":{"max":9007199254740993,"ratio":0.25},"mode":"fair"}`,
	} {
		got, violations := manifest.ValidateConfig(s, []byte(text))
		if len(violations) > 0 || string(got) != want {
			t.Errorf("%s\ngot  %s %v\nwant %s", text, got, violations, want)
		}
		again, _ := manifest.ValidateConfig(s, got)
		if !bytes.Equal(again, got) {
			t.Errorf("the canonical form of %s is %s", got, again)
		}
	}
	for _, raw := range []string{"", "{}"} {
		if got, violations := manifest.ValidateConfig(nil, []byte(raw)); string(got) != "{}" || violations != nil {
			t.Errorf("without a schema %q: got %s %v", raw, got, violations)
		}
	}
}

// All that is wrong with a configuration is said at once.
func TestConfigViolations(t *testing.T) {
	t.Parallel()
	s := schema(t, tenants)
	for text, want := range map[string]string{
		`{"mode":"slow","limits":{"max":0,"ratio":0.75},"weights":{"a":-1,"b":"x"},"debug":1,"more":2}`: "[/debug /limits/max /limits/ratio /mode /more /weights/a /weights/b]",
		`{}`:                                  "[/limits]",
		`{"limits":null}`:                     "[/limits]",
		`{"limits":{"max":1.5}}`:              "[/limits/max]",
		`{"limits":{"max":9007199254740994}}`: "[/limits/max]",
		`{"limits":{"max":1e999}}`:            "[/limits/max]",
		`{"limits":{},"limits":{}}`:           "[/limits]",
		`[]`:                                  "[]",
		`{"limits":{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`: "[]",
	} {
		got, violations := manifest.ValidateConfig(s, []byte(text))
		if fmt.Sprint(pointers(violations)) != want || len(violations) == 0 || got != nil {
			t.Errorf("%s\ngot  %s %v\nwant %s", text, got, violations, want)
		}
	}
	if _, violations := manifest.ValidateConfig(nil, []byte(`{"a":1}`)); len(violations) != 1 {
		t.Errorf("without a schema: got %v, want one violation", violations)
	}
}

// A packed module has exactly the manifest that went in last, and is otherwise as before.
func TestPack(t *testing.T) {
	t.Parallel()
	module := []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x00\x06\x04name\x07")
	if _, err := manifest.Extract(module); err == nil || !strings.Contains(err.Error(), "pack") {
		t.Errorf("got %v, want that there is none", err)
	}
	once, err := manifest.Pack(module, []byte(whole))
	if err != nil || !bytes.HasPrefix(once, module) {
		t.Fatalf("got %x %v", once, err)
	}
	twice, err := manifest.Pack(once, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := manifest.Extract(twice); err != nil || string(got) != "{}" {
		t.Errorf("got %s %v, want {}", got, err)
	}
	double := append(bytes.Clone(once), once[len(module):]...)
	for name, bad := range map[string][]byte{"two": double, "short": once[:len(once)-1], "no wasm": []byte("hello, world"), "empty": nil} {
		if got, err := manifest.Extract(bad); err == nil {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if _, err := manifest.Pack(module, make([]byte, manifest.MaxBytes+1)); err == nil {
		t.Error("a manifest over the limit was packed")
	}
}

// FuzzConfig holds: an accepted configuration has a canonical form that is accepted as itself;
// nothing panics.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(tenants), []byte(`{"limits":{"max":3}}`))
	f.Add([]byte(`{"type":"object"}`), []byte(`{"a":[1e300,{"b":-0.0}]}`))
	f.Fuzz(func(t *testing.T, text, config []byte) {
		m, violations := manifest.Parse(slices.Concat([]byte(`{"name":"x","version":"1.0.0","abi":1,"columns":[],"config_schema":`), text, []byte(`}`)))
		if (m == nil) == (len(violations) == 0) {
			t.Fatalf("got %v and %v", m, violations)
		}
		if m == nil {
			return
		}
		canonical, violations := manifest.ValidateConfig(m.Schema, config)
		if len(violations) > 0 {
			return
		}
		again, violations := manifest.ValidateConfig(m.Schema, canonical)
		if len(violations) > 0 || !bytes.Equal(again, canonical) {
			t.Errorf("%s became %s %v", canonical, again, violations)
		}
	})
}

// FuzzSections holds: a manifest that can be packed can be extracted again; nothing panics.
func FuzzSections(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x06\x04name\x07"), []byte("{}"))
	f.Fuzz(func(t *testing.T, module, text []byte) {
		packed, err := manifest.Pack(module, text)
		if err != nil {
			return
		}
		if got, err := manifest.Extract(packed); err != nil || !bytes.Equal(got, text) {
			t.Errorf("got %q %v, want %q", got, err, text)
		}
	})
}
