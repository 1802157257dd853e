package web

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/access"
)

// forgeries are bad tokens, made from a good one.
func forgeries(good string) []string {
	list := []string{
		"", "Bearer", "Bearer ", "Bearer  " + good, good, "Basic " + good, "Bearer " + good + ",Bearer " + good, "Bearer\t" + good, "Token " + good,
		"Bearer " + strings.ToUpper(good), "Bearer " + good[:len(good)-1], "Bearer " + good + "a", "Bearer qn_", "Bearer qn__", "Bearer null", "Bearer undefined", "Bearer *", "Bearer ../../admin-token",
		"Bearer " + good[:16] + strings.Repeat("a", 52), "Bearer qn_" + strings.Repeat("a", 12) + good[15:], "Bearer " + good[:15] + "-" + good[16:], "Bearer " + strings.Repeat("qn_", 1000), "Bearer ' OR 1=1 --",
		"Bearer " + good + "\x00", "Bearer \xff\xfe", "Bearer " + strings.ReplaceAll(good, "_", "%5f"), "Bearer {\"token\":\"" + good + "\"}", "Bearer \"" + good + "\"", "Digest username=\"" + good + "\"", "bearer:" + good,
	}
	for i := 7; i < len("Bearer ")+len(good); i += 2 {
		b := []byte("Bearer " + good)
		b[i] ^= 1
		list = append(list, string(b))
	}
	return list
}

// A bad token is refused for every operation, wherever it stands: in the header, in two headers, in the path, the
// query, a cookie.
func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixtureSeeded(t, 1, func(s *Server) {
		var asked atomic.Int64
		start := time.Now()
		s.clock.now = func() time.Time { return start.Add(time.Duration(asked.Add(1)) * time.Hour) } // no one waits
	})
	_, good := f.token(engine.TokenRequest{Name: "good", Scopes: access.All})
	refused := func(what, head string) {
		t.Helper()
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /v1/queues%s HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n\r\n", what, head)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		want := 401
		if strings.Contains(head, "\x00") {
			want = 400 // that is no HTTP
		}
		if err != nil || response.StatusCode != want {
			t.Errorf("%s %q: got %v, %v; want %d", what, head, response, err, want)
		}
	}
	cases := 0
	for _, forged := range forgeries(good) {
		refused("", "Authorization: "+forged+"\r\n")
		refused("", "Cookie: "+sessionCookie+"="+forged+"\r\n")
		cases += 2
	}
	for _, head := range []string{
		"Authorization: Bearer " + good + "\r\nAuthorization: Bearer " + good + "\r\n", "Authorization: Bearer x\r\nAuthorization: Bearer " + good + "\r\n", "X-Authorization: Bearer " + good + "\r\n",
		"Proxy-Authorization: Bearer " + good + "\r\n", "Cookie: " + sessionCookie + "=" + good + "\r\n", "Cookie: token=" + good + "\r\n", "X-Forwarded-User: admin\r\n", "X-Original-URL: /livez\r\n", "X-Forwarded-For: 127.0.0.1\r\n",
	} {
		refused("", head)
		cases++
	}
	for _, query := range []string{"?token=", "?access_token=", "?authorization=Bearer%20"} {
		refused(query+good, "")
		cases++
	}
	if cases < 120 {
		t.Errorf("%d cases; there were more", cases)
	}
}

// No Authorization header makes the server fail or lets in a caller without a token.
func FuzzAuthorization(f *testing.F) {
	s := bareServer(f)
	id, secret, err := access.Draw(strings.NewReader(strings.Repeat("some chance ", 10)))
	if err != nil {
		f.Fatal(err)
	}
	table := access.NewTable(true, []access.Token{{ID: id, Name: "one", Scopes: access.All, Secret: access.HashOf(secret), Use: new(access.Use)}})
	good := access.Text(id, secret)
	for _, forged := range forgeries(good) {
		f.Add(forged)
	}
	f.Add("Bearer " + good)
	f.Fuzz(func(t *testing.T, header string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		_, token, err := s.auth.authenticate(table, r, time.UnixMilli(1))
		is := len(header) == len("Bearer ")+len(good) && strings.EqualFold(header[:6], "Bearer") && header[6:] == " "+good
		if (token != nil) != is || (err == nil) != is {
			t.Errorf("%q: let in %v, %v; want %v", header, token != nil, err, is)
		}
	})
}
