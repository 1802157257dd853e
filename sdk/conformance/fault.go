package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// refuse answers a call with an error, without doing it. after is the Retry-After in seconds, 0 for none: until it is over the call
// must not be made again.
func refuse(verb string, status int, code string, after int) fault {
	return fault{verb, func(s *server, w http.ResponseWriter, _ func() (int, any)) {
		if after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(after))
			s.mu.Lock()
			s.away[verb] = time.Now().Add(time.Duration(after) * time.Second)
			s.mu.Unlock()
		}
		_, value := problem(status, code, "As the scenario wants.")
		write(w, status, value)
	}}
}

// drop breaks the connection without doing the call.
func drop(verb string) fault {
	return fault{verb, func(_ *server, w http.ResponseWriter, _ func() (int, any)) {
		connection, _ := hijack(w)
		connection.Close()
	}}
}

// cut does a call and breaks the connection in the middle of the answer.
func cut(verb string) fault {
	return fault{verb, func(s *server, w http.ResponseWriter, answer func() (int, any)) {
		status, value := answer()
		s.forgetDelivery(value)
		body, media := encode(status, value)
		connection, buffered := hijack(w)
		fmt.Fprintf(buffered, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status,
			http.StatusText(status), media, len(body), body[:len(body)/2])
		buffered.Flush()
		connection.Close()
	}}
}

// forgetDelivery notes that the client cannot know of reservations.
func (s *server) forgetDelivery(value any) {
	var lost []api.Reservation
	switch answer := value.(type) {
	case *api.ReserveResponse:
		lost = answer.Reservations
	case *api.ExchangeResponse:
		lost = answer.Reservations
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range lost {
		s.tokens[r.Token].unheard = true
	}
}

func hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	connection, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err) // HTTP/1.1 connections can always be taken over
	}
	return connection, buffered
}
