package topology

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// Fixes that several errors share.
const (
	FixACL = "grant its user what the store needs: ACL SETUSER name ~hg* +@read +@write +@scripting +@connection " +
		"+info +time +role +cluster, with your prefix instead of hg"
	FixForeignKey = "delete the key, or choose a prefix that nothing else uses"
	FixCluster    = "see CLUSTER INFO; with cluster-require-full-coverage no, the other keys stay served"
	FixPrimary    = "use the primary's address, or redis-sentinel:// or redis-cluster://, which follow it"

	fixPassword         = "put the right ones into the URL: redis://user:password@host or redis://:password@host"
	fixSentinelPassword = "append the sentinels' own as ?sentinel_password= and, if they have users, sentinel_user="
	fixDisagree         = "see CLUSTER NODES on all servers: they disagree"
)

// ProblemForeignKey is the ServerError.Problem if another program has written a value under a key of the store.
const ProblemForeignKey = "contains a value that another program has written, at a key of the store"

const (
	problemPassword  = "does not accept user and password"
	problemACL       = "does not let its user do that"
	problemClustered = "is part of a cluster, although the URL does not say so"
	problemRedirects = "redirects in circles"
)

// errorReplies explains error replies by their prefix. The first match counts.
var errorReplies = []struct {
	prefix string
	ServerError
}{
	{"NOAUTH", ServerError{Problem: "wants a password", Fix: fixPassword, Permanent: true}},
	{"WRONGPASS", ServerError{Problem: problemPassword, Fix: fixPassword, Permanent: true}},
	{"AUTH", ServerError{Problem: problemPassword, Fix: fixPassword, Permanent: true}},
	{"invalid password", ServerError{Problem: problemPassword, Fix: fixPassword, Permanent: true}},
	{"NOPERM", ServerError{Problem: problemACL, Fix: FixACL, Permanent: true}},
	{"The user executing the script", ServerError{Problem: problemACL, Fix: FixACL, Permanent: true}},
	{"READONLY", ServerError{Problem: "is a replica, which takes no writes", Fix: FixPrimary, Permanent: true}},
	{"OOM", ServerError{
		Problem: "is out of memory", class: headgate.ErrFull, Fix: "raise its maxmemory, or move other data elsewhere",
	}},
	{"LOADING", ServerError{Problem: "is still loading its data"}},
	{"MASTERDOWN", ServerError{Problem: "is a replica that has lost its primary", Fix: FixPrimary}},
	{"MISCONF", ServerError{
		Problem: "takes no writes because it cannot save to disk",
		Fix:     "free its disk, or CONFIG SET stop-writes-on-bgsave-error no",
	}},
	{"NOREPLICAS", ServerError{
		Problem: "takes no writes because it has too few replicas", Fix: "start them, or lower its min-replicas-to-write",
	}},
	{"CLUSTERDOWN", ServerError{Problem: "is part of a cluster that does not serve all keys now", Fix: FixCluster}},
	{"TRYAGAIN", ServerError{Problem: "is moving keys to another server"}},
	{"MOVED", ServerError{Problem: problemRedirects, Fix: fixDisagree}},
	{"ASK", ServerError{Problem: problemRedirects, Fix: fixDisagree}},
	{"BUSY", ServerError{Problem: "is busy with a script of another program", Fix: "end it with SCRIPT KILL"}},
	{"NOSCRIPT", ServerError{
		Problem: "forgot a script that it just received",
		Fix:     "connect to the server itself instead of a proxy that spreads calls, and find out who runs SCRIPT FLUSH",
	}},
	{"WRONGTYPE", ServerError{Problem: ProblemForeignKey, Fix: FixForeignKey, OneKey: true}},
	{"HEADGATE", ServerError{Problem: ProblemForeignKey, Fix: FixForeignKey, OneKey: true}},
	{"CROSSSLOT", ServerError{Problem: problemClustered, Fix: "use redis-cluster://", Permanent: true}},
	{"This instance has cluster support disabled", ServerError{
		Problem: "is not part of a cluster", Fix: "use redis:// for it, or the address of a server in cluster mode",
		Permanent: true,
	}},
	{"max number of clients", ServerError{
		Problem: "has no room for another connection", Fix: "raise its maxclients",
	}},
	{"DB index", ServerError{
		Problem: "has no database of that number", Fix: "use a smaller one in the URL, or raise its setting databases",
		Permanent: true,
	}},
	{"SELECT is not allowed", ServerError{
		Problem: "is part of a cluster, which has only database 0", Fix: "use redis-cluster:// and no database",
		Permanent: true,
	}},
	{"unknown command", ServerError{
		Problem: "does not know a command that the store needs",
		Fix:     "use Redis 6.0 or later, or Valkey, with Lua; a proxy must pass EVALSHA", Permanent: true,
	}},
	{"No such master", ServerError{
		Problem: "is a sentinel that does not know the primary's name",
		Fix:     "see SENTINEL MASTERS for the name to put after the hosts", Permanent: true,
	}},
}

