package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
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
	"http_floor_lone_p50", "http_floor_lone_p99", "http_floor_64x100", "http_floor_64x1", "http_floor_plain_64x100",
	"http_floor_plain_64x1", "http_floor_insert_64",
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
	if err := r.beside(ctx, httpFigures); err != nil {
		return err
	}
	return httpExchangeOne(ctx, r) // alone: servers that wait share its cores too
}

// beside lets figures be measured on a server, and on a floor beside it.
func (r *run) beside(ctx context.Context, figures func(ctx context.Context, r *run, server, floor *serveProcess) error) error {
	server, err := r.startServer(ctx, filepath.Join(r.dir, "data"))
	if err != nil {
		return err
	}
	defer server.stop()
	floor, err := startProcess(exec.CommandContext(ctx, r.floor[0], r.floor[1:]...))
	if err != nil {
		return err
	}
	defer floor.stop()
	return figures(ctx, r, server, floor)
}

func httpFigures(ctx context.Context, r *run, server, floor *serveProcess) error {
	if err := r.lone(ctx, server, floor, "http_", []byte(`{"chunks":{"count":1,"template":"row {index}"}}`), nil); err != nil {
		return err
	}
	if err := server.fill(); err != nil {
		return err
	}
	for _, f := range httpRates {
		if err := r.rate(ctx, server, floor, &f); err != nil {
			return err
		}
	}
	return httpInline(ctx, r, server)
}

// httpRates are the figures of the suite that are held against their floors.
var httpRates = []rated{
	{"http_exchange_64x100", "chunks/s", "http_floor_64x100", connections, []string{pathExchange}, exchanging(100)},
	{"http_plain_64x100", "chunks/s", "http_floor_plain_64x100", connections, []string{pathReservations, pathComplete}, plainly(100)},
	{"http_plain_64x1", "cycles/s", "http_floor_plain_64x1", connections, []string{pathReservations, pathComplete}, plainly(1)},
	{"http_insert_64", "submissions/s", "http_floor_insert_64", connections, []string{pathSubmissions},
		inserting([]byte(`{"meta":{"company":7,"mode":"batch"},"chunks":{"count":1000000,"prefix":"s3://bucket/input/"}}`), 1)},
}

// work is the loop of one client, until more says no.
type work = func(s *serveProcess, more func() bool, count *atomic.Int64) error

func exchanging(batch int) work {
	return func(s *serveProcess, more func() bool, count *atomic.Int64) error {
		return s.exchanges(pathExchange, batch, more, count)
	}
}

func plainly(batch int) work {
	return func(s *serveProcess, more func() bool, count *atomic.Int64) error {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
		defer client.CloseIdleConnections()
		return s.plain(client, batch, more, count)
	}
}

func inserting(body []byte, count int64) work {
	return func(s *serveProcess, more func() bool, total *atomic.Int64) error {
		return s.inserts(body, count, more, total)
	}
}

