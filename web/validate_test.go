package web

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/quern-queue/quern/wasm/compile"
)

// TestMain lets this binary be the compiling child of plugins too, and teaches the validator the media types that are text to it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "plugin-compile" {
		os.Exit(compile.Child(os.Args[2:], os.Stdin, os.Stderr))
	}
	text := func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		all, err := io.ReadAll(body)
		return string(all), err
	}
	for _, media := range []string{contentLines, contentOpenAPI, "text/html", "text/plain", contentWasm, contentBytes, contentEvents, "text/javascript", "text/css", "image/svg+xml"} {
		openapi3filter.RegisterBodyDecoder(media, text)
	}
	code := m.Run()
	stopDatabase()
	os.Exit(code)
}

// validating checks every answer that passes through it against the document.
type validating struct {
	t      testing.TB
	router routers.Router
	next   http.RoundTripper
}

// documented reads the document of the first server whose answers are checked. All servers of these tests have the same one, and making
// and reading it takes longer than most tests.
var documented struct {
	once   sync.Once
	router routers.Router
}

func newValidating(t testing.TB, s *Server) *validating {
	t.Helper()
	documented.once.Do(func() {
		router, err := gorillamux.NewRouter(loadDocument(t, documentOf(t, s)))
		if err != nil {
			t.Fatalf("read the document: %v", err)
		}
		documented.router = router
	})
	if documented.router == nil {
		t.Fatal("another test could not read the document")
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: defaultPatience().header / 2}
	t.Cleanup(transport.CloseIdleConnections)
	return &validating{t: t, router: documented.router, next: transport}
}

func (v *validating) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := v.next.RoundTrip(r)
	if err != nil || isStream(response) {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	asked := r.Clone(r.Context())
	asked.Body, asked.URL.Host, asked.URL.Scheme = nil, "", ""
	route, parameters, err := v.router.FindRoute(asked)
	if err != nil {
		// No such path or method: only the problem itself can be checked.
		if response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusMethodNotAllowed && r.Method != http.MethodHead {
			v.t.Errorf("%s %s is not in the document: %v", r.Method, r.URL.Path, err)
		}
		return response, nil
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: parameters, Route: route},
		Status:                 response.StatusCode, Header: response.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	input.SetBodyBytes(body)
	if err := openapi3filter.ValidateResponse(r.Context(), input); err != nil {
		v.t.Errorf("%s %s: the answer does not fit the document: %v\nstatus %d, body %s", r.Method, r.URL.Path, err, response.StatusCode, shorten(body))
	}
	return response, nil
}

// isStream reports whether an answer is a stream of events, which has no end to wait for.
func isStream(answer *http.Response) bool { return answer.Header.Get("Content-Type") == contentEvents }

func shorten(body []byte) string {
	const most = 2000
	if len(body) <= most {
		return string(body)
	}
	return string(body[:most]) + "..."
}

// The validator refuses answers that do not fit: a test that cannot fail would prove nothing.
func TestValidatorRefuses(t *testing.T) {
	t.Parallel()
	s := bareServer(t)
	for name, test := range map[string]struct {
		method, path string
		status       int
		body         string
		ok           bool
	}{
		"as documented":     {"GET", "/version", 200, `{"version":"1","go":"go1"}`, true},
		"missing field":     {"GET", "/version", 200, `{"version":"1"}`, false},
		"wrong type":        {"GET", "/version", 200, `{"version":1,"go":"go1"}`, false},
		"unknown field":     {"GET", "/version", 200, `{"version":"1","go":"go1","mood":"good"}`, false},
		"null reason":       {"POST", "/v1/queues/q/reservations", 200, `{"reservations":[],"reason":null,"retry_after_ms":null}`, true},
		"unknown reason":    {"POST", "/v1/queues/q/reservations", 200, `{"reservations":[],"reason":"mood","retry_after_ms":null}`, false},
		"null reservations": {"POST", "/v1/queues/q/reservations", 200, `{"reservations":null,"reason":null,"retry_after_ms":null}`, false},
		"unknown status":    {"POST", "/v1/queues/q/reservations/complete", 200, `{"results":[{"status":"fine"}]}`, false},
	} {
		recorder := &recordingTB{TB: t}
		v := newValidating(t, s)
		v.t = recorder
		v.next = roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: test.status, Header: http.Header{"Content-Type": {contentJSON}}, Body: io.NopCloser(strings.NewReader(test.body)), Request: r}, nil
		})
		request, err := http.NewRequest(test.method, "http://localhost"+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.RoundTrip(request); err != nil {
			t.Fatal(err)
		}
		if (recorder.failures == 0) != test.ok {
			t.Errorf("%s: %d failures, want ok=%v", name, recorder.failures, test.ok)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recordingTB counts failures instead of failing.
type recordingTB struct {
	testing.TB
	failures int
}

func (r *recordingTB) Errorf(string, ...any) { r.failures++ }
