package objects

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"sync"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// Store is a server and the bucket with the objects of its submissions. If you use Sweep, no two servers may share a
// bucket and prefix.
type Store struct {
	Client   *client.Client
	Bucket   *blob.Bucket
	Parallel int // uploads, or deletions, at once; 0 is 8
}

const (
	contents = "quern/contents/"
	outputs  = "quern/outputs/"
	idBytes  = 16 // of the hash that names a folder of contents
	parallel = 8
	binary   = "application/octet-stream"
)

// Submit uploads one object per chunk and inserts when all are there. It reads several of chunks at once, and closes
// those that are an io.Closer. Submit sets the chunks of n.
//
// key is the idempotency key; "" draws one. You can repeat a call that was interrupted with its key: it keeps the
// uploaded objects, uploads the rest, and inserts one submission. This works for a day, as long as the server
// remembers the key. If an upload fails and the key was drawn, Submit removes the uploaded objects. After a failed
// insert they stay, because the server may have inserted the submission; Sweep removes them if it has not.
func (s Store) Submit(ctx context.Context, queue, key string, n *api.NewSubmission, chunks iter.Seq2[io.Reader, error]) (*api.Submission, error) {
	if n.Chunks.Count != 0 || n.Chunks.Prefix != "" || n.Chunks.Template != "" || n.Chunks.Inline != nil {
		return nil, errors.New("objects: submit: Chunks must be empty: the chunks are what is uploaded")
	}
	drawn := key == ""
	if drawn {
		key = rand.Text()
	}
	folder := contentsOf(queue, key)
	count, err := s.upload(ctx, folder, chunks)
	if err == nil && count == 0 {
		err = errors.New("there are no chunks; a submission has at least one")
	}
	if err != nil {
		if drawn {
			err = errors.Join(err, s.removeFolder(context.WithoutCancel(ctx), folder))
		}
		return nil, fmt.Errorf("objects: submit: %w", err)
	}
	whole := *n
	whole.Chunks = api.Chunks{Count: count, Prefix: folder}
	return s.Client.Insert(ctx, queue, &whole, client.WithKey(key))
}

// contentsOf is the folder of a submission's contents. It is named by the key, because the insert names the folder before there is an id,
// and because a second call with the key must find the objects of the first one.
func contentsOf(queue, key string) string {
	hash := sha256.Sum256([]byte(queue + "\x00" + key))
	return contents + hex.EncodeToString(hash[:idBytes]) + "/"
}

// upload puts one object per chunk below the folder, named by its index, as the server's keys are.
func (s Store) upload(ctx context.Context, folder string, chunks iter.Seq2[io.Reader, error]) (count uint32, err error) {
	work := s.group(ctx)
	for content, err := range chunks {
		if err == nil && count == math.MaxUint32 {
			err = fmt.Errorf("there are more than %d chunks, the most that a submission has", uint32(math.MaxUint32))
		}
		if err != nil {
			work.cancel(err)
		}
		key := folder + strconv.FormatUint(uint64(count), 10)
		if !work.start(func(ctx context.Context) error { return s.put(ctx, key, content) }) {
			closeReader(content)
			break
		}
		count++
	}
	return count, work.wait()
}

// put uploads one object. One that is there is not replaced: consumers may be reading it.
func (s Store) put(ctx context.Context, key string, content io.Reader) error {
	defer closeReader(content)
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	w, err := s.Bucket.NewWriter(ctx, key, &blob.WriterOptions{ContentType: binary, IfNotExist: true})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	if err != nil {
		abandon() // else the close would publish the half that was read (Bucket.Upload does)
	}
	if closed := w.Close(); err == nil {
		err = closed
	}
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return nil
	}
	return err
}

func closeReader(r io.Reader) {
	if closer, ok := r.(io.Closer); ok {
		_ = closer.Close() // all of it was read, or is not wanted
	}
}

// group runs functions side by side, a bounded number, until one fails.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	slots  chan struct{}
	all    sync.WaitGroup
}

func (s Store) group(ctx context.Context) *group {
	ctx, cancel := context.WithCancelCause(ctx)
	slots := s.Parallel
	if slots <= 0 {
		slots = parallel
	}
	return &group{ctx: ctx, cancel: cancel, slots: make(chan struct{}, slots)}
}

// start runs do as soon as there is room. It returns false, and does not run it, when the group has ended.
func (g *group) start(do func(context.Context) error) bool {
	select {
	case g.slots <- struct{}{}:
	case <-g.ctx.Done():
		return false
	}
	if g.ctx.Err() != nil {
		<-g.slots
		return false
	}
	g.all.Go(func() {
		defer func() { <-g.slots }()
		if err := do(g.ctx); err != nil {
			g.cancel(err)
		}
	})
	return true
}

// wait returns when nothing runs any more, with the first error.
func (g *group) wait() error {
	g.all.Wait()
	err := context.Cause(g.ctx)
	g.cancel(nil)
	return err
}

// Handler does the work of one chunk. It reads the content and writes the output. If it writes nothing, the chunk has
// no output. The output counts only if the handler returns nil. Errors and ctx work as in client.Handler.
type Handler func(ctx context.Context, chunk *client.Chunk, content io.Reader, output io.Writer) error

// Work is client.Work for a handler that reads and writes objects. If a chunk has no key, the handler reads the
// content of the reservation in the same way. If the object cannot be opened, the attempt fails.
//
// Each attempt writes an object of its own, so a consumer that lost its chunk cannot replace the output of the new
// consumer. Objects of results that did not count stay until Sweep or Remove.
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

// publish makes an object of the written bytes and returns its key. The key is nil if nothing was written.
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
		_ = o.writer.Close() // its error says that its context has ended
	}
}
