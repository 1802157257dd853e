package reserver

import (
	"encoding/binary"
	"testing"

	"github.com/dchest/siphash"
	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

func drawToken(t *rapid.T) queue.Token {
	return queue.Token{
		Submission: queue.SubmissionID(rapid.Uint64Max(1<<63-1).Draw(t, "submission")),
		Index:      rapid.Uint32().Draw(t, "index"), Epoch: rapid.Uint32().Draw(t, "epoch"),
		Sequence: rapid.Uint64Max(1<<48-1).Draw(t, "sequence"), Slot: rapid.Uint32().Draw(t, "slot"),
	}
}

func drawKey(t *rapid.T) Key {
	return Key{rapid.Uint64().Draw(t, "k0"), rapid.Uint64().Draw(t, "k1")}
}

// A token is recognised by the key that made it, through its text form; with any bit changed but the slot hint's, or under
// another key, it is not. (A forgery passes by luck once in 2^48.)
func TestTokenMAC(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, token := drawKey(t), drawToken(t)
		token.MAC = key.MAC(&token)
		if token.MAC > macMask {
			t.Fatalf("MAC = %x; want 48 bits", token.MAC)
		}
		parsed, ok := queue.ParseToken([]byte(token.String()))
		if !ok || parsed != token || !key.Valid(&parsed) {
			t.Fatalf("key %x does not recognise its token %+v after a round trip: %+v", key, token, parsed)
		}
		for name, change := range map[string]func(*queue.Token){
			"submission": func(f *queue.Token) { f.Submission ^= 1 << rapid.IntRange(0, 62).Draw(t, "bit") },
			"index":      func(f *queue.Token) { f.Index ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit") },
			"epoch":      func(f *queue.Token) { f.Epoch ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit") },
			"sequence":   func(f *queue.Token) { f.Sequence ^= 1 << rapid.IntRange(0, 47).Draw(t, "bit") },
			"mac":        func(f *queue.Token) { f.MAC ^= 1 << rapid.IntRange(0, 47).Draw(t, "bit") },
		} {
			forged := token
			change(&forged)
			if key.Valid(&forged) {
				t.Fatalf("key %x takes the token %+v with another %s: %+v", key, token, name, forged)
			}
		}
		hinted := token
		hinted.Slot++
		if !key.Valid(&hinted) {
			t.Fatalf("the slot is a hint, but with another one the token is refused: %+v", hinted)
		}
		if other := (Key{key.K0, key.K1 ^ 1}); other.Valid(&token) {
			t.Fatalf("another key takes the token %+v", token)
		}
	})
}

// Tokens outlive the server, so the MAC of a given token must never change.
func TestTokenMACStaysTheSame(t *testing.T) {
	t.Parallel()
	key := KeyFrom([16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	if want := (Key{0x0706050403020100, 0x0f0e0d0c0b0a0908}); key != want {
		t.Fatalf("KeyFrom(0..15) = %x; want %x", key, want)
	}
	token := queue.Token{Submission: 0x0102030405060708, Index: 9, Epoch: 10, Sequence: 11, Slot: 12}
	const golden = 0xd5d9e54b35ab
	if got := key.MAC(&token); got != golden {
		t.Errorf("MAC(%+v) = %#x; want %#x", token, got, golden)
	}
	var b [24]byte // what the MAC is over, spelled out
	binary.LittleEndian.PutUint64(b[0:], 0x0102030405060708)
	b[8], b[12], b[16] = 9, 10, 11
	if want := siphash.Hash(key.K0, key.K1, b[:]) & (1<<48 - 1); want != golden {
		t.Errorf("SipHash over %x, cut to 48 bits = %#x; want %#x", b, want, golden)
	}
}
