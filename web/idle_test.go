//go:build unix

package web

import (
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
)

// park lets n consumers wait. Their sockets are bare, so that all memory is the server's.
func park(t testing.TB, f *fixture, n int) {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"max":1,"wait_ms":60000}`
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", reservePath, len(body), body)
	sockets := make([]int, 0, n)
	t.Cleanup(func() {
		for _, socket := range sockets {
			syscall.Close(socket)
		}
	})
	address := &syscall.SockaddrInet4{Port: at.Port, Addr: [4]byte{127, 0, 0, 1}}
	before := queueAt(f.engine, "default").Stats()
	for range n {
		socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, socket)
		if err := syscall.Connect(socket, address); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Write(socket, request); err != nil {
			t.Fatal(err)
		}
	}
	f.waiters(before.ConsumersWaiting + uint64(n))
}

// inUse is the memory of the process in heap and stacks after a collection.
func inUse() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse + stats.StackInuse
}

// Consumers that wait cost so little that 10,000 of them stay under 250 MiB. The rest is net/http's: two stacks and
// three buffers per connection.
func TestIdleWaitersAreCheap(t *testing.T) {
	const n, most = 1000, 250 << 20 / 10_000
	if raceDetector {
		t.Skip("the race detector's memory would be counted")
	}
	f := newFixture(t)
	park(t, f, 10) // memory that only the first ones take is not counted
	before := inUse()
	park(t, f, n)
	if each := (int64(inUse()) - int64(before)) / n; each > most {
		t.Errorf("a waiting consumer costs %d bytes, want at most %d", each, most)
	} else {
		t.Logf("a waiting consumer costs %d bytes", each)
	}
	f.server.Stop()
}

// BenchmarkIdleWaiters reports the memory of one waiting consumer.
func BenchmarkIdleWaiters(b *testing.B) {
	f := newFixture(b)
	park(b, f, 10)
	before := inUse()
	park(b, f, b.N)
	b.ReportMetric(float64(int64(inUse())-int64(before))/float64(b.N), "B/waiter")
	f.server.Stop()
}
