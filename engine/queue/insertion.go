package queue

import (
	"crypto/sha256"
	"fmt"
)

// MaxInsertionBytes bounds the bytes in the journal of the submissions of one call: their meta, prefixes, templates, keys and traces. Every
// caller in the same commit waits for them.
const MaxInsertionBytes = 16 << 20

// MadeKey begins the idempotency keys that the server makes for a client: of a tenant's insert, of a schedule that is triggered. A client's
// own keys are printable, so none of them is the same.
const MadeKey = "\x00"

// KeyHash stands for an idempotency key: 128 bits of its SHA-256, which no two keys share.
type KeyHash [16]byte

// HashKey is the hash of an idempotency key.
func HashKey(key string) KeyHash {
	sum := sha256.Sum256([]byte(key))
	return KeyHash(sum[:16])
}

// Insertion is one of the submissions that a call inserts, and its result. With Err, nothing was inserted. If Replayed, an earlier request
// with the same idempotency key inserted it.
type Insertion struct {
	New        *NewSubmission
	Submission Submission
	Replayed   bool
	Existing   bool // not inserted either: Submission holds the unique key
	Err        error
}

// Decided says that nothing is left to do for it.
func (i *Insertion) Decided() bool { return i.Err != nil || i.Replayed || i.Existing }

// RefuseAll refuses all submissions if one of them is wrong, for calls that insert all or none. It says whether it did.
func RefuseAll(list []Insertion) bool {
	for i := range list {
		if list[i].Err == nil {
			continue
		}
		for j := range list {
			if list[j].Err == nil {
				list[j] = Insertion{New: list[j].New, Err: &Error{Code: CodeBatchRefused, Message: fmt.Sprintf("Nothing of this "+
					"call was inserted, as it is atomic and submission %d cannot be inserted. Correct that one, or leave it out.", i)}}
			}
		}
		return true
	}
	return false
}

// ContentBytes is the size of the contents and the attachment that come with the insert.
func (n *NewSubmission) ContentBytes() uint64 {
	size := len(n.Attachment)
	for _, content := range n.Chunks.Inline {
		size += len(content)
	}
	return uint64(size)
}

// journalBytes is about how many bytes of it go to the journal.
func (n *NewSubmission) journalBytes() int {
	size := len(n.Chunks.Prefix) + len(n.Chunks.Template) + len(n.Group) + len(n.Trace) + len(n.IdempotencyKey) + 64
	if n.Unique != nil {
		size += len(n.Unique.Key) + len(n.Unique.Scope)
	}
	if n.RetryBackoff != nil {
		size += 32 + 5*len(n.RetryBackoff.Delays.MS())
	}
	for _, entry := range n.Meta {
		size += len(entry.Key) + 16
		if !entry.Value.IsInt() {
			size += len(entry.Value.Text())
		}
	}
	return size
}

// ValidInsertions checks the submissions of a call as a whole.
func ValidInsertions(list []Insertion) error {
	if len(list) > MaxInsertions {
		return Invalid("/submissions", "has %d entries; at most %d are allowed in one call", len(list), MaxInsertions)
	}
	size := 0
	for i := range list {
		if n := list[i].New; n != nil {
			size += n.journalBytes()
		}
	}
	if size > MaxInsertionBytes {
		return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("The submissions have some %d bytes of meta, prefixes, templates, keys "+
			"and traces; at most %d are allowed in one call: insert them in several.", size, MaxInsertionBytes)}
	}
	return nil
}
