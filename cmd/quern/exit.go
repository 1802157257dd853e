package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/sdk/client"
)

// The exit codes. Scripts may rely on them.
const (
	exitOK          = 0
	exitFailure     = 1   // something went wrong that has no code of its own
	exitUsage       = 2   // the command line is wrong; nothing was done
	exitUnreachable = 3   // no server answered, or it is not ready
	exitNotFound    = 4   // no such submission, queue or path
	exitRefused     = 5   // the server refused the request as wrong
	exitNotDone     = 6   // a submission that was waited for did not complete
	exitEmpty       = 7   // reserve: nothing to hand out now
	exitLost        = 8   // complete, fail, extend, release: the reservation is not ours any more
	exitDamaged     = 9   // check, repair: something is damaged, missing or lost
	exitInterrupted = 130 // a signal ended the command before it was done
)

const exitCodesHelp = `Exit codes:
  0  done                                     5  the server refused the request
  1  failed; work: all commands failed         6  wait, watch, submit: a submission did not complete
  2  wrong command line; nothing was done     7  reserve: nothing to hand out now
  3  no server answered                       8  complete, fail, extend, release: the reservation is lost
  4  not found                                9  check, repair: something is damaged, missing or lost
                                            130  interrupted by a signal`

// usageError is a command line, or a configuration, that cannot be what was meant.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// endedError is an exit code with a text about it. With an empty text it is silent.
type endedError struct {
	code int
	text string
}

func (e endedError) Error() string { return e.text }

// partlyError is the failure of one argument of several that a command does the same with.
type partlyError struct {
	error
	done   []string
	failed string
	left   []string
}

func (e partlyError) Unwrap() error { return e.error }

// reportPartly prints the failure, and which arguments are done. The exit code of a wrong command line says that nothing was done, so it
// must not be that one when something was.
func (a *app) reportPartly(e partlyError) int {
	code := a.report(e.error)
	if len(e.done)+len(e.left) == 0 || len(e.done) == 0 && code == exitUnreachable {
		return code
	}
	say(a.err, "This was about %s.", e.failed)
	if len(e.done) > 0 {
		say(a.err, " Done before: %s.", someOf(e.done))
	}
	if len(e.left) > 0 {
		say(a.err, " Not tried: %s.", someOf(e.left))
	}
	say(a.err, "\n")
	if code == exitUsage && len(e.done) > 0 {
		return exitFailure
	}
	return code
}

// someOf lists the first few.
func someOf(list []string) string {
	const most = 10
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// report prints err and returns its exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	var partly partlyError
	if errors.As(err, &partly) {
		return a.reportPartly(partly)
	}
	var (
		usage   usageError
		ended   endedError
		signal  signalled
		problem *client.Error
	)
	switch {
	case errors.As(err, &usage):
		say(a.err, "quern: %s\nRun 'quern help' for the commands and 'quern COMMAND --help' for their flags.\n", said(err))
		return exitUsage
	case errors.As(err, &ended):
		if ended.text != "" {
			say(a.err, "quern: %s\n", said(err))
		}
		return ended.code
	case errors.As(err, &signal) || errors.Is(err, context.Canceled):
		say(a.err, "quern: %s\n", said(err))
		return exitInterrupted
	case errors.As(err, &problem) && problem.Code == "":
		a.printForeign(problem.Problem)
		return exitUnreachable
	case errors.As(err, &problem):
		a.printProblem(problem.Problem)
		return problemCode(problem.Problem)
	case a.asked && distrusted(err):
		say(a.err, "quern: the server at %s is not trusted: %s\nSay whom to trust with --server-ca FILE or "+
			"--server-fingerprint SHA256; a server with --tls-self-signed prints both when it starts.\n", a.serverURL(), said(err))
		return exitUnreachable
	case a.asked && unreachable(err):
		say(a.err, "quern: no server answers at %s: %s\nStart one with 'quern serve' or 'quern dev', or name "+
			"another with --server or QUERN_SERVER.\n", a.serverURL(), said(err))
		return exitUnreachable
	}
	say(a.err, "quern: %s\n", said(err))
	if errors.Is(err, syscall.ENOSPC) || sqlitedb.ClassOf(err) == sqlitedb.Full {
		say(a.err, "Free some space on that disk, and run the command again.\n")
	}
	return exitFailure
}

