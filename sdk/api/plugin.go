package api

import "encoding/json"

// The states of a plugin's version.
const (
	PluginReady       = "ready"
	PluginQuarantined = "quarantined"
)

// Plugin is a plugin with its versions in use.
type Plugin struct {
	// Name: 1 to 64 lower-case letters, digits and '-', a letter first
	Name     string     `json:"name"`
	State    string     `json:"state" names:"plugins"` // Whether it scores, or why not
	Revision uint64     `json:"revision"`              // Number of changes
	ETag     string     `json:"etag"`                  // Id of the revision, for If-Match
	Active   *PluginUse `json:"active,omitempty"`      // The version that scores
	// The previously active version, which a rollback activates
	Previous *PluginUse `json:"previous,omitempty"`
	Shadow   *PluginUse `json:"shadow,omitempty"` // The version that scores beside it without deciding
	Canary   *PluginUse `json:"canary,omitempty"` // The version that scores for a share of the reservations
	// Share of the reservations that the canary scores
	CanaryPercent int            `json:"canary_percent" limit:"0..100"`
	Settings      PluginSettings `json:"settings"` // Settings by an operator
	// State of the breaker, which takes the active version out of use after faults
	Breaker  PluginBreaker `json:"breaker"`
	Versions int           `json:"versions"`         // Number of versions
	Latest   string        `json:"latest,omitempty"` // sha256 of the latest version
	// Time of the last change of active, shadow or canary
	ChangedAt Time   `json:"changed_at,omitzero"`
	ChangedBy string `json:"changed_by,omitempty"` // Caller that made that change, if known
	// Nodes of the cluster that did not answer: the state does not count theirs
	Missing []string `json:"missing,omitempty"`
}

// PluginUse is a version with a configuration.
type PluginUse struct {
	SHA256  string          `json:"sha256"`  // sha256 of the module with its manifest
	Version string          `json:"version"` // The version text of its manifest
	Config  json.RawMessage `json:"config"`  // Its configuration, with the defaults filled in
}

// PluginBreaker is the state of the active version's breaker.
type PluginBreaker struct {
	// closed: it scores. starting: its sandbox is not ready, and requests continue without it. half_open: the server
	// tries one batch
	State  string `json:"state" names:"breakers"`
	Reason string `json:"reason,omitempty"` // Reason for not being closed
	Until  Time   `json:"until,omitzero"`   // Time when the server tries one batch
	Node   string `json:"node,omitempty"`   // Node of the cluster whose breaker this is
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
	Version string `json:"version"`
	// sha256 of the module with its manifest; it identifies the version
	SHA256    string          `json:"sha256"`
	State     string          `json:"state" names:"plugin versions"` // ready: it may be activated
	Reason    string          `json:"reason,omitempty"`              // Reason of the quarantine
	Uses      []string        `json:"uses"`                          // Uses: active, canary, shadow, previous
	Size      int64           `json:"size"`                          // Size of the module in bytes
	CreatedAt Time            `json:"created_at"`                    // Time of the upload
	CreatedBy string          `json:"created_by,omitempty"`          // Caller that uploaded it, if known
	Manifest  json.RawMessage `json:"manifest"`                      // Manifest from the module
	Report    PluginReport    `json:"report"`                        // Findings of its dry run
}

// PluginReport is what a dry run with synthetic candidates found.
type PluginReport struct {
	NsPerCandidate   float64 `json:"ns_per_candidate"`   // Nanoseconds per candidate in the fastest batch
	NsMedian         float64 `json:"ns_median"`          // Nanoseconds per candidate in the median batch
	FuelPerCandidate float64 `json:"fuel_per_candidate"` // Fuel per candidate, equal on every machine
	Rows             int     `json:"rows"`               // Number of rows of the timed batches: the default window
	MemoryPages      uint32  `json:"memory_pages"`       // Pages of 64 KiB after the dry run
	// Share of the synthetic candidates skipped or left without a score
	SkipShare        float64 `json:"skip_share"`
	NaNShare         float64 `json:"nan_share"`          // Share of the synthetic candidates skipped with NaN
	Deterministic    bool    `json:"deterministic"`      // Whether two equal batches gave the same bits
	CompileMs        int64   `json:"compile_ms"`         // Processor time of the compiling process
	CompilePeakBytes int64   `json:"compile_peak_bytes"` // Memory of the compiling process
	FromCache        bool    `json:"from_cache"`         // Whether the server had compiled it before
	Instructions     int     `json:"instructions"`       // Number of instructions of the module
}

