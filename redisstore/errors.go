package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redisurl"
)

// Errors that callers tell apart with [errors.Is]. What is neither was refused by a server, and took nothing. A server
// whose memory is full is headgate.ErrFull.
var (
	// ErrAway is returned when the server was not asked, because there is no connection to it. Nothing was taken.
	ErrAway = errors.New("server is away")
	// ErrUnanswered is returned when the server was asked and did not answer in time, or the connection broke. What was
	// asked for may have been taken. It is never asked for again.
	ErrUnanswered = errors.New("server did not answer")
)

// A ServerError says what is wrong with a server, or between it and us, and what to do about it.
type ServerError struct {
	// Server is its address, or what its sentinels call it.
	Server string
	// What is wrong.
	What string
	// Cure says what to do, empty where there is nothing but to wait.
	Cure string
	// Err is the cause: the server's own words, or the network's.
	Err error

	class   error // ErrAway, ErrUnanswered, headgate.ErrFull or nil
	lasting bool  // waiting does not help
	ofKey   bool  // it is about one key, and the server works
}

// Refused reports whether the server works and only this key cannot be decided, as there is something else under it. It is no
// reason to leave the server alone.
func (e *ServerError) Refused() bool { return e.ofKey }

func (e *ServerError) Error() string {
	s := "redisstore: " + e.Server + ": " + e.What
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	if e.Cure != "" {
		s += ": " + e.Cure
	}
	return s
}

// Unwrap returns the cause, and ErrAway, ErrUnanswered or headgate.ErrFull if it is one.
func (e *ServerError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.class, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// sameTrouble reports whether two errors say the same. The network's own words differ each time, in the port that was ours.
func sameTrouble(a, b error) bool {
	var x, y *ServerError
	if errors.As(a, &x) && errors.As(b, &y) {
		return x.Server == y.Server && x.What == y.What && x.Cure == y.Cure
	}
	return a.Error() == b.Error()
}

// lasting reports whether an error is one that waiting does not cure.
func lasting(err error) bool {
	var e *ServerError
	return errors.As(err, &e) && e.lasting
}

// away returns the error of a call that was not sent, because of what an earlier one met.
func away(server string, why error) *ServerError {
	var e *ServerError
	if errors.As(why, &e) {
		again := *e
		again.class = ErrAway
		return &again
	}
	what := "is away"
	if errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		what = "was not asked, as there was no time left"
	}
	return &ServerError{Server: server, What: what, Err: why, class: ErrAway}
}

// An answer is what an error reply of Redis means.
type answer struct {
	what, cure string
	class      error
	lasting    bool
	ofKey      bool
}

const (
	cureACL = "grant its user what the store needs, as in ACL SETUSER name ~hg* +@read +@write +@scripting +@connection +info +time +role +cluster, " +
		"with your prefix for hg"
	curePassword         = "give the right ones in the URL, as in redis://user:password@host or redis://:password@host"
	cureSentinelPassword = "give the sentinels' own after the ? of the URL, as sentinel_password and, if they have users, sentinel_user"
	cureKey              = "delete the key, or choose a prefix that nobody else uses"
	cureCluster          = "see CLUSTER INFO; a cluster-require-full-coverage of no keeps the other keys served"
	curePrimary          = "give the primary's address, or redis-sentinel:// or redis-cluster://, which follow it"
)

