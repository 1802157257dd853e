package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quern-queue/quern/sdk/api"
)

// Lines are cut into calls by number and by bytes, and keep their numbers. An error in one line is reported for that line. The input
// may come in pieces of any size.
func TestSubmitLinesAreCut(t *testing.T) {
	t.Parallel()
	text := "{\"a\":1}\r\n\n {\"idempotency_key\":\"own\"}\n" + strings.Repeat("x", 50) + "\n[1]\n{}\nnull\n{\"b\":"
	for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text))} {
		l := lineCalls{from: bufio.NewReaderSize(in, 16), prefix: "p", most: 3, bytes: 40, bytesOfLine: 45}
		var got strings.Builder
		for {
			call := l.next()
			if errors.Is(call.err, io.EOF) {
				break
			}
			if call.err != nil {
				t.Fatal(call.err)
			}
			got.WriteString("call\n")
			sent := 0
			for _, r := range call.results {
				fmt.Fprint(&got, r.Line, " ")
				if r.Status == "" {
					fmt.Fprintf(&got, "%s\n", call.lines[sent])
					sent++
					continue
				}
				fmt.Fprintf(&got, "%s: %.30s\n", r.Status, r.Detail)
			}
		}
		want := `call
1 {"a":1,"idempotency_key":"p/1"}
3 {"idempotency_key":"own"}
4 invalid: is longer than 45 bytes, the m
call
5 invalid: is not a JSON object: json: ca
6 {"idempotency_key":"p/6"}
7 invalid: is not a JSON object: it is nu
call
8 invalid: is not a JSON object: unexpect
`
		if got.String() != want {
			t.Errorf("%s: got\n%swant\n%s", name, got.String(), want)
		}
	}
}

// Lines before an error of the input are sent; half a line is not.
func TestSubmitLinesThatBreakOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	in := io.MultiReader(strings.NewReader("{}\n{\"chunks\":{}}"), iotest.ErrReader(broken))
	l := lineCalls{from: bufio.NewReader(in), prefix: "p", most: 9, bytes: 99, bytesOfLine: 99}
	if call := l.next(); call.err != nil || len(call.results) != 1 || len(call.lines) != 1 {
		t.Errorf("first %+v, want the first line", call)
	}
	if call := l.next(); !errors.Is(call.err, broken) || !strings.HasPrefix(call.err.Error(), "line 2 ") {
		t.Errorf("then %v, want line 2 with %v", call.err, broken)
	}
}

// If an atomic call is not sent, its lines get the results that a server would give them: none is left without one.
func TestSubmitLinesRefuseTheRest(t *testing.T) {
	t.Parallel()
	l := lineCalls{from: bufio.NewReader(strings.NewReader("{}\n[]\n{}\n")), most: 9, bytes: 99, bytesOfLine: 99}
	call := l.next()
	if !call.broken() {
		t.Fatal("an array is taken as a submission")
	}
	call.refuseRest()
	for i, want := range []string{api.InsertRefused, api.InsertInvalid, api.InsertRefused} {
		if got := call.results[i].Status; got != want {
			t.Errorf("line %d is %s, want %s", i+1, got, want)
		}
	}
}
