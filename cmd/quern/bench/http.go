package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

var httpNames = []string{
	"http_lone_p50", "http_lone_p99", "http_exchange_64x100", "http_exchange_64x1", "http_plain_64x100", "http_plain_64x1",
	"http_insert_64", "http_insert_inline_4x1000", "http_exchange_tls_64x1", "http_exchange_auth_64x1",
}

// The paths of the default queue.
const (
	pathSubmissions  = "/v1/queues/default/submissions"
	pathReservations = "/v1/queues/default/reservations"
	pathComplete     = pathReservations + "/complete"
	pathExchange     = pathReservations + "/exchange"
)

// connections is how many clients work at once, unless a figure's name says otherwise.
const connections = 64

// httpSuite measures a server in a process of its own, over loopback, with the load generator on the same cores.
func httpSuite(ctx context.Context, r *run) error {
	server, err := startServer(ctx, filepath.Join(r.dir, "data"))
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *run, *serveProcess) error{httpLone, httpExchange, httpPlain, httpInsert} {
		if err := step(ctx, r, server); err != nil {
			server.stop()
			return err
		}
	}
	server.stop() // before the others are measured: it shares their cores
	return httpExchangeOne(ctx, r)
}

// exchangeTurns is how often each server is measured: the figures are medians, taken in turns, so that they can be compared.
const exchangeTurns = 3

// httpExchangeOne is the exchange of one chunk with three servers of their own: plain, over TLS, and with tokens. What encryption and
// looking tokens up cost is their ratio, so they are measured in turns.
func httpExchangeOne(ctx context.Context, r *run) error {
	var servers []*serveProcess
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	names := []string{"http_exchange_64x1", "http_exchange_tls_64x1", "http_exchange_auth_64x1"}
	for i, option := range []string{"--auth=false", "--tls-self-signed", "--auth"} {
		data := filepath.Join(r.dir, names[i])
		s, err := startServer(ctx, data, option)
		if err != nil {
			return err
		}
		servers = append(servers, s)
		switch option {
		case "--tls-self-signed":
			s.tls = &tls.Config{InsecureSkipVerify: true} // the server is our own child; verifying costs a handshake, not an exchange
		case "--auth":
			text, err := os.ReadFile(filepath.Join(data, engine.AdminTokenFile))
			if err != nil {
				return err
			}
			s.token = strings.TrimSpace(string(text))
		}
		if err := s.fill(); err != nil {
			return err
		}
	}
	rates := make([][]float64, len(servers))
	for range exchangeTurns {
		for i, s := range servers {
			r.progress(names[i])
			rate, err := timed(ctx, connections, func(more func() bool, count *atomic.Int64) error { return s.exchanges(1, more, count) })
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	for i, name := range names {
		slices.Sort(rates[i])
		r.add(name, rates[i][exchangeTurns/2], "cycles/s")
	}
	return nil
}

// serveProcess is a `quern serve` of this very binary.
type serveProcess struct {
	process *exec.Cmd
	address string
	tls     *tls.Config // nil: plain HTTP
	token   string      // "": it needs none
}

// dial makes a connection of a client's own.
func (s *serveProcess) dial() (*lean, error) { return dialLean(s.address, s.token, s.tls) }

var servingAt = regexp.MustCompile(`https?://(\S+)`)

func startServer(ctx context.Context, data string, options ...string) (*serveProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, self,
		append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"}, options...)...)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	found := servingAt.FindStringSubmatch(line)
	if found == nil {
		return nil, fmt.Errorf("the server printed %q, which names no address", line)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	return &serveProcess{process: process, address: strings.TrimSuffix(found[1], "/")}, nil
}

func (s *serveProcess) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait()
}

// fill inserts enough chunks that no figure runs dry.
func (s *serveProcess) fill() error {
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	for i := range 1000 {
		body := fmt.Appendf(nil,
			`{"meta":{"company":%d,"mode":"batch"},"chunks":{"count":100000,"prefix":"s3://bucket/input/%d/"}}`, i%100, i)
		if _, err := l.post(pathSubmissions, body); err != nil {
			return err
		}
	}
	return nil
}

// httpLone: one client, three calls, each answered after the disk has it.
func httpLone(ctx context.Context, r *run, s *serveProcess) error {
	r.progress("a lone client: insert, reserve, complete")
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	var times []time.Duration
	var got wire.ReserveResponse
	for i := range 4000 {
		started := time.Now()
		if _, err := l.post(pathSubmissions, []byte(`{"chunks":{"count":1,"template":"row {index}"}}`)); err != nil {
			return err
		}
		answer, err := l.post(pathReservations, []byte(`{"max":1,"strategy":"OldestFirst"}`))
		if err != nil {
			return err
		}
		if err := got.Decode(answer); err != nil {
			return err
		}
		request := wire.CompleteRequest{Items: []wire.CompleteItem{{Token: got.Reservations[0].Token}}}
		if _, err := l.post(pathComplete, request.Append(nil)); err != nil {
			return err
		}
		if i >= 500 {
			times = append(times, time.Since(started))
		}
	}
	slices.Sort(times)
	r.add("http_lone_p50", milli(quantile(times, 0.5)), "ms")
	r.add("http_lone_p99", milli(quantile(times, 0.99)), "ms")
	return ctx.Err()
}

func httpExchange(ctx context.Context, r *run, s *serveProcess) error {
	if err := s.fill(); err != nil {
		return err
	}
	r.progress("http_exchange_64x100")
	rate, err := timed(ctx, connections, func(more func() bool, count *atomic.Int64) error { return s.exchanges(100, more, count) })
	if err != nil {
		return err
	}
	r.add("http_exchange_64x100", rate, "chunks/s")
	return nil
}

// measured is how long a rate is measured.
const measured = 4 * time.Second

// timed lets n clients work for a while and gives what they counted per second.
func timed(ctx context.Context, n int, client func(more func() bool, count *atomic.Int64) error) (float64, error) {
	var count atomic.Int64
	started := time.Now()
	more := func() bool { return time.Since(started) < measured && ctx.Err() == nil }
	err := parallel(n, func(int) error { return client(more, &count) })
	return float64(count.Load()) / time.Since(started).Seconds(), err
}

// exchanges completes the last batch and reserves the next, over and over.
func (s *serveProcess) exchanges(batch int, more func() bool, count *atomic.Int64) error {
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	request := wire.ExchangeRequest{HasReserve: true, Reserve: wire.ReserveRequest{Max: batch}}
	var got wire.ExchangeResponse
	var body []byte
	var tokens []byte
	for more() {
		body = request.Append(body[:0])
		answer, err := l.post(pathExchange, body)
		if err != nil {
			return err
		}
		if err := got.Decode(answer); err != nil {
			return err
		}
		for i := range got.Complete {
			if got.Complete[i].Status != api.StatusOK {
				return fmt.Errorf("a completion came back %s", got.Complete[i].Status)
			}
		}
		count.Add(int64(len(got.Complete)))
		tokens, request.Complete = tokens[:0], request.Complete[:0]
		for i := range got.Reservations { // the answer's memory is reused by the next
			tokens = append(tokens, got.Reservations[i].Token...)
		}
		size := len(tokens) / max(len(got.Reservations), 1)
		for i := range got.Reservations {
			request.Complete = append(request.Complete, wire.CompleteItem{Token: tokens[i*size : (i+1)*size]})
		}
	}
	return nil
}

// httpPlain: what an ordinary Go program without our client gets, two calls per cycle.
func httpPlain(ctx context.Context, r *run, s *serveProcess) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		name, unit string
		batch      int
	}{{"http_plain_64x100", "chunks/s", 100}, {"http_plain_64x1", "cycles/s", 1}} {
		r.progress(c.name)
		rate, err := timed(ctx, connections,
			func(more func() bool, count *atomic.Int64) error { return s.plain(client, c.batch, more, count) })
		if err != nil {
			return err
		}
		r.add(c.name, rate, c.unit)
	}
	return nil
}

