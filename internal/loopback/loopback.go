// Package loopback names addresses of this machine for tests.
//
// The kernel gives ports from 32,768 upwards to servers that ask for any port and to connections that go out. A test
// that needs an address to stay free, or to stay refused, must take it from below: otherwise another test that runs at
// the same moment may serve there.
package loopback

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Refused is an address at which no server listens: connections to it are refused at once.
const Refused = "127.0.0.1:1"

// Free returns an address that is not in use at the moment, with a port from 20,000 to 29,999. A server that is to
// start a second time at the same address needs one.
func Free() (string, error) {
	for range 100 {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(10_000))))
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", errors.New("loopback: no free port between 20,000 and 29,999")
}
