package main

// filesForData are left for the data: 256 queues have ten files each, and checkpoints, backups and plugins open some for a while.
const filesForData = 4096

// mostConnections is how many connections may be open when this many files may: all but those for the data, but at least half. 0: any
// number.
func mostConnections(files int) int { return max(files-filesForData, files/2) }
