package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

const submitLinesHelp = "With --jsonl, each line of a file is one submission, in the form of an insert's body, such as\n" +
	"  {\"meta\":{\"company\":7},\"priority\":3,\"chunks\":{\"inline\":[\"ash\"]}}\n" +
	"The command inserts them in order, up to 1,000 per call. From an open pipe it inserts them once that many have arrived.\n" +
	"It prints the number of a refused line on stderr and inserts the others. With --atomic it inserts all lines or none, if\n" +
	"they fit into one call (10,000 lines or about 63 MiB).\n" +
	"To insert the missing lines after an interruption, or after you corrected refused lines in place, run the command again\n" +
	"within a day with the same --key-prefix. The key of a line is PREFIX/NUMBER, unless the line has an idempotency_key."

// Bounds of one call. More than a thousand lines make no insert cheaper, and delay the callers that share their commit.
const (
	callLines = 1000
	callBytes = 8 << 20

	atomicBytes = queue.MaxInlineBytes - 1<<20 // with --atomic; the rest of the largest body is for the keys
	lineBytes   = atomicBytes
)

// lineOptions are the flags of submit for JSON lines.
type lineOptions struct {
	file   string
	atomic bool
	prefix string
}

func (o *lineOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "jsonl", "", "insert one submission per line of `FILE`, - for stdin")
	f.BoolVar(&o.atomic, "atomic", false, "with --jsonl: insert all lines or none")
	f.StringVar(&o.prefix, "key-prefix", "", "with --jsonl: start of the idempotency keys of the lines; "+
		"random by default, and printed unless --quiet")
}

// check refuses flags that do not go together. A line says all there is about its submission, so nothing beside it does.
func (o *lineOptions) check(f *pflag.FlagSet, args []string) error {
	if o.file == "" {
		if o.atomic || o.prefix != "" {
			return usageError{errors.New("--atomic and --key-prefix go with --jsonl")}
		}
		return nil
	}
	if len(args) > 0 {
		return usageError{fmt.Errorf("--jsonl takes one file; %q is one more", args[0])}
	}
	beside := []string{"count", "template", "prefix", "null", "meta", "attachment", "idempotency-key", "unique", "unique-while",
		"on-conflict", "after", "after-until", "on-unmet"}
	for _, field := range queue.SubmissionFields() {
		beside = append(beside, field.FlagName())
	}
	for _, name := range beside {
		if f.Changed(name) {
			return usageError{fmt.Errorf("--%s cannot be given with --jsonl: write it into the lines", name)}
		}
	}
	if f.Changed("wait") {
		return usageError{errors.New("--wait cannot be given with --jsonl: give the printed ids to quern wait")}
	}
	if most := queue.MaxIdempotencyKey - 20; len(o.prefix) > most { // 20: the number of a line
		return usageError{fmt.Errorf("--key-prefix has %d bytes; at most %d are allowed", len(o.prefix), most)}
	}
	if strings.ContainsFunc(o.prefix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usageError{fmt.Errorf("--key-prefix is %q; visible ASCII characters are allowed", o.prefix)}
	}
	return nil
}

// submittedLine is the result of a line. The pointer is that of a field in the line.
type submittedLine struct {
	Line int `json:"line"`
	api.InsertResult
}

