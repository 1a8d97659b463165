package envoyrls_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// The files testdata/cases/*.txt have one step in each line:
//
//	configuration, rules     the indented lines below are a file, which takes effect immediately
//	options WORD…            before the first of them: headers, dynamic-metadata, take-only (denied hits do not count)
//	at DURATION              the time, since a moment at which windows of all units begin
//	ask DOMAIN [hits=N]: DESCRIPTOR | DESCRIPTOR… -> CODE: STATUS | STATUS…
//	ask … -> error CODE
//	headers NAME=VALUE…      headers of the last response
//	metadata JSON            metadata of the last response
//
// A DESCRIPTOR is entries "key=value, key=value", with hits=N, give=N or limit=N/UNIT or limit=N/MxUNIT in front; a
// STATUS is a code and, if there is a limit, "REMAINING of REQUESTS/UNIT in RESETs" and its name in quotes.

func TestCasesInMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, now func() time.Time) headgate.Limiter {
		s, err := memstore.New(memstore.Options{MaxBytes: 8 << 20, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func TestCasesInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	n := 0
	each(t, func(t *testing.T, now func() time.Time) headgate.Limiter {
		n++
		s, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Prefix: "case" + strconv.Itoa(n), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

// each replays every file, each with its own store.
func each(t *testing.T, open func(t *testing.T, now func() time.Time) headgate.Limiter) {
	t.Helper()
	paths, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			replay(t, path, open)
		})
	}
}

// begin is when windows of all units begin: 15330 days are whole weeks, months of 30 days and years of 365.
var begin = time.Unix(15330*86400, 0)

// A script is a file of cases that is being replayed.
type script struct {
	t      *testing.T
	name   string
	line   int
	clock  atomic.Int64 // Unix microseconds
	dir    string
	config envoyrls.Config
	server *envoyrls.Server
	engine *engine.Engine
	client rlspb.RateLimitServiceClient
	last   *rlspb.RateLimitResponse
}

func replay(t *testing.T, path string, open func(t *testing.T, now func() time.Time) headgate.Limiter) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, name: path, dir: t.TempDir()}
	s.clock.Store(begin.UnixMicro())
	s.config = envoyrls.Config{
		Store: open(t, s.now), CountDenied: true, Now: s.now,
		Logger: slog.New(slog.DiscardHandler), OnError: func(err error) { s.fail("the store failed: %v", err) },
	}
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	asked := 0
	var pending []string // lines of the file that is being read
	var kind string
	flush := func() {
		if kind != "" {
			s.load(kind, strings.Join(pending, "\n"))
		}
		kind, pending = "", nil
	}
	for lines.Scan() {
		s.line++
		text := lines.Text()
		if kind != "" && (strings.HasPrefix(text, "  ") || strings.TrimSpace(text) == "") {
			pending = append(pending, text)
			continue
		}
		flush()
		word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch word {
		case "", "#":
		case "configuration", "rules":
			kind = word
		case "options":
			s.options(rest)
		case "at":
			d, err := time.ParseDuration(rest)
			if err != nil {
				s.fail("%v", err)
			}
			s.clock.Store(begin.Add(d).UnixMicro())
		case "ask":
			s.ask(rest)
			asked++
		case "headers":
			s.headers(rest)
		case "metadata":
			s.metadata(rest)
		default:
			s.fail("what is %q?", word)
		}
	}
	if asked == 0 {
		t.Fatal("nothing was asked")
	}
}

func (s *script) now() time.Time { return time.UnixMicro(s.clock.Load()) }

func (s *script) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s:%d: %s", s.name, s.line, fmt.Sprintf(format, args...))
}

func (s *script) options(text string) {
	for word := range strings.FieldsSeq(text) {
		switch word {
		case "headers":
			s.config.ResponseHeaders = true
		case "take-only":
			s.config.CountDenied = false
		case "dynamic-metadata":
			s.config.DynamicMetadata = true
		default:
			s.fail("what is the option %q?", word)
		}
	}
}

func (s *script) load(kind, text string) {
	s.t.Helper()
	if kind == "rules" {
		s.loadRules(text)
		return
	}
	if err := os.WriteFile(filepath.Join(s.dir, "limits.yaml"), []byte(text), 0o600); err != nil {
		s.fail("%v", err)
	}
	if s.server != nil {
		if err := s.server.Reload(); err != nil {
			s.fail("%v", err)
		}
		return
	}
	s.config.Path = s.dir
	s.serve()
}

