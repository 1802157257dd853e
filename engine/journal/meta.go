package journal

import "github.com/quern-queue/quern/engine/queue"

// MetaField is an entry of meta where an op has JSON: with an integer or a text.
type MetaField struct {
	Key  string  `json:"key"`
	Int  *int64  `json:"int,omitempty"`
	Text *string `json:"text,omitempty"`
}

// MetaFields are the entries of meta.
func MetaFields(meta queue.Meta) (list []MetaField) {
	for _, entry := range meta {
		m := MetaField{Key: entry.Key}
		if entry.Value.IsInt() {
			m.Int = new(entry.Value.Int())
		} else {
			m.Text = new(entry.Value.Text())
		}
		list = append(list, m)
	}
	return list
}

// MetaEntries is the inverse of MetaFields; ok is false if one has no value.
func MetaEntries(list []MetaField) (meta queue.Meta, ok bool) {
	ok = true
	for _, m := range list {
		entry := queue.MetaEntry{Key: m.Key}
		switch {
		case m.Int != nil:
			entry.Value = queue.IntValue(*m.Int)
		case m.Text != nil:
			entry.Value = queue.StringValue(*m.Text)
		default:
			ok = false
		}
		meta = append(meta, entry)
	}
	return meta, ok
}
