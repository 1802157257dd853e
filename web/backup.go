package web

import (
	"bufio"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

const contentTar = "application/x-tar"

const backupAbout = "The answer is a tar with a manifest and the files that it lists, with their SHA-256: everything that was " +
	"acknowledged before the request, of all queues as of one moment, the access tokens and the plugins too. Work goes on " +
	"meanwhile. The copies are made first, beside the data, and take its room on the disk until the answer is read; without " +
	"that room the answer is 507. One backup is made at a time: 409 for another. It holds what the data directory holds: keep " +
	"it as safe. `quern backup` checks the answer while it is written to a file, and `quern restore` makes a data directory of it."

// backupRoutes are the part of the table about backups.
func backupRoutes(s *Server, d *document) {
	s.raw(d, operation{id: "backup", act: act{"server.backup", ""}, brings: true, method: "POST", path: "/v1/backup", scope: scopeAdmin,
		tag: tagServer, summary: "Make a backup of the whole server", about: backupAbout}, backupShape,
		func(c echo.Context) error { return makeBackup(s, c) })
}

func backupShape(d *document, op *huma.Operation) {
	fileShape(contentTar, nil)(d, op)
	op.Responses["200"].Headers = map[string]*huma.Param{"Content-Length": {
		Description: "Length of the backup in bytes: one that is shorter was cut", Schema: &huma.Schema{Type: huma.TypeString}}}
}

// makeBackup is POST /v1/backup.
func makeBackup(s *Server, c echo.Context) error {
	backup, err := s.engine.Storage().Backup(c.Request().Context(), s.version.Version)
	if err != nil {
		return err
	}
	defer backup.Close()
	name := "quern-" + backup.Manifest.Made.Format("20060102T150405Z") + ".tar"
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	c.Response().Header().Set("Content-Length", strconv.FormatInt(backup.Size, 10))
	return answerStream(s, c, contentTar, func(w *bufio.Writer) error { return backup.Write(w) })
}
