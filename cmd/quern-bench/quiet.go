package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/cluster/pg/pgtest"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/wire"
)

// quietNames are figures of the processor time of a server with little to do, beside PostgreSQL with a table of submissions. Both get
// the same load: one submission is inserted, then a worker completes the one before and takes this one, each durable. Both are
// measured in turns, and all processes of both count.
var quietNames = []string{
	"quiet_postgres_idle", "quiet_idle", "quiet_postgres_50", "quiet_50", "quiet_postgres_300", "quiet_300",
	"quiet_postgres_50_p50", "quiet_50_p50", "quiet_postgres_300_p50", "quiet_300_p50",
}

var quietRates = []int{50, 300} // submissions per second

const (
	quietIdle   = 10 // turns as of a rate: so long is one without submissions, as the kernel counts in steps of 10 ms
	quietTurn   = 5
	quietRounds = 5
)

// quietServer is one of the two.
type quietServer struct {
	process int                     // all of its others are children of it
	insert  func() error            // one submission
	work    func() error            // completes the submission before, if there is one, and takes the next
	close   func()                  // ends the connections and the server
	cpu     map[int][]float64       // by rate: milliseconds of each turn for 1,000 submissions; at rate 0, for a second
	took    map[int][]time.Duration // by rate: from the beginning of an insert to the answer that has the submission
}

func quietSuite(ctx context.Context, r *run) error {
	if err := os.Chmod(r.dir, 0o711); err != nil { // PostgreSQL runs as another user than root
		return err
	}
	postgres, err := r.quietPostgres(ctx)
	if err != nil {
		return err
	}
	defer postgres.close()
	ours, err := r.quietQuern(ctx)
	if err != nil {
		return err
	}
	defer ours.close()
	sides := []*quietServer{postgres, ours}
	for _, s := range sides {
		s.cpu, s.took = map[int][]float64{}, map[int][]time.Duration{}
		for range 500 { // caches, connections and plans are warm
			if err := errors.Join(s.insert(), s.work()); err != nil {
				return err
			}
		}
	}
	for round := range quietRounds {
		for _, rate := range append([]int{0}, quietRates...) {
			r.progress(fmt.Sprintf("round %d of %d: %d jobs per second", round+1, quietRounds, rate))
			for _, s := range sides {
				if err := s.turn(ctx, rate, r.turn); err != nil {
					return err
				}
			}
			slices.Reverse(sides)
		}
	}
	r.addQuiet("quiet_postgres_idle", middle(postgres.cpu[0]), "ms/s", "")
	r.addQuiet("quiet_idle", middle(ours.cpu[0]), "ms/s", "quiet_postgres_idle")
	for _, rate := range quietRates {
		theirs, mine := fmt.Sprint("quiet_postgres_", rate), fmt.Sprint("quiet_", rate)
		r.addQuiet(theirs, middle(postgres.cpu[rate]), "ms/1000 jobs", "")
		r.addQuiet(mine, middle(ours.cpu[rate]), "ms/1000 jobs", theirs)
		r.addQuiet(theirs+"_p50", micro(middle(postgres.took[rate])), "us", "")
		r.addQuiet(mine+"_p50", micro(middle(ours.took[rate])), "us", theirs+"_p50")
	}
	return nil
}

func (r *run) addQuiet(name string, value float64, unit, baseline string) {
	r.add(name, value, unit)
	r.over(baseline)
}

// turn measures one turn at a rate. A submission that is late begins at once, and the next one when it would have.
func (s *quietServer) turn(ctx context.Context, rate int, turn time.Duration) error {
	before, err := cpuOf(s.process)
	if err != nil {
		return err
	}
	lasting, submissions := quietIdle*turn, 0
	if rate > 0 {
		lasting = quietTurn * turn
	}
	for began := time.Now(); ; submissions++ {
		next := began.Add(lasting)
		if due := began.Add(time.Duration(submissions) * time.Second / time.Duration(max(rate, 1))); rate > 0 && due.Before(next) {
			next = due
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next)):
		}
		if rate == 0 || time.Since(began) >= lasting {
			break
		}
		started := time.Now()
		if err := errors.Join(s.insert(), s.work()); err != nil {
			return err
		}
		s.took[rate] = append(s.took[rate], time.Since(started))
	}
	after, err := cpuOf(s.process)
	if err != nil {
		return err
	}
	per := lasting.Seconds()
	if rate > 0 {
		per = float64(submissions) / 1000
	}
	s.cpu[rate] = append(s.cpu[rate], milli(after-before)/per)
	return nil
}

// quietQuern is a server with a connection for inserts and one for the worker.
func (r *run) quietQuern(ctx context.Context) (*quietServer, error) {
	s, err := r.startServer(ctx, filepath.Join(r.dir, "quern"), "--auth=false")
	if err != nil {
		return nil, err
	}
	in, err := s.dial()
	if err != nil {
		s.stop()
		return nil, err
	}
	out, err := s.dial()
	if err != nil {
		in.close()
		s.stop()
		return nil, err
	}
	submission := fmt.Appendf(nil, `{"meta":{"company":7},"chunks":{"inline":[%q]}}`, singleContent)
	request := wire.ExchangeRequest{HasReserve: true, Reserve: wire.ReserveRequest{Max: 1}}
	var got wire.ExchangeResponse
	var body, token []byte
	return &quietServer{
		process: s.process.Process.Pid,
		insert:  func() error { _, err := in.post(pathSubmissions, submission); return err },
		work: func() error {
			body = request.Append(body[:0])
			answer, err := out.post(pathExchange, body)
			if err == nil {
				err = got.Decode(answer)
			}
			switch {
			case err != nil:
				return err
			case len(got.Reservations) != 1:
				return fmt.Errorf("the worker got %d jobs, want 1", len(got.Reservations))
			case len(got.Complete) > 0 && got.Complete[0].Status != api.StatusOK:
				return fmt.Errorf("a completion came back %s", got.Complete[0].Status)
			}
			token = append(token[:0], got.Reservations[0].Token...)
			request.Complete = append(request.Complete[:0], wire.CompleteItem{Token: token})
			return nil
		},
		close: func() { in.close(); out.close(); s.stop() },
	}, nil
}

// quietPostgres is PostgreSQL with two such connections.
func (r *run) quietPostgres(ctx context.Context) (*quietServer, error) {
	server, err := pgtest.StartIn(r.dir, "listen_addresses=127.0.0.1") // clients of both come over TCP
	if err != nil {
		return nil, fmt.Errorf("the suite needs PostgreSQL: %w", err)
	}
	table, err := pgtest.NewTable(ctx)
	if err != nil {
		server.Stop()
		return nil, err
	}
	return &quietServer{
		process: server.Pid(),
		insert:  func() error { return table.Insert(ctx, 7, singleContent) },
		work:    func() error { return table.Work(ctx) },
		close: func() {
			table.Close()
			server.Stop()
		},
	}, nil
}

// cpuOf is the processor time that a process and its children have used, with those that ended.
func cpuOf(process int) (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	const tick = 10 * time.Millisecond // on every Linux
	sum, found := int64(0), false
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the name before has spaces
		if pid != process && fields[1] != strconv.Itoa(process) {
			continue
		}
		counted := fields[11:13]
		if pid == process {
			counted, found = fields[11:15], true
		}
		for _, ticks := range counted {
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	if !found {
		return 0, fmt.Errorf("there is no process %d", process)
	}
	return time.Duration(sum) * tick, nil
}
