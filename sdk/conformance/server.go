package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// submissionID is that of the one submission of the played server.
const submissionID = "72057594037927936"

// server plays a Quern server with one queue and one submission. It obeys the rules of reservations, does what a scenario tells it
// to do wrong, and notes the rules that the client breaks.
type server struct {
	dir      string // where the files lie that chunks wait for
	consumer string // the name that the client was given
	token    string // access token that every call must show
	capacity int    // chunks that the client may hold at once
	address  string
	server   *http.Server
	quit     chan struct{}

	mu       sync.Mutex
	changed  chan struct{} // closed at every change
	chunks   []*chunk
	tokens   map[string]*chunk
	orders   map[string]api.Result // losses to answer instead, by verb and token
	revoked  map[string]bool       // tokens that were taken from the client, which got the event
	epoch    uint32
	beat     time.Duration
	streams  map[*stream]bool
	attached int // streams that were ever opened
	process
	detached  bool
	polls     int  // reserves that wait now
	abandoned int  // reserves that the client broke off before the wait that they ask for was over
	impatient bool // reserves are answered at once, whatever they ask for
	limits    limits
	locked    bool // the access token is not good any more
	faults    []fault
	calls     []call
	away      map[string]time.Time // until when the client was asked not to make a call, by verb
	mostHeld  int
	broken    []string
	produced
}

// process is the server's knowledge of the client's process.
type process struct {
	incarnation string        // as it said
	helloAfter  time.Duration // how long its next stream waits for the first event
	firstHello  time.Time
	draining    bool // reserves say that it is to leave
}

// call is one that the client made.
type call struct {
	at   time.Time
	verb string
}

// fault is something that goes wrong with a call: the first one of a verb is played at its next call, and then gone.
type fault struct {
	verb string
	play func(s *server, w http.ResponseWriter, answer func() (int, any))
}

// stream is an attach stream of the client.
type stream struct {
	events chan []byte
	mute   bool // it says nothing any more, and does not end either
	end    chan struct{}
}

func newServer(dir string, o Options) *server {
	return &server{
		dir: dir, consumer: o.Consumer, token: o.Token, capacity: o.Concurrency + o.Prefetch, quit: make(chan struct{}),
		changed: make(chan struct{}), tokens: map[string]*chunk{}, orders: map[string]api.Result{}, revoked: map[string]bool{}, epoch: 1,
		beat: 10 * time.Second, streams: map[*stream]bool{}, away: map[string]time.Time{}, limits: realLimits(),
	}
}

// listen starts to serve, at the same address as before if there was one. A process that is being started at this moment, by another
// scenario, has a copy of the old listener until it executes its program: until then the address is in use.
func (s *server) listen() (err error) {
	if s.address == "" {
		return s.begin()
	}
	for range 1000 {
		var listener net.Listener
		if listener, err = net.Listen("tcp", s.address); err == nil {
			s.serve(listener)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("conformance: listen: %w", err)
}

// begin serves at an address that will be free when the server comes back: below the ports that the kernel gives to
// other servers and to connections that go out, and of a host of its own. Other suites run at the same time, and one of
// their servers could take the port meanwhile. Linux has all hosts that begin with 127, other systems only 127.0.0.1.
func (s *server) begin() (err error) {
	for try := range 100 {
		var listener net.Listener
		host := "127.0.0.1"
		if try < 50 {
			host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(256), 1+rand.IntN(250))
		}
		address := fmt.Sprintf("%s:%d", host, 20_000+rand.IntN(10_000))
		if listener, err = net.Listen("tcp", address); err == nil {
			s.address = address
			s.serve(listener)
			return nil
		}
	}
	return fmt.Errorf("conformance: listen: %w", err)
}

func (s *server) serve(listener net.Listener) {
	s.server = &http.Server{Handler: s}
	go s.server.Serve(listener)
}

// shut refuses connections from now on and breaks those that are open.
func (s *server) shut() { s.server.Close() }

// sweep ends reservations in time until the server quits.
func (s *server) sweep() {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.mu.Lock()
			s.expire(now)
			s.change()
			s.mu.Unlock()
		case <-s.quit:
			return
		}
	}
}

// change wakes all that wait for a change. The caller holds the lock.
func (s *server) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// verbOf names a call: the last word of its path, or what it is about.
func verbOf(r *http.Request) string {
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case last == "reservations":
		return "reserve"
	case last == "submissions":
		return "insert"
	case last == "submissions:batch":
		return "insert-many"
	case last == submissionID:
		return "wait"
	}
	return last
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := verbOf(r)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	s.mu.Lock()
	s.note(verb, r)
	broken := s.nextFault(verb)
	if s.locked {
		broken = refuse(verb, http.StatusUnauthorized, api.CodeUnauthorized, 0).play
	}
	s.mu.Unlock()
	answer := func() (int, any) { return s.answer(r, verb, body) }
	if broken != nil {
		broken(s, w, answer)
		return
	}
	if verb == "attach" {
		s.attach(w, r)
		return
	}
	status, value := answer()
	write(w, status, value)
}

