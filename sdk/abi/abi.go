package abi

import (
	"math"
	"strings"
)

// Version is the number of this ABI, as the manifest's "abi" says it.
const Version = 1

// The names of a module's exports and imports, and of its custom section.
const (
	HostModule       = "quern_v1"
	ExportMemory     = "memory"
	ExportMarker     = "quern_abi_1"
	ExportInitialize = "_initialize"
	ExportAlloc      = "quern_alloc"
	ExportInit       = "quern_init"
	ExportScore      = "quern_score"
	ManifestSection  = "quern.manifest"
)

// Offsets in the region's header, in bytes.
const (
	OffMagic       = 0
	OffHeaderSize  = 4
	OffRows        = 8
	OffColumns     = 12
	OffDescriptors = 16
	OffScores      = 20
	OffNow         = 24
	OffSeed        = 32
	OffWant        = 40
	OffFlags       = 44
	OffCapacity    = 48
	HeaderSize     = 64
)

// Sizes and limits.
const (
	Magic          = 0x314e5251 // "QRN1" read as a little-endian u32
	DescriptorSize = 16
	Align          = 16
	MinCapacity    = 1
	MaxCapacity    = 4096 // rows of one batch: beyond it one call holds the deadline hostage
	MaxColumns     = 64   // candidate and context columns together
	MaxContextKeys = 16   // a reservation carries no more
	MaxNameBytes   = 80   // a column's name: prefix and a meta key of 64 bytes
	MaxStringBytes = 1024 // one dictionary string; meta values have at most 256 bytes
	MaxConfigBytes = 64 << 10
)

// Bits of the header's flags.
const (
	FlagDryRun = 1 << 0 // the scores are not acted on: an upload's check or a preview
	FlagShadow = 1 << 1 // the scores are compared with those of another version, they decide nothing
)

// Bits of a descriptor's flags.
const (
	FlagNullable = 1 << 0 // the column has validity bytes
	FlagSingle   = 1 << 1 // the column has one row: it describes the batch, not a candidate
)

// NotWritten are the bits of the NaN that stands in every score before the guest runs: a quiet NaN, so that no copy through a
// float register changes it, with a pattern that no arithmetic produces.
const NotWritten uint64 = 0x7ff8_0000_314e_5251

// IsNotWritten says whether a score is still what the host put there.
func IsNotWritten(score float64) bool { return math.Float64bits(score) == NotWritten }

// Type is the type of a column's values.
type Type uint16

// The types. A Str column holds ids of strings as u32.
const (
	I64 Type = 1
	U32 Type = 2
	F64 Type = 3
	Str Type = 4
)

// Size is the number of bytes of one value: 8 or 4; 0 for a type that does not exist.
func (t Type) Size() uint32 {
	switch t {
	case I64, F64:
		return 8
	case U32, Str:
		return 4
	}
	return 0
}

// String is the type as manifests and messages write it.
func (t Type) String() string {
	switch t {
	case I64:
		return "i64"
	case U32:
		return "u32"
	case F64:
		return "f64"
	case Str:
		return "str"
	}
	return "unknown"
}

// Column is one column of a batch. Single columns are those of the reservation's context.
type Column struct {
	Name     string
	Type     Type
	Nullable bool
	Single   bool
}

func (c *Column) flags() (flags uint32) {
	if c.Nullable {
		flags |= FlagNullable
	}
	if c.Single {
		flags |= FlagSingle
	}
	return flags
}

// ContextPrefix begins the name of a context column, before the key.
const ContextPrefix = "context."

// Context is the column of one key of the reservation's context: one row, absent when the reservation does not carry
// the key. t is I64 or Str.
func Context(key string, t Type) Column {
	return Column{Name: ContextPrefix + key, Type: t, Nullable: true, Single: true}
}

// Candidate is the column of that name with its type, or false when there is none.
//
//	submission_id  i64  of the candidate
//	index          u32  of the chunk that would be handed out next
//	priority       i64
//	age_ms         i64  since the submission was inserted
//	attempts       u32  of the chunk that would be handed out next
//	max_attempts   u32
//	available      u32  chunks that could be handed out now
//	total          u32  chunks of the submission
//	skipped        u32  times that it was passed over in this stream of windows
//	inflight_submission u32  its reserved chunks
//	meta_i64:KEY   i64  nullable
//	meta_str:KEY   str  nullable
//	inflight:KEY   u32  reserved chunks of all submissions with this one's value of KEY
//	limit:KEY      i64  the limit on them that holds for this branch, -1 for none
func Candidate(name string) (Column, bool) {
	c := Column{Name: name}
	prefix, key, keyed := strings.Cut(name, ":")
	if keyed {
		if !ValidKey(key) {
			return Column{}, false
		}
		switch prefix {
		case "meta_i64":
			c.Type, c.Nullable = I64, true
		case "meta_str":
			c.Type, c.Nullable = Str, true
		case "inflight":
			c.Type = U32
		case "limit":
			c.Type = I64
		default:
			return Column{}, false
		}
		return c, true
	}
	switch name {
	case "submission_id", "priority", "age_ms":
		c.Type = I64
	case "index", "attempts", "max_attempts", "available", "total", "skipped", "inflight_submission":
		c.Type = U32
	default:
		return Column{}, false
	}
	return c, true
}

// ValidKey says whether text may be a meta or context key: 1 to 64 of a-z A-Z 0-9 _ - and the full stop, as the queue has it.
func ValidKey(text string) bool {
	if len(text) == 0 || len(text) > 64 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// Levels of a log line.
const (
	LevelDebug = 0
	LevelInfo  = 1
	LevelWarn  = 2
	LevelError = 3
)
