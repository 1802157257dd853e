package wire

import (
	"bytes"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// Decode reads the body of an insert of many as one JSON object.
func (r *InsertManyRequest) Decode(data []byte) error {
	*r = InsertManyRequest{Submissions: r.Submissions[:0], scan: r.scan}
	return insertManyRequest.decode(&r.scan, data, r)
}

var insertManyRequest = object[InsertManyRequest]{
	{"submissions", func(s *scanner, r *InsertManyRequest) { r.Submissions = s.raws(r.Submissions, api.MaxInsertions) }, true},
	{name: "atomic", read: func(s *scanner, r *InsertManyRequest) { r.Atomic = s.bool() }},
}

// raws appends the entries of an array as they are, at most this many in all.
func (s *scanner) raws(dst [][]byte, most int) [][]byte {
	s.open('[', arrayDetail)
	for s.element() {
		if len(dst) == most {
			s.depth--
			s.fail(tooMany(most))
			return dst
		}
		dst = append(dst, s.raw())
	}
	return dst
}

// DecodeLines reads the body of an insert of many as JSON lines: a submission per line. Lines of white space are skipped, and a line that
// is not JSON is one submission that is wrong.
func (r *InsertManyRequest) DecodeLines(data []byte) error {
	*r = InsertManyRequest{Submissions: r.Submissions[:0], scan: r.scan}
	for len(data) > 0 {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte{'\n'})
		if len(bytes.TrimLeft(line, " \t\r")) == 0 {
			continue
		}
		if len(r.Submissions) == api.MaxInsertions {
			return &Error{Pointer: "/submissions", Detail: tooMany(api.MaxInsertions)}
		}
		r.Submissions = append(r.Submissions, line)
	}
	return nil
}

// InsertResult is the answer for one submission of an insert of many. Submission counts only where there is no Code.
type InsertResult struct {
	Status                string
	Submission            Submission
	Code, Detail, Pointer string
}

// AppendInsertResults appends the answer of an insert of many, of n results, which at gives one after the other.
func AppendInsertResults(dst []byte, n int, at func(i int) InsertResult) []byte {
	dst = append(dst, `{"results":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		result := at(i)
		dst = result.Append(dst)
	}
	return append(dst, "]}"...)
}

// Append appends one result.
func (r *InsertResult) Append(dst []byte) []byte {
	dst = append(dst, `{"status":`...)
	dst = AppendString(dst, r.Status)
	if r.Code == "" {
		dst = append(dst, `,"submission":`...)
		dst = r.Submission.Append(dst)
	}
	dst = appendText(dst, `,"code":`, r.Code)
	dst = appendText(dst, `,"detail":`, r.Detail)
	dst = appendText(dst, `,"pointer":`, r.Pointer)
	return append(dst, '}')
}

// InsertManyResponse is the answer of an insert of many, as far as inserts that share a call need it.
type InsertManyResponse struct {
	Submissions [][]byte // by result: the submission as JSON; nil if it was not inserted. They point into the answer
	scan        scanner
}

// Decode reads the answer.
func (r *InsertManyResponse) Decode(data []byte) error {
	r.Submissions = r.Submissions[:0]
	return insertManyResponse.lenient(&r.scan, data, r)
}

var (
	insertManyResponse = object[InsertManyResponse]{
		{name: "results", read: func(s *scanner, r *InsertManyResponse) { array(s, &r.Submissions, insertManyResult) }},
	}
	insertManyResult = object[[]byte]{
		{name: "submission", read: func(s *scanner, submission *[]byte) { *submission = s.raw() }},
	}
)

// AppendInsertMany appends the body of an insert of many. A key may be "".
func AppendInsertMany(dst []byte, atomic bool, list []api.BatchSubmission) []byte {
	dst = append(dst, `{"atomic":`...)
	dst = strconv.AppendBool(dst, atomic)
	dst = append(dst, `,"submissions":[`...)
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendBatchSubmission(dst, &list[i])
	}
	return append(dst, "]}"...)
}

// AppendBatchSubmission appends one submission of an insert of many. Its key may be "".
func AppendBatchSubmission(dst []byte, b *api.BatchSubmission) []byte {
	dst = AppendInsert(dst, &b.NewSubmission)
	if b.IdempotencyKey == "" {
		return dst
	}
	dst = AppendString(append(dst[:len(dst)-1], `,"idempotency_key":`...), b.IdempotencyKey)
	return append(dst, '}')
}
