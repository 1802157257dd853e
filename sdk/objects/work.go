package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"

	"gocloud.dev/blob"

	"github.com/quern-queue/quern/sdk/client"
)

// Handler does the work of one chunk. It reads the content and writes the output; if it writes nothing, the chunk is completed without one.
// What it wrote counts when it returns nil and is dropped otherwise. Errors and ctx are those of client.Handler.
type Handler func(ctx context.Context, chunk *client.Chunk, content io.Reader, output io.Writer) error

// Work is client.Work for a handler that reads and writes objects. A chunk without a key, whose content came with the reservation,
// is read the same way. An object that cannot be opened fails the try.
//
// Each try writes an object of its own, so that a consumer that lost its chunk cannot replace the output of the one that has it. Objects
// of results that did not count stay until Sweep or Remove.
func (s Store) Work(ctx context.Context, o client.WorkOptions, handler Handler) error {
	return s.Client.Work(ctx, o, func(ctx context.Context, chunk *client.Chunk) ([]byte, error) { return s.handle(ctx, chunk, handler) })
}

func (s Store) handle(ctx context.Context, chunk *client.Chunk, handler Handler) ([]byte, error) {
	content, err := s.open(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("objects: the content of the chunk: %w", err)
	}
	defer closeReader(content)
	ctx, abandon := context.WithCancel(ctx)
	out := &output{ctx: ctx, bucket: s.Bucket, key: fmt.Sprintf("%s%d-%s", outputsOf(chunk.Submission), chunk.Index, rand.Text())}
	defer out.close()
	defer abandon() // before the close, which drops what was written if it was not published
	if err := handler(ctx, chunk, content, out); err != nil {
		return nil, err
	}
	return out.publish()
}

func outputsOf(submission string) string { return outputs + submission + "/" }

func (s Store) open(ctx context.Context, chunk *client.Chunk) (io.Reader, error) {
	if chunk.Key == "" {
		return bytes.NewReader(chunk.Content), nil
	}
	return s.Bucket.NewReader(ctx, chunk.Key, nil)
}

// output is the object that a handler writes. It is begun by the first write.
type output struct {
	ctx    context.Context // its end drops the object
	bucket *blob.Bucket
	key    string
	writer *blob.Writer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.writer == nil {
		w, err := o.bucket.NewWriter(o.ctx, o.key, &blob.WriterOptions{ContentType: binary})
		if err != nil {
			return 0, err
		}
		o.writer = w
	}
	return o.writer.Write(p)
}

// publish makes an object of what was written and returns its key; nil: nothing was written.
func (o *output) publish() ([]byte, error) {
	if o.writer == nil {
		return nil, nil
	}
	w := o.writer
	o.writer = nil
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("objects: the output: %w", err)
	}
	return []byte(o.key), nil
}

func (o *output) close() {
	if o.writer != nil {
		_ = o.writer.Close() // its context has ended, which is what it says
	}
}
