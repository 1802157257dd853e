package api

import "encoding/json"

// The states of a plugin's version.
const (
	PluginReady       = "ready"
	PluginQuarantined = "quarantined"
)

// Plugin is a plugin with what is in use of it.
type Plugin struct {
	Name          string         `json:"name"`
	State         string         `json:"state"` // active, inactive, starting, open, half_open, throttled, quarantined or held
	Revision      uint64         `json:"revision"`
	ETag          string         `json:"etag"` // of the revision, quotes included: for If-Match
	Active        *PluginUse     `json:"active,omitempty"`
	Previous      *PluginUse     `json:"previous,omitempty"` // where a rollback goes
	Shadow        *PluginUse     `json:"shadow,omitempty"`
	Canary        *PluginUse     `json:"canary,omitempty"`
	CanaryPercent int            `json:"canary_percent"`
	Settings      PluginSettings `json:"settings"`
	Breaker       PluginBreaker  `json:"breaker"`
	Versions      int            `json:"versions"`
	Latest        string         `json:"latest,omitempty"` // sha256 of the version that came last
	ChangedAt     Time           `json:"changed_at,omitzero"`
	ChangedBy     string         `json:"changed_by,omitempty"`
}

// PluginUse is a version with a configuration.
type PluginUse struct {
	SHA256  string          `json:"sha256"`
	Version string          `json:"version"`
	Config  json.RawMessage `json:"config"`
}

// PluginBreaker is the state of the active version's breaker.
type PluginBreaker struct {
	State  string `json:"state"` // closed, starting, open, half_open, throttled, quarantined or held
	Reason string `json:"reason,omitempty"`
	Until  Time   `json:"until,omitzero"`
}

// PluginSettings are what an operator may set for a plugin; zeroes are the server's defaults.
type PluginSettings struct {
	Hold        string  `json:"hold,omitempty"`         // "", open (out of use) or closed (the breaker never opens)
	CPUShare    float64 `json:"cpu_share,omitempty"`    // of one core
	RecordEvery int     `json:"record_every,omitempty"` // one of so many batches is recorded
	LogLevel    int     `json:"log_level,omitempty"`    // lines below it are dropped: 0 debug to 3 error
}

// PluginVersion is one version of a plugin.
type PluginVersion struct {
	Name      string          `json:"name"`
	Version   string          `json:"version"`
	SHA256    string          `json:"sha256"` // of the module with its manifest
	State     string          `json:"state"`  // PluginReady or PluginQuarantined
	Reason    string          `json:"reason,omitempty"`
	Uses      []string        `json:"uses"` // of active, canary, shadow and previous
	Size      int64           `json:"size"`
	CreatedAt Time            `json:"created_at"`
	CreatedBy string          `json:"created_by,omitempty"`
	Manifest  json.RawMessage `json:"manifest"`
	Report    PluginReport    `json:"report"`
}

// PluginReport is what a dry run with synthetic candidates found.
type PluginReport struct {
	NsPerCandidate   float64 `json:"ns_per_candidate"` // of the fastest batch
	NsMedian         float64 `json:"ns_median"`
	FuelPerCandidate float64 `json:"fuel_per_candidate"`
	Rows             int     `json:"rows"` // of the timed batches
	MemoryPages      uint32  `json:"memory_pages"`
	SkipShare        float64 `json:"skip_share"` // skipped or not written
	NaNShare         float64 `json:"nan_share"`
	Deterministic    bool    `json:"deterministic"`
	CompileMs        int64   `json:"compile_ms"`
	CompilePeakBytes int64   `json:"compile_peak_bytes"`
	FromCache        bool    `json:"from_cache"`
	Instructions     int     `json:"instructions"`
}

// PluginSelection is the body of the operations that put a version to use.
type PluginSelection struct {
	Version string          `json:"version"`           // its version text, or 8 or more digits of its sha256
	Config  json.RawMessage `json:"config,omitempty"`  // an object as the manifest's schema has it; left out: the defaults
	Percent int             `json:"percent,omitempty"` // of a canary: 0 to 100
	Force   bool            `json:"force,omitempty"`   // also a version that is quarantined
}

// PluginDryRun is the body of POST /v1/plugins/{name}/versions/{version}/dry-run.
type PluginDryRun struct {
	Config    json.RawMessage `json:"config,omitempty"`    // left out: the activation's or the defaults
	Queue     string          `json:"queue,omitempty"`     // whose live candidates are scored; left out: synthetic ones only
	Strategy  string          `json:"strategy,omitempty"`  // in whose order; left out: OldestFirst
	Context   Meta            `json:"context,omitempty"`   // of the reservation that would be made
	Rows      int             `json:"rows,omitempty"`      // candidates; 0: the version's default window
	Want      int             `json:"want,omitempty"`      // how many would be taken; 0: 10
	Recording uint64          `json:"recording,omitempty"` // a recorded batch to score again
}

// PluginTried is the answer to a dry run.
type PluginTried struct {
	Report PluginReport  `json:"report"` // of synthetic candidates
	Live   *PluginLive   `json:"live,omitempty"`
	Replay *PluginReplay `json:"replay,omitempty"`
}

// PluginLive says what a version would do with live candidates. Rows are places in the order without the plugin, from 0.
type PluginLive struct {
	Rows          int          `json:"rows"`
	Submissions   []string     `json:"submissions"` // by row: the submission whose next chunk is the candidate
	Skipped       int          `json:"skipped"`
	Histogram     []PluginBin  `json:"histogram"`
	Picks         []PluginPick `json:"picks"`
	Gained        []int        `json:"gained"` // rows that would be taken and would not be without the plugin
	Lost          []int        `json:"lost"`
	ActiveGained  []int        `json:"active_gained,omitempty"` // against the active version; absent without one
	ActiveLost    []int        `json:"active_lost,omitempty"`
	ActiveOverlap *float64     `json:"active_overlap,omitempty"`
	ActiveTau     *float64     `json:"active_tau,omitempty"` // Kendall's tau-b
}

// PluginBin counts scores between two numbers.
type PluginBin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
}

// PluginPick is a candidate that would be taken. Score is null where it is infinite.
type PluginPick struct {
	Row   int      `json:"row"`
	Score *float64 `json:"score"`
}

// PluginReplay compares a recording with what its batch scores now.
type PluginReplay struct {
	Rows      int  `json:"rows"`
	Scored    bool `json:"scored"`    // the recording has scores; that of a fault has none
	Identical bool `json:"identical"` // they are the same bits
	Different int  `json:"different"`
}

// PluginStats are a plugin's numbers since the start of the server.
type PluginStats struct {
	Batches          uint64             `json:"batches"`
	Candidates       uint64             `json:"candidates"`
	Skipped          uint64             `json:"skipped"`
	Unwritten        uint64             `json:"unwritten"`
	Fallbacks        uint64             `json:"fallbacks"`
	FallbackReasons  map[string]uint64  `json:"fallback_reasons"` // fault, breaker, inactive, starting, memory, busy: those that there were
	NsPerCandidate   float64            `json:"ns_per_candidate"`
	FuelPerCandidate float64            `json:"fuel_per_candidate"`
	Faults           map[string]uint64  `json:"faults"` // by kind
	LastFault        string             `json:"last_fault,omitempty"`
	Counters         map[string]float64 `json:"counters"` // the plugin's own
	CPUShare         float64            `json:"cpu_share"`
	MemoryPages      uint32             `json:"memory_pages"`
	Instances        int                `json:"instances"`
	LogsDropped      uint64             `json:"logs_dropped"`
	Breaker          PluginBreaker      `json:"breaker"`
	Shadow           *PluginShadow      `json:"shadow,omitempty"`
}

// PluginScores say how a version scored live traffic with one configuration since it was opened: of a sample of the windows, the last
// 4,096 candidates.
type PluginScores struct {
	SHA256       string            `json:"sha256"`
	Version      string            `json:"version"`
	Config       json.RawMessage   `json:"config"`
	Uses         []string          `json:"uses"` // of active, canary, shadow, previous; none of what a consumer asked for by itself
	Batches      uint64            `json:"batches"`
	Faults       map[string]uint64 `json:"faults"` // by kind
	LastFault    string            `json:"last_fault,omitempty"`
	Windows      uint64            `json:"windows"`           // that were looked at
	SinceAt      Time              `json:"since_at,omitzero"` // when the first of them was scored
	LastAt       Time              `json:"last_at,omitzero"`
	Rows         int               `json:"rows"`    // candidates that are kept of them
	Skipped      int               `json:"skipped"` // of those, with NaN
	Taken        int               `json:"taken"`   // of those, that something was taken of
	Distribution []PluginTakenBin  `json:"distribution"`
}

// PluginTakenBin counts candidates by their scores, and of how many of them something was taken.
type PluginTakenBin struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
	Taken int     `json:"taken"`
}

// PluginShadow says how a shadow compares with the active version.
type PluginShadow struct {
	SHA256  string            `json:"sha256"`
	Batches uint64            `json:"batches"`
	Dropped uint64            `json:"dropped"`
	Faults  map[string]uint64 `json:"faults"`
	Overlap float64           `json:"overlap"`
	Tau     float64           `json:"tau"`
}

// PluginLogs are lines that a plugin logged, the oldest first.
type PluginLogs struct {
	Lines   []PluginLogLine `json:"lines"`
	Dropped uint64          `json:"dropped"` // over the limits, in all
	Next    uint64          `json:"next"`    // ask with after=NEXT for the lines that follow
}

// PluginLogLine is one of them.
type PluginLogLine struct {
	Number  uint64 `json:"number"`
	Time    Time   `json:"time"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // the first 8 digits
	Level   string `json:"level"`  // debug, info, warn or error
	Text    string `json:"text"`
}

// PluginRecording is a batch that was kept.
type PluginRecording struct {
	ID      uint64 `json:"id"`
	Time    Time   `json:"time"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Rows    int    `json:"rows"`
	Size    int    `json:"size"`
	Fault   string `json:"fault,omitempty"` // why it was kept; a sample has none
}
