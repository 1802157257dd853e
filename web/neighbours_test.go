//quern:overlapping
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// A connection to another node may still be made when the call is over that wanted it. It reads the context of that call.
func TestConnectionOutlivesItsCall(t *testing.T) {
	t.Parallel()
	a := &auth{hops: newHops(nil)}
	f := newForwarding(nil, a, slog.New(slog.DiscardHandler))
	dialing, over, read := make(chan struct{}), make(chan struct{}), make(chan any)
	f.transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialing)
		<-over
		defer func() { read <- recover() }()
		_ = ctx.Value(t)
		return nil, context.Canceled
	}
	ctx, hangUp := context.WithCancel(context.WithValue(t.Context(), credentialKey{}, &credential{}))
	c := echo.New().NewContext(httptest.NewRequestWithContext(ctx, "POST", "/", nil), httptest.NewRecorder())
	ask := a.asking(c)
	answered := make(chan error)
	go func() {
		_, err := f.askNode(ask, "http://node.invalid/", nil)
		answered <- err
	}()
	<-dialing
	hangUp()
	if err := <-answered; err == nil {
		t.Fatal("the call has an answer")
	}
	ask.done()
	close(over)
	if bad := <-read; bad != nil {
		t.Fatalf("the connection reads the context of a call that is over: %v", bad)
	}
}

// Memory that is used for the next call has no context or request in it: a connection that is still being made holds those of a call that is over.
func TestPoolsKeepNoContext(t *testing.T) {
	t.Parallel()
	kept := []reflect.Type{reflect.TypeFor[reserveCall](), reflect.TypeFor[finishCall](), reflect.TypeFor[exchangeCall](),
		reflect.TypeFor[insertCall](), reflect.TypeFor[insertManyCall](), reflect.TypeFor[buffer]()}
	pools := 0
	for _, part := range []reflect.Type{reflect.TypeFor[consuming](), reflect.TypeFor[inserting](), reflect.TypeFor[buffers]()} {
		for field := range part.Fields() {
			if strings.HasPrefix(field.Type.Name(), "pool[") {
				pools++
			}
		}
	}
	if pools != len(kept) {
		t.Errorf("there are %d pools, and this test knows %d", pools, len(kept))
	}
	for _, of := range kept {
		for field := range of.Fields() {
			switch field.Type {
			case reflect.TypeFor[context.Context](), reflect.TypeFor[*http.Request](), reflect.TypeFor[echo.Context](), reflect.TypeFor[asking](),
				reflect.TypeFor[*asking]():
				t.Errorf("%s.%s stays in the pool", of, field.Name)
			}
		}
	}
}
