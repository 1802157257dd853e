package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Ledgers lists the Fair blocks of a queue that are in use.
func (c *Client) Ledgers(ctx context.Context, queue string) iter.Seq2[api.Ledger, error] {
	return pages[api.Ledger](ctx, c, "ledgers", queuePath(queue, "/ledgers"), url.Values{})
}

// LedgerTenants tells how the tenants of a ledger stand: at most limit (1 to 1000), in the order of sort, which is received, behind or
// ahead.
func (c *Client) LedgerTenants(ctx context.Context, queue, ledger, sort string, limit int) (*api.LedgerTenants, error) {
	path := queuePath(queue, "/ledgers/"+url.PathEscape(ledger)) + "?" + url.Values{"sort": {sort}, "limit": {strconv.Itoa(limit)}}.Encode()
	return fetch[api.LedgerTenants](ctx, c, "ledger", &request{method: http.MethodGet, path: path, safe: true})
}

// Views lists the indexes that the strategies of a queue stand on, with the memory that they take.
func (c *Client) Views(ctx context.Context, queue string) (*api.Views, error) {
	return fetch[api.Views](ctx, c, "views", &request{method: http.MethodGet, path: queuePath(queue, "/views"), safe: true})
}

// ChunkMap tells where the chunks of a submission stand, from one up to another (not included; 0: as far as one answer goes), in at
// most so many cells (1 to 1000).
func (c *Client) ChunkMap(ctx context.Context, submission string, from, to uint32, cells int) (*api.ChunkMap, error) {
	query := url.Values{"cells": {strconv.Itoa(cells)}}
	if from > 0 {
		query.Set("from", strconv.FormatUint(uint64(from), 10))
	}
	if to > 0 {
		query.Set("to", strconv.FormatUint(uint64(to), 10))
	}
	path := "/v1/submissions/" + url.PathEscape(submission) + "/map?" + query.Encode()
	return fetch[api.ChunkMap](ctx, c, "chunk map", &request{method: http.MethodGet, path: path, safe: true})
}