// printForeign prints an answer that is not one of a Quern server's; of a page the first line says nothing.
func (a *app) printForeign(p api.Problem) {
	text := cmp.Or(p.Title, fmt.Sprintf("HTTP status %d", p.Status))
	if p.Detail != "" && !strings.HasPrefix(p.Detail, "<") {
		text += ", " + p.Detail
	}
	say(a.err, "quern: %s does not answer as a Quern server does: %s\nCheck --server and QUERN_SERVER, and any proxy between "+
		"here and the server.\n", a.serverURL(), text)
}

// said is the text of an error without the name that the client puts before it, since this program's own is the same.
func said(err error) lines {
	return lines(strings.TrimPrefix(err.Error(), "quern: "))
}

// distrusted says whether a server over TLS could not show that it is the one that was meant.
func distrusted(err error) bool {
	var unverified *tls.CertificateVerificationError
	return errors.As(err, &unverified) || errors.Is(err, errFingerprint)
}

// unreachable says whether err came of the network: no connection, one that broke, or no answer in time.
func unreachable(err error) bool {
	var (
		network *net.OpError
		call    *url.Error
	)
	return errors.As(err, &network) || errors.As(err, &call) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// printProblem prints what the server has to say: title, detail, what is wrong where, and the id under which its log
// has more.
func (a *app) printProblem(p api.Problem) {
	say(a.err, "quern: %s\n", p.Title)
	if p.Detail != "" && p.Detail != p.Title && p.Detail != p.Title+"." {
		say(a.err, "  %s\n", inCommands.Replace(p.Detail))
	}
	for _, e := range p.Errors {
		say(a.err, "  %s %s\n", cmp.Or(inCommands.Replace(e.Pointer), "the request"), inCommands.Replace(e.Detail))
	}
	if p.Status == http.StatusUnauthorized && a.tokenFrom != "" {
		say(a.err, "  the token is that of %s\n", a.tokenFrom)
	}
	if p.RequestID != "" {
		say(a.err, "  request %s\n", p.RequestID)
	}
}

func problemCode(p api.Problem) int {
	switch {
	case p.Status == http.StatusNotFound:
		return exitNotFound
	case p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests:
		return exitUnreachable
	case p.Status >= 400 && p.Status < 500:
		return exitRefused
	}
	return exitFailure
}

// inCommands says in commands what the server advises in the words of its API: it does not know what asks it.
var inCommands = strings.NewReplacer(
	"PUT /v1/queues/{queue}", "'quern queue put NAME'",
	"GET /v1/queues/{queue} says", "'quern queue get NAME' says",
	"PUT makes it; GET /v1/queues/{queue}/strategies", "'quern strategy put' makes it; 'quern strategy list'",
	"PUT makes it; GET /v1/queues/{queue}/schedules", "'quern schedules set' makes it; 'quern schedules list'",
	"GET /v1/queues/{queue}/strategies", "'quern strategy list'",
	"PUT creates one, and", "'quern groups set' creates one, and",
	"GET /v1/queues/{queue}/shards lists", "'quern shards' lists",
	"GET /v1/initial-rules lists", "'quern rules list --new-queues' lists",
	"Lift one with DELETE /v1/initial-rules/{id} first", "Lift one with 'quern rules lift --all-queues' first",
	"send it as Authorization: Bearer qn_...", "name a file that has it with --token-file, or set QUERN_TOKEN",
	"The Authorization header is not of the form Bearer qn_...: send it once, with the token and nothing else.",
	"This is not an access token, which begins with qn_, as 'quern token new' printed it.",
	"without ?verbose", "without --checks",
	"/readyz?verbose say", "'quern health --checks' say",
	"/header/Idempotency-Key", "--idempotency-key",
	"Idempotency-Key", "idempotency key",
	"/header/If-None-Match", "--create",
	"If-Match", "--if-match",
	"use DELETE to", "use 'quern keys unset' to",
	"/docs/api lists all paths.", "It may be of an older version than this command, or --server has a path that is not its own.",
)
