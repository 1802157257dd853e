package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quern-queue/quern/wasm/manifest"
	"github.com/quern-queue/quern/wasm/wasmtest"
)

// At each release, `go test ./cmd/quern -run TestDirectoryOfARelease -release 0.1.0` keeps the test's directory for later releases.
var keepAs = flag.String("release", "", "write the directory into web/testdata/formats, as that of this release")

// A server does a little of everything in two lives, and the second is killed. The third answers the same for every submission.
// TestDirectoriesOfReleases opens such directories of releases.
func TestDirectoryOfARelease(t *testing.T) {
	t.Parallel()
	program, work := quernCopy(t), t.TempDir()
	s := &oldServer{t: t, program: program, data: filepath.Join(work, "live")}
	s.live(syscall.SIGTERM, s.load)
	var before, answers map[string]json.RawMessage
	s.live(syscall.SIGKILL, func() { // it has rows of the first life, and a journal behind them
		s.more()
		before = s.ask()
	})
	s.must(os.CopyFS(filepath.Join(work, "data"), os.DirFS(s.data)))
	s.live(syscall.SIGTERM, func() { answers = s.ask() })
	if got, want := slices.Sorted(maps.Keys(answers)), slices.Sorted(maps.Keys(before)); len(want) < 40 || !slices.Equal(got, want) {
		t.Errorf("after the crash it answers\n%v\nwant these, at least 40\n%v", got, want)
	}
	for path, want := range before {
		if got := answers[path]; strings.HasPrefix(path, "/v1/submissions/") && !bytes.Equal(got, want) {
			t.Errorf("%s: after the crash\n%s\nwant\n%s", path, got, want)
		}
	}
	if *keepAs != "" {
		text, err := json.MarshalIndent(map[string]any{"authorization": s.authorization, "answers": answers}, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(work, "answers.json"), text, 0o600)
		}
		s.must(errors.Join(err, pack(work, filepath.Join("..", "..", "web", "testdata", "formats", *keepAs+".tar.gz"))))
	}
}

// oldServer is a server as each release runs it.
type oldServer struct {
	t             *testing.T
	program, data string
	url           string
	authorization string // the header of each request; "": none is needed yet
}

func (s *oldServer) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// live is a life of the server.
func (s *oldServer) live(end os.Signal, do func()) {
	server, err := startServer(s.program, os.Environ(), s.data, "--log-level", "error")
	s.must(err)
	s.url = strings.TrimSuffix(server.url, "/")
	defer func() { _ = server.end(end) }() // its status says how it was ended
	do()
}

// call sends JSON, and returns what comes back.
func (s *oldServer) call(method, path, body string) []byte {
	return s.send(method, path, "application/json", body)
}

