package queue

import (
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Limits. Those that a field of a request has stand in package api. Each number has its reason; raising one is a decision, not a tweak.
const (
	MaxChunks          = api.MaxChunks
	MaxInlineChunks    = api.MaxInlineChunks
	MaxInlineBytes     = 64 << 20 // all inline bytes of one insert: what one request may make the server hold
	MaxChunkBytes      = 1 << 20  // one inline chunk: more belongs in object storage
	MaxOutputBytes     = 1 << 20  // one chunk's output
	MaxAttachmentBytes = 64 << 10 // goes out with every reservation
	MaxPrefixBytes     = api.MaxPrefixBytes
	MaxTemplateBytes   = api.MaxTemplateBytes
	MaxMetaKeys        = 32
	MaxMetaKeyBytes    = 64
	MaxMetaValueBytes  = 256
	// Contents that dead chunks of a queue were given: of one, how many, and all together. They are in memory.
	MaxReplacedContent = 64 << 10
	MaxReplaced        = 1000
	MaxReplacedBytes   = 16 << 20
	MaxDeletions       = 1000 // of submissions, ordered and not done yet, of a queue
	MaxNoteBytes       = api.MaxNoteBytes
	MaxErrorBytes      = 1000 // kept per failed chunk, in memory: a sentence, not a log
	MaxTraceBytes      = api.MaxTraceBytes
	MaxGroupBytes      = 128
	MaxConsumerBytes   = api.MaxConsumerBytes
	MaxIncarnation     = api.MaxIncarnation
	MaxIdempotencyKey  = api.MaxIdempotencyKey
	MaxQueueNameBytes  = api.MaxQueueNameBytes
	MaxQueues          = 256 // one shard each for now, and shards have 10 bits

	MaxStrategyNameBytes = 64
	MaxStrategies        = 1000 // named ones of a queue: they are compiled and held in memory
	MaxStrategyVersions  = 100  // the newest of a name: enough to see what changed and go back

	MaxSetValues = 100_000 // values of a queue's meta keys, and keys, with a limit or weight: all are in memory, some 200 bytes each

	MaxTokens          = 10_000 // access tokens: all are in memory, some 500 bytes each
	MaxSubjectBytes    = 512    // of a client certificate that stands for a token
	MaxTokenQueues     = api.MaxTokenQueues
	MaxRotationOverlap = api.MaxRotationOverlapSeconds * time.Second

	MaxReserve     = api.MaxReserve
	MaxBatch       = api.MaxBatch
	MaxWait        = api.MaxWaitMS * time.Millisecond
	MaxWaitIDs     = api.MaxWaitIDs
	MaxInsertions  = api.MaxInsertions
	MaxFollowing   = api.MaxFollowing
	MaxLimited     = api.MaxLimited
	MaxPicks       = api.MaxPicks
	MaxRecent      = api.MaxRecent
	MinReservation = 100 * time.Millisecond
	MaxListLimit   = 1000

	// MaxAnswerBytes bounds the contents, outputs and metadata of one answer, before they are encoded. What does not fit comes with the
	// next call. The first item always fits.
	MaxAnswerBytes = 4 << 20

	MaxReservation      = api.MaxReservationMS * time.Millisecond
	DefaultGrace        = 30 * time.Second
	MaxRestartGrace     = 10 * time.Minute // nothing under a limit is handed out meanwhile
	ClusterRestartGrace = 30 * time.Second // the default in a cluster: attached consumers have extended what they hold by then
	MaxMaxAttempts      = 1000
	MaxRetention        = 10 * 365 * 24 * time.Hour
	DefaultSuspectShare = 0.3 // the smallest that cost no submission its finish in a discrete-event model of 100 consumers
	IdempotencyWindow   = 24 * time.Hour
	MaxIdempotencyKeys  = 64 << 20 // of a queue, within the window: each takes 2 bytes of memory and some 70 of the disk
	MaxPriority         = api.MaxPriority
)