// PluginSelection is the body of the operations that put a version to use.
type PluginSelection struct {
	// Version text (the newest with that text), or 8 or more digits of the sha256; empty to end the use
	Version string `json:"version"`
	// Configuration for the manifest's config_schema; absent: the defaults
	Config json.RawMessage `json:"config,omitempty"`
	// For a canary: its share of the reservations
	Percent int `json:"percent,omitempty" limit:"0..100"`
	// Accept a quarantined version and end its quarantine; activate even if the version refuses configurations in use
	Force bool `json:"force,omitempty"`
}

// PluginDryRun is the body of POST /v1/plugins/{name}/versions/{version}/dry-run.
type PluginDryRun struct {
	// Configuration; absent: that of the activation, or the defaults
	Config json.RawMessage `json:"config,omitempty"`
	// Queue whose live candidates to score; absent: only synthetic candidates
	Queue string `json:"queue,omitempty" limit:"..MaxQueueNameBytes"`
	// Strategy that orders the candidates, as text; absent: OldestFirst
	Strategy string `json:"strategy,omitempty"`
	Context  Meta   `json:"context,omitempty"` // Context of the simulated reservation, for the plugin
	// Number of candidates; 0: the version's default window
	Rows      int    `json:"rows,omitempty" limit:"0..MaxPluginRows"`
	Want      int    `json:"want,omitempty" limit:"0..MaxPluginWant"` // Number of chunks to take; 0: 10
	Recording uint64 `json:"recording,omitempty"`                     // Number of a recording to score again; 0: none
}

// PluginTried is the answer to a dry run.
type PluginTried struct {
	Report PluginReport  `json:"report"`           // Result for synthetic candidates
	Live   *PluginLive   `json:"live,omitempty"`   // Result for live candidates, if the request named a queue
	Replay *PluginReplay `json:"replay,omitempty"` // Result for a recording, if the request named one
}

// PluginLive says what a version would do with live candidates. Rows are places in the order without the plugin, from 0.
type PluginLive struct {
	// Number of candidates; a row is a place in the order without the plugin, from 0
	Rows        int          `json:"rows"`
	Submissions []string     `json:"submissions"`                   // For each row: the submission of the candidate
	Skipped     int          `json:"skipped"`                       // Number of candidates that it skips
	Histogram   []PluginBin  `json:"histogram"`                     // Histogram of the scores
	Picks       []PluginPick `json:"picks" limit:"..MaxPluginWant"` // Rows that would be taken, in order
	// Rows that would be taken with the plugin and not without it
	Gained []int `json:"gained"`
	// Rows that would be taken without the plugin and not with it
	Lost []int `json:"lost"`
	// Rows that would be taken with this version and not with the active one
	ActiveGained []int `json:"active_gained,omitempty"`
	// Rows that would be taken with the active version and not with this one
	ActiveLost []int `json:"active_lost,omitempty"`
	// Share of the taken chunks that both versions agree on
	ActiveOverlap *float64 `json:"active_overlap,omitempty"`
	ActiveTau     *float64 `json:"active_tau,omitempty"` // Kendall's tau-b of the two orders
}

// PluginBin counts scores between two numbers.
type PluginBin struct {
	From  float64 `json:"from"`  // Lowest score of the range
	To    float64 `json:"to"`    // Score above the range
	Count int     `json:"count"` // Number of candidates
}

// PluginPick is a candidate that would be taken. Score is null where it is infinite.
type PluginPick struct {
	Row   int      `json:"row"`                   // Place in the order without the plugin, from 0
	Score *float64 `json:"score" nullable:"true"` // Score; null if infinite
}

// PluginReplay compares a recording with what its batch scores now.
type PluginReplay struct {
	Rows      int  `json:"rows"`      // Number of rows of the recorded batch
	Scored    bool `json:"scored"`    // Whether the recording has scores; that of a fault has none
	Identical bool `json:"identical"` // Whether all scores are the same bits
	Different int  `json:"different"` // Rows whose scores differ
}

// PluginStats are a plugin's numbers since the start of the server.
type PluginStats struct {
	Batches    uint64 `json:"batches"`    // Number of batches scored
	Candidates uint64 `json:"candidates"` // Number of candidates in these batches
	Skipped    uint64 `json:"skipped"`    // Candidates skipped with NaN
	Unwritten  uint64 `json:"unwritten"`  // Candidates without a score
	Fallbacks  uint64 `json:"fallbacks"`  // Reservations that continued without the plugin
	// These reservations by reason: fault, breaker, inactive, starting (its sandbox is not ready), memory (all plugins
	// together have reached their limit), busy
	FallbackReasons  map[string]uint64  `json:"fallback_reasons"`
	NsPerCandidate   float64            `json:"ns_per_candidate"`     // Mean nanoseconds per candidate
	FuelPerCandidate float64            `json:"fuel_per_candidate"`   // Mean fuel per candidate
	Faults           map[string]uint64  `json:"faults"`               // Failed batches, by kind
	LastFault        string             `json:"last_fault,omitempty"` // The last fault in words
	Counters         map[string]float64 `json:"counters"`             // Counters of the plugin itself
	CPUShare         float64            `json:"cpu_share"`            // Share of one core over the last 10 s
	MemoryPages      uint32             `json:"memory_pages"`         // Pages of 64 KiB of the largest sandbox
	Instances        int                `json:"instances"`            // Number of open sandboxes
	LogsDropped      uint64             `json:"logs_dropped"`         // Lines dropped by the limits
	Breaker          PluginBreaker      `json:"breaker"`              // Breaker of the active version
	Shadow           *PluginShadow      `json:"shadow,omitempty"`     // Comparison with the shadow
	Missing          []string           `json:"missing,omitempty"`    // Nodes of the cluster that did not answer
}

