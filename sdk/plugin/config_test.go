package plugin

import "testing"

// Single values of a configuration come without a JSON parser, whatever stands around them.
func TestConfigMembers(t *testing.T) {
	t.Parallel()
	s := &Setup{Config: []byte(` { "a" : -1.5e3, "b":true,"c":{"a":7,"d":"a"},"e":[1,{"a":2}],"f":"x,}\"\\\u00e9","g":false , "h":"","a\"":9,"z":8}`)}
	for key, want := range map[string]float64{"a": -1500, "z": 8, "b": 1, "c": 1, "d": 1, "x": 1, "": 1} {
		if got := s.Number(key, 1); got != want {
			t.Errorf("Number(%q) = %v, want %v", key, got, want)
		}
	}
	for key, want := range map[string]string{"f": `x,}"\é`, "h": "", "a": "-", "d": "-", "q": "-"} {
		if got := s.Text(key, "-"); got != want {
			t.Errorf("Text(%q) = %q, want %q", key, got, want)
		}
	}
	if !s.Truth("b", false) || s.Truth("g", true) || !s.Truth("a", true) {
		t.Error("got other truth values than true for b, false for g, and what was given for a")
	}
	for _, config := range []string{"", "{}", "[]", `{"a"`, `{"a":`, `{"a":1`, `"a":1`, `{"b`, `{"b\`, "}", "]]:a"} {
		if got := (&Setup{Config: []byte(config)}).Number("a", 5); got != 5 {
			t.Errorf("Number of %q = %v, want 5", config, got)
		}
	}
}