// send sends a body of a type, and returns what comes back.
func (s *oldServer) send(method, path, kind, body string) []byte {
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	s.must(err)
	if body != "" {
		request.Header.Set("Content-Type", kind)
	}
	if s.authorization != "" {
		request.Header.Set("Authorization", s.authorization)
	}
	response, err := http.DefaultClient.Do(request)
	s.must(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	s.must(err)
	if response.StatusCode > 299 {
		s.t.Fatalf("%s %s: %s %s", method, path, response.Status, answer)
	}
	return answer
}

const (
	defaultPath = "/v1/queues/default"
	otherPath   = "/v1/queues/other"
)

// load has the server do a little of everything.
func (s *oldServer) load() {
	for _, c := range [][3]string{
		{"PUT", otherPath, `{"settings":{"max_attempts":7,"on_exhausted":"dead_letter"}}`},
		{"PUT", "/v1/queues/gone", `{}`},
		{"DELETE", "/v1/queues/gone", ""},
		{"PATCH", defaultPath, `{"settings":{"on_exhausted":"dead_letter","retention_seconds":864000}}`},
		{"PUT", defaultPath + "/strategies/nightly", `{"strategy":"OldestFirst"}`},
		{"PUT", defaultPath + "/strategies/nightly", `{"strategy":"SelectOnly(\"company\", 7, Random)"}`},
		{"PUT", defaultPath + "/meta-keys/company/values/7", `{"limit":40,"weight":2.5}`},
		{"PUT", defaultPath + "/meta-keys/company/values/acme", `{"weight":0.5}`},
		{"PUT", defaultPath + "/schedules/monthly", `{"spec":"30 2 1 * *","start":"2099-01-01T00:00:00Z",` +
			`"template":{"meta":{"company":7},"chunks":{"count":3,"prefix":"p/"}}}`},
		{"PUT", defaultPath + "/schedules/paused", `{"spec":"@every 3h","template":{"chunks":{"inline":["tick"]}}}`},
		{"POST", defaultPath + "/schedules/paused/pause", `{"reason":"later"}`},
		{"POST", defaultPath + "/rules", `{"action":"pause","match":{"meta":{"company":9}},"reason":"unpaid"}`},
		{"POST", defaultPath + "/rules", `{"action":"block","match":{"meta":{"company":"old"}},"reason":"left","effects":{"insert":true}}`},
	} {
		s.call(c[0], c[1], c[2])
	}
	for i := range 12 {
		s.insert(i)
	}
	s.finish(9)
	s.plugin()
	s.token()
}

// plugin uploads a plugin and puts it to use.
func (s *oldServer) plugin() {
	const name = "order"
	text := fmt.Sprintf(`{"name":%q,"version":"1.0.0","abi":1,"columns":["priority","limit:none"],"window":{"max":1024}}`, name)
	module, err := manifest.Pack(wasmtest.Scorer(), []byte(text))
	s.must(err)
	s.send("POST", "/v1/plugins", "application/wasm", string(module))
	s.call("POST", "/v1/plugins/"+name+"/activate", `{"version":"1.0.0"}`)
}

// token makes access tokens: from the first one on each request needs one.
func (s *oldServer) token() {
	var made struct {
		Token string `json:"token"`
	}
	s.must(json.Unmarshal(s.call("POST", "/v1/tokens", `{"name":"ana","scopes":["admin"]}`), &made))
	s.authorization = "Bearer " + made.Token
	s.call("POST", "/v1/tokens", `{"name":"ci","scopes":["produce"],"queues":["default"],"meta":{"company":7}}`)
}

// more is the work of the second life. It forwards the first dead letter, redrives the second, and has a bulk operation delete the
// others.
func (s *oldServer) more() {
	for i := range 4 {
		s.insert(12 + i)
	}
	s.finish(4)
	var page struct {
		Items []struct {
			Submission string `json:"submission"`
			Index      int    `json:"index"`
		} `json:"items"`
	}
	s.must(json.Unmarshal(s.call("GET", defaultPath+"/dead-letters", ""), &page))
	letter := func(i int) string {
		return fmt.Sprintf("%s/dead-letters/%s/%d", defaultPath, page.Items[i].Submission, page.Items[i].Index)
	}
	s.call("POST", letter(0)+"/forward", `{"to":"other"}`)
	for !bytes.Contains(s.call("GET", otherPath+"/submissions", ""), []byte(`"id":`)) { // it arrives a moment later
		time.Sleep(10 * time.Millisecond)
	}
	s.call("POST", letter(1)+"/redrive", `{}`)
	var operation struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	answer := s.call("POST", "/v1/bulk-operations", `{"queue":"default","action":"delete","filter":{}}`)
	for s.must(json.Unmarshal(answer, &operation)); operation.State != "completed"; s.must(json.Unmarshal(answer, &operation)) {
		answer = s.call("GET", "/v1/bulk-operations/"+operation.ID, "")
	}
}

// insert inserts a submission: of one chunk or of several, with contents, keys or a template, and some with an attachment.
func (s *oldServer) insert(i int) {
	chunks := []string{
		fmt.Sprintf(`{"inline":["content of %d"]}`, i),
		fmt.Sprintf(`{"count":3,"prefix":"in/%d/"}`, i),
		fmt.Sprintf(`{"inline":["first of %d","second of %d",%q]}`, i, i, strings.Repeat(fmt.Sprint("long ", i, " "), 700)),
	}[i%3]
	text := fmt.Sprintf(`{"meta":{"company":%d,"mode":"live"},"chunks":%s,"priority":%d,"max_attempts":1}`, 7+i%3, chunks, i)
	if i%4 == 0 {
		text = strings.TrimSuffix(text, "}") + `,"attachment":"attached"}`
	}
	s.call("POST", defaultPath+"/submissions", text)
}

// finish takes chunks, completes most of them, half of these with an output, and fails the last.
func (s *oldServer) finish(n int) {
	var got struct {
		Reservations []struct {
			Token string `json:"token"`
		} `json:"reservations"`
	}
	s.must(json.Unmarshal(s.call("POST", defaultPath+"/reservations",
		fmt.Sprintf(`{"max":%d,"strategy":"OldestFirst","consumer":"c1"}`, n)), &got))
	var items []string
	for i, r := range got.Reservations[:n-1] {
		item := fmt.Sprintf(`{"token":%q}`, r.Token)
		if i%2 == 0 {
			item = fmt.Sprintf(`{"token":%q,"output":"result %d"}`, r.Token, i)
		}
		items = append(items, item)
	}
	s.call("POST", defaultPath+"/reservations/complete", `{"items":[`+strings.Join(items, ",")+`]}`)
	s.call("POST", defaultPath+"/reservations/fail",
		fmt.Sprintf(`{"items":[{"token":%q,"error":"no such row","fatal":true}]}`, got.Reservations[n-1].Token))
}

// ask has the server's answers about everything, by path.
func (s *oldServer) ask() map[string]json.RawMessage {
	for bytes.Contains(s.call("GET", "/v1/plugins", ""), []byte(`"starting"`)) { // it opens plugins beside what it serves
		time.Sleep(10 * time.Millisecond)
	}
	answers := map[string]json.RawMessage{}
	paths := []string{
		"/v1/queues", "/v1/tokens", "/v1/plugins", "/v1/plugins/order/versions", "/v1/audit?limit=100", "/v1/bulk-operations",
		defaultPath + "/strategies", defaultPath + "/strategies/nightly?version=1", defaultPath + "/meta-keys/company/values",
		defaultPath + "/schedules", defaultPath + "/rules", defaultPath + "/dead-letters",
		defaultPath + "/submissions?limit=100", otherPath + "/submissions?limit=100",
	}
	for len(paths) > 0 {
		path := paths[0]
		paths = paths[1:]
		answer := s.call("GET", path, "")
		if strings.Contains(path, "/outputs") {
			answer, _ = json.Marshal(string(answer)) // a string always has JSON
		}
		answers[path] = answer
		if strings.HasSuffix(path, "/submissions?limit=100") {
			var page struct {
				Items []struct {
					ID string `json:"id"`
				} `json:"items"`
			}
			s.must(json.Unmarshal(answer, &page))
			for _, item := range page.Items {
				one := "/v1/submissions/" + item.ID
				paths = append(paths, one, one+"/outputs", one+"/chunks/0")
			}
		}
	}
	return answers
}

// pack writes the archive. A ballast is left out: it holds room, and nothing else.
func pack(work, to string) error {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	w := tar.NewWriter(zipped)
	for _, name := range []string{"answers.json", "data"} {
		err := filepath.WalkDir(filepath.Join(work, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "lock" || strings.Contains(entry.Name(), "ballast") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			in, err := filepath.Rel(work, path)
			if err != nil {
				return err
			}
			if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(in), Mode: 0o600, Size: int64(len(content))}); err != nil {
				return err
			}
			_, err = w.Write(content)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := errors.Join(w.Close(), zipped.Close(), os.MkdirAll(filepath.Dir(to), 0o755)); err != nil {
		return err
	}
	return os.WriteFile(to, packed.Bytes(), 0o644)
}
