package web

// Upload of a plugin: the one request of this API whose body is a program. It is checked,
// instrumented, compiled and tried before anything is stored, the last two in a process of
// its own, because a compiler that is fed hostile input may crash or never end.
//
//	body ─► module ─┬─ known bytes ─► 200, no check
//	                └─ validate ─► instrument ─► [compile ─► dry run] ─► catalogue: ready
//	                   422 with a pointer for each fault   in a process of its own
//
// Uploads count their memory apart from other bodies (bodies.uploads). Else a few slow uploads
// could take the room of all large inserts.

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/plugins"
	"github.com/quern-queue/quern/sdk/api"
)

const (
	contentWasm      = "application/wasm"
	contentMultipart = "multipart/form-data"
	contentBytes     = "application/octet-stream"

	// the ceiling of a module, and the other parts; the catalogue's own limit is lower
	maxUploadBytes = 16<<20 + maxPartBytes*2
	maxPartBytes   = 64 << 10
	maxUploadParts = 8
	uploadAbout    = "As `application/wasm`, the body is the module, with its manifest in the section " +
		"`quern.manifest`. As `multipart/form-data`, the parts are `module`, `manifest` (JSON, for languages that " +
		"cannot embed one) and `config` (JSON, for the dry run of a plugin that needs one to start). The server " +
		"validates, instruments, compiles and tries the module, the last two in a separate process. 422 lists all " +
		"its faults, with pointers such as /module/code/functions/12/offset/345. Equal bytes are the same version: " +
		"they answer 200 without another check. A version scores nothing before you activate it."
)

// upload is POST /v1/plugins.
// Memory is held before the first byte is read. A body of unknown length counts as the longest one allowed.
//
//	holdUpload ─► readUpload (paced) ─► Versions.Upload: scan, instrument, compile in a child, dry run ─► catalogue
//	└ 429 when full   └ 408 when slow                    └ 422 lists everything that is wrong         └ 201, or 200
//
// The route sees the body as a stream and is not read by the common reader, which knows only JSON.
func (x pluginHandlers) upload(c echo.Context) error {
	if err := plainPath(c.Request()); err != nil {
		return err
	}
	catalogue, err := x.held()
	if err != nil {
		return err
	}
	r := c.Request()
	media, err := mediaType(r, contentWasm, contentMultipart)
	if err != nil {
		return err
	}
	if r.ContentLength > maxUploadBytes {
		return &http.MaxBytesError{Limit: maxUploadBytes}
	}
	release, err := x.bodies.holdUpload(r.ContentLength, maxUploadBytes)
	if err != nil {
		return err
	}
	defer release()
	upload, err := x.readUpload(c, media)
	if err != nil {
		return err
	}
	upload.By = access.Of(r.Context()).Who("")
	v, created, err := catalogue.Versions.Upload(r.Context(), upload)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set("Location", "/v1/plugins/"+v.Name+"/versions/"+v.SHA256)
	}
	return c.JSON(status, v)
}

// holdUpload counts a body of this length, -1 for an unknown one, against the limit of all
// uploads, until release is called. It adds before it compares, so two uploads that come
// together cannot both take the last room.
func (b *bodies) holdUpload(length, most int64) (release func(), err error) {
	holds := length
	if holds < 0 {
		holds = most
	}
	if b.uploads.Add(holds) > maxHeldUploads {
		b.uploads.Add(-holds)
		return nil, &queue.Error{Code: queue.CodeOverloaded,
			Message: "Too much is being uploaded at once; send this request again in a moment."}
	}
	return func() { b.uploads.Add(-holds) }, nil
}

// readUpload reads the body of an upload. It must keep coming (paced): a slow upload holds
// its share of the memory for uploads.
func (x pluginHandlers) readUpload(c echo.Context, media string) (upload plugins.Upload, err error) {
	r := c.Request()
	body := x.bodies.paced(c.Response(), http.MaxBytesReader(c.Response(), r.Body, maxUploadBytes))
	if media == contentWasm {
		upload.Module, err = readWhole(body, r.ContentLength, maxUploadBytes)
	} else {
		err = x.readParts(r, body, &upload)
	}
	if err == nil {
		body.finish()
	}
	return upload, err
}

// readWhole reads a body. If the sender announces the size, it takes that much memory at
// once: growing from nothing leaves five times as much garbage behind.
func readWhole(body io.Reader, size, most int64) ([]byte, error) {
	if size < 0 || size > most {
		return io.ReadAll(body)
	}
	whole := make([]byte, size)
	n, err := io.ReadFull(body, whole)
	return whole[:n], err
}

