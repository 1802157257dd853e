package queue

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/quern-queue/quern/sdk/api"
)

// MetaKey is the name of one piece of strategic metadata: 1 to MaxMetaKeyBytes bytes of a-z A-Z 0-9 _ - . and not
// starting with '$', which marks the pseudo keys.
type MetaKey = string

// MetaValue is that of the API: a string or an int64; the two never compare equal ("7" is not 7).
type MetaValue = api.MetaValue

// StringValue makes a string value.
func StringValue(text string) MetaValue { return api.Text(text) }

// IntValue makes an integer value.
func IntValue(n int64) MetaValue { return api.Int(n) }

// MetaEntry is one key with its value.
type MetaEntry struct {
	Key   MetaKey
	Value MetaValue
}

// lacked ends the name that Without gives; no key has it.
const lacked = "!"

// Without is the key that stands for the submissions that lack another key: a limit on it counts all of them together. Its one value is the
// empty string. It stands beside the other key in sorted lists.
func Without(key MetaKey) MetaKey { return key + lacked }

// LackedBy is the key of which Without is this one.
func LackedBy(without MetaKey) (key MetaKey, is bool) { return strings.CutSuffix(without, lacked) }

// Meta is a submission's strategic metadata, which strategies, rules and filters may see. It is sorted by key and holds a key once (NewMeta
// makes it so).
type Meta []MetaEntry

// EntriesOf are the entries of meta as the API has it, in no order.
func EntriesOf(object api.Meta) []MetaEntry {
	entries := slices.Grow([]MetaEntry(nil), len(object))
	for key, value := range object {
		entries = append(entries, MetaEntry{key, value})
	}
	return entries
}

// Object is meta as the API has it: nil for none.
func (m Meta) Object() api.Meta {
	if len(m) == 0 {
		return nil
	}
	object := make(api.Meta, len(m))
	for _, entry := range m {
		object[entry.Key] = entry.Value
	}
	return object
}

// MaxContextKeys bounds the keys that a consumer may send about itself to scorers.
const MaxContextKeys = 16

// NewMeta sorts the entries and checks them against the limits.
func NewMeta(entries []MetaEntry) (Meta, error) { return newMeta(entries, MaxMetaKeys) }

// NewContext is NewMeta for the context of a reservation, which has fewer keys.
func NewContext(entries []MetaEntry) (Meta, error) {
	context, err := newMeta(entries, MaxContextKeys)
	var wrong *Error
	if errors.As(err, &wrong) {
		for i := range wrong.Problems {
			wrong.Problems[i].Pointer = "/context" + strings.TrimPrefix(wrong.Problems[i].Pointer, "/meta")
		}
	}
	return context, err
}

func newMeta(entries []MetaEntry, most int) (Meta, error) {
	if len(entries) > most {
		return nil, Invalid("/meta", "has %d keys; at most %d are allowed", len(entries), most)
	}
	meta := slices.Clone(entries)
	slices.SortFunc(meta, func(a, b MetaEntry) int { return cmp.Compare(a.Key, b.Key) })
	for i, entry := range meta {
		if err := ValidMetaKey(entry.Key); err != nil {
			return nil, err
		}
		if i > 0 && meta[i-1].Key == entry.Key {
			return nil, Invalid("/meta/"+entry.Key, "is given twice; give each key once")
		}
		if size := len(entry.Value.Text()); size > MaxMetaValueBytes {
			return nil, Invalid("/meta/"+entry.Key, "has a value of %d bytes; at most %d are allowed (large data "+
				"belongs in the attachment)", size, MaxMetaValueBytes)
		}
	}
	return meta, nil
}

// ValidMetaKey checks one key against the rule of MetaKey.
func ValidMetaKey(key MetaKey) error {
	if key == "" || len(key) > MaxMetaKeyBytes {
		return Invalid("/meta", "has a key of %d bytes; 1 to %d are allowed", len(key), MaxMetaKeyBytes)
	}
	for _, c := range []byte(key) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return Invalid("/meta", "has the key %q; letters, digits, '_', '-' and '.' are allowed", clip(key, 80))
		}
	}
	return nil
}

// numberBytes stands for the bytes of an entry beside its texts.
const numberBytes = 8

// MaxMetaEntryBytes is the most that Bytes counts for one entry.
const MaxMetaEntryBytes = MaxMetaKeyBytes + MaxMetaValueBytes + numberBytes

// Bytes is about how many bytes the keys and values have.
func (m Meta) Bytes() (n int) {
	for i := range m {
		n += len(m[i].Key) + len(m[i].Value.Text()) + numberBytes
	}
	return n
}

// Find returns the value of key.
func (m Meta) Find(key MetaKey) (MetaValue, bool) {
	for i := range m {
		if m[i].Key == key {
			return m[i].Value, true
		}
	}
	return MetaValue{}, false
}