// Explain turns an error of a call into a *ServerError. Nil, a *ServerError and headgate.ErrClosed are returned
// unchanged.
func (c *Client) Explain(err error, server string) error {
	err = Explain(err, server)
	var e *ServerError
	if !c.Clustered() && errors.As(err, &e) && e.Err != nil && strings.HasPrefix(e.Err.Error(), "MOVED ") {
		e.Problem, e.Fix = problemClustered, "use redis-cluster://"
	}
	return err
}

// Explain turns an error of a call to a server into a *ServerError. Nil, a *ServerError and headgate.ErrClosed are
// returned unchanged.
func Explain(err error, server string) error {
	var serverErr *ServerError
	if err == nil || errors.As(err, &serverErr) || errors.Is(err, headgate.ErrClosed) {
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
			return &ServerError{
				Server: server, Problem: "sent an empty reply where a value is expected", Err: err,
				Fix: "find out which proxy is in front of it",
			}
		}
		return explainReply(reply, server)
	}
	return noResponseError(err, server)
}

func explainReply(reply *rueidis.RedisError, server string) *ServerError {
	text := ReplyText(reply)
	for _, r := range errorReplies {
		if strings.HasPrefix(text, r.prefix) {
			e := r.ServerError
			e.Server, e.Err = server, reply
			return &e
		}
	}
	if isScriptFailure(reply) {
		return &ServerError{Server: server, Problem: ProblemForeignKey, Fix: FixForeignKey, Err: reply, OneKey: true}
	}
	return &ServerError{Server: server, Problem: "returned an error", Err: reply}
}

// isScriptFailure reports whether a script failed with a Lua error. This happens if another program has written to a
// key: scripts check most values, but not every entry of a list.
func isScriptFailure(reply error) bool {
	text := reply.Error()
	return strings.Contains(text, "user_script:") &&
		(strings.Contains(text, "bad argument #") || strings.Contains(text, "attempt to "))
}

// ReplyText returns the text of an error reply, without the prefix ERR, which the library usually removes, and without
// the prefix that Redis 6 adds to errors in scripts.
func ReplyText(err error) string {
	text := strings.TrimPrefix(err.Error(), "ERR ")
	if strings.HasPrefix(text, "Error running script") {
		text = strings.TrimPrefix(text[strings.LastIndex(text, ": ")+1:], " ")
		text = strings.TrimPrefix(text, "-")
	}
	return text
}

// noResponseError explains an error of a call that may have been sent.
func noResponseError(err error, server string) *ServerError {
	e := &ServerError{Server: server, Err: err, class: ErrNoResponse}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		e.Problem = "did not respond in time"
	case errors.Is(err, context.Canceled):
		e.Problem = "had not responded when the caller canceled"
	case rueidis.IsParseErr(err):
		e.Problem, e.Fix = "sent a reply of the wrong type", "make sure that it is Redis, in a supported version"
	default:
		e.Problem = "closed the connection"
	}
	return e
}

