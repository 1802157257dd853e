package queue

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Bounds of unique keys. A key that is held while its submission is open takes some 250 bytes of memory; one that is held for a time
// takes as much until that is over.
const (
	MaxUniqueKey     = api.MaxUniqueKey
	MinUniqueWindow  = time.Second
	MaxUniqueWindow  = 30 * 24 * time.Hour
	MaxUniqueWindows = 1 << 20 // keys of a queue that are held for a time
)

// UniqueWhileOpen is the `while` of a key that is held as long as its submission is open.
const UniqueWhileOpen = "open"

// Unique says that a submission is to be inserted only if no other one holds its key.
type Unique struct {
	Key     string
	Scope   string        // whose the key is: of the tenants with this entry of meta; "": of all others
	For     time.Duration // how long the key is held from the insert on; 0: while the submission is open
	Replace bool          // the holder of the key ends, and this one takes its place, if nothing of the holder is reserved or finished
}

// uniqueConflicts are the names of an insert's actions when its key is held.
var uniqueConflicts = []string{"keep", "replace"}

// NewUnique reads the unique key of an insert. The pointer of an error is relative to the submission.
func NewUnique(key, while, onConflict string) (*Unique, error) {
	u := &Unique{Key: key}
	switch while {
	case "", UniqueWhileOpen:
	default:
		var err error
		u.For, err = time.ParseDuration(while)
		if err != nil || u.For < MinUniqueWindow || u.For > MaxUniqueWindow || u.For%time.Millisecond != 0 {
			return nil, Invalid("/unique/while", `must be "open" or a duration from "1s" to "720h", such as "90s" or "24h"`)
		}
	}
	if u.Replace = onConflict == uniqueConflicts[1]; onConflict != "" && !slices.Contains(uniqueConflicts, onConflict) {
		return nil, Invalid("/unique/on_conflict", "must be %s", oneOf(uniqueConflicts))
	}
	return u, u.Valid()
}

// Valid checks it.
func (u *Unique) Valid() error {
	if len(u.Key) == 0 || len(u.Key) > MaxUniqueKey {
		return Invalid("/unique/key", "has %d bytes; 1 to %d are allowed", len(u.Key), MaxUniqueKey)
	}
	return nil
}

// Hash stands for the key within its scope.
func (u *Unique) Hash() KeyHash {
	if u.Scope == "" {
		return HashKey(u.Key)
	}
	return HashKey(MadeKey + u.Scope + "\x00" + u.Key)
}

// While is how long the key is held, as the insert writes it.
func (u *Unique) While() string {
	if u.For == 0 {
		return UniqueWhileOpen
	}
	return u.For.String()
}

// OnConflict is the insert's action when its key is held, as the insert names it.
func (u *Unique) OnConflict() string {
	if u.Replace {
		return uniqueConflicts[1]
	}
	return uniqueConflicts[0]
}
