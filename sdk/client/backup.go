package client

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Backup has the server make a backup of everything it keeps, and returns it as a stream of this many bytes: a tar, which `quern restore`
// makes a data directory of. The server copies its files before the first byte comes, which takes a while with much data, so there is no
// limit of time but that of ctx. Read it to its end, without a long pause, and close it: until then the server has no other backup made.
// A stream that ends with an error, or with fewer bytes, is not a backup.
//
// With since, an earlier backup of this server, it is an increment: it has what changed since that one, and is restored behind it. Of since
// only the beginning is read, and sent; nil: a full backup.
func Backup(ctx context.Context, c *Client, since io.Reader) (tar io.ReadCloser, size int64, err error) {
	q := &request{method: http.MethodPost, path: "/v1/backup"}
	q.endpoint = c.addresses.of(q)
	body := io.Reader(http.NoBody)
	if since != nil {
		if body, err = headOf(since); err != nil {
			return nil, 0, fmt.Errorf("quern: backup: %w", err)
		}
		q.media = "application/x-tar"
	}
	request, err := c.cold.build(ctx, q, body)
	if err != nil {
		return nil, 0, fmt.Errorf("quern: backup: %w", err)
	}
	answer, err := c.cold.http.Do(request)
	if err != nil {
		err = trouble("backup", err)
		c.addresses.leave(q, err)
		return nil, 0, err
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

// headOf is the beginning of a backup: its manifest, and the checksums of all blocks.
func headOf(backup io.Reader) (io.Reader, error) {
	var head bytes.Buffer
	in := tar.NewReader(io.TeeReader(backup, &head))
	for _, name := range []string{"manifest.json", "blocks"} {
		entry, err := in.Next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the earlier backup cannot be read: %v", err)
		case entry.Name == name:
		case name == "blocks":
			return nil, errors.New("the earlier backup was made by a version whose backups cannot be continued: make a full one")
		default:
			return nil, fmt.Errorf("the earlier backup is none: it begins with %q", entry.Name)
		}
		if _, err := io.Copy(io.Discard, in); err != nil {
			return nil, fmt.Errorf("the earlier backup cannot be read: %v", err)
		}
	}
	return &head, nil
}
