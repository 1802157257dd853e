package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/queue"
)

const (
	contentTar = "application/x-tar"
	// maxHeadBytes is the largest head of an earlier backup: that of 60 GiB of data.
	maxHeadBytes = 64 << 20
)

const backupAbout = "The answer is a tar with a manifest and the files that it lists, with their SHA-256: everything that was " +
	"acknowledged before the request, of all queues as of one moment, the access tokens and the plugins too. Work goes on " +
	"meanwhile. The copies are made first, beside the data, and take its room on the disk until the answer is read; without " +
	"that room the answer is 507. One backup is made at a time: 409 for another. It holds what the data directory holds: keep " +
	"it as safe. `quern backup` checks the answer while it is written to a file, and `quern restore` makes a data directory of it.\n\n" +
	"With the beginning of an earlier backup as the body, its entries `manifest.json` and `blocks`, the answer is an increment: " +
	"it has the blocks of files that changed since that one, and is restored behind it. The earlier one may be an increment " +
	"itself. One of another data directory is refused with 409: a restored server is another."

// backupRoutes are the part of the table about backups.
func backupRoutes(s *Server, d *document) {
	s.raw(d, operation{id: "backup", act: act{"server.backup", ""}, brings: true, method: "POST", path: "/v1/backup", scope: scopeAdmin,
		tag: tagServer, summary: "Make a backup of the whole server", about: backupAbout}, backupShape,
		func(c echo.Context) error { return makeBackup(s, c) })
}

func backupShape(d *document, op *huma.Operation) {
	fileShape(contentTar, nil)(d, op)
	op.RequestBody = &huma.RequestBody{Description: "The beginning of an earlier backup, for an increment; empty for a full backup",
		Content: map[string]*huma.MediaType{contentTar: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	op.Responses["200"].Headers = map[string]*huma.Param{"Content-Length": {
		Description: "Length of the backup in bytes: one that is shorter was cut", Schema: &huma.Schema{Type: huma.TypeString}}}
}

// makeBackup is POST /v1/backup.
func makeBackup(s *Server, c echo.Context) error {
	since, err := readSince(s, c)
	if err != nil {
		return err
	}
	backup, err := s.engine.Storage().Backup(c.Request().Context(), s.version.Version, since)
	if err != nil {
		return err
	}
	defer backup.Close()
	name := "quern-" + backup.Manifest.Made.Format("20060102T150405Z") + ".tar"
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	c.Response().Header().Set("Content-Length", strconv.FormatInt(backup.Size, 10))
	return answerStream(s, c, contentTar, func(w *bufio.Writer) error { return backup.Write(w) })
}

// readSince reads the head of an earlier backup; nil: the body is empty.
func readSince(s *Server, c echo.Context) (io.Reader, error) {
	r := c.Request()
	if r.ContentLength == 0 {
		return nil, nil
	}
	if _, err := s.mediaType(r, contentTar); err != nil {
		return nil, err
	}
	if r.ContentLength > maxHeadBytes {
		return nil, &queue.Error{Code: queue.CodeTooLarge, Message: fmt.Sprintf("The head of the earlier backup has %d bytes, and at most "+
			"%d are taken, which is enough for 60 GiB of data. Make a full backup.", r.ContentLength, maxHeadBytes)}
	}
	release, err := holdUpload(s, r.ContentLength, maxHeadBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	body := s.paced(c.Response(), http.MaxBytesReader(c.Response(), r.Body, maxHeadBytes))
	head, err := readWhole(body, r.ContentLength, maxHeadBytes)
	if err != nil || len(head) == 0 {
		return nil, err
	}
	body.finish()
	return bytes.NewReader(head), nil
}
