package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// http2Connections is the number of HTTP/2 connections. Each has site.HTTP2Streams requests in flight.
const http2Connections = 16

// HTTP2Fronts are the servers that are measured with HTTP/2 over TLS.
func HTTP2Fronts() []site.Front {
	return []site.Front{
		{
			Name: "headgate", Title: fmt.Sprintf("**headgate**, %d rules, of which one applies", RuleCount),
			Role: harness.Ours, HTTP2: true, Open: openHeadgateHTTP2,
		},
		{
			Name: "nginx", Title: "nginx, limit_req", Role: harness.Peer, Program: "nginx", HTTP2: true,
			Open: openNginxHTTP2,
		},
		{
			Name: "haproxy", Title: "HAProxy, stick table", Role: harness.Peer, Program: "haproxy", HTTP2: true,
			Open: openHAProxyHTTP2,
		},
	}
}

// runHTTP2 compares proxies at full load with HTTP/2 over TLS.
func runHTTP2(ctx context.Context, b *harness.Bench) error {
	const id = "http2"
	s, err := site.OpenSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.Close()
	fronts, err := s.OpenAll(ctx, HTTP2Fronts(), func(name string) { b.Progress.At(0, id+", opening", name) })
	if err != nil {
		return err
	}
	loads := make([][]site.Load, len(fronts))
	err = gatewayTurns(b, id, fronts, 0.02, func(round, i int) error {
		l, err := s.LoadHTTP2(ctx, fronts[i], http2Connections, b.Sizes.LoadLength)
		if err == nil && round > 0 {
			loads[i] = append(loads[i], l)
		}
		return err
	})
	if err != nil {
		return err
	}
	table := harness.LoadTable{
		ID: id, Connections: http2Connections,
		Title: fmt.Sprintf("Passing requests on over HTTP/2 and TLS, %d at once on each connection", site.HTTP2Streams),
	}
	for i, f := range fronts {
		table.Rows = append(table.Rows, NewLoadRow(f.Front, loads[i]))
	}
	b.Results.Load = append(b.Results.Load, table)
	return nil
}

// openHeadgateHTTP2 starts the headgate program with a certificate.
func openHeadgateHTTP2(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	path, err := s.Bench.BuildHeadgate(ctx)
	if err != nil {
		return site.RunningServer{}, err
	}
	files, err := s.Certificate()
	if err != nil {
		return site.RunningServer{}, err
	}
	dir, err := os.MkdirTemp(s.Dir, "headgate-")
	if err != nil {
		return site.RunningServer{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rulesOfWhichOneApplies()), 0o644); err != nil {
		return site.RunningServer{}, err
	}
	config := filepath.Join(dir, "headgate.yaml")
	text := fmt.Sprintf(http2Config, filepath.Join(dir, "rules.yaml"), files.Cert, files.Key, s.Upstream)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return site.RunningServer{}, err
	}
	p, err := s.Start(s.FrontCore, exec.Command(path, "serve", "--config", config))
	if err != nil {
		return site.RunningServer{}, err
	}
	var l struct{ Gateway string }
	err = p.Await(ctx, func() error { return p.Said.Object(`"msg":"listening"`, &l) })
	return site.RunningServer{Address: l.Gateway, Process: p}, err
}

const http2Config = `
rules: %[1]s
gateway:
  listeners:
    - addr: 127.0.0.1:0
      tls: { certificates: [{ cert_file: %[2]s, key_file: %[3]s }] }
  routes:
    - { path: /, upstreams: "http://%[4]s" }
admin_addr: 127.0.0.1:0
api_addr: off
grpc_addr: off
resp_addr: off
`
