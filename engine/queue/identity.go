package queue

// Identity says to which data directory and shard a file belongs, and from which start of the directory it must be. It keeps files of
// different directories, shards and moments from being used together.
type Identity struct {
	Directory [16]byte // random, drawn when the directory was made; zero: a file that stands alone, as in tests
	Shard     int64    // the shard's number; NoShard for the catalogue

	// Every start raises the directory's generation, and every file follows. A start that is cut off leaves some files behind, so one
	// that is not older than the last complete start is taken too.
	Generation uint64 // of this start
	Oldest     uint64 // the lowest that a file may have when it is opened; 0: it need not have one yet
	Newest     uint64 // the highest that it may have: no file is ahead of the catalogue, unless that is an older copy
}

// NoShard stands for the shard of a file that belongs to the whole directory.
const NoShard = -1

// Opened is the identity for opening a file again that was opened with this one.
func (id Identity) Opened() Identity {
	id.Oldest, id.Newest = id.Generation, id.Generation
	return id
}

// ForShard is the identity of a shard's files.
func (id Identity) ForShard(shard ShardID) Identity {
	id.Shard = int64(shard)
	return id
}
