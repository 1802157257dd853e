// Package tracetest is a collector of spans for tests. It accepts OTLP over HTTP in JSON, and checks the
// shape of what it gets.
package tracetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
)

// Collector is a server on the loopback interface that gathers spans. Make it with New, and Close it.
type Collector struct {
	*httptest.Server
	// Answer says what the n-th request is answered, from 1 on; nil: that all is well. The
	// spans of one that is refused are not gathered.
	Answer func(n int) (status int, retryAfter, body string)
	// Got has an entry for every request that was answered, as long as there is room.
	Got chan struct{}

	// report fails the test of the caller. It is a function, so that this package need not import testing.
	report func(format string, arguments ...any)
	mu     sync.Mutex
	count  int
	spans  []Span
}

// Span is a span as it was sent. Numbers are those of OTLP; Attributes are as JSON has
// them, texts without quotes.
type Span struct {
	TraceID, SpanID, ParentSpanID, TraceState, Name string
	Flags                                           uint32
	Kind, DroppedLinksCount                         int
	Start, End                                      int64 // nanoseconds
	Attributes                                      map[string]string
	Links                                           []Link
	Failed                                          bool
	Status                                          string
}

// Link is another span that a span has to do with.
type Link struct{ TraceID, SpanID, TraceState string }

// New starts a collector. report is told of whatever is not as OTLP has it; it may be
// called from any goroutine.
func New(report func(format string, arguments ...any)) *Collector {
	c := &Collector{report: report, Got: make(chan struct{}, 1000)}
	c.Server = httptest.NewServer(http.HandlerFunc(c.collect))
	return c
}

// Spans are those that were taken so far, in the order in which they came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// The request as OTLP's protocol buffers map to JSON. A field that it does not have is a mistake.
type request struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes []attribute `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []struct {
			Scope struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"scope"`
			Spans []sent `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

// sent is a span as OTLP writes it. Times are texts, because JSON numbers lose nanoseconds.
type sent struct {
	TraceID           string      `json:"traceId"`
	SpanID            string      `json:"spanId"`
	ParentSpanID      string      `json:"parentSpanId"`
	TraceState        string      `json:"traceState"`
	Flags             uint32      `json:"flags"`
	Name              string      `json:"name"`
	Kind              int         `json:"kind"`
	StartTimeUnixNano int64       `json:"startTimeUnixNano,string"`
	EndTimeUnixNano   int64       `json:"endTimeUnixNano,string"`
	Attributes        []attribute `json:"attributes"`
	Links             []struct {
		TraceID    string `json:"traceId"`
		SpanID     string `json:"spanId"`
		TraceState string `json:"traceState"`
		Flags      uint32 `json:"flags"`
	} `json:"links"`
	DroppedLinksCount int `json:"droppedLinksCount"`
	Status            struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

// Pointers tell an empty text from a missing one.
type attribute struct {
	Key   string `json:"key"`
	Value struct {
		StringValue *string `json:"stringValue"`
		IntValue    *string `json:"intValue"`
	} `json:"value"`
}

// text is the value, whatever its type. Tests compare texts.
func (a attribute) text() string {
	switch {
	case a.Value.StringValue != nil:
		return *a.Value.StringValue
	case a.Value.IntValue != nil:
		return *a.Value.IntValue
	}
	return ""
}

// A request that is not as it should be is reported, and answered as any other: the test ends with the report, not
// with a retry.
func (c *Collector) collect(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/json" {
		c.report("got %s %s as %q: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
	}
	spans, err := read(body)
	if err != nil {
		c.report("this is not what OTLP says: %v in %s", err, body)
	}
	c.mu.Lock()
	c.count++
	n := c.count
	c.mu.Unlock()
	status := http.StatusOK
	if c.Answer != nil {
		var after, text string
		status, after, text = c.Answer(n)
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	if status < 300 {
		c.mu.Lock()
		c.spans = append(c.spans, spans...)
		c.mu.Unlock()
	}
	// A test that does not wait for requests must not block the sender, so a full channel drops the entry.
	select {
	case c.Got <- struct{}{}:
	default:
	}
}

var (
	traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)
	spanID  = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// read reads a request, strictly. Unknown fields are refused, as a real collector would drop them silently.
func read(body []byte) (spans []Span, err error) {
	var in request
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return nil, err
	}
	for _, resource := range in.ResourceSpans {
		// The first attribute has to be the name of the service: viewers of traces group by it.
		if list := resource.Resource.Attributes; len(list) == 0 || list[0].Key != "service.name" ||
			list[0].text() != "quern" {
			return nil, fmt.Errorf("the resource is %+v", list)
		}
		for _, scope := range resource.ScopeSpans {
			for i := range scope.Spans {
				s := &scope.Spans[i]
				// A collector drops spans that lack an id, a name or a time, or that end before they begin. It may
				// not say so.
				if scope.Scope.Name == "" || !traceID.MatchString(s.TraceID) || !spanID.MatchString(s.SpanID) ||
					s.ParentSpanID != "" && !spanID.MatchString(s.ParentSpanID) ||
					s.Name == "" || s.Kind < 1 || s.Kind > 5 || s.StartTimeUnixNano <= 0 ||
					s.EndTimeUnixNano < s.StartTimeUnixNano {
					return nil, fmt.Errorf("the span %+v is not whole", s)
				}
				spans = append(spans, s.span())
			}
		}
	}
	if len(spans) == 0 {
		return nil, fmt.Errorf("there are no spans")
	}
	return spans, nil
}

// span turns what was sent into what tests compare.
func (s *sent) span() Span {
	out := Span{
		TraceID: s.TraceID, SpanID: s.SpanID, ParentSpanID: s.ParentSpanID, TraceState: s.TraceState, Name: s.Name,
		Flags: s.Flags, Kind: s.Kind,
		DroppedLinksCount: s.DroppedLinksCount, Start: s.StartTimeUnixNano, End: s.EndTimeUnixNano,
		Attributes: map[string]string{},
		Failed:     s.Status.Code == 2, Status: s.Status.Message,
	}
	for _, a := range s.Attributes {
		out.Attributes[a.Key] = a.text()
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, Link{TraceID: l.TraceID, SpanID: l.SpanID, TraceState: l.TraceState})
	}
	return out
}