// answers are the error replies that need words of ours, by how they begin. The first that fits counts.
var answers = []struct {
	begins string
	answer
}{
	{"NOAUTH", answer{what: "wants a password", cure: curePassword, lasting: true}},
	{"WRONGPASS", answer{what: "does not accept user and password", cure: curePassword, lasting: true}},
	{"AUTH", answer{what: "does not accept user and password", cure: curePassword, lasting: true}},
	{"invalid password", answer{what: "does not accept user and password", cure: curePassword, lasting: true}},
	{"NOPERM", answer{what: "does not let its user do that", cure: cureACL, lasting: true}},
	{"The user executing the script", answer{what: "does not let its user do that", cure: cureACL, lasting: true}},
	{"READONLY", answer{what: "is a replica, which takes no writes", cure: curePrimary, lasting: true}},
	{"OOM", answer{
		what: "is out of memory", class: headgate.ErrFull,
		cure: "raise its maxmemory, or move what else is kept there",
	}},
	{"LOADING", answer{what: "is still loading its data"}},
	{"MASTERDOWN", answer{what: "is a replica that has lost its primary", cure: curePrimary}},
	{"MISCONF", answer{
		what: "takes no writes because it cannot save to disk",
		cure: "free its disk, or CONFIG SET stop-writes-on-bgsave-error no",
	}},
	{"NOREPLICAS", answer{
		what: "takes no writes because too few replicas follow it",
		cure: "bring them back, or lower its min-replicas-to-write",
	}},
	{"CLUSTERDOWN", answer{what: "is of a cluster that does not serve all keys now", cure: cureCluster}},
	{"TRYAGAIN", answer{what: "is handing keys over to another server"}},
	{"MOVED", answer{what: "sends us elsewhere, and we are sent back", cure: "see CLUSTER NODES on all servers: they disagree"}},
	{"ASK", answer{what: "sends us elsewhere, and we are sent back", cure: "see CLUSTER NODES on all servers: they disagree"}},
	{"BUSY", answer{what: "is busy with a script of somebody", cure: "end it with SCRIPT KILL"}},
	{"NOSCRIPT", answer{
		what: "forgot a script that it was just sent",
		cure: "give the server itself rather than a proxy that spreads calls, and find who runs SCRIPT FLUSH",
	}},
	{"WRONGTYPE", answer{what: "has values of somebody else under our keys", cure: cureKey, ofKey: true}},
	{"HEADGATE", answer{what: "has values of somebody else under our keys", cure: cureKey, ofKey: true}},
	{"CROSSSLOT", answer{what: "is of a cluster, though the URL does not say so", cure: "want redis-cluster://", lasting: true}},
	{"This instance has cluster support disabled", answer{
		what: "is not of a cluster", cure: "want redis:// for it, or the address of a server in cluster mode", lasting: true,
	}},
	{"max number of clients", answer{what: "has no room for another connection", cure: "raise its maxclients"}},
	{"DB index", answer{what: "has no database of that number", cure: "give a smaller one in the URL, or raise its setting databases", lasting: true}},
	{"SELECT is not allowed", answer{what: "is of a cluster, which has only database 0", cure: "want redis-cluster:// and no database", lasting: true}},
	{"unknown command", answer{
		what: "does not know a command that the store needs",
		cure: "want Redis 6.0 or later, or Valkey, with Lua; a proxy must pass EVALSHA", lasting: true,
	}},
	{"No such master", answer{
		what: "is a sentinel that knows no such primary", cure: "see SENTINEL MASTERS for the name to put after the hosts", lasting: true,
	}},
}

// explain returns what an error from a call to a server means, in words that say what to do. Nil stays nil, and what was
// explained already stays as it is.
func (c *connection) explain(err error, server string) error {
	err = explain(err, server)
	var e *ServerError
	if c.endpoint.Kind != redisurl.Cluster && errors.As(err, &e) && e.Err != nil && strings.HasPrefix(e.Err.Error(), "MOVED ") {
		e.What, e.Cure = "is of a cluster, though the URL does not say so", "want redis-cluster://"
	}
	return err
}

func explain(err error, server string) error {
	var known *ServerError
	if err == nil || errors.As(err, &known) || errors.Is(err, headgate.ErrClosed) {
		return err
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return headgate.ErrClosed
	}
	if server == "" {
		server = "Redis"
	}
	var reply *rueidis.RedisError
	if errors.As(err, &reply) {
		if reply.IsNil() {
			return &ServerError{Server: server, What: "answers nothing where something is due", Err: err, Cure: "find out what stands between it and us"}
		}
		return explainReply(reply, server)
	}
	return explainNetwork(err, server)
}

func explainReply(reply *rueidis.RedisError, server string) *ServerError {
	text := replyText(reply)
	for _, a := range answers {
		if strings.HasPrefix(text, a.begins) {
			return &ServerError{Server: server, What: a.what, Cure: a.cure, Err: reply, class: a.class, lasting: a.lasting, ofKey: a.ofKey}
		}
	}
	if unreadable(reply) {
		return &ServerError{Server: server, What: "has values of somebody else under our keys", Cure: cureKey, Err: reply, ofKey: true}
	}
	return &ServerError{Server: server, What: "refuses", Err: reply}
}

// unreadable reports whether a script stumbled over what it found under its keys. It sees most of what is not ours by itself,
// but does not look at every entry of a list.
func unreadable(reply error) bool {
	text := reply.Error()
	return strings.Contains(text, "user_script:") && (strings.Contains(text, "bad argument #") || strings.Contains(text, "attempt to "))
}

