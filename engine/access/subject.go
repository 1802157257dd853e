package access

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// SubjectOf is the subject of a certificate, from its DER, as RFC 2253 writes it. It has every attribute in its order. pkix.Name keeps only
// one of two attributes of the same type, so CN=evil,CN=worker would pass for CN=worker.
func SubjectOf(raw []byte) (string, error) {
	var names pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &names); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("access: the subject of a certificate cannot be read: %w", err)
	}
	return names.String(), nil
}

// attributes are the names that RFC 2253 and Go have for attributes; others are written as OID=#HEX.
var attributes = []struct {
	name string
	oid  asn1.ObjectIdentifier
}{
	{"CN", asn1.ObjectIdentifier{2, 5, 4, 3}}, {"SERIALNUMBER", asn1.ObjectIdentifier{2, 5, 4, 5}},
	{"C", asn1.ObjectIdentifier{2, 5, 4, 6}},
	{"L", asn1.ObjectIdentifier{2, 5, 4, 7}}, {"ST", asn1.ObjectIdentifier{2, 5, 4, 8}}, {"STREET", asn1.ObjectIdentifier{2, 5, 4, 9}},
	{"O", asn1.ObjectIdentifier{2, 5, 4, 10}}, {"OU", asn1.ObjectIdentifier{2, 5, 4, 11}},
	{"POSTALCODE", asn1.ObjectIdentifier{2, 5, 4, 17}},
}

// CheckSubject says why no certificate has this subject as SubjectOf writes it; nil: one can.
func CheckSubject(text string) error {
	var names pkix.RDNSequence
	var set pkix.RelativeDistinguishedNameSET
	for rest := text; ; {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return fmt.Errorf("has %q, which is not of the form NAME=VALUE", rest)
		}
		oid, err := attributeOf(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		value, next, err := attributeValue(after)
		if err != nil {
			return fmt.Errorf("has for %s %w", strings.TrimSpace(name), err)
		}
		set = append(set, pkix.AttributeTypeAndValue{Type: oid, Value: value})
		if !strings.HasPrefix(next, "+") {
			names = append(pkix.RDNSequence{set}, names...) // the text has the last of them first
			set = nil
		}
		if next == "" {
			break
		}
		rest = next[1:]
	}
	if written := names.String(); written != text {
		return fmt.Errorf("is written %q by the server, with which it is compared", written)
	}
	return nil
}

func attributeOf(name string) (oid asn1.ObjectIdentifier, err error) {
	for _, a := range attributes {
		if strings.EqualFold(a.name, name) {
			return a.oid, nil
		}
	}
	for part := range strings.SplitSeq(name, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("has an attribute %q; known are CN, SERIALNUMBER, C, L, ST, STREET, O, OU and POSTALCODE, "+
				"and any other as its OID=#HEX of its DER", name)
		}
		oid = append(oid, int(n))
	}
	return oid, nil
}

// attributeValue reads a value up to the comma or plus sign behind it.
func attributeValue(text string) (value any, rest string, err error) {
	var out []byte
	keep := 0 // this many bytes are no spaces that end the value
	for i := 0; ; i++ {
		switch {
		case i == len(text) || text[i] == ',' || text[i] == '+':
			trimmed := string(out[:max(keep, len(strings.TrimRight(string(out), " ")))])
			if der, is := strings.CutPrefix(strings.TrimLeft(text[:i], " "), "#"); is {
				raw, wrong := hex.DecodeString(der)
				if tail, bad := asn1.Unmarshal(raw, &value); wrong != nil || bad != nil || len(tail) > 0 {
					return nil, "", fmt.Errorf("%q, which is not # and the DER of a value in hexadecimal", text[:i])
				}
				return value, text[i:], nil
			}
			if trimmed == "" {
				return nil, "", fmt.Errorf("no value")
			}
			return trimmed, text[i:], nil
		case text[i] == '\\' && i+2 < len(text) && isHex(text[i+1:i+3]):
			b, _ := hex.DecodeString(text[i+1 : i+3])
			out = append(out, b...)
			i += 2
			keep = len(out)
		case text[i] == '\\' && i+1 < len(text):
			out = append(out, text[i+1])
			i++
			keep = len(out)
		case text[i] == ' ' && len(out) == 0: // before the value
		default:
			out = append(out, text[i])
		}
	}
}

