package web

// POST /v1/backup: a tar of the whole server. The engine copies the files first, at the pace of the
// disk; then the answer is sent at the pace of the client. In one step, a slow client would hold
// the moment of the backup open, and with it the logs of all files.
//
// Content-Length is known before the first byte, so a client can tell a backup that was cut from a
// whole one.

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
)

const (
	contentTar = "application/x-tar"
	// maxHeadBytes is the largest head of an earlier backup: that of 60 GiB of data.
	maxHeadBytes = 64 << 20
)

const backupAbout = "The answer is a tar with a manifest and the files that it lists, with their SHA-256. It has " +
	"everything acknowledged before the request, of all queues as of one moment, with the access tokens and the " +
	"plugins. Work continues meanwhile. The server makes the copies first, beside the data, and they take disk " +
	"space until the answer is read; without that space the answer is 507. The server makes one backup at a time " +
	"and answers 409 to another. A backup has the same secrets as the data directory: keep it as safe. `quern " +
	"backup` checks the answer while it writes a file, and `quern restore` makes a data directory from " +
	"it.\n\nWithout a body, the answer is a full backup. For an increment, send the beginning of an earlier backup " +
	"as the body: its entries `manifest.json` and `blocks`. An increment has the blocks of files that changed " +
	"since then. You restore the earlier backup first, and then the increment. The earlier backup may be an " +
	"increment itself. If it is of another data directory, the answer is 409; a restore makes a new data " +
	"directory.\n\nWith `queue`, the backup has one queue or one shard only. `quern restore --queue` brings it back " +
	"into the same data directory, beside the other queues."

// backups are the handlers of backups.
type backups struct {
	storage engine.Storage
	version string // of the program, which a backup names
	bodies  *bodies
	streams *streams
}

// routes are the part of the table about backups.
func (b backups) routes(r *router) {
	r.raw(operation{id: "backup", act: act{"server.backup", ""}, brings: true, method: "POST", path: "/v1/backup",
		scope: scopeAdmin,
		tag:   tagServer, summary: "Make a backup of the whole server", about: backupAbout,
		params: backupList().document()}, backupShape, b.make)
}

// backupList has the parameters of a backup.
func backupList() parameters[string] {
	return parameters[string]{textParameter("queue", "Back up only this queue, or this shard, such as orders~2, "+
		"with the catalogue; empty: all", 0, func(of *string) *string { return of })}
}

func backupShape(d *document, op *huma.Operation) {
	fileShape(contentTar, nil)(d, op)
	op.RequestBody = &huma.RequestBody{
		Description: "The beginning of an earlier backup, for an increment; empty for a full backup",
		Content: map[string]*huma.MediaType{contentTar: {
			Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	op.Responses["200"].Headers = map[string]*huma.Param{"Content-Length": {
		Description: "Length of the backup in bytes; a shorter body was cut off",
		Schema:      &huma.Schema{Type: huma.TypeString}}}
}

// make is POST /v1/backup.
//
//	client ── head of the last backup ─► since ─► engine copies the files at one moment ─► size is known ─► the tar
//	                                     └ 413, 408                └ 507, 409                             └ 200
//
// After the first byte nothing can be refused any more, so all that can fail comes before it.
func (b backups) make(c echo.Context) error {
	var of string
	if err := backupList().read(c.Request().URL.RawQuery, &of); err != nil {
		return err
	}
	since, err := b.since(c)
	if err != nil {
		return err
	}
	backup, err := b.storage.Backup(c.Request().Context(), b.version, of, since)
	if err != nil {
		return err
	}
	defer backup.Close()
	name := "quern-" + backup.Manifest.Made.Format("20060102T150405Z") + ".tar"
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	c.Response().Header().Set("Content-Length", strconv.FormatInt(backup.Size, 10))
	return b.streams.content(c, contentTar, func(w *bufio.Writer) error { return backup.Write(w) })
}

// since reads the head of an earlier backup; nil: the body is empty.
// It shares the memory of uploads: both are large bodies of few callers, and neither may take the room of inserts.
func (b backups) since(c echo.Context) (io.Reader, error) {
	r := c.Request()
	if r.ContentLength == 0 {
		return nil, nil
	}
	if _, err := mediaType(r, contentTar); err != nil {
		return nil, err
	}
	if r.ContentLength > maxHeadBytes {
		return nil, &queue.Error{Code: queue.CodeTooLarge,
			Message: fmt.Sprintf("The head of the earlier backup has %d bytes, and at most "+
				"%d are taken, which is enough for 60 GiB of data. Make a full backup.", r.ContentLength, maxHeadBytes)}
	}
	release, err := b.bodies.holdUpload(r.ContentLength, maxHeadBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	body := b.bodies.paced(c.Response(), http.MaxBytesReader(c.Response(), r.Body, maxHeadBytes))
	head, err := readWhole(body, r.ContentLength, maxHeadBytes)
	if err != nil || len(head) == 0 {
		return nil, err
	}
	body.finish()
	return bytes.NewReader(head), nil
}