func (s *script) loadRules(text string) {
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		s.fail("%v", err)
	}
	set, err := doc.Compile()
	if err != nil {
		s.fail("%v", err)
	}
	if s.engine != nil {
		if err := s.engine.SetRules(set); err != nil {
			s.fail("%v", err)
		}
		return
	}
	s.engine, err = engine.New(engine.Config{Store: s.config.Store, Rules: set})
	if err != nil {
		s.fail("%v", err)
	}
	s.config.Engine, s.config.CountDenied = s.engine, false
	s.serve()
}

func (s *script) serve() {
	server, err := envoyrls.New(s.config)
	if err != nil {
		s.fail("%v", err)
	}
	s.server, s.client = server, dial(s.t, server)
}

func (s *script) ask(text string) {
	s.t.Helper()
	question, want, found := strings.Cut(text, "->")
	if !found {
		s.fail("ask …: want … -> what the answer is")
	}
	domain, list, _ := strings.Cut(question, ":")
	request := &rlspb.RateLimitRequest{}
	for word := range strings.FieldsSeq(domain) {
		if n, ok := strings.CutPrefix(word, "hits="); ok {
			request.HitsAddend = uint32(s.number(n))
		} else {
			request.Domain = word
		}
	}
	if strings.TrimSpace(list) != "" {
		for text := range strings.SplitSeq(list, "|") {
			request.Descriptors = append(request.Descriptors, s.descriptor(text))
		}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	answer, err := s.client.ShouldRateLimit(ctx, request)
	got := ""
	if err != nil {
		got = "error " + grpcstatus.Code(err).String()
	} else {
		got = answerText(answer)
	}
	s.last = answer
	if want := strings.Join(strings.Fields(want), " "); got != want {
		s.t.Errorf("%s:%d: %s\n got %s\nwant %s", s.name, s.line, strings.TrimSpace(question), got, want)
	}
}

func (s *script) number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s.fail("%v", err)
	}
	return n
}

func (s *script) descriptor(text string) *ratelimitpb.RateLimitDescriptor {
	d := &ratelimitpb.RateLimitDescriptor{}
	text = strings.TrimSpace(text)
	for {
		word, rest, _ := strings.Cut(text, " ")
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "hits", "give":
			d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(s.number(value)), name == "give"
		case "limit":
			requests, unit, _ := strings.Cut(value, "/")
			d.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(s.number(requests))}
			if times, of, ok := strings.Cut(unit, "x"); ok {
				d.Limit.UnitMultiplier, unit = wrapperspb.UInt32(uint32(s.number(times))), of
			}
			d.Limit.Unit = typepb.RateLimitUnit(typepb.RateLimitUnit_value[unit])
		default:
			for pair := range strings.SplitSeq(text, ",") {
				key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
				d.Entries = append(d.Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: key, Value: value})
			}
			return d
		}
		text = strings.TrimSpace(rest)
	}
}

// answerText writes a response in the form of the case files.
func answerText(r *rlspb.RateLimitResponse) string {
	var parts []string
	for _, st := range r.Statuses {
		text := st.Code.String()
		if l := st.CurrentLimit; l != nil {
			unit := l.Unit.String()
			if l.UnitMultiplier != nil {
				unit = fmt.Sprint(l.UnitMultiplier.Value, "x", unit)
			}
			text += fmt.Sprintf(" %d of %d/%s in %ds", st.LimitRemaining, l.RequestsPerUnit, unit, st.DurationUntilReset.GetSeconds())
			if l.Name != "" {
				text += " " + strconv.Quote(l.Name)
			}
			if st.DurationUntilReset == nil {
				text += " (no reset)"
			}
		} else if st.LimitRemaining != 0 {
			text += fmt.Sprintf(" %d", st.LimitRemaining)
		}
		parts = append(parts, text)
	}
	return r.OverallCode.String() + ": " + strings.Join(parts, " | ")
}

func (s *script) headers(want string) {
	s.t.Helper()
	var got []string
	for _, h := range s.last.GetResponseHeadersToAdd() {
		got = append(got, h.Key+"="+h.Value)
	}
	if got := strings.Join(got, " "); got != want {
		s.t.Errorf("%s:%d: headers\n got %s\nwant %s", s.name, s.line, got, want)
	}
}

func (s *script) metadata(want string) {
	s.t.Helper()
	got := ""
	if m := s.last.GetDynamicMetadata(); m != nil {
		data, err := protojson.Marshal(m)
		if err != nil {
			s.fail("%v", err)
		}
		got = strings.ReplaceAll(string(data), " ", "")
	}
	if got != strings.ReplaceAll(want, " ", "") {
		s.t.Errorf("%s:%d: metadata\n got %s\nwant %s", s.name, s.line, got, want)
	}
}