// sortOf is the scenarios' name of a verb: a client that reports a result by itself is in an exchange of one result.
func sortOf(verb string) string {
	if verb == "complete" || verb == "fail" {
		return "exchange"
	}
	return verb
}

// count is how many calls the client made of a sort.
func (s *server) count(verb string) (n int) {
	for _, c := range s.calls {
		if sortOf(c.verb) == verb {
			n++
		}
	}
	return n
}

// note writes a call down and looks whether it may be made.
func (s *server) note(verb string, r *http.Request) {
	now := time.Now()
	s.calls = append(s.calls, call{now, verb})
	if until := s.away[sortOf(verb)]; now.Before(until) {
		s.accuse("%s came %d ms before the end of the Retry-After that it was answered with", verb, until.Sub(now).Milliseconds())
	}
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		s.accuse("%s has the Authorization %q, want the token", verb, r.Header.Get("Authorization"))
	}
	if queue := strings.Split(r.URL.EscapedPath(), "/"); len(queue) > 3 && queue[2] == "queues" && queue[3] != "default" {
		s.accuse("%s is for the queue %q, want default", verb, queue[3])
	}
	s.change()
}

func (s *server) nextFault(verb string) func(*server, http.ResponseWriter, func() (int, any)) {
	for i, f := range s.faults {
		if f.verb == sortOf(verb) {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			return f.play
		}
	}
	return nil
}

// answer does a call and says what to answer.
func (s *server) answer(r *http.Request, verb string, body []byte) (int, any) {
	if len(body) > s.limits.body {
		return problem(http.StatusRequestEntityTooLarge, api.CodeTooLarge, fmt.Sprintf("The body is longer than %d bytes.", s.limits.body))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.change()
	now := time.Now()
	switch verb {
	case "reserve":
		return s.answerReserve(r.Context(), body)
	case "exchange":
		var q api.ExchangeRequest
		if fault := s.decode(verb, body, &q); fault != nil {
			return problem(422, api.CodeInvalid, fault.Error())
		}
		if status, refused := s.refuseItem("", q.Complete, q.Fail, q.Extend); refused != nil {
			return status, refused
		}
		out := &api.ExchangeResponse{Complete: s.complete(q.Complete), Fail: s.fail(q.Fail, now),
			Extend: s.extend(q.Extend, q.Consumer, now), Reservations: []api.Reservation{}}
		if q.Reserve != nil {
			s.checkReserve(verb, q.Reserve)
			out.Reservations = s.reserve(q.Reserve, now)
			out.Reason = reasonFor(out.Reservations)
		}
		return http.StatusOK, out
	case "complete":
		var q api.CompleteRequest
		fault := s.decode(verb, body, &q)
		if status, refused := s.refuseItem("/items", q.Items, nil, nil); refused != nil {
			return status, refused
		}
		return results(s.complete(q.Items), fault)
	case "fail":
		var q api.FailRequest
		fault := s.decode(verb, body, &q)
		if status, refused := s.refuseItem("/items", nil, q.Items, nil); refused != nil {
			return status, refused
		}
		return results(s.fail(q.Items, now), fault)
	case "extend":
		var q api.ExtendRequest
		fault := s.decode(verb, body, &q)
		if status, refused := s.refuseItem("/items", nil, nil, q.Items); refused != nil {
			return status, refused
		}
		return results(s.extend(q.Items, q.Consumer, now), fault)
	case "release":
		var q api.ReleaseRequest
		fault := s.decode(verb, body, &q)
		return results(s.release(q.Items, now), fault)
	case "detach":
		s.detached = true
		return http.StatusOK, &api.Released{Released: s.letGo()}
	case "insert":
		return s.insert(r, body)
	case "insert-many":
		return s.insertMany(body)
	case "wait":
		return s.answerWait(r)
	case "outputs":
		return http.StatusOK, s.outputLines()
	}
	s.accuse("%s %s is no call that a worker or producer needs", r.Method, r.URL.Path)
	return problem(http.StatusNotFound, api.CodeNotFound, "There is nothing at this path.")
}

// decode reads a body as strictly as a real server does.
func (s *server) decode(verb string, body []byte, into any) error {
	err := wire.Decode(body, into)
	if err != nil {
		s.accuse("the body of %s is refused: %v: %.200s", verb, err, body)
	}
	return err
}

func (s *server) checkReserve(verb string, q *api.ReserveRequest) {
	if q.Consumer != s.consumer {
		s.accuse("%s names the consumer %q, want %q", verb, q.Consumer, s.consumer)
	}
	if room := s.capacity - s.heldNow(); q.Max < 1 || q.Max > room {
		s.accuse("%s asks for %d chunks, with room for %d", verb, q.Max, room)
	}
}

func (s *server) answerReserve(ctx context.Context, body []byte) (int, any) {
	var q api.ReserveRequest
	if fault := s.decode("reserve", body, &q); fault != nil {
		return problem(422, api.CodeInvalid, fault.Error())
	}
	s.checkReserve("reserve", &q)
	if s.polls++; s.polls > 1 {
		s.accuse("%d reserves wait at the same time; one is enough", s.polls)
	}
	defer func() { s.polls-- }()
	until := time.Now().Add(time.Duration(q.WaitMS) * time.Millisecond)
	for {
		now := time.Now()
		if s.draining {
			return http.StatusOK, &api.ReserveResponse{Reservations: []api.Reservation{}, Reason: new(api.ReasonDraining)}
		}
		if got := s.reserve(&q, now); len(got) > 0 {
			return http.StatusOK, &api.ReserveResponse{Reservations: got}
		}
		if ctx.Err() != nil {
			s.abandoned++
		}
		if !now.Before(until) || s.impatient || ctx.Err() != nil {
			return http.StatusOK, &api.ReserveResponse{Reservations: []api.Reservation{}, Reason: reasonFor(nil),
				RetryAfterMS: new(int64(idleMS))}
		}
		s.rest(ctx)
	}
}

// rest waits for the next change, with the lock open meanwhile.
func (s *server) rest(ctx context.Context) {
	changed := s.changed
	s.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	s.mu.Lock()
}

// idleMS is the retry_after_ms of reserves that bring nothing.
const idleMS = 300

func reasonFor(got []api.Reservation) *string {
	if len(got) > 0 {
		return nil
	}
	reason := api.ReasonNothing
	return &reason
}

func (s *server) letGo() (n int) {
	for _, c := range s.chunks {
		if c.state == held {
			c.state = ready
			n++
		}
	}
	return n
}

func results(list []api.Result, fault error) (int, any) {
	if fault != nil {
		return problem(422, api.CodeInvalid, fault.Error())
	}
	return http.StatusOK, &api.ResultsResponse{Results: list}
}

func problem(status int, code, detail string) (int, any) {
	return status, &api.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code,
		Detail: detail, RequestID: "r-1"}
}

