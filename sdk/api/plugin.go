package api

import "encoding/json"

// The states of a plugin's version.
const (
	PluginReady       = "ready"
	PluginQuarantined = "quarantined"
)

// Plugin is a plugin with what is in use of it.
type Plugin struct {
	// Name: 1 to 64 lower-case letters, digits and '-', a letter first
	Name          string         `json:"name"`
	State         string         `json:"state" names:"plugins"`         // Whether it scores, and why not
	Revision      uint64         `json:"revision"`                      // Counts the changes; 0 before the first
	ETag          string         `json:"etag"`                          // Names the revision; for If-Match
	Active        *PluginUse     `json:"active,omitempty"`              // The version that scores
	Previous      *PluginUse     `json:"previous,omitempty"`            // The version that was active before: where a rollback goes
	Shadow        *PluginUse     `json:"shadow,omitempty"`              // The version that scores beside it without deciding
	Canary        *PluginUse     `json:"canary,omitempty"`              // The version that scores for a share of the reservations
	CanaryPercent int            `json:"canary_percent" limit:"0..100"` // That share
	Settings      PluginSettings `json:"settings"`                      // What an operator set
	Breaker       PluginBreaker  `json:"breaker"`                       // Whether the active version is kept out of use after faults
	Versions      int            `json:"versions"`                      // How many there are
	Latest        string         `json:"latest,omitempty"`              // sha256 of the version that came last
	ChangedAt     Time           `json:"changed_at,omitzero"`           // When what is in use was changed
	ChangedBy     string         `json:"changed_by,omitempty"`          // By whom, where that is known
}

// PluginUse is a version with a configuration.
type PluginUse struct {
	SHA256  string          `json:"sha256"`  // Of the module with its manifest
	Version string          `json:"version"` // The version text of its manifest
	Config  json.RawMessage `json:"config"`  // Its configuration, with the defaults filled in
}

// PluginBreaker is the state of the active version's breaker.
type PluginBreaker struct {
	// closed: it scores. starting: its sandbox is not ready yet, and requests go on without it. half_open: one batch is tried
	State  string `json:"state" names:"breakers"`
	Reason string `json:"reason,omitempty"` // Why it is not closed
	Until  Time   `json:"until,omitzero"`   // When one batch is tried
}

// PluginSettings are what an operator may set for a plugin; zeroes are the server's defaults.
type PluginSettings struct {
	Hold        string  `json:"hold,omitempty"`
	CPUShare    float64 `json:"cpu_share,omitempty"`
	RecordEvery int     `json:"record_every,omitempty"`
	LogLevel    int     `json:"log_level,omitempty"`
}

// PluginVersion is one version of a plugin.
type PluginVersion struct {
	Name string `json:"name"` // Name of the plugin
	// The version text of its manifest; several versions may have the same
	Version   string          `json:"version"`
	SHA256    string          `json:"sha256"`                        // Of the module with its manifest: the version's identity
	State     string          `json:"state" names:"plugin versions"` // ready: it may be activated
	Reason    string          `json:"reason,omitempty"`              // Why it is quarantined
	Uses      []string        `json:"uses"`                          // What it is used as: active, canary, shadow, previous
	Size      int64           `json:"size"`                          // Bytes of the module
	CreatedAt Time            `json:"created_at"`                    // When it was uploaded
	CreatedBy string          `json:"created_by,omitempty"`          // By whom, where that is known
	Manifest  json.RawMessage `json:"manifest"`                      // As it stands in the module
	Report    PluginReport    `json:"report"`                        // What its dry run found
}

// PluginReport is what a dry run with synthetic candidates found.
type PluginReport struct {
	NsPerCandidate   float64 `json:"ns_per_candidate"`   // Of the fastest batch
	NsMedian         float64 `json:"ns_median"`          // Of the middle one
	FuelPerCandidate float64 `json:"fuel_per_candidate"` // The same on every machine
	Rows             int     `json:"rows"`               // Of the timed batches: the default window
	MemoryPages      uint32  `json:"memory_pages"`       // Of 64 KiB, afterwards
	SkipShare        float64 `json:"skip_share"`         // Synthetic candidates that were skipped or not written
	NaNShare         float64 `json:"nan_share"`          // Synthetic candidates that were skipped with NaN
	Deterministic    bool    `json:"deterministic"`      // The same batch twice gave the same bits
	CompileMs        int64   `json:"compile_ms"`         // Processor time of the compiling process
	CompilePeakBytes int64   `json:"compile_peak_bytes"` // Memory of the compiling process
	FromCache        bool    `json:"from_cache"`         // The code was there already
	Instructions     int     `json:"instructions"`       // Of the module
}

