package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// A portion is the input of one submission: the server takes at most portionChunks chunks in one call, in a body of at
// most queue.MaxInlineBytes, so longer input becomes several submissions.
const (
	portionChunks = queue.MaxInlineChunks
	portionBytes  = queue.MaxInlineBytes - 1<<20 // of JSON; the rest is for the attachment and the metadata
)

// chunkReader yields the content of one chunk after another, and io.EOF after the last. The bytes belong to the caller.
type chunkReader interface {
	next() ([]byte, error)
}

// lineReader makes each line of a stream a chunk. A last line without a line end counts; an empty line is a chunk
// without bytes.
type lineReader struct {
	r   *bufio.Reader
	end byte // '\n', or 0 for input of find -print0
	n   int  // lines read
}

func newLineReader(r io.Reader, end byte) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 1<<16), end: end}
}

func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice(l.end)
		line = append(line, part...)
		if len(line) > queue.MaxChunkBytes+2 {
			return nil, fmt.Errorf("line %d is longer than %d bytes, the most a chunk may hold: put it into object "+
				"storage and submit its key with --prefix", l.n+1, queue.MaxChunkBytes)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("line %d cannot be read: %w", l.n+1, err)
		}
		l.n++
		line = bytes.TrimSuffix(line, []byte{l.end})
		if l.end == '\n' {
			line = bytes.TrimSuffix(line, []byte{'\r'})
		}
		return line, nil
	}
}

// fileReader makes the content of each file a chunk.
type fileReader struct{ paths []string }

func (f *fileReader) next() ([]byte, error) {
	if len(f.paths) == 0 {
		return nil, io.EOF
	}
	path := f.paths[0]
	f.paths = f.paths[1:]
	return readAtMost(path, queue.MaxChunkBytes)
}

// readAtMost reads a whole file that may hold at most `most` bytes.
func readAtMost(path string, most int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes, the most that is allowed here", path, most)
	}
	return b, nil
}

// portions cuts the chunks of a reader into portions.
type portions struct {
	from   chunkReader
	chunks int    // most chunks of a portion
	bytes  int    // most bytes of a portion, as JSON
	ahead  []byte // read, but for the next portion
	held   bool   // ahead holds a chunk
	over   bool
}

// next is the next portion, at least one chunk; io.EOF after the last.
func (p *portions) next() ([][]byte, error) {
	var (
		portion [][]byte
		size    int
	)
	for len(portion) < p.chunks && !p.over {
		chunk, err := p.chunk()
		if errors.Is(err, io.EOF) {
			p.over = true
			break
		}
		if err != nil {
			return nil, err
		}
		need := jsonSize(chunk)
		if len(portion) > 0 && size+need > p.bytes {
			p.ahead, p.held = chunk, true
			break
		}
		portion = append(portion, chunk)
		size += need
	}
	if len(portion) == 0 {
		return nil, io.EOF
	}
	return portion, nil
}

func (p *portions) chunk() ([]byte, error) {
	if p.held {
		p.held = false
		return p.ahead, nil
	}
	return p.from.next()
}

// jsonSize bounds the length of a chunk's content as JSON, with the JSON around it: text with escapes, or base64.
func jsonSize(chunk []byte) int {
	const around = len(`{"base64":""},`)
	if !utf8.Valid(chunk) {
		return base64.StdEncoding.EncodedLen(len(chunk)) + around
	}
	size := len(chunk) + around
	for _, c := range chunk {
		switch {
		case c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f:
			size += 5 // \u001f
		case c == '"' || c == '\\':
			size++
		case c == 0xe2: // begins the two line separators that JSON for browsers escapes
			size += 3
		}
	}
	return size
}

// parseMeta reads the pairs of --meta: k=v, where v is an integer when it parses as an int64. k=s:v is always the text
// after "s:".
func parseMeta(pairs []string) (api.Meta, error) { return parsePairs("--meta", pairs, queue.NewMeta) }

// contextFlag is the context for plugins about the consumer that reserves: pairs as --meta takes them.
type contextFlag []string

func (f *contextFlag) flag(c *cobra.Command) {
	c.Flags().StringArrayVar((*[]string)(f), "context", nil,
		"context for plugins: `KEY=VALUE`, as for --meta of submit; repeatable")
}

func (f *contextFlag) read() (api.Meta, error) { return parsePairs("--context", *f, queue.NewContext) }

// parsePairs reads the pairs of a flag and has them checked before anything is sent.
func parsePairs(flag string, pairs []string, check func([]queue.MetaEntry) (queue.Meta, error)) (api.Meta, error) {
	entries := make([]queue.MetaEntry, 0, len(pairs))
	meta := make(api.Meta, len(pairs))
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("%s %q is not KEY=VALUE", flag, pair)}
		}
		value := parseMetaValue(text)
		meta[key] = value
		entries = append(entries, queue.MetaEntry{Key: key, Value: value})
	}
	if _, err := check(entries); err != nil { // says what is wrong before anything is sent
		return nil, usageError{fmt.Errorf("%s is wrong: %w", flag, err)}
	}
	return meta, nil
}

func parseMetaValue(text string) api.MetaValue {
	if forced, ok := strings.CutPrefix(text, "s:"); ok {
		return api.Text(forced)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return api.Int(n)
	}
	return api.Text(text)
}

// metaText is a value in the form of --meta. parseMetaValue reads it back as the same value.
func metaText(v api.MetaValue) string {
	if !v.IsInt() && parseMetaValue(v.Text()) != v {
		return "s:" + v.Text()
	}
	return v.String()
}

// metaLine is metadata in one line, sorted by key.
func metaLine(meta api.Meta) string {
	parts := make([]string, 0, len(meta))
	for key, value := range meta {
		parts = append(parts, key+"="+metaText(value))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
