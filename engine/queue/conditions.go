package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-queue/quern/sdk/api"
)

// Condition requires that a submission's meta has one of the values of the key.
type Condition struct {
	Key    MetaKey
	Values []MetaValue // sorted, each once
}

// Conditions must all hold of a submission's meta. They are sorted by key, each key once.
type Conditions []Condition

// The limits of conditions.
const (
	MaxConditions      = 8
	MaxConditionValues = 64 // of one key
)

// NewConditions sorts conditions. Values of the same key are one condition: any of them will do. The errors point into a match.
func NewConditions(list []Condition) (Conditions, error) {
	var sorted Conditions
	for _, c := range list {
		if ValidMetaKey(c.Key) != nil {
			return nil, Invalid("/match", "has a key that is none: 1 to %d letters, digits, '_', '-' and '.'", MaxMetaKeyBytes)
		}
		if at := slices.IndexFunc(sorted, func(x Condition) bool { return x.Key == c.Key }); at >= 0 {
			sorted[at].Values = append(sorted[at].Values, c.Values...)
		} else {
			sorted = append(sorted, Condition{c.Key, slices.Clone(c.Values)})
		}
	}
	if len(sorted) == 0 || len(sorted) > MaxConditions {
		return nil, Invalid("/match", "names %d meta keys; 1 to %d are allowed", len(sorted), MaxConditions)
	}
	slices.SortFunc(sorted, func(a, b Condition) int { return strings.Compare(a.Key, b.Key) })
	for i := range sorted {
		c := &sorted[i]
		slices.SortFunc(c.Values, MetaValue.Compare)
		if c.Values = slices.Compact(c.Values); len(c.Values) == 0 || len(c.Values) > MaxConditionValues {
			return nil, Invalid("/match", "names %d values of %q; 1 to %d are allowed", len(c.Values), c.Key, MaxConditionValues)
		}
		for _, value := range c.Values {
			if text := value.Text(); len(text) > MaxMetaValueBytes || !utf8.ValidString(text) {
				return nil, Invalid("/match", "has a value of %q that none can be: at most %d bytes of UTF-8", c.Key, MaxMetaValueBytes)
			}
		}
	}
	return sorted, nil
}

// One is the entry that the conditions require, if it is only one.
func (c Conditions) One() (entry MetaEntry, is bool) {
	if len(c) != 1 || len(c[0].Values) != 1 {
		return entry, false
	}
	return MetaEntry{c[0].Key, c[0].Values[0]}, true
}

// Cover says that the conditions hold of a submission with this meta.
func (c Conditions) Cover(meta Meta) bool {
	for i := range c {
		value, has := meta.Find(c[i].Key)
		if !has || !slices.Contains(c[i].Values, value) {
			return false
		}
	}
	return true
}

// Values returns the values that a key may have. It returns nil if the conditions do not name the key.
func (c Conditions) Values(key MetaKey) []MetaValue {
	for i := range c {
		if c[i].Key == key {
			return c[i].Values
		}
	}
	return nil
}

// Text is the one text that conditions have: a JSON object with the keys in order, and the values of each as a list.
func (c Conditions) Text() string {
	object := make(map[MetaKey][]MetaValue, len(c))
	for i := range c {
		object[c[i].Key] = c[i].Values
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // keys and values are valid UTF-8 and numbers
	}
	return string(text)
}

// ParseConditions reads what Text wrote. It refuses any other text.
func ParseConditions(text string) (Conditions, error) {
	var object map[MetaKey][]MetaValue
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil, fmt.Errorf("conditions: %w", err)
	}
	list := make([]Condition, 0, len(object))
	for key, values := range object {
		list = append(list, Condition{key, values})
	}
	c, err := NewConditions(list)
	if err == nil && c.Text() != text {
		err = fmt.Errorf("conditions: %q is not in order", clip(text, 80))
	}
	return c, err
}

// String is the conditions for people: `company in (7, 8), mode="live"`.
func (c Conditions) String() string {
	var parts []string
	for i := range c {
		values := make([]string, len(c[i].Values))
		for j, value := range c[i].Values {
			values[j] = value.Quoted()
		}
		if len(values) == 1 {
			parts = append(parts, c[i].Key+"="+values[0])
		} else {
			parts = append(parts, c[i].Key+" in ("+strings.Join(values, ", ")+")")
		}
	}
	return strings.Join(parts, ", ")
}

// addTo adds the condition to a match as the API has it.
func (c Condition) addTo(m *api.RuleMatch) {
	if len(c.Values) > 1 {
		if m.Any == nil {
			m.Any = map[string][]api.MetaValue{}
		}
		m.Any[c.Key] = c.Values
		return
	}
	if m.Meta == nil {
		m.Meta = api.Meta{}
	}
	m.Meta[c.Key] = c.Values[0]
}
