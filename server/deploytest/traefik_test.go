package deploytest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	"github.com/goccy/go-yaml"
)

// The parts of traefik/dynamic.yaml that decide what becomes of a request. Fields that are not here are not taken.
type traefikConfig struct {
	HTTP struct {
		Routers map[string]struct {
			Rule        string   `yaml:"rule"`
			EntryPoints []string `yaml:"entryPoints"`
			Middlewares []string `yaml:"middlewares"`
			Service     string   `yaml:"service"`
		} `yaml:"routers"`
		Middlewares map[string]struct {
			Headers *struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			} `yaml:"headers"`
			ForwardAuth *struct {
				Address            string `yaml:"address"`
				TrustForwardHeader bool   `yaml:"trustForwardHeader"`
			} `yaml:"forwardAuth"`
		} `yaml:"middlewares"`
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

// A traefik does with a request what Traefik's documentation says of these middlewares. Debian has no Traefik to test
// with.
type traefik struct {
	t       *testing.T
	config  traefikConfig
	router  string
	auth    *http.Client
	service http.Handler
}

func (p *traefik) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, name := range p.config.HTTP.Routers[p.router].Middlewares {
		m := p.config.HTTP.Middlewares[name]
		if m.Headers != nil {
			for name, value := range m.Headers.CustomRequestHeaders {
				r.Header.Del(name)
				if value != "" {
					r.Header.Set(name, value)
				}
			}
		}
		if m.ForwardAuth != nil && !p.asks(w, r, m.ForwardAuth.Address) {
			return
		}
	}
	p.service.ServeHTTP(w, r)
}

// asks reports whether the service may answer: what is not 2xx goes to the client as it is.
func (p *traefik) asks(w http.ResponseWriter, r *http.Request, address string) bool {
	q, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		p.t.Error(err)
		return false
	}
	q.Header = r.Header.Clone()
	for _, name := range []string{"Connection", "Keep-Alive", "Te", "Trailers", "Transfer-Encoding", "Upgrade", "Content-Length"} {
		q.Header.Del(name)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		p.t.Error(err)
		return false
	}
	q.Header.Set("X-Forwarded-For", host)
	q.Header.Set("X-Forwarded-Method", r.Method)
	q.Header.Set("X-Forwarded-Proto", "http")
	q.Header.Set("X-Forwarded-Host", r.Host)
	q.Header.Set("X-Forwarded-Uri", r.URL.RequestURI())
	answer, err := p.auth.Do(q)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode/100 == 2 {
		return true
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // a client that is gone has no use for it
	return false
}

func TestTraefikWithForwardAuth(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	data, err := os.ReadFile(place(t, t.TempDir(), "traefik/dynamic.yaml", "127.0.0.1:8081", s.decider, "127.0.0.1:9000", s.service))
	if err != nil {
		t.Fatal(err)
	}
	p := &traefik{t: t, router: "service", auth: &http.Client{Timeout: patience}}
	if err := yaml.UnmarshalWithOptions(data, &p.config, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	router := p.config.HTTP.Routers[p.router]
	for _, name := range router.Middlewares {
		if m := p.config.HTTP.Middlewares[name]; m.Headers == nil && m.ForwardAuth == nil {
			t.Errorf("the router has a middleware %q that is not there", name)
		}
	}
	to, err := url.Parse(p.config.HTTP.Services[router.Service].LoadBalancer.Servers[0].URL)
	if err != nil || to.Host != s.service {
		t.Fatalf("got a service at %v, %v, want %s", to, err, s.service)
	}
	p.service = httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(p)
	defer front.Close()
	proxy{url: front.URL}.test(t, s)
}