// PluginSelection is the body of the operations that put a version to use.
type PluginSelection struct {
	// Version text (the newest of that text), or 8 or more digits of the sha256; empty where a use is to end
	Version string `json:"version"`
	// An object as the manifest's config_schema has it; left out: the defaults
	Config  json.RawMessage `json:"config,omitempty"`
	Percent int             `json:"percent,omitempty" limit:"0..100"` // Of a canary: its share of the reservations
	// Also a version that is quarantined, which ends its quarantine; activated also although it refuses what strategies in use send
	Force bool `json:"force,omitempty"`
}

// PluginDryRun is the body of POST /v1/plugins/{name}/versions/{version}/dry-run.
type PluginDryRun struct {
	Config json.RawMessage `json:"config,omitempty"` // Left out: that of the activation, or the defaults
	// Whose live candidates are scored; left out: synthetic ones only
	Queue string `json:"queue,omitempty" limit:"..MaxQueueNameBytes"`
	// In whose order they come, in text form; left out: OldestFirst
	Strategy string `json:"strategy,omitempty"`
	// Of the reservation that would be made: what the plugin may read of it
	Context   Meta   `json:"context,omitempty"`
	Rows      int    `json:"rows,omitempty" limit:"0..MaxPluginRows"` // Candidates; 0: the version's default window
	Want      int    `json:"want,omitempty" limit:"0..MaxPluginWant"` // How many would be taken; 0: 10
	Recording uint64 `json:"recording,omitempty"`                     // Number of a recording to score again; 0: none
}

// PluginTried is the answer to a dry run.
type PluginTried struct {
	Report PluginReport  `json:"report"`           // Of synthetic candidates
	Live   *PluginLive   `json:"live,omitempty"`   // Of live ones, where a queue was named
	Replay *PluginReplay `json:"replay,omitempty"` // Of a recording, where one was named
}

// PluginLive says what a version would do with live candidates. Rows are places in the order without the plugin, from 0.
type PluginLive struct {
	// Candidates; a row is a place in the order without the plugin, from 0
	Rows          int          `json:"rows"`
	Submissions   []string     `json:"submissions"`                   // By row: the submission whose next chunk is the candidate
	Skipped       int          `json:"skipped"`                       // Candidates that it would skip
	Histogram     []PluginBin  `json:"histogram"`                     // Of the scores
	Picks         []PluginPick `json:"picks" limit:"..MaxPluginWant"` // What would be taken, in order
	Gained        []int        `json:"gained"`                        // Rows that would be taken and would not without the plugin
	Lost          []int        `json:"lost"`                          // The reverse
	ActiveGained  []int        `json:"active_gained,omitempty"`       // Rows that would be taken and would not with the active version
	ActiveLost    []int        `json:"active_lost,omitempty"`         // The reverse
	ActiveOverlap *float64     `json:"active_overlap,omitempty"`      // Share of what would be taken that both agree on
	ActiveTau     *float64     `json:"active_tau,omitempty"`          // Kendall's tau-b of the two orders
}

// PluginBin counts scores between two numbers.
type PluginBin struct {
	From  float64 `json:"from"`  // Scores from here on
	To    float64 `json:"to"`    // And below this
	Count int     `json:"count"` // How many
}

// PluginPick is a candidate that would be taken. Score is null where it is infinite.
type PluginPick struct {
	Row   int      `json:"row"`                   // Its place in the order without the plugin, from 0
	Score *float64 `json:"score" nullable:"true"` // Null when infinite
}

// PluginReplay compares a recording with what its batch scores now.
type PluginReplay struct {
	Rows      int  `json:"rows"`      // Of the recorded batch
	Scored    bool `json:"scored"`    // The recording has scores; that of a fault has none
	Identical bool `json:"identical"` // They are the same bits
	Different int  `json:"different"` // Rows that are not
}