// readParts reads a form: each part once, each within its limit. A part that is unknown or comes twice is refused: of
// two modules it would not be clear which one was checked. The number of parts is bounded too: a form of empty parts
// is small, and each costs a parse.
func (x pluginHandlers) readParts(r *http.Request, body io.Reader, into *plugins.Upload) error {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return newProblem(codeMalformed, "The form has no boundary.")
	}
	reader := multipart.NewReader(body, parameters["boundary"])
	places := map[string]*[]byte{"module": &into.Module, "manifest": &into.Manifest, "config": &into.Config}
	for n := 0; ; n++ {
		part, err := reader.NextPart()
		var large *http.MaxBytesError
		switch {
		case err == io.EOF && into.Module == nil:
			return queue.Invalid("/module", "is missing: a form has a part of this name with the bytes of the module")
		case err == io.EOF:
			return nil
		case errors.As(err, &large):
			return large
		case err != nil || n >= maxUploadParts:
			return newProblem(codeMalformed, "The form cannot be read to its end, or has more than "+
				strconv.Itoa(maxUploadParts)+" parts.")
		}
		name := part.FormName()
		place := places[name]
		if place == nil || *place != nil {
			return queue.Invalid("/"+api.EscapePointer(name),
				"is not a part of this form, or is there twice; its parts are module, manifest and config")
		}
		most := int64(maxPartBytes)
		if name == "module" {
			most = maxUploadBytes
		}
		var content bytes.Buffer
		content.Grow(int(min(most, max(r.ContentLength, 0))) + bytes.MinRead) // no part is larger than the form
		// One byte more than allowed is read, to tell a part of the largest size from one that is too large.
		if _, err := content.ReadFrom(io.LimitReader(part, most+1)); err != nil {
			return err
		}
		if int64(content.Len()) > most {
			return queue.Invalid("/"+name, "has more than %d bytes", most)
		}
		*place = content.Bytes()
	}
}

// module is GET .../wasm. The name of the file has the digits of the sum, so that two downloads of one plugin do not
// look alike.
func (x pluginHandlers) module(c echo.Context) error {
	if err := plainPath(c.Request()); err != nil {
		return err
	}
	catalogue, err := x.held()
	if err != nil {
		return err
	}
	module, v, err := catalogue.Versions.Module(c.Param("name"), c.Param("version"))
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+v.Name+"-"+v.SHA256[:8]+`.wasm"`)
	c.Response().Header().Set("ETag", `"`+v.SHA256+`"`)
	return c.Blob(http.StatusOK, contentWasm, module)
}

// recording is GET .../recordings/{id}.
func (x pluginHandlers) recording(c echo.Context) error {
	if err := plainPath(c.Request()); err != nil {
		return err
	}
	catalogue, err := x.held()
	if err != nil {
		return err
	}
	id, err := strconv.ParseUint(c.Param("id"), 10, 64)
	if err != nil {
		return queue.Invalid("/path/id", "is not the number of a recording")
	}
	file, err := catalogue.Observations.Recording(c.Param("name"), id)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="`+strconv.FormatUint(id, 10)+`.qbatch"`)
	return c.Blob(http.StatusOK, contentBytes, file)
}

func uploadShape(d *document, op *huma.Operation) {
	bytes := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		contentWasm: {Schema: bytes},
		contentMultipart: {Schema: &huma.Schema{Type: huma.TypeObject, Required: []string{"module"},
			Properties: map[string]*huma.Schema{
				"module": bytes, "manifest": {Type: huma.TypeString}, "config": {Type: huma.TypeString},
			}}},
	}}
	for _, status := range []int{http.StatusCreated, http.StatusOK} {
		op.Responses[strconv.Itoa(status)] = d.answer(reflect.TypeFor[api.PluginVersion](), status)
	}
	op.Responses["200"].Description = "The same bytes were uploaded before"
	op.Responses["201"].Headers = map[string]*huma.Param{"Location": {Description: "Path of the version",
		Schema: &huma.Schema{Type: huma.TypeString}}}
}

// fileShape is that of an operation that answers with a file; its parameters are those of its path.
// A map has no order, and the document must be the same each time it is made; hence `order`.
func fileShape(media string, parameters map[string]string, order ...string) func(*document, *huma.Operation) {
	return func(_ *document, op *huma.Operation) {
		for _, name := range order {
			op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true,
				Description: parameters[name], Schema: &huma.Schema{Type: huma.TypeString}})
		}
		op.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK),
			Content: map[string]*huma.MediaType{
				media: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	}
}
