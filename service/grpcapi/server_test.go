package grpcapi

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/headgate/headgate/internal/grpcwire"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// junk is whatever bytes it is.
type junk struct{ b []byte }

func (j *junk) MarshalWire(dst []byte) ([]byte, error) { return append(dst, j.b...), nil }

func (j *junk) UnmarshalWire(b []byte) error {
	j.b = bytes.Clone(b)
	return nil
}

var forceWire = grpc.ForceCodecV2(grpcwire.Codec)

func TestEveryCallButACheckOfHealthNeedsTheToken(t *testing.T) {
	store := newStore(t, nil)
	_, address := start(t, Config{Token: newToken(t), Store: store})
	conn := dial(t, address)
	limiter := headgatev1.NewRateLimiterClient(conn)
	for name, tt := range map[string]struct {
		shown []string
		want  codes.Code
	}{
		"none":           {nil, codes.Unauthenticated},
		"the token":      {[]string{"Bearer " + tokenText}, codes.OK},
		"any case":       {[]string{"bearer " + tokenText}, codes.OK},
		"another":        {[]string{"Bearer another-token-of-sixteen"}, codes.Unauthenticated},
		"a part":         {[]string{"Bearer " + tokenText[:20]}, codes.Unauthenticated},
		"no scheme":      {[]string{tokenText}, codes.Unauthenticated},
		"two of them":    {[]string{"Bearer x", "Bearer " + tokenText}, codes.Unauthenticated},
		"another scheme": {[]string{"Basic " + tokenText}, codes.Unauthenticated},
	} {
		ctx := patient(t)
		for _, shown := range tt.shown {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", shown)
		}
		calls := map[string]func() error{
			"RateLimit": func() error { _, err := limiter.RateLimit(ctx, ask("a", "/")); return err },
			"Batch":     func() error { _, err := limiter.BatchRateLimit(ctx, &headgatev1.BatchRateLimitRequest{}); return err },
			"Store":     func() error { _, err := headgatev1.NewStoreClient(conn).Do(ctx, &headgatev1.DoRequest{}); return err },
			"Stream": func() error {
				stream, err := limiter.Stream(ctx)
				if err != nil {
					return err
				}
				if err := stream.CloseSend(); err != nil {
					return err
				}
				if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
					return err
				}
				return nil
			},
			"Watch": func() error {
				ctx, end := context.WithCancel(ctx)
				defer end()
				watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
				if err != nil {
					return err
				}
				_, err = watch.Recv()
				return err
			},
			"reflection": func() error {
				stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
				if err != nil {
					return err
				}
				if err := stream.CloseSend(); err != nil {
					return err
				}
				if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
					return err
				}
				return nil
			},
		}
		for call, do := range calls {
			if err := do(); status.Code(err) != tt.want {
				t.Errorf("%s with %s: got %v, want %v", call, name, err, tt.want)
			}
		}
		if got, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil ||
			got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health with %s: got %v, %v; want SERVING", name, got, err)
		}
	}
}

// A watch has no end, so that a connection may have a few of them only.
func TestWatchesOfAConnectionAreBounded(t *testing.T) {
	_, address := start(t, Config{})
	ctx, end := context.WithCancel(patient(t))
	defer end()
	watch := func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	conn := dial(t, address)
	first, endFirst := context.WithCancel(ctx)
	if err := watch(first, conn); err != nil {
		t.Fatal(err)
	}
	for range maxWatches - 1 {
		if err := watch(ctx, conn); err != nil {
			t.Fatal(err)
		}
	}
	if err := watch(ctx, conn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many: got %v, want ResourceExhausted", err)
	}
	if err := watch(ctx, dial(t, address)); err != nil {
		t.Errorf("another connection: got %v", err)
	}
	endFirst()
	until(t, "there is room again", func() bool { return watch(ctx, conn) == nil })
}

func TestHealthTellsOfEachService(t *testing.T) {
	s, address := start(t, Config{})
	s.SetServing("ratelimit", true)
	health := grpc_health_v1.NewHealthClient(dial(t, address))
	for name, want := range map[string]codes.Code{
		"": codes.OK, "headgate.v1.RateLimiter": codes.OK, "ratelimit": codes.OK, "headgate.v1.Store": codes.NotFound, "none": codes.NotFound,
	} {
		_, err := health.Check(patient(t), &grpc_health_v1.HealthCheckRequest{Service: name})
		if status.Code(err) != want {
			t.Errorf("%q: got %v, want %v", name, err, want)
		}
	}
}

