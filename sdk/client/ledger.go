package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Ledgers lists the Fair blocks of a queue that are in use.
func (c *Client) Ledgers(ctx context.Context, queue string) iter.Seq2[api.Ledger, error] {
	return pages[api.Ledger](ctx, c, "ledgers", queuePath(queue, "/ledgers"), nil)
}

// LedgerTenants tells how the tenants of a ledger stand: at most limit (1 to 1000), in the order of sort, which is received, behind or
// ahead.
func (c *Client) LedgerTenants(ctx context.Context, queue, ledger, sort string, limit int) (*api.LedgerTenants, error) {
	query := url.Values{"sort": {sort}, "limit": {strconv.Itoa(limit)}}
	return get[api.LedgerTenants](ctx, c, "ledger", queried(queuePath(queue, "/ledgers/"+url.PathEscape(ledger)), query))
}

// Views lists the indexes that the strategies of a queue stand on, with the memory that they take.
func (c *Client) Views(ctx context.Context, queue string) (*api.Views, error) {
	return whole(ctx, c, "views", queuePath(queue, "/views"), nil,
		func(page *api.Views) (*[]api.View, *string) { return &page.Items, &page.Next })
}

// ChunkMap tells where the chunks of a submission stand, from one up to another (not included; 0: as far as one answer goes), in at
// most so many cells (1 to 1000).
func (c *Client) ChunkMap(ctx context.Context, submission string, from, to uint32, cells int) (*api.ChunkMap, error) {
	query := given("cells", strconv.Itoa(cells), "from", positive(from), "to", positive(to))
	return get[api.ChunkMap](ctx, c, "chunk map", queried(submissionPath(submission, "/map"), query))
}