// write sends a value as JSON, and bytes as they are: they are JSON lines.
func write(w http.ResponseWriter, status int, value any) {
	body, media := encode(status, value)
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	w.Write(body)
}

func encode(status int, value any) (body []byte, media string) {
	if lines, is := value.([]byte); is {
		return lines, "application/x-ndjson"
	}
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // our own types always encode
	}
	if status >= 400 {
		return body, api.ProblemContentType
	}
	return body, "application/json"
}

// attach keeps a stream to the client open.
func (s *server) attach(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if want := "/v1/queues/default/consumers/" + url.PathEscape(s.consumer) + "/attach"; r.URL.EscapedPath() != want {
		s.accuse("attach goes to %s, want %s", r.URL.EscapedPath(), want)
	}
	given := r.URL.Query().Get("incarnation")
	switch {
	case given == "":
	case s.firstHello.IsZero() && s.count("reserve") > 0:
		s.accuse("attach has an incarnation, though its process reserved before its first hello: the name's chunks may be its own")
	case s.incarnation != "" && given != s.incarnation:
		s.accuse("attach has the incarnation %q, and had %q before: it is the same process", given, s.incarnation)
	}
	s.incarnation = cmp.Or(given, s.incarnation)
	if pause := s.helloAfter; pause > 0 {
		s.helloAfter = 0
		s.mu.Unlock()
		time.Sleep(pause)
		s.mu.Lock()
	}
	if s.firstHello.IsZero() {
		s.firstHello = time.Now()
	}
	st := &stream{events: make(chan []byte, 100), end: make(chan struct{})}
	s.streams[st] = true
	s.attached++
	st.events <- s.hello()
	beat := s.beat
	s.change()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, st)
		s.change()
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		var text []byte
		select {
		case text = <-st.events:
		case <-alive.C:
			s.mu.Lock()
			if !st.mute {
				text = []byte(": alive\n\n")
			}
			s.mu.Unlock()
		case <-st.end:
			return
		case <-r.Context().Done():
			return
		}
		w.Write(text)
		w.(http.Flusher).Flush()
	}
}

func (s *server) hello() []byte {
	return event(api.EventHello, &api.Hello{Consumer: s.consumer, HeartbeatMS: s.beat.Milliseconds(), Epoch: s.epoch,
		ConsumerGraceMS: 30_000, Reserved: s.heldNow()})
}

func event(name string, data any) []byte {
	body, err := json.Marshal(data)
	if err != nil {
		panic(err) // our own types always encode
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, body)
}

// tell sends an event to the client. The caller holds the lock.
func (s *server) tell(name string, data any) {
	for st := range s.streams {
		st.events <- event(name, data)
	}
	s.change()
}
