package queue

import "testing"

// The patterns are part of the interface: fingerprints are stored in filters of dashboards and scripts, so a change here is a
// change for users.
func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, pattern, fingerprint string }{
		{"", "", "e3b0c44298fc1c14"},
		{"timeout after 31 s", "timeout after <n> s", "98c4b3a7e62056b8"},
		{"timeout after 7.5 s", "timeout after <n> s", "98c4b3a7e62056b8"},
		{"no such key 'a/b/1'", "no such key <s>", ""},
		{`open "x y": denied`, "open <s>: denied", ""},
		{"open `x`", "open <s>", ""},
		{"it's one person's fault", "it's one person's fault", ""},
		{"'never closed\nnext'", "'never closed next'", ""},
		{"chunk 550e8400-e29b-41d4-a716-446655440000 is bad", "chunk <uuid> is bad", ""},
		{"550E8400-E29B-41D4-A716-446655440000", "<uuid>", ""},
		{"request 3fa9 of node e7", "request <n> of node <n>", ""},
		{"a dead face of bed 4", "a dead face of bed <n>", ""},
		{"550e8400-e29b-41d4-a716-446655440000x", "<hex>-<n>-<n>-<n>-<n>x", ""},
		{"panic at 0xc000123ABC", "panic at <hex>", ""},
		{"commit deadbeef01 is gone", "commit <hex> is gone", ""},
		{"the facade of deadbeef", "the facade of deadbeef", ""},
		{"id 1234567890", "id <n>", ""},
		{"worker7 lost 3 of 12", "worker<n> lost <n> of <n>", ""},
		{"v1.2.3", "v<n>.<n>", ""},
		{"  many \t spaces\n", "many spaces", ""},
		{"größe 5 übel", "größe <n> übel", ""},
		{"HTTP 500", "HTTP <n>", ""},
	} {
		if got := Pattern(c.text); got != c.pattern {
			t.Errorf("Pattern(%q) = %q, want %q", c.text, got, c.pattern)
		}
		got := Fingerprint(c.text)
		if c.fingerprint != "" && got != c.fingerprint {
			t.Errorf("Fingerprint(%q) = %s, want %s", c.text, got, c.fingerprint)
		}
		if again := Fingerprint(c.pattern); c.text != "" && again != got && Pattern(c.pattern) == c.pattern {
			t.Errorf("Fingerprint(%q) = %s, but its own pattern has %s", c.text, got, again)
		}
	}
}

// No text makes Pattern fail, and a pattern only grows by its stand-ins.
func FuzzPattern(f *testing.F) {
	f.Add("timeout 'x' 0x12 7.5 550e8400-e29b-41d4-a716-446655440000")
	f.Fuzz(func(t *testing.T, text string) {
		if got := Pattern(text); len(got) > 3*len(text) {
			t.Errorf("Pattern(%q) has %d bytes, the text has %d", text, len(got), len(text))
		}
	})
}

// The fingerprint of a short error allocates nothing but itself: to group dead letters takes a fingerprint of each.
func TestFingerprintAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Fingerprint("no answer of host-17 within 300 ms: 'timeout'") }); n > 1 {
		t.Errorf("got %v allocations of a fingerprint, want 1", n)
	}
}
