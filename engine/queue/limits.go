package queue

import "time"

// Limits. Each number has its reason; raising one is a decision, not a tweak.
const (
	MaxChunks          = 1<<32 - 1 // a chunk index is 32 bits
	MaxInlineChunks    = 100_000   // chunks of one insert call that carry bytes; JSON lines may be appended call by call
	MaxInlineBytes     = 64 << 20  // all inline bytes of one insert: what one request may make the server hold
	MaxChunkBytes      = 1 << 20   // one inline chunk: more belongs in object storage
	MaxOutputBytes     = 1 << 20   // one chunk's output
	MaxAttachmentBytes = 64 << 10  // goes out with every reservation
	MaxPrefixBytes     = 1024      // object keys are at most 1,024 bytes on the common stores
	MaxTemplateBytes   = 4096
	MaxMetaKeys        = 32
	MaxMetaKeyBytes    = 64
	MaxMetaValueBytes  = 256
	MaxErrorBytes      = 1000 // kept per failed chunk, in memory: a sentence, not a log
	MaxTraceBytes      = 512  // traceparent is 55; tracestate up to 512 by its specification
	MaxGroupBytes      = 128
	MaxConsumerBytes   = 128
	MaxIdempotencyKey  = 255
	MaxQueueNameBytes  = 64
	MaxQueues          = 256 // one shard each for now, and shards have 10 bits

	MaxStrategyNameBytes = 64
	MaxStrategies        = 1000 // named ones of a queue: they are compiled and held in memory
	MaxStrategyVersions  = 100  // the newest of a name: enough to see what changed and go back

	MaxSetValues = 100_000 // values of a queue's meta keys with a limit or weight: all are in memory, some 200 bytes each

	MaxTokens          = 10_000 // access tokens: all are in memory, some 500 bytes each
	MaxSubjectBytes    = 512    // of a client certificate that stands for a token
	MaxTokenQueues     = 64     // queues that one token is bound to
	MaxRotationOverlap = 30 * 24 * time.Hour

	MaxReserve     = 1000  // chunks of one reserve
	MaxBatch       = 10000 // items of one complete, fail, extend or release
	MaxWait        = 60 * time.Second
	MaxWaitIDs     = 1000 // submissions that one call waits for: each is looked up under its shard's lock, and may be answered whole
	MinReservation = 100 * time.Millisecond
	MaxListLimit   = 1000

	// MaxAnswerBytes bounds the contents, outputs and metadata of one answer, before they are encoded. What does not fit comes with the
	// next call. The first item always fits.
	MaxAnswerBytes = 4 << 20

	MaxReservation      = 24 * time.Hour // hard cap of a reservation, extensions included
	DefaultGrace        = 30 * time.Second
	MaxRestartGrace     = 10 * time.Minute // nothing under a limit is handed out meanwhile
	MaxMaxAttempts      = 1000
	MaxRetention        = 10 * 365 * 24 * time.Hour
	DefaultSuspectShare = 0.3 // the smallest that cost no submission its finish in a discrete-event model of 100 consumers
	IdempotencyWindow   = 24 * time.Hour
	MaxIdempotencyKeys  = 64 << 20  // of a queue, within the window: each takes 2 bytes of memory and some 70 of the disk
	MaxPriority         = 1<<53 - 1 // exact in every JSON implementation; the minimum is its negative
)
