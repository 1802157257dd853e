package strategy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// Missing is how a block that limits by a key treats submissions without the key.
type Missing uint8

// The ways.
const (
	MissingUnlimited Missing = iota // the limit does not apply to them
	MissingOne                      // the limit applies to all of them together, as if they had one value
	MissingNever                    // the block does not offer them
)

var missings = [...]string{"unlimited", "one", "never"}

// String is the way's name in both forms.
func (m Missing) String() string { return missings[m] }

// ofMissing is the parameter of such blocks.
var ofMissing = parameter{kind: missingParameter, caption: "missing", field: "missing", optional: true}

func readMissing(t token) (way Missing, wrong string) {
	if at := slices.Index(missings[:], t.text); at >= 0 && (t.kind == nameToken || t.kind == stringToken) {
		return Missing(at), ""
	}
	return 0, fmt.Sprintf("must be %s or %s: how submissions without the key are treated; found %s",
		strings.Join(missings[:2], ", "), missings[2], t)
}

// demand adds a block's demands on submissions by a limit, and on those without its key.
func (m Missing) demand(within demands, l Limit) demands {
	for _, each := range m.limits(l) {
		within = within.limited(each)
	}
	return m.filtered(within, l.Key)
}

// filtered adds the filter of MissingNever. It contradicts no other one: each admits some value.
func (m Missing) filtered(within demands, key queue.MetaKey) demands {
	if m == MissingNever {
		within, _ = within.filtered(With(key))
	}
	return within
}

// limits are the limit, and with MissingOne that of the submissions without its key.
func (m Missing) limits(l Limit) []Limit {
	if m != MissingOne {
		return []Limit{l}
	}
	without := l
	without.Key = queue.Without(l.Key)
	return []Limit{l, without}
}

// bounds are the loosest numbers to which blocks around and inside of a block limit everything that it limits; unbound if
// they leave some of it unlimited.
func (m Missing) bounds(within demands, l Limit, underlying block) (outer, inner uint64) {
	limits, with := m.limits(l), With(l.Key)
	switch all := within.implies(&with); {
	case all:
		limits = limits[:1]
	case m == MissingNever:
		return unbound, unbound
	}
	for _, each := range limits {
		outer, inner = max(outer, each.bound(within.limits)), max(inner, each.boundInside(underlying))
	}
	return outer, inner
}

// appendText writes it behind another argument, unless it is the usual way.
func (m Missing) appendText(dst []byte) []byte {
	if m == MissingUnlimited {
		return dst
	}
	return append(append(dst, ", missing="...), m.String()...)
}
