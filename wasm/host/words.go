package host

import "github.com/quern-queue/quern/sdk/abi"

// Limits of what a guest interns at its start.
const (
	maxInterned      = 4096
	maxInternedBytes = 256 << 10
)

// words are the strings of an instance. Those that the guest interned at its start have the first ids, for the life of the
// instance; those of a batch follow, and are forgotten with it. So nothing grows with the number of strings ever seen,
// and the ids of a batch depend on the batch only.
type words struct {
	ids   map[string]uint32
	texts []string
	bytes int

	batch []uint32 // the id of each string of the batch's dictionary
	extra []string // those that are not interned
}

// intern gives the id of text; 0 when there is no room for it.
func (w *words) intern(text string) uint32 {
	if id, known := w.ids[text]; known {
		return id
	}
	if len(w.texts) >= maxInterned || w.bytes+len(text) > maxInternedBytes {
		return 0
	}
	if w.ids == nil {
		w.ids = map[string]uint32{}
	}
	w.texts = append(w.texts, text)
	w.bytes += len(text)
	id := uint32(len(w.texts))
	w.ids[text] = id
	return id
}

// load takes over the dictionary of a batch.
func (w *words) load(dictionary []string) {
	w.batch, w.extra = w.batch[:0], w.extra[:0]
	if len(w.texts) == 0 {
		w.extra = append(w.extra, dictionary...)
		return
	}
	for _, text := range dictionary {
		id, known := w.ids[text]
		if !known {
			w.extra = append(w.extra, text)
			id = uint32(len(w.texts) + len(w.extra))
		}
		w.batch = append(w.batch, id)
	}
}

// translate writes the ids of a column. Without interned strings they are those of the dictionary.
func (w *words) translate(at []byte, ids []uint32) {
	if len(w.texts) == 0 {
		copy(at, bytesOf(ids))
		return
	}
	for row, id := range ids {
		if id > 0 {
			id = w.batch[id-1]
		}
		abi.PutU32(at[row*4:], id)
	}
}

// text gives the string of an id.
func (w *words) text(id uint32) (string, bool) {
	switch n := uint32(len(w.texts)); {
	case id == 0 || id > n+uint32(len(w.extra)):
		return "", false
	case id <= n:
		return w.texts[id-1], true
	default:
		return w.extra[id-n-1], true
	}
}