// PluginScores say how a version scored live traffic with one configuration since it was opened. They are of the last
// 4,096 candidates in a sample of the windows.
type PluginScores struct {
	SHA256  string `json:"sha256"`  // sha256 of the version
	Version string `json:"version"` // The version text of its manifest
	// Configuration; each has its own entry, because its scores may differ completely
	Config json.RawMessage `json:"config"`
	// active, canary, shadow or previous; empty if only consumers' own configurations use it
	Uses      []string          `json:"uses"`
	Batches   uint64            `json:"batches"`              // Number of batches scored
	Faults    map[string]uint64 `json:"faults"`               // Failed batches, by kind
	LastFault string            `json:"last_fault,omitempty"` // The last fault in words
	Windows   uint64            `json:"windows"`              // Number of batches sampled
	SinceAt   Time              `json:"since_at,omitzero"`    // Time of the first batch
	LastAt    Time              `json:"last_at,omitzero"`     // Time of the last batch
	Rows      int               `json:"rows"`                 // Number of candidates in the kept batches
	Skipped   int               `json:"skipped"`              // Number of those candidates skipped with NaN
	// Number of those candidates that gave a chunk; 0 for a shadow, which decides nothing
	Taken int `json:"taken"`
	// Scores in adjacent ranges. The first and the last range are wide enough for scores far outside
	Distribution []PluginTakenBin `json:"distribution" limit:"..MaxPluginBins"`
}

// PluginTakenBin counts candidates by their scores, and how many of them gave a chunk.
type PluginTakenBin struct {
	From  float64 `json:"from"`  // Lowest score of the range
	To    float64 `json:"to"`    // Score above the range; the last range includes it
	Count int     `json:"count"` // Number of candidates
	Taken int     `json:"taken"` // Number of these candidates that gave a chunk
}

// PluginShadow says how a shadow compares with the active version.
type PluginShadow struct {
	SHA256  string `json:"sha256"`  // sha256 of the version
	Batches uint64 `json:"batches"` // Batches that both versions scored
	// Batches that the shadow did not score, because it was behind or failing
	Dropped uint64            `json:"dropped"`
	Faults  map[string]uint64 `json:"faults"`  // Failed batches of the shadow, by kind
	Overlap float64           `json:"overlap"` // Mean share of the taken chunks that both agree on
	Tau     float64           `json:"tau"`     // Mean of Kendall's tau-b of the two orders
}

// PluginLogs are lines that a plugin logged, the oldest first.
type PluginLogs struct {
	Lines   []PluginLogLine `json:"lines"`   // Lines, the oldest first
	Dropped uint64          `json:"dropped"` // Number of lines dropped by the limits
	// Number of the last line, for `after`; 0 if the lines are of several nodes
	Next    uint64   `json:"next"`
	Cursor  string   `json:"cursor"`            // For later lines of the same nodes
	Missing []string `json:"missing,omitempty"` // Nodes of the cluster that did not answer
}

// PluginLogLine is one of them.
type PluginLogLine struct {
	Number  uint64 `json:"number"`               // Number of the line; each line has the next number
	Time    Time   `json:"time"`                 // Time of the line
	Version string `json:"version"`              // Version that logged it
	SHA256  string `json:"sha256"`               // First 8 digits of the version's sha256
	Level   string `json:"level" names:"levels"` // Severity
	Text    string `json:"text"`                 // Text of the line
	Node    string `json:"node,omitempty"`       // Node that it ran on; absent: the server is alone
}

// PluginRecording is a batch that was kept.
type PluginRecording struct {
	ID      uint64 `json:"id"`              // Number of the recording
	Time    Time   `json:"time"`            // Time of the batch
	Version string `json:"version"`         // Version that scored it
	SHA256  string `json:"sha256"`          // sha256 of the version that scored it
	Rows    int    `json:"rows"`            // Number of candidates
	Size    int    `json:"size"`            // Size in bytes
	Fault   string `json:"fault,omitempty"` // Fault of the batch; absent for a sample
}
