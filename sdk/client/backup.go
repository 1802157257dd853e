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

// Backup makes a backup of the whole server and returns it as a stream of size bytes: a tar, from which `quern
// restore` makes a data directory. Before the first byte, the server copies its files. This can take a while, so only
// ctx limits the time. Read the stream to its end without a long pause, and close it: the server makes no other
// backup until then. A stream that ends with an error, or with fewer bytes, is not a backup.
//
// Pass an earlier backup of this server as since to get an increment, which has the changes since then. You restore
// it after the earlier backup. Backup reads and sends only the beginning of since. With nil, the backup is a full
// one.
func Backup(ctx context.Context, c *Client, since io.Reader) (tar io.ReadCloser, size int64, err error) {
	return BackupQueue(ctx, c, "", since)
}

// BackupQueue is Backup of one queue, or of one shard, such as "orders~2"; "": of all. `quern restore --queue` brings it
// back into the data directory that it was made of.
func BackupQueue(ctx context.Context, c *Client, queue string, since io.Reader) (tar io.ReadCloser, size int64,
	err error) {
	q := &request{method: http.MethodPost, path: queried("/v1/backup", given("queue", queue))}
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
