package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

var (
	benchToken   = strings.Repeat("Ab3_-", 8) + "xyz" // 43 characters
	benchContent = strings.Repeat("0123456789", 10)
)

func sampleComplete(n int) []byte {
	r := CompleteRequest{}
	for range n {
		r.Items = append(r.Items, CompleteItem{Token: []byte(benchToken), Output: []byte("result 12345")})
	}
	return r.Append(nil)
}

func sampleExchange(n int) []byte {
	r := ExchangeRequest{HasReserve: true, Reserve: ReserveRequest{Max: n, Strategy: []byte(`"Random"`), Consumer: []byte("host-1"), WaitMS: 1000}}
	for range n {
		r.Complete = append(r.Complete, CompleteItem{Token: []byte(benchToken)})
	}
	return r.Append(nil)
}

func sampleAnswer(n int) *ReserveResponse {
	r := new(ReserveResponse)
	meta := AppendMetaEntry(AppendMetaEntry(nil, "company", api.Int(123)), "mode", api.Text("preview"))
	for i := range n {
		r.Reservations = append(r.Reservations, Reservation{Token: []byte(benchToken), Submission: 1 << 56, Index: uint32(i), Attempt: 1,
			Deadline: 1_800_000_000_000, ReadyAt: InsertedAt(1 << 56), Content: []byte(benchContent), Meta: meta})
	}
	return r
}

func BenchmarkDecodeComplete100(b *testing.B) {
	data := sampleComplete(100)
	benchDecode(b, data, new(CompleteRequest), func() any { return new(api.CompleteRequest) })
}

func BenchmarkDecodeExchange100(b *testing.B) {
	data := sampleExchange(100)
	benchDecode(b, data, new(ExchangeRequest), func() any { return new(api.ExchangeRequest) })
}

func BenchmarkDecodeInsertInline1000(b *testing.B) {
	n := api.NewSubmission{Meta: api.Meta{"company": api.Int(5)}}
	for range 1000 {
		n.Chunks.Inline = append(n.Chunks.Inline, api.Bytes(benchContent))
	}
	data := AppendInsert(nil, &n)
	benchDecode(b, data, new(InsertRequest), func() any { return new(api.NewSubmission) })
}

func BenchmarkDecodeReservations100(b *testing.B) {
	data := sampleAnswer(100).Append(nil)
	benchDecode(b, data, new(ReserveResponse), func() any { return new(api.ReserveResponse) })
}

// benchDecode runs the hand-written reader and encoding/json on the same document.
func benchDecode(b *testing.B, data []byte, hand interface{ Decode([]byte) error }, fresh func() any) {
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := hand.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding_json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := json.Unmarshal(data, fresh()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncodeReservations100(b *testing.B) {
	answer := sampleAnswer(100)
	data := answer.Append(nil)
	b.Run("wire", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			data = answer.Append(data[:0])
		}
	})
	var standard api.ReserveResponse
	if err := json.Unmarshal(data, &standard); err != nil {
		b.Fatal(err)
	}
	b.Run("encoding_json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := json.Marshal(&standard); err != nil {
				b.Fatal(err)
			}
		}
	})
}