// httpExchangeOne measures the exchange of one chunk with three servers: plain, over TLS, and with tokens. The ratios between them are
// the cost of encryption and of looking up tokens, so they are measured in turns, and their floor with them.
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
		s, err := r.startServer(ctx, data, option)
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
	floor, err := startProcess(exec.CommandContext(ctx, r.floor[0], r.floor[1:]...))
	if err != nil {
		return err
	}
	servers, names = append(servers, floor), append(names, "http_floor_64x1")
	if err := servers[0].teach(floor, &rated{paths: []string{pathExchange}, work: exchanging(1)}); err != nil {
		return err
	}
	rates := make([][]float64, len(servers))
	for range rounds {
		for i, s := range servers {
			r.progress(names[i])
			rate, err := timed(ctx, connections, r.turn, s, exchanging(1))
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	r.add(names[3], middle(rates[3]), "cycles/s")
	for i, against := range []string{names[3], names[0], names[0]} {
		r.add(names[i], middle(rates[i]), "cycles/s")
		r.over(against)
	}
	return nil
}

// serveProcess is a `quern serve` of this very binary.
type serveProcess struct {
	process *exec.Cmd
	address string
	tls     *tls.Config // nil: plain HTTP
	token   string      // "": it needs none

	heard func(path string, answer []byte) // gets every answer; may be nil

	repeats func() // is called for every exchange that is sent again after a 503; may be nil
}

// repeatPause is how long a client waits after a 503.
const repeatPause = 50 * time.Millisecond

// dial makes a connection of a client's own.
func (s *serveProcess) dial() (*lean, error) {
	l, err := dialLean(s.address, s.token, s.tls)
	if err == nil {
		l.heard = s.heard
	}
	return l, err
}

var servingAt = regexp.MustCompile(`https?://(\S+)`)

func (r *run) startServer(ctx context.Context, data string, options ...string) (*serveProcess, error) {
	return startProcess(exec.CommandContext(ctx, r.server,
		append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"}, options...)...))
}

// startProcess starts a server that prints its address.
func startProcess(process *exec.Cmd) (*serveProcess, error) {
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

// loneCycles are measured, after a few that are not.
const loneCycles, loneWarm = 2000, 300

// lone is one client that inserts, reserves and completes, over and over; insert and complete are answered when the disk has them. The
// floor is the same three calls to a bare server and two writes to the disk.
func (r *run) lone(ctx context.Context, s, floor *serveProcess, prefix string, insert []byte, output api.Bytes) error {
	r.progress("a lone client: insert, reserve, complete")
	cycle := func(at *serveProcess, more func() bool, count *atomic.Int64) error {
		return at.cycles(insert, output, more, count)
	}
	if err := s.teach(floor, &rated{paths: []string{pathSubmissions, pathReservations, pathComplete}, work: cycle}); err != nil {
		return err
	}
	d, err := openDisk(filepath.Join(r.dir, "floor"))
	if err != nil {
		return err
	}
	defer d.close()
	var ours, theirs []time.Duration
	sides := []struct {
		at    *serveProcess
		times *[]time.Duration
		disk  *disk
	}{{s, &ours, nil}, {floor, &theirs, d}}
	for range rounds {
		for _, side := range sides {
			n, started, warm := 0, time.Now(), loneWarm
			err := cycle(side.at, func() bool {
				if side.disk != nil && n > 0 {
					for range 2 {
						if _, err := side.disk.write(); err != nil {
							return false
						}
					}
				}
				if n++; n > warm+1 {
					*side.times = append(*side.times, time.Since(started))
				}
				started = time.Now()
				return n <= warm+loneCycles && ctx.Err() == nil
			}, new(atomic.Int64))
			if err != nil {
				return err
			}
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	for name, q := range map[string]float64{"lone_p50": 0.5, "lone_p99": 0.99} {
		r.add("http_floor_"+name, milli(quantile(theirs, q)), "ms")
		r.add(prefix+name, milli(quantile(ours, q)), "ms")
		r.over("http_floor_" + name)
	}
	return ctx.Err()
}

// cycles inserts, reserves and completes.
func (s *serveProcess) cycles(insert []byte, output api.Bytes, more func() bool, count *atomic.Int64) error {
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	var got wire.ReserveResponse
	for more() {
		if _, err := l.post(pathSubmissions, insert); err != nil {
			return err
		}
		answer, err := l.post(pathReservations, []byte(`{"max":1,"strategy":"OldestFirst"}`))
		if err != nil {
			return err
		}
		if err := got.Decode(answer); err != nil {
			return err
		}
		request := wire.CompleteRequest{Items: []wire.CompleteItem{{Token: got.Reservations[0].Token, Output: output}}}
		if _, err := l.post(pathComplete, request.Append(nil)); err != nil {
			return err
		}
		count.Add(1)
	}
	return nil
}

// exchanges completes the last batch and reserves the next, over and over.
func (s *serveProcess) exchanges(path string, batch int, more func() bool, count *atomic.Int64) error {
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	request := wire.ExchangeRequest{HasReserve: true, Reserve: wire.ReserveRequest{Max: batch}}
	var got wire.ExchangeResponse
	var body []byte
	var tokens []byte
	again := false // the exchange before was answered with 503, so it may have completed what this one does
	for more() {
		body = request.Append(body[:0])
		answer, err := l.post(path, body)
		if errors.Is(err, errAway) && s.repeats != nil {
			again = true
			s.repeats()
			time.Sleep(repeatPause)
			continue
		}
		if err != nil {
			return err
		}
		if err := got.Decode(answer); err != nil {
			return err
		}
		for i := range got.Complete {
			if status := got.Complete[i].Status; status != api.StatusOK && (status != api.StatusAlready || !again) {
				return fmt.Errorf("a completion came back %s", got.Complete[i].Status)
			}
		}
		again = false
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

// The parts of answers that an ordinary client needs, for encoding/json.
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

// plain is the loop of an ordinary Go program without our client, with two calls per cycle.
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
	if s.heard != nil {
		s.heard(path, answer)
	}
	return json.Unmarshal(answer, out)
}

// httpInline: submissions of 1,000 chunks with contents of 100 bytes.
func httpInline(ctx context.Context, r *run, s *serveProcess) error {
	r.progress("http_insert_inline_4x1000")
	chunk := strings.Repeat("0123456789", 10)
	inline, err := json.Marshal(map[string]any{"chunks": map[string]any{"inline": slices.Repeat([]string{chunk}, 1000)}})
	if err != nil {
		return err
	}
	rate, err := timed(ctx, 4, 4*time.Second, s, inserting(inline, 1000))
	if err != nil {
		return err
	}
	r.add("http_insert_inline_4x1000", rate, "chunks/s")
	return nil
}

func (s *serveProcess) inserts(body []byte, chunks int64, more func() bool, count *atomic.Int64) error {
	return s.posts(pathSubmissions, body, chunks, more, count)
}

// posts sends the same body again and again. Each call counts for this many.
func (s *serveProcess) posts(path string, body []byte, each int64, more func() bool, count *atomic.Int64) error {
	l, err := s.dial()
	if err != nil {
		return err
	}
	defer l.close()
	for more() {
		if _, err := l.post(path, body); err != nil {
			return err
		}
		count.Add(each)
	}
	return nil
}