// Reflection tells a caller that knows nothing, as grpcurl does, what there is and how it is called.
func TestReflectionTellsWhatThereIs(t *testing.T) {
	_, address := start(t, Config{Store: newStore(t, nil)})
	stream, err := grpc_reflection_v1.NewServerReflectionClient(dial(t, address)).ServerReflectionInfo(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	asked := func(r *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	list := asked(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	for _, want := range []string{"headgate.v1.RateLimiter", "headgate.v1.Store", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("services: got %q, want %s among them", names, want)
		}
	}
	got := asked(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "headgate.v1.RateLimiter"},
	})
	var methods []string
	for _, text := range got.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var f descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Service {
			for _, m := range s.Method {
				methods = append(methods, m.GetName())
			}
		}
	}
	methods = slices.DeleteFunc(methods, func(name string) bool { return name == batchStream }) // that of our own client
	if want := []string{"RateLimit", "BatchRateLimit", "Stream", "Release"}; !slices.Equal(methods, want) {
		t.Errorf("methods: got %q, want %q", methods, want)
	}
}

// Every method of the protos is served, and none besides.
func TestAllMethodsAreServed(t *testing.T) {
	for _, of := range []struct{ ours, generated grpc.ServiceDesc }{
		{rateLimiterDesc, headgatev1.RateLimiter_ServiceDesc}, {storeDesc, headgatev1.Store_ServiceDesc},
	} {
		names := func(d grpc.ServiceDesc) (all []string) {
			for _, m := range d.Methods {
				all = append(all, m.MethodName)
			}
			for _, s := range d.Streams {
				all = append(all, s.StreamName)
			}
			slices.Sort(all)
			return all
		}
		want := names(of.generated)
		if of.ours.ServiceName == rateLimiterDesc.ServiceName && !slices.Contains(want, batchStream) {
			want = append(want, batchStream) // that of our own client
			slices.Sort(want)
		}
		if got := names(of.ours); !slices.Equal(got, want) || of.ours.ServiceName != of.generated.ServiceName {
			t.Errorf("%s: got %q, want %q", of.generated.ServiceName, got, want)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s, address := start(t, Config{MaxConns: 3})
	var conns []*grpc.ClientConn
	for range 3 {
		conn := dial(t, address)
		if _, err := headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("a", "/")); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	if got := s.Conns().Open(); got != 3 {
		t.Fatalf("got %d connections, want 3", got)
	}
	fourth := headgatev1.NewRateLimiterClient(dial(t, address))
	if _, err := fourth.RateLimit(patient(t), ask("a", "/")); status.Code(err) != codes.Unavailable {
		t.Errorf("a fourth: got %v, want Unavailable", err)
	}
	if err := conns[0].Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "a place for the fourth", func() bool {
		_, err := fourth.RateLimit(patient(t), ask("a", "/"), grpc.WaitForReady(true))
		return err == nil
	})
}

func TestClientsThatPingTooOftenAreDisconnected(t *testing.T) {
	_, address := start(t, Config{MinPing: time.Hour})
	// grpc-go's client pings no more often than every ten seconds, so this one speaks HTTP/2 by hand.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	ping := append([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0}, "12345678"...)
	if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings...)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := conn.Write(ping); err != nil {
			break // it has closed already
		}
	}
	said, _ := io.ReadAll(conn) // a reset is an end too
	if !strings.Contains(string(said), "too_many_pings") {
		t.Errorf("got %q, want to be told too_many_pings", said)
	}
}

func TestShutdownLetsCallsFinishAndEndsStreams(t *testing.T) {
	store := &slowStore{newStore(t, nil), make(chan struct{}, 100), make(chan struct{})}
	s, err := New(Config{Engine: newEngine(t, store, parseRules(t, ruleText))})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn := dial(t, l.Addr().String())
	limiter := headgatev1.NewRateLimiterClient(conn)
	idle, err := limiter.Stream(patient(t)) // on which nothing comes
	if err != nil {
		t.Fatal(err)
	}
	busy, err := limiter.Stream(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Send(&headgatev1.StreamRequest{Id: 7, Request: ask("kim", "/api/x")}); err != nil {
		t.Fatal(err)
	}
	<-store.entered
	answered := make(chan error, 1)
	go func() {
		got, err := limiter.RateLimit(patient(t), ask("lee", "/api/x"))
		if err == nil && !got.Passed {
			err = errors.New("denied")
		}
		answered <- err
	}()
	<-store.entered
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(patient(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("got %v, %v; want SERVING", got, err)
	}
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(patient(t)) }()
	if got, err := watch.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("got %v, %v; want NOT_SERVING", got, err)
	}
	if _, err := idle.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("an idle stream: got %v, want Unavailable", err)
	}
	select {
	case err := <-down:
		t.Fatalf("shut down with calls under way: %v", err)
	default:
	}
	close(store.release)
	if err := <-answered; err != nil {
		t.Errorf("a call under way: got %v, want its answer", err)
	}
	if got, err := busy.Recv(); err != nil || got.Id != 7 || !got.Response.Passed {
		t.Errorf("a request on a stream: got %v, %v; want its answer", got, err)
	}
	if _, err := busy.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("its stream: got %v, want Unavailable", err)
	}
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestShutdownCutsOffWhatTakesTooLong(t *testing.T) {
	store := &slowStore{newStore(t, nil), make(chan struct{}, 100), make(chan struct{})}
	s, err := New(Config{Engine: newEngine(t, store, parseRules(t, ruleText))})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	limiter := headgatev1.NewRateLimiterClient(dial(t, l.Addr().String()))
	answered := make(chan error, 1)
	go func() {
		_, err := limiter.RateLimit(patient(t), ask("max", "/api/x"))
		answered <- err
	}()
	<-store.entered
	ctx, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer end()
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(ctx) }()
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	close(store.release) // a store returns when its context ends; this one is told
	if err := <-down; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: got %v, want that its time was over", err)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

