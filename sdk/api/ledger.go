package api

// Ledger is a Fair block that is in use: what shares out service by one key.
type Ledger struct {
	ID      string `json:"id"`                 // The same as long as strategies have this branch
	Branch  string `json:"branch"`             // Text of the branch that it is in
	Key     string `json:"key"`                // Whose values are its tenants; $submission: every submission is one
	Cost    string `json:"cost" names:"costs"` // What is shared: chunks, or the time that consumers hold them
	Depth   int    `json:"depth"`              // How many Fair blocks are around it
	Places  int    `json:"places"`             // One, or one inside of each tenant around it
	Active  int    `json:"active"`             // Tenants that have something to offer
	Owing   int    `json:"owing"`              // That have nothing, and are ahead still
	Blocked int    `json:"blocked"`            // That are behind limits
}

// LedgerTenants is the answer of GET /v1/queues/{queue}/ledgers/{ledger}. Amounts are chunks or, where time is shared, seconds, since a
// tenant was first heard of. The sums are over all tenants and not only those listed.
type LedgerTenants struct {
	Ledger     Ledger  `json:"ledger"`      // The block
	At         Time    `json:"at"`          // When it was read
	Received   float64 `json:"received"`    // By all tenants: chunks, or seconds where time is shared
	Entitled   float64 `json:"entitled"`    // Likewise, by an ideal division
	Lag        float64 `json:"lag"`         // Sum of all lags: 0, but for what was reserved while it was summed up
	MostBehind float64 `json:"most_behind"` // The largest lag of all tenants
	MostAhead  float64 `json:"most_ahead"`  // The least
	Tenants    int     `json:"tenants"`     // How many were looked at
	Whole      bool    `json:"whole"`       // false: there are more
	Sentence   string  `json:"sentence"`    // How far tenants are from their due, in words

	// Since when lately counts: up to eleven minutes ago. Absent in the first minute of the server and of the ledger
	LatelySince Time `json:"lately_since,omitzero"`

	// How many tenants are how far from their due, those furthest ahead first. A lag is positive for who is owed
	Lags  []LagClass     `json:"lags"`
	Items []LedgerTenant `json:"items" limit:"..MaxLedgerTenants"` // The first of them, as many as an answer has room for
}

// LagClass is how many tenants have a lag above From and up to To. The first has no From and the last no To.
type LagClass struct {
	From    *float64 `json:"from,omitempty"` // Lags above this; absent: all that are less than to
	To      *float64 `json:"to,omitempty"`   // Lags up to this; absent: all that are above from
	Tenants int      `json:"tenants"`        // How many tenants
}

// LedgerTenant is how one tenant stands. Value is left out for the one tenant of all submissions without the key. Around are the
// tenants that it is inside of, the outermost first.
type LedgerTenant struct {
	Value  *MetaValue `json:"value,omitempty"`  // Of the key; left out for all submissions without it
	Around []Tenant   `json:"around,omitempty"` // The tenants that it is inside of, the outermost first
	// active: it has something to offer. owing: it has nothing and is ahead still. blocked: it is behind a limit
	State    string  `json:"state" names:"tenants of ledgers"`
	Weight   float64 `json:"weight"`   // As set for the value; 1 otherwise
	Share    float64 `json:"share"`    // What it is entitled to of all that is handed out at its place now, 0 to 1
	Received float64 `json:"received"` // What it was handed out since it was first heard of
	Entitled float64 `json:"entitled"` // What an ideal division would have handed out to it
	Lag      float64 `json:"lag"`      // The difference: positive, it is owed; negative, it is ahead

	// What it was handed out and was entitled to since lately_since; absent of those that were not among the thousand that had received
	// most
	Lately *TenantLately `json:"lately,omitempty"`
}

// TenantLately is what a tenant was handed out and was entitled to in the last ten minutes.
type TenantLately struct {
	Received float64 `json:"received"` // What it was handed out
	Entitled float64 `json:"entitled"` // What an ideal division would have handed out to it
}

// ChunkMap says where the chunks of a part of a submission stand: those from From up to To (not included), in cells of Each chunks.
// The lists are as long as there are cells.
type ChunkMap struct {
	Chunks   uint32   `json:"chunks"`                      // Of the submission
	From     uint32   `json:"from"`                        // Index of the first chunk of the first cell
	To       uint32   `json:"to"`                          // Index behind the last one; less than chunks: go on from here
	Each     uint32   `json:"each"`                        // Chunks in a cell; the last one may have fewer
	Ready    []uint32 `json:"ready" limit:"..MaxCells"`    // Chunks of each cell that are ready
	Waiting  []uint32 `json:"waiting" limit:"..MaxCells"`  // Chunks of each cell that are waiting
	Reserved []uint32 `json:"reserved" limit:"..MaxCells"` // Chunks of each cell that are reserved
	Done     []uint32 `json:"done" limit:"..MaxCells"`     // Chunks of each cell that are done
	Dead     []uint32 `json:"dead" limit:"..MaxCells"`     // Chunks of each cell that are dead
	Skipped  []uint32 `json:"skipped" limit:"..MaxCells"`  // Chunks of each cell that are skipped

	// What a rule makes of the ready chunks of all cells: none of them is handed out. Absent: no rule covers them
	Ruling string `json:"ruling,omitempty" names:"rulings"`
}
