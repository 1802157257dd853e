package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// leanClient is a keep-alive connection that writes prebuilt requests and looks at each byte of an answer once, so that
// the benchmark measures the server.
type leanClient struct {
	conn   net.Conn
	reader *bufio.Reader
	out    []byte
	in     []byte
}

func newLeanClient(b *testing.B, address string) *leanClient {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	return &leanClient{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}
}

// post sends body and returns the answer's, valid until the next call.
func (c *leanClient) post(path string, body []byte) ([]byte, error) {
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
	c.out = append(c.out, body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	status, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	good := bytes.HasPrefix(status, []byte("HTTP/1.1 20"))
	length := 0
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(line) == 2 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return nil, err
			}
		}
	}
	if cap(c.in) < length {
		c.in = make([]byte, 2*length)
	}
	if _, err := io.ReadFull(c.reader, c.in[:length]); err != nil {
		return nil, err
	}
	if !good {
		return nil, fmt.Errorf("answer: %s", c.in[:length])
	}
	return c.in[:length], nil
}

// spread lets 64 connections do b.N calls and reports them per second, times `each`.
func spread(b *testing.B, address, unit string, each int, work func(c *leanClient, next func() bool) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			c := newLeanClient(b, address)
			defer c.conn.Close()
			if err := work(c, func() bool { return left.Add(-1) >= 0 }); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), unit+"/s")
}

// quiet lets a benchmark's server log nothing, as a production server at its default level does.
func quiet(s *Server) { s.log = slog.New(slog.DiscardHandler) }

// BenchmarkExchange is the cycle of a consumer: finish its chunks and reserve as many again, in one durable call.
func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			f := newFixtureSeeded(b, 1, quiet)
			for range 100 {
				f.insert(`{"chunks":{"count":4000000000,"prefix":"s3://bucket/prefix/"},"meta":{"company":123}}`)
			}
			reserve := fmt.Appendf(nil, `],"reserve":{"max":%d}}`, size)
			spread(b, f.address, "chunks", size, func(c *leanClient, next func() bool) error {
				var body, tokens []byte
				for next() {
					body = append(body[:0], `{"complete":[`...)
					body = append(body, tokens...)
					body = append(body, reserve...)
					got, err := c.post(reservePath+"/exchange", body)
					if err != nil {
						return err
					}
					tokens = tokens[:0]
					mark := []byte(`"token":"`)
					for at := bytes.Index(got, mark); at >= 0; at = bytes.Index(got, mark) {
						if len(tokens) > 0 {
							tokens = append(tokens, ',')
						}
						tokens = append(append(append(tokens, '{'), got[at:at+len(mark)+43]...), `"}`...)
						got = got[at+len(mark)+43:]
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkInsert is a small submission per call, and a thousand inline chunks of a hundred bytes per call.
func BenchmarkInsert(b *testing.B) {
	inline := append([]byte(`{"chunks":{"inline":[`), bytes.Repeat([]byte(`"`+string(bytes.Repeat([]byte("x"), 100))+`",`), 1000)...)
	inline = append(inline[:len(inline)-1], `]}}`...)
	for _, test := range []struct {
		name, unit string
		each       int
		body       []byte
	}{
		{"small", "submissions", 1, []byte(`{"chunks":{"count":1000,"prefix":"s3://bucket/prefix/"},"meta":{"company":123,"mode":"preview"}}`)},
		{"inline", "chunks", 1000, inline},
	} {
		b.Run(test.name, func(b *testing.B) {
			f := newFixtureSeeded(b, 1, quiet)
			spread(b, f.address, test.unit, test.each, func(c *leanClient, next func() bool) error {
				for next() {
					if _, err := c.post(insertPath, test.body); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