// An authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// sign writes a certificate and its key into a directory.
func (a *authority) sign(dir, owner string) CertificateFiles {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: owner}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	files := CertificateFiles{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	write(a.t, files.CertFile, "CERTIFICATE", der)
	write(a.t, files.KeyFile, "PRIVATE KEY", secret)
	return files
}

// write puts a new file in the place of the old, as a careful operator does.
func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestCertificatesAndAuthoritiesAreReloaded(t *testing.T) {
	dir, clientDir := t.TempDir(), t.TempDir()
	servers, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	files := servers.sign(dir, "first")
	caFile := filepath.Join(dir, "clients.pem")
	write(t, caFile, "CERTIFICATE", clients.cert.Raw)
	log := new(book)
	s, address := start(t, Config{
		TLS: &TLS{Certificates: []CertificateFiles{files}, ClientCAFile: caFile, CheckFiles: time.Hour}, Logger: log.logger(),
	})
	mine := clients.sign(clientDir, "caller")
	pair, err := tls.LoadX509KeyPair(mine.CertFile, mine.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	call := func(c *tls.Config) (owner string, err error) {
		c.RootCAs = servers.pool
		c.VerifyConnection = func(state tls.ConnectionState) error {
			owner = state.PeerCertificates[0].Subject.CommonName
			return nil
		}
		conn := dial(t, address, grpc.WithTransportCredentials(credentials.NewTLS(c)))
		defer func() { _ = conn.Close() }()
		_, err = headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("nina", "/"))
		return owner, err
	}
	with := func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }
	if owner, err := call(with()); err != nil || owner != "first" {
		t.Fatalf("got %q, %v; want the first certificate", owner, err)
	}
	if _, err := call(&tls.Config{}); status.Code(err) != codes.Unavailable {
		t.Errorf("no certificate: got %v, want none served", err)
	}
	conn := dial(t, address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if _, err := headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("nina", "/")); status.Code(err) != codes.Unavailable {
		t.Errorf("no TLS: got %v, want none served", err)
	}

	servers.sign(dir, "second")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if owner, err := call(with()); err != nil || owner != "second" {
		t.Errorf("got %q, %v; want the second certificate", owner, err)
	}
	if err := os.WriteFile(files.CertFile, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || !strings.Contains(log.String(), "the old ones stay in use") {
		t.Errorf("junk: got %v and log %q, want both to say so", err, log.String())
	}
	if owner, err := call(with()); err != nil || owner != "second" {
		t.Errorf("after junk: got %q, %v; want the second certificate still", owner, err)
	}
	servers.sign(dir, "third")
	write(t, caFile, "CERTIFICATE", newAuthority(t, "others").cert.Raw)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := call(with()); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of authorities that are no more: got %v, want none served", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	e := newEngine(t, newStore(t, nil), nil)
	for name, c := range map[string]Config{
		"no engine":       {},
		"a small message": {Engine: e, MaxMessage: 10},
		"no batch":        {Engine: e, MaxBatch: -1},
		"no streams":      {Engine: e, MaxStreams: -1},
		"no connections":  {Engine: e, MaxConns: -1},
		"no one at once":  {Engine: e, Parallel: -1},
		"a ping too soon": {Engine: e, MinPing: -1},
		"no certificates": {Engine: e, TLS: &TLS{}},
		"no such file":    {Engine: e, TLS: &TLS{Certificates: []CertificateFiles{{CertFile: "none", KeyFile: "none"}}}},
		"an old TLS":      {Engine: e, TLS: &TLS{MinVersion: tls.VersionTLS11}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "grpcapi") {
			t.Errorf("%s: got %v, want an error of ours", name, err)
		}
	}
}