// submitLines inserts the lines and prints the result of each. It reads the next call while one is under way. Only one is, so that the
// submissions are inserted in the order of the lines, and an interruption leaves no gap.
func submitLines(ctx context.Context, a *app, o *lineOptions) error {
	in, err := openLines(a, o.file)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := a.client(client.WithCallTimeout(longTimeout))
	if err != nil {
		return err
	}
	if o.prefix == "" {
		var drawn [12]byte
		if _, err := rand.Read(drawn[:]); err != nil {
			return err
		}
		o.prefix = hex.EncodeToString(drawn[:])
		if !a.quiet { // now: a process that is killed prints nothing at its end
			say(a.err, "quern: after an interruption --key-prefix %s inserts the missing lines\n", o.prefix)
		}
	}
	calls := lineCalls{from: bufio.NewReaderSize(in, 1<<16), prefix: o.prefix, most: callLines, bytes: callBytes, bytesOfLine: lineBytes}
	if o.atomic {
		return submitAtomic(ctx, a, c, &calls)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sum := lineSum{a: a}
	ahead := calls.ahead(ctx)
	for err == nil {
		var call *lineCall
		select {
		case call = <-ahead:
		case <-ctx.Done(): // stdin may never end
			err = context.Cause(ctx)
			continue
		}
		if errors.Is(call.err, io.EOF) {
			break
		}
		if err = call.send(ctx, c, a.queueName(), false); err == nil {
			err = sum.add(call)
		}
	}
	return sum.end(err, o.prefix)
}

// submitAtomic inserts all lines with one call, or none.
func submitAtomic(ctx context.Context, a *app, c *client.Client, calls *lineCalls) error {
	calls.most, calls.bytes = queue.MaxInsertions, atomicBytes
	call := calls.next()
	if more := calls.next(); call.err == nil && more.err == nil {
		return usageError{fmt.Errorf("--atomic: line %d does not fit into the one call, which takes up to %d lines and %d bytes: "+
			"nothing was inserted", more.number(), queue.MaxInsertions, atomicBytes)}
	}
	sum := lineSum{a: a}
	err := call.err
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case err == nil && call.broken():
		call.refuseRest()
		err = sum.add(call)
	case err == nil:
		if err = call.send(ctx, c, a.queueName(), true); err == nil {
			err = sum.add(call)
		}
	}
	return sum.end(err, calls.prefix)
}

func openLines(a *app, path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.in), nil
	}
	return os.Open(path)
}

// lineCalls cuts lines into calls.
type lineCalls struct {
	from   *bufio.Reader
	prefix string
	most   int // lines of a call
	bytes  int
	lines  int // read

	bytesOfLine int        // most bytes of a line
	held        *inputLine // read, but for the next call
	over        error      // why there is nothing more to read
}

// inputLine is a line. A line with a fault is not sent.
type inputLine struct {
	number int
	text   []byte
	fault  string
}

// lineCall is one call: its lines, and their results. A call with an error is not sent.
type lineCall struct {
	lines   [][]byte // those to be sent
	results []submittedLine
	sent    []int // their places in results
	err     error
}

// ahead yields the calls, and reads the next one while a call is under way. A call with an error, such as io.EOF, is the last.
func (l *lineCalls) ahead(ctx context.Context) <-chan *lineCall {
	calls := make(chan *lineCall)
	go func() {
		for {
			call := l.next()
			select {
			case calls <- call:
			case <-ctx.Done():
				return
			}
			if call.err != nil {
				return
			}
		}
	}()
	return calls
}

// next is the next call: at least one line, or an error.
func (l *lineCalls) next() *lineCall {
	call := &lineCall{}
	for size := 0; len(call.results) < l.most; {
		line := l.held
		if l.held = nil; line == nil {
			line = l.line()
		}
		if line == nil {
			if len(call.results) == 0 {
				call.err = l.over
			}
			return call
		}
		if size += len(line.text); len(call.results) > 0 && size > l.bytes {
			l.held = line
			return call
		}
		call.add(line, l.prefix)
	}
	return call
}

// line reads the next line that is not empty, nil when there is none.
func (l *lineCalls) line() *inputLine {
	for l.over == nil {
		line := l.read()
		if line.text = bytes.TrimSpace(line.text); len(line.text) > 0 || line.fault != "" {
			return line
		}
	}
	return nil
}

// read reads a line to its end, and keeps no more of it than one may have.
func (l *lineCalls) read() *inputLine {
	l.lines++
	line := &inputLine{number: l.lines}
	for {
		part, err := l.from.ReadSlice('\n')
		if line.fault == "" {
			line.text = append(line.text, part...)
		}
		if len(line.text) > l.bytesOfLine {
			line.text, line.fault = nil, fmt.Sprintf("is longer than %d bytes, the most that one call can carry: put the "+
				"contents of its "+
				"chunks into object storage, or split it into several lines", l.bytesOfLine)
		}
		switch {
		case err == nil:
			return line
		case errors.Is(err, io.EOF):
			l.over = io.EOF
			return line
		case !errors.Is(err, bufio.ErrBufferFull):
			l.over = fmt.Errorf("line %d cannot be read: %w", l.lines, err)
			line.text, line.fault = nil, "" // half a line is none
			return line
		}
	}
}

