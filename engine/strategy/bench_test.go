package strategy

import (
	"strings"
	"testing"
)

// A reserve parses its strategy when it is in no cache: an ordinary one, and one that makes the most work within the limits.
func BenchmarkParse(b *testing.B) {
	twin := nest(5, `PreferDistinct("p%d", 1, `, "Random") // 32 branches, the same in each alternative
	worst := nest(18, `SelectOnly("k%d", "`+longValue[1:]+`", `, "OrElse("+strings.TrimSuffix(strings.Repeat(twin+", ", 18), ", ")+")")
	for _, c := range []struct{ name, input string }{
		{"ordinary", `OrElse(SelectOnly("mode", "preview", Random), MaxSimultaneous("company", 5, PreferDistinct("user", 1, OldestFirst)))`},
		{"worst", worst},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(c.input); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
