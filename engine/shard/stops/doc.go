// Package stops is the part of a shard that makes a planned restart invisible to consumers.
// An orderly stop writes the reservations to the end of the journal. The next start restores
// them, each with the time that it had left.
package stops