func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil
}

// Use counts the use of a token while the server runs. It takes no lock.
type Use struct {
	minute atomic.Int64 // of the last use, since 1970
	asked  atomic.Int32 // requests that are being answered
	pace   Pace

	Formulas    Pace         // of formulas of Score blocks that were not known
	Bodies      atomic.Int64 // bytes that its large bodies hold while they are read and decoded
	Answers     atomic.Int64 // bytes that its large answers hold until they are sent
	Views       atomic.Int64 // bytes of the views that were made for it
	Reads       Turns
	Submissions Share[queue.SubmissionID]
	Values      Share[ValueAt]
	Consumers   Share[ConsumerAt]
}

// ValueAt is a value of a meta key in a queue, ConsumerAt an attached consumer of one.
type (
	ValueAt struct {
		Shard queue.ShardID
		queue.MetaEntry
	}
	ConsumerAt struct {
		Shard queue.ShardID
		Name  string
	}
)

// Note remembers that the token was used. It writes at most once a minute, so that cores that serve one token do not fight over the value.
func (u *Use) Note(now queue.Time) {
	if minute := int64(now) / 60_000; u.minute.Load() < minute {
		u.minute.Store(minute)
	}
}

// Last is the minute of the last use since the start; 0: none.
func (u *Use) Last() queue.Time { return queue.Time(u.minute.Load() * 60_000) }

// Limits bound the use of one token; 0: no bound.
type Limits struct {
	PerSecond int // requests, after a burst of two seconds' worth
	AtOnce    int // requests that are being answered, those that wait for work included

	Bodies      int64 // bytes that its large bodies hold while they are read and decoded
	Answers     int64 // bytes that its large answers hold until they are sent
	Views       int64 // bytes of the views that were made for it
	Submissions int   // open ones that it inserted
	Values      int   // of meta keys, that its open submissions brought
	Consumers   int   // attached ones
	Rules       int   // of one queue, that it set; those of admins are not bounded by it
	Bulks       int   // bulk operations of one queue that it started and that run; those of admins are not bounded by it
}

// Enter counts a request in, unless the token has as many as it may: then wait says when to come back. A request that entered must Leave.
// `at` is counted from any start, the same for all calls.
func (u *Use) Enter(at time.Duration, most Limits) (wait time.Duration, ok bool) {
	if n := u.asked.Add(1); most.AtOnce > 0 && int(n) > most.AtOnce {
		u.asked.Add(-1)
		return time.Second, false
	}
	if most.PerSecond > 0 {
		if wait = u.pace.Take(at, time.Second/time.Duration(most.PerSecond), 2*time.Second); wait > 0 {
			u.asked.Add(-1)
			return wait, false
		}
	}
	return 0, true
}

// Leave counts a request out.
func (u *Use) Leave() { u.asked.Add(-1) }

// Pace is a token bucket in one number: the moment up to which all takes are paid for. Moments are read from the monotonic clock, because a
// wall clock that is set back must not make a caller wait.
type Pace struct{ paid atomic.Int64 }

// Take takes one token. One comes in every period `every`, and at most a burst's worth is saved up. If there is none, Take returns how long
// to wait, and takes nothing.
func (p *Pace) Take(at, every, burst time.Duration) (wait time.Duration) {
	for {
		was := p.paid.Load()
		paid := time.Duration(was)
		if paid < at || paid > at+burst { // the latter only if the clock that was passed in is not monotonic, and went back
			paid = at
		}
		next := paid + every
		if ahead := next - at; ahead > burst {
			return ahead - burst
		}
		if p.paid.CompareAndSwap(was, int64(next)) {
			return 0
		}
	}
}

// Spent says whether all takes are paid for, so that the bucket is as good as a new one.
func (p *Pace) Spent(at time.Duration) bool { return p.paid.Load() <= int64(at) }