// PluginStats are a plugin's numbers since the start of the server.
type PluginStats struct {
	Batches    uint64 `json:"batches"`    // That were scored
	Candidates uint64 `json:"candidates"` // In them
	Skipped    uint64 `json:"skipped"`    // Candidates skipped with NaN
	Unwritten  uint64 `json:"unwritten"`  // Candidates without a score
	Fallbacks  uint64 `json:"fallbacks"`  // Reservations that went on without the plugin
	// Of these, by reason: fault, breaker, inactive, starting (its sandbox is not ready), memory (all plugins together have what they may
	// have), busy
	FallbackReasons  map[string]uint64  `json:"fallback_reasons"`
	NsPerCandidate   float64            `json:"ns_per_candidate"`     // Mean
	FuelPerCandidate float64            `json:"fuel_per_candidate"`   // Mean
	Faults           map[string]uint64  `json:"faults"`               // Batches that failed, by kind
	LastFault        string             `json:"last_fault,omitempty"` // In words
	Counters         map[string]float64 `json:"counters"`             // The plugin's own
	CPUShare         float64            `json:"cpu_share"`            // Of one core, over the last 10 s
	MemoryPages      uint32             `json:"memory_pages"`         // Of 64 KiB, of the largest sandbox
	Instances        int                `json:"instances"`            // Sandboxes that are open
	LogsDropped      uint64             `json:"logs_dropped"`         // Lines over the limits
	Breaker          PluginBreaker      `json:"breaker"`              // Of the active version
	Shadow           *PluginShadow      `json:"shadow,omitempty"`     // How the shadow compares
}

// PluginScores say how a version scored live traffic with one configuration since it was opened: of a sample of the windows, the last
// 4,096 candidates.
type PluginScores struct {
	SHA256  string `json:"sha256"`  // Of the version
	Version string `json:"version"` // The version text of its manifest
	// The configuration that it scored with; another one is another entry, as its scores may have nothing in common
	Config json.RawMessage `json:"config"`
	// active, canary, shadow, previous; none of what a consumer asked for by itself
	Uses      []string          `json:"uses"`
	Batches   uint64            `json:"batches"`              // That were scored
	Faults    map[string]uint64 `json:"faults"`               // Batches that failed, by kind
	LastFault string            `json:"last_fault,omitempty"` // In words
	Windows   uint64            `json:"windows"`              // Batches that were sampled
	SinceAt   Time              `json:"since_at,omitzero"`    // When the first of them was scored
	LastAt    Time              `json:"last_at,omitzero"`     // When the last of them was scored
	Rows      int               `json:"rows"`                 // Candidates that are kept of them
	Skipped   int               `json:"skipped"`              // Of those, how many were skipped with NaN
	// Of those, of how many something was taken; 0 of a shadow, which decides nothing
	Taken int `json:"taken"`
	// Of their scores: ranges that lie side by side. Where few scores lie far outside, the first and the last range are as wide as it
	// takes
	Distribution []PluginTakenBin `json:"distribution" limit:"..MaxPluginBins"`
}

// PluginTakenBin counts candidates by their scores, and of how many of them something was taken.
type PluginTakenBin struct {
	From  float64 `json:"from"`  // Scores from here on
	To    float64 `json:"to"`    // And below this; of the last range also this
	Count int     `json:"count"` // How many candidates
	Taken int     `json:"taken"` // Of how many of them something was taken
}

// PluginShadow says how a shadow compares with the active version.
type PluginShadow struct {
	SHA256  string            `json:"sha256"`  // The version
	Batches uint64            `json:"batches"` // That both scored
	Dropped uint64            `json:"dropped"` // That the shadow did not score, because it was behind or failing
	Faults  map[string]uint64 `json:"faults"`  // Of the shadow, by kind
	Overlap float64           `json:"overlap"` // Share of what would be taken that both agree on; a mean
	Tau     float64           `json:"tau"`     // Kendall's tau-b of the two orders; a mean
}

// PluginLogs are lines that a plugin logged, the oldest first.
type PluginLogs struct {
	Lines   []PluginLogLine `json:"lines"`   // The oldest first
	Dropped uint64          `json:"dropped"` // Lines over the limits, in all
	Next    uint64          `json:"next"`    // For `after`: the number of the last line
}

// PluginLogLine is one of them.
type PluginLogLine struct {
	Number  uint64 `json:"number"`               // Rises by one from line to line
	Time    Time   `json:"time"`                 // When
	Version string `json:"version"`              // Of the version that logged it
	SHA256  string `json:"sha256"`               // The first 8 digits of it
	Level   string `json:"level" names:"levels"` // How much it matters
	Text    string `json:"text"`                 // What it says
}

// PluginRecording is a batch that was kept.
type PluginRecording struct {
	ID      uint64 `json:"id"`              // Its number
	Time    Time   `json:"time"`            // When it was scored
	Version string `json:"version"`         // Of the version that scored it
	SHA256  string `json:"sha256"`          // Of the version that scored it
	Rows    int    `json:"rows"`            // Candidates
	Size    int    `json:"size"`            // Bytes
	Fault   string `json:"fault,omitempty"` // Why it was kept; a sample has none
}