// add adds a line, with a key unless it has one. One that is no JSON object is decided here: it cannot be given a key.
func (c *lineCall) add(line *inputLine, prefix string) {
	result := submittedLine{Line: line.number}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line.text, &fields); err != nil && line.fault == "" {
		line.fault = "is not a JSON object: " + err.Error()
	} else if fields == nil && line.fault == "" {
		line.fault = "is not a JSON object: it is null"
	}
	if line.fault != "" {
		result.InsertResult = api.InsertResult{Status: api.InsertInvalid, Code: api.CodeInvalid, Detail: line.fault}
		c.results = append(c.results, result)
		return
	}
	if _, has := fields["idempotency_key"]; !has {
		comma := ","
		if len(fields) == 0 {
			comma = ""
		}
		text := line.text[:len(line.text)-1]
		line.text = append(text, comma+`"idempotency_key":`+strconv.Quote(prefix+"/"+strconv.Itoa(line.number))+"}"...)
	}
	c.lines, c.sent = append(c.lines, line.text), append(c.sent, len(c.results))
	c.results = append(c.results, result)
}

// number is that of its first line.
func (c *lineCall) number() int {
	if len(c.results) == 0 {
		return 0
	}
	return c.results[0].Line
}

// broken says that a line is wrong already.
func (c *lineCall) broken() bool { return len(c.sent) < len(c.results) }

// batchRefused is about lines, where the server counts submissions.
const batchRefused = "nothing was inserted, as another line cannot be and --atomic was given"

// refuseRest decides about all lines of an atomic call that was not sent, as a server would.
func (c *lineCall) refuseRest() {
	for _, at := range c.sent {
		c.results[at].InsertResult = api.InsertResult{Status: api.InsertRefused, Code: api.CodeBatchRefused,
			Detail: batchRefused}
	}
}

// send inserts the lines.
func (c *lineCall) send(ctx context.Context, to *client.Client, queueName string, atomic bool) error {
	if c.err != nil || len(c.lines) == 0 {
		return c.err
	}
	results, err := to.InsertLines(ctx, queueName, c.lines, atomic)
	if err != nil {
		return err
	}
	for i, at := range c.sent {
		results[i].Pointer = strings.TrimPrefix(results[i].Pointer, "/submissions/"+strconv.Itoa(i))
		if results[i].Code == api.CodeBatchRefused {
			results[i].Detail = batchRefused
		}
		c.results[at].InsertResult = results[i]
	}
	return nil
}

// lineSum prints the results of calls, and counts them.
type lineSum struct {
	a                          *app
	inserted, replayed, failed int
	existing                   int
	last                       int             // line that is decided, as all before it are
	kept                       []submittedLine // for one JSON value
}

func (s *lineSum) add(call *lineCall) error {
	out := bufio.NewWriter(s.a.out)
	for _, r := range call.results {
		s.last = r.Line
		switch r.Status {
		case api.InsertCreated:
			s.inserted++
		case api.InsertExisting:
			s.existing++
		case api.InsertReplayed:
			s.replayed++
		default:
			s.failed++
			say(s.a.err, "quern: line %d: %s\n", r.Line, strings.TrimSpace(r.Pointer+" "+r.Detail))
		}
		switch {
		case s.a.format == formatJSON:
			s.kept = append(s.kept, r)
		case s.a.format == formatJSONL:
			if err := printJSON(out, r, ""); err != nil {
				return err
			}
		case r.Submission != nil:
			say(out, "%s\n", r.Submission.ID)
		}
	}
	return out.Flush()
}

// end says how it went.
func (s *lineSum) end(err error, prefix string) error {
	if s.a.format == formatJSON {
		if printed := printList(s.a, s.kept, nil, nil); err == nil {
			err = printed
		}
	}
	text := "inserted " + several(s.inserted, "submission")
	if s.replayed > 0 {
		text += fmt.Sprintf(", %d had been inserted before", s.replayed)
	}
	if s.existing > 0 {
		text += fmt.Sprintf(", %d were not, as others hold their unique keys", s.existing)
	}
	again := "--key-prefix " + prefix
	switch {
	case err != nil:
		say(s.a.err, "quern: stopped after line %d: %s. Later lines may be inserted or not; run the command again within a "+
			"day with %s, and it inserts the missing lines.\n", s.last, text, again)
		return err
	case s.failed > 0:
		return endedError{exitRefused, fmt.Sprintf("%s, refused %d; correct these lines in place and run it again within a day "+
			"with %s, and it inserts the missing lines", text, s.failed, again)}
	case s.inserted+s.replayed+s.existing == 0:
		return usageError{errors.New("nothing to submit: the input is empty")}
	case !s.a.quiet:
		say(s.a.err, "quern: %s\n", text)
	}
	return nil
}