// explainDial explains why a connection could not be made.
func explainDial(err error, server string, usesTLS bool) error {
	var (
		serverErr *ServerError
		reply     *rueidis.RedisError
	)
	if errors.As(err, &serverErr) {
		return err
	}
	if errors.As(err, &reply) {
		e := explainReply(reply, server)
		if e.class == nil {
			e.class = ErrUnreachable
		}
		return e
	}
	e := explainTLS(err)
	if e == nil {
		e = explainSocket(err, usesTLS)
	}
	e.Server, e.Err, e.class = server, err, ErrUnreachable
	return e
}

const fixClientCert = "if it asks clients for a certificate, set tls_cert_file and tls_key_file"

// explainTLS explains an error of TLS, or returns nil if it is none.
func explainTLS(err error) *ServerError {
	var (
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		remote    *net.OpError
		record    tls.RecordHeaderError
		handshake *handshakeError
	)
	switch {
	case errors.As(err, &host):
		return &ServerError{
			Problem: "has a TLS certificate for another name", Permanent: true,
			Fix: "set tls_server_name to a name in it, or connect by that name",
		}
	case errors.As(err, &authority):
		return &ServerError{
			Problem: "has a TLS certificate of an unknown authority", Permanent: true,
			Fix: "set tls_ca_file to the authority's certificate",
		}
	case errors.As(err, &invalid), errors.As(err, &verify):
		return &ServerError{Problem: "has an invalid TLS certificate", Fix: "renew it", Permanent: true}
	case errors.As(err, &remote) && remote.Op == "remote error":
		return &ServerError{Problem: "refuses the TLS handshake", Fix: fixClientCert, Permanent: true}
	case errors.As(err, &record):
		return &ServerError{
			Problem: "does not speak TLS on this port", Permanent: true,
			Fix: "use redis:// instead of rediss://, or the port for TLS",
		}
	case isTimeout(err) && errors.As(err, &handshake):
		return &ServerError{
			Problem: "does not respond to the TLS handshake",
			Fix: "if it does not speak TLS on this port, use redis:// instead of rediss://, or the port for TLS; " +
				"otherwise see whether it hangs",
		}
	}
	return nil
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// explainSocket explains an error of the network.
func explainSocket(err error, usesTLS bool) *ServerError {
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return &ServerError{Problem: "has a name that is not found", Fix: "check the host in the URL"}
	case errors.Is(err, os.ErrNotExist):
		return &ServerError{
			Problem: "is unreachable: nothing listens there",
			Fix:     "start it, or check the path in the URL and the server's unixsocket",
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &ServerError{
			Problem: "is unreachable: nothing listens there", Fix: "start it, or check host and port in the URL",
		}
	case errors.Is(err, os.ErrPermission):
		return &ServerError{
			Problem: "may not be used by this user", Fix: "change the permissions of its socket (unixsocketperm)",
		}
	case isTimeout(err):
		return &ServerError{
			Problem: "cannot be reached in time", Fix: "see whether it hangs, and whether a firewall blocks it",
		}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		if usesTLS {
			return &ServerError{
				Problem: "closes new connections", Fix: fixClientCert + "; if it does not speak TLS, use redis://",
			}
		}
		return &ServerError{
			Problem: "closes new connections",
			Fix:     "if it wants TLS, use rediss:// or tls=true; if it has too many connections, raise its maxclients",
		}
	case strings.HasPrefix(err.Error(), notRESP):
		return &ServerError{
			Problem: "does not speak the Redis protocol", Fix: "check the port in the URL, and proxies in front of it",
		}
	}
	return &ServerError{Problem: "cannot be reached"}
}

// notRESP begins the client library's error for data that is not RESP. The library has no type for it.
const notRESP = "received unknown message type"

// A handshakeError is an error of a TLS handshake.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }
