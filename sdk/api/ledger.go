package api

// Ledger is a Fair block that is in use. It shares out service by one key.
type Ledger struct {
	ID     string `json:"id"`     // Id, which stays as long as strategies have this branch
	Branch string `json:"branch"` // Text of its branch
	// Key whose values are the tenants; $submission: every submission is a tenant
	Key string `json:"key"`
	// The shared quantity: chunks, or the time that consumers hold them
	Cost    string `json:"cost" names:"costs"`
	Depth   int    `json:"depth"`   // Number of Fair blocks around it
	Places  int    `json:"places"`  // Number of its places: one, or one per tenant around it
	Active  int    `json:"active"`  // Number of tenants with chunks to offer
	Owing   int    `json:"owing"`   // Number of tenants without chunks that are ahead
	Blocked int    `json:"blocked"` // Number of tenants that limits hold back
}

// LedgerTenants is the answer of GET /v1/queues/{queue}/ledgers/{ledger}. Amounts count from the time when a tenant was
// first seen, in chunks or, where time is shared, in seconds. The sums cover all tenants, not only the listed ones.
type LedgerTenants struct {
	Ledger Ledger `json:"ledger"` // The block
	At     Time   `json:"at"`     // Time of these numbers
	// Amounts of all tenants together: chunks, or seconds if time is shared
	Received   float64 `json:"received"`
	Entitled   float64 `json:"entitled"`    // Fair shares of all tenants together
	Lag        float64 `json:"lag"`         // Sum of all lags: 0, except for reservations made while it was computed
	MostBehind float64 `json:"most_behind"` // The largest lag of all tenants
	MostAhead  float64 `json:"most_ahead"`  // The smallest lag of all tenants
	Tenants    int     `json:"tenants"`     // Number of tenants examined
	Whole      bool    `json:"whole"`       // false: there are more tenants
	Sentence   string  `json:"sentence"`    // The distance of tenants from their fair share, in words

	// Start of the time that lately covers: up to eleven minutes ago. Absent in the first minute of the server and of
	// the ledger
	LatelySince Time `json:"lately_since,omitzero"`
	// Amounts of all tenants since lately_since, including tenants outside the list; absent as lately_since is
	Lately *TenantLately `json:"lately,omitempty"`

	// Number of tenants by their lag, those furthest ahead first. A positive lag means behind
	Lags []LagClass `json:"lags"`
	// The first tenants, as many as fit into an answer
	Items []LedgerTenant `json:"items" limit:"..MaxLedgerTenants"`
}

// LagClass is how many tenants have a lag above From and up to To. The first has no From and the last no To.
type LagClass struct {
	From    *float64 `json:"from,omitempty"` // Lags above this; absent: no lower bound
	To      *float64 `json:"to,omitempty"`   // Lags up to this; absent: no upper bound
	Tenants int      `json:"tenants"`        // Number of tenants
}

// LedgerTenant is how one tenant stands. Value is left out for the one tenant of all submissions without the key. Around are the
// tenants that it is inside of, the outermost first.
type LedgerTenant struct {
	Value  *MetaValue `json:"value,omitempty"`  // Value of the key; absent: all submissions without it
	Around []Tenant   `json:"around,omitempty"` // Tenants around it, the outermost first
	// active: it has chunks to offer. owing: it has none and is ahead. blocked: a limit holds it back
	State    string  `json:"state" names:"tenants of ledgers"`
	Weight   float64 `json:"weight"`   // Weight of the value; 1 if none is set
	Share    float64 `json:"share"`    // Current fair share of everything handed out at its place, 0 to 1
	Received float64 `json:"received"` // Amount received since it was first seen
	Entitled float64 `json:"entitled"` // Fair share since it was first seen
	// entitled minus received: positive if it is behind, negative if it is ahead
	Lag float64 `json:"lag"`

	// Amounts since lately_since; absent if the tenant was not among the thousand that had received the most
	Lately *TenantLately `json:"lately,omitempty"`
}

// TenantLately is what a tenant was handed out and was entitled to in the last ten minutes.
type TenantLately struct {
	Received float64 `json:"received"` // Amount received
	Entitled float64 `json:"entitled"` // Fair share
}

// ChunkMap says where the chunks of a part of a submission stand: those from From up to To (not included), in cells of Each chunks.
// The lists are as long as there are cells.
type ChunkMap struct {
	Chunks uint32 `json:"chunks"` // Chunks of the submission
	From   uint32 `json:"from"`   // Index of the first chunk of the first cell
	To     uint32 `json:"to"`     // Index after the last chunk of the last cell
	Each   uint32 `json:"each"`   // Chunks in a cell; the last one may have fewer
	// The server examined one chunk in this many; the counts below are of the examined chunks. 1: of all chunks
	Every    uint32   `json:"every"`
	Ready    []uint32 `json:"ready" limit:"..MaxCells"`    // Chunks of each cell that are ready
	Waiting  []uint32 `json:"waiting" limit:"..MaxCells"`  // Chunks of each cell that are waiting
	Reserved []uint32 `json:"reserved" limit:"..MaxCells"` // Chunks of each cell that are reserved
	Done     []uint32 `json:"done" limit:"..MaxCells"`     // Chunks of each cell that are done
	Dead     []uint32 `json:"dead" limit:"..MaxCells"`     // Chunks of each cell that are dead
	Skipped  []uint32 `json:"skipped" limit:"..MaxCells"`  // Chunks of each cell that are skipped

	// Effect of a rule on the ready chunks of all cells: the server hands out none of them. Absent: no rule covers
	// them
	Ruling string `json:"ruling,omitempty" names:"rulings"`
}