// replyText returns a reply without ERR, which the library leaves out as a rule, and without what Redis 6 says before an
// error that a script has met.
func replyText(err error) string {
	text := strings.TrimPrefix(err.Error(), "ERR ")
	if strings.HasPrefix(text, "Error running script") {
		text = strings.TrimPrefix(text[strings.LastIndex(text, ": ")+1:], " ")
		text = strings.TrimPrefix(text, "-")
	}
	return text
}

// explainNetwork explains what is not a server's reply. It may be that of a call that was sent.
func explainNetwork(err error, server string) *ServerError {
	e := &ServerError{Server: server, Err: err, class: ErrUnanswered}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		e.What = "did not answer in time"
	case errors.Is(err, context.Canceled):
		e.What = "had not answered when the caller went"
	case rueidis.IsParseErr(err):
		e.What, e.Cure = "gave an answer of a kind that does not belong there", "is it Redis, and of a version we know?"
	default:
		e.What = "broke the connection"
	}
	return e
}

// explainDial explains why there is no connection to a server.
func explainDial(err error, server string, usesTLS bool) error {
	e := &ServerError{Server: server, Err: err, class: ErrAway}
	var (
		reply    *rueidis.RedisError
		host     x509.HostnameError
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		remote   *net.OpError
		greeting *handshakeError
		record   tls.RecordHeaderError
		lookup   *net.DNSError
		known    *ServerError
		timedOut = func() bool {
			var t net.Error
			return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
		}
	)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &reply):
		e := explainReply(reply, server)
		if e.class == nil {
			e.class = ErrAway
		}
		return e
	case errors.As(err, &host):
		e.What, e.lasting = "has a TLS certificate for another name", true
		e.Cure = "give the name that is in it as tls_server_name, or connect by that name"
	case errors.As(err, &unknown):
		e.What, e.lasting = "has a TLS certificate of an authority we don't know", true
		e.Cure = "give the authority's certificate as tls_ca_file"
	case errors.As(err, &invalid), errors.As(err, &verify):
		e.What, e.lasting = "has a TLS certificate that is not good", true
		e.Cure = "renew it"
	case errors.As(err, &remote) && remote.Op == "remote error":
		e.What, e.lasting = "refuses our TLS", true
		e.Cure = "if it asks clients for a certificate, give one as tls_cert_file and tls_key_file"
	case errors.As(err, &record):
		e.What, e.lasting = "does not speak TLS on this port", true
		e.Cure = "want redis:// rather than rediss://, or the port for TLS"
	case errors.As(err, &lookup):
		e.What, e.Cure = "has a name that is not found", "check the host in the URL"
	case errors.Is(err, os.ErrNotExist):
		e.What, e.Cure = "is not there: nobody listens", "start it, or check the path in the URL and the server's unixsocket"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.What, e.Cure = "is not there: nobody listens", "start it, or check host and port in the URL"
	case errors.Is(err, os.ErrPermission):
		e.What, e.Cure = "may not be reached by this user", "change the permissions of its socket (unixsocketperm)"
	case timedOut() && errors.As(err, &greeting):
		e.What = "does not answer our TLS"
		e.Cure = "if it does not speak TLS on this port, want redis:// rather than rediss://, or the port for TLS; else see whether it hangs"
	case timedOut():
		e.What, e.Cure = "cannot be reached in time", "see whether it hangs, and whether a firewall is between"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.What, e.Cure = "hangs up on us", "if it wants TLS, want rediss:// or tls=true; if it has no room for another connection, raise its maxclients"
		if usesTLS {
			e.Cure = "if it asks clients for a certificate, give one as tls_cert_file and tls_key_file; if it does not speak TLS, want redis://"
		}
	case strings.HasPrefix(err.Error(), notRESP):
		e.What, e.Cure = "speaks something else than Redis does", "check the port in the URL, and whether something stands between"
	default:
		e.What = "cannot be reached"
	}
	return e
}

// notRESP begins what the client library says of an answer that is none of Redis. It has no type for it.
const notRESP = "received unknown message type"

// A handshakeError is that of a connection that was made, and on which TLS did not come about.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// badAnswer is the error of an answer that has not the form it should have.
func badAnswer(server, command string, err error) error {
	return &ServerError{
		Server: server, What: fmt.Sprintf("gave an answer to %s that we don't understand", command), Err: err,
		Cure: "is it Redis or Valkey, and nothing between that changes answers?",
	}
}