// The shapes of an ordinary client: what it needs of an answer, by encoding/json.
type (
	plainReserved struct {
		Reservations []struct {
			Token      string `json:"token"`
			Submission string `json:"submission"`
			Index      uint32 `json:"index"`
			Content    struct {
				Key string `json:"key"`
			} `json:"content"`
		} `json:"reservations"`
	}
	plainItem struct {
		Token string `json:"token"`
	}
	plainComplete struct {
		Items []plainItem `json:"items"`
	}
	plainResults struct {
		Results []struct {
			Status string `json:"status"`
		} `json:"results"`
	}
)

func (s *serveProcess) plain(client *http.Client, batch int, more func() bool, count *atomic.Int64) error {
	for more() {
		var got plainReserved
		if err := s.call(client, pathReservations, map[string]any{"max": batch}, &got); err != nil {
			return err
		}
		var request plainComplete
		for i := range got.Reservations {
			request.Items = append(request.Items, plainItem{got.Reservations[i].Token})
		}
		var results plainResults
		if err := s.call(client, pathComplete, request, &results); err != nil {
			return err
		}
		count.Add(int64(len(results.Results)))
	}
	return nil
}

func (s *serveProcess) call(client *http.Client, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	response, err := client.Post("http://"+s.address+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	return json.Unmarshal(answer, out)
}

func httpInsert(ctx context.Context, r *run, s *serveProcess) error {
	r.progress("http_insert_64")
	rate, err := timed(ctx, connections, func(more func() bool, count *atomic.Int64) error {
		return s.inserts([]byte(`{"meta":{"company":7,"mode":"batch"},"chunks":`+
			`{"count":1000000,"prefix":"s3://bucket/input/"}}`), 1, more, count)
	})
	if err != nil {
		return err
	}
	r.add("http_insert_64", rate, "submissions/s")
	r.progress("http_insert_inline_4x1000")
	chunk := strings.Repeat("0123456789", 10)
	inline, err := json.Marshal(map[string]any{"chunks": map[string]any{"inline": slices.Repeat([]string{chunk}, 1000)}})
	if err != nil {
		return err
	}
	rate, err = timed(ctx, 4, func(more func() bool, count *atomic.Int64) error { return s.inserts(inline, 1000, more, count) })
	if err != nil {
		return err
	}
	r.add("http_insert_inline_4x1000", rate, "chunks/s")
	return nil
}

func (s *serveProcess) inserts(body []byte, chunks int64, more func() bool, count *atomic.Int64) error {
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	for more() {
		if _, err := l.post(pathSubmissions, body); err != nil {
			return err
		}
		count.Add(chunks)
	}
	return nil
}
