package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Backup has the server make a backup of everything it keeps, and returns it as a stream of so many bytes: a tar, which `quern restore`
// makes a data directory of. The server copies its files before the first byte comes, which takes a while with much data, so there is no
// limit of time but that of ctx. Read it to its end, without a long pause, and close it: until then the server has no other backup made.
// A stream that ends with an error, or with fewer bytes, is not a backup.
func Backup(ctx context.Context, c *Client) (tar io.ReadCloser, size int64, err error) {
	q := &request{method: http.MethodPost, path: "/v1/backup", endpoint: c.current()}
	request, err := c.cold.build(ctx, q, http.NoBody)
	if err != nil {
		return nil, 0, fmt.Errorf("quern: backup: %w", err)
	}
	answer, err := c.cold.http.Do(request)
	if err != nil {
		c.leave(q.endpoint)
		return nil, 0, fmt.Errorf("quern: backup: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, answer.ContentLength, nil
	}
	defer answer.Body.Close()
	var r reply
	if err := r.read(answer); err != nil {
		return nil, 0, fmt.Errorf("quern: backup: %w", err)
	}
	return nil, 0, refusal(&r)
}
