package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	_ "net/http/pprof" // the proxies are profiled through it
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The environment variables of BenchmarkProxies, whose processes are all this test binary. The last two can be set for
// the benchmark itself: the size of responses, if not small, and the duration of each measurement.
const (
	roleVariable     = "HEADGATE_BENCH_ROLE"
	upstreamVariable = "HEADGATE_BENCH_UPSTREAM"
	bodyVariable     = "HEADGATE_BENCH_BODY"
	secondsVariable  = "HEADGATE_BENCH_SECONDS"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role, os.Getenv(upstreamVariable)); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// play runs the role of a benchmark process. It prints its address, and ends when its standard input ends.
func play(role, upstream string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var h http.Handler
	switch role {
	case "upstream":
		response := typicalResponse
		if n, err := strconv.Atoi(os.Getenv(bodyVariable)); err == nil {
			response = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: a/b\r\n\r\n%s", n, strings.Repeat("x", n))
		}
		return respondToAll(l, []byte(response))
	case "bare":
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":42,"name":"headgate"}`)
		})
	case "forward":
		p, err := New(Config{Address: upstream})
		if err != nil {
			return err
		}
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if out, err := p.Forward(r.Context(), w, r, Head{Target: r.URL.RequestURI()}); err != nil {
				if out.Sent {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status(err))
			}
		})
	case "reverseproxy":
		h = &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: upstream}) },
			Transport: &http.Transport{
				MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, MaxConnsPerHost: 1024, IdleConnTimeout: time.Minute,
				DisableCompression: true, ResponseHeaderTimeout: 30 * time.Second,
				ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
			},
			BufferPool: benchBuffers{},
			ErrorLog:   log.New(io.Discard, "", 0),
		}
	default:
		return errors.New("unknown role " + role)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.DefaultServeMux)
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/debug/") {
			mux.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
}

type benchBuffers struct{}

func (benchBuffers) Get() []byte  { return bodyBuffers.Get().(*bodyBuffer)[:] }
func (benchBuffers) Put(b []byte) { bodyBuffers.Put((*bodyBuffer)(b)) }

// respondToAll responds to every request, none of which has a body, with the same response.
func respondToAll(l net.Listener, response []byte) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			b := make([]byte, 4096)
			n := 0
			for {
				m, err := c.Read(b[n:])
				if err != nil {
					return
				}
				n += m
				if bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
					n = 0
					if _, err := c.Write(response); err != nil {
						return
					}
				}
			}
		}()
	}
}

// BenchmarkProxies measures a proxy on one core, with wrk and the upstream on the other, and the same proxy made with a
// tuned httputil.ReverseProxy beside it. The measurements alternate, so that other load on the machine affects both.
//
//	go test -run '^$' -bench Proxies -benchtime 5x ./gateway/upstream
func BenchmarkProxies(b *testing.B) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		b.Fatal("wrk is missing: apt-get install -y wrk")
	}
	upstream := startRole(b, "upstream", "", "1")
	names := []string{"forward", "reverseproxy", "bare"}
	proxies := map[string]process{}
	for _, name := range names {
		proxies[name] = startRole(b, name, upstream.address, "0")
	}
	rates, costs, rounds := map[string]float64{}, map[string]float64{}, 0.0
	for b.Loop() {
		rounds++
		for _, name := range names {
			rate, cost := measure(b, wrk, proxies[name])
			b.Logf("%-13s %8.0f/s %6.1f µs", name, rate, cost)
			rates[name] += rate
			costs[name] += cost
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, name := range names {
		b.ReportMetric(rates[name]/rounds, name+"/s")
		b.ReportMetric(costs[name]/rounds, name+"-µs")
	}
	b.ReportMetric(rates["forward"]/rates["reverseproxy"], "ratio")
	b.ReportMetric(costs["reverseproxy"]/costs["forward"], "ratio-of-cpu")
}

var wrkRate = regexp.MustCompile(`(\d+) requests in [\s\S]*Requests/sec:\s+([\d.]+)`)

// measure returns how many requests a second a proxy serves, and the processor time of each in µs. The latter is
// more reliable on a busy machine.
func measure(b *testing.B, wrk string, proxy process) (rate, cost float64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seconds := os.Getenv(secondsVariable)
	if seconds == "" {
		seconds = "3"
	}
	before := proxy.cpu(b)
	out, err := exec.CommandContext(ctx, "taskset", "-c", "1", wrk, "-t1", "-c64", "-d"+seconds+"s",
		"-H", "User-Agent: bench/1.0", "-H", "Accept: application/json", "-H", "X-Api-Key: 0123456789abcdef",
		"http://"+proxy.address+"/v1/items/42?expand=all").CombinedOutput()
	if err != nil {
		b.Fatalf("wrk: %v\n%s", err, out)
	}
	used := proxy.cpu(b) - before
	found := wrkRate.FindSubmatch(out)
	if found == nil || bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
		b.Fatalf("wrk saw errors:\n%s", out)
	}
	requests, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	if rate, err = strconv.ParseFloat(string(found[2]), 64); err != nil {
		b.Fatal(err)
	}
	return rate, float64(used.Microseconds()) / requests
}

type process struct {
	address string
	pid     int
}

// cpu returns how much processor time the process has used.
func (p process) cpu(b *testing.B) time.Duration {
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(p.pid) + "/task")
	if err != nil {
		b.Fatal(err)
	}
	var sum int64
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/task/" + task.Name() + "/schedstat")
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum)
}

// startRole starts a process of the benchmark on a core.
func startRole(b *testing.B, role, upstream, core string) process {
	cmd := exec.Command("taskset", "-c", core, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, upstreamVariable+"="+upstream, "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return process{address: strings.TrimSpace(line), pid: cmd.Process.Pid}
}
