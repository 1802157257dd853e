// Package stops is the part of a shard that makes a planned restart invisible to consumers:
// what is held when the shard is closed in order is written at the end of its journal, and
// the next start holds it again, each reservation with the time that was left.
package stops
